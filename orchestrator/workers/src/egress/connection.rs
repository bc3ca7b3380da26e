//! One connection of a browser: its destination, the decision on it, and its bytes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::either::Either;
use url::Host;

use super::proxy::{self, Proxy, ProxyError, Site};
use super::socks::{self, Reply, Target};
use super::traffic::Traffic;
use super::upstreams::Upstream;
use super::{NoConnection, Route, Shared, refusal};
use crate::worker::AgentStream;
use warmpool_core::buffer::BufferFit;
use warmpool_dial::DialError;

/// Time for the browser's SOCKS request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections to this port are encrypted from their first byte, so a refusal page would be unreadable.
const HTTPS: u16 = 443;
/// The least time without a byte after which a site is left whose browser sends no more. A browser that has closed its connection
/// looks like that, too, and a site that does not care would keep its place among `egress.max_connections`.
const SILENCE: Duration = Duration::from_secs(60);
/// Bytes buffered at most in each direction.
const UP_BUFFER: usize = 32 << 10;
const DOWN_BUFFER: usize = 128 << 10;
/// The buffer of a quiet direction, small because browsers keep dozens of connections each for minutes after their last use.
const LEAST_BUFFER: usize = 4 << 10;
/// The time without a byte after which a direction counts as quiet.
const QUIET: Duration = Duration::from_secs(1);

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
            Self::Dial(DialError::TimedOut | DialError::LookupTimedOut) => Reply::TimedOut,
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
                refusal::show(&mut tunnel, &shown, port, refused, || shared.outcomes.show(why)).await;
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
    let dialler = &shared.dialler;
    let direct = async || {
        let (stream, peer) = dialler.connect(host, port).await?;
        Ok((Either::Left(stream), Some(peer)))
    };
    loop {
        let route = shared.route.read().clone();
        let chosen = match route {
            Route::Direct => return direct().await,
            Route::Closed => return Err(ProxyError::Gone.into()),
            Route::Client(proxies) => {
                let Some(proxy) = proxies.proxy_for(host, port) else { return direct().await };
                dialler.judge_unresolved(host, port)?;
                let (stream, peer) = dialler.connect(&proxy.host, proxy.port).await?;
                return Ok((ask(shared, stream, proxy, host, port).await?, Some(peer)));
            }
            Route::Upstream { chosen: Some(chosen), .. } => chosen,
            Route::Upstream { chosen: None, .. } => {
                let none = |error| ProxyError::Unreachable(io::Error::other(error));
                shared.route.write().fail_over(None).map_err(none)?;
                continue;
            }
        };
        dialler.judge_unresolved(host, port)?;
        let proxy = &chosen.proxy;
        let failure = match shared.lookups.connect(&proxy.host, proxy.port, shared.connect_timeout).await {
            Ok(stream) => return Ok((ask(shared, stream, proxy, host, port).await?, None)),
            Err(error) => error,
        };
        if note_failure(&chosen.upstream, &failure) {
            // The next nearest upstream takes over. Nothing chooses one that is down, so this loop ends.
            shared.route.write().fail_over(Some(&chosen.upstream)).map_err(|_| unreachable_proxy(failure))?;
        } else {
            return Err(unreachable_proxy(failure).into());
        }
    }
}

/// Notes that an upstream gave no connection; returns whether it is down, for every session. The look-up of its name needs a place
/// of this session, whose pages may keep all of them: only the daemon's own checks say what a failed look-up means.
fn note_failure(upstream: &Upstream, failure: &DialError) -> bool {
    match failure {
        DialError::Refused(_) | DialError::UnknownHost | DialError::LookupTimedOut => {}
        DialError::Failed(_) | DialError::TimedOut => upstream.set_up(false),
    }
    !upstream.is_up.load(Ordering::Relaxed)
}

fn unreachable_proxy(failure: DialError) -> ProxyError {
    match failure {
        DialError::TimedOut | DialError::LookupTimedOut => ProxyError::Slow,
        failure => ProxyError::Unreachable(io::Error::other(failure)),
    }
}

/// Asks a connected proxy for the site.
async fn ask(shared: &Shared, stream: TcpStream, proxy: &Proxy, host: &Host, port: u16) -> Result<Site, ConnectError> {
    Ok(proxy::ask(stream, proxy, &shared.tls, (host, port), shared.connect_timeout).await?)
}

/// Copies bytes both ways until both sides have ended, or the site alone says no more.
async fn carry(shared: &Shared, tunnel: AgentStream, site: Site) {
    let (traffic, tunnel) = (&shared.traffic, tunnel.into_split());
    match site {
        Either::Left(stream) => carry_halves(traffic, tunnel, stream.into_split()).await,
        Either::Right(stream) => carry_halves(traffic, tunnel, tokio::io::split(stream)).await,
    }
}

async fn carry_halves(
    traffic: &Traffic,
    (mut from_browser, to_browser): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    (from_site, to_site): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
) {
    let takes_more = AtomicBool::new(true);
    let up = async {
        let count = |bytes| {
            traffic.sent.fetch_add(bytes, Ordering::Relaxed);
        };
        if pump(&mut from_browser, to_site, count, "out", UP_BUFFER).await.is_err() {
            // A site may answer and close before it has read a long request. Its answer must still reach the browser, so the
            // daemon reads and drops the rest of the request.
            takes_more.store(false, Ordering::Relaxed);
            let _ = tokio::io::copy(&mut from_browser, &mut tokio::io::sink()).await;
        }
    };
    let has_come = AtomicBool::new(false);
    let count = |bytes| {
        traffic.received.fetch_add(bytes, Ordering::Relaxed);
        has_come.store(true, Ordering::Relaxed);
    };
    let down = pump(from_site, to_browser, count, "in", DOWN_BUFFER);
    tokio::pin!(up, down);
    tokio::select! {
        () = &mut up => while timeout(SILENCE, &mut down).await.is_err() && has_come.swap(false, Ordering::Relaxed) {},
        answered = &mut down => {
            if answered.is_ok() && takes_more.load(Ordering::Relaxed) {
                up.await;
            }
        }
    }
}

/// Copies one direction, with a buffer of `most` bytes at most.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    count: impl Fn(u64),
    direction: &'static str,
    most: usize,
) -> io::Result<()> {
    let total = metrics::counter!("warmpool_egress_bytes_total", "direction" => direction);
    let (mut buffer, mut fit) = (vec![0; LEAST_BUFFER], BufferFit::between(LEAST_BUFFER, most));
    loop {
        let soon = if buffer.len() > LEAST_BUFFER { timeout(QUIET, from.read(&mut buffer)).await.ok() } else { None };
        let read = match soon {
            Some(read) => read?,
            None => {
                fit.rest(&mut buffer);
                from.read(&mut buffer).await?
            }
        };
        if read == 0 {
            return to.shutdown().await;
        }
        count(read as u64);
        total.increment(read as u64);
        to.write_all(&buffer[..read]).await?;
        fit.follow(&mut buffer, read, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Poll};

    use super::*;
    use parking_lot::RwLock;
    use tokio::io::{DuplexStream, ReadBuf, duplex, sink, split};
    use tokio::net::TcpListener;
    use tokio::sync::Semaphore;
    use tokio::time::sleep;
    use tokio_util::sync::CancellationToken;
    use warmpool_config::upstreams_from;
    use warmpool_core::browser::{Engine, Mode, PoolKey};
    use warmpool_core::ids::WorkerId;
    use warmpool_dial::{Dialler, Policy};
    use warmpool_protocol::Secret;
    use warmpool_runtime::{AgentAddress, WorkerLocation};

    use super::super::{EgressContext, Location, Upstreams, WantedRoute};
    use crate::worker::Worker;

    const DAY: Duration = Duration::from_secs(86_400);

    /// A browser and a site with a connection between them, and what carries it.
    fn carried() -> (DuplexStream, DuplexStream, impl Future<Output = ()>) {
        let ((browser, tunnel), (ours, site)) = (duplex(64), duplex(64));
        let carrying = async move { carry_halves(&Traffic::default(), split(tunnel), split(ours)).await };
        (browser, site, carrying)
    }

    #[tokio::test(start_paused = true)]
    async fn a_site_that_ignores_the_end_of_its_browser_is_left() {
        let (mut browser, site, carrying) = carried();
        browser.shutdown().await.unwrap();
        timeout(DAY, carrying).await.expect("it is left");
        drop(site);
    }

    #[tokio::test(start_paused = true)]
    async fn a_browser_that_sends_no_more_gets_what_still_comes() {
        let (mut browser, mut site, carrying) = carried();
        let carrying = tokio::spawn(carrying);
        browser.shutdown().await.unwrap();
        for _ in 0..10 {
            sleep(SILENCE - Duration::from_secs(1)).await;
            site.write_all(b"x").await.unwrap();
        }
        site.shutdown().await.unwrap();
        let mut got = Vec::new();
        browser.read_to_end(&mut got).await.unwrap();
        assert_eq!(got.len(), 10);
        carrying.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_both_sides_keep_may_be_silent() {
        let (mut browser, mut site, carrying) = carried();
        let carrying = tokio::spawn(carrying);
        sleep(DAY).await;
        site.write_all(b"x").await.unwrap();
        assert_eq!(browser.read_u8().await.unwrap(), b'x');
        drop((browser, site));
        carrying.await.unwrap();
    }

    /// A site, and how much room whoever reads from it has.
    struct Measured(DuplexStream, Arc<AtomicUsize>);

    impl AsyncRead for Measured {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            self.1.store(buf.remaining(), Ordering::Relaxed);
            Pin::new(&mut self.0).poll_read(cx, buf)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_buffer_is_as_large_as_its_traffic_wants() {
        let (mut site, ours) = duplex(DOWN_BUFFER);
        let room = Arc::new(AtomicUsize::new(0));
        let measured = Measured(ours, Arc::clone(&room));
        let pumping = tokio::spawn(async move { pump(measured, sink(), |_| {}, "in", DOWN_BUFFER).await });
        let settled = async || {
            sleep(Duration::from_millis(1)).await;
            room.load(Ordering::Relaxed)
        };
        assert_eq!(settled().await, LEAST_BUFFER, "nothing has come yet");
        for _ in 0..2 {
            site.write_all(&vec![b'x'; 2 * DOWN_BUFFER]).await.unwrap();
            assert_eq!(settled().await, DOWN_BUFFER, "a burst");
            sleep(QUIET).await;
            assert_eq!(settled().await, LEAST_BUFFER, "nothing more comes");
            site.write_all(b"x").await.unwrap();
            assert_eq!(settled().await, LEAST_BUFFER, "a byte needs no more");
        }
        drop(site);
        pumping.await.unwrap().unwrap();
    }

    #[test]
    fn a_failed_look_up_says_nothing_of_an_upstream() {
        let upstreams = Upstreams::new(&upstreams_from(r#"[{ name = "a", url = "http://p" }]"#));
        let [upstream] = &*upstreams.0 else { panic!("one") };
        for failure in [DialError::UnknownHost, DialError::LookupTimedOut] {
            assert!(!note_failure(upstream, &failure), "{failure:?}");
        }
        upstream.set_up(false);
        assert!(note_failure(upstream, &DialError::UnknownHost), "the daemon's own checks have found it down");
        for failure in [DialError::TimedOut, DialError::Failed(io::ErrorKind::ConnectionRefused.into())] {
            upstream.set_up(true);
            assert!(note_failure(upstream, &failure), "{failure:?}");
        }
    }

    #[tokio::test]
    async fn a_session_whose_upstream_was_down_at_its_begin_has_a_way_out_later() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut proxy, _) = listener.accept().await.unwrap();
            proxy.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello").await.unwrap();
            proxy.read_to_end(&mut Vec::new()).await.unwrap();
        });
        let mut context = EgressContext::nowhere();
        let tables = format!(r#"[{{ name = "a", url = "http://{address}" }}]"#);
        context.upstreams = Upstreams::new(&upstreams_from(&tables));
        let [upstream] = &*context.upstreams.0 else { panic!("one") };
        upstream.set_up(false);
        let key = PoolKey::plain(Engine::Chromium, Mode::Headless);
        let place = WorkerLocation { address: AgentAddress::Tcp(address), node: None };
        let (worker, _reports) = Worker::found(WorkerId::random(), key, place, &Secret::new(String::new()));
        let (lookups, limit) = (context.resolver.share(), Duration::from_secs(60));
        let shared = Shared {
            worker,
            dialler: Dialler::new(Policy::default(), lookups.clone(), limit),
            lookups,
            traffic: Traffic::default(),
            outcomes: Arc::default(),
            places: Arc::new(Semaphore::new(1)),
            route: RwLock::new(Route::new(&context, WantedRoute::Upstream(&Location::default(), "s"))),
            tls: Arc::clone(&context.tls),
            connect_timeout: limit,
            stop: CancellationToken::new(),
        };
        let site = Host::Domain("a.example".to_owned());
        let down = connect(&shared, &site, 80).await;
        assert!(matches!(down, Err(ConnectError::Proxy(ProxyError::Unreachable(_)))), "{down:?}");
        upstream.set_up(true);
        let (mut site, _) = connect(&shared, &site, 80).await.unwrap();
        let mut hello = [0; 5];
        site.read_exact(&mut hello).await.unwrap();
        assert_eq!(&hello, b"hello");
    }
}
