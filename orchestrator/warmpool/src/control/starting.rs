//! The sign that a daemon is starting. Before it takes orders it may have to wait until another daemon's lease on its workers is over,
//! and may take minutes to open its store.
//!
//! The sign is a lock and no socket. Daemons of several hosts may share a data directory, and one that waits must leave the
//! control socket of the one that runs alone. The kernel takes the lock from a process that ends, however it ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use tokio::time::sleep;

/// Locked while a daemon is starting.
const LOCK: &str = "starting.lock";
/// Commands that look hold the lock for a moment, together with one another.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Shows that this process is starting a daemon, until it is dropped.
#[derive(Debug)]
pub(crate) struct Starting {
    _lock: Flock<File>,
}

impl Starting {
    /// Shows it on a data directory, which is there. None where another daemon is starting on it.
    /// Errors: when the lock's file cannot be made or locked.
    pub(crate) async fn begin(data_dir: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).mode(0o600).open(data_dir.join(LOCK))?;
        for _ in 0..TRIES {
            file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(Some(Self { _lock: lock })),
                Err((file, Errno::EWOULDBLOCK)) => file,
                Err((_, errno)) => return Err(errno.into()),
            };
            sleep(BETWEEN_TRIES).await;
        }
        Ok(None)
    }

    /// Whether a daemon is starting on a data directory, as far as this user can see.
    #[must_use]
    pub(crate) fn is_shown(data_dir: &Path) -> bool {
        let Ok(file) = File::open(data_dir.join(LOCK)) else { return false };
        matches!(Flock::lock(file, FlockArg::LockSharedNonblock), Err((_, Errno::EWOULDBLOCK)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_daemon_at_a_time_shows_that_it_is_starting() {
        let data = tempfile::tempdir().unwrap();
        assert!(!Starting::is_shown(data.path()));
        let starting = Starting::begin(data.path()).await.unwrap().unwrap();
        assert!(Starting::is_shown(data.path()));
        assert!(Starting::begin(data.path()).await.unwrap().is_none());
        drop(starting);
        assert!(!Starting::is_shown(data.path()));
        assert!(Starting::begin(&data.path().join("none")).await.is_err());
    }

    #[tokio::test]
    async fn who_looks_keeps_no_daemon_from_starting() {
        let data = tempfile::tempdir().unwrap();
        drop(Starting::begin(data.path()).await.unwrap());
        let looking = Flock::lock(File::open(data.path().join(LOCK)).unwrap(), FlockArg::LockSharedNonblock).unwrap();
        let (begun, ()) = tokio::join!(Starting::begin(data.path()), async {
            tokio::task::yield_now().await;
            drop(looking);
        });
        assert!(begun.unwrap().is_some());
    }
}
