//! The write-ahead log: a file in the database's directory with the commits that the database may not have yet.
//!
//! ```text
//! 0a1b2c3d {"after":811,"ops":[{"t":"sessions","k":"…","v":"…"},{"t":"meta","k":"…","v":"…"}]}
//! ```
//!
//! Each commit is a [line](super::line), and says after which commit it comes. Values are sealed, as the database gets them. The log is
//! emptied once the database has all of it on the medium, and what it held is [kept](super::kept_log) beside the newest backup.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::backend::{BackendError, Barrier, FileBarrier};
use super::batch::Op;
use super::change::Change;
use super::layout::{DATABASE, UNREAD_WAL, WAL, sync_parent};
use super::line::{line, lines, parse};
use super::{StoreError, Table};

#[derive(Serialize, Deserialize)]
struct Line {
    after: u64,
    #[serde(default, skip_serializing_if = "is_false")]
    is_split: bool,
    ops: Vec<Change>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A commit as the log has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LoggedCommit {
    /// The number of the commit before it.
    pub(super) after: u64,
    /// Whether its changes of rows that are kept apart are elsewhere.
    pub(super) is_split: bool,
    /// Its changes, sealed.
    pub(super) ops: Vec<Op>,
}

/// Reads the commits of a log that is in use no more, up to the first that is not whole. Where there is no such file there are none.
/// Errors: `NewerTable`; `Io` when the file system does not open it.
pub(super) fn read_commits(path: &Path) -> Result<Vec<LoggedCommit>, StoreError> {
    match File::open(path) {
        Ok(file) => read(path, &file).map(|read| read.commits),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(StoreError::io("open", path)(error)),
    }
}

/// What a log has.
struct Read {
    /// Up to the first that is not whole.
    commits: Vec<LoggedCommit>,
    /// Whether a whole line is no commit, or cannot be read.
    is_damaged: bool,
    /// Where the last whole line ends.
    ends: u64,
}

fn read(path: &Path, file: &File) -> Result<Read, StoreError> {
    let (mut commits, mut is_damaged) = (Vec::new(), false);
    let read = lines(path, file, |_, bytes| {
        match parse::<Line>(bytes).filter(|_| !is_damaged) {
            Some(Line { after, is_split, ops }) => {
                let ops = ops.into_iter().map(Change::into_op).collect::<Result<_, _>>()?;
                commits.push(LoggedCommit { after, is_split, ops });
            }
            None => is_damaged = true,
        }
        Ok(())
    });
    let ends = match read {
        // A bad sector is damage, too.
        Err(error @ StoreError::Io { .. }) => {
            tracing::error!(%error, "the write-ahead log cannot be read to its end");
            is_damaged = true;
            0
        }
        read => read?,
    };
    Ok(Read { commits, is_damaged, ends })
}

/// The lines of a log without the changes of rows that are kept apart, of which they tell, and lines of these alone.
pub(super) fn split_apart(log: &[u8]) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let is_apart = |change: &Change| Table::from_name(&change.t).is_some_and(Table::is_kept_apart);
    let (mut others, mut apart) = (Vec::new(), Vec::new());
    for bytes in log.split_inclusive(|byte| *byte == b'\n') {
        match parse::<Line>(bytes) {
            Some(Line { after, ops, .. }) if ops.iter().any(is_apart) => {
                let (of_apart, of_others) = ops.into_iter().partition(is_apart);
                others.extend(line(&Line { after, is_split: true, ops: of_others })?);
                apart.extend(line(&Line { after, is_split: false, ops: of_apart })?);
            }
            _ => others.extend(bytes),
        }
    }
    Ok((others, apart))
}

/// Removes the log that was set aside in a data directory's database, if there is one.
/// Errors: `Io`.
pub(super) fn forget_unread(dir: &Path) -> Result<(), StoreError> {
    let path = dir.join(DATABASE).join(UNREAD_WAL);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", &path)(error)),
        _ => Ok(()),
    }
}

/// The log of an open database.
#[derive(Debug)]
pub(super) struct Wal {
    file: File,
    path: PathBuf,
    /// What was added and not written.
    buffer: Vec<u8>,
    /// How many bytes the file has.
    bytes: u64,
    /// Whether something in the file is no commit, though it is a whole line.
    is_damaged: bool,
}

impl Wal {
    /// Opens the log in a database's directory, or begins one, and reads the commits that it holds, up to the first that is not whole.
    /// Errors: `NewerTable`; `Io` when the file system does not open it.
    pub(super) fn open(database: &Path) -> Result<(Self, Vec<LoggedCommit>), StoreError> {
        let path = database.join(WAL);
        let opened = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path);
        let file = opened.map_err(StoreError::io("open", &path))?;
        sync_parent(&path)?;
        let Read { commits, is_damaged, ends } = read(&path, &file)?;
        // The half of a commit, to which nobody got an answer: what is kept of the log must not end in it.
        let bytes = if is_damaged { file.metadata().map_err(StoreError::io("read", &path))?.len() } else { ends };
        if !is_damaged {
            file.set_len(bytes).map_err(StoreError::io("truncate", &path))?;
        }
        Ok((Self { file, path, buffer: Vec::new(), bytes, is_damaged }, commits))
    }

    /// Adds a commit to what is written next.
    pub(super) fn add(&mut self, after: u64, ops: &[Op]) -> Result<(), BackendError> {
        self.buffer.extend(line(&Line { after, is_split: false, ops: ops.iter().map(Change::from).collect() })?);
        Ok(())
    }

    /// Hands what was added to the operating system.
    pub(super) fn write(&mut self) -> Result<(), BackendError> {
        if !self.buffer.is_empty() {
            self.file.write_all(&self.buffer)?;
            self.bytes += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes are written.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it held something that is no commit. The half of one at its end is no damage: nobody got an answer to it.
    pub(super) const fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Empties the log: the database has all of it on the medium.
    pub(super) fn clear(&mut self) -> Result<(), BackendError> {
        self.buffer.clear();
        self.file.set_len(0)?;
        self.bytes = 0;
        Ok(())
    }

    /// Begins anew, and keeps the present file beside it for a human, until something is deleted that no backup may hold: it has what could
    /// not be made again.
    pub(super) fn set_aside(&mut self) -> Result<(), BackendError> {
        let unread = self.path.with_file_name(UNREAD_WAL);
        tracing::warn!(path = %unread.display(), "the write-ahead log has what could not be made again; it is kept there");
        fs::rename(&self.path, unread)?;
        let begun = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&self.path);
        (self.file, self.bytes, self.is_damaged) = (begun?, 0, false);
        sync_parent(&self.path).map_err(io::Error::other)?;
        Ok(())
    }

    /// A barrier for what has been written when it is waited on.
    pub(super) fn barrier(&self) -> Result<Box<dyn Barrier>, BackendError> {
        Ok(Box::new(FileBarrier(self.file.try_clone()?)))
    }
}
