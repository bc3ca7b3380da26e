//! Writing what becomes of a task, however long the store takes. A task waits for the store and says so in its record; it
//! neither goes on as if it had been written, nor fails for a disk that is full.

use std::time::Duration;

use tokio::time::sleep;

use super::live::{Event, Live};
use super::record::Fault;
use super::table::Tasks;
use crate::drain::Phase;
use crate::error::Error;
use crate::store::{Batch, Durability, StoreState};

/// Between two looks whether there is room again, and between two tries to read.
const LOOK: Duration = Duration::from_millis(500);

impl Tasks {
    /// Writes what must not be lost: tries until the store has taken it.
    ///
    /// # Errors
    /// The store is gone, or never takes this; nothing was written.
    pub(super) async fn insist(&self, live: &Live, mut batch: Batch, durability: Durability) -> Result<(), Error> {
        batch.essential();
        let store = &self.inner.keep.store;
        let held = |error: &crate::store::StoreError| Self::hold(live, error.is_full(), error);
        store.insist(batch, durability, held).await?;
        self.go_on(live);
        Ok(())
    }

    /// Reads what a task cannot do without: tries until the store answers.
    ///
    /// # Errors
    /// The store is gone, or what it has is not what was expected.
    pub(super) async fn patiently<T, R>(&self, live: &Live, mut read: impl FnMut() -> R) -> Result<T, Error>
    where
        R: Future<Output = Result<T, Error>>,
    {
        loop {
            match read().await {
                Err(error @ Error::StoreBusy) => Self::hold(live, false, &error),
                outcome => {
                    if outcome.is_ok() {
                        self.go_on(live);
                    }
                    return outcome;
                }
            }
            sleep(LOOK).await;
        }
    }

    /// Why the store takes no new work, as far as is known; nothing when it does.
    pub(super) fn shortage(&self) -> Option<Error> {
        match self.inner.keep.store.health().state {
            StoreState::Ok => None,
            StoreState::DiskNearlyFull => Some(Error::DiskNearlyFull),
            StoreState::Stalled | StoreState::Failed | StoreState::Closed => Some(Error::StoreBusy),
        }
    }

    /// Waits until the store takes new work, and says meanwhile that it does not. False when the task is stopped or the
    /// daemon goes down before.
    pub(super) async fn room(&self, live: &Live, error: Error) -> bool {
        let mut shortage = Some(error);
        while let Some(error) = shortage {
            Self::hold(live, matches!(error, Error::DiskNearlyFull), &error);
            tokio::select! {
                biased;
                () = live.stop_token().cancelled() => return false,
                () = self.inner.drain.reached(Phase::Draining) => return false,
                () = sleep(LOOK) => {}
            }
            shortage = self.shortage();
        }
        self.go_on(live);
        true
    }

    /// Waits a moment before a file is tried again for which there was no room. False when the task is stopped.
    pub(super) async fn room_for_file(&self, live: &Live) -> bool {
        Self::hold(live, true, &Error::DiskNearlyFull);
        tokio::select! {
            biased;
            () = live.stop_token().cancelled() => false,
            () = sleep(LOOK) => true,
        }
    }

    /// Says why a task stands still; in memory only, since it is the store that does not take anything.
    fn hold(live: &Live, full: bool, cause: &dyn std::error::Error) {
        let fault = if full { Error::DiskNearlyFull } else { Error::StoreBusy };
        let waiting = Fault::new(fault.code(), fault.to_string());
        if live.record().waiting.as_deref() == Some(&waiting) {
            return;
        }
        tracing::warn!(task = %live.id, %cause, "a task waits for the store");
        live.tell(Event::Status(live.change(|record| record.waiting = Some(Box::new(waiting)))));
    }

    /// The store has taken something; if it takes new work, too, then the task waits no more.
    pub(super) fn go_on(&self, live: &Live) {
        if live.record().waiting.is_some() && self.shortage().is_none() {
            tracing::info!(task = %live.id, "the store takes what the task writes again");
            live.tell(Event::Status(live.change(|record| record.waiting = None)));
        }
    }
}
