//! The file `db.trouble`, in which one start of the store leaves notes for the next.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use serde::{Deserialize, Serialize};

use super::StoreError;
use super::whole_file::write_whole_with;

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

    /// Writes the notes so that they are whole and durable: they decide what the next start does with the databases that it finds.
    pub(super) fn write(&self, notes: &RecoveryNotes) -> Result<(), StoreError> {
        let bytes = serde_json::to_vec(notes).map_err(StoreError::during("write a note"))?;
        // No free space is demanded: a start has to write them on a full disk, too, if the system lets it.
        write_whole_with(&self.path, 0, |file| file.write_all(&bytes)).map_err(StoreError::io("write", &self.path))
    }

    pub(super) fn clear(&self) -> Result<(), StoreError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", &self.path)(error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn notes_are_whole_or_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let file = RecoveryFile::in_dir(dir.path());
        let notes = |unfinished_opens| RecoveryNotes { unfinished_opens, ..RecoveryNotes::default() };
        file.write(&notes(1)).unwrap();
        let mut before = fs::File::open(&file.path).unwrap();
        file.write(&notes(2)).unwrap();
        assert_eq!(file.read().unfinished_opens, 2);
        let mut old = String::new();
        before.read_to_string(&mut old).unwrap();
        assert!(old.contains(r#""unfinished_opens":1"#), "another file takes the place of the old one: {old}");
        // Whole files, which are synced before they get their names, are written here.
        let unfinished = dir.path().join("db.trouble.new");
        fs::create_dir(&unfinished).unwrap();
        assert!(file.write(&notes(3)).is_err());
        assert_eq!(file.read().unfinished_opens, 2, "nothing is written in place");
        fs::remove_dir(&unfinished).unwrap();
        file.clear().unwrap();
        file.clear().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
