//! The way from fantoccini to the session's driver without a socket: it dials a pipe, and at the pipe's other end sits
//! the same forwarder that clients of `connect_url` reach.

use fantoccini::error::ErrorStatus;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use warmpool_core::error::Fault as _;
use warmpool_core::json;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{DuplexStream, duplex};
use tower::Service;

use crate::Error;
use warmpool_config::Config;
use warmpool_sessions::session::Session;
use warmpool_sessions::webdriver::{self, Command};
use warmpool_workers::worker::Connected;

/// What the driver's address is called on this way; nothing resolves it.
pub(super) const ADDRESS: &str = "http://session.invalid/";

/// Bytes under way in each direction.
const PIPE: usize = 256 << 10;

/// Dials the driver of one session.
#[derive(Clone)]
pub(super) struct Dial {
    /// Whose driver.
    pub(super) session: Arc<Session>,
    /// The forwarder's limits.
    pub(super) config: Arc<Config>,
    /// No answer may be longer, in bytes.
    pub(super) max_answer: usize,
}

impl Service<Uri> for Dial {
    type Response = TokioIo<Connected<DuplexStream>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (near, far) = duplex(PIPE);
        let dial = self.clone();
        // Ends with the pipe, which ends with the client.
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let dial = dial.clone();
                async move { Ok::<_, Infallible>(dial.answer(request).await) }
            });
            let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service).await;
            if let Err(error) = served {
                tracing::debug!(%error, "a task's connection to its driver broke");
            }
        });
        ready(Ok(TokioIo::new(Connected(near))))
    }
}

impl Dial {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let id = path.strip_prefix("/session/").and_then(|rest| rest.split('/').next()).unwrap_or_default().to_owned();
        // The owner ends the session; fantoccini must not.
        if request.method() == Method::DELETE && path == format!("/session/{id}") {
            return reply(StatusCode::OK, &json!({"value": null}));
        }
        match self.forward(&id, &path, request).await {
            Ok(response) => response,
            Err(error) => {
                let status = error.code().webdriver().parse().unwrap_or(ErrorStatus::UnknownError);
                let value = json!({"error": status.description(), "message": error.to_string(), "stacktrace": ""});
                reply(status.http_status(), &json!({"value": value}))
            }
        }
    }

    async fn forward(&self, id: &str, path: &str, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Error> {
        let (mut parts, body) = request.into_parts();
        parts.headers.remove(http::header::HOST);
        let request = Request::from_parts(parts, body.map_err(Into::into).boxed_unsync());
        let command = Command::read(request.method(), path, 2)?;
        let response = webdriver::forward(&self.session, &self.config, id, command, request).await?;
        let (mut parts, body) = response.into_parts();
        let limited = Limited::new(body, self.max_answer).collect().await;
        let too_large = || Error::BodyTooLarge { limit: self.max_answer as u64, setting: "tasks.max_output" };
        let bytes = readable(limited.map_err(|_| too_large())?.to_bytes(), self.max_answer).ok_or_else(too_large)?;
        parts.headers.remove(http::header::CONTENT_LENGTH);
        Ok(Response::from_parts(parts, Full::new(bytes)))
    }
}

/// The answer as fantoccini may read it, unless that would take too much memory: a page may have a script answer with whatever it
/// likes.
fn readable(bytes: Bytes, most: usize) -> Option<Bytes> {
    // fantoccini takes it for granted that an answer is UTF-8. Until it is, nobody knows how much it takes.
    let bytes = match std::str::from_utf8(&bytes) {
        Ok(_) => bytes,
        Err(_) => Bytes::from(String::from_utf8_lossy(&bytes).into_owned()),
    };
    json::may_be_read(&bytes, most).then_some(bytes)
}

fn reply(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_no_utf_8_may_not_be_larger_than_another() {
        let answer = |bad: &[u8]| Bytes::from([&b"[\""[..], bad, b"\"", &b",[]".repeat(1000)[..], b"]"].concat());
        for bad in [&b"\xff"[..], b"x"] {
            assert!(readable(answer(bad), 10_000).is_none());
            let read = readable(answer(bad), 30_000).unwrap();
            assert!(serde_json::from_slice::<Value>(&read).is_ok());
        }
    }
}
