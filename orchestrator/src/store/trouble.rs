//! What one start of the store leaves for the next: the file `db.trouble`.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::StoreError;
use super::recover::Cause;

const FILE: &str = "db.trouble";

/// A handle to the file, which may not exist.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    path: PathBuf,
}

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Notes {
    /// Starts that have begun to open the database and have not said that they were done.
    pub(super) unfinished_opens: u32,
    /// The database showed damage while in use.
    pub(super) failed: Option<String>,
    /// The database was given up, and its replacement is not complete.
    pub(super) replacing: Option<(Cause, PathBuf)>,
}

impl Trouble {
    pub(super) fn of(dir: &Path) -> Self {
        Self { path: dir.join(FILE) }
    }

    /// For a process that is about to end because of damage. It can do no more than try.
    pub(super) fn leave_word(&self, reason: &str) {
        let notes = Notes { failed: Some(reason.to_owned()), ..self.read() };
        if let Err(error) = self.write(&notes) {
            tracing::error!(%error, "cannot leave word for the next start");
        }
    }

    pub(super) fn read(&self) -> Notes {
        fs::read(&self.path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    pub(super) fn write(&self, notes: &Notes) -> Result<(), StoreError> {
        let bytes = serde_json::to_vec(notes)
            .map_err(|source| StoreError::Io { doing: "write a note".to_owned(), source: source.into() })?;
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
