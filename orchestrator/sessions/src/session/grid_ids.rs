//! Sessions by the id that a grid's clients know. Warmpool makes it up for each session, and nobody can guess it: drivers'
//! own ids are not made to be secret.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::Session;
use warmpool_core::ids::SessionId;

/// The id in the form that the WebDriver standard asks for: a random UUID. All but six of the secret's 128 bits are in it.
pub(super) fn grid_id(secret: [u8; 16]) -> String {
    let mut bytes = secret;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = hex::encode(bytes);
    let groups = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)].map(|(from, to)| &digits[from..to]);
    groups.join("-")
}

/// Whether a text has the form of such an id.
pub fn is_grid_id(text: &str) -> bool {
    match text.len() {
        36 => text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            14 => byte == b'4',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        }),
        // As they were before they were UUIDs.
        22 => text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')),
        _ => false,
    }
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
        let mut sessions = self.sessions.lock();
        for id in [&session.grid_id, &session.old_grid_id] {
            sessions.insert(id.clone(), session.id.clone());
        }
    }

    /// Forgets a session that ends.
    pub(super) fn remove(&self, session: &Session) {
        let mut sessions = self.sessions.lock();
        for id in [&session.grid_id, &session.old_grid_id] {
            sessions.remove(id);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.sessions.lock().len()
    }

    pub(super) fn find(&self, grid_id: &str) -> Option<SessionId> {
        self.sessions.lock().get(grid_id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_random_uuid() {
        assert_eq!(grid_id([0; 16]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(grid_id([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let counting = std::array::from_fn(|at| u8::try_from(at * 17).unwrap());
        assert_eq!(grid_id(counting), "00112233-4455-4677-8899-aabbccddeeff");
        assert!(is_grid_id(&grid_id(counting)) && is_grid_id("0M0a-Nzqi2NtxPP3Vc4pAg"));
        for other in ["", "232fbb7f3edce8953fa316ace5ad231f", "00112233-4455-1677-8899-aabbccddeeff", "session"] {
            assert!(!is_grid_id(other), "{other}");
        }
    }

    #[test]
    fn messages_show_too_little_of_an_id_to_guess_it() {
        assert_eq!(shown_grid_id("0M0a-Nzqi2NtxPP3Vc4pAg"), "0M0a…");
        assert_eq!(shown_grid_id(&grid_id([0xd9; 16])), "d9d9…");
        assert_eq!(shown_grid_id("232fbb7f3edce8953fa316ace5ad231f"), "232fbb7f3edce8953fa316ace5ad231f");
        assert_eq!(shown_grid_id(&"ä".repeat(22)), "ä".repeat(22));
        assert_eq!(shown_grid_id(&"x".repeat(100)).len(), 64);
    }
}
