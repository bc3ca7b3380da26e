//! `/mcp`: the Model Context Protocol over HTTP, by which agents drive browsers of their own.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::Request;
use http::request::Parts;
use http_body_util::Full;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::App;
use super::auth::verify;
use super::body;
use super::openapi::{Access, AnyObject, EVENTS, Operation, Routes};
use super::pages::without_browser;
use super::public_url::PublicUrl;
use super::query::Query;
use super::route::{Policy, Traffic};
use crate::dropin::{CreateBody, browserless};
use crate::http::error::Error;
use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_core::error::{Code, FieldFault as _};
use warmpool_mcp::Client;
use warmpool_sessions::session::{Options, SessionKind};

/// What a query may say of the browser. `dropin::browserless` reads it, and refuses all else.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct McpQuery {
    /// A service key, where the client can set no header.
    token: Option<String>,
    /// The browser: Chromium where it is left out.
    browser: Option<Engine>,
    /// The profile with which the browser begins.
    profile: Option<String>,
    /// The same, which the browser's end saves as well.
    #[serde(rename = "userDataDir")]
    user_data_dir: Option<String>,
    /// Whether the browser has no display: `true` where it is left out.
    headless: Option<String>,
    /// `advanced.block_ads` of its session.
    #[serde(rename = "blockAds")]
    block_ads: Option<bool>,
    /// `app_name` of its session: 1 to 31 letters, digits, `-` or `_`.
    #[serde(rename = "trackingId")]
    tracking_id: Option<String>,
    /// `session_timeout` of its session, in milliseconds: `session.max_timeout` where it is left out.
    timeout: Option<u64>,
    /// The body of `POST /sessions/webdriver/create` as JSON, or that in base64, without `recording`.
    options: Option<String>,
}

/// Requests of MCP's clients.
const POLICY: Policy = Policy::rest(Access::Socket, &[]).takes_at_least::<McpQuery>().of(Traffic::Commands);

pub(super) fn routes() -> Routes {
    let operation = |id, summary| {
        Operation::new(id, summary, POLICY.suggested())
            .about(
                "The Model Context Protocol's transport over HTTP, for clients of that. An MCP session has a browser of its own, \
                 which comes with the first tool that needs it; the query says which. Only the key that began an MCP session \
                 reaches it.",
            )
            .header("mcp-session-id", "The MCP session; `initialize` begins one and answers its id.", json!({"type": "string"}))
            .fails(&[Code::UnknownMcpSession, Code::InvalidMcpRequest, Code::NotAcceptable, Code::UnsupportedMediaType])
    };
    Routes::new("MCP")
        .post(
            "/mcp",
            answer,
            operation("mcp_send", "Send a message of MCP")
                .reads::<AnyObject>(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
                .writes_text(EVENTS, "The answer, as an event.")
                .empty(202, "The message was taken, and has no answer.")
                .fails(&[Code::McpSessionLimit, Code::Draining]),
        )
        .get(
            "/mcp",
            answer,
            operation("mcp_listen", "Follow what a server of MCP says by itself").writes_text(EVENTS, "Events."),
        )
        .delete(
            "/mcp",
            answer,
            operation("mcp_end", "End an MCP session").empty(202, "It has ended, and its browser with it."),
        )
}

/// Hands a request to the endpoint.
async fn answer(
    State(app): State<App>,
    Query(query): Query<McpQuery>,
    base: PublicUrl,
    parts: Parts,
    body: Body,
) -> Result<Response, Error> {
    let key = verify(&app, &parts.headers, query.token.as_deref())?;
    let engine = query.browser.unwrap_or(Engine::Chromium);
    let asked = browserless::read(&without_browser(parts.uri.query().unwrap_or_default()), engine)?;
    if asked.session.is_some() || asked.session_id.is_some() {
        let name = if asked.session.is_some() { "session" } else { "sessionId" };
        return Err(Error::invalid(name, "cannot be given here: each MCP session has a browser of its own"));
    }
    let options = options(asked.create_body, &app.config)?;
    if options.recording {
        return Err(Error::invalid(
            "options.recording",
            "cannot be given here: browsers of MCP sessions are not recorded",
        ));
    }
    let most = app.config.mcp.max_body.bytes();
    let text = body::read(&app, body, most, "mcp.max_body").await?;
    let sessions = app.sessions.clone();
    let share_url =
        Box::new(move |session: &_, share: &_| base.share_url(session, share, &sessions.share_token(session, share)));
    let client = Client { key, options, share_url };
    let request = Request::from_parts(parts, Full::new(text.bytes()));
    let response = app.mcp.handle(client, request, &text).await?;
    Ok(response.map(Body::new))
}

/// What the browser of an MCP session is to be. It lasts as long as the MCP session may, unless the query says otherwise.
fn options(mut create_body: CreateBody, config: &Config) -> Result<Options, warmpool_sessions::Error> {
    create_body.set_default("session_timeout", json!(config.session.max_timeout.as_secs()));
    create_body.options(SessionKind::WebDriver, config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_config::{Flags, Host};

    #[test]
    fn a_browser_lasts_as_long_as_any_may_unless_the_query_says_otherwise() {
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Config::resolve(None, Vec::new(), &Flags::default(), &host).unwrap();
        for (query, seconds) in [("", 86_400), ("headless=false", 86_400), ("timeout=60000", 60), ("timeout=1", 1)] {
            let asked = browserless::read(query, Engine::Chromium).unwrap();
            assert_eq!(options(asked.create_body, &config).unwrap().session_timeout, seconds, "{query}");
        }
        let asked = browserless::read("timeout=86400001", Engine::Chromium).unwrap();
        assert!(options(asked.create_body, &config).is_err());
    }
}
