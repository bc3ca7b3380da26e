//! The browser's own HTTP addresses, as clients know them from a debugging port: `/json/version` and its kin. Asking for
//! a version makes no session; the websocket that it names does.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{any, get};
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use url::form_urlencoded;

use super::App;
use super::auth::{KeyToken, basic_parts, in_header, verify};
use super::browserless::{PLAYWRIGHT, no_playwright};
use super::create;
use super::devtools::TARGET;
use super::inspect;
use super::openapi::{Access, AnyObject, Operation, Routes};
use super::public_url::PublicUrl;
use super::reply::json_reply;
use super::route::Policy;
use crate::dropin::browserless::read;
use crate::http::error::Error;
use warmpool_core::browser::{Engine, Mode};
use warmpool_core::error::{Code, FieldFault as _};
use warmpool_keys::KeyId;
use warmpool_protocol::Identity;
use warmpool_sessions::session::{Options, Session};
use warmpool_sessions::targets::Targets;

const POLICY: Policy = Policy::rest(Access::Socket, &[TARGET]).takes_at_least::<KeyToken>();

pub(super) fn routes() -> Routes {
    let list_operation = |id, summary| {
        Operation::new(id, summary, POLICY)
            .about(
                "The targets of the caller's Chromium sessions, each with a websocket of its own. With the `connect_headers` of \
                 a WebKit session, the pages of that session.",
            )
            .writes::<Vec<AnyObject>>("The targets.")
            .fails(&[Code::InvalidToken, Code::NotSupported, Code::UnknownSession, Code::SessionEnded, Code::RuntimeDown, Code::Starting])
            .fails(&[Code::WorkerFailed, Code::WorkerTimeout])
    };
    let refusal = POLICY.takes_anything();
    Routes::new("browserless")
        .get("/json", root, list_operation("list_targets_at_root", "List targets, under another path"))
        .get("/json/list", list, list_operation("list_targets", "List targets"))
        .get(
            "/json/version",
            version,
            Operation::new(
                "get_version",
                "The browser's names, and a websocket that makes a session",
                POLICY.suggested(),
            )
            .writes::<Version>("What clients of a debugging port ask first.")
            .fails(&[Code::NotSupported]),
        )
        .get(
            "/json/protocol",
            protocol,
            Operation::new("get_protocol", "The browser's description of DevTools", POLICY.access(Access::Open))
                .writes::<AnyObject>("The description.")
                .fails(create::FAILURES),
        )
        .undescribed("/json/", get(root), POLICY)
        .undescribed("/json/list/", get(list), POLICY)
        .undescribed("/json/version/", get(version), POLICY)
        .undescribed("/json/protocol/", get(protocol), POLICY)
        .undescribed("/json/new", any(needs_session), refusal)
        .undescribed("/json/activate/{target}", any(needs_session), refusal)
        .undescribed("/json/close/{target}", any(needs_session), refusal)
}

/// A debugging port's description of its browser.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BrowserVersion")]
struct Version {
    #[serde(rename = "Browser")]
    browser: String,
    #[serde(rename = "Protocol-Version")]
    protocol_version: &'static str,
    /// Null while no browser is at hand.
    #[serde(rename = "User-Agent")]
    user_agent: Option<String>,
    /// It makes a session by being opened.
    #[serde(rename = "webSocketDebuggerUrl")]
    websocket_url: String,
}

impl Version {
    fn of(browser: Identity, websocket_url: String) -> Self {
        Self {
            browser: browser.browser.unwrap_or_else(|| "Chrome".to_owned()),
            protocol_version: "1.3",
            user_agent: browser.user_agent,
            websocket_url,
        }
    }
}

/// `GET /json`: the answer depends on the client.
async fn root(app: State<App>, base: PublicUrl, request: Request) -> Result<Response, Error> {
    if request.headers().contains_key(PLAYWRIGHT) {
        return Err(no_playwright());
    }
    list(app, base, request).await
}

/// `GET /json/version`: the browser's names, and the websocket that makes a session by being opened.
async fn version(State(app): State<App>, base: PublicUrl, request: Request) -> Result<Response, Error> {
    let text = request.uri().query().unwrap_or_default();
    let query = read(text, Engine::Chromium)?;
    let caller = match verify(&app, request.headers(), query.token.as_deref()) {
        Ok(caller) => caller,
        Err(refused) => {
            let session = opened_by(&app, query.token.as_deref()).await.ok_or(refused)?;
            let url = base.websocket_url(&session);
            return Ok(json_reply(StatusCode::OK, &Version::of(identity(&session), url)));
        }
    };
    let described = described(&app, &caller, &query.options(&app.config)?);
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
    let url = base.socket_url(&format!("/chromium{mark}{next}"));
    Ok(json_reply(StatusCode::OK, &Version::of(described, url)))
}

/// The session whose own token this is. Clients that were given its websocket ask at its host first, and keep nothing of the URL
/// but the token.
async fn opened_by(app: &App, token: Option<&str>) -> Option<Arc<Session>> {
    app.sessions.opened_by(token?).await
}

/// How the browser of a session names itself.
fn identity(session: &Session) -> Identity {
    let known = in_mode(session.worker.snapshot.borrow().identity.clone(), session.options.mode);
    let chosen = session.options.launch.settings.user_agent.clone();
    Identity { user_agent: chosen.or(known.user_agent), ..known }
}

/// The browser that the websocket of these options leads to: that of the session that it joins, or of the worker that is handed
/// out next.
fn described(app: &App, caller: &KeyId, options: &Options) -> Identity {
    if let Some(session) = options.name.as_deref().and_then(|name| app.sessions.named(caller, name)) {
        return identity(&session);
    }
    let next = || app.pool.next_snapshot(options.wanted(&app.keys.egress(caller).trust()));
    // While none is warm, another one: it is of the same image, most likely.
    let known = || next().or_else(|| app.known_snapshot(options.engine)).unwrap_or_default().identity;
    let identity = in_mode(known(), options.mode);
    let chosen = options.launch.settings.user_agent.clone();
    Identity { user_agent: chosen.or(identity.user_agent), ..identity }
}

/// How a Chromium names itself with a display, or without. Its product is the same.
fn in_mode(known: Identity, mode: Mode) -> Identity {
    let product = if mode == Mode::Headless { "HeadlessChrome/" } else { "Chrome/" };
    let renamed = |text: String| text.replace("HeadlessChrome/", "Chrome/").replace("Chrome/", product);
    Identity {
        browser: known.browser.map(|name| name.replace("Chromium/", "Chrome/")),
        user_agent: known.user_agent.map(renamed),
        ..known
    }
}

/// `GET /json/list`: the pages of the session that the headers name, else the targets of the caller's Chromium
/// sessions, or of the one that is named, each with a websocket of its own.
async fn list(State(app): State<App>, base: PublicUrl, request: Request) -> Result<Response, Error> {
    if let Some(pages) = inspect::list(&app, &base, request.headers()).await {
        return pages;
    }
    // Only the name in such a URL distinguishes sessions.
    let query = read(request.uri().query().unwrap_or_default(), Engine::Chromium)?;
    let key = match verify(&app, request.headers(), query.token.as_deref()) {
        Ok(key) => key,
        Err(refused) => {
            let session = opened_by(&app, query.token.as_deref()).await.ok_or(refused)?;
            let targets = rewritten(&base, &session, Targets::of_session(&session).await?);
            return Ok(json_reply(StatusCode::OK, &targets));
        }
    };
    let mut of_sessions = app.targets.of_owner(&key).await;
    if query.session.is_some() {
        of_sessions.retain(|(session, _)| session.options.name == query.session);
    }
    let targets = of_sessions.into_iter().flat_map(|(session, targets)| rewritten(&base, &session, targets));
    let targets: Vec<Value> = targets.collect();
    Ok(json_reply(StatusCode::OK, &targets))
}

fn rewritten(base: &PublicUrl, session: &Session, mut targets: Vec<Value>) -> Vec<Value> {
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

/// `GET /json/protocol`: the browser's description of DevTools, which is the same for everybody. Clients ask for it before
/// they connect, and without the key.
async fn protocol(State(app): State<App>, request: Request) -> Result<Response, Error> {
    read(request.uri().query().unwrap_or_default(), Engine::Chromium)?;
    Ok(json_reply(StatusCode::OK, app.targets.protocol().await?))
}

/// What acts on a browser needs one.
async fn needs_session() -> Error {
    let remedy = "open the websocket that `GET /json/version` names, and use `Target.createTarget`";
    Error::not_supported("path", format!("acts on a shared browser, and none is shared here: {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_named_as_the_websocket_will_have_it() {
        let known = |user_agent: &str| Identity {
            browser: Some("Chromium/130.0.1.2".to_owned()),
            user_agent: Some(user_agent.to_owned()),
            ..Identity::default()
        };
        for of in ["X Chrome/130.0.0.0 Safari", "X HeadlessChrome/130.0.0.0 Safari"] {
            let headless = in_mode(known(of), Mode::Headless);
            assert_eq!(headless.browser.as_deref(), Some("Chrome/130.0.1.2"));
            assert_eq!(headless.user_agent.as_deref(), Some("X HeadlessChrome/130.0.0.0 Safari"));
            let headed = in_mode(known(of), Mode::Headed);
            assert_eq!(headed.browser.as_deref(), Some("Chrome/130.0.1.2"));
            assert_eq!(headed.user_agent.as_deref(), Some("X Chrome/130.0.0.0 Safari"));
        }
    }
}
