//! For operators: is it alive, is it ready, and the metrics. `status` says more.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::App;
use super::auth::StatusCaller;
use super::openapi::{Access, Operation, Routes};
use super::route::{Policy, Traffic};
use super::status::status;
use crate::http::error::Error;
use warmpool_api::status::Status;
use warmpool_core::drain::Phase;
use warmpool_store::{StoreHealth, StoreState};

const PROBE: Policy = Policy::rest(Access::Open, &[]).of(Traffic::Probes).suggested();

pub(super) fn routes(routes: Routes) -> Routes {
    let status_policy = PROBE.access(Access::Status);
    routes
        .get(
            "/healthz",
            healthz,
            Operation::new("get_health", "Whether the process serves", PROBE).writes_text("text/plain", "It does."),
        )
        .get(
            "/readyz",
            readyz,
            Operation::new("get_readiness", "Whether a session would be served now", PROBE)
                .writes_text("text/plain", "It would; a second line warns when the disk fills up.")
                .writes_text_at(503, "It would not, and why."),
        )
        .get(
            "/status",
            status,
            Operation::new("get_status", "How the daemon is", status_policy)
                .about("Counts only: nothing that names or opens a session.")
                .writes::<Status>("The pool, sessions, queues and the store."),
        )
        .get(
            "/metrics",
            metrics,
            Operation::new("get_metrics", "The metrics, in Prometheus' text form", status_policy)
                .writes_text("text/plain", "The metrics."),
        )
}

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
pub(super) fn unready(app: &App) -> Option<&'static str> {
    let store = app.store.health();
    match app.drain.phase() {
        Phase::Draining | Phase::Leaving | Phase::Stopped => Some("draining"),
        _ if store.state == StoreState::DiskNearlyFull => {
            Some("the disk is nearly full: free space under store.data_dir")
        }
        _ if store.state == StoreState::Stalled => Some("the disk does not answer"),
        _ if !store.ok() => Some("the store has failed"),
        _ if !app.pool.runtime_up() => Some("the container runtime cannot be used"),
        Phase::Serving if app.pool.can_serve() => None,
        Phase::Starting | Phase::Serving => Some("the pool is not warm yet"),
    }
}

/// Warns before the service stops because the disk is full. Recordings have stopped by then.
pub(super) fn disk_warning(app: &App, store: &StoreHealth) -> Option<String> {
    let free = store.free_bytes.filter(|free| *free < app.config.recording_min_free())?;
    Some(format!(
        "the disk fills up: {free} bytes are free, recordings have stopped, and below {} bytes nothing new is accepted",
        store.min_free_bytes
    ))
}

/// How many rows each table in memory has, of sessions, viewers and others that come and go.
fn table_rows(app: &App) -> impl Iterator<Item = (&'static str, usize)> {
    let others = [
        ("live_views", app.live.rooms()),
        ("thumbnails", app.thumbnails.watched()),
        ("sign_ins", app.sign_ins.len()),
        ("webhook_receivers", app.webhooks.receivers()),
        ("worlds", app.worlds.unready()),
    ];
    app.sessions.table_rows().into_iter().chain(others)
}

/// `GET /metrics`, in Prometheus' text form.
pub(super) async fn metrics(State(app): State<App>, _: StatusCaller) -> Result<Response, Error> {
    let (sessions, waiting) = (app.sessions.live_count(), app.pool.waiting());
    crate::telemetry::gauge_pool(&app.pool.kinds(), sessions, waiting);
    crate::telemetry::gauge_tasks(app.tasks.counts());
    crate::telemetry::gauge_disk(app.store.health().free_bytes);
    crate::telemetry::gauge_growth(table_rows(&app));
    let text = crate::telemetry::render(&app.metrics);
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
