//! Which way the connections of a session go: its own, an upstream's, or that of a proxy which its WebDriver client named.

use std::sync::Arc;

use super::{Options, Session, Sessions};
use crate::Error;
use warmpool_core::cipher::Cipher;
use warmpool_core::ids::SessionId;
use warmpool_store::carry_out;
use warmpool_workers::egress::{ClientProxy, WantedRoute};

impl Sessions {
    /// Sends the connections of a session through the proxy that its WebDriver client names now, or the way they went before an
    /// earlier attempt named one. Returns once the store knows it for good: neither a restart nor an older backup forgets it.
    /// Errors: `DiskNearlyFull`, `StoreBusy`.
    pub(crate) async fn use_client_proxy(
        &self,
        session: &Arc<Session>,
        proxy: Option<ClientProxy>,
    ) -> Result<(), Error> {
        let encrypted = proxy.map(|proxy| proxy.encrypted(&self.cipher(&session.id)));
        let before = session.client_proxy.lock().clone();
        if encrypted.is_none() && before.is_none() {
            return Ok(());
        }
        let wanted = self.wanted_route(&session.id, &session.options, encrypted.as_deref());
        session.egress.reroute(&self.shared.egress_context, wanted);
        *session.client_proxy.lock() = encrypted;
        let session = Arc::clone(session);
        carry_out(async move { session.journal.persist_for_good(|| session.record()).await }).await
    }

    /// The way of a session with these options, whose client named this proxy. One that cannot be read leaves no way at all.
    pub(super) fn wanted_route<'a>(
        &self,
        id: &'a SessionId,
        options: &'a Options,
        client_proxy: Option<&str>,
    ) -> WantedRoute<'a> {
        match (client_proxy, &options.proxy) {
            (Some(encrypted), _) => match ClientProxy::decrypted(encrypted, &self.cipher(id)) {
                Some(proxy) => WantedRoute::Client(Box::new(proxy)),
                None => {
                    tracing::error!(session = %id, "the proxy of a session's client cannot be read: nothing goes out of it");
                    WantedRoute::Closed
                }
            },
            (None, Some(location)) => WantedRoute::Upstream(location, id.as_str()),
            (None, None) => WantedRoute::Direct,
        }
    }

    fn cipher(&self, id: &SessionId) -> Cipher {
        Cipher::new(&self.shared.instance.session_key(id.as_str()))
    }
}
