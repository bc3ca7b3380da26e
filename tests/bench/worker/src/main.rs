//! First process of a worker that has no browser. It speaks the agent's protocol, as far as a session with DevTools takes it,
//! and answers `Runtime.evaluate` with the expression itself.
//!
//! A browser takes 130 MB and a start of 0.7 s of a core; this takes 2 MB and next to nothing, so that what is left is what the
//! daemon, the engines and the network take.

mod devtools;

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::header::{
    AUTHORIZATION, CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use warmpool_protocol::{Claim, EGRESS_PROTOCOL, Identity, Launched, PORT, Snapshot, WorkerEvent, WorkerState};

/// Between two signs of life, as an agent gives them.
const BEAT: Duration = Duration::from_secs(5);
/// How long it waits for a daemon that claims it.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(60);

type Body = UnsyncBoxBody<Bytes, Infallible>;

struct Worker {
    claim: OnceLock<Claim>,
    state: watch::Sender<WorkerState>,
    /// Open streams of events.
    readers: watch::Sender<usize>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    let worker = Arc::new(Worker {
        claim: OnceLock::new(),
        state: watch::Sender::new(WorkerState::Starting),
        readers: watch::Sender::new(0),
    });
    tokio::select! {
        served = serve(listener, &worker) => served,
        _ = terminate.recv() => Ok(()),
        () = orphaned(&worker) => Ok(()),
    }
}

async fn serve(listener: TcpListener, worker: &Arc<Worker>) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let _ = stream.set_nodelay(true);
        let worker = Arc::clone(worker);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let worker = Arc::clone(&worker);
                async move { Ok::<_, Infallible>(answer(&worker, request).await) }
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades().await;
        });
    }
}

/// Returns when nobody has claimed the worker, or listened to it, for too long.
async fn orphaned(worker: &Worker) {
    let mut state = worker.state.subscribe();
    if timeout(CLAIM_TIMEOUT, state.wait_for(|state| *state != WorkerState::Starting)).await.is_err() {
        return;
    }
    let limit = worker.claim.get().map_or(CLAIM_TIMEOUT, Claim::orphan_timeout);
    let mut readers = worker.readers.subscribe();
    loop {
        let _ = readers.wait_for(|count| *count == 0).await;
        if timeout(limit, readers.wait_for(|count| *count > 0)).await.is_err() {
            return;
        }
    }
}

async fn answer(worker: &Arc<Worker>, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    if path == "/claim" {
        return claim(worker, request).await;
    }
    let authorization = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    if !worker.claim.get().is_some_and(|claim| claim.secret.opens(authorization)) {
        return refusal(StatusCode::UNAUTHORIZED);
    }
    match (request.method(), path.as_str()) {
        (&Method::GET, "/health") => json(&worker.snapshot()),
        (&Method::GET, "/events") => Response::new(events(worker)),
        (&Method::POST, "/launch") => {
            worker.state.send_replace(WorkerState::Active);
            json(&Launched::default())
        }
        (&Method::GET, "/egress") => switched(request, EGRESS_PROTOCOL, |tunnel| async move {
            // The tunnel is never used, and lasts as long as the daemon wants it.
            let _ = tokio::io::copy(&mut TokioIo::new(tunnel), &mut tokio::io::sink()).await;
        }),
        (&Method::GET, path) if path.starts_with("/devtools") => switched(request, "websocket", devtools::converse),
        _ => refusal(StatusCode::NOT_FOUND),
    }
}

async fn claim(worker: &Worker, request: Request<Incoming>) -> Response<Body> {
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let Ok(claim) = serde_json::from_slice(&body) else { return refusal(StatusCode::BAD_REQUEST) };
    if worker.claim.set(claim).is_err() {
        return refusal(StatusCode::CONFLICT);
    }
    worker.state.send_replace(WorkerState::Warm);
    json(&serde_json::json!({}))
}

impl Worker {
    fn snapshot(&self) -> Snapshot {
        let identity = Identity { browser: Some("None/1.0".to_owned()), headless: true, ..Identity::default() };
        let state = *self.state.borrow();
        Snapshot { state, untouched: state == WorkerState::Warm, identity, ..Snapshot::default() }
    }
}

/// Counts a stream of events for as long as it lives.
struct Reader(Arc<Worker>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.readers.send_modify(|count| *count -= 1);
    }
}

/// A line at once, one at each change, and a sign of life in between.
fn events(worker: &Arc<Worker>) -> Body {
    worker.readers.send_modify(|count| *count += 1);
    let reader = Reader(Arc::clone(worker));
    let mut state = worker.state.subscribe();
    state.mark_changed();
    let lines = stream::unfold((reader, state), |(reader, mut state)| async move {
        let event = tokio::select! {
            _ = state.changed() => WorkerEvent::State(reader.0.snapshot()),
            () = sleep(BEAT) => WorkerEvent::Beat,
        };
        let mut line = serde_json::to_vec(&event).unwrap_or_default();
        line.push(b'\n');
        Some((Ok(Frame::data(Bytes::from(line))), (reader, state)))
    });
    StreamBody::new(lines.fuse()).boxed_unsync()
}

/// Changes to another protocol, which `work` then speaks.
fn switched<F>(
    mut request: Request<Incoming>,
    protocol: &'static str,
    work: impl FnOnce(hyper::upgrade::Upgraded) -> F + Send + 'static,
) -> Response<Body>
where
    F: Future<Output = ()> + Send,
{
    let key = request.headers().get(SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        if let Ok(connection) = upgrade.await {
            work(connection).await;
        }
    });
    let mut response = refusal(StatusCode::SWITCHING_PROTOCOLS);
    let mut set = |name: HeaderName, value: HeaderValue| response.headers_mut().insert(name, value);
    set(CONNECTION, HeaderValue::from_static("upgrade"));
    set(UPGRADE, HeaderValue::from_static(protocol));
    if let Some(key) = key.and_then(|key| HeaderValue::from_str(&key).ok()) {
        set(SEC_WEBSOCKET_ACCEPT, key);
    }
    response
}

fn json(value: &impl Serialize) -> Response<Body> {
    Response::new(Full::from(serde_json::to_vec(value).unwrap_or_default()).boxed_unsync())
}

fn refusal(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Full::default().boxed_unsync());
    *response.status_mut() = status;
    response
}
