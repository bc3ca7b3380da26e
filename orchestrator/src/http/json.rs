//! The browser's own HTTP addresses, as clients know them from a debugging port: `/json/version` and its kin. Asking for
//! a version makes no session; the websocket that it names does.

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{any, get};
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde_json::{Value, json};
use url::form_urlencoded;
use warmpool_protocol::{Launch, Settings};

use super::App;
use super::auth::{basic_parts, in_header, verify};
use super::base::Base;
use super::browserless::{PLAYWRIGHT, no_playwright};
use super::inspect;
use super::reply::json_reply;
use crate::dropin::browserless::read;
use crate::engine::{Engine, Mode, PoolKey};
use crate::error::Error;
use crate::keys::KeyId;
use crate::session::Session;
use crate::worker::{Worker, full};

/// No answer of a browser is longer, in bytes: its description of the protocol has some two million.
const REPLY_LIMIT: usize = 16 << 20;

/// All of them.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/json", get(root))
        .route("/json/", get(root))
        .route("/json/list", get(list))
        .route("/json/list/", get(list))
        .route("/json/version", get(version))
        .route("/json/version/", get(version))
        .route("/json/protocol", get(protocol))
        .route("/json/protocol/", get(protocol))
        .route("/json/new", any(needs_session))
        .route("/json/activate/{target}", any(needs_session))
        .route("/json/close/{target}", any(needs_session))
}

/// `GET /json`: whose answer is wanted depends on who asks.
async fn root(app: State<App>, base: Base, request: Request) -> Result<Response, Error> {
    if request.headers().contains_key(PLAYWRIGHT) {
        return Err(no_playwright());
    }
    list(app, base, request).await
}

/// `GET /json/version`: the browser's names, and the websocket that makes a session by being opened.
async fn version(State(app): State<App>, base: Base, request: Request) -> Result<Response, Error> {
    let text = request.uri().query().unwrap_or_default();
    let query = read(text, Engine::Chromium)?;
    verify(&app, request.headers(), query.token.as_deref())?;
    let known = app.known_snapshot(Engine::Chromium).unwrap_or_default().identity;
    let browser = known.browser.map(|name| name.replace("Chromium/", "Chrome/"));
    let mut next: String = text.to_owned();
    // Clients send their headers to the websocket too. What they said in the URL has to be in the next one.
    if query.token.is_none() && !in_header(request.headers()) {
        let key = basic_parts(request.headers()).into_iter().find(|key| app.keys.verify(key).is_some());
        let pair = form_urlencoded::Serializer::new(String::new())
            .append_pair("token", &key.ok_or(Error::MissingKey)?)
            .finish();
        next = if next.is_empty() { pair } else { format!("{next}&{pair}") };
    }
    let mark = if next.is_empty() { "" } else { "?" };
    let body = json!({
        "Browser": browser.unwrap_or_else(|| "Chrome".to_owned()),
        "Protocol-Version": "1.3",
        "User-Agent": known.user_agent,
        "webSocketDebuggerUrl": base.socket_url(&format!("/chromium{mark}{next}")),
    });
    Ok(json_reply(StatusCode::OK, &body))
}

/// `GET /json/list`: the pages of the session that the headers name, else the targets of the caller's Chromium
/// sessions, each with a websocket of its own.
async fn list(State(app): State<App>, base: Base, request: Request) -> Result<Response, Error> {
    if let Some(pages) = inspect::list(&app, &base, request.headers()).await {
        return pages;
    }
    let key = caller(&app, &request)?;
    let mut targets = Vec::new();
    for session in app.sessions.all_live() {
        if session.owner == key && session.options.engine == Engine::Chromium {
            let _busy = session.busy();
            // One whose browser ends meanwhile has no targets.
            let Ok(found) = ask(&session.worker, "/json/list").await else { continue };
            targets.extend(rewritten(&base, &session, found));
        }
    }
    Ok(json_reply(StatusCode::OK, &targets))
}

fn rewritten(base: &Base, session: &Session, targets: Value) -> Vec<Value> {
    let Value::Array(mut targets) = targets else { return Vec::new() };
    for target in &mut targets {
        let path = target["webSocketDebuggerUrl"].as_str().and_then(|url| url.split_once("/devtools/"));
        let url = path.map(|(_, path)| base.target_url(session, path));
        if let Some(target) = target.as_object_mut() {
            target.remove("devtoolsFrontendUrl");
            target.remove("webSocketDebuggerUrl");
            if let Some(url) = url {
                target.insert("webSocketDebuggerUrl".to_owned(), json!(url));
            }
            target.insert("sessionId".to_owned(), json!(session.id));
        }
    }
    targets
}

/// `GET /json/protocol`: the browser's description of DevTools. It is the same for all, so a browser is asked once.
async fn protocol(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let key = caller(&app, &request)?;
    let described = app.protocol.get_or_try_init(|| describe(&app, &key)).await?;
    Ok(json_reply(StatusCode::OK, &**described))
}

async fn describe(app: &App, key: &KeyId) -> Result<std::sync::Arc<Value>, Error> {
    let chromium = |session: &&std::sync::Arc<Session>| session.options.engine == Engine::Chromium;
    if let Some(session) = app.sessions.all_live().iter().find(chromium)
        && let Ok(found) = ask(&session.worker, "/json/protocol").await
    {
        return Ok(std::sync::Arc::new(found));
    }
    // Waiting browsers are frozen: one is woken for this, and goes.
    let mut lease = app.pool.lease(PoolKey::plain(Engine::Chromium, Mode::Headless), &Settings::default(), key).await?;
    app.keys.require(key)?;
    let worker = lease.use_worker();
    let failed = |error| Error::worker("the browser could not be asked for its protocol", error);
    worker.agent.launch(&Launch::default()).await.map_err(failed)?;
    ask(worker, "/json/protocol").await.map(std::sync::Arc::new)
}

/// What acts on a browser needs one.
async fn needs_session() -> Error {
    Error::NotSupported {
        field: "path".to_owned(),
        message: "no browser is shared here: open the websocket that `GET /json/version` names, and use `Target.createTarget`"
            .to_owned(),
    }
}

async fn ask(worker: &Worker, path: &str) -> Result<Value, Error> {
    let mut request = http::Request::new(full(Bytes::new()));
    *request.method_mut() = Method::GET;
    let failed = "the browser could not be asked";
    let response = worker.agent.send(path, request).await.map_err(|error| Error::worker(failed, error))?;
    let body = Limited::new(response.into_body(), REPLY_LIMIT).collect().await;
    let body = body.map_err(|error| Error::worker(failed, error))?.to_bytes();
    serde_json::from_slice(&body).map_err(|error| Error::worker(failed, error))
}

fn caller(app: &App, request: &Request) -> Result<KeyId, Error> {
    // What such a URL says of a session is for those who open one.
    let query = read(request.uri().query().unwrap_or_default(), Engine::Chromium)?;
    verify(app, request.headers(), query.token.as_deref())
}
