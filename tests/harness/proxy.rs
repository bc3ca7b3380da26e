//! A reverse proxy as operators use one: it terminates TLS, serves the daemon below a path, and cuts silent connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// The longest head of a request, in bytes.
const MAX_HEAD: usize = 64 << 10;

/// A running proxy; it stops when this is dropped.
pub struct Proxy {
    url: String,
    way: Arc<Upstream>,
    server: tokio::task::JoinHandle<()>,
}

struct Upstream {
    prefix: &'static str,
    idle_limit: Duration,
    upstream: Mutex<String>,
    upgrades: AtomicUsize,
}

impl Proxy {
    /// Serves https on a free port, below `prefix`. A connection on which the daemon says nothing for `idle_limit` is cut.
    pub async fn start(prefix: &'static str, idle_limit: Duration) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
        let config =
            ServerConfig::builder().with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}{prefix}", listener.local_addr()?);
        let way = Arc::new(Upstream { prefix, idle_limit, upstream: Mutex::default(), upgrades: AtomicUsize::new(0) });
        let serving = Arc::clone(&way);
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, way) = (acceptor.clone(), Arc::clone(&serving));
                tokio::spawn(async move {
                    // A client may hang up at any time.
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = way.pass(stream).await;
                    }
                });
            }
        });
        Ok(Self { url, way, server })
    }

    /// The address that clients see.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Passes everything on to the daemon at this `http` address.
    pub fn leads_to(&self, url: &str) {
        let host = url.trim_start_matches("http://").to_owned();
        *self.way.upstream.lock() = host;
    }

    /// How many websockets have been opened.
    #[must_use]
    pub fn websockets(&self) -> usize {
        self.way.upgrades.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Upstream {
    /// One request and its connection, which closes afterwards unless it is a websocket.
    async fn pass(&self, mut client: impl AsyncRead + AsyncWrite + Unpin) -> Result<()> {
        let mut read = Vec::new();
        let end = loop {
            if let Some(at) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            anyhow::ensure!(read.len() < MAX_HEAD && client.read_buf(&mut read).await? > 0, "no request");
        };
        let head = String::from_utf8(read[..end].to_vec())?;
        let mut lines = head.split("\r\n");
        let first = lines.next().context("a request line")?;
        let (method, path) = first.split_once(' ').context("a method")?;
        let Some(path) = path.strip_prefix(self.prefix) else {
            client.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await?;
            return Ok(());
        };
        let is = |line: &str, name: &str| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        let upgrades = head.split("\r\n").any(|line| is(line, "upgrade:"));
        let kept = lines.filter(|line| upgrades || !is(line, "connection:"));
        let mut passed = kept.fold(format!("{method} {path}\r\n"), |head, line| head + line + "\r\n");
        passed += if upgrades { "\r\n" } else { "Connection: close\r\n\r\n" };
        if upgrades {
            self.upgrades.fetch_add(1, Ordering::Relaxed);
        }
        let host = self.upstream.lock().clone();
        let mut upstream = TcpStream::connect(host).await?;
        upstream.write_all(passed.as_bytes()).await?;
        upstream.write_all(&read[end + 4..]).await?;
        let (mut up, mut down) = ([0; 16 << 10], [0; 16 << 10]);
        let mut deadline = Instant::now() + self.idle_limit;
        loop {
            tokio::select! {
                count = client.read(&mut up) => match count? {
                    0 => return Ok(()),
                    count => upstream.write_all(&up[..count]).await?,
                },
                count = upstream.read(&mut down) => match count? {
                    0 => return Ok(client.shutdown().await?),
                    count => {
                        client.write_all(&down[..count]).await?;
                        deadline = Instant::now() + self.idle_limit;
                    }
                },
                () = sleep_until(deadline) => return Ok(()),
            }
        }
    }
}
