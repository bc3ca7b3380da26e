//! How many sessions there are, for metrics and status.

use super::Sessions;

impl Sessions {
    /// How many sessions live.
    pub fn live_count(&self) -> usize {
        self.lock().live().len()
    }

    /// How many sessions of an earlier process have no end, and have not been found again yet.
    pub fn unfound_count(&self) -> usize {
        self.lock().unfound().len()
    }

    /// How many rows each of the sessions' tables has. All but the first are of live sessions.
    pub fn table_rows(&self) -> [(&'static str, usize); 4] {
        let shared = &self.shared;
        [
            ("sessions", self.lock().count(None)),
            ("grid_ids", shared.grid_ids.len()),
            ("session_names", shared.names.len()),
            ("held_profiles", shared.held_profiles.lock().len()),
        ]
    }
}
