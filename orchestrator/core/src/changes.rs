//! Word of changes: to those who follow what all keys have, and to those who follow one key.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::ids::KeyId;

/// Counts the changes of what keys have, for all keys together and for each that somebody follows.
#[derive(Debug, Default)]
pub struct KeyChanges {
    all: watch::Sender<u64>,
    followed: Mutex<HashMap<KeyId, watch::Sender<u64>>>,
}

impl KeyChanges {
    /// Changes with what any key has.
    pub fn of_all(&self) -> watch::Receiver<u64> {
        self.all.subscribe()
    }

    /// Changes with what this key has.
    pub fn of_key(&self, key: &KeyId) -> watch::Receiver<u64> {
        let mut followed = self.followed.lock();
        followed.retain(|_, changes| changes.receiver_count() > 0);
        followed.entry(key.clone()).or_default().subscribe()
    }

    /// Announces that something of this key has changed.
    pub fn tell(&self, key: &KeyId) {
        let count = |count: &mut u64| *count += 1;
        self.all.send_modify(count);
        if let Some(changes) = self.followed.lock().get(key) {
            changes.send_modify(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_follows_a_key_hears_of_that_key_alone() {
        let changes = KeyChanges::default();
        let [one, other, unfollowed]: [KeyId; 3] =
            ["0123456789ab", "ba9876543210", "111111111111"].map(|id| id.parse().unwrap());
        let (mut all, mut of_one, mut of_other) = (changes.of_all(), changes.of_key(&one), changes.of_key(&other));
        let mut heard = |key: &KeyId| {
            changes.tell(key);
            [&mut all, &mut of_one, &mut of_other].map(|receiver| {
                let has_changed = receiver.has_changed().unwrap();
                receiver.mark_unchanged();
                has_changed
            })
        };
        assert_eq!(heard(&one), [true, true, false]);
        assert_eq!(heard(&other), [true, false, true]);
        assert_eq!(heard(&unfollowed), [true, false, false]);
        drop(of_one);
        let again = changes.of_key(&other);
        assert_eq!(changes.followed.lock().len(), 1, "what nobody follows is forgotten");
        changes.tell(&other);
        assert!(again.has_changed().unwrap() && of_other.has_changed().unwrap());
    }
}
