//! The URLs that clients of browserless know: a websocket that makes its session by being opened, and ends it by being
//! closed; and the answers about the load.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, post};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;

use super::App;
use super::auth::{StatusCaller, verify};
use super::console;
use super::create;
use super::devtools;
use super::follow::wants;
use super::reply::{json_reply, unknown_path};
use crate::dropin::browserless::read;
use crate::engine::Engine;
use crate::error::Error;
use crate::relay;
use crate::session::Kind;

/// Tells the client of an implicit session which one it has.
const SESSION: HeaderName = HeaderName::from_static("x-warmpool-session");
/// The header by which Playwright's own protocol asks for a browser.
pub(super) const PLAYWRIGHT: HeaderName = HeaderName::from_static("x-playwright-browser");

pub(super) fn routes() -> Router<App> {
    let mut routes = Router::new()
        .route("/", get(root))
        .route("/chromium", get(chromium))
        .route("/chrome", get(chromium))
        .route("/firefox", get(firefox))
        .route("/webkit", get(webkit))
        .route("/edge", any(edge))
        .route("/active", get(active))
        .route("/pressure", get(pressure))
        .route("/playwright", any(playwright))
        .route("/playwright/{browser}", any(playwright))
        .route("/devtools/{kind}/{target}", any(foreign_target));
    for browser in ["chromium", "chrome", "firefox", "webkit", "edge"] {
        routes = routes.route(&format!("/{browser}/playwright"), any(playwright));
    }
    for helper in ["content", "download", "function", "pdf", "performance", "scrape", "screenshot", "unblock"] {
        routes = routes.route(&format!("/{helper}"), post(rest_helper));
    }
    routes
}

/// `GET /` as a websocket, or as a page for people.
async fn root(State(app): State<App>, request: Request) -> Result<Response, Error> {
    if relay::check_handshake(request.headers()).is_err() {
        if wants(request.headers(), "text/html") {
            return Ok(console::welcome());
        }
        return Err(unknown_path(request).await);
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

/// Makes a session for the one connection that asks for it.
async fn connect(app: &App, engine: Engine, request: Request) -> Result<Response, Error> {
    relay::check_handshake(request.headers())?;
    if request.headers().contains_key(PLAYWRIGHT) {
        return Err(no_playwright());
    }
    let query = read(request.uri().query().unwrap_or_default(), engine)?;
    let key = verify(app, request.headers(), query.token.as_deref())?;
    let mut options = create::translated(&query.create_body, Kind::DevTools, &app.config)?;
    options.one_connection = !options.keep_alive;
    let created = app.sessions.create(key, options).await?;
    let session = std::sync::Arc::clone(created.session()?);
    let id = HeaderValue::try_from(session.id.as_str());
    let mut response = devtools::connect(app, session, "/devtools", request).await?;
    // From here on the socket holds it.
    create::record(app, &created.confirm().ok_or(Error::Draining)?);
    if let Ok(id) = id {
        response.headers_mut().insert(SESSION, id);
    }
    Ok(response)
}

pub(super) fn no_playwright() -> Error {
    let remedy = "use `chromium.connectOverCDP` on this host, or on `/chromium`";
    Error::not_supported("path", format!("leads to Playwright's own protocol, which is not served: {remedy}"))
}

async fn playwright() -> Error {
    no_playwright()
}

async fn edge() -> Error {
    Error::not_supported("path", "names Edge, which is not served: connect to `/chromium`")
}

async fn foreign_target() -> Error {
    Error::not_supported("path", "names a target without its session: `GET /json/list` has the URLs of yours")
}

async fn rest_helper(parts: Parts) -> Error {
    let remedy = "drive a browser over its websocket or by WebDriver";
    Error::not_supported("path", format!("leads to `{}`, which is not served: {remedy}", parts.uri.path()))
}

/// `GET /active`
async fn active() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// `GET /pressure`: how full the service is, as JSON or, for who wants text, as a status and a word.
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
    let body = json!({"pressure": {
        "cpu": cpu,
        "date": crate::clock::unix_ms(),
        "isAvailable": !full,
        "maxConcurrent": limits.max_sessions,
        "maxQueued": limits.queue_length,
        "memory": memory,
        "message": message,
        "queued": queued,
        "reason": if full { "full" } else { "" },
        "recentlyRejected": app.pool.recently_rejected(),
        "running": running,
    }});
    json_reply(StatusCode::OK, &body)
}

/// The host's load.
mod load {
    use std::time::Duration;

    /// Between two looks at the processors' clocks.
    const SPAN: Duration = Duration::from_millis(100);

    /// Processors and memory in use, in percent; `None` for what cannot be read.
    pub(super) async fn percent() -> (Option<u64>, Option<u64>) {
        let before = read("/proc/stat").await;
        tokio::time::sleep(SPAN).await;
        let after = read("/proc/stat").await;
        (cpu(&before, &after), memory(&read("/proc/meminfo").await))
    }

    async fn read(path: &str) -> String {
        tokio::fs::read_to_string(path).await.unwrap_or_default()
    }

    /// Idle and total ticks of all processors.
    fn ticks(stat: &str) -> Option<(u64, u64)> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|tick| tick.parse().ok()).take(8).collect();
        Some((ticks.get(3)? + ticks.get(4)?, ticks.iter().sum()))
    }

    fn cpu(before: &str, after: &str) -> Option<u64> {
        let ((idle_then, total_then), (idle_now, total_now)) = (ticks(before)?, ticks(after)?);
        let total = total_now.checked_sub(total_then).filter(|total| *total > 0)?;
        Some(100 - (idle_now.saturating_sub(idle_then) * 100 / total).min(100))
    }

    fn memory(meminfo: &str) -> Option<u64> {
        let field = |name: &str| -> Option<u64> {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().trim_end_matches(" kB").parse().ok()
        };
        let total = field("MemTotal:").filter(|total| *total > 0)?;
        Some(100 - (field("MemAvailable:")? * 100 / total).min(100))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn load_is_read_from_the_kernels_tables() {
            let (before, after) = ("cpu  10 0 10 80 0 0 0 0 0 0\n", "cpu  30 0 20 120 30 0 0 0 0 0\n");
            assert_eq!(cpu(before, after), Some(30));
            assert_eq!(memory("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n"), Some(75));
            assert_eq!((cpu("", ""), memory("")), (None, None));
        }
    }
}
