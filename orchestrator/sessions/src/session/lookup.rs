//! Finding a session by what its client has: an id and a token, a token alone, or a grid's id. After a restart these wait until the
//! session is found again.

use std::sync::Arc;

use tokio::time::timeout;

use super::grid_ids::shown_grid_id;
use super::rows::Rows;
use super::table::SessionEntry;
use super::{Session, SessionView, Sessions};
use crate::Error;
use warmpool_core::drain::Phase;
use warmpool_core::ids::SessionId;
use warmpool_keys::KeyId;

impl Sessions {
    /// Finds a live session by the token in its client URLs. Waits for one that the daemon has not found again yet.
    /// Errors: `InvalidToken`, and those of [`Sessions::live`]. Whoever has another token than that of a session that is not
    /// live does not learn that there was one.
    pub async fn live_by_token(&self, id: &str, token: &str) -> Result<Arc<Session>, Error> {
        let mut found = self.live(id);
        if found.is_err() && self.is_token(id, "client", token) {
            self.wait_until_found(id).await;
            found = self.live(id);
        }
        match found {
            Ok(session) => session.check_token(token).map(|()| session),
            Err(error) => Err(self.error_for_caller(id, self.is_token(id, "client", token), error)),
        }
    }

    /// The error for requests to a session that is not live: to those who do not know the session, as if there had been none.
    pub fn error_for_caller(&self, id: &str, knows_it: bool, error: Error) -> Error {
        if knows_it { error } else { Error::UnknownSession { id: id.to_owned() } }
    }

    /// Finds a session of `owner`, live or not. Waits for one that the daemon has not found again yet: what clients connect to is
    /// known once it is.
    /// Errors: `UnknownSession`, also when it is another key's.
    pub async fn find_patiently(&self, id: &str, owner: &KeyId) -> Result<(SessionView, Option<Arc<Session>>), Error> {
        self.find(id, owner)?;
        self.wait_until_found(id).await;
        self.find(id, owner)
    }

    /// Finds the live session that a grid's clients know by this id. Anyone holding it needs no key; a key that is given must
    /// be the one that made the session. Waits for one that the daemon has not found again yet.
    /// Errors: `UnknownSession`, also when it has ended or is another key's, `Starting` and `RuntimeDown`.
    pub async fn of_grid(&self, grid_id: &str, owner: Option<&KeyId>) -> Result<Arc<Session>, Error> {
        let unknown = || Error::UnknownSession { id: shown_grid_id(grid_id) };
        let id = self.shared.grid_ids.find(grid_id).ok_or_else(unknown)?;
        let id = id.as_str();
        if owner.is_some_and(|owner| self.owner(id).as_ref() != Some(owner)) {
            return Err(unknown());
        }
        self.wait_until_found(id).await;
        self.live(id).map_err(|error| if matches!(error, Error::Service(_)) { error } else { unknown() })
    }

    /// The live session that a connection of this name and key would join.
    pub fn named(&self, owner: &KeyId, name: &str) -> Option<Arc<Session>> {
        let is_it = |session: &&Arc<Session>| {
            session.owner == *owner && session.options.name.as_deref() == Some(name) && session.check_open().is_ok()
        };
        self.lock().live().find(is_it).cloned()
    }

    /// The live session whose client URLs carry this token. Waits for one that the daemon has not found again yet.
    pub async fn opened_by(&self, token: &str) -> Option<Arc<Session>> {
        let opened = self.all_live().into_iter().find(|session| session.check_token(token).is_ok());
        let id = match opened {
            Some(session) => session.id.clone(),
            None => self.unfound().into_iter().find(|id| self.is_token(id.as_str(), "client", token))?,
        };
        self.wait_until_found(id.as_str()).await;
        self.live(id.as_str()).ok()
    }

    /// Whether a grid's clients knew a session by this id that has ended, and whose it was as [`Sessions::of_grid`] asks.
    pub fn has_ended_of_grid(&self, grid_id: &str, owner: Option<&KeyId>) -> bool {
        self.shared.grid_ids.has_ended(grid_id, owner)
    }

    /// The sessions that the daemon has not found again yet.
    fn unfound(&self) -> Vec<SessionId> {
        self.lock().unfound().map(|record| record.session_id.clone()).collect()
    }

    /// Waits for a session whose worker has not been found again yet. Its client has outlived the restart, and may take a refusal
    /// for the session's end. The wait lasts for `session.queue_wait` at most, and ends with the daemon. Returns at once for
    /// any other session, and where there is none.
    pub(super) async fn wait_until_found(&self, id: &str) {
        self.wait_for_their_return(self.until_found(id)).await;
    }

    /// The same for all sessions of a key: one that is looked for by something else than its id may be any of them.
    pub async fn wait_until_all_found(&self, owner: &KeyId) {
        let all_found = |rows: &Rows| rows.unfound().all(|record| record.owner != *owner);
        self.wait_for_their_return(self.until(all_found)).await;
    }

    async fn wait_for_their_return(&self, found: impl Future<Output = ()>) {
        tokio::select! {
            _ = timeout(self.shared.config.session.queue_wait, found) => {}
            () = self.shared.drain.reached(Phase::Draining) => {}
        }
    }

    /// Resolves once a session is found again or has ended.
    pub(super) async fn until_found(&self, id: &str) {
        let id = SessionId::from(id);
        self.until(|rows| !rows.get(&id).is_some_and(SessionEntry::is_open_past)).await;
    }

    /// Resolves once something holds for the table.
    async fn until(&self, holds: impl Fn(&Rows) -> bool) {
        let mut changes = self.changes();
        while !holds(&self.lock()) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}
