//! The clocks that a machine's sleep or an administrator sets, for one daemon. Monotonic time goes on as it does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::daemon::Settings;
use crate::{eventually, evidence};

const LIBRARY: &str = "libfaketimeMT.so.1";
/// Where Debian has it, on each architecture.
const FOLDERS: [&str; 2] = ["/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime"];

/// A wall clock: libfaketime reads it from a file.
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

/// The clock that counts from the machine's boot, with a sleep in it that this machine did not have: a time namespace, and
/// the process that holds it.
pub struct BootClock(Child);

impl BootClock {
    /// A machine that has slept so many seconds since its boot. `None`, with a note, where the kernel lets nobody tell so.
    pub async fn after_sleep(seconds: u64) -> Result<Option<Self>> {
        let boot = format!("--boottime={seconds}");
        let mut holder = Command::new("unshare");
        holder.args(["--time", &boot, "sleep", "infinity"]).stdin(Stdio::null()).stderr(Stdio::null());
        let mut clock = Self(holder.spawn().context("unshare")?);
        let comm = format!("/proc/{}/comm", clock.0.id());
        let made = eventually!("the time namespace is made", 10, {
            let ended = clock.0.try_wait()?.is_some();
            (ended || fs::read_to_string(&comm)?.trim() == "sleep").then_some(!ended)
        })?;
        if !made {
            evidence::cannot("a clock of its own from the boot takes root, and a kernel with time namespaces");
            return Ok(None);
        }
        Ok(Some(clock))
    }

    /// Where the kernel has the namespace.
    pub(crate) fn namespace(&self) -> PathBuf {
        format!("/proc/{}/ns/time_for_children", self.0.id()).into()
    }
}

impl Drop for BootClock {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
