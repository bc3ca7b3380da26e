//! A tab of Firefox or WebKit, over the session's own driver: the same forwarder that clients of `connect_url` reach.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use url::Url;

use crate::Error;
use crate::perform::left;
use crate::request::length::MILLIMETRES;
use crate::request::screenshot::CaptureArea;
use crate::request::wire::LifecycleEvent;
use crate::request::{PageRequest, Pdf, Screenshot, Source};
use crate::response::PageResponse;
use crate::tab::{FUNCTIONS, TabError, named};
use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_core::error::FieldFault as _;
use warmpool_core::json::may_be_read;
use warmpool_protocol::ELEMENT;
use warmpool_sessions::session::{Session, Sessions};
use warmpool_sessions::webdriver::{self, Command};
use warmpool_workers::worker::full;

/// Between two looks whether HTML has been read.
const LOOK: Duration = Duration::from_millis(50);
/// The longest reason of a driver that an error repeats, in characters.
const WORDS: usize = 600;

/// A tab of Firefox or WebKit.
pub(crate) struct DriverTab {
    session: Arc<Session>,
    config: Arc<Config>,
    /// The driver's session.
    id: String,
    /// The most bytes of an answer.
    limit: u64,
}

impl DriverTab {
    /// Makes the driver's session in that of a call, whose answer may have `limit` bytes.
    pub(crate) async fn attach(
        sessions: &Sessions,
        session: &Arc<Session>,
        config: &Arc<Config>,
        request: &PageRequest,
    ) -> Result<Self, Error> {
        let waits_for_all = moments(request).contains(&LifecycleEvent::Load);
        let requested = json!({"capabilities": {"alwaysMatch": {
            "pageLoadStrategy": if waits_for_all { "normal" } else { "eager" },
            "unhandledPromptBehavior": "dismiss",
        }}});
        // Nobody hears of the websockets beside it.
        let (status, body) = webdriver::new_session(sessions, session, config, "", &requested).await?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let Some(id) = body["value"]["sessionId"].as_str().filter(|_| status.is_success()) else {
            let reason = body["value"]["message"].as_str().unwrap_or("it gave no reason").to_owned();
            return Err(warmpool_sessions::Error::worker("the browser's driver made no session", reason).into());
        };
        Ok(Self {
            session: Arc::clone(session),
            config: Arc::clone(config),
            id: id.to_owned(),
            limit: config.pages.max_answer.bytes(),
        })
    }

    fn engine(&self) -> Engine {
        self.session.options.engine
    }

    /// The session that the tab is of.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    async fn post(&self, command: &str, body: Value, limit: Duration) -> Result<Value, TabError> {
        self.send(Method::POST, command, Some(body), limit).await
    }

    async fn get(&self, command: &str, limit: Duration) -> Result<Value, TabError> {
        self.send(Method::GET, command, None, limit).await
    }

    /// Sends a command, and waits so long for its answer.
    async fn send(
        &self,
        method: Method,
        command: &str,
        body: Option<Value>,
        limit: Duration,
    ) -> Result<Value, TabError> {
        let path = format!("/session/{}/{command}", self.id);
        let refused = |error: &dyn std::fmt::Display| TabError::Refused(error.to_string());
        let read = Command::read(&method, &path, 2).map_err(|error| refused(&error))?;
        let mut request = Request::new(full(body.map(|body| body.to_string()).unwrap_or_default()));
        *request.method_mut() = method;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let answered = async {
            let answer = webdriver::forward(&self.session, &self.config, &self.id, read, request).await;
            let (head, body) = answer.map_err(|_| TabError::Gone)?.into_parts();
            // A picture or a document is longer in base64.
            let most = usize::try_from(self.limit.saturating_mul(3).saturating_add(1 << 20)).unwrap_or(usize::MAX);
            let body = Limited::new(body, most).collect().await.map_err(|_| TabError::TooLarge)?.to_bytes();
            // A page may have a script answer with whatever it likes.
            if !may_be_read(&body, most) {
                return Err(TabError::TooLarge);
            }
            let answer: Value = serde_json::from_slice(&body).map_err(|error| refused(&error))?;
            value(head.status, answer)
        };
        timeout(limit, answered).await.unwrap_or(Err(TabError::Late))
    }

    /// Opens the page and waits until it counts as open.
    pub(crate) async fn open(&self, source: &Source, request: &PageRequest, limit: Duration) -> Result<(), Error> {
        let until = Instant::now() + limit;
        let late = |error| match error {
            TabError::Late => Error::not_open_within(limit),
            error => error.when("open the page", self.limit),
        };
        match source {
            Source::Url(url) => {
                self.post("timeouts", json!({"pageLoad": millis(limit)}), limit).await.map_err(late)?;
                match self.post("url", json!({"url": url.as_str()}), limit).await {
                    Err(TabError::Refused(words)) => Err(Error::NotOpened { reason: self.reason(url, &words) }),
                    Err(error) => Err(late(error)),
                    // WebKit shows an empty page where none came.
                    Ok(_) => match self.session.egress.outcomes().failure_at(url) {
                        Some(why) if self.engine() == Engine::Webkit => {
                            Err(Error::NotOpened { reason: format!("{} ({why})", why.net_error()) })
                        }
                        _ => Ok(()),
                    },
                }
            }
            Source::Html(html) => {
                self.call("write", &[json!(html)], limit).await.map_err(late)?;
                let waits_for_all = moments(request).contains(&LifecycleEvent::Load);
                loop {
                    let state = self.call("ready", &[], left(until)).await.map_err(late)?;
                    if state == "complete" || (state == "interactive" && !waits_for_all) {
                        return Ok(());
                    }
                    if left(until).is_zero() {
                        return Err(late(TabError::Late));
                    }
                    sleep(LOOK.min(left(until))).await;
                }
            }
        }
    }

    /// Why a page did not open: the daemon's own word for it, where it has one.
    fn reason(&self, url: &Url, words: &str) -> String {
        match self.session.egress.outcomes().failure_at(url) {
            Some(why) => format!("{} ({why})", why.net_error()),
            None => words.to_owned(),
        }
    }

    /// Calls a function of the page's own file.
    pub(crate) async fn call(&self, name: &str, arguments: &[Value], limit: Duration) -> Result<Value, TabError> {
        self.run(FUNCTIONS, named(name, arguments), limit).await
    }

    /// Calls a function.
    pub(crate) async fn run(&self, function: &str, given: Vec<Value>, limit: Duration) -> Result<Value, TabError> {
        let script = format!(
            "const given = [...arguments], done = given.pop(); const all = (\n{function}\n); \
             Promise.resolve(all(...given)).then(done, (why) => done({{refused: String(why)}}))"
        );
        self.script(&script, given, limit).await
    }

    /// The value of the client's own code.
    pub(crate) async fn evaluate(&self, code: &str, limit: Duration) -> Result<Value, TabError> {
        let script = format!(
            "const done = arguments[0]; (async () => {{ const it = (\n{code}\n); \
             return typeof it === 'function' ? await it() : await it; }})()\
             .then((value) => done({{value}}), (why) => done({{threw: String(why)}}))"
        );
        let mut answer = self.script(&script, Vec::new(), limit).await?;
        match answer["threw"].take() {
            Value::String(words) => Err(TabError::Threw(words.chars().take(WORDS).collect())),
            _ => Ok(answer["value"].take()),
        }
    }

    async fn script(&self, script: &str, arguments: Vec<Value>, limit: Duration) -> Result<Value, TabError> {
        // The driver has to give a script up that never ends, or it takes no other command.
        self.post("timeouts", json!({"script": millis(limit)}), limit).await?;
        self.post("execute/async", json!({"script": script, "args": arguments}), limit).await
    }

    /// Prints the page.
    pub(crate) async fn print(&self, pdf: &Pdf, limit: Duration) -> Result<Bytes, Error> {
        let failed = |error: TabError| error.when("print the page", self.limit);
        if pdf.wait_for_fonts {
            self.call("fonts", &[], limit).await.map_err(failed)?;
        }
        let centimetres = |inches: f64| inches * MILLIMETRES / 10.0;
        let [top, right, bottom, left] = pdf.margin.map(centimetres);
        let ranges: Vec<&str> = pdf.ranges.split(',').map(str::trim).filter(|range| !range.is_empty()).collect();
        let body = json!({
            "orientation": if pdf.landscape { "landscape" } else { "portrait" },
            "scale": pdf.scale,
            "background": pdf.background,
            "page": {
                "width": centimetres(pdf.width.unwrap_or_default()),
                "height": centimetres(pdf.height.unwrap_or_default()),
            },
            "margin": {"top": top, "right": right, "bottom": bottom, "left": left},
            "pageRanges": ranges,
            "shrinkToFit": false,
        });
        let printed = self.post("print", body, limit).await.map_err(failed)?;
        self.decoded(&printed).map_err(failed)
    }

    /// Takes a picture.
    pub(crate) async fn screenshot(&self, wanted: &Screenshot, limit: Duration) -> Result<Bytes, Error> {
        let failed = |error: TabError| error.when("picture the page", self.limit);
        let picture = match &wanted.part {
            CaptureArea::Element(selector) => self.picture_of(selector, limit).await?,
            CaptureArea::FullPage if self.engine() == Engine::Firefox => {
                self.get("moz/screenshot/full", limit).await.map_err(failed)?
            }
            CaptureArea::FullPage => {
                // There is no command for it, so the window becomes as large as the page.
                let size = self.call("size", &[], limit).await.map_err(failed)?;
                let side = |name: &str, inner: &str, outer: &str| {
                    let of = |name: &str| size[name].as_f64().unwrap_or_default();
                    (of(name) + (of(outer) - of(inner)).max(0.0)).ceil()
                };
                let (width, height) =
                    (side("width", "innerWidth", "outerWidth"), side("height", "innerHeight", "outerHeight"));
                self.post("window/rect", json!({"width": width, "height": height}), limit).await.map_err(failed)?;
                self.get("screenshot", limit).await.map_err(failed)?
            }
            CaptureArea::Viewport | CaptureArea::Clip(_) => self.get("screenshot", limit).await.map_err(failed)?,
        };
        self.decoded(&picture).map_err(failed)
    }

    async fn picture_of(&self, selector: &str, limit: Duration) -> Result<Value, Error> {
        // It says what is wrong with the selector, and brings the element into view.
        crate::perform::checked_place(&self.call("place", &[json!(selector)], limit).await)?;
        let failed = |error: TabError| error.when("picture the element", self.limit);
        let found = self.post("element", json!({"using": "css selector", "value": selector}), limit).await;
        let found = found.map_err(failed)?;
        let id = found[ELEMENT].as_str().unwrap_or_default().to_owned();
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')) {
            return Err(Error::invalid("selector", "has an element that the driver cannot name"));
        }
        self.get(&format!("element/{id}/screenshot"), limit).await.map_err(failed)
    }

    fn decoded(&self, answer: &Value) -> Result<Bytes, TabError> {
        let bytes = STANDARD.decode(answer.as_str().unwrap_or_default());
        let bytes = bytes.map_err(|error| TabError::Refused(error.to_string()))?;
        if bytes.len() as u64 > self.limit {
            return Err(TabError::TooLarge);
        }
        Ok(bytes.into())
    }

    /// The cookies that the page has.
    pub(crate) async fn cookies(&self, limit: Duration) -> Result<Value, TabError> {
        self.get("cookie", limit).await
    }

    /// What the site answered, as far as the page itself knows it.
    pub(crate) async fn response(&self, limit: Duration) -> PageResponse {
        let Ok(status) = self.call("status", &[], limit).await else { return PageResponse::default() };
        let url = status["url"].as_str().filter(|url| url.starts_with("http")).map(str::to_owned);
        let code = status["status"].as_u64().and_then(|code| u16::try_from(code).ok());
        let code = code.and_then(|code| StatusCode::from_u16(code).ok());
        PageResponse {
            code: code.map(|code| code.as_u16()),
            status: code.and_then(|code| code.canonical_reason()).map(str::to_owned),
            url,
            ..PageResponse::default()
        }
        .with_address(self.session.egress.outcomes())
    }
}

/// The moments of a page that a call waits for.
pub(crate) fn moments(request: &PageRequest) -> &[LifecycleEvent] {
    request.goto.wait_until.as_ref().map_or(&[LifecycleEvent::Load][..], |until| &until.0)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// What a driver's answer says.
fn value(status: StatusCode, mut answer: Value) -> Result<Value, TabError> {
    let mut value = answer["value"].take();
    if status.is_success() {
        return Ok(value);
    }
    let words = value["message"].take();
    let words: String =
        words.as_str().unwrap_or_default().lines().next().unwrap_or_default().chars().take(WORDS).collect();
    Err(match value["error"].as_str().unwrap_or_default() {
        "timeout" | "script timeout" => TabError::Late,
        "javascript error" => TabError::Threw(words),
        "invalid session id" | "no such window" => TabError::Gone,
        // Firefox has no words for a certificate that it does not believe.
        error if words.is_empty() => TabError::Refused(error.to_owned()),
        _ => TabError::Refused(words),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drivers_words_become_those_of_a_tab() {
        let said = |status: u16, error: &str| {
            let answer = json!({"value": {"error": error, "message": "Error: x\nat y"}});
            value(StatusCode::from_u16(status).unwrap(), answer)
        };
        assert!(matches!(said(500, "script timeout"), Err(TabError::Late)));
        assert!(matches!(said(500, "javascript error"), Err(TabError::Threw(words)) if words == "Error: x"));
        assert!(matches!(said(404, "invalid session id"), Err(TabError::Gone)));
        assert!(matches!(said(500, "unknown error"), Err(TabError::Refused(_))));
        let wordless = json!({"value": {"error": "insecure certificate", "message": ""}});
        let wordless = value(StatusCode::BAD_REQUEST, wordless);
        assert!(matches!(wordless, Err(TabError::Refused(words)) if words == "insecure certificate"));
        assert_eq!(value(StatusCode::OK, json!({"value": 3})).unwrap(), 3);
    }
}
