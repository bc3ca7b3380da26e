//! Accepting connections: plain or TLS, with a limit on how many and on how slowly a head may come.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower::ServiceExt as _;

use super::base::{Peer, single_slash};
use crate::accept;
use crate::config::Config;
use crate::drain::{Drain, Phase};
use crate::tls::Tls;

/// The most headers a request may have.
const MAX_HEADERS: usize = 128;

/// A bound socket, and how connections on it are spoken to.
pub struct Listener {
    /// The socket.
    pub socket: TcpListener,
    /// The certificate, where the daemon speaks TLS itself.
    pub tls: Option<Arc<Tls>>,
}

impl Listener {
    /// The scheme of its URLs.
    #[must_use]
    pub const fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

/// Serves `router` until the daemon stops.
pub async fn serve(listener: Listener, router: Router, config: Arc<Config>, drain: Drain) {
    let places = Arc::new(Semaphore::new(config.server.max_connections));
    loop {
        // Beyond the limit connections wait in the kernel's queue.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (stream, address) = tokio::select! {
            () = drain.reached(Phase::Stopped) => return,
            accepted = accept::next(|| listener.socket.accept()) => accepted,
        };
        let (router, config, drain) = (router.clone(), Arc::clone(&config), drain.clone());
        let acceptor = listener.tls.as_ref().map(|tls| tls.acceptor());
        // Not tracked: a connection may be idle for ever, and what matters on it (sessions, tasks) is tracked itself.
        tokio::spawn(async move {
            let _place = place;
            let served = connection(stream, address, acceptor, router, &config);
            tokio::select! {
                () = drain.reached(Phase::Stopped) => {}
                () = served => {}
            }
        });
    }
}

async fn connection(
    stream: TcpStream,
    address: SocketAddr,
    acceptor: Option<tokio_rustls::TlsAcceptor>,
    router: Router,
    config: &Config,
) {
    let _ = stream.set_nodelay(true);
    let peer = Peer { address, secure: acceptor.is_some() };
    match acceptor {
        None => http(stream, peer, router, config).await,
        Some(acceptor) => match timeout(config.server.header_timeout, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => http(stream, peer, router, config).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        },
    }
}

/// Before routing: see [`single_slash`].
fn mend_path(request: &mut Request) {
    let Some(path) = single_slash(request.uri().path()) else { return };
    let query = request.uri().query().map_or_else(String::new, |query| format!("?{query}"));
    if let Ok(uri) = format!("{path}{query}").parse() {
        *request.uri_mut() = uri;
    }
}

async fn http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
    config: &Config,
) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let router = router.clone();
        async move {
            let mut request: Request = request.map(axum::body::Body::new);
            request.extensions_mut().insert(peer);
            mend_path(&mut request);
            // A router's error is Infallible.
            let response = router.oneshot(request).await;
            Ok::<_, Infallible>(response.unwrap_or_else(|never| match never {}))
        }
    });
    let result = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(config.server.header_timeout)
        .max_buf_size(config.server.max_header_bytes.as_usize())
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = result {
        tracing::trace!(%error, "a connection ended early");
    }
}
