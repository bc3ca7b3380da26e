//! A service that solves challenges by 2Captcha's documented protocol, and one that receives webhooks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The key of the one account.
pub const ACCOUNT: &str = "0123456789abcdef-account";

/// The requests of either service.
#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<(HeaderMap, Value)>>,
    refuses: AtomicBool,
}

/// A running service; it stops when this is dropped.
pub struct Service {
    address: SocketAddr,
    seen: Arc<Seen>,
    server: JoinHandle<()>,
}

impl Service {
    /// A solver. The site's key decides the outcome of a task: `wrong`, `poor`, `unsolvable`, `slow` and `garbage` name
    /// faults, and any other is solved at the second poll.
    pub async fn solver() -> Result<Self> {
        Self::start(Router::new().route("/{method}", post(solve))).await
    }

    /// A receiver of webhooks. It refuses the first message until it is sent again.
    pub async fn webhook() -> Result<Self> {
        Self::start(Router::new().route("/{method}", post(take))).await
    }

    async fn start(routes: Router<Arc<Seen>>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, seen) = (listener.local_addr()?, Arc::<Seen>::default());
        let routes = routes.with_state(Arc::clone(&seen));
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { address, seen, server })
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Whether a receiver of webhooks refuses every message from now on.
    pub fn refuse(&self, refuses: bool) {
        self.seen.refuses.store(refuses, Ordering::Relaxed);
    }

    /// The requests so far: their headers and bodies.
    #[must_use]
    pub fn requests(&self) -> Vec<(HeaderMap, Value)> {
        self.seen.requests.lock().clone()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn take(State(seen): State<Arc<Seen>>, headers: HeaderMap, body: Bytes) -> http::StatusCode {
    let mut requests = seen.requests.lock();
    // Kept as the text that was signed.
    requests.push((headers, Value::from(String::from_utf8_lossy(&body).into_owned())));
    if requests.len() == 1 || seen.refuses.load(Ordering::Relaxed) {
        http::StatusCode::SERVICE_UNAVAILABLE
    } else {
        http::StatusCode::NO_CONTENT
    }
}

async fn solve(State(seen): State<Arc<Seen>>, Path(method): Path<String>, headers: HeaderMap, body: Bytes) -> Response {
    let error = |code: &str| axum::Json(json!({"errorId": 1, "errorCode": code})).into_response();
    let Ok(asked) = serde_json::from_slice::<Value>(&body) else { return error("ERROR_BAD_PARAMETERS") };
    let mut requests = seen.requests.lock();
    requests.push((headers, asked.clone()));
    if asked["clientKey"] != ACCOUNT {
        return error("ERROR_KEY_DOES_NOT_EXIST");
    }
    if method == "createTask" {
        let task = &asked["task"];
        let name = task["type"].as_str().unwrap_or_default();
        let known = ["RecaptchaV2", "RecaptchaV3", "HCaptcha", "Turnstile"];
        let fits = known.iter().any(|known| name == format!("{known}TaskProxyless"))
            && task["websiteURL"].as_str().is_some_and(|url| url.starts_with("http"));
        let is_picture = name == "ImageToTextTask" && task["body"].is_string();
        if !fits && !is_picture {
            return error("ERROR_TASK_NOT_SUPPORTED");
        }
        return match task["websiteKey"].as_str() {
            Some("wrong") => error("ERROR_KEY_DOES_NOT_EXIST"),
            Some("poor") => error("ERROR_ZERO_BALANCE"),
            Some("garbage") => "<html>It works!</html>".into_response(),
            _ => axum::Json(json!({"errorId": 0, "taskId": requests.len()})).into_response(),
        };
    }
    let created = asked["taskId"].as_u64().and_then(|id| requests.get(usize::try_from(id).ok()?.checked_sub(1)?));
    let Some((_, created)) = created else { return error("ERROR_NO_SUCH_CAPCHA_ID") };
    let key = created["task"]["websiteKey"].as_str();
    let asked_before = requests.iter().filter(|(_, other)| other["taskId"] == asked["taskId"]).count() > 1;
    let solution = match key {
        Some("unsolvable") => return error("ERROR_CAPTCHA_UNSOLVABLE"),
        Some(key) => json!({"token": format!("token-for-{key}"), "gRecaptchaResponse": format!("token-for-{key}")}),
        None => json!({"text": "k7Wq"}),
    };
    let is_ready = asked_before && key != Some("slow");
    let reply = if is_ready {
        json!({"errorId": 0, "status": "ready", "solution": solution, "cost": "0.00299"})
    } else {
        json!({"errorId": 0, "status": "processing"})
    };
    axum::Json(reply).into_response()
}
