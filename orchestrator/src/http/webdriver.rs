//! The WebDriver address of a session. Errors here are in the W3C form.

use axum::body::Body;
use axum::extract::{OriginalUri, Path, Request, State};
use axum::response::Response;
use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde_json::{Value, json};
use std::sync::Arc;

use super::App;
use super::base::Base;
use super::body;
use super::reply::{W3c, json_reply, w3c};
use crate::error::Error;
use crate::session::{Driver, Session};
use crate::webdriver::{self as driver, Links};

fn open(app: &App, id: &str, token: &str) -> Result<Arc<Session>, Error> {
    let session = app.sessions.live(id)?;
    session.check_token(token)?;
    Ok(session)
}

/// Types that a web page can send to another site without asking.
fn refuse_page_types(headers: &HeaderMap) -> Result<(), Error> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "text/plain" | "multipart/form-data" | "application/x-www-form-urlencoded" => Err(Error::MediaType),
        _ => Ok(()),
    }
}

/// `POST …/session`
pub(super) async fn create(
    State(app): State<App>,
    Path((id, token)): Path<(String, String)>,
    base: Base,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, W3c> {
    let session = open(&app, &id, &token)?;
    refuse_page_types(&headers)?;
    let body = body::read(body, app.config.webdriver.max_body.bytes(), "webdriver.max_body").await?;
    let links = Links { devtools: base.websocket_url(&session), bidi: base.bidi_url(&session) };
    let (status, reply) = driver::new_session(&app.sessions, &session, &app.config, &links, &body).await?;
    let reply: Value = serde_json::from_slice(&reply).map_err(Error::internal)?;
    Ok(json_reply(status, &reply))
}

/// `GET …/status`
pub(super) async fn status(State(app): State<App>, Path((id, token)): Path<(String, String)>) -> Result<Response, W3c> {
    let session = open(&app, &id, &token)?;
    let ready = session.driver() == Driver::Idle;
    let message = if ready { "ready for a session" } else { "has its one session" };
    Ok(w3c(StatusCode::OK, &json!({"ready": ready, "message": message})))
}

/// `… /session/<driver session>`: quitting it.
pub(super) async fn session(
    State(app): State<App>,
    Path((id, token, driver_id)): Path<(String, String, String)>,
    method: Method,
) -> Result<Response, W3c> {
    let session = open(&app, &id, &token)?;
    if method != Method::DELETE {
        return Err(Error::MethodNotAllowed { method: method.to_string() }.into());
    }
    driver::quit(&session, &driver_id).await?;
    Ok(w3c(StatusCode::OK, &Value::Null))
}

/// `POST …/session/<driver session>/se/file`: Selenium's remote upload.
pub(super) async fn upload(
    State(app): State<App>,
    Path((id, token, driver_id)): Path<(String, String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, W3c> {
    let session = open(&app, &id, &token)?;
    refuse_page_types(&headers)?;
    let body = body::read(body, app.config.webdriver.max_body.bytes(), "webdriver.max_body").await?;
    let path = driver::upload(&session, &driver_id, &body).await?;
    Ok(w3c(StatusCode::OK, &path))
}

/// `… /session/<driver session>/<command>`: everything else goes to the driver.
pub(super) async fn command(
    State(app): State<App>,
    Path((id, token, driver_id, _)): Path<(String, String, String, String)>,
    OriginalUri(uri): OriginalUri,
    request: Request,
) -> Result<Response, W3c> {
    let session = open(&app, &id, &token)?;
    refuse_page_types(request.headers())?;
    // As the client wrote it: decoding and encoding again could change what the driver sees.
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    let path = path.split_once(&format!("/{token}/")).map_or("", |(_, rest)| rest);
    let limit = usize::try_from(app.config.webdriver.max_body.bytes()).unwrap_or(usize::MAX);
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(HOST);
    parts.headers.remove(ORIGIN);
    let body = Limited::new(body, limit).boxed_unsync();
    let request = http::Request::from_parts(parts, body);
    let response = driver::forward(&session, &app.config, &driver_id, &format!("/{path}"), request).await?;
    Ok(response.map(Body::new))
}

/// Paths that the W3C standard does not have.
pub(super) async fn unknown(
    State(app): State<App>,
    Path((id, token, rest)): Path<(String, String, String)>,
    method: Method,
) -> Result<Response, W3c> {
    open(&app, &id, &token)?;
    let path = format!("/{}", rest.chars().take(100).collect::<String>());
    Err(Error::UnknownPath { method: method.to_string(), path }.into())
}
