//! Files of a session: what its browser downloaded, and what its pages may upload. They live and die with the worker.

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;
use std::sync::{Arc, OnceLock};

use super::App;
use super::auth::Caller;
use crate::error::Error;
use crate::session::Session;
use crate::webdriver::{strip_hop_by_hop, verdict};
use crate::worker::file_path;

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
    let fault = Arc::new(OnceLock::new());
    let told = Arc::clone(&fault);
    let too_long_now = move || Error::BodyTooLarge { limit: limit.bytes(), setting: "worker.file_limit" };
    let body = Limited::new(body, limit.as_usize()).map_err(move |error| {
        let _ = told.set(error.is::<LengthLimitError>());
        error
    });
    let mut request = http::Request::new(body.boxed_unsync());
    *request.method_mut() = method;
    if let Some(length) = headers.get(CONTENT_LENGTH) {
        let too_long =
            length.to_str().ok().and_then(|text| text.parse().ok()).is_some_and(|length: u64| length > limit.bytes());
        if too_long {
            return Err(too_long_now());
        }
        request.headers_mut().insert(CONTENT_LENGTH, length.clone());
    }
    let mut response = match session.worker.agent.send(&path, request).await {
        Ok(response) => response,
        // The client's own fault, not the worker's.
        Err(error) => match fault.get() {
            Some(true) => return Err(too_long_now()),
            Some(false) => {
                let message = "the body broke off before all of it was there: send the file again".to_owned();
                return Err(Error::InvalidBody { message });
            }
            None => return Err(verdict(session, error).await),
        },
    };
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
        StatusCode::PAYLOAD_TOO_LARGE => too_long_now(),
        StatusCode::BAD_REQUEST => Error::field("name", message),
        StatusCode::CONFLICT => Error::Conflict { message },
        StatusCode::INSUFFICIENT_STORAGE => Error::NoSpace,
        _ => Error::worker("the worker could not serve the file", message),
    })
}
