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
mod app;
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
mod sign_ins;
mod stall;
mod submit;
mod tasks;
mod viewer;
mod webdriver;
mod weight;
mod worlds;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{any, delete, get, post};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;

pub(crate) use app::App;
pub(crate) use budget::Budget;
pub use server::Listener;
pub(crate) use server::serve;
pub(crate) use sign_ins::SignIns;

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
