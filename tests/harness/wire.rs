//! Connections, plain or TLS: for HTTP, for websockets, and raw for bytes that no client library would send.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use http::{HeaderMap, Request};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// Any two-way stream.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// A websocket over any stream.
pub type Socket = WebSocketStream<Box<dyn Io>>;

/// The only certificate that a client trusts.
pub type Trusted = CertificateDer<'static>;

/// Scheme, host, port and the path with its query, taken apart.
#[derive(Clone, Debug)]
pub struct Target {
    /// Whether the scheme is https or wss.
    pub tls: bool,
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path and query, beginning with a slash.
    pub path: String,
}

impl Target {
    /// Takes an `http`, `https`, `ws` or `wss` URL apart.
    pub fn parse(url: &str) -> Result<Self> {
        let uri: http::Uri = url.parse().with_context(|| format!("URL {url}"))?;
        let tls = match uri.scheme_str() {
            Some("https" | "wss") => true,
            Some("http" | "ws") => false,
            other => bail!("{url}: scheme {other:?}"),
        };
        let host = uri.host().with_context(|| format!("{url}: no host"))?.to_owned();
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { tls, host, port, path })
    }

    /// The value of the `Host` header.
    #[must_use]
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// Connects to the target's host; TLS needs the certificate to trust.
pub async fn connect(target: &Target, trusted: Option<&Trusted>) -> Result<Box<dyn Io>> {
    let stream = TcpStream::connect((target.host.as_str(), target.port))
        .await
        .with_context(|| format!("connect to {}", target.authority()))?;
    stream.set_nodelay(true)?;
    if !target.tls {
        return Ok(Box::new(stream));
    }
    let mut roots = RootCertStore::empty();
    roots.add(trusted.context("TLS needs a certificate to trust")?.clone())?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(target.host.clone())?;
    Ok(Box::new(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
}

/// Why a websocket was not opened: the status and body of the HTTP answer.
#[derive(Debug, thiserror::Error)]
#[error("no upgrade: {status} {body}")]
pub struct Refused {
    /// HTTP status.
    pub status: u16,
    /// Body as text.
    pub body: String,
}

/// Opens a websocket with extra headers. A refusal by the server is a [`Refused`].
pub async fn websocket(url: &str, headers: &HeaderMap, trusted: Option<&Trusted>) -> Result<Socket> {
    let target = Target::parse(url)?;
    let mut request: Request<()> = url.into_client_request()?;
    for (name, value) in headers {
        request.headers_mut().insert(name.clone(), value.clone());
    }
    // No limit on this side, so that the daemon's own limits show.
    let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    let stream = connect(&target, trusted).await?;
    match tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await {
        Ok((socket, _)) => Ok(socket),
        Err(tokio_tungstenite::tungstenite::Error::Http(reply)) => Err(Refused {
            status: reply.status().as_u16(),
            body: String::from_utf8_lossy(reply.body().as_deref().unwrap_or_default()).into_owned(),
        }
        .into()),
        Err(error) => Err(error.into()),
    }
}

/// The status with which a websocket is refused; an error if it is opened, or fails without an answer.
pub async fn refusal(url: &str, headers: &HeaderMap) -> Result<u16> {
    match websocket(url, headers, None).await {
        Ok(_) => bail!("the websocket was opened"),
        Err(error) => Ok(error.downcast::<Refused>()?.status),
    }
}

/// Like [`raw`], from a client that says at once that no more will come.
pub async fn raw_half_closed(base: &str, bytes: &[u8], limit: u64) -> Result<String> {
    let mut stream = connect(&Target::parse(base)?, None).await?;
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    // A reset counts as an answer.
    let _ = stream.take(limit).read_to_end(&mut answer).await;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Sends bytes as they are and returns all that comes back until the server closes, or `limit` bytes.
pub async fn raw(base: &str, bytes: &[u8], limit: u64) -> Result<String> {
    let mut stream = connect(&Target::parse(base)?, None).await?;
    // The server may answer and close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let read = stream.take(limit).read_to_end(&mut answer).await;
    if answer.is_empty() {
        read?;
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
