//! A commit on its way: whether it can still be taken back, and what became of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::{Store, StoreError};

const QUEUED: u8 = 0;
const TAKEN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Shared by who asked for a commit and the storage thread. The first of the two to change it decides: either the commit
/// is carried out, or it never will be.
#[derive(Clone, Debug, Default)]
pub(super) struct Ticket(Arc<AtomicU8>);

impl Ticket {
    /// The storage thread begins with the commit; false when it was withdrawn.
    pub(super) fn take(&self) -> bool {
        self.0.compare_exchange(QUEUED, TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Takes the commit back; false when the storage thread has begun with it.
    fn withdraw(&self) -> bool {
        self.0.compare_exchange(QUEUED, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A commit that was handed over. Dropping it neither undoes nor withdraws the commit.
#[derive(Debug)]
pub struct Commit {
    store: Store,
    ticket: Ticket,
    answer: oneshot::Receiver<Result<(), StoreError>>,
    until: Instant,
}

impl Commit {
    pub(super) const fn new(
        store: Store,
        ticket: Ticket,
        answer: oneshot::Receiver<Result<(), StoreError>>,
        until: Instant,
    ) -> Self {
        Self { store, ticket, answer, until }
    }

    /// Waits for the store's call timeout, counted from the last wait's end. `None` when the disk is still at it, so
    /// that the outcome is open: wait again.
    ///
    /// # Errors
    /// Those of [`Store::commit`].
    pub async fn wait(&mut self) -> Option<Result<(), StoreError>> {
        match timeout_at(self.until, &mut self.answer).await {
            Ok(Ok(outcome)) => Some(outcome),
            Ok(Err(_)) => Some(Err(self.store.gone())),
            Err(_) => {
                let limit = self.store.options().call_timeout;
                self.until = Instant::now() + limit;
                // Also where it can be withdrawn: a thread that hangs has to be noticed by somebody.
                let late = self.store.timed_out(limit);
                if self.store.shared.vitals.failed() {
                    return Some(Err(StoreError::Failed));
                }
                self.ticket.withdraw().then_some(Err(late))
            }
        }
    }

    /// Waits until the outcome is known. A disk that never answers ends the process, and then the next start decides.
    ///
    /// # Errors
    /// Those of [`Store::commit`].
    pub async fn known(mut self) -> Result<(), StoreError> {
        loop {
            if let Some(outcome) = self.wait().await {
                return outcome;
            }
        }
    }
}
