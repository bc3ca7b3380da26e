//! Sessions by name: connections with the same name and key share a browser.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use super::{Options, Session, Sessions, UnconfirmedSession};
use crate::Error;
use warmpool_keys::KeyId;

type Turn = tokio::sync::Mutex<()>;

/// Lets one caller at a time look for a session by name, and make it if there is none.
#[derive(Default)]
pub(super) struct Names {
    turns: Mutex<HashMap<(KeyId, String), Weak<Turn>>>,
}

impl Names {
    /// Names that somebody looks for, or did until lately.
    pub(super) fn len(&self) -> usize {
        self.turns.lock().len()
    }

    fn turn(&self, owner: &KeyId, name: &str) -> Arc<Turn> {
        let mut turns = self.turns.lock();
        turns.retain(|_, turn| turn.strong_count() > 0);
        let kept = turns.entry((owner.clone(), name.to_owned())).or_default();
        kept.upgrade().unwrap_or_else(|| {
            let turn = Arc::default();
            *kept = Arc::downgrade(&turn);
            turn
        })
    }
}

/// A session that a caller has joined or that was made for them. Until it is dropped, others who ask for its name wait.
pub struct OpenedSession {
    origin: Origin,
    _turn: Option<NameTurn>,
}

enum Origin {
    Joined(Arc<Session>),
    Created(UnconfirmedSession),
}

impl OpenedSession {
    /// The session.
    /// Errors: `Draining`, as [`OpenedSession::confirm`] would find.
    pub fn session(&self) -> Result<&Arc<Session>, Error> {
        match &self.origin {
            Origin::Joined(session) => Ok(session),
            Origin::Created(created) => created.session(),
        }
    }

    /// The client is connected. Returns the session if it was made for them.
    /// Errors: those of [`UnconfirmedSession::confirm`].
    pub fn confirm(self) -> Result<Option<Arc<Session>>, Error> {
        match self.origin {
            Origin::Joined(_) => Ok(None),
            Origin::Created(created) => created.confirm().map(Some),
        }
    }
}

/// The right to look for a session by its name and to make it, until it is dropped.
pub struct NameTurn(#[expect(dead_code, reason = "it is held")] OwnedMutexGuard<()>);

impl Sessions {
    /// Waits until nobody else with this key looks for a session of this name or makes it.
    /// Errors: `NoWorker` after `session.queue_wait`: those before may wait for a worker, one after the other.
    pub async fn name_turn(&self, owner: &KeyId, name: &str) -> Result<NameTurn, Error> {
        let waited = self.shared.config.session.queue_wait;
        let turn = timeout(waited, self.shared.names.turn(owner, name).lock_owned()).await;
        turn.map(NameTurn).map_err(|_| warmpool_workers::Error::NoWorker { waited }.into())
    }

    /// Joins the live session of the name in `options`, or creates one: always where they have no name. `may_join` compares
    /// what the caller asks for with what the session was asked to be.
    /// Errors: those of `may_join`, of [`Sessions::name_turn`] and of [`Sessions::create`].
    pub async fn join_or_create(
        &self,
        owner: KeyId,
        options: Options,
        may_join: impl FnOnce(&Options, &Options) -> Result<(), Error>,
    ) -> Result<OpenedSession, Error> {
        let turn = match &options.name {
            Some(name) => Some(self.name_turn(&owner, name).await?),
            None => None,
        };
        if turn.is_some() {
            self.wait_until_all_found(&owner).await;
        }
        let found = options.name.as_deref().and_then(|name| self.named(&owner, name));
        let origin = match found {
            Some(session) => {
                may_join(&options, &session.options)?;
                Origin::Joined(session)
            }
            None => Origin::Created(self.create(owner, options).await?),
        };
        Ok(OpenedSession { origin, _turn: turn })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_name_of_one_key_is_one_turn() {
        let names = Names::default();
        let [one, other]: [KeyId; 2] = ["0123456789ab", "fedcba987654"].map(|id| id.parse().unwrap());
        let held = names.turn(&one, "work").lock_owned().await;
        assert!(names.turn(&one, "work").try_lock_owned().is_err());
        assert!(names.turn(&one, "play").try_lock_owned().is_ok());
        assert!(names.turn(&other, "work").try_lock_owned().is_ok());
        drop(held);
        assert!(names.turn(&one, "work").try_lock_owned().is_ok());
        drop(names.turn(&one, "last"));
        assert!(names.turns.lock().len() <= 2, "what nobody waits for is forgotten");
    }
}
