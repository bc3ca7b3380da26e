//! The console: its pages, which the daemon contains like all others (`console/dist`), and the routes that serve only them.
//!
//! `state` is what the routes share; `events` is the stream that pages follow, and `thumbnails` the
//! one of pictures, with `places` for so many of both; `overview` describes the daemon's state, with
//! the load of the `host` and the `samples` of the last hour, which `sampling` takes; `requests` fills the log with a
//! `request_entry` each, and `log` lists it; `keys` manages service keys; `doctor` examines the host.

mod doctor;
mod events;
mod host;
mod keys;
mod log;
mod overview;
mod places;
mod request_entry;
mod requests;
mod samples;
mod sampling;
mod state;
mod thumbnails;

use std::borrow::Cow;

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{delete, get, post};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, REFERRER_POLICY};
use http::{HeaderMap, HeaderValue, StatusCode};
use rust_embed::RustEmbed;
use serde_json::json;
use tower_http::compression::CompressionLayer;

use super::App;
use super::auth::Scope;
use super::openapi::{Access, Routes};
use super::reply::json_reply;
use super::route::{Policy, Segment, Traffic};
use super::sign_in;
use super::site::not_found;
use events::EventTopics;
use keys::KeyRemoval;
pub(super) use requests::RequestLine;
pub(super) use sampling::run as take_samples;
pub(crate) use state::Console;
use thumbnails::ShownSessions;

/// What `scripts/console` built. Empty in a daemon that was built without it.
#[derive(RustEmbed)]
#[folder = "../console/dist"]
#[allow_missing = true]
struct Files;

/// Nothing from other origins, nothing inline, and no forms. Any page may frame these pages: opening one takes its secret
/// address, and live views are made for other people's pages.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'";

/// The answer of a daemon that was built without pages.
const MISSING: &str = "<!doctype html><html lang=en><title>Warmpool</title>\
                       <p>This daemon was built without its pages: run scripts/console and build it again.\n";

const CONTENT_SECURITY_POLICY: HeaderName = http::header::CONTENT_SECURITY_POLICY;

/// `GET /console/<file>`: a script or a style sheet. These are public.
async fn file(Path(name): Path<String>, headers: HeaderMap, request: Request) -> Response {
    match asset(&name, &headers) {
        Some(found) => found,
        None => not_found(request).await,
    }
}

/// A script, a style sheet or a picture of the pages; not a page itself.
pub(super) fn asset(name: &str, headers: &HeaderMap) -> Option<Response> {
    let kind = match name.rsplit_once('.')?.1 {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" => "image/jpeg",
        _ => return None,
    };
    let file = Files::get(name)?;
    let hash = file.metadata.sha256_hash();
    // A weak tag: it identifies the file, however it is compressed.
    let tag = format!("W/\"{}\"", hex::encode(&hash[..12]));
    let known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = if known { StatusCode::NOT_MODIFIED.into_response() } else { file.data.into_response() };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // Browsers revalidate each time, because a newer daemon serves other files under the same names.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(ETAG, tag);
    }
    Some(response)
}

/// The console's own page: nobody may frame it, and it frames live views.
const CONSOLE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
                              media-src 'self' blob:; connect-src 'self'; frame-src 'self'; frame-ancestors 'none'; \
                              base-uri 'none'; form-action 'none'";

const PAGE: Policy =
    Policy::rest(Access::Open, &[Segment::new("id", "The key's id."), Segment::new("file", "The file's name.")])
        .of(Traffic::Console);

/// The pages, and the routes that serve only them.
pub(super) fn routes(routes: Routes) -> Routes {
    let api = PAGE.access(Access::Operator);
    let pages = [
        ("/console", get(async || Redirect::permanent("console/")), PAGE),
        ("/console/", get(page_of_console).layer(CompressionLayer::new()), PAGE.suggested()),
        ("/console/worlds", get(async || Redirect::permanent("./#/worlds")), PAGE.suggested()),
        (
            "/console/sign-in",
            get(sign_in::signed_in).post(sign_in::sign_in).delete(sign_in::sign_out),
            PAGE.of(Traffic::SignedIn),
        ),
        ("/console/api/overview", get(overview::show), api),
        ("/console/api/events", get(events::follow), api.takes::<EventTopics>()),
        ("/console/api/thumbnails", get(thumbnails::follow), api.takes::<ShownSessions>()),
        ("/console/api/log", get(log::show), api),
        ("/console/api/doctor", get(doctor::show), api),
        ("/console/api/worlds", get(worlds), api),
        ("/console/api/keys", get(keys::list).post(keys::create), api),
        ("/console/api/keys/{id}", delete(keys::revoke), api.takes::<KeyRemoval>()),
        ("/console/api/keys/{id}/rotate", post(keys::rotate), api),
        ("/console/{file}", get(file).layer(CompressionLayer::new()), PAGE),
    ];
    pages.into_iter().fold(routes, |routes, (path, handlers, policy)| routes.undescribed(path, handlers, policy))
}

/// `GET /console/`: every page of the console; the fragment of the URL names the page.
async fn page_of_console() -> Response {
    let mut response = page(StatusCode::OK, "console.html", &[]);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONSOLE_POLICY));
    response
}

/// `GET /console/api/worlds`: whether worlds can be made here, and how many are on their way.
async fn worlds(State(app): State<App>, _: Scope) -> Response {
    let (queued, rendering) = app.worlds.counts();
    let body = json!({
        "can_render": app.worlds.can_render().await,
        "image": app.config.world.image,
        "queued": queued,
        "rendering": rendering,
    });
    json_reply(StatusCode::OK, &body)
}

/// A page with its placeholders (`{{name}}`) filled in and escaped.
pub(super) fn page(status: StatusCode, name: &str, values: &[(&str, &str)]) -> Response {
    let mut text =
        Files::get(name).map_or_else(|| MISSING.to_owned(), |file| String::from_utf8_lossy(&file.data).into_owned());
    for (placeholder, value) in values {
        text = text.replace(&format!("{{{{{placeholder}}}}}"), &escaped(value));
    }
    html(status, text)
}

/// A script that is for other places than these pages.
pub(super) fn script(name: &str) -> Option<Cow<'static, str>> {
    match bytes(name)? {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    }
}

/// A compressed script that is for other places than these pages.
pub(super) fn bytes(name: &str) -> Option<Cow<'static, [u8]>> {
    Some(Files::get(name)?.data)
}

/// A page without placeholders, if there is one of this name.
pub(super) fn page_named(name: &str) -> Option<Response> {
    Some(html(StatusCode::OK, Files::get(name)?.data))
}

fn html(status: StatusCode, text: impl IntoResponse) -> Response {
    let mut response = (status, text).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // The address holds a secret.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Escapes text for attributes and for content.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '{' => safe.push_str("&#123;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_becomes_markup_or_another_placeholder() {
        assert_eq!(escaped("<\"'&>{{token}}"), "&lt;&quot;&#39;&amp;&gt;&#123;&#123;token}}");
    }
}
