//! Sessions by the id that a grid's clients know. Warmpool makes it up for each session, and nobody can guess it: drivers'
//! own ids are not made to be secret.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use warmpool_core::ids::SessionId;
use warmpool_core::instance::Instance;
use warmpool_keys::KeyId;

/// The id in the form that the WebDriver standard asks for: a random UUID. All but six of the secret's 128 bits are in it.
pub(super) fn grid_id(secret: [u8; 16]) -> String {
    let mut bytes = secret;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = hex::encode(bytes);
    let groups = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)].map(|(from, to)| &digits[from..to]);
    groups.join("-")
}

/// The ids of a session: its own, and what an earlier release called it, whose client may have outlived an upgrade.
pub(super) fn grid_ids(instance: &Instance, id: &SessionId) -> [String; 2] {
    [grid_id(instance.session_secret(id.as_str(), "grid")), instance.session_token(id.as_str(), "grid")]
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

/// How many ended sessions are remembered by their ids. A client that quits one does so right after its end.
const ENDED_KNOWN: usize = 1000;

/// Which session a grid's id belongs to, of those that have not ended, and which ids those had that ended last.
#[derive(Default)]
pub(super) struct GridIds {
    sessions: Mutex<HashMap<String, SessionId>>,
    ended: Mutex<VecDeque<(String, KeyId)>>,
}

impl GridIds {
    pub(super) fn add(&self, grid_ids: [String; 2], id: &SessionId) {
        self.sessions.lock().extend(grid_ids.map(|grid_id| (grid_id, id.clone())));
    }

    /// A session of `owner` ends.
    pub(super) fn end(&self, grid_ids: &[String; 2], owner: &KeyId) {
        let mut sessions = self.sessions.lock();
        for grid_id in grid_ids {
            sessions.remove(grid_id);
        }
        drop(sessions);
        let mut ended = self.ended.lock();
        ended.truncate(ENDED_KNOWN - 1);
        ended.push_front((grid_ids[0].clone(), owner.clone()));
    }

    /// Whether a session that had this id ended not long ago; where an owner is given, one of theirs.
    pub(super) fn has_ended(&self, grid_id: &str, owner: Option<&KeyId>) -> bool {
        let ended = self.ended.lock();
        ended.iter().any(|(known, of)| known == grid_id && owner.is_none_or(|owner| owner == of))
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
    fn ended_ones_are_remembered_for_a_while_and_by_their_owner() {
        let ids = |number: usize| [format!("new {number}"), format!("old {number}")];
        let [mine, other]: [KeyId; 2] = ["0123456789ab", "fedcba987654"].map(|id| id.parse().unwrap());
        let grid_ids = GridIds::default();
        grid_ids.add(ids(0), &SessionId::from("ses_1"));
        assert!(!grid_ids.has_ended("new 0", None));
        grid_ids.end(&ids(0), &mine);
        assert!(grid_ids.find("new 0").is_none() && grid_ids.find("old 0").is_none() && grid_ids.len() == 0);
        assert!(grid_ids.has_ended("new 0", None) && grid_ids.has_ended("new 0", Some(&mine)));
        assert!(!grid_ids.has_ended("new 0", Some(&other)) && !grid_ids.has_ended("new 1", None));
        (1..=ENDED_KNOWN).for_each(|number| grid_ids.end(&ids(number), &mine));
        assert!(!grid_ids.has_ended("new 0", None) && grid_ids.has_ended("new 1", None));
        assert_eq!(grid_ids.ended.lock().len(), ENDED_KNOWN);
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
