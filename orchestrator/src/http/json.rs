//! The browser's own HTTP addresses, as clients know them from a debugging port: `/json/version` and its kin. Asking for
//! a version makes no session; the websocket that it names does.

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{any, get};
use http::StatusCode;
use serde_json::{Value, json};
use url::form_urlencoded;

use super::App;
use super::auth::{basic_parts, in_header, verify};
use super::base::Base;
use super::browserless::{PLAYWRIGHT, no_playwright};
use super::inspect;
use super::reply::json_reply;
use crate::dropin::browserless::read;
use crate::engine::Engine;
use crate::error::Error;
use crate::keys::KeyId;
use crate::session::Session;

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
    let of_sessions = app.targets.of_owner(&key).await;
    let targets = of_sessions.into_iter().flat_map(|(session, targets)| rewritten(&base, &session, targets));
    let targets: Vec<Value> = targets.collect();
    Ok(json_reply(StatusCode::OK, &targets))
}

fn rewritten(base: &Base, session: &Session, mut targets: Vec<Value>) -> Vec<Value> {
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

/// `GET /json/protocol`: the browser's description of DevTools.
async fn protocol(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let key = caller(&app, &request)?;
    Ok(json_reply(StatusCode::OK, app.targets.protocol(&key).await?))
}

/// What acts on a browser needs one.
async fn needs_session() -> Error {
    let remedy = "open the websocket that `GET /json/version` names, and use `Target.createTarget`";
    Error::not_supported("path", format!("acts on a shared browser, and none is shared here: {remedy}"))
}

fn caller(app: &App, request: &Request) -> Result<KeyId, Error> {
    // What such a URL says of a session is for those who open one.
    let query = read(request.uri().query().unwrap_or_default(), Engine::Chromium)?;
    verify(app, request.headers(), query.token.as_deref())
}
