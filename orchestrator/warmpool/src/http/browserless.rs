//! The URLs that clients of browserless know: a websocket that makes its session by being opened, and ends it by being
//! closed; and the answers about the load.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::App;
use super::auth::{GridKey, KeyToken, StatusCaller, verify};
use super::create;
use super::devtools::{self, TARGET};
use super::grid::driven;
use super::headers::wants;
use super::load;
use super::openapi::{Access, Operation, Routes};
use super::public_url::PublicUrl;
use super::query::Query;
use super::reply::{json_reply, unknown_path};
use super::route::{Policy, Segment, Traffic};
use super::site;
use super::webdriver;
use crate::dropin::browserless::read;
use crate::dropin::playwright::BROWSER;
use crate::http::error::Error;
use warmpool_core::browser::Engine;
use warmpool_core::error::{Code, FieldFault as _};
use warmpool_sessions::relay;
use warmpool_sessions::session::{Options, Session, is_grid_id};

/// Tells the client of an implicit session which one it has.
pub(super) const SESSION: HeaderName = HeaderName::from_static("x-warmpool-session");
/// The header by which Playwright's own protocol asks for a browser.
pub(super) const PLAYWRIGHT: HeaderName = HeaderName::from_static(BROWSER);

/// What a query may say. `dropin::browserless` reads it, has the meaning of each, and refuses all others.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is needed")]
struct BrowserQuery {
    /// A service key, where the client can set no header.
    token: Option<String>,
    /// The same, as users of Steel and Browserbase name it.
    #[serde(rename = "apiKey")]
    api_key: Option<String>,
    /// The id of a session that is there already.
    #[serde(rename = "sessionId")]
    session_id: Option<String>,
    /// The name of a session: the first to use it makes that session, and others join it.
    session: Option<String>,
    /// The name of a profile to write, as users of browserless name it.
    #[serde(rename = "userDataDir")]
    user_data_dir: Option<String>,
    /// The name of a profile to read.
    profile: Option<String>,
    /// `session_timeout`, in milliseconds.
    timeout: Option<u64>,
    /// `idle_timeout`, in seconds.
    idle_timeout: Option<u64>,
    /// Whether the session outlives this connection.
    keep_alive: Option<bool>,
    /// `logs`.
    logs: Option<bool>,
    /// Whether the browser has no display: `true` where it is left out.
    headless: Option<String>,
    /// `advanced.block_ads`.
    #[serde(rename = "blockAds")]
    block_ads: Option<bool>,
    /// `app_name`: 1 to 31 letters, digits, `-` or `_`.
    #[serde(rename = "trackingId")]
    tracking_id: Option<String>,
    /// An object of launch options as JSON, or that in base64.
    launch: Option<String>,
    /// The body of `POST /sessions/create` as JSON, or that in base64: what the address has no parameter for.
    options: Option<String>,
}

/// The target's kind in a path, or a grid's session, which its id opens.
const KIND: Segment = Segment::secret("kind", "The target's kind, such as `page`; or the id of a grid's session.");

/// Websockets that make their session.
const SOCKET: Policy = Policy::rest(Access::Socket, &[KIND, TARGET]).takes_at_least::<BrowserQuery>();

/// A path that is not served.
const REFUSAL: Policy = Policy::rest(Access::Open, &[]).takes_anything();

pub(super) fn routes() -> Routes {
    let socket = |id, summary| {
        Operation::new(id, summary, SOCKET)
            .about(
                "A websocket that makes its session by being opened, and ends it by being closed. The query says which session \
                 is wanted; a switch of the browser such as `--lang=de` is a parameter, too. The header `x-warmpool-session` of \
                 the answer has the session's id. A request that is no handshake gets the error that a handshake would get, and \
                 426 where the address is right.",
            )
            .upgrades("The websocket is open.")
            .fails(create::FAILURES)
            .fails(create::PROFILE_FAILURES)
            .fails(&[Code::UnknownSession, Code::SessionEnded])
            .fails(devtools::SOCKET_FAILURES)
    };
    let by_key = SOCKET.takes::<KeyToken>();
    Routes::new("browserless")
        .get(
            "/",
            root,
            socket("connect_chromium_at_root", "A fresh Chromium")
                .writes_text("text/html", "A page for people who open the address in a browser.")
                .fails(&[Code::UnknownPath]),
        )
        .get("/chromium", chromium, socket("connect_chromium", "A fresh Chromium"))
        .get("/chrome", chromium, socket("connect_chrome", "A fresh Chromium, under another name"))
        .get("/edge", chromium, socket("connect_edge", "A fresh Chromium, under the name of a relative"))
        .get("/firefox", firefox, socket("connect_firefox", "A fresh Firefox, by WebDriver BiDi"))
        .get("/webkit", webkit, socket("connect_webkit", "A fresh WebKit, by its inspector"))
        .get(
            "/active",
            active,
            Operation::new("get_active", "Liveness check, as browserless has it", by_key.access(Access::Open))
                .writes_nothing("It is alive."),
        )
        .get(
            "/pressure",
            pressure,
            Operation::new(
                "get_pressure",
                "How full the service is",
                by_key.access(Access::Status).of(Traffic::Probes),
            )
            .writes::<PressureReport>("The load.")
            .writes_text("text/plain", "`ok`.")
            .writes_text_at(503, "Every session is in use, and so is every place in the queue."),
        )
        .get(
            "/devtools/{kind}",
            selenoid,
            Operation::new("connect_selenoid_devtools", "DevTools of a grid's session, where Selenoid has it", by_key)
                .upgrades("The websocket is open.")
                .fails(&[Code::UnknownSession, Code::SessionEnded])
                .fails(devtools::SOCKET_FAILURES),
        )
        .undescribed("/devtools/{kind}/", get(selenoid), by_key)
        .get(
            "/devtools/{kind}/{target}",
            target,
            Operation::new("connect_target_by_id", "A target of one of the caller's sessions", by_key)
                .upgrades("The websocket is open.")
                .fails(&[Code::UnknownTarget, Code::MethodNotAllowed, Code::NotSupported])
                .fails(devtools::SOCKET_FAILURES),
        )
        .undescribed("/unblock", post(unblock), REFUSAL)
}

/// How full the service is.
#[derive(Serialize, JsonSchema)]
struct PressureReport {
    pressure: Pressure,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Pressure {
    /// Of the host's processors, in percent.
    cpu: Option<u64>,
    /// In Unix milliseconds.
    date: u64,
    is_available: bool,
    max_concurrent: usize,
    max_queued: usize,
    /// Of the host's memory, in percent.
    memory: Option<u64>,
    message: &'static str,
    queued: usize,
    reason: &'static str,
    recently_rejected: usize,
    running: usize,
}

/// `GET /` as a websocket, or as a page for people. Monitoring asks for it too, and means no browser.
async fn root(State(app): State<App>, base: PublicUrl, request: Request) -> Result<Response, Error> {
    if relay::check_handshake(request.headers()).is_err() {
        if wants(request.headers(), "text/html") {
            return Ok(site::start(&app, &base));
        }
        if request.uri().query().is_none() {
            return Err(unknown_path(request).await);
        }
    }
    connect(&app, Engine::Chromium, request).await
}

async fn chromium(State(app): State<App>, request: Request) -> Result<Response, Error> {
    connect(&app, Engine::Chromium, request).await
}

async fn firefox(State(app): State<App>, request: Request) -> Result<Response, Error> {
    connect(&app, Engine::Firefox, request).await
}

async fn webkit(State(app): State<App>, request: Request) -> Result<Response, Error> {
    connect(&app, Engine::Webkit, request).await
}

/// Makes a session for the one connection that asks for it, or for all that give it the same name. Whether this is a handshake is
/// asked last: clients of websockets show a status and nothing else, and so curl shows why an address is refused.
async fn connect(app: &App, engine: Engine, request: Request) -> Result<Response, Error> {
    if request.headers().contains_key(PLAYWRIGHT) {
        return Err(no_playwright());
    }
    let query = read(request.uri().query().unwrap_or_default(), engine)?;
    let key = verify(app, request.headers(), query.token.as_deref())?;
    if let Some(id) = &query.session_id {
        app.sessions.find_patiently(id, &key).await?;
        let session = app.sessions.find_live(id, &key)?;
        check_handshake(request.headers(), example(session.options.engine), &[])?;
        return devtools::connect(app, session, "/devtools", request).await;
    }
    let options = query.options(&app.config)?;
    let warnings = &query.create_body.warnings;
    check_handshake(request.headers(), example(engine), warnings)?;
    let may_join = |wanted: &Options, has: &Options| query.check_joins(wanted, has);
    let opened = app.sessions.join_or_create(key, options, may_join).await?;
    let session = Arc::clone(opened.session()?);
    note_warnings(&session, warnings);
    let id = HeaderValue::try_from(session.id.as_str());
    let mut response = devtools::connect(app, session, "/devtools", request).await?;
    if let Ok(id) = id {
        response.headers_mut().insert(SESSION, id);
    }
    // From here on the socket holds it.
    if let Some(session) = opened.confirm()? {
        app.recorder.start(&session, &app.drain);
    }
    Ok(response)
}

/// How clients attach to an address of a browser of this engine.
const fn example(engine: Engine) -> &'static str {
    match engine {
        Engine::Chromium => {
            "`puppeteer.connect({ browserWSEndpoint: 'ws://...' })` or `chromium.connectOverCDP('ws://...')` of Playwright"
        }
        Engine::Firefox => "`puppeteer.connect({ browserWSEndpoint: 'ws://...', protocol: 'webDriverBiDi' })`",
        Engine::Webkit => "`webkit.connectOverCDP('ws://...')` of Playwright",
    }
}

/// Fails for a request that is no handshake, and whose address and key are right.
/// Errors: `NoHandshake`.
pub(super) fn check_handshake(headers: &HeaderMap, example: &'static str, warnings: &[String]) -> Result<(), Error> {
    relay::check_handshake(headers).map_err(|_| Error::NoHandshake { example, warnings: warnings.to_vec() })
}

/// Logs what a client asked for and does not get.
pub(super) fn note_warnings(session: &Session, warnings: &[String]) {
    if !warnings.is_empty() {
        tracing::info!(session = %session.id, ?warnings, "an address with what has no effect");
    }
}

/// Playwright's own protocol has paths of its own.
pub(super) fn no_playwright() -> Error {
    let remedy = "use `chromium.connectOverCDP` on this address, or `chromium.connect` on `/playwright/chromium`";
    Error::not_supported("path", format!("leads to Playwright's own protocol, which is not served here: {remedy}"))
}

/// `GET /devtools/<kind>/<target>?token=…`: a target of one of the caller's sessions. Some clients keep nothing of the URL
/// that they were given but its host and its token, which is a key or a session's own.
async fn target(
    State(app): State<App>,
    Path((kind, target)): Path<(String, String)>,
    Query(KeyToken { token }): Query<KeyToken>,
    request: Request,
) -> Result<Response, Error> {
    if is_grid_id(&kind) {
        // Selenoid's `/devtools/<session>/browser` and `/page`: either is the browser, whose targets the client attaches to.
        if !matches!(target.as_str(), "browser" | "page") {
            return Err(warmpool_sessions::Error::UnknownTarget.into());
        }
        return of_grid(&app, &kind, token.as_deref(), request).await;
    }
    let opened = match token.as_deref() {
        Some(token) => app.sessions.opened_by(token).await,
        None => None,
    };
    let session = match opened {
        Some(session) => session,
        None => {
            let key = verify(&app, request.headers(), token.as_deref())?;
            // All browsers of the key are asked for it.
            relay::check_handshake(request.headers())?;
            app.targets.session_with(&key, &target).await?
        }
    };
    devtools::connect_target(&app, session, &format!("{kind}/{target}"), request).await
}

/// `GET /devtools/<session>`, as Selenoid has it.
async fn selenoid(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(KeyToken { token }): Query<KeyToken>,
    request: Request,
) -> Result<Response, Error> {
    of_grid(&app, &id, token.as_deref(), request).await
}

/// The browser of a grid's session.
async fn of_grid(app: &App, id: &str, token: Option<&str>, request: Request) -> Result<Response, Error> {
    let key = GridKey::read(app, request.headers(), token)?;
    let (session, driver_id) = driven(app, id, &key).await?;
    webdriver::attach(app, session, &driver_id, request).await
}

/// `POST /unblock`
async fn unblock() -> Error {
    let remedy = "drive a browser over its websocket or by WebDriver";
    Error::not_supported("path", format!("leads to `/unblock`, which is not served: {remedy}"))
}

/// `GET /active`
async fn active() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// `GET /pressure`: the service's load, as JSON or, for clients that want text, as a status and a word.
async fn pressure(State(app): State<App>, _: StatusCaller, headers: HeaderMap) -> Response {
    let (running, queued) = (app.sessions.live_count(), app.pool.waiting());
    let limits = &app.config.session;
    let full = running >= limits.max_sessions && queued >= limits.queue_length;
    let (cpu, memory) = load::percent().await;
    let message = if full { "every session is in use, and so is every place in the queue" } else { "" };
    let wants_text = headers.get(ACCEPT).is_some_and(|accept| accept == "text/plain");
    if wants_text {
        let status = if full { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        let word = if full { message } else { "ok" };
        return (status, [(CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{word}\n")).into_response();
    }
    let pressure = Pressure {
        cpu,
        date: warmpool_core::clock::unix_ms(),
        is_available: !full,
        max_concurrent: limits.max_sessions,
        max_queued: limits.queue_length,
        memory,
        message,
        queued,
        reason: if full { "full" } else { "" },
        recently_rejected: app.pool.recently_rejected(),
        running,
    };
    json_reply(StatusCode::OK, &PressureReport { pressure })
}
