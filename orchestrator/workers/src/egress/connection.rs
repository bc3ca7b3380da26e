//! One connection of a browser: its destination, the decision on it, and its bytes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::either::Either;
use url::Host;

use super::proxy::{self, Proxy, ProxyError, Site};
use super::socks::{self, Reply, Target};
use super::{NoConnection, Route, Shared, refusal};
use crate::worker::AgentStream;
use warmpool_dial::DialError;

/// Time for the browser's SOCKS request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections to this port are encrypted from their first byte, so a refusal page would be unreadable.
const HTTPS: u16 = 443;
/// Bytes buffered at most in each direction.
const UP_BUFFER: usize = 32 << 10;
const DOWN_BUFFER: usize = 128 << 10;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error(transparent)]
    Proxy(#[from] ProxyError),
}

impl ConnectError {
    fn reply(&self) -> Reply {
        match self {
            Self::Dial(DialError::Refused(_)) => Reply::NotAllowed,
            Self::Dial(DialError::UnknownHost) => Reply::UnknownHost,
            Self::Dial(DialError::TimedOut) => Reply::TimedOut,
            Self::Dial(DialError::Failed(error)) => match error.kind() {
                io::ErrorKind::ConnectionRefused => Reply::ConnectionRefused,
                io::ErrorKind::NetworkUnreachable => Reply::NetworkUnreachable,
                io::ErrorKind::HostUnreachable => Reply::HostUnreachable,
                io::ErrorKind::TimedOut => Reply::TimedOut,
                _ => Reply::Failed,
            },
            Self::Proxy(_) => Reply::ProxyFailed,
        }
    }
}

/// The browser's request; none if it does not arrive in time.
pub(super) async fn greet(shared: &Shared, tunnel: &mut AgentStream, begun: BytesMut) -> Option<Target> {
    let refused = |name| shared.outcomes.failed_as(None, name);
    timeout(HANDSHAKE_TIMEOUT, socks::accept(tunnel, begun, refused)).await.ok()?.ok()
}

/// Serves a connection until it ends.
pub(super) async fn serve(shared: Arc<Shared>, mut tunnel: AgentStream, Target { host, port }: Target) {
    let shown = host.to_string();
    let Ok(_place) = Arc::clone(&shared.places).try_acquire_owned() else {
        record_refusal(&shared, &shown, port, "too_many_connections");
        shared.outcomes.failed_as(Some(&host), None);
        let _ = socks::answer(&mut tunnel, Reply::Failed).await;
        return;
    };
    match connect(&shared, &host, port).await {
        Ok((site, peer)) => {
            shared.outcomes.connected(&host, port, peer);
            // Agents of earlier releases tell clients the address.
            let answered = match peer {
                Some(peer) => socks::answer_connected(&mut tunnel, peer).await,
                None => socks::answer(&mut tunnel, Reply::Succeeded).await,
            };
            if answered.is_ok() {
                carry(&shared, tunnel, site).await;
            }
        }
        Err(ConnectError::Dial(DialError::Refused(refused))) => {
            record_refusal(&shared, &shown, port, refused.code());
            let why = NoConnection::refused(&shown, port, refused);
            if port == HTTPS {
                shared.outcomes.failed(&host, port, why);
                let _ = socks::answer(&mut tunnel, Reply::NotAllowed).await;
                return;
            }
            shared.outcomes.answered_instead(&host, port, why.clone());
            if socks::answer(&mut tunnel, Reply::Succeeded).await.is_ok() {
                refusal::show(&mut tunnel, &shown, port, refused.problem(), || shared.outcomes.show(why)).await;
            }
        }
        Err(error) => {
            let why = match &error {
                ConnectError::Proxy(proxy) => {
                    record_refusal(&shared, &shown, port, proxy.code());
                    NoConnection::by_proxy(proxy)
                }
                ConnectError::Dial(error) => NoConnection::unreachable(error),
            };
            shared.outcomes.failed(&host, port, why);
            tracing::debug!(worker = %shared.worker.id, port, %error, "a page's connection failed");
            let _ = socks::answer(&mut tunnel, error.reply()).await;
        }
    }
}

/// Counts a refusal and logs the first of its kind, without the page's address.
fn record_refusal(shared: &Shared, host: &str, port: u16, reason: &'static str) {
    if shared.traffic.refuse(host, port, reason) {
        tracing::info!(worker = %shared.worker.id, port, reason, "a page's connection was refused");
    }
}

/// Connects to a site by the session's route. Returns the address, too, that the connection leads to, which is a proxy's
/// where the client chose one; none where the operator did, whose proxies are no client's business.
async fn connect(shared: &Shared, host: &Host, port: u16) -> Result<(Site, Option<SocketAddr>), ConnectError> {
    let limit = shared.connect_timeout;
    let route = shared.route.read().clone();
    let dialler = &shared.dialler;
    let direct = async || {
        let (stream, peer) = dialler.connect(host, port).await?;
        Ok((Either::Left(stream), Some(peer)))
    };
    match route {
        Route::Direct => direct().await,
        Route::Closed => Err(ProxyError::Gone.into()),
        Route::Client(proxies) => {
            let Some(proxy) = proxies.proxy_for(host, port) else { return direct().await };
            dialler.judge_unresolved(host, port)?;
            let (stream, peer) = dialler.connect(&proxy.host, proxy.port).await?;
            Ok((ask(shared, stream, proxy, host, port).await?, Some(peer)))
        }
        Route::Upstream { mut chosen, wanted, upstreams, session } => {
            dialler.judge_unresolved(host, port)?;
            loop {
                let proxy = &chosen.proxy;
                let failure = match timeout(limit, shared.lookups.connect(&proxy.host, proxy.port, limit)).await {
                    Ok(Ok(stream)) => return Ok((ask(shared, stream, proxy, host, port).await?, None)),
                    Ok(Err(error)) => ProxyError::Unreachable(io::Error::other(error)),
                    Err(_) => ProxyError::Slow,
                };
                chosen.upstream.set_up(false);
                // The next nearest upstream takes over. Nothing chooses one that is down, so this loop ends.
                chosen = upstreams.choose(&wanted, &session).map_err(|_| failure)?;
                let (wanted, upstreams, session) = (wanted.clone(), upstreams.clone(), session.clone());
                *shared.route.write() = Route::Upstream { chosen: chosen.clone(), wanted, upstreams, session };
            }
        }
    }
}

/// Asks a connected proxy for the site.
async fn ask(shared: &Shared, stream: TcpStream, proxy: &Proxy, host: &Host, port: u16) -> Result<Site, ConnectError> {
    Ok(proxy::ask(stream, proxy, &shared.tls, (host, port), shared.connect_timeout).await?)
}

/// Copies bytes both ways until both sides have ended.
async fn carry(shared: &Shared, tunnel: AgentStream, site: Site) {
    match site {
        Either::Left(stream) => {
            let (from_site, to_site) = stream.into_split();
            carry_halves(shared, tunnel, from_site, to_site).await;
        }
        Either::Right(stream) => {
            let (from_site, to_site) = tokio::io::split(stream);
            carry_halves(shared, tunnel, from_site, to_site).await;
        }
    }
}

async fn carry_halves(
    shared: &Shared,
    tunnel: AgentStream,
    from_site: impl AsyncRead + Unpin,
    to_site: impl AsyncWrite + Unpin,
) {
    let (mut from_browser, to_browser) = tunnel.into_split();
    let traffic = &shared.traffic;
    let takes_more = AtomicBool::new(true);
    let up = async {
        if pump(&mut from_browser, to_site, &traffic.sent, "out", UP_BUFFER).await.is_err() {
            // A site may answer and close before it has read a long request. Its answer must still reach the browser, so the
            // daemon reads and drops the rest of the request.
            takes_more.store(false, Ordering::Relaxed);
            let _ = tokio::io::copy(&mut from_browser, &mut tokio::io::sink()).await;
        }
    };
    let down = pump(from_site, to_browser, &traffic.received, "in", DOWN_BUFFER);
    tokio::pin!(up, down);
    tokio::select! {
        () = &mut up => drop(down.await),
        answered = &mut down => {
            if answered.is_ok() && takes_more.load(Ordering::Relaxed) {
                up.await;
            }
        }
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    count: &AtomicU64,
    direction: &'static str,
    size: usize,
) -> io::Result<()> {
    let total = metrics::counter!("warmpool_egress_bytes_total", "direction" => direction);
    let mut buffer = vec![0; size];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        count.fetch_add(read as u64, Ordering::Relaxed);
        total.increment(read as u64);
        to.write_all(&buffer[..read]).await?;
    }
}
