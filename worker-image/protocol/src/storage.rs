//! What a browser keeps for sites, in the shape of Playwright's `storageState`: cookies, and the storage of each origin.
//!
//! The shape has two members more than Playwright's: `sessionStorage` of an origin, which belongs to a tab, and `warnings`.

mod database;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod private_file;
mod size;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

pub use database::{Database, Entry, Index, ObjectStore};
pub use private_file::{PrivateFile, PrivateFileKind};
use size::length;

/// The most cookies of one state. Chromium itself keeps 3,300 at most.
const MAX_COOKIES: usize = 10_000;
/// The most origins of one state: a browser has to visit each.
const MAX_ORIGINS: usize = 200;
/// The longest name and value of a cookie together, in bytes, which all browsers keep.
const MAX_COOKIE: usize = 4096;

/// Everything that a browser keeps for sites.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StorageState {
    /// Cookies of all sites.
    #[serde(default)]
    pub cookies: Vec<Cookie>,
    /// What each origin has stored.
    #[serde(default)]
    pub origins: Vec<OriginStorage>,
    /// Passkeys, which Playwright may write. They are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<Value>,
    /// What could not be read, each as a sentence. Nothing comes of them where a state is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Origins that keep something which could not be read, at all or in part; a warning says why. Nothing comes of them where a
    /// state is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// A cookie.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cookie {
    /// Its name, which may be empty.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The host it is for; with a dot in front, the hosts below it too.
    pub domain: String,
    /// The path it is for.
    pub path: String,
    /// When it expires, in seconds since 1970; -1 for the end of the browser.
    #[serde(default = "session_cookie")]
    pub expires: f64,
    /// Whether scripts cannot read it.
    #[serde(default)]
    pub http_only: bool,
    /// Whether it is sent by https alone.
    #[serde(default)]
    pub secure: bool,
    /// Which requests from other sites carry it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_site: Option<SameSite>,
    /// The site of the page in which alone it exists (CHIPS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_key: Option<String>,
    /// Whether a frame of another site lies between that page and the cookie's.
    #[serde(rename = "_crHasCrossSiteAncestor", default, skip_serializing_if = "Option::is_none")]
    pub has_cross_site_ancestor: Option<bool>,
}

const fn session_cookie() -> f64 {
    -1.0
}

/// Which requests from other sites carry a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SameSite {
    /// None.
    Strict,
    /// Those of a navigation.
    Lax,
    /// All.
    None,
}

/// What one origin has stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OriginStorage {
    /// The origin, such as `https://example.com`.
    pub origin: String,
    /// Its local storage.
    #[serde(default)]
    pub local_storage: Vec<Item>,
    /// Its session storage in the first tab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub session_storage: Vec<Item>,
    /// Its databases.
    #[serde(rename = "indexedDB", default, skip_serializing_if = "Vec::is_empty")]
    pub indexed_db: Vec<Database>,
    /// Its private files (OPFS), each directory before what is in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opfs: Vec<PrivateFile>,
}

/// An entry of local or session storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Item {
    /// Its key.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// What in a state cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct StorageError {
    /// Where, such as `cookies[3].domain`.
    pub place: String,
    /// What is wrong.
    pub reason: String,
}

/// Body of `POST /storage`: what is to be read.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct StorageQuery {
    /// The most bytes that all origins together may have, as JSON.
    pub limit: u64,
    /// Whether origins are read that no tab shows. The browser then visits each, in a tab that only its clients see.
    pub everywhere: bool,
    /// How long reading may take, in milliseconds. Origins whose turn does not come within it stay unread.
    pub time_ms: u64,
}

/// A state without what only its first reader needs.
#[derive(Serialize)]
struct Lasting<'a> {
    cookies: &'a [Cookie],
    origins: &'a [OriginStorage],
    #[serde(skip_serializing_if = "<[Value]>::is_empty")]
    credentials: &'a [Value],
}

/// The most bytes that a state may have as JSON when its origins have no more than `limit`. There may be several for one byte
/// that a page has stored.
#[must_use]
pub fn longest_state(limit: u64) -> u64 {
    limit.saturating_mul(6).max(16 << 20)
}

impl StorageState {
    /// The state as JSON, without its warnings.
    /// Errors: never, as long as it is made of texts and numbers.
    pub fn lasting_json(&self) -> serde_json::Result<Vec<u8>> {
        let Self { cookies, origins, credentials, warnings: _, unread: _ } = self;
        serde_json::to_vec(&Lasting { cookies, origins, credentials })
    }

    /// Notes that an origin could not be read, and why.
    pub fn leave_unread(&mut self, origin: String, reason: &dyn std::fmt::Display) {
        self.warnings.push(format!("{origin}: left out: {reason}"));
        self.unread.push(origin);
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cookies.is_empty() && self.origins.is_empty()
    }

    /// Checks what the types alone do not.
    /// Errors: the first part that is wrong.
    pub fn check(&self) -> Result<(), StorageError> {
        let wrong = |place: &str, reason| Err(StorageError { place: place.to_owned(), reason });
        if self.cookies.len() > MAX_COOKIES {
            return wrong("cookies", format!("may have {MAX_COOKIES} entries at most"));
        }
        if self.origins.len() > MAX_ORIGINS {
            return wrong("origins", format!("may have {MAX_ORIGINS} entries at most"));
        }
        for (at, cookie) in self.cookies.iter().enumerate() {
            if let Err((member, reason)) = cookie.check() {
                return wrong(&format!("cookies[{at}].{member}"), reason);
            }
        }
        let mut seen = HashSet::new();
        for (at, origin) in self.origins.iter().enumerate() {
            if let Err((member, reason)) = origin.check() {
                return wrong(&format!("origins[{at}].{member}"), reason);
            }
            if !seen.insert(&origin.origin) {
                return wrong(&format!("origins[{at}].origin"), "is there twice: write each origin once".to_owned());
            }
        }
        Ok(())
    }

    /// What no engine takes, each as a sentence.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        let mut left_out = Vec::new();
        if !self.credentials.is_empty() {
            left_out.push("state.credentials: passkeys are left out".to_owned());
        }
        left_out
    }

    /// Leaves out the origins that are too many, or too large as JSON together, for a state that is given; a warning names each.
    pub fn bound(&mut self, limit: u64) {
        // What is around the two lists.
        const FRAME: u64 = 64;
        let mut left = limit.saturating_sub(length(&self.cookies) + FRAME);
        let mut kept = Vec::with_capacity(self.origins.len().min(MAX_ORIGINS));
        for origin in std::mem::take(&mut self.origins) {
            // With the comma behind it.
            let size = length(&origin) + 1;
            if kept.len() >= MAX_ORIGINS {
                self.leave_unread(origin.origin, &format_args!("a state may have {MAX_ORIGINS} origins at most"));
            } else if size > left {
                self.leave_unread(origin.origin, &format_args!("with it the state would be larger than it may be"));
            } else {
                left -= size;
                kept.push(origin);
            }
        }
        self.origins = kept;
    }
}

type Wrong = (String, String);

fn wrong<T>(member: impl Into<String>, reason: impl Into<String>) -> Result<T, Wrong> {
    Err((member.into(), reason.into()))
}

impl Cookie {
    fn check(&self) -> Result<(), Wrong> {
        // The grammar of RFC 6265bis, section 5.6, as browsers read it.
        let is_control = |c: char| c.is_control() && c != '\t';
        if self.name.contains([';', '=']) || self.name.contains(is_control) {
            return wrong("name", "may hold neither `;` nor `=` nor control characters");
        }
        if self.value.contains(';') || self.value.contains(is_control) {
            return wrong("value", "may hold neither `;` nor control characters");
        }
        if self.name.is_empty() && self.value.is_empty() {
            return wrong("name", "may not be empty where the value is");
        }
        if self.name.len() + self.value.len() > MAX_COOKIE {
            return wrong("value", format!("may have {MAX_COOKIE} bytes at most, together with the name"));
        }
        if !self.path.starts_with('/') || self.path.contains(';') || self.path.contains(is_control) {
            return wrong("path", "must begin with `/`, and may hold neither `;` nor control characters");
        }
        if let Some(site) = &self.partition_key
            && !is_origin(site)
        {
            return wrong("partitionKey", "must be a site, such as https://example.com");
        }
        if !self.expires.is_finite() {
            return wrong("expires", "must be a number of seconds since 1970, or -1");
        }
        let host = self.domain.strip_prefix('.').unwrap_or(&self.domain);
        let url = Url::parse(&format!("http://{host}/")).ok();
        let Some(parsed) = url.as_ref().filter(|url| url.host_str() == Some(host) && url.port().is_none()) else {
            return wrong("domain", format!("must be a host name in lower case, such as example.com, and is {host:?}"));
        };
        let is_address = !matches!(parsed.host(), Some(url::Host::Domain(_)));
        if is_address && self.domain.starts_with('.') {
            return wrong("domain", "is an address, which has no hosts below it: leave the first dot out");
        }
        Ok(())
    }

    /// Whether hosts below its domain get it too.
    #[must_use]
    pub fn is_for_subdomains(&self) -> bool {
        self.domain.starts_with('.')
    }

    /// Its host, without the dot.
    #[must_use]
    pub fn host(&self) -> &str {
        self.domain.strip_prefix('.').unwrap_or(&self.domain)
    }
}

impl OriginStorage {
    /// How long it is as JSON, in bytes.
    #[must_use]
    pub fn json_length(&self) -> u64 {
        length(self)
    }

    /// Takes what it lacks from what the same origin had before: kinds of storage that are empty, databases and private files.
    pub fn add_missing(&mut self, before: Self) {
        if self.local_storage.is_empty() {
            self.local_storage = before.local_storage;
        }
        if self.session_storage.is_empty() {
            self.session_storage = before.session_storage;
        }
        let databases: HashSet<String> = self.indexed_db.iter().map(|database| database.name.clone()).collect();
        self.indexed_db.extend(before.indexed_db.into_iter().filter(|database| !databases.contains(&database.name)));
        let files: HashSet<String> = self.opfs.iter().map(|file| file.path.clone()).collect();
        self.opfs.extend(before.opfs.into_iter().filter(|file| !files.contains(&file.path)));
        // Each directory before what is in it.
        self.opfs.sort_by(|a, b| a.path.cmp(&b.path));
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.session_storage.is_empty() && !self.has_shared()
    }

    /// Whether there is something that all tabs of the origin share.
    #[must_use]
    pub fn has_shared(&self) -> bool {
        !(self.local_storage.is_empty() && self.indexed_db.is_empty() && self.opfs.is_empty())
    }

    fn check(&self) -> Result<(), Wrong> {
        if !is_origin(&self.origin) {
            let reason = "must be scheme, host and port alone, such as https://example.com";
            return wrong("origin", format!("{reason}, and is {:?}", self.origin));
        }
        for (kind, items) in [("localStorage", &self.local_storage), ("sessionStorage", &self.session_storage)] {
            let mut seen = HashSet::new();
            if let Some(at) = items.iter().position(|item| !seen.insert(&item.name)) {
                return wrong(format!("{kind}[{at}].name"), "is there twice: write each name once");
            }
        }
        let mut names = HashSet::new();
        for (at, database) in self.indexed_db.iter().enumerate() {
            let place = format!("indexedDB[{at}]");
            if !names.insert(&database.name) {
                return wrong(format!("{place}.name"), "is there twice: write each name once");
            }
            database.check().map_err(|(member, reason)| (format!("{place}.{member}"), reason))?;
        }
        let mut paths = HashSet::new();
        for (at, file) in self.opfs.iter().enumerate() {
            let place = format!("opfs[{at}]");
            if !paths.insert(&file.path) {
                return wrong(format!("{place}.path"), "is there twice: write each path once");
            }
            file.check().map_err(|(member, reason)| (format!("{place}.{member}"), reason))?;
        }
        Ok(())
    }
}

/// Whether a text is the origin of a site of the web, and nothing more.
fn is_origin(text: &str) -> bool {
    let parsed = Url::parse(text).ok();
    parsed.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.origin().ascii_serialization() == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cookie() -> Value {
        json!({"name": "a", "value": "b", "domain": ".example.com", "path": "/", "expires": -1, "httpOnly": false,
            "secure": true, "sameSite": "Lax"})
    }

    fn with(member: &str, value: Value) -> Value {
        let mut cookie = cookie();
        cookie[member] = value;
        json!({"cookies": [cookie]})
    }

    fn place(state: Value) -> String {
        let state: StorageState = serde_json::from_value(state).unwrap();
        state.check().map_or_else(|error| error.place, |()| String::new())
    }

    #[test]
    fn what_playwright_writes_is_taken_and_given_back() {
        let state = json!({"cookies": [cookie()], "origins": [{
            "origin": "https://example.com",
            "localStorage": [{"name": "a", "value": "b"}],
            "indexedDB": [{"name": "db", "version": 2, "stores": [{
                "name": "s", "autoIncrement": false, "indexes": [
                    {"name": "i", "keyPath": "x", "multiEntry": false, "unique": true}],
                "records": [{"key": null, "value": null}, {"keyEncoded": {"d": "2020"}, "valueEncoded": {"v": "NaN"}}],
            }]}],
        }]});
        let read: StorageState = serde_json::from_value(state.clone()).unwrap();
        assert_eq!(read.check(), Ok(()));
        let mut wanted = state;
        wanted["cookies"][0]["expires"] = json!(-1.0);
        assert_eq!(serde_json::to_value(&read).unwrap(), wanted);
    }

    #[test]
    fn wrong_cookies_are_found_at_their_place() {
        for (member, value) in [
            ("name", json!("a;b")),
            ("name", json!("a=b")),
            ("value", json!("a\nb")),
            ("value", json!("x".repeat(4096))),
            ("domain", json!("")),
            ("domain", json!("Example.com")),
            ("domain", json!("https://example.com")),
            ("domain", json!("example.com:80")),
            ("domain", json!("example.com/x")),
            ("domain", json!(".10.0.0.1")),
            ("path", json!("")),
            ("path", json!("x")),
        ] {
            assert_eq!(place(with(member, value.clone())), format!("cookies[0].{member}"), "{value}");
        }
        for (member, value) in [("domain", json!("10.0.0.1")), ("domain", json!("[::1]")), ("name", json!(""))] {
            assert_eq!(place(with(member, value)), "");
        }
    }

    #[test]
    fn wrong_origins_are_found_at_their_place() {
        let origin = |origin: &str| json!({"origins": [{"origin": origin}]});
        for wrong in ["", "example.com", "https://example.com/", "https://EXAMPLE.com", "ftp://a.b", "https://a.b:443"]
        {
            assert_eq!(place(origin(wrong)), "origins[0].origin", "{wrong}");
        }
        assert_eq!(place(origin("http://localhost:3000")), "");
        let twice = json!({"origins": [{"origin": "https://a.b"}, {"origin": "https://a.b"}]});
        assert_eq!(place(twice), "origins[1].origin");
        let store = |records: Value, path: Value| {
            json!({"origins": [{"origin": "https://a.b", "indexedDB": [{"name": "d", "version": 1, "stores": [
                {"name": "s", "autoIncrement": false, "keyPath": path, "indexes": [], "records": records}]}]}]})
        };
        let at = "origins[0].indexedDB[0].stores[0].records[0]";
        assert_eq!(place(store(json!([{"value": 1}]), Value::Null)), at);
        assert_eq!(place(store(json!([{"key": 1}]), Value::Null)), at);
        assert_eq!(place(store(json!([{"key": 1, "value": 1}]), json!("x"))), at);
        assert_eq!(place(store(json!([{"value": {"x": 1}}]), json!("x"))), "");
    }

    #[test]
    fn a_foreign_shape_is_refused() {
        for wrong in [json!({"cookies": {}}), json!({"Cookies": []}), json!({"cookies": [{"name": "a"}]})] {
            assert!(serde_json::from_value::<StorageState>(wrong).is_err());
        }
    }

    #[test]
    fn what_no_engine_takes_is_named() {
        let state: StorageState = serde_json::from_value(json!({"credentials": [{}]})).unwrap();
        assert_eq!(state.left_out().len(), 1);
    }

    #[test]
    fn wrong_private_files_are_found_at_their_place() {
        let files = |files: Value| json!({"origins": [{"origin": "https://a.b", "opfs": files}]});
        let file = |path: &str, base64: &str| json!({"path": path, "type": "file", "base64": base64});
        for path in ["", "/a", "a/", "a//b", ".", "a/..", "a\\b"] {
            assert_eq!(place(files(json!([file(path, "")]))), "origins[0].opfs[0].path", "{path}");
        }
        for base64 in ["a", "a===", "=", "ab=", "a b=", "ab-_"] {
            assert_eq!(place(files(json!([file("a", base64)]))), "origins[0].opfs[0].base64", "{base64}");
        }
        let directory = json!({"path": "a", "type": "directory"});
        assert_eq!(place(files(json!([directory, file("a/b", "YQ=="), file("c", "YWI"), file("d", "")]))), "");
        assert_eq!(place(files(json!([directory, directory]))), "origins[0].opfs[1].path");
        assert_eq!(place(files(json!([{"path": "a", "type": "file"}]))), "origins[0].opfs[0].base64");
        assert_eq!(
            place(files(json!([{"path": "a", "type": "directory", "base64": ""}]))),
            "origins[0].opfs[0].base64"
        );
    }

    #[test]
    fn a_partition_is_a_site() {
        let cookie = |site: &str| json!({"cookies": [{"name": "a", "value": "b", "domain": "a.b", "path": "/", "partitionKey": site}]});
        for wrong in ["nonsense", "", "example.com", "https://example.com/", "file:///"] {
            assert_eq!(place(cookie(wrong)), "cookies[0].partitionKey", "{wrong}");
        }
        assert_eq!(place(cookie("https://example.com")), "");
        assert_eq!(place(cookie("http://localhost:3000")), "");
    }

    #[test]
    fn what_was_read_in_part_is_filled_up() {
        let origin = |local: Value, databases: &[&str], files: &[&str]| -> OriginStorage {
            let database = |name: &&str| json!({"name": name, "version": 1, "stores": []});
            let file = |path: &&str| json!({"path": path, "type": "directory"});
            let (databases, files): (Vec<_>, Vec<_>) =
                (databases.iter().map(database).collect(), files.iter().map(file).collect());
            serde_json::from_value(
                json!({"origin": "https://a.b", "localStorage": local, "indexedDB": databases, "opfs": files}),
            )
            .unwrap()
        };
        let item = |value: &str| json!([{"name": "n", "value": value}]);
        let mut read = origin(item("new"), &["one"], &["b"]);
        read.add_missing(origin(item("old"), &["one", "two"], &["a", "b", "b/c"]));
        assert_eq!(read, origin(item("new"), &["one", "two"], &["a", "b", "b/c"]));
        let mut empty = origin(json!([]), &[], &[]);
        empty.add_missing(read.clone());
        assert_eq!(empty, read);
    }

    #[test]
    fn what_is_read_may_be_given() {
        let origin = |number: usize, bytes: usize| OriginStorage {
            origin: format!("https://s{number}.example"),
            local_storage: vec![Item { name: "a".to_owned(), value: "x".repeat(bytes) }],
            ..OriginStorage::default()
        };
        let mut many =
            StorageState { origins: (0..MAX_ORIGINS + 3).map(|at| origin(at, 1)).collect(), ..StorageState::default() };
        many.bound(1 << 20);
        assert_eq!((many.origins.len(), many.warnings.len(), many.unread.len()), (MAX_ORIGINS, 3, 3));
        let origins = vec![origin(0, 600), origin(1, 600), origin(2, 10)];
        let mut large = StorageState { origins, ..StorageState::default() };
        large.bound(1024);
        assert_eq!(
            large.origins.iter().map(|at| at.origin.as_str()).collect::<Vec<_>>(),
            ["https://s0.example", "https://s2.example"]
        );
        assert_eq!(large.unread, ["https://s1.example"]);
        large.check().unwrap();
        let bytes = serde_json::to_vec(&StorageState { warnings: Vec::new(), unread: Vec::new(), ..large }).unwrap();
        assert!(bytes.len() < 1024, "{}", bytes.len());
    }
}
