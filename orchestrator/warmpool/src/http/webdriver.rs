//! The WebDriver address of a session.

mod operations;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::any;
use http::header::UPGRADE;
use http::{HeaderMap, Method, StatusCode};
use hyper::body::Body as _;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

use super::App;
use super::body::{self, Text};
use super::devtools;
use super::files::{FILE, fetched};
use super::forwarded_body::{BodyFault, forwarded_body};
use super::headers::media_type;
use super::openapi::{Access, AnyObject, Operation, Routes};
use super::public_url::PublicUrl;
use super::reply::{Form, W3cAnswer, W3cValue, w3c, w3c_reply, with_w3c_headers};
use super::route::{Policy, Segment, Traffic};
use super::sessions::ID;
use crate::http::error::Error;
use warmpool_core::browser::Engine;
use warmpool_core::error::{Code, FieldFault as _, ServiceFault as _};
use warmpool_sessions::session::{DriverSession, Session};
use warmpool_sessions::webdriver::{self as driver, Command};
use warmpool_workers::worker::full;

pub(super) use operations::{
    NewSessionBody, any_command, bidi_operation, delete_downloads, get_download, list_downloads, new_session_example,
    operation, read_download, upload_operation,
};

/// Whether the driver would take a session.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DriverStatus")]
struct DriverReady {
    ready: bool,
    message: &'static str,
}

/// The token in the path of a session's driver.
pub(super) const TOKEN: Segment =
    Segment::secret("token", "The session's token. It is part of the URLs that the create call answers.");
/// The driver's own session in a path.
pub(super) const DRIVER: Segment = Segment::new("driver", "The id of the WebDriver session, as the driver gave it.");
/// A command in a path.
pub(super) const COMMAND: Segment =
    Segment::new("command", "A command of the W3C WebDriver standard; it may have slashes.");
/// Commands of a session's driver.
const POLICY: Policy =
    Policy::webdriver(Access::Address, &[ID, TOKEN, DRIVER, FILE, COMMAND, Segment::new("rest", "Any other path.")])
        .of(Traffic::Commands);

/// The path of a driver's session, and what is below it.
macro_rules! driver {
    ($below:literal) => {
        concat!("/sessions/{id}/webdriver/{token}/session/{driver}", $below)
    };
}

pub(super) fn routes(routes: Routes) -> Routes {
    let socket_policy = POLICY.form(Form::Rest);
    routes
        .post(
            "/sessions/{id}/webdriver/{token}/session",
            create,
            operation("new_driver_session", "Open the WebDriver session", POLICY.of(Traffic::Work))
                .about("A session has one. Clients send this by themselves when they connect to `connect_url`.")
                .reads::<NewSessionBody>(new_session_example())
                .writes::<W3cAnswer>("The driver's answer.")
                .fails(&[Code::CapabilityRefused, Code::NotSupported, Code::Conflict, Code::ProxyUnavailable]),
        )
        .get(
            "/sessions/{id}/webdriver/{token}/status",
            status,
            operation(
                "get_driver_status",
                "Ask whether the WebDriver session can be opened",
                POLICY.of(Traffic::Calls),
            )
            .writes::<W3cValue<DriverReady>>("Whether it can."),
        )
        .get(
            driver!(""),
            bidi,
            bidi_operation("connect_bidi", POLICY).fails(&[Code::UnknownSession, Code::SessionEnded]),
        )
        .delete(
            driver!(""),
            session,
            operation("quit_driver", "Quit the driver and end the session", POLICY)
                .writes::<W3cAnswer>("It has ended."),
        )
        .post(driver!("/se/file"), upload, upload_operation("upload_driver_file", POLICY))
        .post(driver!("/file"), upload, upload_operation("upload_driver_file_legacy", POLICY))
        .get(
            driver!("/se/cdp"),
            socket,
            Operation::new("connect_driver_devtools", "DevTools beside WebDriver", socket_policy)
                .upgrades("The websocket is open.")
                .fails(&[Code::UnknownSession, Code::SessionEnded, Code::UnknownTarget])
                .fails(devtools::SOCKET_FAILURES),
        )
        .get(driver!("/se/files"), downloads, list_downloads("list_driver_downloads", POLICY))
        .post(driver!("/se/files"), downloads, get_download("get_driver_download", POLICY))
        .delete(driver!("/se/files"), downloads, delete_downloads("delete_driver_downloads", POLICY))
        .get(driver!("/se/files/{name}"), download, read_download("read_driver_download", POLICY))
        .get(driver!("/{*command}"), command, any_command("get_driver_command", POLICY))
        .post(
            driver!("/{*command}"),
            command,
            any_command("post_driver_command", POLICY).reads::<AnyObject>(json!({"url": "https://example.com/"})),
        )
        .other_methods(driver!("/{*command}"), command, POLICY.takes_anything())
        .delete(driver!("/{*command}"), command, any_command("delete_driver_command", POLICY))
        .undescribed(
            "/sessions/{id}/webdriver/{token}/{*rest}",
            any(unknown),
            POLICY.takes_anything().of(Traffic::Calls),
        )
}

async fn open(app: &App, id: &str, token: &str) -> Result<Arc<Session>, Error> {
    Ok(app.sessions.live_by_token(id, token).await?)
}

/// Types that a web page can send to another site without asking.
pub(super) fn refuse_page_types(headers: &HeaderMap) -> Result<(), Error> {
    match media_type(headers).to_ascii_lowercase().as_str() {
        "text/plain" | "multipart/form-data" | "application/x-www-form-urlencoded" => Err(Error::MediaType),
        _ => Ok(()),
    }
}

/// `POST …/session`
pub(super) async fn create(
    State(app): State<App>,
    Path((id, token)): Path<(String, String)>,
    base: PublicUrl,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let session = open(&app, &id, &token).await?;
    refuse_page_types(&headers)?;
    let (requested, _text) = new_session_body(&app, body).await?;
    let sockets = base.driver_url(&session);
    let (status, reply) = driver::new_session(&app.sessions, &session, &app.config, &sockets, &requested).await?;
    let reply: Value = serde_json::from_slice(&reply).map_err(Error::internal)?;
    Ok(w3c_reply(status, &reply))
}

/// Reads the body of a new session. What it holds of the budget for bodies comes with it, and covers the copy of what the
/// client always wants that each of its alternatives gets.
pub(super) async fn new_session_body(app: &App, body: Body) -> Result<(Value, Text), Error> {
    let limit = app.config.webdriver.max_session_body.bytes();
    let mut text = body::read(app, body, limit, "webdriver.max_session_body").await?;
    let requested = text.value()?;
    if let Some(alternatives) = requested["capabilities"]["firstMatch"].as_array() {
        text.reserve_copies(alternatives.len())?;
    }
    Ok((requested, text))
}

/// `GET …/status`
pub(super) async fn status(
    State(app): State<App>,
    Path((id, token)): Path<(String, String)>,
) -> Result<Response, Error> {
    let session = open(&app, &id, &token).await?;
    let ready = session.driver() == DriverSession::Idle;
    let message = if ready { "ready for a session" } else { "has its one session" };
    Ok(w3c_reply(StatusCode::OK, &W3cValue { value: DriverReady { ready, message } }))
}

/// `… /session/<driver session>`: quitting it. For one that has ended that is done: suites close the last window, which ends the
/// session, and then quit it.
pub(super) async fn session(
    State(app): State<App>,
    Path((id, token, driver_id)): Path<(String, String, String)>,
) -> Result<Response, Error> {
    match open(&app, &id, &token).await {
        Ok(session) => driver::quit(&session, &driver_id).await?,
        Err(Error::Session(warmpool_sessions::Error::SessionEnded { .. })) => {}
        Err(error) => return Err(error),
    }
    Ok(w3c(StatusCode::OK, &Value::Null))
}

/// `POST …/session/<driver session>/se/file`: Selenium's remote upload.
pub(super) async fn upload(
    State(app): State<App>,
    Path((id, token, driver_id)): Path<(String, String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let session = open(&app, &id, &token).await?;
    take_file(&app, &session, &driver_id, &headers, body).await
}

pub(super) async fn take_file(
    app: &App,
    session: &Arc<Session>,
    driver_id: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    refuse_page_types(headers)?;
    let (body, fault) = forwarded_body(app, body, app.config.webdriver.max_body.bytes(), "webdriver.max_body")?;
    let path = fault.or(driver::upload(session, driver_id, body)).await?;
    Ok(w3c(StatusCode::OK, &json!(path)))
}

/// `GET …/session/<driver session>/se/cdp`: DevTools beside WebDriver.
pub(super) async fn socket(
    State(app): State<App>,
    Path((id, token, driver_id)): Path<(String, String, String)>,
    request: Request,
) -> Result<Response, Error> {
    let session = open(&app, &id, &token).await?;
    attach(&app, session, &driver_id, request).await
}

/// `GET …/session/<driver session>`: WebDriver BiDi, from the driver.
async fn bidi(
    State(app): State<App>,
    Path((id, token, driver_id)): Path<(String, String, String)>,
    request: Request,
) -> Result<Response, Error> {
    check_upgrade(&request)?;
    let session = open(&app, &id, &token).await?;
    devtools::connect_driver(&app, session, &driver_id, request).await
}

/// The standard has no command that reads a session: only a websocket opens there.
/// Errors: `MethodNotAllowed` for a request that asks for no upgrade.
pub(super) fn check_upgrade(request: &Request) -> Result<(), Error> {
    if request.headers().contains_key(UPGRADE) {
        return Ok(());
    }
    Err(Error::MethodNotAllowed { method: request.method().to_string() })
}

pub(super) async fn attach(
    app: &App,
    session: Arc<Session>,
    driver_id: &str,
    request: Request,
) -> Result<Response, Error> {
    driver::check_id(&session, driver_id)?;
    if session.options.engine != Engine::Chromium {
        return Err(warmpool_sessions::Error::UnknownTarget.into());
    }
    devtools::connect(app, session, "/devtools", request).await
}

/// `… /session/<driver session>/se/files`: Selenium's managed downloads.
pub(super) async fn downloads(
    State(app): State<App>,
    Path((id, token, driver_id)): Path<(String, String, String)>,
    request: Request,
) -> Result<Response, Error> {
    let session = open(&app, &id, &token).await?;
    manage_downloads(&app, &session, &driver_id, request).await
}

/// GET lists the downloads, POST fetches one, DELETE removes all.
pub(super) async fn manage_downloads(
    app: &App,
    session: &Arc<Session>,
    driver_id: &str,
    request: Request,
) -> Result<Response, Error> {
    refuse_page_types(request.headers())?;
    match *request.method() {
        Method::GET => Ok(w3c(StatusCode::OK, &driver::downloads(session, driver_id).await?)),
        Method::DELETE => {
            driver::remove_downloads(session, driver_id).await?;
            Ok(w3c(StatusCode::OK, &Value::Null))
        }
        Method::POST => {
            let limit = app.config.server.max_body.bytes();
            let mut text = body::read(app, request.into_body(), limit, "server.max_body").await?;
            let requested = text.value()?;
            let Some(name) = requested["name"].as_str() else {
                return Err(Error::invalid("name", "must be the name of a downloaded file"));
            };
            let contents = driver::download(session, driver_id, name).await?;
            Ok(with_w3c_headers(Response::new(Body::from_stream(contents))))
        }
        _ => Err(Error::MethodNotAllowed { method: request.method().to_string() }),
    }
}

/// `GET …/session/<driver session>/se/files/<name>`: a download as it is, as newer Selenium asks for it.
async fn download(
    State(app): State<App>,
    Path((id, token, driver_id, name)): Path<(String, String, String, String)>,
) -> Result<Response, Error> {
    let session = open(&app, &id, &token).await?;
    driver::check_id(&session, &driver_id)?;
    fetched(&app, &session, &name).await
}

/// `… /session/<driver session>/<command>`: everything else goes to the driver.
pub(super) async fn command(
    State(app): State<App>,
    Path((id, token, driver_id, _)): Path<(String, String, String, String)>,
    request: Request,
) -> Result<Response, Error> {
    let session = open(&app, &id, &token).await?;
    // Behind `sessions/<id>/webdriver/<token>/session/<driver session>`.
    forward(&app, &session, &driver_id, 6, request).await
}

/// Sends to the driver the command that follows the first `before` segments of the request's path.
pub(super) async fn forward(
    app: &App,
    session: &Arc<Session>,
    driver_id: &str,
    before: usize,
    request: Request,
) -> Result<Response, Error> {
    refuse_page_types(request.headers())?;
    let uri = request.uri();
    let command = Command::read(request.method(), uri.path(), before)?;
    let (parts, body) = request.into_parts();
    let (limit, setting) = (app.config.webdriver.max_body.bytes(), "webdriver.max_body");
    // What is in memory counts until the driver has it.
    let text;
    let (body, fault) = if body.size_hint().exact().is_some() {
        forwarded_body(app, body, limit, setting)?
    } else {
        // In chunks. Chromedriver takes a body whose length its head names, and waits in vain for any other.
        text = body::read(app, body, limit, setting).await?;
        (full(text.bytes()), BodyFault::none())
    };
    let request = http::Request::from_parts(parts, body);
    let response = fault.or(driver::forward(session, &app.config, driver_id, command, request)).await?;
    Ok(response.map(Body::new))
}

/// Paths that the W3C standard does not have.
pub(super) async fn unknown(
    State(app): State<App>,
    Path((id, token, rest)): Path<(String, String, String)>,
    method: Method,
) -> Result<Response, Error> {
    open(&app, &id, &token).await?;
    let path = format!("/{}", rest.chars().take(100).collect::<String>());
    Err(Error::UnknownPath { method: method.to_string(), path, meant: None })
}
