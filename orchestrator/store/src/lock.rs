//! The lock on the data directory.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};

use super::StoreError;

const FILE: &str = "db.lock";

/// Held while a process uses the store.
#[derive(Debug)]
pub(super) struct DirLock {
    _file: Flock<File>,
}

impl DirLock {
    pub(super) fn take(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(FILE);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(StoreError::io("open", &path))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Self { _file: file }),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Err(StoreError::Locked { dir: dir.to_owned() }),
            Err((_, errno)) => Err(StoreError::io("lock", &path)(errno.into())),
        }
    }
}
