//! The HTTP interface: routes, one file a resource. Nothing else depends on it.
//!
//! `server` accepts connections; `guard` refuses what a foreign web page or name could send, and gives each request its
//! id; `auth` finds the caller's key; `body` reads JSON; `base` builds the URLs in replies; `reply` turns errors into
//! responses.

mod auth;
mod base;
mod body;
mod create;
mod devtools;
mod files;
mod guard;
mod inspect;
mod operate;
mod query;
mod reply;
mod server;
mod sessions;
mod webdriver;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{any, delete, get, post};
use metrics_exporter_prometheus::PrometheusHandle;
use tower_http::catch_panic::CatchPanicLayer;

use crate::config::Config;
use crate::drain::Drain;
use crate::keys::Keys;
use crate::pool::Pool;
use crate::session::Sessions;
use crate::store::{Recovery, Store};

pub use server::{Listener, serve};

/// What the routes work with.
#[derive(Clone)]
pub struct App {
    /// The settings.
    pub config: Arc<Config>,
    /// The API keys.
    pub keys: Keys,
    /// The pool.
    pub pool: Pool,
    /// The sessions.
    pub sessions: Sessions,
    /// The store.
    pub store: Store,
    /// The daemon's phase.
    pub drain: Drain,
    /// The metrics.
    pub metrics: PrometheusHandle,
    /// What had to be mended when the store was opened.
    pub recovery: Option<Arc<Recovery>>,
}

/// Every route there is.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/healthz", get(operate::healthz))
        .route("/readyz", get(operate::readyz))
        .route("/status", get(operate::status))
        .route("/metrics", get(operate::metrics))
        .route("/json", get(inspect::pages))
        .route("/json/list", get(inspect::pages))
        .route("/sessions", get(sessions::list))
        .route("/sessions/create", post(create::devtools))
        .route("/sessions/webdriver/create", post(create::webdriver))
        .route("/sessions/{id}", get(sessions::show).delete(sessions::end))
        .route("/sessions/{id}/status", get(sessions::show))
        .route("/sessions/{id}/terminate", delete(sessions::end).post(sessions::end))
        .route("/sessions/{id}/stream", get(sessions::stream))
        .route("/sessions/{id}/files", get(files::list))
        .route("/sessions/{id}/files/{name}", get(files::fetch).put(files::put).delete(files::remove))
        .route("/sessions/{id}/devtools", get(devtools::browser))
        .route("/sessions/{id}/devtools/{*target}", get(devtools::target))
        .route("/sessions/{id}/bidi/{token}/{driver}", get(devtools::bidi))
        .route("/sessions/{id}/webdriver/{token}/session", post(webdriver::create))
        .route("/sessions/{id}/webdriver/{token}/status", get(webdriver::status))
        .route("/sessions/{id}/webdriver/{token}/session/{driver}", any(webdriver::session))
        .route("/sessions/{id}/webdriver/{token}/session/{driver}/se/file", post(webdriver::upload))
        .route("/sessions/{id}/webdriver/{token}/session/{driver}/file", post(webdriver::upload))
        .route("/sessions/{id}/webdriver/{token}/session/{driver}/{*command}", any(webdriver::command))
        .route("/sessions/{id}/webdriver/{token}/{*rest}", any(webdriver::unknown))
        .fallback(reply::unknown_path)
        .method_not_allowed_fallback(reply::method_not_allowed)
        // Each route that reads a body has a limit of its own.
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::custom(reply::panicked))
        .layer(middleware::from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
}
