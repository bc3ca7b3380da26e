//! What the site has for calls on pages.

use axum::Router;
use axum::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;

/// A page that brews for a while, and says so by an element and an event.
const BREWING: &str = "<!doctype html><title>Brewing</title><h1 id=title>Sencha &amp; Co</h1>
<p class=tea data-grams=5>one</p><p class=tea>two</p><div style='height:3000px'></div>
<script>setTimeout(() => {
  document.body.insertAdjacentHTML('beforeend', '<p id=late>late</p>');
  document.dispatchEvent(new Event('brewed'));
}, 600)</script>";

/// A page that never comes to rest.
const RESTLESS: &str =
    "<!doctype html><title>Restless</title><script>setInterval(() => fetch('/api/data?' + Math.random()), 50)</script>";

/// A module that pages of any site may import.
const STEEP: &str = "export const steep = (minutes) => `steeped for ${minutes}`;";

/// A page that looks for what it could reach of whoever has opened it.
const HOSTILE: &str = "<!doctype html><title>Hostile</title><script>
const within = () => {
  if (parent === window) return null;
  try { return typeof parent.warmpoolSend; } catch (error) { return error.name; }
};
const report = () => ({ names: Object.getOwnPropertyNames(window).filter((name) => /warmpool/i.test(name)), parent: within() });
if (parent !== window) parent.postMessage(report(), '*');
</script>";

/// A page with faults that an audit names.
const FAULTY: &str =
    "<!doctype html><html lang=en><meta name=viewport content='width=device-width'><title>Faulty</title>
<script src=/steep.js type=module></script><h1>Tea</h1><p>Sencha is steamed after it was picked.
<p style='color: #aaa; background: #fff'>Oolong is not.</p><button></button><img src=/pot.png></html>";

pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/brewing", get(|| async { Html(BREWING) }))
        .route("/restless", get(|| async { Html(RESTLESS) }))
        .route("/faulty", get(|| async { Html(FAULTY) }))
        .route("/hostile", get(|| async { Html(HOSTILE) }))
        .route("/private", get(private))
        .route("/steep.js", get(steep))
}

async fn steep() -> Response {
    ([(CONTENT_TYPE, "text/javascript"), (ACCESS_CONTROL_ALLOW_ORIGIN, "*")], STEEP).into_response()
}

/// Who says `tea` and `pot` gets in.
async fn private(headers: HeaderMap) -> Response {
    let known = headers.get(AUTHORIZATION).is_some_and(|sent| sent == "Basic dGVhOnBvdA==");
    if known {
        return Html("<!doctype html><title>Private</title><h1>Come in</h1>").into_response();
    }
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Basic realm=tea")], "no").into_response()
}
