//! How many sessions there are, for metrics and status.

use super::Sessions;
use super::table::SessionEntry;

impl Sessions {
    /// How many sessions live.
    pub fn live_count(&self) -> usize {
        self.lock().values().filter(|entry| matches!(entry, SessionEntry::Live(_))).count()
    }

    /// How many sessions of an earlier process have no end, and have not been found again yet.
    pub fn unfound_count(&self) -> usize {
        self.lock().values().filter(|entry| entry.is_open_past()).count()
    }

    /// How many rows each of the sessions' tables has. All but the first are of live sessions.
    pub fn table_rows(&self) -> [(&'static str, usize); 4] {
        let shared = &self.shared;
        [
            ("sessions", self.lock().len()),
            ("grid_ids", shared.grid_ids.len()),
            ("session_names", shared.names.len()),
            ("held_profiles", shared.held_profiles.lock().len()),
        ]
    }
}
