//! Accepting connections: plain or TLS, with limits on how many there are, in all and of one address, on how slowly a
//! head may come, and on how long a client may take nothing of its answers.

use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use http::StatusCode;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics::Counter;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower::ServiceExt as _;

use super::addresses::Addresses;
use super::peer::Peer;
use super::reply;
use super::request_target::{WithPath, single_slash};
use super::stall::{Flow, StallGuard};
use crate::dropin::hosted::served_path;
use crate::http::error::Error;
use warmpool_config::Config;
use warmpool_core::accept;
use warmpool_core::drain::{Drain, Phase};
use warmpool_core::tcp::TcpTimeouts;
use warmpool_core::tls::Tls;

/// The most headers a request may have.
const MAX_HEADERS: usize = 128;
/// The classes of an answer's status.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

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

/// Serves `router` until the daemon stops.
pub(crate) async fn serve(listener: &Listener, router: &Router, config: &Arc<Config>, drain: &Drain) {
    let places = Arc::new(Semaphore::new(config.server.max_connections));
    let (addresses, answers) = (Addresses::default(), Answers::new());
    loop {
        // Beyond the limit connections wait in the kernel's queue.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (stream, address) = tokio::select! {
            () = drain.reached(Phase::Stopped) => return,
            accepted = accept::next(|| listener.socket.accept()) => accepted,
        };
        // Behind a trusted proxy there are many clients.
        let limit = if config.trusts_proxy(address.ip()) { 0 } else { config.server.max_connections_per_address };
        let Some(seat) = addresses.admit(address.ip(), limit) else {
            refuse(stream, listener.tls.is_some(), limit);
            continue;
        };
        let (router, answers, config, drain) = (router.clone(), answers.clone(), Arc::clone(config), drain.clone());
        let acceptor = listener.tls.as_ref().map(|tls| tls.acceptor());
        // Not tracked: a connection may be idle for ever, and what matters on it (sessions, tasks) is tracked itself.
        tokio::spawn(async move {
            let _held = (place, seat);
            let served = connection(stream, address, acceptor, router, answers, &config);
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
    let stream = StallGuard::new(stream, server.write_timeout, server.body_timeout);
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
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (router, answers, flow) = (router.clone(), answers.clone(), Arc::clone(&flow));
        async move {
            flow.caught_up().await;
            let mut request: Request = request.map(axum::body::Body::new);
            request.extensions_mut().insert(peer);
            mend_path(&mut request);
            // A router's error is Infallible.
            let response = router.oneshot(request).await.unwrap_or_else(|never| match never {});
            answers.count(response.status());
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                flow.hand_over();
            }
            Ok::<_, Infallible>(response)
        }
    });
    let result = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(config.server.header_timeout)
        .max_buf_size(config.server.max_header_bytes.as_usize())
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(WithPath::new(stream)), service)
        .with_upgrades()
        .await;
    if let Err(error) = result {
        tracing::trace!(%error, "a connection ended early");
    }
}
