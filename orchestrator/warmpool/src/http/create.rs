//! The two create endpoints: what a body may say, and what the reply says.

mod request;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use warmpool_core::error::{Code, FieldError, FieldFault as _, ServiceError, ServiceFault as _};
use warmpool_protocol::{self as protocol, CaptchaSolver, Launch, Size, check_locales};

use super::App;
use super::auth::Caller;
use super::body::{self, Object};
use super::inspect;
use super::openapi::{Access, Operation, Routes};
use super::public_url::PublicUrl;
use super::reply::json_reply;
use super::route::{Policy, Traffic};
use crate::dropin::CreateBody;
use crate::http::error::Error;
use request::{APP_NAME, CreateRequest, CreateSession};
pub(super) use request::{Advanced, Settings};
use warmpool_api::session::{CreateNotes, CreatedSession, CreatedWebDriverSession};
use warmpool_config::{CaptchaMode, Config};
use warmpool_core::browser::{Engine, Mode};
use warmpool_keys::KeyId;
use warmpool_sessions::session::{Kind, Options, Session, Status, page_address};
use warmpool_workers::egress::{Location, Upstreams};

/// The member that asks for an upstream proxy.
const PROXY: &str = "advanced.proxy";
/// The longest passcode or app name, in bytes.
const MAX_TEXT: usize = 1024;

/// Why a session may not be made.
pub(super) const FAILURES: &[Code] = &[
    Code::NotSupported,
    Code::QueueFull,
    Code::KeyLimit,
    Code::NoWorker,
    Code::EngineNotInstalled,
    Code::BrowserNotStarting,
    Code::ProxyUnavailable,
    Code::Draining,
    Code::RuntimeDown,
    Code::Starting,
    Code::StoreBusy,
    Code::DiskNearlyFull,
    Code::WorkerFailed,
    Code::WorkerTimeout,
];

const POLICY: Policy = Policy::rest(Access::Key, &[]).of(Traffic::Work).suggested();

pub(super) fn routes(routes: Routes) -> Routes {
    let example =
        json!({"browser_type": "chromium", "headless": true, "url": "https://example.com/", "session_timeout": 600});
    routes
        .post(
            "/sessions/create",
            devtools,
            Operation::new("create_session", "Create a session for a websocket client", POLICY)
                .about(
                    "For Puppeteer, Playwright and other clients of DevTools or WebDriver BiDi. The session is running when the \
                     answer comes. Where a call names no `url`, the first tab opens a public search engine.",
                )
                .reads::<CreateSession>(example.clone())
                .writes::<CreatedSession>("The session is running.")
                .fails(FAILURES),
        )
        .post(
            "/sessions/webdriver/create",
            webdriver,
            Operation::new("create_webdriver_session", "Create a session for a WebDriver client", POLICY)
                .about("For Selenium, fantoccini and other clients of WebDriver. Quitting the driver ends the session.")
                .reads::<CreateRequest>(example)
                .writes::<CreatedWebDriverSession>("The session is running.")
                .fails(FAILURES),
        )
}

/// `POST /sessions/create`
pub(super) async fn devtools(
    State(app): State<App>,
    Caller(key): Caller,
    base: PublicUrl,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let session = create(&app, key, Kind::DevTools, &headers, body).await?;
    let reply = CreatedSession {
        session_id: session.id.clone(),
        websocket_url: base.websocket_url(&session),
        livestream_url: base.livestream_url(&session),
        status: session.status(),
        protocol: session.options.engine.protocol().to_owned(),
        connect_headers: inspect::connect_headers(&session),
        notes: notes(&session),
    };
    Ok(json_reply(StatusCode::OK, &reply))
}

/// `POST /sessions/webdriver/create`
pub(super) async fn webdriver(
    State(app): State<App>,
    Caller(key): Caller,
    base: PublicUrl,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let session = create(&app, key, Kind::WebDriver, &headers, body).await?;
    let reply = CreatedWebDriverSession {
        session_id: session.id.clone(),
        status: Status::of_webdriver(session.status()),
        connect_url: base.connect_url(&session),
        notes: notes(&session),
    };
    Ok(json_reply(StatusCode::OK, &reply))
}

/// Reads the body and makes the session. It is the client's from here on: the caller only writes the reply.
async fn create(app: &App, key: KeyId, kind: Kind, headers: &HeaderMap, body: Body) -> Result<Arc<Session>, Error> {
    let read = body::json::<CreateRequest>(app, headers, body).await;
    let (request, _text) = match kind {
        Kind::DevTools => read.map_err(|error| error.map_field(|error| error.without_field(APP_NAME)))?,
        Kind::WebDriver | Kind::Task => read?,
    };
    let options = options(request, kind, &app.config)?;
    let created = app.sessions.create(key, options).await?;
    let session = created.confirm().ok_or(Error::Service(ServiceError::Draining))?;
    start_recording(app, &session);
    Ok(session)
}

/// Starts recording a session that asks for it.
pub(super) fn start_recording(app: &App, session: &Arc<Session>) {
    if session.options.recording {
        app.drain.spawn(app.recorder.record(Arc::clone(session)));
    }
}

/// The options of a session that somebody else's words ask for.
pub(super) fn translated(create_body: &CreateBody, kind: Kind, config: &Config) -> Result<Options, Error> {
    let fields = serde_json::to_vec(create_body.fields()).map_err(Error::internal)?;
    let checked = body::parse::<CreateRequest>(&fields).and_then(|mut request| {
        // Clients of other services name their sessions, whichever the protocol.
        let name = request.app_name.take();
        Ok(Options { app_name: short("app_name", name)?, ..options(request, kind, config)? })
    });
    checked.map_err(|error| error.map_field(|error| create_body.in_client_terms(error)))
}

fn notes(session: &Session) -> CreateNotes {
    CreateNotes { warnings: session.warnings.clone(), proxy: session.egress.upstream() }
}

/// Checks a body and fills in the defaults.
fn options(request: CreateRequest, kind: Kind, config: &Config) -> Result<Options, Error> {
    if kind == Kind::DevTools && request.app_name.is_some() {
        return Err(Error::unknown(APP_NAME, "only POST /sessions/webdriver/create has it"));
    }
    let engine = request.browser_type.unwrap_or(Engine::Chromium);
    let advanced = advanced(request.advanced, kind, config)?;
    let mode = Mode::from_headless(request.headless.unwrap_or(false));
    let kiosk = request.kiosk == Some(true);
    if kiosk && mode == Mode::Headless {
        return Err(Error::invalid("kiosk", "needs a display: leave it out, or leave `headless` out"));
    }
    let launch = Launch { kiosk, ..launch(Some(page(request.url, config)?), request.settings, &advanced)? };
    let longest = config.session.max_timeout.as_secs();
    let seconds = |field: &str, value: i64| match u64::try_from(value) {
        Ok(value) if (1..=longest).contains(&value) => Ok(value),
        _ => Err(Error::invalid(field, format!("must be from 1 to {longest} seconds (`session.max_timeout`)"))),
    };
    let default_timeout = config.session.default_timeout.as_secs();
    let session_timeout =
        request.session_timeout.map_or(Ok(default_timeout), |value| seconds("session_timeout", value))?;
    let idle_timeout = request.idle_timeout.map(|value| seconds("idle_timeout", value)).transpose()?;
    Ok(Options {
        kind,
        engine,
        mode,
        launch,
        session_timeout,
        idle_timeout: idle_timeout.or_else(|| config.session.idle_timeout.map(|idle| idle.as_secs())),
        keep_alive: request.keep_alive.unwrap_or(false),
        one_connection: false,
        name: None,
        screen: None,
        proxy: advanced.proxy,
        recording: request.recording.unwrap_or(false),
        service_passcode: short("service_passcode", request.service_passcode)?,
        app_name: short("app_name", request.app_name)?,
    })
}

/// The page to open and the settings to make true, checked.
pub(super) fn launch(
    url: Option<String>,
    settings: Option<Object<Settings>>,
    advanced: &AdvancedOptions,
) -> Result<Launch, Error> {
    let settings = settings.map(|settings| settings.0).unwrap_or_default();
    let misfit = |wrong| Error::from(FieldError::from(wrong).within("settings"));
    let locales = settings.locales.map_or(Ok(Vec::new()), |tags| check_locales(&tags)).map_err(misfit)?;
    let viewport = settings.viewport.map(|Object(size)| Size { width: size.width, height: size.height });
    let settings = protocol::Settings { locales, user_agent: settings.user_agent, viewport };
    settings.check().map_err(misfit)?;
    Ok(Launch { url, settings, block_ads: advanced.block_ads, captchas: advanced.captchas, kiosk: false })
}

/// What `advanced` asks for, checked.
pub(super) struct AdvancedOptions {
    /// Whether ads are to be blocked.
    pub block_ads: bool,
    /// The solver of the pages' challenges, if any.
    pub captchas: Option<CaptchaSolver>,
    /// Where pages are to be asked for, if through an upstream proxy.
    pub proxy: Option<Location>,
}

/// Checks `advanced`. What the contract has and this release or the engine does not, is refused and never silently left out.
pub(super) fn advanced(
    advanced: Option<Object<Advanced>>,
    kind: Kind,
    config: &Config,
) -> Result<AdvancedOptions, Error> {
    let advanced = advanced.map(|advanced| advanced.0).unwrap_or_default();
    let block_ads = advanced.block_ads == Some(true);
    let captchas = if advanced.solve_captchas == Some(true) { Some(captcha_solver(config)?) } else { None };
    Ok(AdvancedOptions { block_ads, captchas, proxy: location(advanced.proxy, kind, config)? })
}

/// The solver of a session's challenges.
fn captcha_solver(config: &Config) -> Result<CaptchaSolver, Error> {
    match config.captcha.mode {
        CaptchaMode::Off => Err(Error::not_supported(
            "advanced.solve_captchas",
            "is off: set `captcha.mode` to person or solver in the daemon's settings, or leave it out",
        )),
        CaptchaMode::Person => Ok(CaptchaSolver::Person),
        CaptchaMode::Solver => Ok(CaptchaSolver::Service),
    }
}

/// Where pages are to be asked for.
fn location(proxy: Option<Value>, kind: Kind, config: &Config) -> Result<Option<Location>, Error> {
    let wanted = match (proxy, kind) {
        (None | Some(Value::Null | Value::Bool(false)), _) => return Ok(None),
        (Some(Value::Bool(true)), _) => Location::default(),
        (Some(Value::Object(members)), Kind::DevTools | Kind::Task) => {
            let location: Location = serde_path_to_error::deserialize(Value::Object(members)).map_err(|error| {
                let path = error.path().to_string();
                Error::from(FieldError::from_serde(&path, &error.into_inner().to_string()).within(PROXY))
            })?;
            location.check().map_err(|error| error.within(PROXY))?;
            location
        }
        (Some(_), Kind::WebDriver) => return Err(Error::invalid(PROXY, "must be a boolean here")),
        (Some(_), Kind::DevTools | Kind::Task) => return Err(Error::invalid(PROXY, "must be an object or a boolean")),
    };
    // Also before a task is accepted, which could never run.
    Upstreams::new(&config.egress.upstreams.0).choose(&wanted, "").map(|_| Some(wanted)).map_err(Into::into)
}

/// The page to open: only what a client could open by itself, and nothing of the container's own.
fn page(url: Option<String>, config: &Config) -> Result<String, Error> {
    let Some(text) = url else { return Ok(config.session.default_url.to_string()) };
    page_address(&text).map_err(|wrong| Error::invalid("url", wrong.to_string()))
}

pub(super) fn short(field: &str, text: Option<String>) -> Result<Option<String>, Error> {
    match text {
        Some(text) if text.len() > MAX_TEXT => Err(Error::invalid(field, format!("may have {MAX_TEXT} bytes at most"))),
        text => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_config::{Flags, Host};
    use warmpool_core::error::Fault as _;

    fn check(body: Value, kind: Kind) -> Result<Options, Error> {
        let host = Host { memory: 8 << 30, cores: 2, root: true };
        let config = Config::resolve(None, Vec::new(), &Flags::default(), &host).unwrap();
        options(serde_json::from_value(body).unwrap(), kind, &config)
    }

    #[test]
    fn defaults_are_those_of_the_contract() {
        let nulls = json!({"url": null, "browser_type": null, "settings": null, "advanced": null, "headless": null,
            "session_timeout": null, "service_passcode": null});
        for body in [json!({}), nulls] {
            let options = check(body, Kind::DevTools).unwrap();
            assert_eq!(options.engine, Engine::Chromium);
            assert_eq!(options.mode, Mode::Headed);
            assert_eq!(options.session_timeout, 300);
            assert_eq!(options.launch.url.as_deref(), Some("https://www.google.com/"));
        }
    }

    #[test]
    fn faults_name_their_field() {
        for (body, field) in [
            (json!({"session_timeout": 0}), "session_timeout"),
            (json!({"session_timeout": -1}), "session_timeout"),
            (json!({"session_timeout": 86_401}), "session_timeout"),
            (json!({"url": "file:///etc/passwd"}), "url"),
            (json!({"url": "nonsense"}), "url"),
            (json!({"url": "chrome://settings"}), "url"),
            (json!({"settings": {"locales": []}}), "settings.locales"),
            (json!({"settings": {"locales": ["en-US", "x"]}}), "settings.locales[1]"),
            (json!({"settings": {"user_agent": "a\r\nX-Evil: 1"}}), "settings.user_agent"),
            (json!({"settings": {"viewport": {"width": 0, "height": 1}}}), "settings.viewport.width"),
            (json!({"settings": {"viewport": {"width": 1, "height": 8193}}}), "settings.viewport.height"),
            (json!({"advanced": {"solve_captchas": true}}), "advanced.solve_captchas"),
            (json!({"advanced": {"proxy": {"country": "de"}}}), "advanced.proxy"),
            (json!({"advanced": {"proxy": true}}), "advanced.proxy"),
            (json!({"advanced": {"proxy": {"country": "DE"}}}), "advanced.proxy.country"),
            (json!({"advanced": {"proxy": {"city": "new york"}}}), "advanced.proxy.city"),
            (json!({"advanced": {"proxy": {"zip": "1"}}}), "advanced.proxy.zip"),
            (json!({"advanced": {"proxy": {"continent": "eu"}}}), "advanced.proxy.continent"),
            (json!({"advanced": {"proxy": 1}}), "advanced.proxy"),
            (json!({"app_name": "x"}), "app_name"),
        ] {
            let error = check(body.clone(), Kind::DevTools).unwrap_err();
            assert_eq!(error.field(), Some(field), "{body}");
            assert_eq!(error.code().status(), 400);
        }
        assert!(check(json!({"app_name": "x", "advanced": {"proxy": false}}), Kind::WebDriver).is_ok());
    }
}
