//! Steel's context of a session, which is a state here: cookies, and the storage of each host.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::Url;
use warmpool_api::{AnyObject, null_is_default};
use warmpool_core::error::FieldFault as _;
use warmpool_protocol::{Cookie, Item, OriginStorage, StorageState};
use warmpool_sessions::Error;

/// What the create call names it.
const PLACE: &str = "sessionContext";

/// Items of a host's storage, by the origin; where it is sent, also by the host: `example.com` for its pages by https and by http.
type Items = BTreeMap<String, BTreeMap<String, String>>;

/// What a browser is to keep for sites, as Steel's clients send it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
#[schemars(rename = "SteelSessionContext")]
pub(crate) struct SessionContext {
    /// Cookies as DevTools has them.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "Option<Vec<AnyObject>>")]
    cookies: Vec<Map<String, Value>>,
    /// Local storage.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "Option<Items>")]
    local_storage: Items,
    /// Session storage of the first tab.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "Option<Items>")]
    session_storage: Items,
    /// Databases, which are not served: Steel's shape has no key paths.
    #[serde(rename = "indexedDB", deserialize_with = "null_is_default")]
    #[schemars(with = "Option<AnyObject>")]
    indexed_db: Map<String, Value>,
}

/// What a browser keeps for sites, as Steel's clients read it: the same without databases and private files.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SteelReadContext")]
pub(crate) struct ContextReply {
    /// Cookies as DevTools has them.
    #[schemars(with = "Vec<AnyObject>")]
    cookies: Vec<Map<String, Value>>,
    /// Local storage.
    local_storage: Items,
    /// Session storage of the tabs.
    session_storage: Items,
}

impl SessionContext {
    /// The state that a browser begins with.
    /// Errors: `Field`.
    pub(crate) fn into_state(self) -> Result<Value, Error> {
        if !self.indexed_db.is_empty() {
            let problem = "is not served, as it lacks key paths and indexes: a profile keeps databases";
            return Err(Error::not_supported(format!("{PLACE}.indexedDB"), problem));
        }
        let cookies = self.cookies.into_iter().enumerate().map(|(at, cookie)| read_cookie(at, cookie));
        let cookies = cookies.collect::<Result<Vec<Value>, Error>>()?;
        let mut origins: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
        for (kind, hosts) in [("localStorage", self.local_storage), ("sessionStorage", self.session_storage)] {
            for (host, items) in hosts {
                let items: Vec<Value> =
                    items.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
                for origin in origins_of(&host) {
                    if !Url::parse(&origin).is_ok_and(|url| url.origin().ascii_serialization() == origin) {
                        let problem = "must have host names such as example.com, or origins, as its members";
                        return Err(Error::invalid(format!("{PLACE}.{kind}"), problem));
                    }
                    origins.entry(origin).or_default().insert(kind.to_owned(), json!(items));
                }
            }
        }
        let origins = origins.into_iter().map(|(origin, mut storage)| {
            storage.insert("origin".to_owned(), json!(origin));
            Value::Object(storage)
        });
        Ok(json!({"cookies": cookies, "origins": origins.collect::<Vec<Value>>()}))
    }
}

impl From<StorageState> for ContextReply {
    fn from(state: StorageState) -> Self {
        let mut context = Self { cookies: state.cookies.iter().map(written_cookie).collect(), ..Self::default() };
        for OriginStorage { origin, local_storage, session_storage, .. } in state.origins {
            // Not by the host alone, which would stand for its pages by http as well when it comes back.
            let lists = [(&mut context.local_storage, local_storage), (&mut context.session_storage, session_storage)];
            for (hosts, items) in lists {
                if !items.is_empty() {
                    hosts.insert(origin.clone(), items.into_iter().map(|Item { name, value }| (name, value)).collect());
                }
            }
        }
        context
    }
}

/// The origins of a host, or the one that is written out.
fn origins_of(host: &str) -> Vec<String> {
    if host.contains("://") {
        return vec![host.to_owned()];
    }
    ["https", "http"].map(|scheme| format!("{scheme}://{host}")).into()
}

fn read_cookie(at: usize, mut cookie: Map<String, Value>) -> Result<Value, Error> {
    let place = format!("{PLACE}.cookies[{at}]");
    // What no browser sets by them, and what a browser finds out itself.
    for ignored in ["priority", "sameParty", "size", "sourcePort", "sourceScheme"] {
        cookie.remove(ignored);
    }
    cookie.retain(|_, value| !value.is_null());
    if cookie.remove("session") == Some(json!(true)) {
        cookie.remove("expires");
    }
    let url = match cookie.remove("url") {
        None => None,
        Some(url) => match url.as_str().and_then(|url| Url::parse(url).ok()).filter(Url::has_host) {
            Some(url) => Some(url),
            None => {
                return Err(Error::invalid(format!("{place}.url"), "must be an address such as https://example.com/"));
            }
        },
    };
    if !cookie.contains_key("domain") {
        let Some(host) = url.as_ref().and_then(Url::host_str) else {
            return Err(Error::invalid(format!("{place}.domain"), "must be there, or `url`"));
        };
        cookie.insert("domain".to_owned(), json!(host));
    }
    cookie.entry("path").or_insert_with(|| json!("/"));
    if let Some(Value::Object(partition)) = cookie.get("partitionKey").cloned() {
        let site = partition.get("topLevelSite").cloned().unwrap_or_default();
        let ancestor = partition.get("hasCrossSiteAncestor").cloned().unwrap_or(json!(false));
        cookie.insert("partitionKey".to_owned(), site);
        cookie.insert("_crHasCrossSiteAncestor".to_owned(), ancestor);
    }
    Ok(Value::Object(cookie))
}

fn written_cookie(cookie: &Cookie) -> Map<String, Value> {
    let mut written = Map::new();
    let is_session = cookie.expires < 0.0;
    for (name, value) in [
        ("name", json!(cookie.name)),
        ("value", json!(cookie.value)),
        ("domain", json!(cookie.domain)),
        ("path", json!(cookie.path)),
        ("expires", json!(cookie.expires)),
        ("httpOnly", json!(cookie.http_only)),
        ("secure", json!(cookie.secure)),
        ("session", json!(is_session)),
        ("size", json!(cookie.name.len() + cookie.value.len())),
    ] {
        written.insert(name.to_owned(), value);
    }
    if let Some(same_site) = cookie.same_site {
        written.insert("sameSite".to_owned(), json!(same_site));
    }
    if let Some(site) = &cookie.partition_key {
        let ancestor = cookie.has_cross_site_ancestor.unwrap_or(false);
        written.insert("partitionKey".to_owned(), json!({"topLevelSite": site, "hasCrossSiteAncestor": ancestor}));
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_core::error::Fault as _;

    fn state(context: Value) -> Result<StorageState, Error> {
        let context: SessionContext = serde_json::from_value(context).unwrap();
        let state: StorageState = serde_json::from_value(context.into_state()?).unwrap();
        state.check().unwrap();
        Ok(state)
    }

    #[test]
    fn what_is_null_is_left_out() {
        let kept = state(json!({"cookies": null, "localStorage": null, "sessionStorage": null, "indexedDB": null}));
        assert!(kept.is_ok_and(|kept| kept.cookies.is_empty() && kept.origins.is_empty()));
    }

    #[test]
    fn what_is_read_may_be_sent() {
        let given = json!({"cookies": [
                {"name": "a", "value": "b", "domain": ".example.com", "path": "/p", "expires": 1e10, "httpOnly": true,
                    "secure": true, "sameSite": "Lax",
                    "partitionKey": "https://top.example", "_crHasCrossSiteAncestor": true},
                {"name": "s", "value": "", "domain": "example.com", "path": "/", "expires": -1.0}],
            "origins": [
                {"origin": "https://example.com", "localStorage": [{"name": "n", "value": "v"}],
                    "sessionStorage": [{"name": "t", "value": "w"}]},
                {"origin": "http://localhost:3000", "localStorage": [{"name": "n", "value": "x"}]}]});
        let before: StorageState = serde_json::from_value(given).unwrap();
        let context = serde_json::to_value(ContextReply::from(before.clone())).unwrap();
        assert_eq!(context["localStorage"]["https://example.com"], json!({"n": "v"}));
        assert_eq!(context["localStorage"]["http://localhost:3000"], json!({"n": "x"}));
        let after = state(context).unwrap();
        assert_eq!(after.cookies, before.cookies);
        assert_eq!(after.origins.len(), before.origins.len(), "nothing is there by http as well");
        for origin in before.origins {
            assert!(after.origins.contains(&origin), "{}", origin.origin);
        }
    }

    #[test]
    fn a_host_stands_for_both_schemes() {
        let state = state(json!({"localStorage": {"example.com": {"a": "b"}}})).unwrap();
        let origins: Vec<_> = state.origins.iter().map(|at| at.origin.as_str()).collect();
        assert_eq!(origins, ["http://example.com", "https://example.com"]);
    }

    #[test]
    fn cookies_have_a_domain_or_an_address() {
        let cookie = json!({"name": "a", "value": "b", "url": "https://a.b/c", "priority": "High", "session": true,
            "expires": 1, "size": 2});
        let state = state(json!({"cookies": [cookie]})).unwrap();
        assert_eq!((state.cookies[0].domain.as_str(), state.cookies[0].path.as_str()), ("a.b", "/"));
        assert!(state.cookies[0].expires < 0.0);
    }

    #[test]
    fn what_cannot_be_taken_is_named() {
        for (context, field) in [
            (json!({"cookies": [{"name": "a", "value": "b"}]}), "sessionContext.cookies[0].domain"),
            (json!({"cookies": [{"name": "a", "value": "b", "url": "x"}]}), "sessionContext.cookies[0].url"),
            (json!({"indexedDB": {"a.b": []}}), "sessionContext.indexedDB"),
        ] {
            assert_eq!(state(context).unwrap_err().field(), Some(field));
        }
    }
}
