//! Bodies of answers, and reading those of requests.

use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::body::Incoming;
use serde::Serialize;
use serde::de::DeserializeOwned;
use warmpool_protocol::text::{MAX_KEPT, shortened};
use warmpool_protocol::{BODY_LIMIT, ErrorBody, ErrorDetail};

use crate::error::ApiError;

/// Whatever goes wrong while a body is being sent.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// The body of every answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, BodyError>;

/// A body of known bytes.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

pub(crate) fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A 200 with a JSON body.
pub(crate) fn json(value: &impl Serialize) -> Result<Response<Body>, ApiError> {
    let bytes = serde_json::to_vec(value).map_err(|e| ApiError::internal(e.to_string()))?;
    let mut response = Response::new(full(bytes));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// The answer that reports an error.
pub(crate) fn failure(error: &ApiError) -> Response<Body> {
    let detail = ErrorDetail { code: error.code.to_owned(), message: shortened(error.message.as_str(), MAX_KEPT) };
    let body = serde_json::to_vec(&ErrorBody { error: detail }).unwrap_or_default();
    let mut response = Response::new(full(body));
    *response.status_mut() = error.status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Reads a whole body into memory.
pub(crate) async fn collect(body: Incoming) -> Result<Bytes, ApiError> {
    collect_within(body, BODY_LIMIT).await
}

/// The same with a limit of its own, in bytes.
pub(crate) async fn collect_within(body: Incoming, limit: usize) -> Result<Bytes, ApiError> {
    let collected = Limited::new(body, limit)
        .collect()
        .await
        .map_err(|_| ApiError::bad_request("the body is too large or was cut off"))?;
    Ok(collected.to_bytes())
}

/// Reads a whole JSON body.
pub(crate) async fn read_json<T: DeserializeOwned>(body: Incoming) -> Result<T, ApiError> {
    parse(&collect(body).await?)
}

/// The same with a limit of its own, in bytes.
pub(crate) async fn read_json_within<T: DeserializeOwned>(body: Incoming, limit: usize) -> Result<T, ApiError> {
    parse(&collect_within(body, limit).await?)
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes).map_err(|e| ApiError::bad_request(format!("JSON: {e}")))
}
