//! The journal of irrevocable changes: revocations, secrets and viewers' URLs that were replaced, deletions of patients
//! and worlds, ends of links. It lies beside the database and its backups and outlives both: what it
//! holds is made again after every recovery and in every backup that is restored, so that an older state does not bring
//! back what was taken away for good.
//!
//! ```text
//! 5f1c2d3e {"warmpool_irrevocable":1,"history":"<32 hexadecimal digits>"}
//! 0a1b2c3d {"n":812,"ops":[{"t":"keys","k":"…","v":"…"},{"t":"worlds","k":"…"}]}
//! ```
//!
//! Each line begins with the CRC-32 of its JSON. A batch is one line, with the number of its commit. It is written once the
//! batch itself is durable, and synced before the call answers: that costs one sync of a few bytes, where a dump costs
//! as much as the store is large. A line may say until when it matters (`until`), and for each change whose row no dump has how
//! many commits there were before that row (`since`).
//!
//! A journal that has grown, and once an hour one that has lines of these two kinds, is written anew beside itself, without the lines
//! that `compaction` says are needed no more. Lines are kept as they are or not at all: those of another release, or damaged ones, stay.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write as _};
use std::iter;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::backend::{Backend, BackendError};
use super::batch::Op;
use super::change::Change;
use super::compaction::{LineFacts, unneeded};
use super::disk::free_bytes;
use super::layout::{JOURNAL, UNFINISHED_JOURNAL, sync_parent};
use super::ledger::{CommitPoint, Ledger};
use super::line::{line, lines, parse};
use super::record::sealed;
use super::{StoreError, Table, backup_folder};
use warmpool_core::clock::{Deadline, Now};
use warmpool_core::ids::random_bytes;

/// A journal that is larger is compacted once it is twice as large as it was after the last time.
const COMPACT_FROM: u64 = 1024 * 1024;
/// Compacting takes at most this part of what is free on the disk, for as long as there are two journals.
const SHARE_OF_FREE: u64 = 4;
/// Time between two looks for lines that have become unneeded by themselves, in a journal that may have such.
const LOOK_EVERY: Duration = Duration::from_secs(3600);

/// An irrevocable batch, and the number of its commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) commits: u64,
    pub(super) ops: Vec<Op>,
    /// When it can matter no more.
    pub(super) until: Option<Deadline>,
    /// For each change whose row no dump has, how many commits there were before that row.
    pub(super) since: Vec<Option<u64>>,
}

/// Where irrevocable changes are kept beside the database.
pub(super) trait Journal: Send {
    /// Returns once they survive loss of power.
    fn keep(&mut self, entries: &[Entry]) -> Result<(), BackendError>;

    /// Removes what needs to be kept no more, where there may be much of it.
    fn compact(&mut self) -> Result<(), BackendError>;
}

#[derive(Serialize, Deserialize)]
struct Header {
    warmpool_irrevocable: u32,
    history: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    n: u64,
    ops: Vec<Change>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Deadline>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    since: Vec<Option<u64>>,
}

impl Line {
    /// Whether it may become unneeded by itself.
    const fn passes(&self) -> bool {
        self.until.is_some() || !self.since.is_empty()
    }

    /// Whether no older state can bring back what it takes away.
    fn is_over(&self, now: &Now) -> bool {
        let is_left_out = |change: &Change| Table::from_name(&change.t).is_some_and(Table::is_left_out);
        self.until.as_ref().is_some_and(|until| until.is_over(now)) || self.ops.iter().all(is_left_out)
    }
}

/// The keys of those rows of a table that were deleted for good. It may be asked for while the journal is in use.
/// Errors: `Io`; `NewerTable`.
pub(super) fn deleted(dir: &Path, table: Table) -> Result<HashSet<Vec<u8>>, StoreError> {
    let (path, mut deleted) = (dir.join(JOURNAL), HashSet::new());
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(deleted),
        opened => opened.map_err(StoreError::io("open", &path))?,
    };
    lines(&path, file, |_, bytes| {
        let changes = parse::<Line>(bytes).into_iter().flat_map(|line| line.ops);
        for change in changes.filter(|change| change.t == table.name()) {
            let Op { key, value, .. } = change.into_op()?;
            if value.is_none() {
                deleted.insert(key)
            } else {
                deleted.remove(&key)
            };
        }
        Ok(())
    })?;
    Ok(deleted)
}

/// The journal of a data directory.
#[derive(Debug)]
pub(super) struct FileJournal {
    file: File,
    path: PathBuf,
    history: String,
    /// How many bytes it has.
    length: u64,
    /// How many it has when it is compacted.
    compact_from: u64,
    /// Whether it may have lines that become unneeded by themselves.
    passes: bool,
    /// When such were looked for.
    looked: Option<Instant>,
    /// How many commits need no backup to be sure of.
    verified: u64,
}

impl FileJournal {
    /// Opens the journal, or begins one. A line that was not finished is taken off: nobody got an answer to it.
    /// Errors: when the file system refuses.
    pub(super) fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(JOURNAL);
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.map_err(StoreError::io("open", &path))?;
        let (history, length, compact_from) = (String::new(), 0, COMPACT_FROM);
        let mut journal = Self { file, path, history, length, compact_from, passes: false, looked: None, verified: 0 };
        let mut passes = false;
        let whole = journal.read(|line| {
            passes |= line.passes();
            Ok(())
        })?;
        journal.passes = passes;
        let io = StoreError::io("write", &journal.path);
        let begun = (|| {
            journal.file.set_len(whole)?;
            journal.file.seek(SeekFrom::End(0))?;
            if journal.history.is_empty() {
                journal.history = hex::encode(random_bytes::<16>());
                let header = Header { warmpool_irrevocable: 1, history: journal.history.clone() };
                journal.file.write_all(&line(&header)?)?;
            }
            journal.length = journal.file.stream_position()?;
            journal.file.sync_all()
        })();
        begun.map_err(io)?;
        sync_parent(&journal.path)?;
        Ok(journal)
    }

    /// Of a store that makes no backups, and whose start has found so many commits in sled. It writes a snapshot of them while it opens, so
    /// that the database comes back with at least as many, whatever happens to its end. No dump that is made elsewhere has a row
    /// that was deleted before.
    pub(super) const fn without_backups(mut self, verified: u64) -> Self {
        self.verified = verified;
        self
    }

    /// Names the data directory.
    pub(super) fn history(&self) -> &str {
        &self.history
    }

    /// Passes on the changes of each line, and returns where the last whole line ends.
    fn read(&mut self, mut each: impl FnMut(Line) -> Result<(), StoreError>) -> Result<u64, StoreError> {
        self.file.seek(SeekFrom::Start(0)).map_err(StoreError::io("read", &self.path))?;
        let (path, history) = (&self.path, &mut self.history);
        lines(path, &self.file, |at, bytes| {
            if let Some(line) = parse::<Line>(bytes) {
                return each(line);
            }
            match parse::<Header>(bytes) {
                Some(header) => *history = header.history,
                None => tracing::error!(path = %path.display(), at, "a line of the journal is damaged"),
            }
            Ok(())
        })
    }

    /// Writes the lines that are needed to a file beside it, which then takes its name. Nothing where all of them are.
    fn rewrite(&self) -> Result<Option<(File, u64)>, StoreError> {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        let backed_up = backup_folder::newest_commits(dir, &self.history).unwrap_or(0).max(self.verified);
        let unneeded = unneeded(&self.facts()?, backed_up);
        let rest = self.length.saturating_sub(unneeded.values().sum());
        if unneeded.is_empty() || free_bytes(&self.path).is_some_and(|free| free / SHARE_OF_FREE < rest) {
            return Ok(None);
        }
        let unfinished = self.path.with_file_name(UNFINISHED_JOURNAL);
        let io = || StoreError::io("write", &unfinished);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&unfinished).map_err(io())?;
        let (mut out, mut length) = (BufWriter::new(&file), 0);
        lines(&self.path, self.reopened()?, |at, bytes| {
            if unneeded.contains_key(&at) {
                return Ok(());
            }
            length += bytes.len() as u64;
            out.write_all(bytes).map_err(io())
        })?;
        out.flush().map_err(io())?;
        drop(out);
        file.sync_all().map_err(io())?;
        fs::rename(&unfinished, &self.path).map_err(io())?;
        Ok(Some((file, length)))
    }

    /// Its lines, but for those that cannot be read.
    fn facts(&self) -> Result<Vec<LineFacts>, StoreError> {
        let (mut found, now) = (Vec::new(), Now::read());
        lines(&self.path, self.reopened()?, |at, bytes| {
            if let Some(line) = parse::<Line>(bytes) {
                let since = line.since.iter().copied().chain(iter::repeat(None));
                let places = line.ops.iter().map(Change::place).zip(since).collect();
                let (bytes, commits, is_over) = (bytes.len() as u64, line.n, line.is_over(&now));
                let deletes = line.ops.iter().all(Change::deletes);
                found.push(LineFacts { at, bytes, commits, deletes, is_over, places });
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The number of the last commit that it has; 0 where it has none.
    pub(super) fn last(&self) -> Result<u64, StoreError> {
        Ok(self.facts()?.iter().map(|line| line.commits).max().unwrap_or(0))
    }

    /// The file at another place of its own.
    fn reopened(&self) -> Result<File, StoreError> {
        File::open(&self.path).map_err(StoreError::io("read", &self.path))
    }

    /// Makes again what is irrevocable and came after this moment; all of it where the moment is of another history, or none.
    /// Returns how many batches that were. Later commits get later numbers than any that is known here.
    pub(super) fn replay(
        &mut self,
        after: Option<&CommitPoint>,
        backend: &mut dyn Backend,
        ledger: &mut Ledger,
    ) -> Result<u64, StoreError> {
        let after = after.filter(|point| point.history == self.history).map_or(0, |point| point.commits);
        let (mut made, mut last) = (0, 0);
        let read = self.read(|line| {
            last = last.max(line.n);
            if line.n > after {
                let ops = line.ops.into_iter().map(Change::into_op).collect::<Result<Vec<Op>, _>>()?;
                ledger.apply(backend, sealed(&ops)).map_err(BackendError::writing)?;
                made += 1;
            }
            Ok(())
        });
        self.file.seek(SeekFrom::End(0)).map_err(StoreError::io("read", &self.path))?;
        read?;
        ledger.skip_to(last);
        Ok(made)
    }
}

impl Journal for FileJournal {
    fn keep(&mut self, entries: &[Entry]) -> Result<(), BackendError> {
        let mut bytes = Vec::new();
        for Entry { commits, ops, until, since } in entries {
            let ops = ops.iter().map(Change::from).collect();
            let since = if since.iter().any(Option::is_some) { since.clone() } else { Vec::new() };
            let entry = Line { n: *commits, ops, until: until.clone(), since };
            self.passes |= entry.passes();
            bytes.extend(line(&entry)?);
        }
        self.file.write_all(&bytes)?;
        self.file.sync_data()?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn compact(&mut self) -> Result<(), BackendError> {
        let is_due = self.passes && self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY);
        if self.length < self.compact_from && !is_due {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        match self.rewrite() {
            Ok(Some((file, length))) => {
                (self.file, self.length) = (file, length);
                // Until then the old one may come back, without what the new one will be given.
                sync_parent(&self.path).map_err(io::Error::other)?;
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "the journal of irrevocable changes stays as large as it is");
                let _ = fs::remove_file(self.path.with_file_name(UNFINISHED_JOURNAL));
            }
        }
        self.compact_from = COMPACT_FROM.max(2 * self.length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::KeyRange;
    use super::super::memory::MemoryBackend;
    use super::*;

    fn entry(commits: u64, key: &[u8], value: Option<&[u8]>) -> Entry {
        let op = Op { table: Table::Keys, key: key.to_vec(), value: value.map(<[u8]>::to_vec) };
        Entry { commits, ops: vec![op], until: None, since: Vec::new() }
    }

    fn replayed(dir: &Path, after: Option<&CommitPoint>) -> (Vec<u8>, u64) {
        let (mut backend, mut ledger) = (MemoryBackend::default(), Ledger::default());
        ledger.apply(&mut backend, sealed(&entry(0, b"b", Some(b"old")).ops)).unwrap();
        FileJournal::open(dir).unwrap().replay(after, &mut backend, &mut ledger).unwrap();
        let keys = [b"a", b"b", b"c"].map(|key| backend.get(Table::Keys, key).unwrap().is_some());
        (keys.into_iter().map(u8::from).collect(), ledger.commits())
    }

    #[test]
    fn what_came_after_a_moment_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = FileJournal::open(dir.path()).unwrap();
        journal.keep(&[entry(5, b"a", Some(b"x")), entry(7, b"b", None)]).unwrap();
        journal.keep(&[entry(9, b"c", Some(b"y"))]).unwrap();
        let history = journal.history().to_owned();
        let after = |commits| Some(CommitPoint { history: history.clone(), commits });
        assert_eq!(replayed(dir.path(), after(4).as_ref()), (vec![1, 0, 1], 9));
        assert_eq!(replayed(dir.path(), after(7).as_ref()), (vec![0, 1, 1], 9));
        assert_eq!(replayed(dir.path(), after(99).as_ref()), (vec![0, 1, 0], 9));
        let other = CommitPoint { history: "another".to_owned(), commits: 99 };
        assert_eq!(replayed(dir.path(), Some(&other)), (vec![1, 0, 1], 9), "of another history all is made again");
        assert_eq!(replayed(dir.path(), None), (vec![1, 0, 1], 9));
    }

    /// Key and value.
    type RawRow = (Vec<u8>, Vec<u8>);

    /// Every row, and the number of the last commit, after a replay from so many commits on.
    fn state(journal: &mut FileJournal, after: u64) -> (Vec<RawRow>, u64) {
        let (mut backend, mut ledger) = (MemoryBackend::default(), Ledger::default());
        let point = CommitPoint { history: journal.history().to_owned(), commits: after };
        for key in 0..6 {
            ledger.apply(&mut backend, sealed(&entry(0, &[key], Some(b"old")).ops)).unwrap();
        }
        journal.replay(Some(&point), &mut backend, &mut ledger).unwrap();
        (backend.scan(Table::Keys, &KeyRange::all(), usize::MAX).unwrap(), ledger.commits())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_compacted_journal_leads_to_the_same_state_from_wherever_it_is_replayed(
            batches in prop::collection::vec(
                (1..4u64, prop::collection::vec((0..6u8, prop::option::of(0..9u8)), 0..4)), 1..30,
            ),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut journal = FileJournal::open(dir.path()).unwrap();
            // More than there are batches, since each that is made again counts as one.
            let mut commits = 100;
            for (step, ops) in &batches {
                commits += step;
                let op = |(key, value): &(u8, Option<u8>)| {
                    Op { table: Table::Keys, key: vec![*key], value: value.map(|value| vec![value]) }
                };
                let ops = ops.iter().map(op).collect();
                journal.keep(&[Entry { commits, ops, until: None, since: Vec::new() }]).unwrap();
            }
            let before: Vec<_> = (100..=commits).map(|after| state(&mut journal, after)).collect();
            journal.compact_from = 0;
            journal.compact().unwrap();
            let text = fs::read_to_string(dir.path().join(JOURNAL)).unwrap();
            prop_assert!(text.lines().count() <= 8, "the head, a line each for six rows, and the last one: {text}");
            let mut again = FileJournal::open(dir.path()).unwrap();
            let after: Vec<_> = (100..=commits).map(|after| state(&mut again, after)).collect();
            prop_assert_eq!(before, after);
            journal.keep(&[entry(commits + 1, b"z", Some(b"later"))]).unwrap();
            let mut again = FileJournal::open(dir.path()).unwrap();
            prop_assert_eq!(state(&mut again, commits), state(&mut journal, commits));
            prop_assert_eq!(state(&mut again, commits).1, commits + 1, "it goes on in the new file");
        }
    }

    #[test]
    fn a_journal_stays_small_and_keeps_what_it_cannot_read() {
        let dir = tempfile::tempdir().unwrap();
        let (path, unfinished) = (dir.path().join(JOURNAL), dir.path().join(UNFINISHED_JOURNAL));
        let mut journal = FileJournal::open(dir.path()).unwrap();
        let history = journal.history().to_owned();
        let newer = line(&serde_json::json!({"n": 1, "ops": [{"t": "newer", "k": "QQ=="}]})).unwrap();
        let odd = [&newer[..], b"damaged\n"].concat();
        journal.file.write_all(&odd).unwrap();
        let mut journal = FileJournal::open(dir.path()).unwrap();
        for commits in 2..200 {
            fs::write(&unfinished, "of a process that was killed").unwrap();
            journal.keep(&[entry(commits, &[u8::try_from(commits % 2).unwrap()], Some(&[b'x'; 40_000]))]).unwrap();
            journal.compact().unwrap();
            let length = fs::metadata(&path).unwrap().len();
            assert!(length < 2 * COMPACT_FROM && length == journal.length, "{length} bytes after {commits}");
        }
        let kept = fs::read(&path).unwrap();
        assert!(kept.windows(odd.len()).any(|part| part == odd), "what is not its own stays");
        let mut journal = FileJournal::open(dir.path()).unwrap();
        assert_eq!(journal.history(), history);
        let (mut backend, mut ledger) = (MemoryBackend::default(), Ledger::default());
        let point = CommitPoint { history, commits: 1 };
        journal.replay(Some(&point), &mut backend, &mut ledger).unwrap();
        assert_eq!(ledger.commits(), 199);
        let needed = journal.replay(None, &mut backend, &mut ledger);
        assert!(matches!(needed, Err(StoreError::NewerTable { table }) if table == "newer"));

        // A folder in its place stands for whatever the disk may refuse.
        fs::remove_file(&unfinished).unwrap_or_default();
        fs::create_dir(&unfinished).unwrap();
        journal.compact_from = 0;
        journal.keep(&[entry(200, &[0], None)]).unwrap();
        journal.compact().unwrap();
        journal.keep(&[entry(201, &[1], None)]).unwrap();
        assert!(fs::read(&path).unwrap().starts_with(&kept), "it goes on as it is");
    }

    #[test]
    fn a_line_cut_short_is_taken_off_and_a_damaged_one_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(JOURNAL);
        FileJournal::open(dir.path()).unwrap().keep(&[entry(1, b"a", Some(b"x")), entry(2, b"b", None)]).unwrap();
        let good = fs::read(&path).unwrap();
        for cut in 1..good.len() {
            fs::write(&path, &good[..cut]).unwrap();
            FileJournal::open(dir.path()).unwrap().keep(&[entry(3, b"c", Some(b"y"))]).unwrap();
            assert_eq!(replayed(dir.path(), None).0[2], 1, "cut at {cut}: what comes later is kept");
        }
        let lines: Vec<usize> = good.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
        let mut bad = good;
        bad[lines[0] + 20] ^= 1;
        fs::write(&path, &bad).unwrap();
        assert_eq!(replayed(dir.path(), None).0, vec![0, 0, 0], "the deletion after it is made again");
    }
}
