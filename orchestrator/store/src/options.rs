//! How the store behaves.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::FatalHook;

/// How the store behaves.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// With less free space than this, bytes, commits are refused.
    pub min_free_bytes: u64,
    /// How long a call may take, queueing included.
    pub call_timeout: Duration,
    /// How long opening may go without progress. sled shows none while it reads its log, so allow for all of that.
    pub open_timeout: Duration,
    /// Ends the opening, since the process is to end.
    pub cancelled: CancellationToken,
    /// How many calls may wait for the storage thread.
    pub queue: usize,
    /// What happens when the storage fails.
    pub on_fatal: FatalHook,
    /// Time between two backups.
    pub backup_interval: Duration,
    /// How many of them are kept, beside the newest four of any kind. With 0, none are made by the clock.
    pub backups_kept: usize,
    /// How much of the log is kept since the newest backup before another is made, bytes. With 0, and without backups, none is kept.
    pub kept_log_bytes: u64,
}

impl StoreOptions {
    /// Whether the log is kept since the newest backup.
    pub(super) const fn keeps_log(&self) -> bool {
        self.backups_kept > 0 && self.kept_log_bytes > 0
    }
}

/// What must stay free where a commit may use the reserve, of what must stay free for others.
pub(super) const fn essential_min_free(min_free_bytes: u64) -> u64 {
    min_free_bytes / 4
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            min_free_bytes: 512 * 1024 * 1024,
            call_timeout: Duration::from_secs(5),
            open_timeout: Duration::from_secs(600),
            cancelled: CancellationToken::new(),
            queue: 1024,
            on_fatal: FatalHook::default(),
            backup_interval: Duration::from_secs(3600),
            backups_kept: 24,
            kept_log_bytes: 256 * 1024 * 1024,
        }
    }
}
