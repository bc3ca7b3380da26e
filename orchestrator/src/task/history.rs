//! The index of the history: which tasks match a query, in which order, and how many.
//!
//! It is kept in memory and made anew at the start from one small row a task. Every key that owns tasks has a
//! [`ledger::Ledger`]: columns of its tasks in the order in which they were accepted. Since ids have that order too, a
//! time range is a range of rows. Three things are counted, so that nobody has to walk:
//!
//! | file         | what it counts | for |
//! |--------------|----------------|-----|
//! | `cells.rs`   | the fifteen pairs of type and status, as sets | filters |
//! | `columns.rs` | id, duration and pair of each row, in blocks that can be dropped from the front | everything |
//! | `tally.rs`   | the pairs in each block of rows, and in each block of blocks | order by time, id, type, status |
//! | `lengths.rs` | rows by duration, a tree whose nodes know their rows in order of time | order by duration within a time range |
//! | `ledger.rs`  | one key's tasks: all of them, and those of each end user | queries |
//!
//! A page costs the logarithm of the history and not its length, whichever page it is.

mod cells;
mod columns;
mod ledger;
mod lengths;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use super::id::TaskId;
use super::query::TaskQuery;
use super::record::{Kind, Status};
use crate::keys::KeyId;
use ledger::Ledger;

/// A row's place in its ledger: counted from the start of the process, never given twice.
type Row = u32;

/// The end user of a task, as the index keeps it: 128 bits of a hash, whatever the passcode's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct EndUser(pub(super) [u8; 16]);

impl EndUser {
    /// The end user with this passcode.
    pub(super) fn of(passcode: &str) -> Self {
        let hash = Sha256::digest(passcode.as_bytes());
        let mut short = [0; 16];
        short.copy_from_slice(&hash[..16]);
        Self(short)
    }
}

/// What the index knows of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: TaskId,
    pub(super) kind: Kind,
    pub(super) status: Status,
    /// Milliseconds; what is longer than 49 days sorts as 49 days.
    pub(super) length: u32,
    pub(super) user: Option<EndUser>,
}

/// The index over the tasks of all keys.
#[derive(Debug, Default)]
pub(super) struct History {
    ledgers: HashMap<KeyId, Ledger>,
    rows: usize,
}

impl History {
    /// Adds a task. Its id is larger than those of all tasks of this key before it.
    pub(super) fn add(&mut self, owner: &KeyId, entry: &Entry) {
        self.ledger(owner).add(entry);
        self.rows += 1;
    }

    /// Adds many tasks of one key at once, oldest first, to a key that has none.
    pub(super) fn load(&mut self, owner: &KeyId, entries: &[Entry]) {
        self.ledger(owner).load(entries);
        self.rows += entries.len();
    }

    /// Writes a task's status and duration down.
    pub(super) fn change(&mut self, owner: &KeyId, entry: &Entry) {
        self.ledger(owner).change(entry);
    }

    /// Takes one task out, wherever it stands.
    pub(super) fn withdraw(&mut self, owner: &KeyId, entry: &Entry) {
        if self.ledger(owner).withdraw(entry) {
            self.rows -= 1;
        }
    }

    /// Forgets the tasks of a key up to and with `id`.
    pub(super) fn forget_through(&mut self, owner: &KeyId, id: TaskId) {
        let Some(ledger) = self.ledgers.get_mut(owner) else { return };
        self.rows -= ledger.forget_through(id);
        if ledger.is_empty() {
            self.ledgers.remove(owner);
        }
    }

    /// How many tasks there are, of all keys.
    pub(super) const fn len(&self) -> usize {
        self.rows
    }

    /// One page of the tasks of `owner` that match, and how many match in all.
    pub(super) fn page(&self, owner: &KeyId, query: &TaskQuery) -> (Vec<TaskId>, u64) {
        self.ledgers.get(owner).map_or((Vec::new(), 0), |ledger| ledger.page(query))
    }

    fn ledger(&mut self, owner: &KeyId) -> &mut Ledger {
        // Looked up twice, so that a key is cloned for a new ledger only.
        if !self.ledgers.contains_key(owner) {
            self.ledgers.insert(owner.clone(), Ledger::default());
        }
        #[expect(clippy::expect_used, reason = "it was put there just now")]
        self.ledgers.get_mut(owner).expect("the ledger is there")
    }
}
