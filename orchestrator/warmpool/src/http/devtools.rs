//! Websockets of a session: DevTools and BiDi.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use hyper_util::rt::TokioIo;
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::Instrument as _;

use super::App;
use super::openapi::{Access, Operation, Routes};
use super::query::Query;
use super::route::{Policy, Segment};
use super::sessions::ID;
use super::webdriver::{DRIVER, TOKEN};
use crate::http::error::Error;
use warmpool_core::error::Code;
use warmpool_sessions::relay;
use warmpool_sessions::session::Session;

/// What the opening of a session's websocket may fail with.
pub(super) const SOCKET_FAILURES: &[Code] = &[
    Code::UpgradeRequired,
    Code::SocketLimit,
    Code::RuntimeDown,
    Code::Starting,
    Code::WorkerFailed,
    Code::WorkerTimeout,
];

/// What opens a session's websocket.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct SessionToken {
    /// The session's token, as the URL of its create call has it.
    token: String,
    /// A service key, which users of Steel add to such a URL. It is not needed, and has to be the one that made the session.
    #[serde(rename = "apiKey")]
    api_key: Option<String>,
}

/// A target of a browser in a path.
pub(super) const TARGET: Segment =
    Segment::new("target", "A target of DevTools, such as `page/<target id>`; it may have slashes.");
/// Websockets of a session.
const SOCKET: Policy = Policy::rest(Access::Address, &[ID, TARGET, TOKEN, DRIVER]).takes::<SessionToken>();

pub(super) fn routes(routes: Routes) -> Routes {
    let operation = |id, summary, policy| {
        Operation::new(id, summary, policy)
            .upgrades("The websocket is open; the two ends agree on its subprotocol and extensions themselves.")
            .fails(&[Code::UnknownSession, Code::SessionEnded, Code::UnknownTarget])
            .fails(SOCKET_FAILURES)
    };
    let by_path = SOCKET.takes_nothing();
    routes
        .get(
            "/sessions/{id}/devtools",
            browser,
            operation("connect_devtools", "The websocket of a session", SOCKET)
                .about(
                    "It speaks what `protocol` of the create call says: DevTools in Chromium, WebDriver BiDi in Firefox, \
                     WebKit's inspector in WebKit. The daemon relays it frame by frame. It closes with 1000 when the client \
                     finished, 1001 after a request, a time-out or its task, 1008 after the key was revoked, 1011 when the \
                     browser was lost, and 1012 when the daemon shut down. While the session goes on, it closes with 1001 when \
                     the browser closed this connection, and with 1011 when the browser stopped reading it.",
                ),
        )
        .get(
            "/sessions/{id}/devtools/{*target}",
            target,
            operation("connect_target", "The websocket of one page or worker", SOCKET).about("Of Chromium and WebKit."),
        )
        .get(
            "/sessions/{id}/bidi/{token}/{driver}",
            bidi,
            operation("connect_bidi_of_earlier_releases", "WebDriver BiDi beside WebDriver", by_path)
                .about("The address that earlier releases gave: clients outlive an upgrade."),
        )
}

/// The session that a websocket's URL names, if the token in it opens that.
async fn opened(app: &App, id: &str, by: &SessionToken) -> Result<Arc<Session>, Error> {
    let session = app.sessions.live_by_token(id, &by.token).await?;
    match &by.api_key {
        Some(key) if app.keys.verify(key).as_ref() != Some(&session.owner) => {
            Err(warmpool_keys::Error::InvalidKey.into())
        }
        _ => Ok(session),
    }
}

/// `GET /sessions/<id>/devtools?token=…`: the browser's own target.
pub(super) async fn browser(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(by): Query<SessionToken>,
    request: Request,
) -> Result<Response, Error> {
    let session = opened(&app, &id, &by).await?;
    connect(&app, session, "/devtools", request).await
}

/// `GET /sessions/<id>/devtools/<kind>/<target>?token=…`: one page or worker.
pub(super) async fn target(
    State(app): State<App>,
    Path((id, target)): Path<(String, String)>,
    Query(by): Query<SessionToken>,
    request: Request,
) -> Result<Response, Error> {
    let session = opened(&app, &id, &by).await?;
    connect_target(&app, session, &target, request).await
}

/// Connects to a target of the session's browser: its kind and its id.
pub(super) async fn connect_target(
    app: &App,
    session: Arc<Session>,
    target: &str,
    request: Request,
) -> Result<Response, Error> {
    if !is_target(target) {
        return Err(warmpool_sessions::Error::UnknownTarget.into());
    }
    connect(app, session, &format!("/devtools/{target}"), request).await
}

/// Whether this may be a target's path: plain words between single slashes.
fn is_target(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    path.split('/').all(|part| !part.is_empty() && part.bytes().all(plain))
}

/// `GET /sessions/<id>/bidi/<token>/<driver session>`: WebDriver BiDi, from the driver.
pub(super) async fn bidi(
    State(app): State<App>,
    Path((id, token, driver)): Path<(String, String, String)>,
    request: Request,
) -> Result<Response, Error> {
    let session = app.sessions.live_by_token(&id, &token).await?;
    connect_driver(&app, session, &driver, request).await
}

/// Connects to the BiDi websocket of the session's driver.
pub(super) async fn connect_driver(
    app: &App,
    session: Arc<Session>,
    driver: &str,
    request: Request,
) -> Result<Response, Error> {
    warmpool_sessions::webdriver::check_id(&session, driver)?;
    connect(app, session, &format!("/bidi/session/{driver}"), request).await
}

pub(super) async fn connect(
    app: &App,
    session: Arc<Session>,
    path: &str,
    mut request: Request,
) -> Result<Response, Error> {
    let upgrade = hyper::upgrade::on(&mut request);
    let (headers, relay) = relay::open(&session, &app.config, path, request.headers()).await?;
    if relay.is_first() {
        // The reconnect window must hold after a restart too.
        let (app, session) = (app.clone(), Arc::clone(&session));
        app.drain.clone().spawn(async move { app.sessions.persist(&session).await });
    }
    let work = async move {
        match upgrade.await {
            Ok(client) => relay.run(TokioIo::new(client)).await,
            Err(error) => tracing::debug!(%error, "the client left before its websocket was open"),
        }
    };
    app.drain.spawn(work.instrument(tracing::info_span!("relay", session = %session.id)));
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    *response.headers_mut() = headers;
    Ok(response)
}
