//! Rows that no dump has, since they were made after the last one: once they are deleted, no backup brings them back.

use std::collections::HashMap;

use super::batch::Op;
use super::change::{Place, place};

/// The most rows that are remembered; of more it is not known that no dump has them.
const MOST: usize = 65_536;

/// The rows that were made since the last dump.
#[derive(Debug, Default)]
pub(super) struct Newborn {
    /// Each with how many commits there were before it.
    rows: HashMap<Place, u64>,
    /// Whether a dump is under way, which may get what is made meanwhile.
    is_dumping: bool,
}

impl Newborn {
    /// Forgets all: the dump that begins has them.
    pub(super) fn dump_begins(&mut self) {
        *self = Self { rows: HashMap::new(), is_dumping: true };
    }

    /// Begins anew behind a dump.
    pub(super) fn dump_ends(&mut self) {
        *self = Self::default();
    }

    /// Notes a row that this change makes where there was none, after so many commits.
    pub(super) fn make(&mut self, op: &Op, commits: u64) {
        if op.table.is_deleted_for_good() && !self.is_dumping && self.rows.len() < MOST {
            self.rows.insert(place(op.table, &op.key), commits);
        }
    }

    /// Returns for each change that was made how many commits there were before its row; none where a dump may have it. Takes out the
    /// rows that are deleted.
    pub(super) fn change(&mut self, ops: &[Op]) -> Vec<Option<u64>> {
        let place = |op: &Op| op.table.is_deleted_for_good().then(|| place(op.table, &op.key));
        let places: Vec<Option<Place>> = ops.iter().map(place).collect();
        let since = places.iter().map(|place| place.as_ref().and_then(|place| self.rows.get(place).copied())).collect();
        for (place, op) in places.iter().zip(ops) {
            if let (Some(place), None) = (place, &op.value) {
                self.rows.remove(place);
            }
        }
        since
    }
}
