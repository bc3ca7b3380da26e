//! A tab of Chromium, over the daemon's own DevTools connection: `events` follows what happens in it, `interception`
//! answers its requests, `capture` pictures and prints it.

pub(crate) mod capture;
mod events;
mod interception;
mod printing;

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use self::events::{Progress, Watched};
use self::interception::Rules;
use crate::Error;
use crate::driver::moments;
use crate::request::wire::{LifecycleEvent, Viewport};
use crate::request::{PageRequest, Source};
use crate::response::PageResponse;
use crate::tab::{FUNCTIONS, TabError, named};
use warmpool_core::error::FieldFault as _;
use warmpool_sessions::cdp::{Cdp, CdpError};
use warmpool_sessions::session::Session;
use warmpool_workers::egress::Outcomes;
use warmpool_workers::worker::AgentError;

pub(crate) use printing::Printed;

/// How long a command may take that needs no page.
const COMMAND: Duration = Duration::from_secs(10);
/// How many events may wait to be read: so many requests may a page have under way.
const EVENTS: usize = 4096;
/// How often a page is opened whose network changes meanwhile.
const ATTEMPTS: usize = 3;
/// The name of the world in which the daemon's own functions run.
const WORLD: &str = "warmpool";

/// A tab of Chromium.
pub(crate) struct ChromiumTab {
    session: Arc<Session>,
    cdp: Arc<Cdp>,
    /// The attachment to the tab.
    id: String,
    /// Its top frame.
    frame: String,
    progress: Progress,
    /// The most bytes of an answer.
    limit: u64,
    _events: AbortOnDropHandle<()>,
}

#[derive(Deserialize)]
struct Target {
    id: String,
    #[serde(rename = "type")]
    kind: String,
}

impl From<CdpError> for TabError {
    fn from(error: CdpError) -> Self {
        match error {
            CdpError::Silent(_) => Self::Late,
            CdpError::TooLarge => Self::TooLarge,
            CdpError::Refused(reason) => Self::Refused(reason),
            CdpError::Gone | CdpError::Agent(_) => Self::Gone,
        }
    }
}

/// The target of the browser's first tab.
pub(crate) async fn first_tab(session: &Session) -> Result<String, Error> {
    let unready = |error: CdpError| warmpool_sessions::Error::worker("the browser's DevTools cannot be reached", error);
    let targets: Vec<Target> =
        session.worker.agent.targets().await.map_err(|error: AgentError| unready(error.into()))?;
    let tab = targets.into_iter().find(|target| target.kind == "page");
    Ok(tab.ok_or_else(|| unready(CdpError::Refused("it has no tab".to_owned())))?.id)
}

/// Why a page did not open: the daemon's own word for it, where the browser knows only its proxy.
pub(crate) fn reason(outcomes: &Outcomes, url: &Url, words: &str) -> String {
    match (outcomes.failure_at(url), outcomes.error_name()) {
        (Some(why), name) => format!("{} ({why})", name.unwrap_or(why.net_error())),
        (None, Some(name)) if words.contains("SOCKS") => name.to_owned(),
        _ if words.contains("ERR_ABORTED") => {
            format!("{words} (the address leads to a file, which the browser would download, or to nothing)")
        }
        _ if words.contains("INVALID_AUTH_CREDENTIALS") => {
            format!("{words} (the site asks for a password: give it as `authenticate`)")
        }
        _ => words.to_owned(),
    }
}

impl ChromiumTab {
    /// Attaches to the first tab of the session's browser, for a call whose answer may have `limit` bytes.
    pub(crate) async fn attach(session: &Arc<Session>, request: &PageRequest, limit: u64) -> Result<Self, Error> {
        let unready =
            |error: CdpError| warmpool_sessions::Error::worker("the browser's DevTools cannot be reached", error);
        let most = usize::try_from(limit.saturating_mul(3).saturating_add(1 << 20)).unwrap_or(usize::MAX);
        let cdp = Arc::new(Cdp::connect_within(session, most).await.map_err(unready)?);
        let tab = first_tab(session).await?;
        let attach = json!({"targetId": tab, "flatten": true});
        let attached = cdp.call(None, "Target.attachToTarget", attach).await.map_err(unready)?;
        let id = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        let rules = match request.intercepts() {
            false => None,
            true => {
                let browser = cdp.call(None, "Target.attachToBrowserTarget", json!({})).await.map_err(unready)?;
                Some((browser["sessionId"].as_str().unwrap_or_default().to_owned(), Rules::new(request)))
            }
        };
        let (progress, events) =
            events::follow(Watched { cdp: Arc::clone(&cdp), tab: id.clone(), frame: tab.clone() }, rules);
        let tab = Self {
            session: Arc::clone(session),
            cdp,
            id,
            frame: tab,
            progress,
            limit,
            _events: AbortOnDropHandle::new(tokio::spawn(events)),
        };
        for (method, params) in [
            ("Page.enable", json!({})),
            ("Page.setLifecycleEventsEnabled", json!({"enabled": true})),
            // It keeps no bodies of answers.
            ("Network.enable", json!({"maxTotalBufferSize": 0, "maxResourceBufferSize": 0})),
        ] {
            tab.cdp.call(Some(&tab.id), method, params).await.map_err(unready)?;
        }
        Ok(tab)
    }

    /// A command for the tab.
    async fn command(&self, method: &'static str, params: Value) -> Result<Value, TabError> {
        Ok(self.cdp.call_within(COMMAND, Some(&self.id), method, params).await?)
    }

    /// A command for what `field` asks for.
    async fn set(&self, field: &str, method: &'static str, params: Value) -> Result<(), Error> {
        match self.command(method, params).await {
            Ok(_) => Ok(()),
            Err(TabError::Refused(reason)) => {
                Err(Error::invalid(field, format!("is refused by the browser: {reason}")))
            }
            Err(error) => Err(error.when(&format!("take `{field}`"), self.limit)),
        }
    }

    /// Prepares the tab: emulation, cookies, viewport, headers, and then the stop at the daemon for requests.
    pub(crate) async fn prepare(&self, request: &PageRequest) -> Result<(), Error> {
        if let Some(media) = &request.media_type {
            self.set("emulateMediaType", "Emulation.setEmulatedMedia", json!({"media": media})).await?;
        }
        if !request.java_script {
            self.set("setJavaScriptEnabled", "Emulation.setScriptExecutionDisabled", json!({"value": true})).await?;
        }
        if !request.cookies.is_empty() {
            self.set("cookies", "Network.setCookies", json!({"cookies": request.cookies})).await?;
        }
        // As browsers of Puppeteer's are started: nobody is there to scroll, and pictures would show the bars.
        self.set("viewport", "Emulation.setScrollbarsHidden", json!({"hidden": true})).await?;
        if let Some(viewport) = &request.viewport {
            self.set_viewport(viewport).await?;
        }
        if !request.headers.is_empty() {
            let headers = json!({"headers": request.headers});
            self.set("setExtraHTTPHeaders", "Network.setExtraHTTPHeaders", headers).await?;
        }
        if let Some(browser) = self.progress.interceptor() {
            let everything =
                json!({"patterns": [{"urlPattern": "*"}], "handleAuthRequests": request.authenticate.is_some()});
            let enabled = self.cdp.call(Some(browser), "Fetch.enable", everything).await;
            enabled.map_err(|error| TabError::from(error).when("hold requests back", self.limit))?;
        }
        Ok(())
    }

    async fn set_viewport(&self, viewport: &Viewport) -> Result<(), Error> {
        let orientation = match viewport.is_landscape {
            true => json!({"angle": 90, "type": "landscapePrimary"}),
            false => json!({"angle": 0, "type": "portraitPrimary"}),
        };
        let metrics = json!({
            "width": viewport.width,
            "height": viewport.height,
            "deviceScaleFactor": viewport.device_scale_factor.unwrap_or(1.0),
            "mobile": viewport.is_mobile,
            "screenOrientation": orientation,
        });
        self.set("viewport", "Emulation.setDeviceMetricsOverride", metrics).await?;
        if viewport.has_touch {
            self.set("viewport.hasTouch", "Emulation.setTouchEmulationEnabled", json!({"enabled": true})).await?;
        }
        Ok(())
    }

    /// Opens the page and waits until it counts as open.
    pub(crate) async fn open(&self, source: &Source, request: &PageRequest, limit: Duration) -> Result<(), Error> {
        let begun = Instant::now();
        let moments = moments(request);
        let late = || Error::not_open_within(limit);
        let opened = async {
            match source {
                Source::Url(url) => {
                    let mut params = json!({"url": url.as_str()});
                    if let Some(referer) = &request.goto.referer {
                        params["referrer"] = json!(referer);
                    }
                    if let Some(policy) = &request.goto.referrer_policy {
                        params["referrerPolicy"] = json!(camel(policy));
                    }
                    let answer = self.navigate(params, limit).await.map_err(|error| match error {
                        TabError::Late => late(),
                        TabError::Refused(reason) => Error::NotOpened { reason },
                        error => error.when("open the page", self.limit),
                    })?;
                    // An answer of 404 without a body is an answer.
                    let is_error =
                        |words: &&str| !words.is_empty() && !words.contains("ERR_HTTP_RESPONSE_CODE_FAILURE");
                    if let Some(words) = answer["errorText"].as_str().filter(is_error) {
                        return Err(Error::NotOpened { reason: reason(self.session.egress.outcomes(), url, words) });
                    }
                }
                Source::Html(html) => {
                    if self.progress.interceptor().is_some() {
                        self.renew(limit).await?;
                    }
                    self.progress.begin();
                    let written = self.call("write", &[json!(html)], limit).await;
                    written.map_err(|error| match error {
                        TabError::Late => late(),
                        error => error.when("read the HTML", self.limit),
                    })?;
                }
            }
            self.progress.reached(moments).await
        };
        timeout(limit.saturating_sub(begun.elapsed()), opened).await.unwrap_or_else(|_| Err(late()))
    }

    /// Navigates, and again where the browser has given the page up because the network of its young container changed.
    async fn navigate(&self, params: Value, limit: Duration) -> Result<Value, TabError> {
        let mut attempt = 1;
        loop {
            self.progress.begin();
            let answer = self.cdp.call_within(limit, Some(&self.id), "Page.navigate", params.clone()).await?;
            let has_changed = answer["errorText"].as_str().is_some_and(|words| words.contains("ERR_NETWORK_CHANGED"));
            if !has_changed || attempt == ATTEMPTS {
                return Ok(answer);
            }
            attempt += 1;
        }
    }

    /// An empty page in the place of the first one, which was there before requests stopped at the daemon: what it asks
    /// for would pass.
    async fn renew(&self, limit: Duration) -> Result<(), Error> {
        self.progress.begin();
        let empty = json!({"url": "about:blank"});
        let opened = self.cdp.call_within(limit, Some(&self.id), "Page.navigate", empty).await;
        opened.map_err(|error| TabError::from(error).when("open an empty page", self.limit))?;
        self.progress.reached(&[LifecycleEvent::Load]).await
    }

    /// Calls a function of the page's own file.
    pub(crate) async fn call(&self, name: &str, arguments: &[Value], limit: Duration) -> Result<Value, TabError> {
        self.run(FUNCTIONS, named(name, arguments), limit).await
    }

    /// Calls a function in a world that the page's scripts do not reach.
    pub(crate) async fn run(&self, function: &str, given: Vec<Value>, limit: Duration) -> Result<Value, TabError> {
        let world = json!({"frameId": self.frame, "worldName": WORLD});
        let world = self.cdp.call_within(limit, Some(&self.id), "Page.createIsolatedWorld", world).await?;
        let given: Vec<Value> = given.into_iter().map(|value| json!({"value": value})).collect();
        let call = json!({
            "functionDeclaration": function,
            "executionContextId": world["executionContextId"],
            "arguments": given,
            "returnByValue": true,
            "awaitPromise": true,
        });
        let answer = self.cdp.call_within(limit, Some(&self.id), "Runtime.callFunctionOn", call).await?;
        value(answer)
    }

    /// The value of the client's own code, among the page's scripts.
    pub(crate) async fn evaluate(&self, code: &str, limit: Duration) -> Result<Value, TabError> {
        let expression = format!(
            "(async () => {{ const it = (\n{code}\n); return typeof it === 'function' ? await it() : await it; }})()"
        );
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true, "silent": true});
        let answer = self.cdp.call_within(limit, Some(&self.id), "Runtime.evaluate", params).await?;
        value(answer)
    }

    /// What the site answered.
    pub(crate) fn response(&self) -> PageResponse {
        self.progress.response().with_address(self.session.egress.outcomes())
    }

    /// The cookies that the page has.
    pub(crate) async fn cookies(&self) -> Result<Value, TabError> {
        Ok(self.command("Network.getCookies", json!({})).await?["cookies"].take())
    }

    /// The session that the tab is of.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The most bytes of an answer.
    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }
}

/// What a call returned, or what it threw.
pub(crate) fn value(mut answer: Value) -> Result<Value, TabError> {
    let thrown = &answer["exceptionDetails"];
    if thrown.is_object() {
        let words = thrown["exception"]["description"].as_str().or_else(|| thrown["text"].as_str());
        let first = words.unwrap_or("it threw something").lines().next().unwrap_or_default();
        return Err(TabError::Threw(first.chars().take(600).collect()));
    }
    Ok(answer["result"]["value"].take())
}

/// A policy as DevTools writes it: `no-referrer` is `noReferrer` there.
fn camel(words: &str) -> String {
    let mut parts = words.split('-');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| {
        let mut letters = part.chars();
        letters
            .next()
            .map_or(name.clone(), |letter| format!("{name}{}{}", letter.to_ascii_uppercase(), letters.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_written_as_devtools_has_them() {
        assert_eq!(camel("strict-origin-when-cross-origin"), "strictOriginWhenCrossOrigin");
        assert_eq!(camel("origin"), "origin");
    }

    #[test]
    fn what_code_throws_is_one_line() {
        let answer = json!({"exceptionDetails": {"exception": {"description": "Error: x\n  at y"}}});
        assert!(matches!(value(answer), Err(TabError::Threw(words)) if words == "Error: x"));
        assert_eq!(value(json!({"result": {"value": 3}})).unwrap(), 3);
    }
}
