//! The pages for people beside the console: the first page, the description of the interface, the guides, and what an
//! unknown address shows. The files are among the console's (`console/dist`).

use axum::extract::{Path, Request};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use http::header::{ACCEPT, CONTENT_SECURITY_POLICY, VARY};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tower_http::compression::CompressionLayer;

use super::App;
use super::console::{asset, page, page_named};
use super::headers::wants;
use super::health::unready;
use super::openapi::{Access, Routes};
use super::public_url::PublicUrl;
use super::reply::unknown_path;
use super::route::{Policy, Segment};
use crate::http::error::Error;

/// Nothing from other origins, nothing inline, no forms; and nobody may frame a page on which people enter keys.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
                              connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Anybody may read these.
const PAGE: Policy = Policy::rest(Access::Open, &[Segment::new("name", "The name of a guide, or of its picture.")]);

/// The pages, which the description leaves out.
pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .undescribed("/docs", get(docs).layer(CompressionLayer::new()), PAGE.suggested())
        .undescribed("/docs/", get(async || Redirect::permanent("../docs")), PAGE)
        .undescribed("/docs/{name}", get(guide).layer(CompressionLayer::new()), PAGE)
        .undescribed("/favicon.ico", get(favicon), PAGE)
}

/// `GET /` in a browser.
pub(super) fn start(app: &App, base: &PublicUrl) -> Response {
    let reason = unready(app);
    let state = reason.map_or_else(|| "Ready".to_owned(), |reason| format!("Not ready: {reason}."));
    let ready = if reason.is_none() { "true" } else { "false" };
    let values = [("ready", ready), ("state", &state), ("url", &base.http()), ("version", env!("CARGO_PKG_VERSION"))];
    with_vary(unframed(page(StatusCode::OK, "start.html", &values)))
}

/// `GET /docs`: the description of the interface.
async fn docs() -> Response {
    unframed(page(StatusCode::OK, "docs.html", &[]))
}

/// `GET /docs/<name>`: a guide, or a picture in one.
async fn guide(Path(name): Path<String>, headers: HeaderMap, request: Request) -> Response {
    let found =
        page_named(&format!("docs/{name}.html")).map(unframed).or_else(|| asset(&format!("docs/{name}"), &headers));
    match found {
        Some(found) => found,
        None => not_found(request).await,
    }
}

/// `GET /favicon.ico`: what browsers ask for beside answers that are no pages.
async fn favicon(headers: HeaderMap, request: Request) -> Response {
    match asset("favicon.svg", &headers) {
        Some(found) => found,
        None => not_found(request).await,
    }
}

/// No route has this path: an error for programs, a page for people.
pub(super) async fn not_found(request: Request) -> Response {
    let is_for_people = request.method() == Method::GET && wants(request.headers(), "text/html");
    // Relative, so that a proxy may serve this page below any path.
    let root = "../".repeat(request.uri().path().matches('/').count().saturating_sub(1));
    let error = unknown_path(request).await;
    let message = match &error {
        Error::UnknownPath { path, meant: Some(meant), .. } => format!("Nothing is at {path}. Did you mean {meant}?"),
        Error::UnknownPath { path, .. } => format!("Nothing is at {path}."),
        other => other.to_string(),
    };
    let refused = error.into_response();
    if !is_for_people {
        return refused;
    }
    with_vary(unframed(page(refused.status(), "not-found.html", &[("root", &root), ("message", &message)])))
}

fn unframed(mut page: Response) -> Response {
    page.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_POLICY));
    page
}

/// Another answer for those who accept something else.
fn with_vary(mut response: Response) -> Response {
    response.headers_mut().insert(VARY, HeaderValue::from(ACCEPT));
    response
}
