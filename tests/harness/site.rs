//! The web site that the browsers under test visit.
//!
//! One server for the whole test binary, on every address of the host; browsers have one that is not loopback
//! ([`host_address`](crate::host_address)). It records all requests, so a test can learn what a browser did without
//! speaking to that browser.

mod ads;
mod calls;
mod captchas;
mod pages;
pub mod tasks;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Size of the page at `/blob` that a client reads in one piece, in bytes.
pub const BLOB_BYTES: usize = 16 << 20;

/// One request that the site has seen.
#[derive(Clone, Debug)]
pub struct SeenRequest {
    /// The method and the path with the query, as in `GET /search?q=tea`.
    pub line: String,
    /// Path without the query.
    pub path: String,
    /// Header names in lower case with their values.
    pub headers: BTreeMap<String, String>,
}

#[derive(Default)]
struct Seen {
    hits: Mutex<Vec<SeenRequest>>,
    reports: Mutex<BTreeMap<String, Value>>,
}

/// The running site; it stops when this is dropped.
pub struct Site {
    port: u16,
    seen: Arc<Seen>,
    server: tokio::task::JoinHandle<()>,
}

impl Site {
    /// Starts the site on a free port of every address.
    pub async fn start() -> Result<Self> {
        let seen = Arc::new(Seen::default());
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.context("test site")?;
        let port = listener.local_addr()?.port();
        let app = routes(Arc::clone(&seen));
        let server = tokio::spawn(async move {
            // The listener lives as long as the task, so serving ends only by abort.
            let _ = axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await;
        });
        Ok(Self { port, seen, server })
    }

    /// The site's address as seen from `host`, a name or address of this machine; no slash at the end.
    #[must_use]
    pub fn url(&self, host: &str) -> String {
        format!("http://{host}:{}", self.port)
    }

    /// Forgets all requests and reports: each try of a case begins without any.
    pub(crate) fn forget(&self) {
        self.seen.hits.lock().clear();
        self.seen.reports.lock().clear();
    }

    /// Every request so far for exactly this path.
    #[must_use]
    pub fn hits(&self, path: &str) -> Vec<SeenRequest> {
        let hits = self.seen.hits.lock();
        hits.iter().filter(|hit| hit.path == path).cloned().collect()
    }

    /// Every request so far of the browser that calls itself `agent`, in order, but for a site's icon, which browsers ask
    /// for when they like.
    #[must_use]
    pub fn requests_of(&self, agent: &str) -> Vec<String> {
        let hits = self.seen.hits.lock();
        let its = |hit: &&SeenRequest| hit.headers.get("user-agent").is_some_and(|sent| sent == agent);
        hits.iter().filter(its).filter(|hit| hit.path != "/favicon.ico").map(|hit| hit.line.clone()).collect()
    }

    /// What the page `/probe/<name>` found out about its browser, once it has reported.
    #[must_use]
    pub fn report(&self, name: &str) -> Option<Value> {
        self.seen.reports.lock().get(name).cloned()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn routes(seen: Arc<Seen>) -> Router {
    Router::new()
        .route("/", get(|| async { Html(pages::INDEX) }))
        .route("/length", post(|body: Bytes| async move { body.len().to_string() }).layer(DefaultBodyLimit::disable()))
        .route(
            "/robots.txt",
            get(|| async { "User-agent: *\nDisallow: /tab/\n\nUser-agent: TeaBot\nDisallow: /brewing\n" }),
        )
        .route("/form", get(|| async { Html(pages::FORM) }).post(echo_form))
        .route("/unpainted", get(|| async { Html(pages::UNPAINTED) }))
        .route("/button", get(|| async { Html(pages::BUTTON) }))
        .route("/agent", get(|| async { Html(pages::AGENT) }))
        .route("/popup", get(|| async { Html(pages::POPUP) }))
        .route("/child", get(|| async { Html(pages::CHILD) }))
        .route("/tab/{number}", get(tab))
        .route("/upload", get(|| async { Html(pages::UPLOAD) }).post(echo_upload))
        .route("/downloads", get(downloads))
        .route("/file.bin", get(file))
        .route("/cookies", get(echo_cookies))
        .route("/cookies/set", get(set_cookie))
        .route("/console", get(|| async { Html(pages::CONSOLE) }))
        .route("/fetch", get(|| async { Html(pages::FETCH) }))
        .route("/api/data", get(|| async { axum::Json(json!({"from": "site"})) }))
        .route("/pixel.png", get(pixel))
        .route("/headers", get(echo_headers))
        .route("/probe/{name}", get(|| async { Html(pages::PROBE) }).post(report))
        .route("/input/{name}", get(|| async { Html(pages::INPUT) }).post(report))
        .route("/reported/{name}", get(reported))
        .route("/ports/{name}", get(|| async { Html(pages::PORTS) }).post(report))
        .route("/permitted/{name}", get(|| async { Html(pages::PERMITTED) }).post(report))
        .route("/frame", get(|| async { Html(pages::FRAME) }))
        .route("/worker.js", get(|| async { ([(CONTENT_TYPE, "text/javascript")], pages::WORKER) }))
        .route("/shared-worker.js", get(|| async { ([(CONTENT_TYPE, "text/javascript")], pages::SHARED_WORKER) }))
        .route("/service-worker.js", get(|| async { ([(CONTENT_TYPE, "text/javascript")], pages::SERVICE_WORKER) }))
        .route("/animation", get(|| async { Html(pages::ANIMATION) }))
        .route("/hog", get(|| async { Html(pages::HOG) }))
        .route("/blob", get(|| async { Html(pages::BLOB) }))
        .route("/paint", get(|| async { Html(pages::PAINT) }))
        .route("/turn", get(|| async { Html(pages::TURN) }))
        .route("/dialogs", get(|| async { Html(pages::DIALOGS) }))
        .route("/slow", get(slow))
        .route("/redirect", get(redirect))
        .route("/left", get(|| async { Html(pages::LEFT) }))
        .route("/kept", get(|| async { ([(CACHE_CONTROL, "max-age=3600")], "kept") }))
        .merge(ads::routes())
        .merge(calls::routes())
        .merge(captchas::routes())
        .merge(tasks::routes())
        .layer(middleware::from_fn_with_state(Arc::clone(&seen), write_down))
        .with_state(seen)
}

async fn write_down(State(seen): State<Arc<Seen>>, request: Request, next: Next) -> Response {
    let line = format!("{} {}", request.method(), request.uri());
    let hit = SeenRequest { line, path: request.uri().path().to_owned(), headers: plain(request.headers()) };
    seen.hits.lock().push(hit);
    next.run(request).await
}

fn plain(headers: &HeaderMap) -> BTreeMap<String, String> {
    headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect()
}

/// A page whose `#echo` holds the value as JSON text.
fn echo(value: &Value) -> Html<String> {
    let text = value.to_string().replace('&', "&amp;").replace('<', "&lt;");
    Html(format!("<!doctype html><title>Echo</title><pre id=echo>{text}</pre>"))
}

async fn echo_form(body: String) -> Html<String> {
    let fields: serde_json::Map<String, Value> = body
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), Value::from(value.replace('+', " "))))
        .collect();
    echo(&Value::Object(fields))
}

/// Returns the name, size and SHA-256 of the one file in a multipart body.
async fn echo_upload(body: Bytes) -> Response {
    match one_part(&body) {
        Some((name, bytes)) => {
            echo(&json!({"name": name, "size": bytes.len(), "sha256": sha256(bytes)})).into_response()
        }
        None => (StatusCode::BAD_REQUEST, "no file in the body").into_response(),
    }
}

/// The first part of a multipart body: its file name and its bytes.
fn one_part(body: &[u8]) -> Option<(String, &[u8])> {
    let find = |within: &[u8], what: &[u8]| within.windows(what.len()).position(|window| window == what);
    let boundary = &body[..find(body, b"\r\n")?];
    let head_end = find(body, b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&body[..head_end]).into_owned();
    let name = head.split("filename=\"").nth(1)?.split('"').next()?.to_owned();
    let content = &body[head_end + 4..];
    let end = content.windows(boundary.len()).rposition(|window| window == boundary)?;
    // Walk back to the part's own end: the closing boundary is the last one of a body with one part.
    Some((name, &content[..end.checked_sub(2)?]))
}

async fn tab(Path(number): Path<u32>) -> Html<String> {
    Html(format!("<!doctype html><title>Tab {number}</title><h1>Tab {number}</h1>"))
}

/// The bytes of `/file.bin`, and their SHA-256. Made once: without optimisation, hashes take long.
static FILE: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..9375_u32).flat_map(|at| Sha256::digest(at.to_be_bytes()).to_vec()).collect());
static FILE_SHA256: LazyLock<String> = LazyLock::new(|| sha256(&FILE));

/// The bytes of `/file.bin`: the same on each run, and not compressible to nothing.
#[must_use]
pub fn file_bytes() -> &'static [u8] {
    &FILE
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

async fn downloads() -> Html<String> {
    Html(format!(
        "<!doctype html><title>Downloads</title><a id=file href=/file.bin>file</a><p id=sha256>{}</p>",
        FILE_SHA256.as_str()
    ))
}

async fn file() -> impl IntoResponse {
    let head = [(CONTENT_TYPE, "application/octet-stream"), (CONTENT_DISPOSITION, "attachment; filename=file.bin")];
    (head, file_bytes())
}

async fn set_cookie(Query(pairs): Query<BTreeMap<String, String>>) -> Response {
    let mut reply = (StatusCode::SEE_OTHER, [(LOCATION, "/cookies")]).into_response();
    for (name, value) in pairs {
        if let Ok(cookie) = format!("{name}={value}; Path=/").parse() {
            reply.headers_mut().append(SET_COOKIE, cookie);
        }
    }
    reply
}

async fn echo_cookies(headers: HeaderMap) -> Html<String> {
    let pairs: serde_json::Map<String, Value> = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split("; "))
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect();
    echo(&Value::Object(pairs))
}

async fn echo_headers(headers: HeaderMap) -> impl IntoResponse {
    ([(CACHE_CONTROL, "no-store")], axum::Json(plain(&headers)))
}

async fn reported(State(seen): State<Arc<Seen>>, Path(name): Path<String>) -> Response {
    let reports = seen.reports.lock();
    reports
        .get(&name)
        .map_or_else(|| StatusCode::NOT_FOUND.into_response(), |report| axum::Json(report).into_response())
}

async fn report(State(seen): State<Arc<Seen>>, Path(name): Path<String>, axum::Json(value): axum::Json<Value>) {
    seen.reports.lock().insert(name, value);
}

async fn pixel() -> impl IntoResponse {
    ([(CONTENT_TYPE, "image/svg+xml")], "<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/>")
}

async fn redirect(Query(query): Query<BTreeMap<String, String>>) -> Response {
    let to = query.get("to").map_or("/", String::as_str);
    (StatusCode::FOUND, [(LOCATION, to.to_owned())]).into_response()
}

/// Answers after `?ms=` milliseconds: the page itself is slow, nothing waits for it here.
async fn slow(Query(query): Query<BTreeMap<String, u64>>) -> Html<&'static str> {
    let pause = Duration::from_millis(query.get("ms").copied().unwrap_or(2000));
    let _ = tokio::time::timeout(pause, std::future::pending::<()>()).await;
    Html("<!doctype html><title>Slow</title><h1>At last</h1>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_with_its_name_and_bytes() {
        let body =
            b"--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a b.txt\"\r\n\r\nx\r\n--by\r\n--b--\r\n";
        assert_eq!(one_part(body), Some(("a b.txt".to_owned(), &b"x\r\n--by"[..])));
    }
}
