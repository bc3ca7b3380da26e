//! The URLs that clients of Selenium Grid and Selenoid know, at the root and below `/wd/hub`. A new session makes one of
//! ours; every other command finds it by the driver's own id, and needs the key as well. Errors have the W3C form.

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{any, get, post};
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};

use super::App;
use super::auth::{GridCaller, StatusCaller};
use super::base::Base;
use super::operate::grid_status;
use super::reply::{W3c, json_reply, unknown_path, w3c, w3c_reply};
use super::{create, webdriver};
use crate::dropin::grid::{NewSession, other_version, read, version_fits};
use crate::error::Error;
use crate::keys::KeyId;
use crate::session::{Created, Ending, Kind};
use crate::webdriver::{self as driver, OWN};

pub(super) fn routes() -> Router<App> {
    let mistaken =
        Router::new().route("/session/create", any(unknown_path)).route("/session/webdriver/create", any(unknown_path));
    commands()
        .merge(mistaken)
        .route("/ping", get(ping))
        .nest("/wd/hub", commands().route("/status", get(status)).fallback(unknown))
}

fn commands() -> Router<App> {
    Router::new()
        .route("/session", post(new_session).fallback(wrong_method))
        .route("/session/{driver}", any(session))
        .route("/session/{driver}/se/cdp", get(socket))
        .route("/session/{driver}/se/file", post(upload).fallback(wrong_method))
        .route("/session/{driver}/file", post(upload).fallback(wrong_method))
        .route("/session/{driver}/se/files", any(downloads))
        .route("/session/{driver}/{*command}", any(command))
}

/// `POST /session`
async fn new_session(
    State(app): State<App>,
    GridCaller(key): GridCaller,
    base: Base,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, W3c> {
    webdriver::refuse_page_types(&headers)?;
    let (body, _text) = webdriver::new_session_body(&app, body).await?;
    let wanted = read(&body, |engine| app.known_version(engine))?;
    driver::check_capabilities(&wanted.body, wanted.engine)?;
    let created = make(&app, key, &wanted).await?;
    let session = created.session()?;
    let links = webdriver::links(&base, session);
    let made = driver::new_session(&app.sessions, session, &app.config, &links, &wanted.body).await;
    let (status, reply) = match made {
        Ok(made) => made,
        Err(error) => {
            session.end(Ending::DriverRefused);
            return Err(error.into());
        }
    };
    let mut reply: Value = serde_json::from_slice(&reply).map_err(Error::internal)?;
    if !status.is_success() {
        session.end(Ending::DriverRefused);
        return Ok(w3c_reply(status, &reply));
    }
    if let (Some(size), Some(id)) = (wanted.screen, reply["value"]["sessionId"].as_str()) {
        driver::fill_screen(session, &app.config, id, size).await?;
    }
    if let Some(found) = reply["value"]["capabilities"].as_object_mut() {
        let mut warnings: Vec<Value> =
            session.warnings.iter().chain(&wanted.create_body.warnings).map(|it| json!(it)).collect();
        if let Some(Value::Array(others)) = found.get_mut(OWN).and_then(|own| own.get_mut("warnings")) {
            warnings.append(others);
        }
        found.insert("se:downloadsEnabled".to_owned(), json!(wanted.downloads));
        let own = json!({
            "session_id": session.id,
            "livestream_url": base.livestream_url(session),
            "warnings": warnings,
        });
        found.insert(OWN.to_owned(), own);
    }
    create::record(&app, &created.confirm().ok_or(Error::Draining)?);
    Ok(w3c_reply(status, &reply))
}

/// Makes the session that is wanted, if its browser turns out to be of the version that is wanted.
async fn make(app: &App, key: KeyId, wanted: &NewSession) -> Result<Created, Error> {
    let limits = &app.config.webdriver;
    let longest = app.config.session.max_timeout;
    let mut create_body = wanted.create_body.clone();
    create_body.set_default("session_timeout", json!(limits.grid_timeout.min(longest).as_secs()));
    create_body.set_default("idle_timeout", json!(limits.grid_idle_timeout.min(longest).as_secs()));
    let mut options = create::translated(&create_body, Kind::WebDriver, &app.config)?;
    options.screen = wanted.screen;
    let created = app.sessions.create(key, options).await?;
    let session = created.session()?;
    let has = session.worker.snapshot.borrow().clone();
    match (&wanted.version, has.version()) {
        (Some(wants), Some(has)) if !version_fits(wants, has) => {
            session.end(Ending::DriverRefused);
            Err(other_version(wants, wanted.engine, has))
        }
        _ => Ok(created),
    }
}

/// `… /session/<driver session>`: quitting it.
async fn session(
    State(app): State<App>,
    GridCaller(key): GridCaller,
    Path(id): Path<String>,
    method: Method,
) -> Result<Response, W3c> {
    let session = app.sessions.driven_by(&id, &key)?;
    if method != Method::DELETE {
        return Err(Error::MethodNotAllowed { method: method.to_string() }.into());
    }
    driver::quit(&session, &id).await?;
    Ok(w3c(StatusCode::OK, &Value::Null))
}

/// `GET /session/<driver session>/se/cdp`: DevTools, for clients that put this URL together themselves.
async fn socket(State(app): State<App>, Path(id): Path<String>, request: Request) -> Result<Response, Error> {
    let token = super::query::value(request.uri().query().unwrap_or_default(), "token");
    let key = super::auth::verify(&app, request.headers(), token.as_deref())?;
    let session = app.sessions.driven_by(&id, &key)?;
    webdriver::attach(&app, session, &id, request).await
}

/// `POST /session/<driver session>/se/file`
async fn upload(
    State(app): State<App>,
    GridCaller(key): GridCaller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, W3c> {
    let session = app.sessions.driven_by(&id, &key)?;
    webdriver::take_file(&app, &session, &id, &headers, body).await
}

/// `… /session/<driver session>/se/files`
async fn downloads(
    State(app): State<App>,
    GridCaller(key): GridCaller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, W3c> {
    let session = app.sessions.driven_by(&id, &key)?;
    webdriver::manage_downloads(&app, &session, &id, request).await
}

/// `… /session/<driver session>/<command>`: everything else goes to the driver.
async fn command(
    State(app): State<App>,
    GridCaller(key): GridCaller,
    Path((id, _)): Path<(String, String)>,
    request: Request,
) -> Result<Response, W3c> {
    let session = app.sessions.driven_by(&id, &key)?;
    // Behind `session/<driver session>`: a nested route's path has nothing before it.
    webdriver::forward(&app, &session, &id, 2, request).await
}

async fn wrong_method(method: Method) -> W3c {
    W3c(Error::MethodNotAllowed { method: method.to_string() })
}

async fn unknown(request: Request) -> W3c {
    W3c(super::reply::unknown_path(request).await)
}

/// `GET /wd/hub/status`
async fn status(State(app): State<App>, _: StatusCaller) -> Response {
    w3c(StatusCode::OK, &grid_status(&app))
}

/// `GET /ping`: Selenoid's sign of life.
async fn ping(State(app): State<App>, _: StatusCaller) -> Response {
    let uptime = app.started.elapsed().as_secs();
    let body = json!({
        "uptime": format!("{}h{}m{}s", uptime / 3600, uptime / 60 % 60, uptime % 60),
        "numSessions": app.sessions.live_count(),
        "version": env!("CARGO_PKG_VERSION"),
    });
    json_reply(StatusCode::OK, &body)
}
