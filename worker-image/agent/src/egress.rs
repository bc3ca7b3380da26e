//! The browser's only way out: a port on loopback, each connection to which the daemon takes over.
//!
//! The worker's network leads nowhere. The daemon keeps a few idle tunnels to the agent open; a connection of the browser
//! gets one of them, and from then on its bytes are the daemon's affair: which proxy protocol they are, and where to.
//! Further ports lead to one site each, for a browser that does not name it to the daemon itself.

use std::future::Future;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::io::{AsyncWriteExt as _, BufReader, copy, copy_buf, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{sleep, timeout};
use tokio_util::either::Either;
use warmpool_protocol::{EGRESS_PORT, EGRESS_PROTOCOL};

use crate::body::Body;
use crate::error::ApiError;
use crate::listener::Connection;
use crate::socks::{self, Site};
use crate::tunnel::{bare, switch};

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
        Self { add, idle: Mutex::new(idle) }
    }

    /// Carries a connection to wherever the browser asks the daemon for.
    async fn carry_anywhere(&self, browser: TcpStream) {
        if let Ok(tunnel) = timeout(HOLD, self.tunnel()).await {
            carry(browser, tunnel).await;
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
    pub(crate) fn open(self: &Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, ApiError> {
        let egress = Arc::clone(self);
        switch(request, EGRESS_PROTOCOL, async move |daemon| {
            if let Ok((tunnel, _)) = bare(daemon) {
                egress.add_tunnel(tunnel);
            }
        })
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

/// Carries bytes both ways. What the browser still sends when the daemon takes no more is read and dropped: closing its
/// connection at once could take back an answer that the browser has not read yet. The daemon hears of the browser's end however it
/// comes, since only the daemon knows when to leave a silent site.
pub(crate) async fn carry(mut browser: TcpStream, tunnel: Connection) {
    let _ = browser.set_nodelay(true);
    let (mut from_browser, mut to_browser) = browser.split();
    let (mut from_tunnel, mut to_tunnel) = tokio::io::split(tunnel);
    let up = async {
        let mut input = BufReader::with_capacity(UP_BUFFER, &mut from_browser);
        if copy_buf(&mut input, &mut to_tunnel).await.is_err() {
            let _ = copy(&mut input, &mut sink()).await;
        }
        let _ = to_tunnel.shutdown().await;
    };
    let down = async {
        let mut input = BufReader::with_capacity(DOWN_BUFFER, &mut from_tunnel);
        let _ = copy_buf(&mut input, &mut to_browser).await;
        let _ = to_browser.shutdown().await;
    };
    tokio::join!(up, down);
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio::net::UnixStream;

    use super::*;

    /// A browser's connection, the daemon's end of the tunnel, and what carries bytes between them.
    async fn carried() -> (TcpStream, UnixStream, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let browser = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let (tunnel, daemon) = UnixStream::pair().unwrap();
        (browser, daemon, tokio::spawn(carry(accepted, Either::Left(tunnel))))
    }

    #[tokio::test]
    async fn the_daemon_hears_of_a_browser_that_closes_and_of_one_that_breaks_off() {
        for breaks_off in [false, true] {
            let (browser, mut daemon, carrying) = carried().await;
            if breaks_off {
                // The kernel resets a connection that is closed before everything was read.
                daemon.write_all(b"unread").await.unwrap();
                browser.readable().await.unwrap();
            }
            drop(browser);
            let end = timeout(Duration::from_secs(60), daemon.read(&mut [0])).await.expect("the daemon hears of it");
            assert_eq!(end.unwrap(), 0);
            drop(daemon);
            carrying.await.unwrap();
        }
    }
}
