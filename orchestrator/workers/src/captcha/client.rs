//! Small JSON requests to the operator's services, over http and https.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pooled;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;
use url::Url;

use warmpool_core::error::Cause;
use warmpool_dial::Lookups;

/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The longest answer, in bytes.
const MAX_ANSWER: usize = 256 << 10;

/// A client. Clones share its connections.
#[derive(Debug, Clone)]
pub(super) struct Client(Pooled<HttpsConnector<HttpConnector<Lookups>>, Full<Bytes>>);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("{0}")]
    Failed(Cause),
    #[error("no answer within {} seconds", TIMEOUT.as_secs())]
    Slow,
}

impl Client {
    pub(super) fn new(tls: &ClientConfig, lookups: Lookups) -> Self {
        let mut plain = HttpConnector::new_with_resolver(lookups);
        plain.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls.clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(plain);
        Self(Pooled::builder(TokioExecutor::new()).build(connector))
    }

    /// Posts JSON; returns the status and the body of the answer.
    pub(super) async fn post(
        &self,
        url: &Url,
        headers: HeaderMap,
        json: Vec<u8>,
    ) -> Result<(StatusCode, Bytes), RequestError> {
        let asked = async {
            let mut request = Request::new(Full::new(Bytes::from(json)));
            *request.method_mut() = Method::POST;
            *request.uri_mut() = url.as_str().parse()?;
            *request.headers_mut() = headers;
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            let response = self.0.request(request).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await?.to_bytes();
            Ok::<_, Cause>((status, body))
        };
        timeout(TIMEOUT, asked).await.map_err(|_| RequestError::Slow)?.map_err(RequestError::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use warmpool_core::silent::SilentPeer;
    use warmpool_core::tls::client_config;
    use warmpool_dial::Resolver;

    #[tokio::test(start_paused = true)]
    async fn a_service_that_never_answers_is_given_up() {
        let client = Client::new(&client_config().unwrap(), Resolver::nowhere().share());
        let mut left = Vec::new();
        for (scheme, beginning) in [
            ("http", &b""[..]),
            ("http", b"HTTP/1.1 200 OK\r\ncontent-le"),
            ("http", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"err"),
            ("https", b""),
        ] {
            let silent = SilentPeer::after(beginning).await.unwrap();
            let url = format!("{scheme}://{}/createTask", silent.address).parse().unwrap();
            let asked = client.post(&url, HeaderMap::new(), b"{}".to_vec());
            let answered = timeout(TIMEOUT * 100, asked).await.expect("it ends");
            assert!(matches!(answered, Err(RequestError::Slow)), "{scheme}, {beginning:?}: {answered:?}");
            left.push((scheme, beginning, silent));
        }
        tokio::time::resume();
        for (scheme, beginning, mut silent) in left {
            silent.is_left().await.unwrap_or_else(|error| panic!("{scheme}, {beginning:?}: {error}"));
        }
    }
}
