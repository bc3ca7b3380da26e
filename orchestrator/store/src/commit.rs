//! A commit on its way, and what became of it.

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::ticket::Ticket;
use super::{Store, StoreError};

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
    /// Errors: those of [`Store::commit`].
    pub async fn wait(&mut self) -> Option<Result<(), StoreError>> {
        match timeout_at(self.until, &mut self.answer).await {
            Ok(Ok(outcome)) => Some(outcome),
            Ok(Err(_)) => Some(Err(self.store.gone())),
            Err(_) => {
                let limit = self.store.options().call_timeout;
                self.until = Instant::now() + limit;
                // Also where it can be withdrawn: a thread that hangs has to be noticed by somebody.
                let late = self.store.timed_out(limit);
                if self.store.has_failed() {
                    return Some(Err(StoreError::Failed));
                }
                self.ticket.claim().then_some(Err(late))
            }
        }
    }

    /// Waits until the outcome is known. A disk that never answers ends the process, and then the next start decides.
    /// Errors: those of [`Store::commit`].
    pub async fn known(mut self) -> Result<(), StoreError> {
        loop {
            if let Some(outcome) = self.wait().await {
                return outcome;
            }
        }
    }
}
