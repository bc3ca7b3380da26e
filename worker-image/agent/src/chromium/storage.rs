//! What Chromium keeps for sites: cookies by DevTools, everything else by a script in a document of each origin.
//!
//! Where a tab shows the origin, the script runs there, in a world of its own. Else it runs in a document of a visitor's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::try_join;
use serde_json::{Value, json};
use warmpool_protocol::{Cookie, OriginStorage, SameSite, StorageQuery, StorageState};

use crate::cdp::{CdpError, MAX_MESSAGE};
use crate::error::ApiError;
use crate::storage::{Answer, KnownOrigins, PAGE_SCRIPT, Reading, Request, Tab, origin as origin_of, within};

use super::browser::{Browser, tabs};
use super::visitor::{HiddenTab, ORIGIN_LIMIT, Visitor, run};
use super::{Chromium, gone};

/// How long a tab's own document may take to answer, which a dialog may hold up for ever.
const TAB_LIMIT: Duration = Duration::from_secs(2);
/// The longest answer of the script, as the browser writes it into a message.
const LONGEST_ANSWER: usize = MAX_MESSAGE - (64 << 10);
/// The most origins that are known to have stored something.
const MAX_KEEPING: usize = 1000;
/// Cookies that one command sets. While the browser reads a command it does nothing else.
const COOKIES_AT_ONCE: usize = 100;
/// The name of the script's world.
const WORLD: &str = "warmpool";

impl Chromium {
    /// What the browser keeps.
    pub(crate) async fn read_storage(&self, query: StorageQuery) -> Result<StorageState, ApiError> {
        self.browser()?.read_storage(query).await.map_err(gone)
    }

    /// Puts a state into the browser, and into one that comes later. Returns what was left out.
    pub(crate) async fn write_storage(&self, state: StorageState) -> Result<Vec<String>, ApiError> {
        let left_out = self.browser()?.write_storage(&state).await.map_err(gone)?;
        let _ = self.wanted.storage.set(state);
        Ok(left_out)
    }
}

impl Browser {
    async fn read_storage(&self, query: StorageQuery) -> Result<StorageState, CdpError> {
        let mut reading = Reading::new(query);
        let context = self.default_context().await?;
        let cookies = self.cdp.call(None, "Storage.getCookies", json!({"browserContextId": context})).await?;
        for cookie in cookies["cookies"].as_array().into_iter().flatten() {
            match from_devtools(cookie) {
                Some(cookie) => reading.state.cookies.push(cookie),
                None => reading.state.warnings.push(format!(
                    "the cookie {} of {}: left out: it belongs to a page that is no site",
                    cookie["name"].as_str().unwrap_or_default(),
                    cookie["domain"].as_str().unwrap_or_default()
                )),
            }
        }
        let mut done = BTreeSet::new();
        let mut untold = BTreeMap::new();
        for (page, origin) in self.open_origins(&context).await? {
            if done.contains(&origin) {
                continue;
            }
            let asked = self.ask_tab(&page, reading.request(true, Some(LONGEST_ANSWER)));
            let told = match reading.wait(TAB_LIMIT, asked).await {
                // The tab has left the origin, or its page did not load.
                Ok(answer) if answer.is_elsewhere(&origin) => continue,
                Ok(answer) => answer.origin(&origin).map(|_| answer),
                Err(reason) => Err(reason),
            };
            match told {
                Ok(answer) => {
                    untold.remove(&origin);
                    done.insert(origin.clone());
                    reading.take(origin, Ok(answer));
                }
                // The origin is read again without its tab, if at all.
                Err(reason) => {
                    untold.insert(origin, reason);
                }
            }
        }
        let mut others = self.targets.visited.of(&context);
        others.extend(self.known_origins.lock().keeping.iter().cloned());
        others.retain(|origin| !done.contains(origin));
        if query.everywhere && !others.is_empty() {
            match HiddenTab::open(self).await {
                Ok(tab) => {
                    for origin in others {
                        let asked = tab.ask(&origin, reading.request(false, Some(LONGEST_ANSWER)));
                        let answer = reading.wait(ORIGIN_LIMIT, asked).await;
                        reading.take(origin, answer);
                    }
                    tab.close().await?;
                }
                Err(CdpError::Closed) => return Err(CdpError::Closed),
                // Cookies, and what tabs show, are there all the same.
                Err(error) => others.into_iter().for_each(|origin| reading.state.leave_unread(origin, &error)),
            }
        }
        for (origin, reason) in untold {
            reading.leave_tab_unread(origin, &reason);
        }
        let mut known = self.known_origins.lock();
        let state = reading.end(&known.unwritten);
        let keeping = state.origins.iter().filter(|origin| !origin.is_empty()).map(|origin| origin.origin.clone());
        let room = MAX_KEEPING.saturating_sub(known.keeping.len());
        known.keeping.extend(keeping.take(room));
        Ok(state)
    }

    pub(super) async fn write_storage(&self, state: &StorageState) -> Result<Vec<String>, CdpError> {
        let keeping = state.origins.iter().map(|origin| origin.origin.clone()).collect();
        *self.known_origins.lock() = KnownOrigins { keeping, unwritten: BTreeSet::new() };
        // The browser keeps them in different processes.
        let written = try_join(self.write_cookies(&state.cookies), self.write_origins(&state.origins)).await?;
        Ok([written.0, written.1].concat())
    }

    /// Writes what origins had stored, one after another. The first tab visits them, since session storage is its own, and forgets
    /// that it did. Its process is there already, which a new tab would have to wait for.
    async fn write_origins(&self, origins: &[OriginStorage]) -> Result<Vec<String>, CdpError> {
        let origins: Vec<&OriginStorage> = origins.iter().filter(|at| !at.is_empty()).collect();
        if origins.is_empty() {
            return Ok(Vec::new());
        }
        let Some(page) = self.first_page().await? else {
            return self.write_shared_storage(&origins).await;
        };
        let session = self.session_with(&page).await?;
        let visitor = Visitor::begin(self, &session).await?;
        let mut left_out = Vec::new();
        for origin in origins {
            left_out
                .extend(self.written(origin, visitor.ask(&origin.origin, Request::Write(origin, Tab::First)).await)?);
        }
        self.targets.visits.end(&session);
        visitor.forget().await?;
        Ok(left_out)
    }

    /// Writes what all tabs of an origin share, where there is no tab yet.
    async fn write_shared_storage(&self, origins: &[&OriginStorage]) -> Result<Vec<String>, CdpError> {
        let mut left_out = Vec::new();
        let tab = HiddenTab::open(self).await?;
        for origin in origins {
            left_out.extend(self.written(origin, tab.ask(&origin.origin, Request::Write(origin, Tab::Other)).await)?);
            if !origin.session_storage.is_empty() {
                left_out
                    .extend(within(&origin.origin, vec!["its session storage, for which there was no tab".to_owned()]));
            }
        }
        tab.close().await?;
        Ok(left_out)
    }

    /// What was left out of an origin, as sentences. Remembers that it was not given all that it should have been.
    fn written(
        &self,
        OriginStorage { origin, .. }: &OriginStorage,
        asked: Result<Answer, CdpError>,
    ) -> Result<Vec<String>, CdpError> {
        let reasons = match asked {
            Ok(answer) => answer.skipped,
            Err(CdpError::Closed) => return Err(CdpError::Closed),
            Err(error) => vec![error.to_string()],
        };
        if !reasons.is_empty() {
            self.known_origins.lock().unwritten.insert(origin.clone());
        }
        Ok(within(origin, reasons))
    }

    /// Sets cookies, many at once or, where one is refused, each by itself.
    async fn write_cookies(&self, cookies: &[Cookie]) -> Result<Vec<String>, CdpError> {
        let set = |cookies: Vec<Value>| self.cdp.call(None, "Storage.setCookies", json!({"cookies": cookies}));
        let mut left_out = Vec::new();
        for cookies in cookies.chunks(COOKIES_AT_ONCE) {
            match set(cookies.iter().map(to_devtools).collect()).await {
                Err(CdpError::Refused(_)) => {}
                done => {
                    done?;
                    continue;
                }
            }
            for cookie in cookies {
                if let Err(CdpError::Refused(reason)) = set(vec![to_devtools(cookie)]).await {
                    left_out.push(format!("the cookie {} of {}: left out: {reason}", cookie.name, cookie.domain));
                }
            }
        }
        Ok(left_out)
    }

    /// The context that is there without a client's asking for one.
    async fn default_context(&self) -> Result<String, CdpError> {
        let contexts = self.cdp.call(None, "Target.getBrowserContexts", json!({})).await?;
        let context = contexts["defaultBrowserContextId"].as_str().map(str::to_owned);
        context.ok_or_else(|| CdpError::Refused("the browser named no context of its own".to_owned()))
    }

    /// Open tabs of a context with the origins that they show.
    async fn open_origins(&self, context: &str) -> Result<Vec<(String, String)>, CdpError> {
        let targets = tabs(&self.cdp).await?;
        let pages = targets.iter().filter(|target| target["browserContextId"] == *context);
        let text = |target: &Value, member: &str| target[member].as_str().map(str::to_owned);
        Ok(pages.filter_map(|at| Some((text(at, "targetId")?, origin_of(at["url"].as_str()?)?))).collect())
    }

    /// Asks the document that a tab shows, in a world of its own.
    async fn ask_tab(&self, page: &str, request: Request<'_>) -> Result<Answer, CdpError> {
        let session = self.session_with(page).await?;
        let call = |method, params| self.cdp.call(Some(&session), method, params);
        // A tab's own frame has the tab's id. A tree of frames would be as long as the page likes.
        let world = call("Page.createIsolatedWorld", json!({"frameId": page, "worldName": WORLD})).await?;
        let at = json!({"executionContextId": world["executionContextId"]});
        let argument = json!({"value": request.text().map_err(CdpError::Refused)?});
        run(&self.cdp, &session, PAGE_SCRIPT.trim_end(), argument, at).await
    }

    /// The agent's session with a tab. It stays there: a session that leaves a tab undoes what others have set in it.
    async fn session_with(&self, page: &str) -> Result<String, CdpError> {
        match self.targets.session_of(page) {
            Some(session) => Ok(session),
            None => self.attach(page).await,
        }
    }
}

/// A cookie as DevTools takes it.
fn to_devtools(cookie: &Cookie) -> Value {
    // With a domain a cookie is for the hosts below it as well, so one of a host alone names an address.
    let scheme = if cookie.secure { "https" } else { "http" };
    let mut params = json!({
        "name": cookie.name, "value": cookie.value, "path": cookie.path, "secure": cookie.secure,
        "httpOnly": cookie.http_only,
    });
    if cookie.is_for_subdomains() {
        params["domain"] = cookie.domain.as_str().into();
    } else {
        params["url"] = format!("{scheme}://{}{}", cookie.host(), cookie.path).into();
    }
    if cookie.expires >= 0.0 {
        params["expires"] = cookie.expires.into();
    }
    // Browsers without the newer rule say "None" for a cookie that names none; with it, such a one has to be secure.
    match cookie.same_site {
        Some(SameSite::None) if !cookie.secure => {}
        Some(same_site) => params["sameSite"] = json!(same_site),
        None => {}
    }
    if let Some(site) = &cookie.partition_key {
        let ancestor = cookie.has_cross_site_ancestor.unwrap_or(false);
        params["partitionKey"] = json!({"topLevelSite": site, "hasCrossSiteAncestor": ancestor});
    }
    params
}

/// A cookie as DevTools gives it; none where the page in which alone it exists is no site. Without that page it would be everybody's.
fn from_devtools(cookie: &Value) -> Option<Cookie> {
    let text = |member: &str| cookie[member].as_str().map(str::to_owned);
    let partition = &cookie["partitionKey"];
    let partition_key = partition["topLevelSite"].as_str().filter(|site| !site.is_empty()).map(str::to_owned);
    let has_partition = cookie["partitionKeyOpaque"] == true || !(partition.is_null() || *partition == *"");
    let is_site = partition_key.is_some() && partition_key.as_deref().and_then(origin_of) == partition_key;
    if has_partition && !is_site {
        return None;
    }
    Some(Cookie {
        name: text("name")?,
        value: text("value")?,
        domain: text("domain")?,
        path: text("path")?,
        expires: if cookie["session"] == true { -1.0 } else { cookie["expires"].as_f64().unwrap_or(-1.0) },
        http_only: cookie["httpOnly"] == true,
        secure: cookie["secure"] == true,
        same_site: serde_json::from_value(cookie["sameSite"].clone()).ok(),
        partition_key,
        has_cross_site_ancestor: partition["hasCrossSiteAncestor"].as_bool(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeBrowser;
    use super::*;
    use crate::worker::Worker;

    #[tokio::test]
    async fn a_tab_is_asked_whatever_frames_its_page_has() {
        let home = tempfile::tempdir().unwrap();
        let (browser, mut fake) = FakeBrowser::started(&Worker::of_tests(home.path())).await;
        let request = Request::Read { session: true, limit: 1000, message: None };
        let (told, ()) = tokio::join!(browser.ask_tab("T", request), async {
            fake.answer("Target.attachToTarget", json!({"sessionId": "S"})).await;
            let world = fake.answer("Page.createIsolatedWorld", json!({"executionContextId": 3})).await;
            assert_eq!((&world["params"]["frameId"], &world["sessionId"]), (&json!("T"), &json!("S")));
            let value = r#"{"at": "https://a.example", "origin": {"origin": ""}}"#;
            fake.answer("Runtime.callFunctionOn", json!({"result": {"value": value}})).await;
        });
        assert_eq!(told.unwrap().origin("https://a.example").unwrap().origin, "https://a.example");
    }

    #[tokio::test]
    async fn of_other_targets_than_tabs_the_browser_is_not_asked() {
        let home = tempfile::tempdir().unwrap();
        let (browser, mut fake) = FakeBrowser::started(&Worker::of_tests(home.path())).await;
        let (origins, ()) = tokio::join!(browser.open_origins("C"), async {
            let tab = |id: &str, context: &str| json!({"targetId": id, "url": "https://a.example/x", "browserContextId": context});
            let tabs = json!({"targetInfos": [tab("A", "C"), tab("B", "D")]});
            let asked = fake.answer("Target.getTargets", tabs).await;
            assert_eq!(asked["params"]["filter"], json!([{"type": "page"}]));
        });
        assert_eq!(origins.unwrap(), [("A".to_owned(), "https://a.example".to_owned())]);
    }

    fn cookie(domain: &str) -> Cookie {
        Cookie {
            name: "a".into(),
            value: "b".into(),
            domain: domain.into(),
            path: "/".into(),
            expires: -1.0,
            http_only: true,
            secure: false,
            same_site: Some(SameSite::None),
            partition_key: None,
            has_cross_site_ancestor: None,
        }
    }

    #[test]
    fn a_cookie_of_a_host_alone_stays_so() {
        let params = to_devtools(&cookie("example.com"));
        assert_eq!((params["url"].as_str(), params.get("domain")), (Some("http://example.com/"), None));
        let params = to_devtools(&cookie(".example.com"));
        assert_eq!((params.get("url"), params["domain"].as_str()), (None, Some(".example.com")));
    }

    #[test]
    fn another_browsers_none_does_not_make_a_cookie_invalid() {
        assert_eq!(to_devtools(&cookie("a.b")).get("sameSite"), None);
        let secure = Cookie { secure: true, ..cookie("a.b") };
        assert_eq!(to_devtools(&secure)["sameSite"], "None");
    }

    #[test]
    fn what_devtools_gives_comes_back() {
        let given = json!({"name": "a", "value": "b", "domain": ".x.y", "path": "/p", "expires": 1e10, "session": false,
            "httpOnly": false, "secure": true, "sameSite": "Lax", "size": 2,
            "partitionKey": {"topLevelSite": "https://z.y", "hasCrossSiteAncestor": true}});
        let params = to_devtools(&from_devtools(&given).unwrap());
        for member in ["name", "value", "domain", "path", "expires", "sameSite", "partitionKey"] {
            assert_eq!(params[member], given[member], "{member}");
        }
    }

    #[test]
    fn a_cookie_of_a_page_that_is_no_site_is_nobodys() {
        let given = |partition: Value| {
            let mut given = json!({"name": "a", "value": "b", "domain": "x.y", "path": "/", "session": true});
            given.as_object_mut().unwrap().extend(partition.as_object().unwrap().clone());
            from_devtools(&given).map(|cookie| cookie.partition_key)
        };
        let key = |site: &str| json!({"partitionKey": {"topLevelSite": site, "hasCrossSiteAncestor": false}});
        assert_eq!(given(json!({})), Some(None));
        assert_eq!(given(key("https://z.y")), Some(Some("https://z.y".to_owned())));
        assert_eq!(given(key("chrome-extension://abcdefgh")), None);
        assert_eq!(given(key("")), None);
        assert_eq!(given(json!({"partitionKeyOpaque": true})), None);
    }
}
