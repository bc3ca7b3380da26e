//! A wall clock that a case sets, for one daemon: libfaketime reads a file. Monotonic time goes on as it does.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use tempfile::TempDir;

use crate::daemon::Settings;
use crate::evidence;

const LIBRARY: &str = "libfaketimeMT.so.1";
/// Where Debian has it, on each architecture.
const FOLDERS: [&str; 2] = ["/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime"];

/// A clock.
pub struct Clock {
    library: PathBuf,
    folder: TempDir,
}

impl Clock {
    /// A clock that is right so far. `None`, with a note, where Debian's package `faketime` is not installed.
    pub fn start() -> Result<Option<Self>> {
        let library = FOLDERS.iter().map(|folder| Path::new(folder).join(LIBRARY)).find(|path| path.is_file());
        let Some(library) = library else {
            evidence::cannot("setting the clock of one process takes Debian's package faketime");
            return Ok(None);
        };
        let clock = Self { library, folder: tempfile::tempdir()? };
        clock.set(0)?;
        Ok(Some(clock))
    }

    /// Sets it so many seconds ahead of the machine's, or behind.
    pub fn set(&self, seconds: i64) -> Result<()> {
        let new = self.folder.path().join("new");
        fs::write(&new, format!("{seconds:+}\n"))?;
        Ok(fs::rename(new, self.file())?)
    }

    /// Lets a daemon have this clock.
    #[must_use]
    pub fn of(&self, settings: Settings) -> Settings {
        settings
            .environment("LD_PRELOAD", self.library.display())
            .environment("FAKETIME_TIMESTAMP_FILE", self.file().display())
            .environment("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .environment("FAKETIME_NO_CACHE", "1")
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("clock")
    }
}
