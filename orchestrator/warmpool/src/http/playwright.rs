//! Playwright's own protocol, for `chromium.connect` and the test runner's `connectOptions`: each connection is a session.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::App;
use super::auth::verify;
use super::browserless::{SESSION, check_handshake, note_warnings};
use super::create;
use super::devtools;
use super::openapi::{Access, Operation, Routes};
use super::reply::{Form, json_reply, unknown_path};
use super::route::{Policy, Segment};
use crate::dropin::playwright::{not_served, read, version};
use crate::http::error::Error;
use warmpool_core::error::Code;
use warmpool_protocol::playwright_minor;

/// The last segment of the websocket that [`described`] names.
const SOCKET_SEGMENT: &str = "ws";
/// How clients attach.
const EXAMPLE: &str = "`chromium.connect('ws://...')` of Playwright";
/// The field of an error about a version that the worker's image does not have.
const IMAGE: &str = "settings.playwright";

/// What a query may say. `dropin::playwright` reads it, has the meaning of each, and refuses all others.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is needed")]
struct PlaywrightQuery {
    /// A service key, where the client sets no header.
    token: Option<String>,
    /// The browser's name: `chromium`.
    browser: Option<String>,
    /// Playwright's launch options as JSON. `args`, `channel`, `headless`, `proxy`, `slowMo` and `timeout` count. The header
    /// `x-playwright-launch-options` says the same.
    #[serde(rename = "launch-options")]
    launch_options: Option<String>,
    /// `session_timeout`, in milliseconds.
    timeout: Option<u64>,
    /// `idle_timeout`, in seconds.
    idle_timeout: Option<u64>,
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
    /// The body of `POST /sessions/create` as JSON, or that in base64: what the address has no parameter for.
    options: Option<String>,
}

const ENGINE: Segment = Segment::new("engine", "The browser's name: `chromium`.");
const VERSION: Segment =
    Segment::new("version", "The client's version as Moon's addresses have it: `playwright-1.65.0`.");
/// Playwright's clients show the body of a failure as it is.
const SOCKET: Policy =
    Policy::rest(Access::Socket, &[ENGINE, VERSION]).takes_at_least::<PlaywrightQuery>().form(Form::Text);
const ANSWER: Policy = Policy::rest(Access::Open, &[ENGINE]).takes_anything().form(Form::Text);

pub(super) fn routes() -> Routes {
    let socket = |id, summary| {
        Operation::new(id, summary, SOCKET)
            .about(
                "A websocket for Playwright's `connect`, which makes its session by being opened and ends it by being closed. \
                 The client's User-Agent chooses the server's version: 428 names those that there are. The header \
                 `x-warmpool-session` of the answer has the session's id. Failures are plain text, which Playwright shows.",
            )
            .upgrades("The websocket is open.")
            .fails(create::FAILURES)
            .fails(devtools::SOCKET_FAILURES)
            .fails(&[Code::PlaywrightVersion])
    };
    let answer = |id| {
        Operation::new(id, "Where Playwright's websocket is, for a client that has an address of http", ANSWER)
            .writes::<Description>("The path below the address.")
            .fails(&[Code::NotSupported])
    };
    let mut routes = Routes::new("Playwright")
        .get("/playwright/{engine}", named, socket("connect_playwright", "Playwright's own protocol"))
        .get("/playwright/{engine}/json", described, answer("describe_playwright"))
        .undescribed("/playwright", axum::routing::get(unnamed), SOCKET)
        .undescribed("/playwright/json", axum::routing::get(described), ANSWER)
        .undescribed("/playwright/ws", axum::routing::get(unnamed), SOCKET)
        .undescribed("/playwright/{engine}/ws", axum::routing::get(named), SOCKET)
        .undescribed("/playwright/{engine}/{version}", axum::routing::get(versioned), SOCKET);
    for engine in ["chromium", "chrome", "firefox", "webkit", "edge"] {
        for end in ["", "/ws"] {
            let connect = move |State(app): State<App>, request: Request| async move {
                connect(&app, Some(engine), request).await
            };
            routes = routes.undescribed(&format!("/{engine}/playwright{end}"), axum::routing::get(connect), SOCKET);
        }
        routes = routes.undescribed(&format!("/{engine}/playwright/json"), axum::routing::get(described), ANSWER);
    }
    routes
}

async fn named(State(app): State<App>, Path(engine): Path<String>, request: Request) -> Result<Response, Error> {
    connect(&app, Some(&engine), request).await
}

/// As clients of Moon have it. They send their version as well, and that one counts.
async fn versioned(
    State(app): State<App>,
    Path((engine, version)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Error> {
    if version.strip_prefix("playwright-").and_then(playwright_minor).is_none() {
        return Err(unknown_path(request).await);
    }
    connect(&app, Some(&engine), request).await
}

/// The query or a header names the browser.
async fn unnamed(State(app): State<App>, request: Request) -> Result<Response, Error> {
    connect(&app, None, request).await
}

/// Where the websocket of an address is.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PlaywrightDescription")]
struct Description {
    /// The path below the address that was asked.
    #[serde(rename = "wsEndpointPath")]
    path: &'static str,
}

/// `GET …/json`: Playwright asks for it when its `wsEndpoint` is an address of http, and without its headers.
async fn described(State(app): State<App>) -> Result<Response, Error> {
    if app.config.playwright.versions.is_empty() {
        return Err(not_served());
    }
    Ok(json_reply(StatusCode::OK, &Description { path: SOCKET_SEGMENT }))
}

/// Makes a session for the one connection that asks for it.
async fn connect(app: &App, engine: Option<&str>, request: Request) -> Result<Response, Error> {
    let versions = &app.config.playwright.versions;
    if versions.is_empty() {
        return Err(not_served());
    }
    let wanted = read(engine, request.uri().query().unwrap_or_default(), request.headers())?;
    let key = verify(app, request.headers(), wanted.token.as_deref())?;
    let version = version(request.headers(), versions)?;
    let warnings = wanted.warnings().to_vec();
    let options = wanted.options(version, &app.config)?;
    // Last, as for other websockets.
    check_handshake(request.headers(), EXAMPLE, &warnings)?;
    let created = app.sessions.create(key, options).await.map_err(|error| {
        Error::from(error).map_field(|error| error.renamed(|field| field.replace(IMAGE, "playwright.versions")))
    })?;
    let session = Arc::clone(created.session()?);
    note_warnings(&session, &warnings);
    let id = HeaderValue::try_from(session.id.as_str());
    let mut response = devtools::connect(app, session, "/playwright", request).await?;
    if let Ok(id) = id {
        response.headers_mut().insert(SESSION, id);
    }
    // From here on the socket holds it.
    app.recorder.start(&created.confirm()?, &app.drain);
    Ok(response)
}
