//! Proxies that carry sessions: HTTP, the same over TLS, and SOCKS version 5.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::docker::host_address;

/// The protocol of a proxy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
    /// SOCKS version 5.
    Socks5,
}

/// A running proxy that records its requests; it stops when this is dropped.
pub struct Upstream {
    scheme: Scheme,
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    server: JoinHandle<()>,
    certificate: Option<(TempDir, PathBuf)>,
}

impl Upstream {
    /// Starts one that accepts this password; one over SOCKS asks for none if it is empty.
    pub async fn start(scheme: Scheme, password: &'static str) -> Result<Self> {
        let listener = TcpListener::bind((host_address(), 0)).await?;
        let address = listener.local_addr()?;
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let (acceptor, certificate) = match scheme {
            Scheme::Https => {
                let (acceptor, folder, file) = acceptor()?;
                (Some(acceptor), Some((folder, file)))
            }
            Scheme::Http | Scheme::Socks5 => (None, None),
        };
        let server = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, acceptor) = (Arc::clone(&seen), acceptor.clone());
                // Its connections end with it.
                open.spawn(async move {
                    match (scheme, acceptor) {
                        (Scheme::Socks5, _) => socks(stream, password, &seen).await,
                        (_, Some(acceptor)) => connect(acceptor.accept(stream).await?, password, &seen).await,
                        (_, None) => connect(stream, password, &seen).await,
                    }
                });
            }
        });
        Ok(Self { scheme, address, asked, server, certificate })
    }

    /// Its address, without a scheme.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address as `egress.upstreams` takes it.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Socks5 => "socks5",
        };
        format!("{scheme}://{}", self.address)
    }

    /// What it was asked for: `host:port user:password`, or a whole address in place of `host:port`.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }

    /// The file of its self-signed certificate.
    #[must_use]
    pub fn certificate(&self) -> Option<&Path> {
        self.certificate.as_ref().map(|(_, file)| file.as_path())
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn acceptor() -> Result<(TlsAcceptor, TempDir, PathBuf)> {
    let made = rcgen::generate_simple_self_signed([host_address().to_owned()])?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("certificate.pem");
    std::fs::write(&file, made.cert.pem())?;
    Ok((TlsAcceptor::from(Arc::new(config)), folder, file))
}

async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    mut client: S,
    password: &str,
    seen: &Mutex<Vec<String>>,
) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let target = head.split(' ').nth(1).context("a target")?;
    let pair = head.lines().find_map(|line| line.strip_prefix("Proxy-Authorization: Basic "));
    let pair = String::from_utf8(STANDARD.decode(pair.unwrap_or_default())?)?;
    seen.lock().push(format!("{target} {pair}"));
    if !pair.ends_with(&format!(":{password}")) {
        let refusal = "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=\"test\"\r\nContent-Length: 0\r\n\r\n";
        client.write_all(refusal.as_bytes()).await?;
        return Ok(client.shutdown().await?);
    }
    // A request in the clear has a whole address. It is passed on as it came, so its connection is for that site alone.
    let address = target.strip_prefix("http://").map(|rest| rest.split('/').next().unwrap_or(rest));
    let mut site = TcpStream::connect(address.unwrap_or(target)).await?;
    match address {
        Some(_) => site.write_all(head.as_bytes()).await?,
        None => client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?,
    }
    copy_bidirectional(&mut client, &mut site).await?;
    Ok(())
}

/// RFC 1928 with the user names of RFC 1929.
async fn socks(mut client: TcpStream, password: &str, seen: &Mutex<Vec<String>>) -> Result<()> {
    let text = async |client: &mut TcpStream| -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::from(client.read_u8().await?)];
        client.read_exact(&mut bytes).await?;
        Ok(bytes)
    };
    ensure!(client.read_u8().await? == 5);
    let methods = text(&mut client).await?;
    let (mut user, mut given) = (String::new(), String::new());
    if password.is_empty() {
        client.write_all(&[5, 0]).await?;
    } else {
        ensure!(methods.contains(&2), "no password is offered");
        client.write_all(&[5, 2]).await?;
        ensure!(client.read_u8().await? == 1);
        (user, given) = (String::from_utf8(text(&mut client).await?)?, String::from_utf8(text(&mut client).await?)?);
        let is_right = given == password;
        client.write_all(&[1, u8::from(!is_right)]).await?;
        ensure!(is_right, "the password is wrong");
    }
    let mut head = [0; 4];
    client.read_exact(&mut head).await?;
    let host = match head[3] {
        1 => {
            let mut octets = [0; 4];
            client.read_exact(&mut octets).await?;
            Ipv4Addr::from(octets).to_string()
        }
        _ => String::from_utf8(text(&mut client).await?)?,
    };
    let target = format!("{host}:{}", client.read_u16().await?);
    seen.lock().push(format!("{target} {user}:{given}"));
    let mut site = TcpStream::connect(target).await?;
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    copy_bidirectional(&mut client, &mut site).await?;
    Ok(())
}
