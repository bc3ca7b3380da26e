//! The HTTP interface: routes, one file a resource. Nothing else depends on it.
//!
//! `server` accepts connections, as many of one address as `addresses` allows, and `stall` cuts those that do not read;
//! `guard` refuses what a foreign web page or name could send, and gives each request its id; `query` checks what stands
//! behind the question mark, on every route; `auth` finds the caller's key; `body` reads JSON, within the memory that
//! `budget` has for it and by the measure of `weight`, and `passing` hands on what is not to be read; `base` builds the
//! URLs in replies; `reply` turns errors into responses; `console` holds the pages that are built in.
//!
//! `grid`, `browserless` and `json` are the URLs that clients of other services know: `dropin` translates what they ask.

mod addresses;
mod attempts;
mod auth;
mod base;
mod body;
mod browserless;
mod budget;
mod console;
mod create;
mod devtools;
mod export;
mod files;
mod follow;
mod grid;
mod guard;
mod inspect;
mod integration;
mod json;
mod live;
mod operate;
mod passing;
mod query;
mod recording;
mod reply;
mod server;
mod sessions;
mod sign_in;
mod stall;
mod submit;
mod tasks;
mod viewer;
mod webdriver;
mod weight;
mod worlds;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{any, delete, get, post};
use metrics_exporter_prometheus::PrometheusHandle;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use warmpool_protocol::Snapshot;

use crate::config::Config;
use crate::drain::Drain;
use crate::engine::Engine;
use crate::keys::Keys;
use crate::live::Live;
use crate::pool::Pool;
use crate::session::Sessions;
use crate::store::{Recovery, Store};
use crate::targets::Targets;
use crate::task::Tasks;
use crate::video::Recorder;
use crate::world::Worlds;

pub(crate) use budget::Budget;
pub use server::Listener;
pub(crate) use server::serve;
pub(crate) use sign_in::SignIns;

/// What the routes work with.
#[derive(Clone)]
pub(crate) struct App {
    /// The settings.
    pub config: Arc<Config>,
    /// The API keys.
    pub keys: Keys,
    /// The pool.
    pub pool: Pool,
    /// The sessions.
    pub sessions: Sessions,
    /// The tasks.
    pub tasks: Tasks,
    /// The worlds.
    pub worlds: Worlds,
    /// Who is signed in to the console.
    pub sign_ins: SignIns,
    /// Who watches them.
    pub live: Live,
    /// Who records them.
    pub recorder: Recorder,
    /// The store.
    pub store: Store,
    /// The daemon's phase.
    pub drain: Drain,
    /// The metrics.
    pub metrics: PrometheusHandle,
    /// The memory that bodies of requests may take.
    pub bodies: Budget,
    /// What had to be mended when the store was opened.
    pub recovery: Option<Arc<Recovery>>,
    /// When the daemon started.
    pub started: Instant,
    /// What debugging ports list.
    pub targets: Targets,
}

impl App {
    /// What a browser of this engine says of itself, if one is at hand.
    fn known_snapshot(&self, engine: Engine) -> Option<Snapshot> {
        self.pool.warm_snapshot(engine).or_else(|| {
            let live = self.sessions.all_live();
            let session = live.iter().find(|session| session.options.engine == engine)?;
            Some(session.worker.snapshot.borrow().clone())
        })
    }

    fn known_version(&self, engine: Engine) -> Option<String> {
        self.known_snapshot(engine)?.version().map(str::to_owned)
    }
}

/// Every route there is.
pub(crate) fn router(app: App) -> Router {
    Router::new()
        .route("/healthz", get(operate::healthz))
        .route("/readyz", get(operate::readyz))
        .route("/status", get(operate::status))
        .route("/metrics", get(operate::metrics))
        .route("/sessions", get(sessions::list))
        .route("/sessions/create", post(create::devtools))
        .route("/sessions/webdriver/create", post(create::webdriver))
        .route("/sessions/{id}", get(sessions::show).delete(sessions::end))
        .route("/sessions/{id}/status", get(sessions::show))
        .route("/sessions/{id}/terminate", delete(sessions::end).post(sessions::end))
        .route("/sessions/{id}/stream", get(live::page))
        .route("/sessions/{id}/stream/state", get(live::state))
        .route("/sessions/{id}/stream/socket", get(live::socket))
        .route("/sessions/{id}/stream/recording", get(recording::list_for_view))
        .route("/sessions/{id}/stream/recording/{name}", get(recording::fetch_for_view))
        .route("/sessions/{id}/share", get(live::shares).post(live::share))
        .route("/sessions/{id}/share/{share}", delete(live::unshare))
        .route("/sessions/{id}/recording", get(recording::list).delete(recording::remove))
        .route("/sessions/{id}/recording/{name}", get(recording::fetch))
        .route("/v1/world/generate", post(worlds::generate))
        .route("/v1/worlds/{id}", get(worlds::show).delete(worlds::delete))
        .route("/v1/worlds/{id}/events", get(worlds::follow))
        .route("/v1/worlds/{id}/viewer", post(worlds::renew_viewer).delete(worlds::close_viewer))
        .route("/v1/patients/{id}", delete(worlds::delete_patient))
        .route("/v1/patients/{id}/export", get(worlds::export))
        .route("/v1/integration-keys", get(integration::list).post(integration::create))
        .route("/v1/integration-keys/{id}", delete(integration::revoke))
        .route("/v1/integration-keys/{id}/rotate", post(integration::rotate))
        .route("/v1/requests", get(integration::requests))
        .route("/w/{token}", get(viewer::page))
        .route("/w/{token}/{file}", get(viewer::file))
        .route("/console/worlds", get(console::worlds))
        .route("/console/sign-in", get(sign_in::signed_in).post(sign_in::sign_in).delete(sign_in::sign_out))
        .route("/console/{file}", get(console::file).layer(CompressionLayer::new()))
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
        .route("/sessions/{id}/webdriver/{token}/session/{driver}/se/cdp", get(webdriver::socket))
        .route("/sessions/{id}/webdriver/{token}/session/{driver}/se/files", any(webdriver::downloads))
        .route("/sessions/{id}/webdriver/{token}/session/{driver}/{*command}", any(webdriver::command))
        .route("/sessions/{id}/webdriver/{token}/{*rest}", any(webdriver::unknown))
        .route("/lam/run", post(submit::run))
        .route("/lam/extract", post(submit::extract))
        .route("/lam/fleet", post(submit::fleet))
        .route("/lam/tasks", get(tasks::list))
        .route("/lam/tasks/{id}", get(tasks::show).delete(tasks::cancel))
        .route("/lam/tasks/{id}/retry", post(submit::retry))
        .route("/lam/tasks/{id}/items", get(tasks::items))
        .route("/lam/tasks/{id}/artifacts", get(tasks::artifacts))
        .route("/lam/tasks/{id}/artifacts/{name}", get(tasks::artifact))
        .merge(grid::routes())
        .merge(browserless::routes())
        .merge(json::routes())
        .fallback(reply::unknown_path)
        .method_not_allowed_fallback(reply::method_not_allowed)
        // Each route that reads a body has a limit of its own.
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::custom(reply::panicked))
        .layer(middleware::from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
}
