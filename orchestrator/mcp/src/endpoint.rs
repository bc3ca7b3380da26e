//! MCP over HTTP: which MCP session a request is for, and who may reach it.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use tokio::time::Duration;

use crate::Error;
use crate::manager::{KeyManager, Owners};
use crate::mcp_session::McpSession;
use crate::places::Places;
use crate::server::McpServer;
use warmpool_config::Config;
use warmpool_core::drain::Drain;
use warmpool_core::error::ServiceError;
use warmpool_keys::{KeyId, Keys};
use warmpool_profiles::Profiles;
use warmpool_sessions::session::{Options, Session, Sessions, Share};
use warmpool_tasks::task::Tasks;

/// The header that names an MCP session.
const SESSION: &str = "mcp-session-id";
/// How long an answer is kept for a client whose connection broke.
const KEEP_ANSWERS: Duration = Duration::from_secs(30);

/// The endpoint: all MCP sessions.
#[derive(Clone)]
pub struct Mcp {
    pub(crate) inner: Arc<Inner>,
}

/// What the endpoint uses.
pub struct McpServices {
    /// The settings.
    pub config: Arc<Config>,
    /// Who may call.
    pub keys: Keys,
    /// Where browsers come from.
    pub sessions: Sessions,
    /// Where logins are kept.
    pub profiles: Profiles,
    /// Work in browsers of its own.
    pub tasks: Tasks,
    /// The daemon's end.
    pub drain: Drain,
}

pub(crate) struct Inner {
    pub(crate) config: Arc<Config>,
    pub(crate) keys: Keys,
    pub(crate) sessions: Sessions,
    pub(crate) profiles: Profiles,
    pub(crate) tasks: Tasks,
    pub(crate) drain: Drain,
    pub(crate) local: LocalSessionManager,
    pub(crate) owners: Owners,
    places: Places,
}

/// The address of a share link, as this client sees the service.
pub(crate) type ShareUrl = dyn Fn(&Session, &Share) -> String + Send + Sync;

/// Who sends a request.
pub struct Client {
    /// The key that the request carries.
    pub key: KeyId,
    /// What a browser of it is to be.
    pub options: Options,
    /// The address of a share link.
    pub share_url: Box<ShareUrl>,
}

impl Mcp {
    /// An endpoint without MCP sessions.
    #[must_use]
    pub fn new(services: McpServices) -> Self {
        let McpServices { config, keys, sessions, profiles, tasks, drain } = services;
        let mut local = LocalSessionManager::default();
        let mut settings = SessionConfig::default();
        // The MCP session itself knows whether it is idle.
        settings.keep_alive = None;
        settings.completed_cache_ttl = KEEP_ANSWERS;
        local.session_config = settings;
        let places = Places::new(config.mcp.max_sessions_per_key);
        let owners = Owners::default();
        Self { inner: Arc::new(Inner { config, keys, sessions, profiles, tasks, drain, local, owners, places }) }
    }

    /// Answers a request, whose caller and origin are checked.
    /// Errors: `UnknownSession`, `Limit`, `Refused`, and `Service` when the daemon goes down.
    pub async fn handle(
        &self,
        client: Client,
        request: Request<Full<Bytes>>,
        body: &[u8],
    ) -> Result<Response<BoxBody<Bytes, Infallible>>, Error> {
        let inner = &self.inner;
        let key = client.key.clone();
        let session = match request.headers().get(SESSION) {
            Some(id) => {
                let id = id.to_str().unwrap_or_default();
                let unknown = || Error::UnknownSession { id: id.chars().take(64).collect() };
                Some(inner.owners.session(&key, id).ok_or_else(unknown)?)
            }
            None if request.method() == Method::POST && begins(body) => {
                if inner.drain.phase() >= warmpool_core::drain::Phase::Draining {
                    return Err(ServiceError::Draining.into());
                }
                let place = inner.places.take(&key)?;
                Some(McpSession::new(Arc::clone(inner), client, place))
            }
            None => None,
        };
        if let Some(session) = &session {
            session.touch();
        }
        let manager = KeyManager::new(Arc::clone(inner), key, session.clone());
        // Host and Origin are checked for all routes.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(body.len().max(1));
        let factory = move || Ok(McpServer::new(session.clone()));
        let response = StreamableHttpService::new(factory, Arc::new(manager), config).handle(request).await;
        if is_refusal(&response) {
            let status = response.status();
            let message = response.into_body().collect().await.unwrap_or_else(|never| match never {}).to_bytes();
            return Err(Error::Refused { status, message: String::from_utf8_lossy(&message).into_owned() });
        }
        Ok(response)
    }
}

/// Whether the transport refuses a request by a line of text, in place of a message of MCP.
fn is_refusal(response: &Response<BoxBody<Bytes, Infallible>>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    response.status().is_client_error() && !kind.starts_with("application/json")
}

/// Whether a request begins an MCP session.
fn begins(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Message<'a> {
        method: Option<std::borrow::Cow<'a, str>>,
    }
    serde_json::from_slice::<Message<'_>>(body).is_ok_and(|message| message.method.as_deref() == Some("initialize"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_initialize_begins_a_session() {
        assert!(begins(br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#));
        for other in [&br#"{"method":"tools/list"}"#[..], b"[]", b"{", br#"{"method":1}"#, b""] {
            assert!(!begins(other));
        }
    }
}
