//! For operators: is it alive, is it ready, how is it, and the metrics.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::App;
use super::auth::StatusCaller;
use super::reply::w3c_reply;
use crate::drain::Phase;
use crate::error::Error;
use crate::store::{StoreHealth, StoreState};

/// `GET /healthz`: 200 while the process serves.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: 200 when a session would be served now, with a warning when the disk fills up; else 503 and why.
pub(super) async fn readyz(State(app): State<App>) -> Response {
    match unready(&app) {
        None => {
            let warning = disk_warning(&app, &app.store.health())
                .map_or_else(String::new, |warning| format!("warning: {warning}\n"));
            (StatusCode::OK, format!("ready\n{warning}")).into_response()
        }
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")).into_response(),
    }
}

/// Why a session would not be served now, if it would not.
fn unready(app: &App) -> Option<&'static str> {
    let store = app.store.health();
    match app.drain.phase() {
        Phase::Draining | Phase::Stopped => Some("draining"),
        _ if store.state == StoreState::DiskNearlyFull => {
            Some("the disk is nearly full: free space under store.data_dir")
        }
        _ if store.state == StoreState::Stalled => Some("the disk does not answer"),
        _ if !store.ok() => Some("the store does not work"),
        _ if !app.pool.runtime_up() => Some("the container runtime cannot be used"),
        Phase::Serving if app.pool.can_serve() => None,
        Phase::Starting | Phase::Serving => Some("the pool is not warm yet"),
    }
}

/// What clients of a grid wait for: whether a new session would be served.
pub(super) fn grid_status(app: &App) -> Value {
    let phase = app.drain.phase();
    let ready = unready(app).is_none();
    let message = if ready { "ready for a new session" } else { "not ready for a new session" };
    let node = json!({
        "id": "warmpool",
        "availability": if phase >= Phase::Draining { "DRAINING" } else if ready { "UP" } else { "DOWN" },
        "maxSessions": app.config.session.max_sessions,
        "sessionCount": app.sessions.live_count(),
        "version": env!("CARGO_PKG_VERSION"),
        "slots": [],
    });
    json!({"ready": ready, "message": message, "nodes": [node]})
}

/// Said before the service stops for want of space: recordings already do.
fn disk_warning(app: &App, store: &StoreHealth) -> Option<String> {
    let free = store.free_bytes.filter(|free| *free < app.config.recording_min_free())?;
    Some(format!(
        "the disk fills up: {free} bytes are free, recordings have stopped, and below {} bytes nothing new is accepted",
        store.min_free_bytes
    ))
}

/// `GET /status`: counts only, nothing that names or opens a session.
pub(super) async fn status(State(app): State<App>, _: StatusCaller) -> Response {
    let (sessions, waiting) = (app.sessions.live_count(), app.pool.waiting());
    let (queued, running, kept) = app.tasks.counts();
    let (waiting_worlds, rendering) = app.worlds.counts();
    let renderer_installed = app.worlds.can_render().await;
    let config = &app.config;
    let store = app.store.health();
    let used = app.pool.kinds().iter().map(|kind| kind.counts.leased).sum::<usize>();
    let body = json!({
        // For clients of Selenium Grid, and then of Selenoid.
        "value": grid_status(&app),
        "total": config.session.max_sessions,
        "used": used,
        "queued": waiting,
        "pending": used.saturating_sub(sessions),
        "version": env!("CARGO_PKG_VERSION"),
        "phase": app.drain.phase(),
        "runtime": {"reachable": app.pool.runtime_up()},
        "sessions": {"live": sessions, "max": config.session.max_sessions, "max_per_key": config.session.max_per_key},
        "queue": {"waiting": waiting, "length": config.session.queue_length},
        "pool": app.pool.kinds(),
        "workers": {
            "max": config.pool.max_workers,
            "sandbox": config.worker.sandbox,
            "freeze": config.worker.freeze,
            // Whether a program that broke out of its browser would find ports of this host.
            "reach_host": !config.shares_folders(),
            "runtime": config.docker.runtime.as_deref().unwrap_or("default"),
        },
        "tasks": {
            "queued": queued,
            "running": running,
            "kept": kept,
            "workers": config.tasks.workers,
            "queue_length": config.tasks.queue_length,
        },
        "worlds": {
            "renderer_installed": renderer_installed,
            "image": config.world.image,
            "remedy": (!renderer_installed).then_some("make the image with scripts/images --scene"),
            "queued": waiting_worlds,
            "rendering": rendering,
            "renderers": config.world.renderers,
            "queue_length": config.world.queue_length,
        },
        "store": {
            "ok": store.ok(),
            "free_bytes": store.free_bytes,
            "min_free_bytes": store.min_free_bytes,
            "warning": disk_warning(&app, &store),
            "recovered": app.recovery.as_ref().map(|recovery| recovery.to_string()),
        },
    });
    w3c_reply(StatusCode::OK, &body)
}

/// `GET /metrics`, in Prometheus' text form.
pub(super) async fn metrics(State(app): State<App>, _: StatusCaller) -> Result<Response, Error> {
    let (sessions, waiting) = (app.sessions.live_count(), app.pool.waiting());
    crate::telemetry::gauge_pool(&app.pool.kinds(), sessions, waiting);
    crate::telemetry::gauge_tasks(app.tasks.counts());
    crate::telemetry::gauge_disk(app.store.health().free_bytes);
    let text = crate::telemetry::render(&app.metrics);
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
