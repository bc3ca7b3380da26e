//! The two create endpoints, and what their replies say.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde_json::json;

use super::App;
use super::auth::Caller;
use super::body;
use super::inspect;
use super::openapi::{Access, Operation, Routes};
use super::public_url::PublicUrl;
use super::reply::json_reply;
use super::route::{Policy, Traffic};
use crate::http::error::Error;
use warmpool_api::session::{CreateNotes, CreatedSession, CreatedWebDriverSession};
use warmpool_core::error::Code;
use warmpool_keys::KeyId;
use warmpool_sessions::session::{
    APP_NAME, CreateRequest, CreateSession, CreateWebDriverSession, Session, SessionKind, Status,
};

/// Why a session may not be made.
pub(super) const FAILURES: &[Code] = &[
    Code::NotSupported,
    Code::UnknownExtension,
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

/// Why its profile may not open, where a call can name one.
pub(super) const PROFILE_FAILURES: &[Code] =
    &[Code::UnknownProfile, Code::ProfileInUse, Code::ProfileLimit, Code::Conflict];

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
                .fails(FAILURES)
                .fails(PROFILE_FAILURES),
        )
        .post(
            "/sessions/webdriver/create",
            webdriver,
            Operation::new("create_webdriver_session", "Create a session for a WebDriver client", POLICY)
                .about("For Selenium, fantoccini and other clients of WebDriver. Quitting the driver ends the session.")
                .reads::<CreateWebDriverSession>(example)
                .writes::<CreatedWebDriverSession>("The session is running.")
                .fails(FAILURES)
                .fails(PROFILE_FAILURES),
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
    let session = create(&app, key, SessionKind::DevTools, &headers, body).await?;
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
    let session = create(&app, key, SessionKind::WebDriver, &headers, body).await?;
    let reply = CreatedWebDriverSession {
        session_id: session.id.clone(),
        status: Status::of_webdriver(session.status()),
        connect_url: base.connect_url(&session),
        notes: notes(&session),
    };
    Ok(json_reply(StatusCode::OK, &reply))
}

/// Reads the body and makes the session. It is the client's from here on: the caller only writes the reply.
async fn create(
    app: &App,
    key: KeyId,
    kind: SessionKind,
    headers: &HeaderMap,
    body: Body,
) -> Result<Arc<Session>, Error> {
    let limit = app.config.server.max_body.bytes().max(app.config.session.max_state.bytes());
    let read = body::json_within::<CreateRequest>(app, headers, body, limit, "session.max_state").await;
    let (request, text) = match kind {
        SessionKind::DevTools => read.map_err(|error| error.map_field(|error| error.without_field(APP_NAME)))?,
        SessionKind::WebDriver | SessionKind::Task => read?,
    };
    let options = request.options(kind, &app.config)?;
    let _kept = text.kept();
    let session = app.sessions.create(key, options).await?.confirm()?;
    app.recorder.start(&session, &app.drain);
    Ok(session)
}

fn notes(session: &Session) -> CreateNotes {
    CreateNotes { warnings: session.warnings.clone(), proxy: session.egress.upstream() }
}
