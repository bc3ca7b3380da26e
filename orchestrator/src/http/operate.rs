//! For operators: is it alive, is it ready, how is it, and the metrics.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::json;

use super::App;
use super::auth::Onlooker;
use super::grid::grid_status;
use super::reply::json_reply;
use crate::drain::Phase;
use crate::error::Error;

/// `GET /healthz`: 200 while the process serves.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: 200 when a session would be served now, else 503 and why.
pub(super) async fn readyz(State(app): State<App>) -> Response {
    match unready(&app) {
        None => (StatusCode::OK, "ready\n".to_owned()).into_response(),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")).into_response(),
    }
}

/// Why a session would not be served now, if it would not.
pub(super) fn unready(app: &App) -> Option<&'static str> {
    match app.drain.phase() {
        Phase::Draining | Phase::Stopped => Some("draining"),
        _ if !app.store.health().ok() => Some("the store does not work"),
        _ if !app.pool.runtime_up() => Some("the container runtime cannot be used"),
        Phase::Serving if app.pool.can_serve() => None,
        Phase::Starting | Phase::Serving => Some("the pool is not warm yet"),
    }
}

/// `GET /status`: counts only, nothing that names or opens a session.
pub(super) async fn status(State(app): State<App>, _: Onlooker) -> Response {
    let (sessions, waiting) = (app.sessions.live_count(), app.pool.waiting());
    let (queued, running, kept) = app.tasks.counts();
    let config = &app.config;
    let store = app.store.health();
    let used = app.pool.shelves().iter().map(|shelf| shelf.counts.leased).sum::<usize>();
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
        "pool": app.pool.shelves(),
        "workers": {
            "max": config.pool.max_workers,
            "sandbox": config.worker.sandbox,
            "freeze": config.worker.freeze,
            "runtime": config.docker.runtime.as_deref().unwrap_or("default"),
        },
        "tasks": {
            "queued": queued,
            "running": running,
            "kept": kept,
            "workers": config.tasks.workers,
            "queue_length": config.tasks.queue_length,
        },
        "store": {
            "ok": store.ok(),
            "recovered": app.recovery.as_ref().map(|recovery| recovery.to_string()),
        },
    });
    json_reply(StatusCode::OK, &body)
}

/// `GET /metrics`, in Prometheus' text form.
pub(super) async fn metrics(State(app): State<App>, _: Onlooker) -> Result<Response, Error> {
    let (sessions, waiting) = (app.sessions.live_count(), app.pool.waiting());
    crate::telemetry::gauge_pool(&app.pool.shelves(), sessions, waiting);
    crate::telemetry::gauge_tasks(app.tasks.counts());
    let text = app.metrics.render();
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
