//! Sessions by name: connections with the same name and key share a browser.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use super::{Session, Sessions};
use warmpool_keys::KeyId;

type Turn = tokio::sync::Mutex<()>;

/// Lets one caller at a time look for a session by name, and make it if there is none.
#[derive(Default)]
pub(super) struct Names {
    turns: Mutex<HashMap<(KeyId, String), Weak<Turn>>>,
}

impl Names {
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

/// Keeps others from making a session of the same name, until it is dropped.
pub struct NameGuard {
    _turn: OwnedMutexGuard<()>,
}

impl Sessions {
    /// Waits until nobody else is making the session of this name, then looks for it.
    pub async fn named(&self, owner: &KeyId, name: &str) -> (NameGuard, Option<Arc<Session>>) {
        let turn = self.shared.names.turn(owner, name).lock_owned().await;
        let is_it = |session: &Arc<Session>| {
            session.owner == *owner && session.options.name.as_deref() == Some(name) && session.check_open().is_ok()
        };
        (NameGuard { _turn: turn }, self.all_live().into_iter().find(is_it))
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
