//! Fetching attachments from other people's servers, by the policy that pages have: from public addresses, or from networks
//! that the operator allows, and never from what a rule denies.
//!
//! Whoever names an attachment learns the picture, or that there is none: not whether a host has a name in the daemon's
//! network, which ports are open there, or what answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, HOST, LOCATION};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use image::ImageFormat;
use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use url::{Host, Url};

use warmpool_config::{Config, EgressRules};
use warmpool_core::address;
use warmpool_core::error::Cause;
use warmpool_dial::{Dialler, Lookups, Policy};
use warmpool_keys::{KeyId, Keys};

/// Redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// Why an attachment could not be fetched. Nothing of it names more than the host that the client named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FetchError {
    /// Whatever the reason is.
    #[error(
        "{host} must be a public host, or in one of `world.attachment_networks`, and answer with a PNG, JPEG or WebP \
         picture within {} seconds (`world.fetch_timeout`): or send the picture as `data`", within.as_secs()
    )]
    NoPicture {
        host: String,
        /// The limit.
        within: Duration,
    },
    /// There is more of it than may be.
    #[error("the answer of {host} is longer than {limit} bytes (`world.max_attachment`)")]
    TooLarge {
        host: String,
        /// The limit, in bytes.
        limit: u64,
    },
}

/// There is more of an answer than may be. What else is wrong only the log says.
#[derive(Debug, thiserror::Error)]
#[error("the answer is too long")]
struct TooLong;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// What it takes to judge, look up and reach the hosts of attachments.
pub struct AttachmentSources {
    /// Keys have rules of their own.
    pub keys: Keys,
    /// Looks the hosts up.
    pub lookups: Lookups,
    /// Whose certificates are trusted.
    pub tls: Arc<ClientConfig>,
}

/// Fetches attachments.
pub(super) struct Fetcher {
    sources: AttachmentSources,
    rules: EgressRules,
    networks: Vec<IpNet>,
    connect_timeout: Duration,
    limit: u64,
    timeout: Duration,
}

impl Fetcher {
    pub(super) fn new(config: &Config, sources: AttachmentSources) -> Self {
        let (egress, world) = (&config.egress, &config.world);
        Self {
            sources,
            rules: EgressRules { allow: egress.allow.clone(), deny: egress.deny.clone(), ..EgressRules::default() },
            networks: world.attachment_networks.clone(),
            connect_timeout: egress.connect_timeout,
            limit: world.max_attachment.bytes(),
            timeout: world.fetch_timeout,
        }
    }

    /// The picture at an address, for a world that belongs to a service key.
    /// Errors: [`FetchError`].
    pub(super) async fn fetch(&self, url: &Url, owner: &KeyId) -> Result<Bytes, FetchError> {
        let policy =
            Policy::for_attachments(vec![self.sources.keys.egress(owner), self.rules.clone()], self.networks.clone());
        let dialler = Dialler::new(policy, self.sources.lookups.clone(), self.connect_timeout);
        let fault = match timeout(self.timeout, self.follow(url.clone(), &dialler)).await {
            Ok(Ok(bytes)) => return Ok(bytes),
            Ok(Err(fault)) => fault,
            Err(_) => "no answer in time".into(),
        };
        // Without the address: the log names nobody.
        tracing::debug!(%fault, "an attachment could not be fetched");
        let host = url.host_str().unwrap_or_default().to_owned();
        Err(if fault.is::<TooLong>() {
            FetchError::TooLarge { host, limit: self.limit }
        } else {
            FetchError::NoPicture { host, within: self.timeout }
        })
    }

    async fn follow(&self, mut url: Url, dialler: &Dialler) -> Result<Bytes, Cause> {
        for _ in 0..=MAX_REDIRECTS {
            let response = self.ask(&url, dialler).await?;
            let status = response.status();
            if status.is_redirection() {
                let next = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
                let next = next.and_then(|next| url.join(next).ok());
                let next = next.filter(|next| matches!(next.scheme(), "http" | "https"));
                url = next.ok_or("it redirects to no place")?;
                continue;
            }
            if !status.is_success() {
                return Err("its status is not a success".into());
            }
            let bytes = self.read(response).await?;
            // What does not begin as a picture says nothing more than what does not answer.
            let format = image::guess_format(&bytes);
            if !matches!(format, Ok(ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::WebP)) {
                return Err("it is not a picture".into());
            }
            return Ok(bytes);
        }
        Err("it redirects too often".into())
    }

    async fn read(&self, response: Response<Incoming>) -> Result<Bytes, Cause> {
        let mut body = response.into_body();
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                bytes.extend_from_slice(&data);
            }
            if bytes.len() as u64 > self.limit {
                return Err(TooLong.into());
            }
        }
        Ok(bytes.freeze())
    }

    async fn ask(&self, url: &Url, dialler: &Dialler) -> Result<Response<Incoming>, Cause> {
        let stream = self.connect(url, dialler).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = path.parse()?;
        let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
        request.headers_mut().insert(HOST, HeaderValue::from_str(authority)?);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("image/png, image/jpeg, image/webp"));
        Ok(sender.send_request(request).await?)
    }

    async fn connect(&self, url: &Url, dialler: &Dialler) -> Result<Box<dyn Stream>, Cause> {
        let host = url.host_str().and_then(address::host).ok_or("it has no host")?;
        let port = url.port_or_known_default().unwrap_or(80);
        let (stream, _) = dialler.connect(&host, port).await?;
        if url.scheme() == "http" {
            return Ok(Box::new(stream));
        }
        let name = match host {
            Host::Domain(name) => ServerName::try_from(name)?,
            Host::Ipv4(address) => ServerName::IpAddress(address.into()),
            Host::Ipv6(address) => ServerName::IpAddress(address.into()),
        };
        Ok(Box::new(TlsConnector::from(Arc::clone(&self.sources.tls)).connect(name, stream).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use std::net::{Ipv4Addr, SocketAddr};

    use futures_util::FutureExt as _;
    use image::DynamicImage;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use warmpool_core::silent::SilentPeer;
    use warmpool_dial::{Resolver, ResolverLimits};
    use warmpool_store::Store;

    /// A server that answers each connection with the next of these.
    async fn server(answers: Vec<Vec<u8>>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                let _ = stream.write_all(&answer).await;
            }
        });
        address
    }

    /// Fetches from loopback, as the operator allows, but for what these rules deny.
    async fn fetcher(networks: &[&str], allow: &[&str], deny: &[&str]) -> Fetcher {
        let rules = |rules: &[&str]| rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let minute = Duration::from_secs(60);
        let limits =
            ResolverLimits { at_once: 1, time: minute, max_ttl: Duration::ZERO, max_negative_ttl: Duration::ZERO };
        let known =
            |name: &str| Some(if name == "here.example" { vec![Ipv4Addr::LOCALHOST.into()] } else { Vec::new() });
        let lookups = Resolver::with(limits, known).share();
        Fetcher {
            sources: AttachmentSources {
                keys: Keys::load(Store::memory()).await.unwrap(),
                lookups,
                tls: warmpool_core::tls::client_config().unwrap(),
            },
            rules: EgressRules { allow: rules(allow), deny: rules(deny), ..EgressRules::default() },
            networks: networks.iter().map(|network| network.parse().unwrap()).collect(),
            connect_timeout: minute,
            limit: 1000,
            timeout: minute,
        }
    }

    async fn fetch(fetcher: &Fetcher, url: &str) -> Result<Bytes, FetchError> {
        fetcher.fetch(&Url::parse(url).unwrap(), &"0123456789ab".parse().unwrap()).await
    }

    fn ok(body: &[u8]) -> Vec<u8> {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    }

    fn picture() -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        DynamicImage::new_rgb8(2, 2).write_to(&mut bytes, ImageFormat::Png).unwrap();
        bytes.into_inner()
    }

    #[tokio::test]
    async fn what_may_not_be_reached_is_not_reached_by_any_name() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // What pages may reach is not meant for attachments, and what pages may not reach is not meant for them either.
        let pages = fetcher(&[], &["127.0.0.0/8", "here.example", "*"], &[]).await;
        let denied = fetcher(&["127.0.0.0/8", "::1/128"], &[], &["127.0.0.1"]).await;
        let named = fetcher(&["127.0.0.0/8"], &[], &["here.example"]).await;
        for host in ["127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "here.example", "here.example."] {
            for fetcher in [&pages, &denied, &named] {
                if std::ptr::eq(fetcher, &named) && !host.starts_with("here") {
                    continue;
                }
                let error = fetch(fetcher, &format!("http://{host}:{port}/")).await.unwrap_err();
                assert!(matches!(error, FetchError::NoPicture { .. }), "{host}: {error:?}");
            }
        }
        assert!(listener.accept().now_or_never().is_none(), "somebody connected");
    }

    #[tokio::test]
    async fn a_redirect_to_a_private_address_is_refused() {
        let listener = TcpListener::bind("127.0.0.2:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        let redirect = format!("HTTP/1.1 302 Found\r\nlocation: http://{there}/latest\r\ncontent-length: 0\r\n\r\n");
        let address = server(vec![redirect.into_bytes()]).await;
        let fetcher = fetcher(&["127.0.0.1/32"], &[], &[]).await;
        let error = fetch(&fetcher, &format!("http://{address}/")).await;
        assert!(matches!(error, Err(FetchError::NoPicture { host, .. }) if host == "127.0.0.1"));
        assert!(listener.accept().now_or_never().is_none(), "somebody connected");
    }

    #[tokio::test]
    async fn answers_do_not_tell_what_is_there() {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let speaks = server(vec![
            b"SSH-2.0-OpenSSH\r\n".to_vec(),
            b"HTTP/1.1 404 Gone\r\ncontent-length: 0\r\n\r\n".to_vec(),
            ok(b"no picture"),
            b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n".to_vec(),
        ])
        .await;
        let fetcher = fetcher(&["127.0.0.1/32"], &[], &[]).await;
        let mut said = Vec::new();
        for url in [
            format!("http://{closed}/"),
            format!("http://{speaks}/"),
            format!("http://{speaks}/"),
            format!("http://{speaks}/"),
            format!("http://{speaks}/"),
            format!("https://{closed}/"),
            "http://127.0.0.3/".to_owned(),
            "http://nowhere.example/".to_owned(),
            "http://nowhere.example../".to_owned(),
        ] {
            let error = fetch(&fetcher, &url).await.unwrap_err();
            let host = Url::parse(&url).unwrap().host_str().unwrap().to_owned();
            said.push(error.to_string().replace(&host, "HOST"));
        }
        said.dedup();
        assert_eq!(said.len(), 1, "{said:#?}");
        assert!(said[0].contains("`world.attachment_networks`") && said[0].contains("`data`"), "{said:?}");
    }

    #[tokio::test]
    async fn what_is_allowed_is_fetched_within_limits() {
        let away = b"HTTP/1.1 301 Moved\r\nlocation: /there\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec();
        let address = server(vec![away, ok(&picture()), ok(&[b'x'; 1001])]).await;
        let fetcher = fetcher(&["127.0.0.0/8"], &[], &[]).await;
        let url = format!("http://here.example:{}/a?b=c", address.port());
        assert_eq!(fetch(&fetcher, &url).await.unwrap(), picture());
        assert!(matches!(fetch(&fetcher, &url).await, Err(FetchError::TooLarge { limit: 1000, .. })));
    }

    #[tokio::test]
    async fn a_server_that_never_answers_is_given_up() {
        let fetcher = Fetcher { timeout: Duration::from_millis(300), ..fetcher(&["127.0.0.0/8"], &[], &[]).await };
        for (scheme, beginning) in [
            ("http", &b""[..]),
            ("http", b"HTTP/1.1 200 OK\r\ncontent-le"),
            ("http", b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n\x89PNG\r\n"),
            ("http", b"HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n"),
            ("https", b""),
        ] {
            let mut silent = SilentPeer::after(beginning).await.unwrap();
            let url = format!("{scheme}://{}/picture.png", silent.address);
            let fetched = timeout(Duration::from_secs(60), fetch(&fetcher, &url)).await.expect("it ends");
            assert!(matches!(fetched, Err(FetchError::NoPicture { .. })), "{scheme}, {beginning:?}: {fetched:?}");
            silent.is_left().await.unwrap_or_else(|error| panic!("{scheme}, {beginning:?}: {error}"));
        }
    }
}
