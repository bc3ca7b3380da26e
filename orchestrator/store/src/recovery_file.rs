//! The file `db.trouble`, in which one start of the store leaves notes for the next.

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use serde::{Deserialize, Serialize};

use super::StoreError;

const FILE: &str = "db.trouble";

/// Why a database was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RecoveryCause {
    /// It could not be opened, or a record in it was wrong.
    Damaged {
        /// What was found.
        reason: String,
    },
    /// It lacks the last commits, as after damage to the end of its log. What it has is whole, and was carried over unless
    /// there is a newer backup.
    Behind {
        /// The commits that it has.
        found: u64,
        /// Those that it must have.
        expected: u64,
    },
    /// The process died each time it opened it.
    NeverOpened,
    /// Its directory is gone, though there are signs that it was there.
    Missing,
    /// It failed while the daemon ran. What could be read of it was carried over.
    FailedWhileRunning {
        /// What was found then.
        reason: String,
    },
}

impl fmt::Display for RecoveryCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoveryCause::Damaged { reason } => write!(f, "it is damaged ({reason})"),
            RecoveryCause::Behind { found, expected } => {
                write!(f, "it lacks the last {} commits: it ends with number {found}", expected.saturating_sub(*found))
            }
            RecoveryCause::NeverOpened => f.write_str("the daemon died each time it opened it"),
            RecoveryCause::Missing => f.write_str("it is missing"),
            RecoveryCause::FailedWhileRunning { reason } => {
                write!(f, "it failed while the daemon ran ({reason})")
            }
        }
    }
}

/// A handle to the file, which may not exist.
#[derive(Clone, Debug)]
pub(super) struct RecoveryFile {
    path: PathBuf,
}

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RecoveryNotes {
    /// Starts that have begun to open the database and have not said that they were done.
    pub(super) unfinished_opens: u32,
    /// Starts in a row to which opening the database took too long.
    pub(super) timed_out_opens: u32,
    /// The database showed damage while in use.
    pub(super) failed: Option<String>,
    /// The database was given up, and its replacement is not complete.
    pub(super) replacing: Option<(RecoveryCause, PathBuf)>,
    /// A backup was read by hand: `db.new` and `files.new` are whole, and are being put in place.
    pub(super) restoring: bool,
}

impl RecoveryFile {
    pub(super) fn in_dir(dir: &Path) -> Self {
        Self { path: dir.join(FILE) }
    }

    /// For a process that is about to end because of damage. It can do no more than try.
    pub(super) fn record_failure(&self, reason: &str) {
        let notes = RecoveryNotes { failed: Some(reason.to_owned()), ..self.read() };
        if let Err(error) = self.write(&notes) {
            tracing::error!(%error, "cannot record the failure for the next start");
        }
    }

    pub(super) fn read(&self) -> RecoveryNotes {
        fs::read(&self.path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    pub(super) fn write(&self, notes: &RecoveryNotes) -> Result<(), StoreError> {
        let bytes = serde_json::to_vec(notes).map_err(StoreError::during("write a note"))?;
        let unfinished = self.path.with_extension("trouble.tmp");
        fs::write(&unfinished, bytes).map_err(StoreError::io("write", &unfinished))?;
        fs::rename(&unfinished, &self.path).map_err(StoreError::io("rename", &unfinished))
    }

    pub(super) fn clear(&self) -> Result<(), StoreError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", &self.path)(error)),
            _ => Ok(()),
        }
    }
}
