//! Pages with challenges, built as the widgets of their makers are, which report the answer that they get.

use std::sync::Arc;

use axum::Router;
use axum::extract::Query;
use axum::http::header::CONTENT_TYPE;
use axum::response::Html;
use axum::routing::get;
use serde::Deserialize;

use super::{Seen, report};

/// The characters of the picture at `/captcha-picture.svg`.
const PICTURE: &str = "<svg xmlns='http://www.w3.org/2000/svg' width='120' height='40'><text x='9' y='30' font-size='24'>k7Wq</text></svg>";

pub(super) fn routes() -> Router<Arc<Seen>> {
    let script = |text: &'static str| get(move || async move { ([(CONTENT_TYPE, "text/javascript")], text) });
    Router::new()
        .route("/captchas/{name}", get(page).post(report))
        .route("/captcha-picture.svg", get(|| async { ([(CONTENT_TYPE, "image/svg+xml")], PICTURE) }))
        .route("/recaptcha/api2/anchor", get(|| async { Html("<p>I'm not a robot") }))
        .route("/recaptcha/api.js", script("window.grecaptcha = {execute: async () => 'a score of its own'}"))
}

#[derive(Deserialize)]
struct Wanted {
    /// The kind of the challenge; or `explicit` for a widget that a script made, `framed` for one in a frame.
    kind: String,
    /// The site's key.
    #[serde(default)]
    key: String,
}

/// What every page has: it reports the answer, and whether it notices who gave it.
const REPORT: &str = "
const at = new URL(location).searchParams.get('to') ?? location.pathname;
const traces = () => Object.getOwnPropertyNames(window).filter(name => /captchas|warmpool/i.test(name));
window.solved = token => fetch(at, {
  method: 'POST', headers: {'content-type': 'application/json'}, body: JSON.stringify({token, traces: traces()}),
});
const poll = read => setInterval(async () => { const token = await read(); if (token) window.solved(token); }, 100);
";

async fn page(Query(Wanted { kind, key }): Query<Wanted>) -> Html<String> {
    let body = match kind.as_str() {
        "recaptcha_v2" => format!(
            "<form><div class=g-recaptcha data-sitekey='{key}' data-callback=solved>\
             <textarea name=g-recaptcha-response hidden></textarea></div></form>"
        ),
        "explicit" => format!(
            "<div id=widget><iframe src='/recaptcha/api2/anchor?k={key}&size=normal'></iframe>\
             <textarea name=g-recaptcha-response hidden></textarea></div>\
             <script>window.___grecaptcha_cfg = {{clients: {{0: {{X: {{Y: {{sitekey: '{key}', callback: token => solved(token)}}}}}}}}}}</script>"
        ),
        "recaptcha_v3" => format!(
            "<script src='/recaptcha/api.js?render={key}'></script>\
             <script>poll(async () => {{ const token = await grecaptcha.execute('{key}', {{action: 'login'}}); \
             return token.startsWith('a score') ? '' : token; }})</script>"
        ),
        "hcaptcha" => format!(
            "<form><div class=h-captcha data-sitekey='{key}'><textarea name=h-captcha-response hidden></textarea></div></form>\
             <script>poll(() => document.querySelector('textarea').value)</script>"
        ),
        "turnstile" => format!(
            "<form><div class=cf-turnstile data-sitekey='{key}' data-action=login data-callback=solved>\
             <input type=hidden name=cf-turnstile-response></div></form>"
        ),
        "image" => "<form><img alt=captcha src=/captcha-picture.svg><input name=captcha_code></form>\
             <script>poll(() => document.querySelector('input').value)</script>"
            .to_owned(),
        "framed" => format!(
            "<script>document.write(`<iframe src='/captchas/frame?kind=hcaptcha&key={key}&to=${{location.pathname}}'></iframe>`)</script>"
        ),
        _ => String::new(),
    };
    Html(format!("<!doctype html><title>{kind}</title><script>{REPORT}</script><h1>Prove it</h1>{body}"))
}
