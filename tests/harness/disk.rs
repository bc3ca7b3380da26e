//! A small disk that a test can fill.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::sys::statvfs::statvfs;
use tempfile::TempDir;

use crate::evidence;

const BALLAST: &str = "ballast";

/// A file system in memory. Dropping it unmounts it, so a daemon on it must be dropped first.
pub struct Disk {
    folder: TempDir,
}

impl Disk {
    /// A disk of this many bytes. Where mounting is not allowed: `None`, and a line in the log.
    pub fn mount(bytes: u64) -> Result<Option<Self>> {
        let folder = tempfile::Builder::new().prefix("warmpool-disk-").tempdir()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes},mode=0700"), "tmpfs"]).arg(folder.path());
        let output = mount.output().context("mount")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            evidence::cannot(format!("there is no disk to fill: {}", said.trim()));
            return Ok(None);
        }
        Ok(Some(Self { folder }))
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Free bytes.
    pub fn free(&self) -> Result<u64> {
        free(self.path())
    }

    /// Fills it, or makes room, so that about this many bytes are free.
    pub fn leave(&self, free: u64) -> Result<()> {
        self.clear()?;
        let now = self.free()?;
        ensure!(now >= free, "{now} bytes are free, and {free} should be");
        Ok(fs::write(self.ballast(), vec![1; usize::try_from(now - free)?])?)
    }

    /// Fills it to the last byte, as far as nobody makes room meanwhile.
    pub fn fill(&self) -> Result<()> {
        let mut ballast = fs::File::options().create(true).append(true).open(self.ballast())?;
        for piece in [1 << 20, 4096, 1] {
            let bytes = vec![1; piece];
            loop {
                match ballast.write(&bytes) {
                    Ok(1..) => {}
                    Ok(0) => break,
                    Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Removes what [`Disk::leave`] and [`Disk::fill`] put there.
    pub fn clear(&self) -> Result<()> {
        match fs::remove_file(self.ballast()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn ballast(&self) -> PathBuf {
        self.path().join(BALLAST)
    }
}

/// Free bytes of the disk that a path is on.
pub fn free(path: &Path) -> Result<u64> {
    let stat = statvfs(path)?;
    Ok(stat.blocks_available() * stat.fragment_size())
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, because a daemon that a failed test has left may still have files open.
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).output();
    }
}
