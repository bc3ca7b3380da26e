//! The URLs that clients of Selenium Grid and Selenoid know, at the root and below `/wd/hub`. A new session makes one of
//! ours, and needs the key. Every other command finds it by the id in the reply, which opens the session as the token in a
//! `connect_url` does: some clients send the key with their first request only.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::any;
use http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::App;
use super::auth::{GridCaller, GridKey, KeyToken, StatusCaller};
use super::devtools::SOCKET_FAILURES;
use super::files::{FILE, fetched};
use super::openapi::{Access, AnyObject, Operation, Routes};
use super::public_url::PublicUrl;
use super::query::Query;
use super::reply::{Form, W3cAnswer, W3cValue, json_reply, unknown_path, w3c, w3c_reply};
use super::route::{Policy, Segment, Traffic};
use super::status::grid_status;
use super::webdriver::COMMAND;
use super::{create, webdriver};
use crate::dropin::grid::read;
use crate::http::error::Error;
use warmpool_api::status::GridStatus;
use warmpool_core::error::{Code, ServiceFault as _};
use warmpool_sessions::session::{Ending, Session, is_grid_id};
use warmpool_sessions::webdriver as driver;

/// A grid's session in a path: its id opens it.
const ID: Segment =
    Segment::secret("id", "The session's id, as the answer to the new session has it. It opens the session.");
/// Commands of a grid.
const POLICY: Policy = Policy::webdriver(Access::Grid, &[ID, FILE, COMMAND]);

pub(super) fn routes() -> Routes {
    let probe = POLICY.access(Access::Status).of(Traffic::Probes);
    let refusal = POLICY.takes_anything().of(Traffic::Work);
    let nested = commands(&WD_HUB)
        .get(
            "/status",
            status,
            Operation::new("get_wd_hub_status", "Whether a new session would be served", probe)
                .writes::<W3cValue<GridStatus>>("What clients of a grid wait for."),
        )
        .fallback(unknown_path);
    commands(&ROOT)
        .undescribed("/session/create", any(unknown_path), refusal)
        .undescribed("/session/webdriver/create", any(unknown_path), refusal)
        .get(
            "/ping",
            ping,
            Operation::new("ping", "Liveness check, as Selenoid has it", probe.form(Form::Rest))
                .writes::<Ping>("How long it runs."),
        )
        .nest("/wd/hub", nested)
}

/// What generated clients call the commands of a grid at one of its two places.
struct Names {
    new_session: &'static str,
    quit: &'static str,
    devtools: &'static str,
    bidi: &'static str,
    selenium_bidi: &'static str,
    upload: [&'static str; 2],
    downloads: [&'static str; 4],
    command: [&'static str; 3],
}

const ROOT: Names = Names {
    new_session: "new_grid_session",
    quit: "quit_grid_session",
    devtools: "connect_grid_devtools",
    bidi: "connect_grid_bidi",
    selenium_bidi: "connect_selenium_grid_bidi",
    upload: ["upload_grid_file", "upload_grid_file_legacy"],
    downloads: ["list_grid_downloads", "get_grid_download", "delete_grid_downloads", "read_grid_download"],
    command: ["get_grid_command", "post_grid_command", "delete_grid_command"],
};
const WD_HUB: Names = Names {
    new_session: "new_wd_hub_session",
    quit: "quit_wd_hub_session",
    devtools: "connect_wd_hub_devtools",
    bidi: "connect_wd_hub_bidi",
    selenium_bidi: "connect_selenium_wd_hub_bidi",
    upload: ["upload_wd_hub_file", "upload_wd_hub_file_legacy"],
    downloads: ["list_wd_hub_downloads", "get_wd_hub_download", "delete_wd_hub_downloads", "read_wd_hub_download"],
    command: ["get_wd_hub_command", "post_wd_hub_command", "delete_wd_hub_command"],
};

fn commands(names: &Names) -> Routes {
    let bidi_policy = POLICY.access(Access::Socket);
    let socket_policy = bidi_policy.form(Form::Rest);
    let socket = |id, summary, policy| {
        Operation::new(id, summary, policy)
            .upgrades("The websocket is open.")
            .fails(&[Code::UnknownSession, Code::SessionEnded])
            .fails(SOCKET_FAILURES)
    };
    let [list, fetch, empty, read] = names.downloads;
    let [get_command, post_command, delete_command] = names.command;
    Routes::new("Selenium Grid")
        .post(
            "/session",
            new_session,
            webdriver::operation(names.new_session, "Create a session with capabilities", POLICY.of(Traffic::Work))
                .about("The session lives as `webdriver.grid_timeout` and `webdriver.grid_idle_timeout` say.")
                .reads::<webdriver::NewSessionBody>(webdriver::new_session_example())
                .writes::<W3cAnswer>("The driver's answer.")
                .fails(create::FAILURES)
                .fails(create::PROFILE_FAILURES)
                .fails(&[Code::CapabilityRefused]),
        )
        .get(
            "/session/{id}",
            standard_bidi,
            webdriver::bidi_operation(names.bidi, bidi_policy).fails(&[Code::UnknownSession, Code::SessionEnded]),
        )
        .delete(
            "/session/{id}",
            session,
            webdriver::operation(names.quit, "Quit the driver and end the session", POLICY)
                .writes::<W3cAnswer>("It has ended."),
        )
        .get(
            "/session/{id}/se/cdp",
            devtools,
            socket(names.devtools, "DevTools beside WebDriver", socket_policy.takes::<KeyToken>())
                .fails(&[Code::UnknownTarget]),
        )
        .get(
            "/session/{id}/se/bidi",
            bidi,
            socket(names.selenium_bidi, "WebDriver BiDi beside WebDriver, where Selenium Grid has it", socket_policy)
                .about("For clients that put this address together themselves."),
        )
        .post("/session/{id}/se/file", upload, webdriver::upload_operation(names.upload[0], POLICY))
        .post("/session/{id}/file", upload, webdriver::upload_operation(names.upload[1], POLICY))
        .get("/session/{id}/se/files", downloads, webdriver::list_downloads(list, POLICY))
        .post("/session/{id}/se/files", downloads, webdriver::get_download(fetch, POLICY))
        .delete("/session/{id}/se/files", downloads, webdriver::delete_downloads(empty, POLICY))
        .get("/session/{id}/se/files/{name}", download, webdriver::read_download(read, POLICY))
        .get("/session/{id}/{*command}", command, webdriver::any_command(get_command, POLICY))
        .post(
            "/session/{id}/{*command}",
            command,
            webdriver::any_command(post_command, POLICY).reads::<AnyObject>(json!({"url": "https://example.com/"})),
        )
        .other_methods("/session/{id}/{*command}", command, POLICY.takes_anything())
        .delete("/session/{id}/{*command}", command, webdriver::any_command(delete_command, POLICY))
}

/// A sign of life.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Ping {
    /// As in `1h2m3s`.
    uptime: String,
    num_sessions: usize,
    version: &'static str,
}

/// `POST /session`
async fn new_session(
    State(app): State<App>,
    GridCaller(key): GridCaller,
    base: PublicUrl,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    webdriver::refuse_page_types(&headers)?;
    let (body, _text) = webdriver::new_session_body(&app, body).await?;
    let wanted = read(&body, |engine| app.known_version(engine))?;
    driver::check_capabilities(&wanted.body, wanted.engine, &app.config)?;
    let created = app.sessions.create(key, wanted.options(&app.config)?).await?;
    let session = created.session()?;
    wanted.check_version(session)?;
    let sockets = base.driver_url(session);
    let made = driver::new_session(&app.sessions, session, &app.config, &sockets, &wanted.body).await;
    let (status, reply) = made.inspect_err(|_| session.end(Ending::DriverRefused))?;
    let mut reply: Value = serde_json::from_slice(&reply).map_err(Error::internal)?;
    if !status.is_success() {
        session.end(Ending::DriverRefused);
        return Ok(w3c_reply(status, &reply));
    }
    if let (Some(size), Some(id)) = (wanted.screen, reply["value"]["sessionId"].as_str()) {
        driver::fill_screen(session, &app.config, id, size).await?;
    }
    wanted.complete(&mut reply, session, &base.grid_bidi_url(session), &base.livestream_url(session));
    app.recorder.start(&created.confirm()?, &app.drain);
    Ok(w3c_reply(status, &reply))
}

/// The session that a path names, and the driver's own id of it.
pub(super) async fn driven(app: &App, id: &str, key: &GridKey) -> Result<(Arc<Session>, String), Error> {
    let session = app.sessions.of_grid(id, key.0.as_ref()).await;
    let session = session
        .map_err(|unknown| if key.0.is_some() || is_grid_id(id) { unknown.into() } else { Error::MissingGridKey })?;
    let driver_id = session.driver_id()?;
    Ok((session, driver_id))
}

/// `… /session/<id>`: quitting it. For one that has ended that is done.
async fn session(State(app): State<App>, key: GridKey, Path(id): Path<String>) -> Result<Response, Error> {
    match driven(&app, &id, &key).await {
        Ok((session, driver_id)) => driver::quit(&session, &driver_id).await?,
        // Suites close the last window, which ends the session, and then quit it.
        Err(_) if app.sessions.has_ended_of_grid(&id, key.0.as_ref()) => {}
        Err(error) => return Err(error),
    }
    Ok(w3c(StatusCode::OK, &Value::Null))
}

/// `GET /session/<id>/se/cdp`: DevTools, for clients that put this URL together themselves.
async fn devtools(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<KeyToken>,
    request: Request,
) -> Result<Response, Error> {
    let key = GridKey::read(&app, request.headers(), query.token.as_deref())?;
    let (session, driver_id) = driven(&app, &id, &key).await?;
    webdriver::attach(&app, session, &driver_id, request).await
}

/// `GET /session/<id>`: WebDriver BiDi, where the standard has it.
async fn standard_bidi(app: State<App>, id: Path<String>, request: Request) -> Result<Response, Error> {
    webdriver::check_upgrade(&request)?;
    bidi(app, id, request).await
}

/// `GET /session/<id>/se/bidi`: WebDriver BiDi, from the driver.
async fn bidi(State(app): State<App>, Path(id): Path<String>, request: Request) -> Result<Response, Error> {
    let key = GridKey::read(&app, request.headers(), None)?;
    let (session, driver_id) = driven(&app, &id, &key).await?;
    super::devtools::connect_driver(&app, session, &driver_id, request).await
}

/// `POST /session/<id>/se/file`
async fn upload(
    State(app): State<App>,
    key: GridKey,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (session, driver_id) = driven(&app, &id, &key).await?;
    webdriver::take_file(&app, &session, &driver_id, &headers, body).await
}

/// `… /session/<id>/se/files`
async fn downloads(
    State(app): State<App>,
    key: GridKey,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Error> {
    let (session, driver_id) = driven(&app, &id, &key).await?;
    webdriver::manage_downloads(&app, &session, &driver_id, request).await
}

/// `GET /session/<id>/se/files/<name>`: a download as it is. Selenoid has it at `/download/<id>/<name>`.
pub(super) async fn download(
    State(app): State<App>,
    key: GridKey,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, Error> {
    let (session, _) = driven(&app, &id, &key).await?;
    fetched(&app, &session, &name).await
}

/// `… /session/<id>/<command>`: everything else goes to the driver.
async fn command(
    State(app): State<App>,
    key: GridKey,
    Path((id, _)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Error> {
    let (session, driver_id) = driven(&app, &id, &key).await?;
    // Behind `session/<id>`: a nested route's path has nothing before it.
    webdriver::forward(&app, &session, &driver_id, 2, request).await
}

/// `GET /wd/hub/status`
async fn status(State(app): State<App>, _: StatusCaller) -> Response {
    w3c_reply(StatusCode::OK, &W3cValue { value: grid_status(&app) })
}

/// `GET /ping`: Selenoid's sign of life.
async fn ping(State(app): State<App>, _: StatusCaller) -> Response {
    let uptime = app.started.elapsed().as_secs();
    let body = Ping {
        uptime: format!("{}h{}m{}s", uptime / 3600, uptime / 60 % 60, uptime % 60),
        num_sessions: app.sessions.live_count(),
        version: env!("CARGO_PKG_VERSION"),
    };
    json_reply(StatusCode::OK, &body)
}
