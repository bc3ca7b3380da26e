//! The journal of irrevocable changes: revocations, secrets and viewers' URLs that were replaced, deletions of patients
//! and worlds, links and sign-ins that were ended. It lies beside the database and its backups and outlives both: what it
//! holds is made again after every recovery and in every backup that is restored, so that an older state does not bring
//! back what was taken away for good.
//!
//! ```text
//! 5f1c2d3e {"warmpool_irrevocable":1,"history":"<32 hexadecimal digits>"}
//! 0a1b2c3d {"n":812,"ops":[{"t":"keys","k":"…","v":"…"},{"t":"sign_ins","k":"…"}]}
//! ```
//!
//! Each line begins with the CRC-32 of its JSON. A batch is one line, with the number of its commit. It is written once the
//! batch itself is durable, and synced before the call answers: that costs one sync of a few bytes, where a dump costs
//! as much as the store is large.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::StoreError;
use super::backend::{Backend, BackendError};
use super::batch::Op;
use super::dump::Change;
use super::layout::{JOURNAL, sync_parent};
use super::ledger::{CommitPoint, Ledger};
use super::record::sealed;
use warmpool_core::ids::random_bytes;

/// No line is longer: what is irrevocable is small.
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;

/// An irrevocable batch, and the number of its commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) commits: u64,
    pub(super) ops: Vec<Op>,
}

/// Where irrevocable changes are kept beside the database.
pub(super) trait Journal: Send {
    /// Returns once they survive loss of power.
    fn keep(&mut self, entries: &[Entry]) -> Result<(), BackendError>;
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
}

/// The journal of a data directory.
#[derive(Debug)]
pub(super) struct FileJournal {
    file: File,
    path: PathBuf,
    history: String,
}

impl FileJournal {
    /// Opens the journal, or begins one. A line that was not finished is taken off: nobody got an answer to it.
    /// Errors: when the file system refuses.
    pub(super) fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(JOURNAL);
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.map_err(StoreError::io("open", &path))?;
        let mut journal = Self { file, path, history: String::new() };
        let whole = journal.read(|_| Ok(()))?;
        let io = StoreError::io("write", &journal.path);
        let begun = (|| {
            journal.file.set_len(whole)?;
            journal.file.seek(SeekFrom::End(0))?;
            if journal.history.is_empty() {
                journal.history = hex::encode(random_bytes::<16>());
                let header = Header { warmpool_irrevocable: 1, history: journal.history.clone() };
                journal.file.write_all(&line(&header)?)?;
            }
            journal.file.sync_all()
        })();
        begun.map_err(io)?;
        sync_parent(&journal.path)?;
        Ok(journal)
    }

    /// Names the data directory.
    pub(super) fn history(&self) -> &str {
        &self.history
    }

    /// Passes on each entry, and returns where the last whole line ends.
    fn read(&mut self, mut each: impl FnMut(Entry) -> Result<(), StoreError>) -> Result<u64, StoreError> {
        let io = || StoreError::io("read", &self.path);
        self.file.seek(SeekFrom::Start(0)).map_err(io())?;
        let mut from = BufReader::new(&self.file);
        let (mut end, mut bytes) = (0, Vec::new());
        loop {
            bytes.clear();
            let read = from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes).map_err(io())?;
            if bytes.last() != Some(&b'\n') {
                return Ok(end);
            }
            end += read as u64;
            if let Some(entry) = parse::<Line>(&bytes).and_then(entry) {
                each(entry)?;
            } else if let Some(header) = parse::<Header>(&bytes) {
                self.history = header.history;
            } else {
                tracing::error!(path = %self.path.display(), at = end - read as u64, "a line of the journal is damaged");
            }
        }
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
        self.read(|entry| {
            last = last.max(entry.commits);
            if entry.commits > after {
                ledger.apply(backend, sealed(&entry.ops)).map_err(BackendError::writing)?;
                made += 1;
            }
            Ok(())
        })?;
        self.file.seek(SeekFrom::End(0)).map_err(StoreError::io("read", &self.path))?;
        ledger.skip_to(last);
        Ok(made)
    }
}

impl Journal for FileJournal {
    fn keep(&mut self, entries: &[Entry]) -> Result<(), BackendError> {
        let mut bytes = Vec::new();
        for Entry { commits, ops } in entries {
            bytes.extend(line(&Line { n: *commits, ops: ops.iter().map(Change::from).collect() })?);
        }
        self.file.write_all(&bytes)?;
        self.file.sync_data()?;
        Ok(())
    }
}

fn line(content: &impl Serialize) -> io::Result<Vec<u8>> {
    let json = serde_json::to_string(content)?;
    Ok(format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())).into_bytes())
}

fn parse<T: for<'a> Deserialize<'a>>(line: &[u8]) -> Option<T> {
    let (crc, json) = std::str::from_utf8(line).ok()?.trim_end_matches('\n').split_once(' ')?;
    let whole = u32::from_str_radix(crc, 16).ok()? == crc32fast::hash(json.as_bytes());
    serde_json::from_str(json).ok().filter(|_| whole)
}

fn entry(line: Line) -> Option<Entry> {
    let ops = line.ops.into_iter().map(Change::into_op).collect::<Option<Vec<Op>>>()?;
    Some(Entry { commits: line.n, ops })
}

#[cfg(test)]
mod tests {
    use super::super::Table;
    use super::super::memory::MemoryBackend;
    use super::*;

    fn entry(commits: u64, key: &[u8], value: Option<&[u8]>) -> Entry {
        Entry { commits, ops: vec![Op { table: Table::Keys, key: key.to_vec(), value: value.map(<[u8]>::to_vec) }] }
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

    #[test]
    fn a_line_cut_short_is_taken_off_and_a_damaged_one_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(JOURNAL);
        FileJournal::open(dir.path()).unwrap().keep(&[entry(1, b"a", Some(b"x")), entry(2, b"b", None)]).unwrap();
        let good = std::fs::read(&path).unwrap();
        for cut in 1..good.len() {
            std::fs::write(&path, &good[..cut]).unwrap();
            FileJournal::open(dir.path()).unwrap().keep(&[entry(3, b"c", Some(b"y"))]).unwrap();
            assert_eq!(replayed(dir.path(), None).0[2], 1, "cut at {cut}: what comes later is kept");
        }
        let lines: Vec<usize> = good.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
        let mut bad = good;
        bad[lines[0] + 20] ^= 1;
        std::fs::write(&path, &bad).unwrap();
        assert_eq!(replayed(dir.path(), None).0, vec![0, 0, 0], "the deletion after it is made again");
    }
}
