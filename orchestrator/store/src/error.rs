//! What can go wrong with the store.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::Table;
use warmpool_core::error::ServiceError;

/// The errors of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No answer in time. A commit was withdrawn: nothing was or will be written.
    #[error("the store did not answer within {} ms", waited.as_millis())]
    Timeout {
        /// How long the caller waited.
        waited: Duration,
    },
    /// The disk has less free space than the operator's minimum; nothing was written.
    #[error("the data disk is nearly full: {free_bytes} bytes free, {min_free_bytes} needed")]
    DiskNearlyFull {
        /// Free space on the file system of the store, bytes.
        free_bytes: u64,
        /// What must stay free for this commit, bytes.
        min_free_bytes: u64,
    },
    /// A value is larger than [`MAX_VALUE_BYTES`](super::batch::MAX_VALUE_BYTES).
    #[error("a value of {bytes} bytes is too large for table {table}: keep it in a file")]
    ValueTooLarge {
        /// Where it was meant to go.
        table: Table,
        /// Its size, bytes.
        bytes: usize,
    },
    /// A key is empty or longer than [`MAX_KEY_BYTES`](super::batch::MAX_KEY_BYTES).
    #[error("a key of {bytes} bytes is not allowed in table {table}")]
    InvalidKey {
        /// Where it was meant to go.
        table: Table,
        /// Its length, bytes.
        bytes: usize,
    },
    /// A batch has more than [`MAX_BATCH_OPS`](super::MAX_BATCH_OPS) changes.
    #[error("a batch of {ops} changes is too large")]
    BatchTooLarge {
        /// How many changes it has.
        ops: usize,
    },
    /// A value could not be written as, or read from, JSON.
    #[error("a record of table {table} is not what was expected: {source}")]
    Json {
        /// The table it belongs to.
        table: Table,
        /// What serde says.
        source: serde_json::Error,
    },
    /// The store has failed and takes nothing more; the process is about to end.
    #[error("the store has failed and the process must be restarted")]
    Failed,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Another process has the store open.
    #[error("another process uses the store in {}", dir.display())]
    Locked {
        /// The data directory.
        dir: PathBuf,
    },
    /// The data is another instance's.
    #[error(
        "the data in {0} is of the instance {of}, and {0}/instance.json is that of {found}: put the file of {of} back. Profiles, \
         extensions, patients and the secrets of unfinished tasks need it, and viewers' URLs and the secrets of webhooks come from it. To go \
         on without them, run `warmpool backup FILE` and `warmpool restore FILE`, and start again", dir.display()
    )]
    OtherInstance {
        /// The data directory.
        dir: PathBuf,
        /// The id of the instance that the data is of.
        of: String,
        /// The id of the instance that wants it.
        found: String,
    },
    /// Opening the database took too long. The process must end: its database is still being opened.
    #[error(
        "opening {} took longer than store.open_timeout, {} s{}: raise it where the disk is slow or the data large. If it never opens, it \
         is damaged: rename that folder to db.aside, and the next start restores the newest backup and takes what that folder's log has",
        database.display(), limit.as_secs(), in_a_row(*times)
    )]
    OpenTimedOut {
        /// The database's folder.
        database: PathBuf,
        /// `store.open_timeout`.
        limit: Duration,
        /// How many starts in a row ended so, with this one.
        times: u32,
    },
    /// The process is to end, and so does not open the database. It must end: its database is still being opened.
    #[error("the process ends while it opens the store")]
    Cancelled,
    /// The data was written by a newer release.
    #[error("the store has schema version {found}, this release knows up to {supported}: install the newer release")]
    NewerSchema {
        /// The version found.
        found: u32,
        /// The newest this release knows.
        supported: u32,
    },
    /// The data has rows of a table that a newer release has.
    #[error("the store has a table `{table}`, which this release does not know: install the newer release")]
    NewerTable {
        /// The table's name.
        table: String,
    },
    /// The file system refused something; the data is not to blame.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done, to which path.
        doing: String,
        /// What the system says.
        source: io::Error,
    },
    /// A backup file is damaged, cut short or not a backup.
    #[error("{} is not a usable backup: {reason}", path.display())]
    Backup {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The store changed too much while it was being dumped; try again.
    #[error("too many changes while the dump was written")]
    DumpOverrun,
}

impl StoreError {
    /// Whether the same call may succeed a little later, and nothing was or will be written by this one.
    #[must_use]
    pub const fn is_shortage(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::DiskNearlyFull { .. })
    }

    /// Whether the disk is full.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::DiskNearlyFull { .. })
    }

    /// For `map_err`: an I/O error with what was being done; an error of the store that came through it as it was.
    pub(super) fn during<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> StoreError {
        move |error| {
            let source: io::Error = error.into();
            source.downcast().unwrap_or_else(|source| StoreError::Io { doing: doing.into(), source })
        }
    }

    /// For `map_err`: an I/O error with what was being done to which path.
    pub(super) fn io(doing: &str, path: &std::path::Path) -> impl FnOnce(io::Error) -> StoreError + use<> {
        Self::during(format!("{doing} {}", path.display()))
    }
}

/// How often it happened, if more than once.
fn in_a_row(times: u32) -> String {
    if times > 1 { format!(", at {times} starts in a row") } else { String::new() }
}

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::DiskNearlyFull { .. } => Self::DiskNearlyFull,
            StoreError::Timeout { .. } => Self::StoreBusy,
            // The daemon closes it last, so only code that outlives the daemon finds it closed.
            StoreError::Closed => Self::Draining,
            other => Self::internal(other),
        }
    }
}
