//! Until when this process may change what it owns.
//!
//! The clock by which the process waits stands still while the machine sleeps, and others' clocks do not: so the end is also counted by
//! the clock that runs on from the machine's boot. Whichever comes first counts.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::RuntimeError;
use warmpool_core::clock::{Deadline, Now};

/// The time until which this process certainly owns the workers; for ever, where it never asked for a lease.
#[derive(Clone)]
pub(crate) struct OwnershipTerm {
    end: Arc<Mutex<Option<End>>>,
    clocks: Arc<dyn Fn() -> Now + Send + Sync>,
}

struct End {
    until: Instant,
    by_boot: Deadline,
}

/// A moment by both clocks.
#[derive(Clone, Copy)]
pub(crate) struct ClockReadings {
    /// By the clock of this process.
    pub instant: Instant,
    clocks: Now,
}

impl Default for OwnershipTerm {
    fn default() -> Self {
        Self { end: Arc::default(), clocks: Arc::new(Now::read) }
    }
}

impl OwnershipTerm {
    /// One that goes by these clocks.
    #[cfg(test)]
    pub(crate) fn by(clocks: impl Fn() -> Now + Send + Sync + 'static) -> Self {
        Self { end: Arc::default(), clocks: Arc::new(clocks) }
    }

    /// Fails once the time is over, because what another daemon owns must not be changed.
    /// Errors: [`RuntimeError::NotOwned`].
    pub(crate) fn check(&self) -> Result<(), RuntimeError> {
        let is_over = |end: &End| end.until <= Instant::now() || end.by_boot.is_over(&(self.clocks)());
        if self.end.lock().as_ref().is_some_and(is_over) {
            return Err(RuntimeError::NotOwned("the lease could not be renewed in time".to_owned()));
        }
        Ok(())
    }

    /// This moment.
    pub(crate) fn now(&self) -> ClockReadings {
        ClockReadings { instant: Instant::now(), clocks: (self.clocks)() }
    }

    /// Sets the end of the time: `span` after a moment.
    pub(crate) fn set(&self, from: ClockReadings, span: Duration) {
        let by_boot = Deadline::after(span, &from.clocks);
        *self.end.lock() = Some(End { until: from.instant + span, by_boot });
    }

    /// Ends the time now.
    pub(crate) fn end(&self) {
        self.set(self.now(), Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const TERM: Duration = Duration::from_secs(4);

    #[tokio::test(start_paused = true)]
    async fn nothing_is_changed_after_the_term() {
        let term = OwnershipTerm::default();
        assert!(term.check().is_ok(), "nobody asked for a lease");
        term.set(term.now(), TERM);
        assert!(term.check().is_ok());
        tokio::time::advance(TERM).await;
        assert!(matches!(term.check(), Err(RuntimeError::NotOwned(_))));
        term.set(term.now(), TERM);
        assert!(term.check().is_ok());
        term.end();
        assert!(term.check().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_slept_through_the_term_changes_nothing() {
        let slept = Arc::new(AtomicU64::new(0));
        let term = OwnershipTerm::by({
            let slept = Arc::clone(&slept);
            move || Now::at(0, "boot", slept.load(Ordering::Relaxed))
        });
        term.set(term.now(), TERM);
        slept.store(3999, Ordering::Relaxed);
        assert!(term.check().is_ok());
        slept.store(4000, Ordering::Relaxed);
        assert!(matches!(term.check(), Err(RuntimeError::NotOwned(_))), "the clock of the process stood still");
    }
}
