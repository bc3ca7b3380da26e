//! What the console's first page shows: the pool, the host, and the last hour.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::super::App;
use super::super::auth::Scope;
use super::super::health;
use super::super::reply::json_reply;
use warmpool_core::clock::millis;

/// `GET /console/api/overview`: the present state, and the samples of the last hour.
pub(super) async fn show(State(app): State<App>, _: Scope) -> Response {
    let mut body = now(&app);
    body["samples"] = json!(app.console.samples().all());
    json_reply(StatusCode::OK, &body)
}

/// The present state: counts only, so that every key may see it. Waits for nothing, not even for the container engine.
pub(super) fn now(app: &App) -> Value {
    let config = &app.config;
    let store = app.store.health();
    let (tasks_queued, tasks_running, tasks_kept) = app.tasks.counts();
    let (worlds_queued, worlds_rendering) = app.worlds.counts();
    json!({
        "at": warmpool_core::clock::unix_ms(),
        "version": env!("CARGO_PKG_VERSION"),
        "phase": app.drain.phase(),
        "uptime": millis(app.started.elapsed()),
        "unready": health::unready(app),
        "runtime": app.pool.runtime_up(),
        "pool": app.pool.kinds(),
        "workers": {"max": config.pool.max_workers},
        "sessions": {
            "live": app.sessions.live_count(),
            "max": config.session.max_sessions,
            "max_per_key": config.session.max_per_key,
        },
        "queue": {"waiting": app.pool.waiting(), "length": config.session.queue_length},
        "tasks": {
            "queued": tasks_queued,
            "running": tasks_running,
            "kept": tasks_kept,
            "workers": config.tasks.workers,
        },
        "worlds": {"queued": worlds_queued, "rendering": worlds_rendering},
        "host": app.console.samples().host.look(),
        "disk": {
            "free": store.free_bytes,
            "min_free": store.min_free_bytes,
            "ok": store.ok(),
            "warning": health::disk_warning(app, &store),
        },
        "hour": app.console.samples().last_hour(),
    })
}
