//! Errors as responses: the one place where they get a status and a body.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, UPGRADE, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use crate::engine::RequestId;
use crate::error::{Blame, Error};

tokio::task_local! {
    /// The id of the request that this task answers.
    pub(super) static REQUEST: RequestId;
}

fn request_id() -> String {
    REQUEST.try_with(ToString::to_string).unwrap_or_default()
}

fn log(error: &Error) {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    match error.blame() {
        Blame::Client => tracing::debug!(code = error.code(), %error, "refused"),
        Blame::Worker => tracing::warn!(code = error.code(), %error, cause, "a worker failed"),
        Blame::Daemon => tracing::error!(code = error.code(), %error, cause, "failed"),
    }
}

/// A JSON response.
pub(super) fn json_reply(status: StatusCode, body: &impl serde::Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => (
            status,
            [
                (CONTENT_TYPE, HeaderValue::from_static("application/json")),
                (CACHE_CONTROL, HeaderValue::from_static("no-store")),
            ],
            bytes,
        )
            .into_response(),
        Err(error) => Error::internal(error).into_response(),
    }
}

/// The body of the REST form.
fn rest(error: &Error, request_id: &str) -> Value {
    let mut body = json!({"code": error.code(), "message": error.to_string(), "request_id": request_id});
    if let Some(field) = error.named_field() {
        body["field"] = json!(field);
    }
    json!({"error": body})
}

/// A whole answer as bytes, for a connection on which nothing is read: it is closed behind this.
pub(super) fn last_words(error: &Error) -> Vec<u8> {
    log(error);
    let (status, body) = (error.status(), rest(error, RequestId::random().as_str()).to_string());
    let reason = status.canonical_reason().unwrap_or_default();
    let retry = error.retry_after().map_or_else(String::new, |after| format!("retry-after: {}\r\n", after.as_secs()));
    let code = status.as_str();
    format!(
        "HTTP/1.1 {code} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{retry}connection: \
         close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        log(&self);
        let mut response = json_reply(self.status(), &rest(&self, &request_id()));
        if matches!(self, Self::UpgradeRequired) {
            response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
        }
        if let Some(after) = self.retry_after() {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after.as_secs()));
        }
        response
    }
}

/// An error in the form that WebDriver clients read.
pub(super) struct W3c(pub(super) Error);

impl From<Error> for W3c {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for W3c {
    fn into_response(self) -> Response {
        log(&self.0);
        let status = self.0.webdriver();
        let mut response = w3c(
            // The standard has no word for a missing key, and clients look for the status.
            if self.0.status() == StatusCode::UNAUTHORIZED && !matches!(self.0, Error::InvalidToken) {
                StatusCode::UNAUTHORIZED
            } else {
                status.http_status()
            },
            &json!({
                "error": status.description(),
                "message": self.0.to_string(),
                "stacktrace": "",
                "data": {"code": self.0.code(), "request_id": request_id()},
            }),
        );
        if response.status() == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"warmpool\""));
        }
        if let Some(after) = self.0.retry_after() {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after.as_secs()));
        }
        response
    }
}

/// A response in the W3C form.
pub(super) fn w3c(status: StatusCode, value: &Value) -> Response {
    let mut response = json_reply(status, &json!({"value": value}));
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// A handler panicked: the client hears that, and the connection lives.
pub(super) fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    Error::internal(format!("panic: {}", text.unwrap_or("without a message"))).into_response()
}

/// No route has this path.
pub(super) async fn unknown_path(request: Request) -> Error {
    Error::UnknownPath { method: request.method().to_string(), path: path_without_secrets(&request) }
}

/// The route has no such method.
pub(super) async fn method_not_allowed(request: Request) -> Error {
    Error::MethodNotAllowed { method: request.method().to_string() }
}

/// The path as far as it may be repeated: what stands behind a session's id can hold its token.
fn path_without_secrets(request: &Request) -> String {
    let parts: Vec<&str> = request.uri().path().split('/').take(4).collect();
    let shown: String = parts.join("/").chars().take(120).collect();
    if request.uri().path().len() > shown.len() { format!("{shown}/…") } else { shown }
}
