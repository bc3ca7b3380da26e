//! Answers that are streams of server-sent events.

use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::Stream;
use http::HeaderValue;

/// Time between two keep-alive comments.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The answer that sends these events as they come.
pub(super) fn respond(events: impl Stream<Item = Result<Event, axum::Error>> + Send + 'static) -> Response {
    let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response();
    // A proxy that gathers an answer before it passes it on would hold events back.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
