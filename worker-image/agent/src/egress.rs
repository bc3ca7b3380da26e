//! The browser's only way out: a port on loopback, each connection to which the daemon takes over.
//!
//! The worker's network leads nowhere. The daemon keeps a few idle tunnels to the agent open; a connection of the browser
//! gets one of them, and from then on its bytes are the daemon's affair: which proxy protocol they are, and where to.
//! Further ports lead to one site each, for a browser that does not name it to the daemon itself.

use std::future::Future;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue, UPGRADE};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader, copy, copy_buf, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{sleep, timeout};
use tokio_util::either::Either;
use warmpool_protocol::{EGRESS_PORT, EGRESS_PROTOCOL};

use crate::body::{Body, empty};
use crate::error::ApiError;
use crate::listener::Connection;
use crate::net_errors::NetErrors;
use crate::remote_addresses::RemoteAddresses;
use crate::socks::{self, Site};
use crate::tunnel::{bare, wants};

/// How long a connection waits for a tunnel: the daemon may be restarting.
const HOLD: Duration = Duration::from_secs(30);
/// Idle tunnels at most. A daemon keeps far fewer.
const MAX_IDLE: usize = 64;
/// Bytes held at most of what the browser sends, and of what it gets.
const UP_BUFFER: usize = 64 << 10;
const DOWN_BUFFER: usize = 256 << 10;
/// Pause after a failure to accept, which means that descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The tunnels that wait for a connection of the browser.
pub(crate) struct Egress {
    /// What came of connections that failed.
    pub(crate) errors: Arc<NetErrors>,
    /// Where the others lead.
    pub(crate) addresses: Arc<RemoteAddresses>,
    add: mpsc::Sender<Connection>,
    idle: Mutex<mpsc::Receiver<Connection>>,
}

impl Egress {
    /// Listens for the browser, before it starts.
    /// Errors: when something else has the port.
    pub(crate) async fn listen() -> io::Result<Arc<Self>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, EGRESS_PORT)).await?;
        let egress = Arc::new(Self::new());
        let carrier = Arc::clone(&egress);
        tokio::spawn(serve(listener, move |browser| {
            let egress = Arc::clone(&carrier);
            async move { egress.carry_anywhere(browser).await }
        }));
        Ok(egress)
    }

    /// One that serves nobody yet.
    pub(crate) fn new() -> Self {
        let (add, idle) = mpsc::channel(MAX_IDLE);
        Self { errors: Arc::default(), addresses: Arc::default(), add, idle: Mutex::new(idle) }
    }

    /// Carries a connection to wherever the browser asks the daemon for.
    async fn carry_anywhere(&self, browser: TcpStream) {
        if let Ok(tunnel) = timeout(HOLD, self.tunnel()).await {
            carry_heard(browser, tunnel, Some(Listener { egress: self, asked: OnceLock::new() })).await;
        }
    }

    /// Opens a loopback port that leads to this site alone, as long as the agent runs.
    /// Errors: when there is no port left.
    pub(crate) async fn open_port(self: &Arc<Self>, site: Site) -> io::Result<u16> {
        let (egress, site) = (Arc::clone(self), Arc::new(site));
        open_port(move |browser| {
            let (egress, site) = (Arc::clone(&egress), Arc::clone(&site));
            async move {
                match egress.connect(&site).await {
                    Ok(tunnel) => carry(browser, tunnel).await,
                    Err(error) => tracing::debug!(%error, "a proxy of a browser context cannot be reached"),
                }
            }
        })
        .await
    }

    /// Connects to a site that the browser does not name to the daemon itself.
    /// Errors: when the daemon does not, or is not there.
    pub(crate) async fn connect(&self, site: &Site) -> io::Result<Connection> {
        let mut tunnel = timeout(HOLD, self.tunnel()).await?;
        socks::connect(&mut tunnel, site).await?;
        Ok(tunnel)
    }

    /// One more tunnel waits; too many are closed.
    pub(crate) fn add_tunnel(&self, tunnel: Connection) {
        let _ = self.add.try_send(tunnel);
    }

    /// Waits for a tunnel whose daemon is there. Those who wait get theirs in the order in which they came.
    async fn tunnel(&self) -> Connection {
        let mut idle = self.idle.lock().await;
        loop {
            match idle.recv().await {
                Some(tunnel) if is_open(&tunnel) => return tunnel,
                Some(_) => {}
                // The sender is a field of `self`.
                None => std::future::pending().await,
            }
        }
    }

    /// `GET /egress`: a tunnel, by an upgrade.
    pub(crate) fn open(self: &Arc<Self>, mut request: Request<Incoming>) -> Result<Response<Body>, ApiError> {
        if !wants(&request, EGRESS_PROTOCOL) {
            let message = "this path carries the browser's connections, after an upgrade";
            return Err(ApiError::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message));
        }
        let (daemon, egress) = (hyper::upgrade::on(&mut request), Arc::clone(self));
        tokio::spawn(async move {
            if let Ok(Ok((tunnel, _))) = daemon.await.map(bare::<Connection>) {
                egress.add_tunnel(tunnel);
            }
        });
        let mut response = Response::new(empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        response.headers_mut().insert(UPGRADE, HeaderValue::from_static(EGRESS_PROTOCOL));
        Ok(response)
    }
}

/// Opens a loopback port whose connections are carried like this, as long as the agent runs.
/// Errors: when there is no port left.
pub(crate) async fn open_port<F>(carry: impl Fn(TcpStream) -> F + Send + 'static) -> io::Result<u16>
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(serve(listener, carry));
    Ok(port)
}

/// Accepts connections of the browser. Closing one is an error that every browser shows.
async fn serve<F: Future<Output = ()> + Send + 'static>(listener: TcpListener, carry: impl Fn(TcpStream) -> F) {
    loop {
        match listener.accept().await {
            Ok((browser, _)) => drop(tokio::spawn(carry(browser))),
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Whether the daemon still holds its end. It sends nothing before the browser does.
fn is_open(tunnel: &Connection) -> bool {
    let mut byte = [0];
    let read = match tunnel {
        Either::Left(stream) => stream.try_read(&mut byte),
        Either::Right(stream) => stream.try_read(&mut byte),
    };
    matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// Carries bytes both ways.
pub(crate) async fn carry(browser: TcpStream, tunnel: Connection) {
    carry_heard(browser, tunnel, None).await;
}

/// Carries bytes both ways. What the browser still sends when the daemon takes no more is read and dropped: closing its
/// connection at once could take back an answer that the browser has not read yet. The listener hears what the browser asks
/// the daemon for, and the daemon's answer.
async fn carry_heard(mut browser: TcpStream, tunnel: Connection, listener: Option<Listener<'_>>) {
    let _ = browser.set_nodelay(true);
    let (mut from_browser, mut to_browser) = browser.split();
    let (mut from_tunnel, mut to_tunnel) = tokio::io::split(tunnel);
    let up = async {
        let mut input = BufReader::with_capacity(UP_BUFFER, &mut from_browser);
        let asked = match &listener {
            Some(listener) => listener.request(&mut input, &mut to_tunnel).await,
            None => Ok(()),
        };
        if asked.is_ok() && copy_buf(&mut input, &mut to_tunnel).await.is_ok() {
            let _ = to_tunnel.shutdown().await;
        }
        let _ = copy(&mut input, &mut sink()).await;
    };
    let down = async {
        let mut input = BufReader::with_capacity(DOWN_BUFFER, &mut from_tunnel);
        let answered = match &listener {
            Some(listener) => listener.answer(&mut input, &mut to_browser).await,
            None => Ok(()),
        };
        if answered.is_ok() {
            let _ = copy_buf(&mut input, &mut to_browser).await;
        }
        let _ = to_browser.shutdown().await;
    };
    tokio::join!(up, down);
}

/// Hears the beginning of one connection, which it passes on. The daemon and the browser each wait for the other twice: at
/// their greetings, and at the request and its answer.
struct Listener<'a> {
    egress: &'a Egress,
    asked: OnceLock<Site>,
}

impl Listener<'_> {
    /// Passes the browser's SOCKS request on, and notes the site.
    async fn request<R, W>(&self, input: &mut R, to_tunnel: &mut W) -> io::Result<()>
    where
        R: AsyncBufRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        for is_greeting in [true, false] {
            let message = taken(input).await?;
            to_tunnel.write_all(&message).await?;
            if message.first() != Some(&socks::VERSION) {
                break;
            }
            if let (false, Some(site)) = (is_greeting, socks::requested(&message)) {
                let _ = self.asked.set(site);
            }
        }
        Ok(())
    }

    /// Passes the daemon's answer to it on, and notes what it says.
    async fn answer<R, W>(&self, input: &mut R, to_browser: &mut W) -> io::Result<()>
    where
        R: AsyncBufRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        for is_greeting in [true, false] {
            let mut message = taken(input).await?;
            let is_socks = message.first() == Some(&socks::VERSION);
            if is_socks && !is_greeting {
                self.note(&mut message);
            }
            to_browser.write_all(&message).await?;
            if !is_socks {
                break;
            }
        }
        Ok(())
    }

    fn note(&self, answer: &mut [u8]) {
        if let Some(code @ 1..) = answer.get_mut(1) {
            *code = self.egress.errors.note(self.asked.get().map(|site| site.host.as_str()), *code);
        } else if let (Some(site), Some(address)) = (self.asked.get(), socks::connected_to(answer)) {
            self.egress.addresses.note(site, address);
        }
    }
}

/// What has come, once something has.
async fn taken<R: AsyncBufRead + Unpin>(input: &mut R) -> io::Result<Vec<u8>> {
    let message = input.fill_buf().await?.to_vec();
    input.consume(message.len());
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn passed(answers: &[&[u8]]) -> Vec<u8> {
        let (mut to_agent, from_daemon) = tokio::io::duplex(1 << 10);
        let mut input = BufReader::new(from_daemon);
        let egress = Egress::new();
        let (listener, mut seen) = (Listener { egress: &egress, asked: OnceLock::new() }, Vec::new());
        let sending = async {
            for answer in answers {
                to_agent.write_all(answer).await.unwrap();
                tokio::task::yield_now().await;
            }
            drop(to_agent);
        };
        let passing = async {
            listener.answer(&mut input, &mut seen).await.unwrap();
            copy_buf(&mut input, &mut seen).await.unwrap();
        };
        tokio::join!(sending, passing);
        seen
    }

    #[tokio::test]
    async fn browsers_get_codes_of_the_standard() {
        assert_eq!(passed(&[b"\x05\0", b"\x05\xf0\0\x01\0\0\0\0\0\0"]).await, b"\x05\0\x05\x04\0\x01\0\0\0\0\0\0");
        assert_eq!(passed(&[b"\x05\0", b"\x05\x05\0\x01\0\0\0\0\0\0"]).await, b"\x05\0\x05\x05\0\x01\0\0\0\0\0\0");
    }

    #[tokio::test]
    async fn the_address_of_a_site_is_noted() {
        let egress = Egress::new();
        let site = Site { host: "a.x".to_owned(), port: 80 };
        for (answer, expected) in
            [(&b"\x05\0\0\x01\0\0\0\0\0\0"[..], None), (b"\x05\0\0\x01\x0a\0\0\x07\x1f\x90", Some("10.0.0.7:8080"))]
        {
            let listener = Listener { egress: &egress, asked: OnceLock::new() };
            let (mut browser, from_browser) = tokio::io::duplex(1 << 10);
            let (mut from_browser, mut sent) = (BufReader::new(from_browser), Vec::new());
            let sending = async {
                for message in [&b"\x05\x01\0"[..], b"\x05\x01\0\x03\x03a.x\0\x50"] {
                    browser.write_all(message).await.unwrap();
                    tokio::task::yield_now().await;
                }
            };
            tokio::join!(sending, async { listener.request(&mut from_browser, &mut sent).await.unwrap() });
            assert_eq!(sent, b"\x05\x01\0\x05\x01\0\x03\x03a.x\0\x50");
            listener.note(&mut answer.to_vec());
            assert_eq!(egress.addresses.of(&site).map(|address| address.to_string()).as_deref(), expected);
        }
    }

    #[tokio::test]
    async fn everything_else_passes_as_it_is() {
        for answers in [
            &[&b"\x05\0"[..], b"\x05\0\0\x01\0\0\0\0\0\0", b"\x05\xf0"][..],
            &[b"HTTP/1.1 200 OK\r\n\r\n", b"\x05\xf0"],
            &[b"\x05"],
            &[],
        ] {
            assert_eq!(passed(answers).await, answers.concat());
        }
    }
}
