//! Files of a session: what its browser downloaded, and what its pages may upload. They live and die with the worker.

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;
use std::sync::Arc;

use super::App;
use super::auth::Caller;
use super::passing::passing;
use crate::error::Error;
use crate::session::Session;
use crate::webdriver::{strip_hop_by_hop, verdict};
use crate::worker::file_path;

/// The setting that limits a file.
const LIMIT: &str = "worker.file_limit";

/// `GET /sessions/<id>/files`
pub(super) async fn list(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let session = owned(&app, &id, &key)?;
    send(&app, &session, Method::GET, None, Body::empty(), &HeaderMap::new()).await
}

/// `GET /sessions/<id>/files/<name>`
pub(super) async fn fetch(
    State(app): State<App>,
    Caller(key): Caller,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, Error> {
    let session = owned(&app, &id, &key)?;
    send(&app, &session, Method::GET, Some(&name), Body::empty(), &HeaderMap::new()).await
}

/// `PUT /sessions/<id>/files/<name>`
pub(super) async fn put(
    State(app): State<App>,
    Caller(key): Caller,
    Path((id, name)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Error> {
    let session = owned(&app, &id, &key)?;
    let (parts, body) = request.into_parts();
    send(&app, &session, Method::PUT, Some(&name), body, &parts.headers).await
}

/// `DELETE /sessions/<id>/files/<name>`
pub(super) async fn remove(
    State(app): State<App>,
    Caller(key): Caller,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, Error> {
    let session = owned(&app, &id, &key)?;
    send(&app, &session, Method::DELETE, Some(&name), Body::empty(), &HeaderMap::new()).await
}

fn owned(app: &App, id: &str, key: &crate::keys::KeyId) -> Result<Arc<Session>, Error> {
    app.sessions.find(id, key)?;
    app.sessions.live(id)
}

async fn send(
    app: &App,
    session: &Arc<Session>,
    method: Method,
    name: Option<&str>,
    body: Body,
    headers: &HeaderMap,
) -> Result<Response, Error> {
    let _busy = session.busy();
    let path = name.map_or_else(|| "/files".to_owned(), file_path);
    let limit = app.config.worker.file_limit;
    let (body, fault) = passing(app, body, limit.bytes(), LIMIT)?;
    let mut request = http::Request::new(body);
    *request.method_mut() = method;
    if let Some(length) = headers.get(CONTENT_LENGTH) {
        request.headers_mut().insert(CONTENT_LENGTH, length.clone());
    }
    let sent = async {
        match session.worker.agent.send(&path, request).await {
            Ok(response) => Ok(response),
            Err(error) => Err(verdict(session, error).await),
        }
    };
    let mut response = fault.or(sent).await?;
    let status = response.status();
    if status.is_success() {
        strip_hop_by_hop(response.headers_mut());
        if name.is_some() && response.headers().get(CONTENT_TYPE).is_none_or(|kind| kind != "application/json") {
            // What a page made must never run as a page of this service.
            let plain = HeaderValue::from_static("application/octet-stream");
            response.headers_mut().insert(CONTENT_TYPE, plain);
            let headers = response.headers_mut();
            headers.insert(http::header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
            headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        }
        return Ok(response.map(Body::new));
    }
    let body = Limited::new(response.into_body(), 64 << 10).collect().await;
    let body: Value = body.ok().and_then(|body| serde_json::from_slice(&body.to_bytes()).ok()).unwrap_or_default();
    let message = body["error"]["message"].as_str().unwrap_or("the worker refused the file").to_owned();
    Err(match status {
        StatusCode::NOT_FOUND => Error::UnknownFile { name: name.unwrap_or_default().to_owned() },
        StatusCode::PAYLOAD_TOO_LARGE => Error::BodyTooLarge { limit: limit.bytes(), setting: LIMIT },
        StatusCode::BAD_REQUEST => Error::invalid("name", format!("was refused: {message}")),
        StatusCode::CONFLICT => Error::Conflict { message },
        StatusCode::INSUFFICIENT_STORAGE => Error::NoSpace,
        _ => Error::worker("the worker could not serve the file", message),
    })
}
