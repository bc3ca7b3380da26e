//! Requests to the storage thread, and the state that it shares with its helpers.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::backend::BackendError;
use super::batch::{Batch, Op};
use super::handle::StoreLocation;
use super::health::{FatalHook, Monitor};
use super::mark::Mark;
use super::options::essential_min_free;
use super::recovery_file::RecoveryFile;
use super::ticket::Ticket;
use super::{Durability, KeyRange, Row, StoreError, StoreOptions, Table, free_bytes, layout};

pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// Work for the storage thread.
pub(super) enum Request {
    Commit {
        batch: Batch,
        durability: Durability,
        ticket: Ticket,
        reply: Reply<()>,
    },
    Get {
        table: Table,
        keys: Vec<Vec<u8>>,
        reply: Reply<Vec<Option<Vec<u8>>>>,
    },
    Scan {
        table: Table,
        range: KeyRange,
        limit: usize,
        reply: Reply<Vec<Row>>,
    },
    /// From now on remember every change.
    StartCapture {
        reply: Reply<()>,
    },
    /// Hand over the changes remembered, and the number of the last commit.
    EndCapture {
        reply: Reply<(Vec<Op>, u64)>,
    },
    /// Do what keeps for a moment in which nobody waits.
    Tidy,
    /// Answer once everything is durable and the files are closed.
    Close {
        reply: Reply<()>,
    },
}

/// How much space is free, in bytes, if it is known.
pub(super) type FreeSpace = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// What the threads need to know.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) monitor: Arc<Monitor>,
    pub(super) free_space: FreeSpace,
    pub(super) min_free_bytes: u64,
    pub(super) on_fatal: FatalHook,
    /// Where to leave word for the next start that the data is damaged.
    pub(super) recovery_file: RecoveryFile,
    /// Where to leave word for the next start how much data there is.
    pub(super) mark: Arc<Mark>,
}

impl Context {
    /// The state of a store whose database is open after so many commits.
    /// Errors: when the file system refuses the mark.
    pub(super) fn new(place: &StoreLocation, commits: u64, options: &StoreOptions) -> Result<Self, StoreError> {
        let database = place.dir.join(layout::DATABASE);
        Ok(Self {
            monitor: Arc::new(Monitor::new()),
            free_space: Arc::new(move || free_bytes(&database)),
            min_free_bytes: options.min_free_bytes,
            on_fatal: options.on_fatal.clone(),
            recovery_file: RecoveryFile::in_dir(&place.dir),
            mark: Arc::new(Mark::open(&place.dir, commits)?),
        })
    }

    /// Ends the process, or whatever the hook does. Nothing is cleaned up.
    pub(super) fn fatal(&self, error: &BackendError) {
        if !self.monitor.fail() {
            return;
        }
        let reason = error.to_string();
        tracing::error!(%reason, "the store has failed; the process ends now so that a fresh one can recover");
        if let BackendError::Damaged(_) = error {
            self.recovery_file.record_failure(&reason);
        }
        self.on_fatal.call(&reason);
    }

    /// Checked before the backend is touched: sled cannot go on after it has met a full disk. Blocks.
    pub(super) fn disk_nearly_full(&self, essential: bool) -> Option<StoreError> {
        let free_bytes = (self.free_space)();
        self.monitor.measured_free(free_bytes);
        let free_bytes = free_bytes?;
        let min_free_bytes = if essential { essential_min_free(self.min_free_bytes) } else { self.min_free_bytes };
        (free_bytes < min_free_bytes).then_some(StoreError::DiskNearlyFull { free_bytes, min_free_bytes })
    }
}
