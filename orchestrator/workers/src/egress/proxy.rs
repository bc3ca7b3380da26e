//! Connections through the operator's or the client's proxy: HTTP `CONNECT`, plain or over TLS, or SOCKS version 5.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::either::Either;
use url::Host;

use super::head::{END, read_head};
use super::socks::{self, Credentials};
use warmpool_config::ProxyScheme;

/// The longest head of an answer to `CONNECT`, in bytes.
const MAX_HEAD: usize = 8 << 10;

/// A connection to a site, directly or through a proxy.
pub(super) type Site = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A proxy and its credentials.
#[derive(Debug, Clone)]
pub(super) struct Proxy {
    pub scheme: ProxyScheme,
    pub host: Host,
    pub port: u16,
    pub credentials: Option<Credentials>,
}

/// Why a proxy gave no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProxyError {
    #[error("the proxy cannot be reached: {0}")]
    Unreachable(io::Error),
    #[error("the proxy is not configured any more")]
    Gone,
    #[error("the proxy did not answer in time")]
    Slow,
    #[error("the proxy does not take the credentials")]
    Credentials,
    #[error("the proxy refused the connection ({0})")]
    Refused(String),
    #[error("the proxy's answer makes no sense")]
    Garbage,
}

impl ProxyError {
    /// The short name in records and metrics.
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "proxy_unreachable",
            Self::Gone => "proxy_gone",
            Self::Slow => "proxy_slow",
            Self::Credentials => "proxy_credentials",
            Self::Refused(_) => "proxy_refused",
            Self::Garbage => "proxy_garbage",
        }
    }
}

/// An answer that breaks off is invalid, too.
impl From<io::Error> for ProxyError {
    fn from(_: io::Error) -> Self {
        Self::Garbage
    }
}

/// Asks a connected proxy for a connection to a site, and gives it up after `limit`.
/// Errors: [`ProxyError`].
pub(super) async fn ask(
    stream: TcpStream,
    proxy: &Proxy,
    tls: &Arc<ClientConfig>,
    (host, port): (&Host, u16),
    limit: Duration,
) -> Result<Site, ProxyError> {
    timeout(limit, ask_patiently(stream, proxy, tls, host, port)).await.map_err(|_| ProxyError::Slow)?
}

async fn ask_patiently(
    stream: TcpStream,
    proxy: &Proxy,
    tls: &Arc<ClientConfig>,
    host: &Host,
    port: u16,
) -> Result<Site, ProxyError> {
    match proxy.scheme {
        ProxyScheme::Http => Ok(Either::Left(connect(stream, proxy, host, port).await?)),
        ProxyScheme::Https => {
            let stream = TlsConnector::from(Arc::clone(tls)).connect(server_name(&proxy.host)?, stream).await;
            let stream = stream.map_err(ProxyError::Unreachable)?;
            Ok(Either::Right(Box::new(connect(stream, proxy, host, port).await?)))
        }
        ProxyScheme::Socks5 => {
            let mut stream = stream;
            socks::request(&mut stream, proxy.credentials.as_ref(), host, port).await?;
            Ok(Either::Left(stream))
        }
    }
}

/// What the certificate of a proxy must name.
fn server_name(host: &Host) -> Result<ServerName<'static>, ProxyError> {
    match host {
        Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|_| ProxyError::Garbage),
        Host::Ipv4(address) => Ok(ServerName::IpAddress((*address).into())),
        Host::Ipv6(address) => Ok(ServerName::IpAddress((*address).into())),
    }
}

async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    proxy: &Proxy,
    host: &Host,
    port: u16,
) -> Result<S, ProxyError> {
    let mut request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
    if let Some(Credentials { user, password }) = &proxy.credentials {
        let pair = STANDARD.encode(format!("{user}:{}", password.expose()));
        request.push_str(&format!("Proxy-Authorization: Basic {pair}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let may_be_http = |head: &[u8]| head.iter().zip(b"HTTP/").all(|(byte, wanted)| byte == wanted);
    let head = read_head(&mut stream, MAX_HEAD, may_be_http).await?;
    let text = std::str::from_utf8(&head).ok().filter(|head| head.as_bytes().ends_with(END));
    let status = text.and_then(|head| head.split(' ').nth(1)?.parse::<u16>().ok());
    match status {
        Some(200..=299) => Ok(stream),
        // The same credentials would be refused again.
        Some(401 | 407) => Err(ProxyError::Credentials),
        Some(status @ 300..=599) => Err(ProxyError::Refused(format!("status {status}"))),
        _ => Err(ProxyError::Garbage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;
    use warmpool_core::secret::Secret;
    use warmpool_core::silent::SilentPeer;
    use warmpool_core::tls::client_config;

    async fn answered(answer: &[u8]) -> (Result<Vec<u8>, ProxyError>, String) {
        let (ours, mut theirs) = tokio::io::duplex(64 << 10);
        theirs.write_all(answer).await.unwrap();
        theirs.shutdown().await.unwrap();
        let credentials = Some(Credentials { user: "u".to_owned(), password: Secret::new("p".to_owned()) });
        let proxy = Proxy { scheme: ProxyScheme::Http, host: Host::Domain("p".to_owned()), port: 1, credentials };
        let connected = connect(ours, &proxy, &Host::Domain("a.example".to_owned()), 443).await;
        let early = match connected {
            Ok(mut stream) => {
                let mut early = Vec::new();
                stream.read_to_end(&mut early).await.unwrap();
                Ok(early)
            }
            Err(error) => Err(error),
        };
        let mut asked = String::new();
        theirs.read_to_string(&mut asked).await.unwrap();
        (early, asked)
    }

    #[tokio::test]
    async fn a_proxys_answers_are_distinguished() {
        let (early, asked) = answered(b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nhello").await;
        assert_eq!(early.unwrap(), b"hello", "the site's first bytes are the site's");
        assert!(asked.starts_with("CONNECT a.example:443 HTTP/1.1\r\n"), "{asked}");
        assert!(asked.contains("Proxy-Authorization: Basic dTpw\r\n"), "{asked}");
        for (answer, code) in [
            (&b"HTTP/1.1 407 No\r\n\r\n"[..], "proxy_credentials"),
            (b"HTTP/1.1 502 Bad\r\n\r\n", "proxy_refused"),
            (b"SSH-2.0-OpenSSH\r\n\r\n", "proxy_garbage"),
            (b"HTTP/1.1 two\r\n\r\n", "proxy_garbage"),
            (b"HTTP/1.1 200 OK\r\n", "proxy_garbage"),
            (&[b'x'; 9000], "proxy_garbage"),
        ] {
            assert_eq!(answered(answer).await.0.unwrap_err().code(), code, "{answer:?}");
        }
    }

    #[test]
    fn a_proxy_is_known_by_its_name_or_address() {
        for (host, name) in [("a.example", "a.example"), ("192.0.2.1", "192.0.2.1"), ("[2001:DB8::1]", "2001:db8::1")] {
            assert_eq!(server_name(&Host::parse(host).unwrap()).unwrap().to_str(), name, "{host}");
        }
    }

    #[tokio::test]
    async fn a_proxy_that_never_answers_is_given_up() {
        let tls = client_config().unwrap();
        let credentials = Some(Credentials { user: "u".to_owned(), password: Secret::new("p".to_owned()) });
        let site = Host::Domain("a.example".to_owned());
        for (scheme, credentials, beginning) in [
            (ProxyScheme::Http, None, &b""[..]),
            (ProxyScheme::Http, None, b"HTTP/1.1 200 Connection est"),
            (ProxyScheme::Https, None, b""),
            (ProxyScheme::Socks5, None, b""),
            (ProxyScheme::Socks5, None, b"\x05"),
            (ProxyScheme::Socks5, None, b"\x05\x00\x05\x00"),
            (ProxyScheme::Socks5, credentials, b"\x05\x02\x01"),
        ] {
            let mut silent = SilentPeer::after(beginning).await.unwrap();
            let stream = TcpStream::connect(silent.address).await.unwrap();
            let host = Host::Ipv4([127, 0, 0, 1].into());
            let proxy = Proxy { scheme, host, port: silent.address.port(), credentials };
            let asked = ask(stream, &proxy, &tls, (&site, 443), Duration::from_millis(300));
            let answered = timeout(Duration::from_secs(60), asked).await.expect("it ends");
            assert!(matches!(answered, Err(ProxyError::Slow)), "{scheme:?}, {beginning:?}: {answered:?}");
            silent.is_left().await.unwrap_or_else(|error| panic!("{scheme:?}, {beginning:?}: {error}"));
        }
    }
}
