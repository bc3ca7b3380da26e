//! How many bytes of a connection's messages wait to be read. A count of messages would not do: a page chooses how long one is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that wait.
#[derive(Debug, Default, Clone)]
pub(super) struct Backlog(Arc<AtomicUsize>);

/// One message's part of them, until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Queued {
    backlog: Backlog,
    bytes: usize,
}

impl Backlog {
    /// Adds a message, unless more than `most` bytes would wait with it.
    pub(super) fn add(&self, bytes: usize, most: usize) -> Option<Queued> {
        let within = |waiting: usize| waiting.checked_add(bytes).filter(|sum| *sum <= most);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).ok()?;
        Some(Queued { backlog: self.clone(), bytes })
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.backlog.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
