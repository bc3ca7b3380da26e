//! A database behind its [write-ahead log](super::wal).
//!
//! A commit that is to survive the death of the process waits for one `write` of a few hundred bytes. To tell the database costs more: sled
//! seals and writes two buffers for each transaction, wakes its threads for each, and waits for the device. So the database hears of
//! many commits at once, in one transaction, when nobody waits; reads look at what it has not heard of first.
//!
//! The database is always in the state after some commit. What the log has beyond that is made again at the start.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::backend::{Backend, BackendError, Barrier, RawRow, ThreadCheck};
use super::batch::Op;
use super::kept_log::KeptLog;
use super::ledger::Ledger;
use super::wal::{LoggedCommit, Wal};
use super::{KeyRange, Table};

/// From so many bytes of changes on, the database hears of them.
const SETTLE_FROM: usize = 256 * 1024;
/// A log of so many bytes is emptied.
const CHECKPOINT_FROM: u64 = 2 * 1024 * 1024;
/// So long after the last time, a log that has something is emptied: damage to it must take little.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);

/// Bytes that a change takes beside its key and value.
const OVERHEAD: usize = 64;

/// Tables in memory, of changed rows alone: new values, and none for rows that are gone.
type ChangedRows = BTreeMap<Table, BTreeMap<Vec<u8>, Option<Vec<u8>>>>;

/// The tables of a database and of its log.
pub(super) struct LoggedBackend<B> {
    inner: B,
    wal: Wal,
    /// What the database has not heard of.
    unsettled: ChangedRows,
    unsettled_bytes: usize,
    /// The number of the last commit.
    commits: u64,
    /// How many commits the database itself had at the start.
    found: u64,
    /// Where the log is kept once the database has it, if it is.
    kept: Option<KeptLog>,
    /// Whether the log has changes of rows that are kept apart.
    has_apart: bool,
    /// What the start found in the log.
    log: LogState,
    checkpointed: Instant,
}

/// What a log had at the start.
#[derive(Clone, Copy, Debug)]
enum LogState {
    /// Commits that go on from the database, if any: after which one they begin, and the last one.
    Whole { range: Option<(u64, u64)> },
    /// Something that is no commit, or does not go on from the database.
    Broken,
}

impl<B: Backend> LoggedBackend<B> {
    /// A database with a log, of which nothing was made again yet.
    pub(super) fn new(inner: B, wal: Wal, kept: Option<KeptLog>) -> Self {
        Self {
            inner,
            wal,
            unsettled: ChangedRows::new(),
            unsettled_bytes: 0,
            commits: 0,
            found: 0,
            kept,
            has_apart: false,
            log: LogState::Whole { range: None },
            checkpointed: Instant::now(),
        }
    }

    /// Makes again what the log has and the database lacks. The log stays as it is until [`LoggedBackend::begin`].
    pub(super) fn replay(&mut self, commits: Vec<LoggedCommit>) -> Result<(), BackendError> {
        self.found = Ledger::read(&self.inner)?.map_or(0, |ledger| ledger.commits());
        self.commits = self.found;
        self.has_apart = commits.iter().any(|commit| has_apart(&commit.ops));
        self.log = if self.wal.is_damaged() { LogState::Broken } else { LogState::Whole { range: None } };
        for LoggedCommit { after, ops, .. } in commits {
            let number = Ledger::written_by(&ops)?.map(|ledger| ledger.commits());
            if let LogState::Whole { range } = &mut self.log {
                let (begins, ends) = range.unwrap_or((after, after));
                *range = Some((begins, number.unwrap_or(ends)));
            }
            if number.is_some_and(|number| number <= self.found) {
                continue;
            }
            // The database has lost what came before.
            if after != self.commits {
                self.log = LogState::Broken;
                break;
            }
            self.take(&ops)?;
            if self.unsettled_bytes >= SETTLE_FROM {
                self.settle()?;
            }
        }
        Ok(())
    }

    /// Empties the log that was made again, of a database that is known to be sound and to lack nothing.
    pub(super) fn begin(&mut self) -> Result<(), BackendError> {
        match self.log {
            LogState::Whole { range } => {
                if let Some(kept) = &self.kept {
                    kept.check(range, self.commits);
                }
                if self.wal.bytes() == 0 { Ok(()) } else { self.checkpoint() }
            }
            LogState::Broken => {
                if let Some(kept) = &self.kept {
                    kept.give_up();
                }
                self.settle()?;
                self.inner.checkpoint()?;
                self.wal.set_aside()
            }
        }
    }

    /// The database.
    pub(super) const fn inner(&self) -> &B {
        &self.inner
    }

    /// How many commits the database itself had at the start.
    pub(super) const fn found(&self) -> u64 {
        self.found
    }

    /// Remembers the changes of a commit for the database.
    fn take(&mut self, ops: &[Op]) -> Result<(), BackendError> {
        for op in ops {
            self.unsettled.entry(op.table).or_default().insert(op.key.clone(), op.value.clone());
        }
        self.unsettled_bytes += size(ops);
        self.has_apart |= has_apart(ops);
        if let Some(ledger) = Ledger::written_by(ops)? {
            self.commits = ledger.commits();
        }
        Ok(())
    }

    /// Tells the database what it has not heard of, at once.
    fn settle(&mut self) -> Result<(), BackendError> {
        let changed = std::mem::take(&mut self.unsettled).into_iter();
        let ops: Vec<Op> = changed
            .flat_map(|(table, rows)| rows.into_iter().map(move |(key, value)| Op { table, key, value }))
            .collect();
        self.unsettled_bytes = 0;
        self.inner.apply(&ops)
    }
}

impl<B: Backend> Backend for LoggedBackend<B> {
    fn apply(&mut self, ops: &[Op]) -> Result<(), BackendError> {
        self.wal.add(self.commits, ops)?;
        self.take(ops)
    }

    fn flush(&mut self) -> Result<(), BackendError> {
        self.wal.write()
    }

    fn tidy(&mut self) -> Result<(), BackendError> {
        let is_old = || self.wal.bytes() > 0 && self.checkpointed.elapsed() >= CHECKPOINT_EVERY;
        if self.wal.bytes() >= CHECKPOINT_FROM || is_old() {
            return self.checkpoint();
        }
        if self.unsettled_bytes >= SETTLE_FROM { self.settle() } else { Ok(()) }
    }

    fn checkpoint(&mut self) -> Result<(), BackendError> {
        self.wal.write()?;
        self.settle()?;
        self.inner.checkpoint()?;
        if let Some(kept) = self.kept.as_ref().filter(|_| self.wal.bytes() > 0) {
            kept.keep(self.wal.path(), self.commits, self.has_apart);
        }
        self.wal.clear()?;
        (self.has_apart, self.checkpointed) = (false, Instant::now());
        Ok(())
    }

    fn barrier(&self) -> Result<Box<dyn Barrier>, BackendError> {
        self.wal.barrier()
    }

    fn thread_check(&self) -> ThreadCheck {
        self.inner.thread_check()
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, BackendError> {
        match self.unsettled.get(&table).and_then(|rows| rows.get(key)) {
            Some(changed) => Ok(changed.clone()),
            None => self.inner.get(table, key),
        }
    }

    fn scan(&self, table: Table, range: &KeyRange, limit: usize) -> Result<Vec<RawRow>, BackendError> {
        let Some(changed) = self.unsettled.get(&table) else { return self.inner.scan(table, range, limit) };
        let mut changed = changed.range::<[u8], _>(range.bounds()).peekable();
        let (mut rows, mut range) = (Vec::new(), range.clone());
        loop {
            let stored = self.inner.scan(table, &range, limit)?;
            let last = stored.last().filter(|_| stored.len() >= limit).map(|(key, _)| key.clone());
            for (key, value) in stored {
                while let Some((new, value)) = changed.next_if(|(new, _)| **new < key) {
                    rows.extend(value.clone().map(|value| (new.clone(), value)));
                }
                match changed.next_if(|(new, _)| **new == key) {
                    Some((_, value)) => rows.extend(value.clone().map(|value| (key, value))),
                    None => rows.push((key, value)),
                }
            }
            match last {
                Some(last) if rows.len() < limit => range = range.after(&last),
                Some(_) => break,
                None => {
                    rows.extend(changed.filter_map(|(key, value)| Some((key.clone(), value.clone()?))));
                    break;
                }
            }
        }
        rows.truncate(limit);
        Ok(rows)
    }
}

fn has_apart(ops: &[Op]) -> bool {
    ops.iter().any(|op| op.table.is_kept_apart())
}

/// The bytes of changes.
fn size(ops: &[Op]) -> usize {
    ops.iter().map(|op| op.key.len() + op.value.as_ref().map_or(0, Vec::len) + OVERHEAD).sum()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    use super::super::layout::{UNREAD_WAL, WAL};
    use super::super::ledger::Tally;
    use super::super::memory::MemoryBackend;
    use super::super::record::seal;
    use super::*;

    /// A store's tables as the executor has them: the log's directory, the tables and their ledger.
    struct Logged {
        backend: LoggedBackend<MemoryBackend>,
        ledger: Ledger,
    }

    impl Logged {
        fn open(dir: &Path, database: MemoryBackend) -> Self {
            let (wal, commits) = Wal::open(dir).unwrap();
            let mut backend = LoggedBackend::new(database, wal, None);
            backend.replay(commits).unwrap();
            backend.begin().unwrap();
            let ledger = Ledger::read(&backend).unwrap().unwrap_or_default();
            Self { backend, ledger }
        }

        fn commit(&mut self, changes: &[Change]) {
            self.ledger.apply(&mut self.backend, changes.iter().map(op).collect()).unwrap();
        }

        /// What the death of the process leaves of the database itself.
        fn die(self) -> MemoryBackend {
            self.backend.inner
        }

        fn rows(&self) -> Vec<Vec<RawRow>> {
            rows(&self.backend)
        }
    }

    fn rows(backend: &dyn Backend) -> Vec<Vec<RawRow>> {
        [Table::Keys, Table::Tasks].map(|table| backend.scan(table, &KeyRange::all(), usize::MAX).unwrap()).to_vec()
    }

    fn tally(backend: &dyn Backend) -> Tally {
        let mut tally = Tally::default();
        for table in Table::ALL {
            for (key, sealed) in backend.scan(table, &KeyRange::all(), usize::MAX).unwrap() {
                tally.add(table, &key, &sealed);
            }
        }
        tally
    }

    /// A table, a key, and a new value of so many bytes.
    type Change = (bool, u8, Option<usize>);

    fn op((is_task, key, value): &Change) -> Op {
        let (table, key) = (if *is_task { Table::Tasks } else { Table::Keys }, vec![*key]);
        let value = value.map(|bytes| seal(table, &key, &vec![key[0]; bytes]));
        Op { table, key, value }
    }

    fn change() -> impl Strategy<Value = Change> {
        let bytes = prop_oneof![12 => 0..40_usize, 1 => Just(SETTLE_FROM)];
        (any::<bool>(), 0..9_u8, prop::option::of(bytes))
    }

    #[derive(Clone, Debug)]
    enum Step {
        Commit(Vec<Change>),
        Flush,
        Tidy,
        Checkpoint,
        /// Cut the log at this part of what was not flushed yet.
        Die(f64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => prop::collection::vec(change(), 0..5).prop_map(Step::Commit),
            4 => Just(Step::Flush),
            2 => Just(Step::Tidy),
            1 => Just(Step::Checkpoint),
            2 => (0.0..1.0).prop_map(Step::Die),
        ]
    }

    proptest! {
        #[test]
        fn a_death_loses_nothing_that_was_flushed_and_tears_nothing(steps in prop::collection::vec(step(), 1..40)) {
            let dir = tempfile::tempdir().unwrap();
            let mut logged = Logged::open(dir.path(), MemoryBackend::default());
            // The state after each commit, and the last of them that was flushed.
            let (mut states, mut flushed) = (vec![logged.rows()], 0);
            for step in steps {
                match step {
                    Step::Commit(changes) => {
                        let mut plain = logged.backend.inner.clone();
                        plain.apply(&all(&logged.backend.unsettled)).unwrap();
                        plain.apply(&changes.iter().map(op).collect::<Vec<_>>()).unwrap();
                        logged.commit(&changes);
                        prop_assert_eq!(logged.rows(), rows(&plain));
                        states.push(logged.rows());
                    }
                    Step::Flush => {
                        logged.backend.flush().unwrap();
                        flushed = states.len() - 1;
                    }
                    Step::Tidy => logged.backend.tidy().unwrap(),
                    Step::Checkpoint => {
                        logged.backend.checkpoint().unwrap();
                        flushed = states.len() - 1;
                    }
                    Step::Die(part) => {
                        let path = dir.path().join(WAL);
                        let before = fs::metadata(&path).unwrap().len();
                        // What the kernel had of a write that the process did not live to see the end of.
                        logged.backend.wal.write().unwrap();
                        let after = fs::metadata(&path).unwrap().len();
                        let database = logged.die();
                        let cut = before + ((after - before) as f64 * part) as u64;
                        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(cut).unwrap();
                        logged = Logged::open(dir.path(), database);
                        let commits = usize::try_from(logged.ledger.commits()).unwrap();
                        prop_assert!((flushed..states.len()).contains(&commits), "{} of {}", commits, flushed);
                        prop_assert_eq!(&logged.rows(), &states[commits]);
                        prop_assert!(logged.ledger.matches(tally(&logged.backend)));
                        prop_assert_eq!(fs::metadata(&path).unwrap().len(), 0);
                        prop_assert!(!dir.path().join(UNREAD_WAL).exists());
                        states.truncate(commits + 1);
                        flushed = commits;
                    }
                }
            }
        }

        #[test]
        fn a_scan_has_what_the_database_has_not_heard_of(
            stored in prop::collection::vec((0..12_u8, prop::option::of(0..9_usize)), 0..12),
            changed in prop::collection::vec((0..12_u8, prop::option::of(0..9_usize)), 0..12),
            (from, to, limit) in (0..13_u8, 0..13_u8, 1..14_usize),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let (mut plain, mut database) = (MemoryBackend::default(), MemoryBackend::default());
            let ops = |changes: &[(u8, Option<usize>)]| -> Vec<Op> {
                changes.iter().map(|(key, value)| op(&(true, *key, *value))).collect()
            };
            database.apply(&ops(&stored)).unwrap();
            let mut logged = Logged::open(dir.path(), database);
            logged.backend.apply(&ops(&changed)).unwrap();
            plain.apply(&ops(&stored)).unwrap();
            plain.apply(&ops(&changed)).unwrap();
            let range = KeyRange::between(&[from.min(to)], &[from.max(to) + 1]);
            prop_assert_eq!(
                logged.backend.scan(Table::Tasks, &range, limit).unwrap(),
                plain.scan(Table::Tasks, &range, limit).unwrap()
            );
            for key in 0..13_u8 {
                let found = logged.backend.get(Table::Tasks, &[key]).unwrap();
                prop_assert_eq!(found, plain.get(Table::Tasks, &[key]).unwrap());
            }
        }
    }

    fn all(changed: &ChangedRows) -> Vec<Op> {
        let rows = |(table, rows): (&Table, &BTreeMap<Vec<u8>, Option<Vec<u8>>>)| {
            let table = *table;
            rows.iter().map(|(key, value)| Op { table, key: key.clone(), value: value.clone() }).collect::<Vec<_>>()
        };
        changed.iter().flat_map(rows).collect()
    }

    /// A log of five commits, of which the database has heard of none.
    fn five(dir: &Path) -> MemoryBackend {
        let mut logged = Logged::open(dir, MemoryBackend::default());
        for key in 0..5 {
            logged.commit(&[(true, key, Some(7))]);
        }
        logged.backend.flush().unwrap();
        logged.die()
    }

    #[test]
    fn commits_that_a_database_lacks_in_between_are_not_made_up() {
        let dir = tempfile::tempdir().unwrap();
        let mut logged = Logged::open(dir.path(), five(dir.path()));
        logged.commit(&[(true, 9, Some(7))]);
        logged.backend.flush().unwrap();
        drop(logged);
        // As where a damaged stretch passes for the end of the database.
        let logged = Logged::open(dir.path(), MemoryBackend::default());
        assert_eq!((logged.ledger.commits(), logged.rows()), (0, vec![vec![], vec![]]));
        assert!(dir.path().join(UNREAD_WAL).exists(), "it is kept for a human");
        assert_eq!(fs::metadata(dir.path().join(WAL)).unwrap().len(), 0);
    }

    #[test]
    fn a_damaged_line_ends_what_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let database = five(dir.path());
        let path = dir.path().join(WAL);
        let mut text = fs::read(&path).unwrap();
        let third = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1).unwrap().0 + 20;
        text[third] ^= 1;
        fs::write(&path, &text).unwrap();
        let mut logged = Logged::open(dir.path(), database);
        assert_eq!(logged.ledger.commits(), 2);
        assert!(logged.ledger.matches(tally(&logged.backend)));
        assert_eq!(fs::read(dir.path().join(UNREAD_WAL)).unwrap(), text);
        logged.commit(&[(true, 9, Some(7))]);
        logged.backend.flush().unwrap();
        let logged = Logged::open(dir.path(), logged.die());
        assert_eq!(logged.ledger.commits(), 3);
    }

    #[test]
    fn what_a_database_has_is_not_made_older() {
        let dir = tempfile::tempdir().unwrap();
        let mut logged = Logged::open(dir.path(), MemoryBackend::default());
        logged.commit(&[(true, 1, Some(1))]);
        logged.backend.flush().unwrap();
        let log = fs::read(dir.path().join(WAL)).unwrap();
        logged.commit(&[(true, 1, Some(2))]);
        logged.commit(&[(true, 2, None)]);
        logged.backend.settle().unwrap();
        let (newest, database) = (logged.rows(), logged.die());
        // The power is lost: the end of the log with it, but not of the database.
        fs::write(dir.path().join(WAL), log).unwrap();
        let logged = Logged::open(dir.path(), database);
        assert_eq!((logged.ledger.commits(), logged.rows()), (3, newest));
    }

    #[test]
    fn a_commit_of_a_newer_release_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let text = super::super::line::line(
            &serde_json::json!({"after": 0, "ops": [{"t": "newer", "k": "QQ==", "v": "QQ=="}]}),
        );
        fs::write(dir.path().join(WAL), text.unwrap()).unwrap();
        let refused = Wal::open(dir.path());
        assert!(matches!(&refused, Err(super::super::StoreError::NewerTable { table }) if table == "newer"));
        assert!(fs::metadata(dir.path().join(WAL)).unwrap().len() > 0);
    }
}
