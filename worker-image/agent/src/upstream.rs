//! Requests to the browser and its driver, at their local ports.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{
    AUTHORIZATION, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;

use crate::body::Body;
use crate::error::ApiError;
use crate::ports::LocalPort;

/// Headers that belong to one connection and not to the message.
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// [`LocalPort::connect`] as a service for the pooled client.
#[derive(Clone)]
struct Dialer;

impl tower::Service<Uri> for Dialer {
    type Response = TokioIo<UnixStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let port = uri.authority().and_then(|authority| LocalPort::from_authority(authority.as_str()));
        Box::pin(async move {
            let port = port.ok_or(io::ErrorKind::InvalidInput)?;
            Ok(TokioIo::new(port.connect().await?))
        })
    }
}

/// A client that keeps its connections open.
#[derive(Clone)]
pub(crate) struct Upstream {
    client: Client<Dialer, Body>,
}

impl Upstream {
    pub(crate) fn new() -> Self {
        let client = Client::builder(TokioExecutor::new()).set_host(false).build(Dialer);
        Self { client }
    }

    /// Forwards a request and returns the answer; both bodies are streamed.
    /// `path` may carry a query.
    pub(crate) async fn forward<B>(
        &self,
        request: Request<B>,
        to: LocalPort,
        path: &str,
    ) -> Result<Response<Body>, ApiError>
    where
        B: hyper::body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<crate::body::BodyError>,
    {
        let (mut parts, body) = request.into_parts();
        parts.uri = uri(to, path)?;
        parts.version = http::Version::HTTP_11;
        address_headers(&mut parts.headers, to);
        for name in &HOP_BY_HOP {
            parts.headers.remove(name);
        }
        let request = Request::from_parts(parts, body.map_err(Into::into).boxed_unsync());
        let response = self.client.request(request).await.map_err(|e| ApiError::upstream(format!("no answer: {e}")))?;
        let (mut parts, body) = response.into_parts();
        for name in &HOP_BY_HOP {
            parts.headers.remove(name);
        }
        Ok(Response::from_parts(parts, body.map_err(Into::into).boxed_unsync()))
    }
}

/// Absolute URI of a path at a port.
fn uri(to: LocalPort, path: &str) -> Result<Uri, ApiError> {
    Uri::builder()
        .scheme("http")
        .authority(to.authority())
        .path_and_query(path)
        .build()
        .map_err(|e| ApiError::bad_request(format!("path: {e}")))
}

/// Makes a request look local: browser and driver refuse foreign hosts and any origin. Removes the worker's secret, which
/// they must not see. Every other header stays.
pub(crate) fn address_headers(headers: &mut HeaderMap, to: LocalPort) {
    headers.remove(ORIGIN);
    headers.remove(AUTHORIZATION);
    if let Ok(host) = HeaderValue::from_str(&to.authority()) {
        headers.insert(HOST, host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_made_local_and_otherwise_kept() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("host", "pool.example:4444"),
            ("origin", "https://evil.example"),
            ("authorization", "Bearer secret"),
            ("sec-websocket-key", "AAAA"),
            ("sec-websocket-protocol", "a, b"),
            ("connection", "Upgrade"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        address_headers(&mut headers, LocalPort::new(9222));
        assert_eq!(headers["host"], "127.0.0.1:9222");
        assert_eq!(headers["sec-websocket-key"], "AAAA");
        assert_eq!(headers["sec-websocket-protocol"], "a, b");
        assert_eq!(headers["connection"], "Upgrade");
        assert!(!headers.contains_key("origin") && !headers.contains_key("authorization"));
    }

    #[test]
    fn a_path_keeps_its_query() {
        let to = LocalPort::new(9515);
        assert_eq!(uri(to, "/session/1/url?a=b").unwrap(), "http://127.0.0.1:9515/session/1/url?a=b");
        assert!(uri(to, "/white space").is_err());
    }
}
