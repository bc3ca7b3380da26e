//! The MCP sessions, as one key sees them: those of others are not there.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::Stream;
use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::SessionId;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, LocalSessionManagerError};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionManager};
use warmpool_keys::KeyId;

use crate::endpoint::Inner;
use crate::mcp_session::McpSession;

/// Whose each MCP session is.
#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<HashMap<String, Owned>>);

#[derive(Debug)]
struct Owned {
    key: KeyId,
    session: Arc<McpSession>,
}

impl Owners {
    /// The MCP session of this id, if it is this key's.
    pub(crate) fn session(&self, key: &KeyId, id: &str) -> Option<Arc<McpSession>> {
        self.0.lock().get(id).filter(|owned| owned.key == *key).map(|owned| Arc::clone(&owned.session))
    }

    fn add(&self, id: &str, key: KeyId, session: Arc<McpSession>) {
        self.0.lock().insert(id.to_owned(), Owned { key, session });
    }

    fn remove(&self, id: &str) -> Option<Arc<McpSession>> {
        self.0.lock().remove(id).map(|owned| owned.session)
    }
}

/// The MCP sessions of one key.
pub(crate) struct KeyManager {
    inner: Arc<Inner>,
    key: KeyId,
    /// The MCP session that the request begins or is for.
    session: Option<Arc<McpSession>>,
}

impl KeyManager {
    pub(crate) const fn new(inner: Arc<Inner>, key: KeyId, session: Option<Arc<McpSession>>) -> Self {
        Self { inner, key, session }
    }

    fn check(&self, id: &SessionId) -> Result<(), LocalSessionManagerError> {
        let owned = self.inner.owners.session(&self.key, id);
        owned.map(drop).ok_or_else(|| LocalSessionManagerError::SessionNotFound(id.clone()))
    }
}

/// Ends an MCP session and frees its browser.
async fn close(inner: &Inner, id: &SessionId) -> Result<(), LocalSessionManagerError> {
    if let Some(session) = inner.owners.remove(id) {
        session.end();
    }
    inner.local.close_session(id).await
}

impl SessionManager for KeyManager {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.inner.local.create_session().await?;
        if let Some(session) = &self.session {
            self.inner.owners.add(&id, self.key.clone(), Arc::clone(session));
            let (inner, session, ended) = (Arc::clone(&self.inner), Arc::downgrade(session), id.clone());
            // Counted, so that the daemon's end waits for the browser's.
            self.inner.drain.spawn(async move {
                McpSession::wait_for_end(&inner, &session).await;
                let _ = close(&inner, &ended).await;
            });
        }
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.inner.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.check(id).is_ok() && self.inner.local.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        // Another way may have ended it before.
        if self.check(id).is_err() { Ok(()) } else { close(&self.inner, id).await }
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.check(id)?;
        self.inner.local.create_stream(id, message).await
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.check(id)?;
        self.inner.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.check(id)?;
        self.inner.local.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.check(id)?;
        self.inner.local.resume(id, last_event_id).await
    }
}
