//! One attempt to bring a message: the connection, the signature, the answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use url::{Host, Url};

use warmpool_core::address;
use warmpool_core::error::Cause;
use warmpool_core::secret::Secret;
use warmpool_core::signature::sign;
use warmpool_dial::{DialError, Dialler, Lookups};

/// What says who calls.
const AGENT: &str = concat!("warmpool/", env!("CARGO_PKG_VERSION"));

/// Why a message was not taken. Nothing of it has more of the address than its host.
#[derive(Debug, thiserror::Error)]
pub(super) enum PostError {
    /// The policy forbids the address: another try would be refused as well.
    #[error("the address {problem}")]
    Refused { problem: &'static str },
    /// The receiver says that it wants no more.
    #[error("it answered 410 Gone")]
    Gone,
    /// The receiver did not take it.
    #[error("it answered {0}")]
    Status(StatusCode),
    /// No answer came in time.
    #[error("no answer in time (`webhooks.timeout`)")]
    Slow,
    /// There is no connection, or it broke.
    #[error("{0}")]
    Failed(Cause),
}

impl PostError {
    /// Whether another try may succeed.
    pub(super) const fn is_passing(&self) -> bool {
        !matches!(self, Self::Refused { .. } | Self::Gone)
    }
}

/// Connects to the receiver of a message.
pub(super) enum ReceiverDialler {
    /// Where a policy allows it.
    Restricted(Dialler),
    /// Anywhere: the operator named the address.
    Unrestricted(Lookups),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// What is sent.
pub(super) struct Post<'a> {
    pub dialler: ReceiverDialler,
    pub url: &'a Url,
    pub secret: &'a Secret,
    pub id: &'a str,
    /// The time of this attempt, in Unix seconds.
    pub seconds: u64,
    pub body: &'a str,
    pub limit: Duration,
    pub tls: &'a Arc<ClientConfig>,
}

impl Post<'_> {
    /// Sends it. The answer's body is not read, and redirects are not followed.
    /// Errors: [`PostError`].
    pub(super) async fn send(&self) -> Result<(), PostError> {
        let status = timeout(self.limit, self.ask()).await.map_err(|_| PostError::Slow)??;
        match status {
            status if status.is_success() => Ok(()),
            StatusCode::GONE => Err(PostError::Gone),
            status => Err(PostError::Status(status)),
        }
    }

    async fn ask(&self) -> Result<StatusCode, PostError> {
        let stream = self.connect().await?;
        let exchange = async {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            let request = self.request()?;
            // In one task, so that both end with the attempt.
            tokio::select! {
                response = sender.send_request(request) => Ok(response?.status()),
                Err(error) = connection => Err(Cause::from(error)),
            }
        };
        exchange.await.map_err(PostError::Failed)
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, Cause> {
        let mut request = Request::new(Full::new(Bytes::copy_from_slice(self.body.as_bytes())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url[url::Position::BeforePath..url::Position::AfterQuery].parse()?;
        let authority = &self.url[url::Position::BeforeHost..url::Position::AfterPort];
        let signature = format!("v1,{}", sign(self.secret.expose(), self.id, self.seconds, self.body));
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_str(authority)?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert("webhook-id", HeaderValue::from_str(self.id)?);
        headers.insert("webhook-timestamp", HeaderValue::from(self.seconds));
        headers.insert("webhook-signature", HeaderValue::from_str(&signature)?);
        Ok(request)
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, PostError> {
        let failed = |what: &str| PostError::Failed(what.to_owned().into());
        let host = self.url.host_str().and_then(address::host).ok_or_else(|| failed("it has no host"))?;
        let port = self.url.port_or_known_default().unwrap_or(443);
        let stream = self.dial(&host, port).await.map_err(|error| match error {
            DialError::Refused(refusal) => PostError::Refused { problem: refusal.problem() },
            error => PostError::Failed(error.into()),
        })?;
        if self.url.scheme() == "http" {
            return Ok(Box::new(stream));
        }
        let name = match host {
            Host::Domain(name) => ServerName::try_from(name).map_err(|error| PostError::Failed(error.into()))?,
            Host::Ipv4(address) => ServerName::IpAddress(address.into()),
            Host::Ipv6(address) => ServerName::IpAddress(address.into()),
        };
        let secured = TlsConnector::from(Arc::clone(self.tls)).connect(name, stream).await;
        Ok(Box::new(secured.map_err(|error| PostError::Failed(error.into()))?))
    }

    async fn dial(&self, host: &Host, port: u16) -> Result<TcpStream, DialError> {
        match &self.dialler {
            ReceiverDialler::Restricted(dialler) => dialler.connect(host, port).await.map(|(stream, _)| stream),
            ReceiverDialler::Unrestricted(lookups) => lookups.connect(host, port, self.limit).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use warmpool_core::silent::SilentPeer;
    use warmpool_core::tls::client_config;
    use warmpool_dial::Resolver;

    #[tokio::test]
    async fn a_receiver_that_never_answers_is_given_up() {
        let tls = client_config().unwrap();
        for (scheme, beginning) in [
            ("http", &b""[..]),
            ("http", b"HTTP/1.1 200 OK\r\ncontent-le"),
            ("http", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
            ("https", b""),
            ("https", b"\x16\x03\x03"),
        ] {
            let mut silent = SilentPeer::after(beginning).await.unwrap();
            let post = Post {
                dialler: ReceiverDialler::Unrestricted(Resolver::nowhere().share()),
                url: &format!("{scheme}://{}/hook", silent.address).parse().unwrap(),
                secret: &Secret::new("s".to_owned()),
                id: "msg_1",
                seconds: 1,
                body: "{}",
                limit: Duration::from_millis(300),
                tls: &tls,
            };
            let sent = timeout(Duration::from_secs(60), post.send()).await.expect("it ends");
            let error = sent.expect_err("nobody took it");
            assert!(matches!(error, PostError::Slow) && error.is_passing(), "{scheme}, {beginning:?}: {error:?}");
            silent.is_left().await.unwrap_or_else(|error| panic!("{scheme}, {beginning:?}: {error}"));
        }
    }
}
