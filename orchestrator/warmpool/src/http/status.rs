//! `GET /status`: counts only, nothing that names or opens a session.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::App;
use super::auth::StatusCaller;
use super::health::{disk_warning, unready};
use super::openapi::AnyObject;
use super::reply::w3c_reply;
use warmpool_core::drain::Phase;
use warmpool_workers::pool::{KindStatus, NodeCounts};

/// How the daemon is. Some members have the names that clients of Selenium Grid and Selenoid read.
#[derive(Serialize, JsonSchema)]
pub(super) struct Status {
    value: GridStatus,
    /// Sessions there may be.
    total: usize,
    /// Workers that sessions hold.
    used: usize,
    /// Callers who wait for a worker.
    queued: usize,
    /// Workers that are held and whose sessions are not there yet.
    pending: usize,
    version: &'static str,
    phase: Phase,
    runtime: RuntimeStatus,
    sessions: SessionStatusCounts,
    queue: QueueStatus,
    pool: Vec<KindStatus>,
    nodes: NodeCounts,
    workers: WorkerStatus,
    tasks: TaskCounts,
    worlds: WorldCounts,
    store: StoreStatus,
}

/// What clients of a grid wait for.
#[derive(Serialize, JsonSchema)]
pub(super) struct GridStatus {
    /// Whether a new session would be served.
    ready: bool,
    message: &'static str,
    nodes: [GridNode; 1],
}

/// The daemon as a node of a grid.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct GridNode {
    id: &'static str,
    /// `UP`, `DOWN` or `DRAINING`.
    availability: &'static str,
    max_sessions: usize,
    session_count: usize,
    version: &'static str,
    /// Always empty.
    #[schemars(with = "Vec<AnyObject>")]
    slots: [u8; 0],
}

/// The container runtime.
#[derive(Serialize, JsonSchema)]
struct RuntimeStatus {
    reachable: bool,
}

/// How many sessions there are.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SessionCounts")]
struct SessionStatusCounts {
    live: usize,
    max: usize,
    /// 0 sets no limit.
    max_per_key: usize,
}

/// The callers that wait for a worker.
#[derive(Serialize, JsonSchema)]
struct QueueStatus {
    waiting: usize,
    /// How many may wait.
    length: usize,
}

/// What holds for all workers.
#[derive(Serialize, JsonSchema)]
struct WorkerStatus {
    max: usize,
    /// Whether browsers keep their own sandbox.
    sandbox: bool,
    /// Whether waiting workers are frozen.
    freeze: bool,
    /// Whether a program that broke out of its browser would find ports of this host.
    reach_host: bool,
    /// The container runtime.
    runtime: String,
}

/// How many tasks there are.
#[derive(Serialize, JsonSchema)]
struct TaskCounts {
    queued: usize,
    running: usize,
    /// In the history.
    kept: usize,
    workers: usize,
    queue_length: usize,
}

/// How many worlds are being made.
#[derive(Serialize, JsonSchema)]
struct WorldCounts {
    renderer_installed: bool,
    image: String,
    /// What to do where there is no renderer.
    remedy: Option<&'static str>,
    queued: usize,
    rendering: usize,
    renderers: usize,
    queue_length: usize,
}

/// How the store is.
#[derive(Serialize, JsonSchema)]
struct StoreStatus {
    ok: bool,
    free_bytes: Option<u64>,
    min_free_bytes: u64,
    warning: Option<String>,
    /// What had to be mended when the daemon started.
    recovered: Option<String>,
}

/// Whether a new session would be served, for clients of a grid.
pub(super) fn grid_status(app: &App) -> GridStatus {
    let phase = app.drain.phase();
    let ready = unready(app).is_none();
    let node = GridNode {
        id: "warmpool",
        availability: if phase >= Phase::Draining {
            "DRAINING"
        } else if ready {
            "UP"
        } else {
            "DOWN"
        },
        max_sessions: app.config.session.max_sessions,
        session_count: app.sessions.live_count(),
        version: env!("CARGO_PKG_VERSION"),
        slots: [],
    };
    let message = if ready { "ready for a new session" } else { "not ready for a new session" };
    GridStatus { ready, message, nodes: [node] }
}

/// `GET /status`
pub(super) async fn status(State(app): State<App>, _: StatusCaller) -> Response {
    let (live, waiting) = (app.sessions.live_count(), app.pool.waiting());
    let (queued, running, kept) = app.tasks.counts();
    let (waiting_worlds, rendering) = app.worlds.counts();
    let renderer_installed = app.worlds.can_render().await;
    let config = &app.config;
    let store = app.store.health();
    let used = app.pool.kinds().iter().map(|kind| kind.counts.leased).sum::<usize>();
    let body = Status {
        value: grid_status(&app),
        total: config.session.max_sessions,
        used,
        queued: waiting,
        pending: used.saturating_sub(live),
        version: env!("CARGO_PKG_VERSION"),
        phase: app.drain.phase(),
        runtime: RuntimeStatus { reachable: app.pool.runtime_up() },
        sessions: SessionStatusCounts {
            live,
            max: config.session.max_sessions,
            max_per_key: config.session.max_per_key,
        },
        queue: QueueStatus { waiting, length: config.session.queue_length },
        pool: app.pool.kinds(),
        nodes: app.pool.node_counts(),
        workers: WorkerStatus {
            max: config.pool.max_workers,
            sandbox: config.worker.sandbox,
            freeze: config.worker.freeze,
            reach_host: !config.shares_folders(),
            runtime: config.docker.runtime.clone().unwrap_or_else(|| "default".to_owned()),
        },
        tasks: TaskCounts {
            queued,
            running,
            kept,
            workers: config.tasks.workers,
            queue_length: config.tasks.queue_length,
        },
        worlds: WorldCounts {
            renderer_installed,
            image: config.world.image.clone(),
            remedy: (!renderer_installed).then_some("make the image with scripts/images --scene"),
            queued: waiting_worlds,
            rendering,
            renderers: config.world.renderers,
            queue_length: config.world.queue_length,
        },
        store: StoreStatus {
            ok: store.ok(),
            free_bytes: store.free_bytes,
            min_free_bytes: store.min_free_bytes,
            warning: disk_warning(&app, &store),
            recovered: app.recovery.as_ref().map(|recovery| recovery.to_string()),
        },
    };
    w3c_reply(StatusCode::OK, &body)
}
