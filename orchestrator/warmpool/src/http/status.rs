//! `GET /status`: counts only, nothing that names or opens a session.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use super::App;
use super::auth::StatusCaller;
use super::health::{disk_warning, unready};
use super::reply::w3c_reply;
use warmpool_api::status::{
    BrowserUse, GridNode, GridStatus, QueueStatus, RuntimeStatus, SessionStatusCounts, Status, StoreStatus, TaskCounts,
    WorkerStatus, WorldCounts,
};
use warmpool_core::browser::Engine;
use warmpool_core::drain::Phase;

/// Whether a new session would be served, for clients of a grid.
pub(super) fn grid_status(app: &App) -> GridStatus {
    let phase = app.drain.phase();
    let ready = unready(app).is_none();
    let node = GridNode {
        id: "warmpool".to_owned(),
        availability: if phase >= Phase::Draining {
            "DRAINING"
        } else if ready {
            "UP"
        } else {
            "DOWN"
        }
        .to_owned(),
        max_sessions: app.config.session.max_sessions,
        session_count: app.sessions.live_count(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        slots: Vec::new(),
    };
    let message = if ready { "ready for a new session" } else { "not ready for a new session" };
    GridStatus { ready, message: message.to_owned(), nodes: [node] }
}

/// The installed engines, with their sessions, as Selenoid shows its browsers.
fn browsers(app: &App) -> BTreeMap<String, BTreeMap<String, BTreeMap<String, BrowserUse>>> {
    let sessions = app.sessions.all_live();
    let browser = |engine: Engine| {
        let count = sessions.iter().filter(|session| session.options.engine == engine).count();
        let sessions = BrowserUse { count, sessions: Vec::new() };
        let users = (count > 0).then(|| ("unknown".to_owned(), sessions)).into_iter().collect();
        let versions = app.known_version(engine).map(|version| (version, users)).into_iter().collect();
        (engine.browser_name().to_owned(), versions)
    };
    app.pool.kinds().iter().filter(|kind| kind.installed).map(|kind| browser(kind.engine)).collect()
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
        browsers: browsers(&app),
        version: env!("CARGO_PKG_VERSION").to_owned(),
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
            remedy: (!renderer_installed).then(|| {
                "make the image with scripts/images --scene, or load a packed one with docker load".to_owned()
            }),
            warning: app.worlds.warning(),
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
