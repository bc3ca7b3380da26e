//! Sessions that asked to be recorded, for clients that look for a recording by the id that a grid gave them.

use super::Sessions;
use super::grid_ids::grid_id;
use super::table::SessionEntry;
use warmpool_core::ids::SessionId;
use warmpool_keys::KeyId;

impl Sessions {
    /// Those of `owner`, live or not, the oldest first.
    pub fn list_recorded(&self, owner: &KeyId) -> Vec<SessionId> {
        let asked = |entry: &&SessionEntry| match entry {
            SessionEntry::Live(session) => session.options.recording,
            SessionEntry::Past(record) => record.options.recording,
        };
        self.lock().by_time(Some(owner)).filter(asked).map(|entry| entry.id().clone()).collect()
    }

    /// The one of them that a grid's client knows by this id.
    pub fn find_recorded_by_grid_id(&self, wanted: &str, owner: &KeyId) -> Option<SessionId> {
        let instance = &self.shared.instance;
        self.list_recorded(owner).into_iter().find(|id| grid_id(instance.session_secret(id.as_str(), "grid")) == wanted)
    }
}
