//! Accepting connections: plain or TLS, with limits on how many there are, in all and of one address, on how slowly a
//! head may come, and on how long a client may take nothing of its answers.

use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use http::StatusCode;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use metrics::Counter;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tower::ServiceExt as _;

use super::addresses::{Addresses, ConnectionPermit};
use super::peer::Peer;
use super::reply;
use super::request_target::single_slash;
use super::stall::{Flow, StallGuard};
use crate::dropin::hosted::served_path;
use crate::http::error::Error;
use warmpool_config::Config;
use warmpool_core::accept;
use warmpool_core::drain::{Drain, Phase};
use warmpool_core::tcp::TcpTimeouts;
use warmpool_core::tls::Tls;
use warmpool_heads::{AnswerBody, HeadGuard, HeadLimits};

/// The most headers a request may have.
const MAX_HEADERS: usize = 128;
/// The classes of an answer's status.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Between two lines of the log about one limit.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// A bound socket, and how connections on it are spoken to.
pub(crate) struct Listener {
    pub socket: TcpListener,
    /// The certificate, where the daemon speaks TLS itself.
    pub tls: Option<Arc<Tls>>,
}

impl Listener {
    /// The scheme of its URLs.
    #[must_use]
    pub(crate) const fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

/// Counts answers by the class of their status.
#[derive(Clone)]
struct Answers(Arc<[Counter; CLASSES.len()]>);

impl Answers {
    /// Looks the counters up, once for all.
    fn new() -> Self {
        Self(Arc::new(CLASSES.map(|class| metrics::counter!("warmpool_http_responses_total", "class" => class))))
    }

    fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1).min(CLASSES.len() - 1);
        self.0[class].increment(1);
    }
}

/// What a connection takes of the limits, given back when it is dropped.
struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_address: ConnectionPermit,
}

/// When the log last heard of a limit.
#[derive(Default)]
struct LastTold(Option<Instant>);

impl LastTold {
    /// Whether it is time to tell again, which then counts as told.
    fn is_due(&mut self) -> bool {
        let is_due = self.0.is_none_or(|told| told.elapsed() >= TOLD_EVERY);
        if is_due {
            self.0 = Some(Instant::now());
        }
        is_due
    }
}

/// Serves `router` until the daemon stops.
pub(crate) async fn serve(listener: &Listener, router: &Router, config: &Arc<Config>, drain: &Drain) {
    let places = Arc::new(Semaphore::new(config.server.max_connections));
    let (addresses, answers) = (Addresses::default(), Answers::new());
    let (mut told_of_all, mut told_of_one) = (LastTold::default(), LastTold::default());
    loop {
        if places.available_permits() == 0 && told_of_all.is_due() {
            let limit = config.server.max_connections;
            tracing::warn!(limit, "as many connections are open as server.max_connections allows: new ones wait");
        }
        let next = async {
            // Beyond the limit connections wait in the kernel's queue.
            let of_all = Arc::clone(&places).acquire_owned().await.ok()?;
            Some((of_all, accept::next(|| listener.socket.accept()).await))
        };
        let (of_all, (stream, address)) = tokio::select! {
            () = drain.reached(Phase::Stopped) => return,
            Some(next) = next => next,
            else => return,
        };
        // Behind a trusted proxy there are many clients.
        let limit = if config.trusts_proxy(address.ip()) { 0 } else { config.server.max_connections_per_address };
        let Some(of_address) = addresses.admit(address.ip(), limit) else {
            if told_of_one.is_due() {
                tracing::warn!(
                    address = %address.ip(),
                    limit,
                    "an address has as many connections open as server.max_connections_per_address allows, and gets no more: if it \
                     is a reverse proxy, name it in server.trusted_proxies"
                );
            }
            refuse(stream, listener.tls.is_some(), limit);
            continue;
        };
        let place = Place { _of_all: of_all, _of_address: of_address };
        let (router, answers, config, drain) = (router.clone(), answers.clone(), Arc::clone(config), drain.clone());
        let acceptor = listener.tls.as_ref().map(|tls| tls.acceptor());
        // Not tracked: a connection may be idle for ever, and what matters on it (sessions, tasks) is tracked itself.
        tokio::spawn(async move {
            let served = connection(stream, place, address, acceptor, router, answers, &config);
            tokio::select! {
                () = drain.reached(Phase::Stopped) => {}
                () = served => {}
            }
        });
    }
}

/// Says why, as far as that can be said without waiting; in TLS it cannot.
fn refuse(stream: TcpStream, tls: bool, limit: usize) {
    metrics::counter!("warmpool_connections_refused_total").increment(1);
    if !tls && let Ok(mut stream) = stream.into_std() {
        let _ = stream.write_all(&reply::raw_response(&Error::AddressLimit { limit }));
    }
}

async fn connection(
    stream: TcpStream,
    place: Place,
    address: SocketAddr,
    acceptor: Option<tokio_rustls::TlsAcceptor>,
    router: Router,
    answers: Answers,
    config: &Config,
) {
    let _ = stream.set_nodelay(true);
    let server = &config.server;
    let timeouts = TcpTimeouts { keepalive: server.tcp_keepalive, user_timeout: Some(server.tcp_user_timeout) };
    if let Err(error) = timeouts.apply(&stream) {
        tracing::debug!(%error, "TCP keep-alive could not be set for a connection");
    }
    // Below TLS, where it shows what the client's machine takes.
    let stream = StallGuard::new(stream, place, server.write_timeout, server.body_timeout);
    let flow = stream.flow();
    let peer = Peer { address, secure: acceptor.is_some() };
    match acceptor {
        None => http(stream, flow, peer, router, answers, config).await,
        Some(acceptor) => match timeout(server.header_timeout, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => http(stream, flow, peer, router, answers, config).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        },
    }
}

/// Before routing: see [`single_slash`] and [`served_path`].
fn mend_path(request: &mut Request) {
    let path = request.uri().path();
    let Some(path) = single_slash(path).or_else(|| served_path(request.headers(), path)) else { return };
    let query = request.uri().query().map_or_else(String::new, |query| format!("?{query}"));
    if let Ok(uri) = format!("{path}{query}").parse() {
        *request.uri_mut() = uri;
    }
}

async fn http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    flow: Arc<Flow>,
    peer: Peer,
    router: Router,
    answers: Answers,
    config: &Config,
) {
    let limits = HeadLimits { head: config.server.header_timeout, idle: Some(config.server.keep_alive_timeout) };
    let stream = HeadGuard::new(stream, limits).adding_path();
    let heads = stream.count();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        heads.came();
        let (router, answers, flow, heads) = (router.clone(), answers.clone(), Arc::clone(&flow), heads.clone());
        async move {
            flow.caught_up().await;
            let mut request: Request = request.map(axum::body::Body::new);
            request.extensions_mut().insert(peer);
            mend_path(&mut request);
            // A router's error is Infallible.
            let response = router.oneshot(request).await.unwrap_or_else(|never| match never {});
            answers.count(response.status());
            let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
            if switches {
                flow.hand_over();
            }
            Ok::<_, Infallible>(response.map(|body| AnswerBody::new(body, (!switches).then_some(heads))))
        }
    });
    let result = hyper::server::conn::http1::Builder::new()
        // `HeadGuard` has both limits.
        .header_read_timeout(None)
        .max_buf_size(config.server.max_header_bytes.as_usize())
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = result {
        tracing::trace!(%error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use axum::response::{IntoResponse as _, Response};
    use axum::routing::get;
    use http::header::{CONNECTION, UPGRADE};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use warmpool_config::{Flags, Host};

    const PLAIN: &str = "GET /plain HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    const SOCKET: &str = "GET /socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";

    /// Switches to a protocol that repeats each byte.
    async fn echo(mut request: Request) -> Response {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let (mut reader, mut writer) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
            let _ = tokio::io::copy(&mut reader, &mut writer).await;
        });
        (StatusCode::SWITCHING_PROTOCOLS, [(CONNECTION, "Upgrade"), (UPGRADE, "echo")]).into_response()
    }

    async fn serving(setting: &str) -> SocketAddr {
        let host = Host { memory: 16 << 30, cores: 8, root: true, ..Host::default() };
        let flags = Flags::default().with(setting, "1");
        let config = Arc::new(Config::resolve(None, [], &flags, &host).unwrap());
        let listener = Listener { socket: TcpListener::bind("127.0.0.1:0").await.unwrap(), tls: None };
        let address = listener.socket.local_addr().unwrap();
        let router = Router::new().route("/plain", get(async || "plain")).route("/socket", get(echo));
        tokio::spawn(async move { serve(&listener, &router, &config, &Drain::default()).await });
        address
    }

    /// A connection that has another protocol and has carried a byte of it, so hyper is done with it.
    async fn open_socket(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(SOCKET.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 101 "));
        stream.write_u8(7).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), 7);
        stream
    }

    async fn ask(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // A refusal may come before the request is out.
        let _ = stream.write_all(PLAIN.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn a_websocket_counts_among_those_of_its_address_until_it_is_closed() {
        let address = serving("server.max_connections_per_address").await;
        let socket = open_socket(address).await;
        let answer = ask(address).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 429 "), "{answer}");
        drop(socket);
        let served = async {
            while !ask(address).await.starts_with("HTTP/1.1 200 ") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(30), served).await.unwrap();
    }

    #[tokio::test]
    async fn a_websocket_counts_among_all_connections_until_it_is_closed() {
        let address = serving("server.max_connections").await;
        let socket = open_socket(address).await;
        let mut waiting = std::pin::pin!(ask(address));
        assert!(timeout(Duration::from_millis(300), &mut waiting).await.is_err(), "there was room for another");
        drop(socket);
        let answer = timeout(Duration::from_secs(30), waiting).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }

    /// How long a connection lasts after some requests and most of the time in which it may be idle, and its limits.
    async fn lasts(begins_another: bool) -> (Duration, (Duration, Duration)) {
        let host = Host { memory: 16 << 30, cores: 8, root: true, ..Host::default() };
        let config = Config::resolve(None, [], &Flags::default(), &host).unwrap();
        let (mut client, stream) = tokio::io::duplex(1 << 10);
        let peer = Peer { address: ([127, 0, 0, 1], 1).into(), secure: false };
        let late = async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            "plain"
        };
        let router = Router::new().route("/plain", get(async || "plain")).route("/late", get(late));
        let limits = (config.server.header_timeout, config.server.keep_alive_timeout);
        let server = tokio::spawn(async move {
            http(stream, Arc::default(), peer, router, Answers::new(), &config).await;
        });
        for path in ["/plain", "/late", "/plain", "/late"] {
            let request = PLAIN.replace("Connection: close\r\n", "").replace("/plain", path);
            client.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            // Its type ends with the same word.
            while !answer.ends_with(b"\r\n\r\nplain") {
                answer.push(client.read_u8().await.unwrap());
            }
            tokio::time::sleep(limits.1.mul_f64(0.9)).await;
        }
        if begins_another {
            client.write_all(b"GET ").await.unwrap();
        }
        let waited = tokio::time::Instant::now();
        server.await.unwrap();
        (waited.elapsed(), limits)
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_outlasts_the_time_of_a_head() {
        let (lasted, (head, _)) = lasts(true).await;
        assert_eq!(lasted, head, "a head that begins must end");
        let (lasted, (_, idle)) = lasts(false).await;
        assert!(lasted.abs_diff(idle.mul_f64(0.1)) < Duration::from_millis(10), "{lasted:?}");
    }

    #[test]
    fn the_log_hears_of_a_limit_now_and_then() {
        let mut told = LastTold::default();
        assert!(told.is_due() && !told.is_due());
    }
}
