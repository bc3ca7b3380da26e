//! Sessions by the id that a grid's clients know. Warmpool makes it up for each session, and nobody can guess it: drivers'
//! own ids are not made to be secret.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::Session;
use crate::engine::SessionId;

/// How long such an id is: 128 bits in base64.
const LENGTH: usize = 22;

/// Whether a text has the form of such an id.
pub(crate) fn is_grid_id(text: &str) -> bool {
    text.len() == LENGTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// As much of an id as messages may show: one of ours is a secret.
pub(super) fn shown_grid_id(text: &str) -> String {
    if is_grid_id(text) { format!("{}…", &text[..4]) } else { text.chars().take(64).collect() }
}

/// Which live session a grid's id belongs to.
#[derive(Default)]
pub(super) struct GridIds {
    sessions: Mutex<HashMap<String, SessionId>>,
}

impl GridIds {
    pub(super) fn add(&self, session: &Session) {
        self.sessions.lock().insert(session.grid_id.clone(), session.id.clone());
    }

    /// Forgets a session that ends.
    pub(super) fn remove(&self, session: &Session) {
        self.sessions.lock().remove(&session.grid_id);
    }

    pub(super) fn find(&self, grid_id: &str) -> Option<SessionId> {
        self.sessions.lock().get(grid_id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_show_too_little_of_an_id_to_guess_it() {
        assert_eq!(shown_grid_id("0M0a-Nzqi2NtxPP3Vc4pAg"), "0M0a…");
        assert_eq!(shown_grid_id("232fbb7f3edce8953fa316ace5ad231f"), "232fbb7f3edce8953fa316ace5ad231f");
        assert_eq!(shown_grid_id(&"ä".repeat(22)), "ä".repeat(22));
        assert_eq!(shown_grid_id(&"x".repeat(100)).len(), 64);
    }
}
