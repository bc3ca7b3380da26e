//! What the agent answers when it cannot do what it is asked.

use http::{Response, StatusCode};
use warmpool_protocol::{ErrorBody, ErrorDetail};

use crate::body::{Body, full};

/// A refusal or a failure, as the daemon sees it.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl ApiError {
    /// An error with any status.
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// 400: the request itself is wrong.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// 404: no such path, file or page.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// 409: right request, wrong moment.
    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    /// 413: more bytes than allowed.
    pub(crate) fn too_large(limit: u64) -> Self {
        let message = format!("more than the {limit} bytes allowed");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    /// 502: the browser or its driver did not answer.
    pub(crate) fn upstream(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "browser_unreachable", message)
    }

    /// 500: something in the container itself.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    /// The answer on the wire.
    pub(crate) fn response(&self) -> Response<Body> {
        let error = ErrorDetail { code: self.code.to_owned(), message: self.message.clone() };
        let body = serde_json::to_vec(&ErrorBody { error }).unwrap_or_default();
        let mut response = Response::new(full(body));
        *response.status_mut() = self.status;
        response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        response
    }
}

impl From<std::io::Error> for ApiError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::not_found("no such file"),
            std::io::ErrorKind::StorageFull => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "no_space", "the worker has no room left for this file")
            }
            _ => Self::internal(error.to_string()),
        }
    }
}
