//! What Chromium keeps for sites: cookies by DevTools, everything else by a script in a document of each origin.
//!
//! Where a tab shows the origin, the script runs there, in a world of its own. Else it runs in a document of a visitor's.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::try_join;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use warmpool_protocol::{Cookie, OriginStorage, SameSite, StorageState};

use crate::cdp::CdpError;
use crate::error::ApiError;
use crate::storage::{Answer, PAGE_SCRIPT, Request, origin as origin_of, within};

use super::browser::{Browser, POLL_INTERVAL};
use super::visitor::{HiddenTab, ORIGIN_LIMIT, Visitor, run};
use super::{Chromium, gone};

/// How long a tab's own document may take to answer, which a dialog may hold up for ever.
const TAB_LIMIT: Duration = Duration::from_secs(2);
/// The name of the script's world.
const WORLD: &str = "warmpool";

impl Chromium {
    /// What the browser keeps, as long as no origin has more bytes than this.
    pub(crate) async fn read_storage(&self, limit: u64, everywhere: bool) -> Result<StorageState, ApiError> {
        self.browser()?.read_storage(limit, everywhere).await.map_err(gone)
    }

    /// Puts a state into the browser, and into one that comes later. Returns what was left out.
    pub(crate) async fn write_storage(&self, state: StorageState) -> Result<Vec<String>, ApiError> {
        let left_out = self.browser()?.write_storage(&state).await.map_err(gone)?;
        let _ = self.storage.set(state);
        Ok(left_out)
    }
}

impl Browser {
    async fn read_storage(&self, limit: u64, everywhere: bool) -> Result<StorageState, CdpError> {
        let mut read = StorageState::default();
        let context = self.default_context().await?;
        let cookies = self.cdp.call(None, "Storage.getCookies", json!({"browserContextId": context})).await?;
        read.cookies = cookies["cookies"].as_array().into_iter().flatten().filter_map(from_devtools).collect();
        let mut origins: BTreeMap<String, OriginStorage> = BTreeMap::new();
        for (page, origin) in self.open_origins(&context).await? {
            let session = !origins.contains_key(&origin);
            let asked = timeout(TAB_LIMIT, self.ask_tab(&page, Request::Read { session, limit }));
            match asked.await {
                Ok(Ok((shown, answer))) if shown == origin && session => {
                    let (kept, left_out) = answer.into_origin(&origin).map_err(CdpError::Refused)?;
                    read.warnings.extend(left_out);
                    origins.insert(origin, kept);
                }
                Ok(Err(error @ CdpError::Refused(_))) => tracing::debug!(%error, "a tab was not asked for its storage"),
                _ => {}
            }
        }
        let mut others = self.targets.visited.of(&context);
        others.extend(self.given_origins.lock().iter().cloned());
        others.retain(|origin| !origins.contains_key(origin));
        if everywhere && !others.is_empty() {
            let tab = HiddenTab::open(self).await?;
            for origin in others {
                match tab.ask(&origin, Request::Read { session: false, limit }).await {
                    Ok(answer) => {
                        let (kept, left_out) = answer.into_origin(&origin).map_err(CdpError::Refused)?;
                        read.warnings.extend(left_out);
                        origins.insert(origin, kept);
                    }
                    Err(CdpError::Closed) => return Err(CdpError::Closed),
                    Err(error) => read.leave_unread(origin, &error),
                }
            }
            tab.close().await?;
        }
        read.origins = origins.into_values().filter(|origin| !origin.is_empty()).collect();
        Ok(read)
    }

    pub(super) async fn write_storage(&self, state: &StorageState) -> Result<Vec<String>, CdpError> {
        *self.given_origins.lock() = state.origins.iter().map(|origin| origin.origin.clone()).collect();
        // The browser keeps them in different processes.
        let written = try_join(self.write_cookies(&state.cookies), self.write_shared_storage(&state.origins)).await?;
        let mut left_out = [written.0, written.1].concat();
        let own: Vec<&OriginStorage> = state.origins.iter().filter(|at| !at.session_storage.is_empty()).collect();
        if let (false, Some(page)) = (own.is_empty(), self.first_page().await?) {
            left_out.extend(self.write_session_storage(&page, &own).await?);
        }
        Ok(left_out)
    }

    /// Writes what all tabs of an origin share, one origin after another.
    async fn write_shared_storage(&self, origins: &[OriginStorage]) -> Result<Vec<String>, CdpError> {
        let mut left_out = Vec::new();
        let shared: Vec<&OriginStorage> = origins.iter().filter(|at| at.has_shared()).collect();
        if shared.is_empty() {
            return Ok(left_out);
        }
        let tab = HiddenTab::open(self).await?;
        for origin in shared {
            match tab.ask(&origin.origin, Request::Write(origin)).await {
                Ok(answer) => left_out.extend(within(&origin.origin, answer.skipped)),
                Err(CdpError::Closed) => return Err(CdpError::Closed),
                Err(error) => left_out.push(format!("{}: left out: {error}", origin.origin)),
            }
        }
        tab.close().await?;
        Ok(left_out)
    }

    /// Session storage is the tab's, so the first tab visits each origin itself, and forgets that it did.
    async fn write_session_storage(&self, page: &str, origins: &[&OriginStorage]) -> Result<Vec<String>, CdpError> {
        let mut left_out = Vec::new();
        let session = self.attach(page).await?;
        let visitor = Visitor::begin(self, &session).await?;
        for origin in origins {
            if let Err(error) = visitor.ask(&origin.origin, Request::WriteSession(origin)).await {
                left_out.push(format!("{}: left out: {error}", origin.origin));
            }
        }
        self.targets.visits.end(&session);
        let call = |method, params| self.cdp.call(Some(&session), method, params);
        call("Fetch.disable", json!({})).await?;
        call("Network.disable", json!({})).await?;
        call("Page.navigate", json!({"url": "about:blank"})).await?;
        let forget = async {
            // The answer comes before the blank page is there, and meanwhile no history can be asked for.
            while !call("Page.getNavigationHistory", json!({})).await.is_ok_and(|history| is_forgotten(&history)) {
                let _ = call("Page.resetNavigationHistory", json!({})).await;
                sleep(POLL_INTERVAL).await;
            }
        };
        let forgotten = timeout(ORIGIN_LIMIT, forget).await;
        forgotten.map_err(|_| CdpError::Refused("the first tab does not become blank".to_owned()))?;
        self.detach(&session).await?;
        Ok(left_out)
    }

    /// Sets cookies, all at once or, where one is refused, each by itself.
    async fn write_cookies(&self, cookies: &[Cookie]) -> Result<Vec<String>, CdpError> {
        if cookies.is_empty() {
            return Ok(Vec::new());
        }
        let set = |cookies: Vec<Value>| self.cdp.call(None, "Storage.setCookies", json!({"cookies": cookies}));
        match set(cookies.iter().map(to_devtools).collect()).await {
            Err(CdpError::Refused(_)) => {}
            done => return done.map(|_| Vec::new()),
        }
        let mut left_out = Vec::new();
        for cookie in cookies {
            if let Err(CdpError::Refused(reason)) = set(vec![to_devtools(cookie)]).await {
                left_out.push(format!("the cookie {} of {}: left out: {reason}", cookie.name, cookie.domain));
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
        let targets = self.cdp.call(None, "Target.getTargets", json!({})).await?;
        let targets = targets["targetInfos"].as_array().into_iter().flatten();
        let pages = targets.filter(|target| target["type"] == "page" && target["browserContextId"] == *context);
        let text = |target: &Value, member: &str| target[member].as_str().map(str::to_owned);
        Ok(pages.filter_map(|at| Some((text(at, "targetId")?, origin_of(at["url"].as_str()?)?))).collect())
    }

    /// Asks the document that a tab shows, in a world of its own. Returns its origin too.
    async fn ask_tab(&self, page: &str, request: Request<'_>) -> Result<(String, Answer), CdpError> {
        let session = self.attach(page).await?;
        let asked = async {
            let call = |method, params| self.cdp.call(Some(&session), method, params);
            let tree = call("Page.getFrameTree", json!({})).await?;
            let frame = &tree["frameTree"]["frame"];
            let params = json!({"frameId": frame["id"], "worldName": WORLD});
            let world = call("Page.createIsolatedWorld", params).await?;
            let at = json!({"executionContextId": world["executionContextId"]});
            let origin = origin_of(frame["url"].as_str().unwrap_or_default()).unwrap_or_default();
            Ok((
                origin,
                run(
                    &self.cdp,
                    &session,
                    PAGE_SCRIPT.trim_end(),
                    json!({"value": request.text().map_err(CdpError::Refused)?}),
                    at,
                )
                .await?,
            ))
        };
        let asked = asked.await;
        self.detach(&session).await?;
        asked
    }
}

/// Whether a tab's history has nothing but the blank page.
fn is_forgotten(history: &Value) -> bool {
    let entries = history["entries"].as_array();
    entries.is_some_and(|entries| entries.len() == 1 && entries[0]["url"] == "about:blank")
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

/// A cookie as DevTools gives it.
fn from_devtools(cookie: &Value) -> Option<Cookie> {
    let text = |member: &str| cookie[member].as_str().map(str::to_owned);
    let partition = &cookie["partitionKey"];
    Some(Cookie {
        name: text("name")?,
        value: text("value")?,
        domain: text("domain")?,
        path: text("path")?,
        expires: if cookie["session"] == true { -1.0 } else { cookie["expires"].as_f64().unwrap_or(-1.0) },
        http_only: cookie["httpOnly"] == true,
        secure: cookie["secure"] == true,
        same_site: serde_json::from_value(cookie["sameSite"].clone()).ok(),
        partition_key: partition["topLevelSite"].as_str().map(str::to_owned),
        has_cross_site_ancestor: partition["hasCrossSiteAncestor"].as_bool(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
