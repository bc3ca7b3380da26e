//! The ledger: one row that is written with every batch. It says how many batches there were and what all rows amount to, so
//! that the next start sees whether the database is what the last commit left.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::backend::{Backend, BackendError};
use super::batch::Op;
use super::{Table, record};

/// The key in [`Table::Meta`] under which it stands.
const KEY: &[u8] = b"ledger";

/// A moment in the history of a data directory: its state after so many commits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitPoint {
    /// Names the data directory; a restored one keeps its own name.
    pub history: String,
    /// How many commits there were.
    pub commits: u64,
}

/// How many rows there are, and the sum of their checksums. A row that is missing, or is an older one, changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    rows: u64,
    sum: u64,
}

impl Tally {
    /// Counts a row, unless it is the ledger's own.
    pub(super) fn add(&mut self, table: Table, key: &[u8], sealed: &[u8]) {
        if !is_ledger(table, key) {
            self.replace(None, record::checksum_of(sealed));
        }
    }

    fn replace(&mut self, before: Option<u32>, after: Option<u32>) {
        if let Some(crc) = before {
            self.rows = self.rows.wrapping_sub(1);
            self.sum = self.sum.wrapping_sub(crc.into());
        }
        if let Some(crc) = after {
            self.rows = self.rows.wrapping_add(1);
            self.sum = self.sum.wrapping_add(crc.into());
        }
    }
}

/// What the last commit left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    commits: u64,
    tally: Tally,
}

impl Ledger {
    /// The ledger of a database that has none yet, and holds this.
    pub(super) const fn from_tally(tally: Tally) -> Self {
        Self { commits: 0, tally }
    }

    /// The ledger as it was written; none in databases of earlier releases.
    /// Errors: when it cannot be read.
    pub(super) fn read(backend: &dyn Backend) -> Result<Option<Self>, BackendError> {
        backend.get(Table::Meta, KEY)?.map(|sealed| Self::unseal(&sealed)).transpose()
    }

    /// The ledger that these changes of a commit write, sealed as a backend gets them; none where they are not of a commit.
    /// Errors: when it cannot be read.
    pub(super) fn written_by(ops: &[Op]) -> Result<Option<Self>, BackendError> {
        let written = ops.iter().rev().find(|op| is_ledger(op.table, &op.key));
        written.and_then(|op| op.value.as_deref()).map(Self::unseal).transpose()
    }

    fn unseal(sealed: &[u8]) -> Result<Self, BackendError> {
        let bytes = record::open(Table::Meta, KEY, sealed).ok().and_then(|value| <[u8; 24]>::try_from(value).ok());
        let bytes = bytes.ok_or_else(|| BackendError::Damaged("the ledger cannot be read".into()))?;
        let number = |at: usize| u64::from_be_bytes(std::array::from_fn(|byte| bytes[8 * at + byte]));
        Ok(Self { commits: number(0), tally: Tally { rows: number(1), sum: number(2) } })
    }

    pub(super) const fn commits(&self) -> u64 {
        self.commits
    }

    /// Whether the rows are those that the last commit left.
    pub(super) fn matches(&self, tally: Tally) -> bool {
        self.tally == tally
    }

    /// Counts on from a later number: numbers that were given once are not given again.
    pub(super) fn skip_to(&mut self, commits: u64) {
        self.commits = self.commits.max(commits);
    }

    /// Applies sealed changes as one commit.
    /// Errors: those of the backend; then nothing is counted.
    pub(super) fn apply(&mut self, backend: &mut dyn Backend, ops: Vec<Op>) -> Result<(), BackendError> {
        self.apply_telling(backend, ops, |_| ())
    }

    /// The same, and tells of each change that makes a row where there was none before the commit.
    pub(super) fn apply_telling(
        &mut self,
        backend: &mut dyn Backend,
        mut ops: Vec<Op>,
        mut made: impl FnMut(&Op),
    ) -> Result<(), BackendError> {
        let mut tally = self.tally;
        let mut changed: HashMap<(Table, &[u8]), Option<u32>> = HashMap::with_capacity(ops.len());
        for op in &ops {
            let place = (op.table, op.key.as_slice());
            let after = op.value.as_deref().and_then(record::checksum_of);
            let before = match changed.get(&place) {
                Some(before) => *before,
                None => {
                    let before = backend.get(op.table, &op.key)?;
                    if before.is_none() && after.is_some() {
                        made(op);
                    }
                    before.as_deref().and_then(record::checksum_of)
                }
            };
            tally.replace(before, after);
            changed.insert(place, after);
        }
        let next = Self { commits: self.commits + 1, tally };
        let value = [next.commits, tally.rows, tally.sum].map(u64::to_be_bytes).concat();
        ops.push(Op { table: Table::Meta, key: KEY.to_vec(), value: Some(record::seal(Table::Meta, KEY, &value)) });
        backend.apply(&ops)?;
        *self = next;
        Ok(())
    }
}

/// Whether this is the ledger's row, which is no part of a dump.
pub(super) fn is_ledger(table: Table, key: &[u8]) -> bool {
    table == Table::Meta && key == KEY
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::KeyRange;
    use super::super::memory::MemoryBackend;
    use super::*;

    fn tally(backend: &MemoryBackend) -> Tally {
        let mut tally = Tally::default();
        for table in Table::ALL {
            for (key, sealed) in backend.scan(table, &KeyRange::all(), usize::MAX).unwrap() {
                tally.add(table, &key, &sealed);
            }
        }
        tally
    }

    fn op(key: u8, value: Option<u8>) -> Op {
        let key = vec![key];
        let value = value.map(|value| record::seal(Table::Tasks, &key, &[value]));
        Op { table: Table::Tasks, key, value }
    }

    proptest! {
        #[test]
        fn it_amounts_to_what_is_there_and_misses_what_is_not(
            batches in prop::collection::vec(prop::collection::vec((0..4u8, prop::option::of(0..3u8)), 0..6), 1..12),
        ) {
            let mut backend = MemoryBackend::default();
            let mut ledger = Ledger::default();
            for batch in &batches {
                ledger.apply(&mut backend, batch.iter().map(|(key, value)| op(*key, *value)).collect()).unwrap();
                prop_assert!(ledger.matches(tally(&backend)));
            }
            prop_assert_eq!(ledger.commits(), batches.len() as u64);
            prop_assert_eq!(Ledger::read(&backend).unwrap(), Some(ledger));
            for (key, _) in backend.scan(Table::Tasks, &KeyRange::all(), usize::MAX).unwrap() {
                let mut damaged = backend.clone();
                damaged.apply(&[Op { table: Table::Tasks, key: key.clone(), value: None }]).unwrap();
                prop_assert!(!ledger.matches(tally(&damaged)), "a row is missing");
                damaged.apply(&[op(key[0], Some(9))]).unwrap();
                prop_assert!(!ledger.matches(tally(&damaged)), "a row is another one");
            }
        }
    }
}
