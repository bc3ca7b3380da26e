//! What a place to keep rows must be able to do. Backends see sealed values only.

use std::fs::File;
use std::io;

use super::batch::Op;
use super::{KeyRange, StoreError, Table};
use warmpool_core::panics::Panicked;

/// A failure of the backend. Every one of them ends the process: none can be repaired while it runs.
#[derive(Debug, thiserror::Error)]
pub(super) enum BackendError {
    /// The file system failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The data on disk is not what was written, or the backend broke its own rules.
    #[error("damaged: {0}")]
    Damaged(String),
}

impl BackendError {
    /// The error of a thread beside the database that panicked: what the database holds is not to blame.
    pub(super) fn panicked(panicked: Panicked) -> Self {
        Self::Io(io::Error::other(panicked))
    }

    /// The error of a start that could not write the database.
    pub(super) fn writing(self) -> StoreError {
        StoreError::during("write the database")(self)
    }
}

impl From<BackendError> for io::Error {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Io(source) => source,
            BackendError::Damaged(reason) => Self::other(reason),
        }
    }
}

/// A sealed row: key and envelope.
pub(super) type RawRow = (Vec<u8>, Vec<u8>);

/// Ordered tables, used by one thread.
pub(super) trait Backend: Send {
    /// Makes all changes at once, visible to later reads. Values are sealed.
    fn apply(&mut self, ops: &[Op]) -> Result<(), BackendError>;

    /// Hands everything applied to the operating system: it survives the death of the process.
    fn flush(&mut self) -> Result<(), BackendError>;

    /// Does what keeps for a moment in which nobody waits, if there is any. Nothing that was flushed relies on it.
    fn tidy(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Returns once everything applied survives loss of power, in the place where it stays.
    fn checkpoint(&mut self) -> Result<(), BackendError> {
        self.flush()?;
        self.barrier()?.wait()
    }

    /// A barrier for what has been flushed when it is waited on.
    fn barrier(&self) -> Result<Box<dyn Barrier>, BackendError>;

    /// What tells whether the backend's own threads, if it has any, still work; called every second from another thread.
    fn thread_check(&self) -> ThreadCheck;

    /// The sealed value of a key.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, BackendError>;

    /// Up to `limit` rows of a range, which is not empty.
    fn scan(&self, table: Table, range: &KeyRange, limit: usize) -> Result<Vec<RawRow>, BackendError>;
}

/// Fails once a thread of the backend's has ended.
pub(super) type ThreadCheck = Box<dyn FnMut() -> Result<(), BackendError> + Send>;

/// Waits until flushed data survives loss of power; used by a thread of its own.
pub(super) trait Barrier: Send {
    /// Returns once everything flushed before the call is on the medium.
    fn wait(&mut self) -> Result<(), BackendError>;
}

/// Syncs a file to the medium.
pub(super) struct FileBarrier(pub(super) File);

impl Barrier for FileBarrier {
    fn wait(&mut self) -> Result<(), BackendError> {
        self.0.sync_data()?;
        Ok(())
    }
}
