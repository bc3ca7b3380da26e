//! A page with slots for ads, which reports again and again what has become of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::Query;
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;

use super::{Seen, pixel, report};

pub(super) fn routes() -> Router<Arc<Seen>> {
    let script = |text: &'static str| get(move || async move { ([(CONTENT_TYPE, "text/javascript")], text) });
    Router::new()
        .route("/ad-slot/show.js", script("window.shown = true"))
        .route("/ad-slot/needed.js", script("window.needed = true"))
        .route(
            "/ad-slot/worker.js",
            script("fetch('/ad-slot/data').then(r => postMessage(r.ok), () => postMessage(false))"),
        )
        .route("/ad-slot/data", get(|| async { "data" }))
        .route("/ad-slot/banner.png", get(pixel))
        .route("/ad-slot/frame", get(|| async { Html(FRAME) }))
        .route("/ads/{name}", get(|| async { Html(PAGE) }).post(report))
        // The same with addresses that EasyList itself blocks.
        .route("/easylist/{name}", get(|| async { Html(of_easylist(PAGE)) }).post(report))
        .route("/easylist-needed.js", script("window.needed = true"))
        .route("/easylist-worker.js", script(WORKER_OF_EASYLIST))
        .route("/ads/banners/1.png", get(pixel))
        .route("/ads", get(ad_of_easylist))
}

/// What the page has, and the same as EasyList blocks or hides it, unless it is needed.
const OF_EASYLIST: [(&str, &str); 9] = [
    ("/ad-slot/show.js", "/ads?client=script"),
    ("/ad-slot/needed.js", "/easylist-needed.js"),
    ("/ad-slot/banner.png", "/ads/banners/1.png"),
    ("/ad-slot/data", "/ads?client=data"),
    ("/ad-slot/worker.js", "/easylist-worker.js"),
    ("/ad-slot/frame", "/ads?client=frame"),
    ("ad-banner", "ad-leaderboard"),
    ("data-sponsor", "data-ad-manager-id"),
    ("ad-late", "ad-sidebar"),
];
const WORKER_OF_EASYLIST: &str = "fetch('/ads?client=data').then(r => postMessage(r.ok), () => postMessage(false))";
const FRAME: &str = "<script>parent.postMessage('frame', '*')</script>";

fn of_easylist(page: &str) -> String {
    OF_EASYLIST.iter().fold(page.to_owned(), |page, (own, of_easylist)| page.replace(own, of_easylist))
}

async fn ad_of_easylist(Query(query): Query<BTreeMap<String, String>>) -> Response {
    match query.get("client").map(String::as_str) {
        Some("script") => ([(CONTENT_TYPE, "text/javascript")], "window.shown = true").into_response(),
        Some("frame") => Html(FRAME).into_response(),
        _ => "data".into_response(),
    }
}

const PAGE: &str = r#"<!doctype html><title>Ads</title>
<p class=ad-banner>buy</p><p data-sponsor>buy</p><p id=story>text</p>
<script src=/ad-slot/show.js></script>
<script src=/ad-slot/needed.js></script>
<script>
const seen = {frame: false, rounds: 0};
addEventListener('message', ({data}) => { if (data === 'frame') seen.frame = true; });
const image = Object.assign(new Image(), {onload: () => { seen.image = true; }, onerror: () => { seen.image = false; }});
image.src = '/ad-slot/banner.png';
fetch('/ad-slot/data').then(r => { seen.data = r.ok; }, () => { seen.data = false; });
new Worker('/ad-slot/worker.js').onmessage = ({data}) => { seen.worker = data; };
const shown = selector => getComputedStyle(document.querySelector(selector)).display !== 'none';
async function report() {
  if (seen.rounds === 1) document.body.insertAdjacentHTML('beforeend', '<p class=ad-late>buy</p>');
  seen.rounds += 1;
  Object.assign(seen, {
    script: window.shown === true, needed: window.needed === true,
    banner: shown('.ad-banner'), sponsor: shown('[data-sponsor]'), story: shown('#story'),
    late: seen.rounds > 1 ? shown('.ad-late') : null,
  });
  await fetch(location.pathname, {
    method: 'POST', headers: {'content-type': 'application/json'}, body: JSON.stringify(seen),
  }).catch(() => {});
  setTimeout(report, 100);
}
addEventListener('load', report);
</script>
<iframe src=/ad-slot/frame></iframe>"#;
