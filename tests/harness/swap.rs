//! Swap that a test brings.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::evidence;

/// Swap in a file. Dropping it takes it out of use.
pub struct Swap {
    folder: TempDir,
}

impl Swap {
    /// Swap of this many bytes. Where the host takes none: `None`, and a line in the log.
    pub fn make(bytes: u64) -> Result<Option<Self>> {
        let swap = Self { folder: tempfile::Builder::new().prefix("warmpool-swap-").tempdir()? };
        let file = swap.file().display().to_string();
        // Without a hole, which the kernel does not take.
        for words in [
            &["fallocate", "--length", &bytes.to_string(), &file],
            &["chmod", "600", &file][..],
            &["mkswap", &file],
            &["swapon", &file],
        ] {
            let output = Command::new(words[0]).args(&words[1..]).output().with_context(|| words[0].to_owned())?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                evidence::cannot(format!("there is no swap: {}: {}", words[0], said.trim()));
                return Ok(None);
            }
        }
        Ok(Some(swap))
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("swap")
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        // It fails where it never came into use.
        let _ = Command::new("swapoff").arg(self.file()).output();
    }
}

/// How many bytes of a process are in swap.
pub fn of_process(pid: i32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = status.lines().find_map(|line| line.strip_prefix("VmSwap:")).context("VmSwap")?;
    let kib: u64 = field.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

/// Whether this host has swap of its own.
pub fn is_there() -> Result<bool> {
    let swaps = fs::read_to_string("/proc/swaps")?;
    ensure!(swaps.starts_with("Filename"), "{swaps}");
    Ok(swaps.lines().count() > 1)
}
