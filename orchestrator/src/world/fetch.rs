//! Fetching attachments from other people's servers: only from public addresses, or from networks that the operator
//! allows. It resolves a name once, checks all of its addresses, and connects to one of them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, HOST, LOCATION};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use url::{Host, Url};

use crate::address::is_public;

/// Redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// Why an attachment could not be fetched. Nothing of it names more than the host that the client named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FetchError {
    /// The name resolves to an address that must not be reached from here.
    #[error(
        "{host} is not a public host: send the picture as `data`, or allow its network in `world.attachment_networks`"
    )]
    Private { host: String },
    /// The name has no address.
    #[error("the host {host} is unknown")]
    UnknownHost { host: String },
    /// The host does not answer as it should.
    #[error("{host} {problem}")]
    Failed {
        host: String,
        /// What is wrong with it.
        problem: String,
    },
    /// There is more of it than may be.
    #[error("the answer of {host} is longer than {limit} bytes (`world.max_attachment`)")]
    TooLarge {
        host: String,
        /// The limit, in bytes.
        limit: u64,
    },
    /// It took too long.
    #[error("{host} did not answer within {} seconds (`world.fetch_timeout`)", after.as_secs())]
    Slow {
        host: String,
        /// The limit.
        after: Duration,
    },
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Fetches attachments.
pub(super) struct Fetcher {
    pub networks: Vec<IpNet>,
    pub limit: u64,
    pub timeout: Duration,
    pub tls: Arc<ClientConfig>,
}

impl Fetcher {
    /// The bytes at an address.
    /// Errors: [`FetchError`].
    pub(super) async fn fetch(&self, url: &Url) -> Result<Bytes, FetchError> {
        let host = url.host_str().unwrap_or_default().to_owned();
        let after = self.timeout;
        timeout(after, self.follow(url.clone())).await.unwrap_or(Err(FetchError::Slow { host, after }))
    }

    async fn follow(&self, mut url: Url) -> Result<Bytes, FetchError> {
        for _ in 0..=MAX_REDIRECTS {
            let host = url.host_str().unwrap_or_default().to_owned();
            let failed = |problem: String| FetchError::Failed { host: host.clone(), problem };
            let response = self.ask(&url).await?;
            let status = response.status();
            if status.is_redirection() {
                let next = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
                let next = next.and_then(|next| url.join(next).ok());
                let next = next.filter(|next| matches!(next.scheme(), "http" | "https"));
                url = next.ok_or_else(|| failed(format!("answered {status} and names no place to go on")))?;
                continue;
            }
            if !status.is_success() {
                return Err(failed(format!("answered {status}")));
            }
            return self.read(&host, response).await;
        }
        let host = url.host_str().unwrap_or_default().to_owned();
        Err(FetchError::Failed { host, problem: format!("redirects more than {MAX_REDIRECTS} times") })
    }

    async fn read(&self, host: &str, response: Response<Incoming>) -> Result<Bytes, FetchError> {
        let mut body = response.into_body();
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|_| FetchError::Failed { host: host.to_owned(), problem: "broke off".to_owned() })?;
            if let Ok(data) = frame.into_data() {
                bytes.extend_from_slice(&data);
            }
            if bytes.len() as u64 > self.limit {
                return Err(FetchError::TooLarge { host: host.to_owned(), limit: self.limit });
            }
        }
        Ok(bytes.freeze())
    }

    async fn ask(&self, url: &Url) -> Result<Response<Incoming>, FetchError> {
        let host = url.host_str().unwrap_or_default().to_owned();
        let failed = |problem: &str| FetchError::Failed { host: host.clone(), problem: problem.to_owned() };
        let stream = self.connect(url).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|_| failed("does not speak HTTP"))?;
        tokio::spawn(connection);
        let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = path.parse().map_err(|_| failed("has a path that cannot be asked for"))?;
        let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
        let authority = HeaderValue::from_str(authority).map_err(|_| failed("has no usable name"))?;
        request.headers_mut().insert(HOST, authority);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("image/png, image/jpeg, image/webp"));
        sender.send_request(request).await.map_err(|_| failed("closed the connection"))
    }

    /// Connects to one of the checked addresses.
    async fn connect(&self, url: &Url) -> Result<Box<dyn Stream>, FetchError> {
        let host = url.host_str().unwrap_or_default().to_owned();
        let failed = |problem: &str| FetchError::Failed { host: host.clone(), problem: problem.to_owned() };
        let port = url.port_or_known_default().unwrap_or(80);
        let addresses: Vec<SocketAddr> = match url.host() {
            Some(Host::Ipv4(address)) => vec![SocketAddr::new(address.into(), port)],
            Some(Host::Ipv6(address)) => vec![SocketAddr::new(address.into(), port)],
            Some(Host::Domain(name)) => {
                let found = lookup_host((name, port)).await;
                found.map_err(|_| FetchError::UnknownHost { host: host.clone() })?.collect()
            }
            None => Vec::new(),
        };
        if !addresses.iter().all(|address| self.allows(address.ip())) {
            return Err(FetchError::Private { host });
        }
        let mut connected = Err(FetchError::UnknownHost { host: host.clone() });
        for address in addresses {
            connected = TcpStream::connect(address).await.map_err(|_| failed("refuses connections"));
            if connected.is_ok() {
                break;
            }
        }
        let stream = connected?;
        if url.scheme() == "http" {
            return Ok(Box::new(stream));
        }
        let name =
            ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(|_| failed("has no usable name"))?;
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await;
        stream.map(|stream| Box::new(stream) as Box<dyn Stream>).map_err(|_| failed("has no valid certificate"))
    }

    fn allows(&self, address: IpAddr) -> bool {
        // An IPv4-mapped IPv6 address is allowed where the IPv4 address is.
        let plain = address.to_canonical();
        is_public(address) || self.networks.iter().any(|network| network.contains(&address) || network.contains(&plain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// A server that answers each connection with the next of these.
    async fn server(answers: Vec<String>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        address
    }

    fn fetcher(networks: &[&str]) -> Fetcher {
        Fetcher {
            networks: networks.iter().map(|network| network.parse().unwrap()).collect(),
            limit: 100,
            timeout: Duration::from_secs(20),
            tls: crate::tls::client_config().unwrap(),
        }
    }

    fn ok(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
    }

    #[tokio::test]
    async fn private_addresses_are_refused_by_every_name() {
        let address = server(vec![ok("secret")]).await;
        let fetcher = fetcher(&[]);
        for host in ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "0"] {
            let url = Url::parse(&format!("http://{host}:{}/", address.port())).unwrap();
            let error = fetcher.fetch(&url).await.unwrap_err();
            assert!(matches!(error, FetchError::Private { .. }), "{host}: {error:?}");
        }
    }

    #[tokio::test]
    async fn a_redirect_to_a_private_address_is_refused() {
        let redirect = "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/latest\r\ncontent-length: 0\r\n\r\n";
        let address = server(vec![redirect.to_owned()]).await;
        let error = fetcher(&["127.0.0.0/8"]).fetch(&Url::parse(&format!("http://{address}/")).unwrap()).await;
        assert!(matches!(error, Err(FetchError::Private { host }) if host == "169.254.169.254"));
    }

    #[tokio::test]
    async fn what_is_allowed_is_fetched_within_limits() {
        let long = "x".repeat(101);
        let away =
            "HTTP/1.1 301 Moved\r\nlocation: /there\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned();
        let address = server(vec![away, ok("picture"), ok(&long), "HTTP/1.1 404 Gone\r\n\r\n".to_owned()]).await;
        let fetcher = fetcher(&["127.0.0.0/8"]);
        let url = Url::parse(&format!("http://{address}/a?b=c")).unwrap();
        assert_eq!(fetcher.fetch(&url).await.unwrap(), "picture");
        assert!(matches!(fetcher.fetch(&url).await, Err(FetchError::TooLarge { limit: 100, .. })));
        assert!(matches!(fetcher.fetch(&url).await, Err(FetchError::Failed { .. })));
    }
}
