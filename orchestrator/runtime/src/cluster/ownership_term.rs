//! Until when this process may change what it owns.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::RuntimeError;

/// The time until which this process certainly owns the workers; for ever, where it never asked for a lease.
#[derive(Clone, Default)]
pub(crate) struct OwnershipTerm {
    until: Arc<Mutex<Option<Instant>>>,
}

impl OwnershipTerm {
    /// Fails once the time is over, because what another daemon owns must not be changed.
    /// Errors: [`RuntimeError::NotOwned`].
    pub(crate) fn check(&self) -> Result<(), RuntimeError> {
        match *self.until.lock() {
            Some(until) if until <= Instant::now() => {
                Err(RuntimeError::NotOwned("the lease could not be renewed in time".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Sets the end of the time.
    pub(crate) fn set(&self, until: Instant) {
        *self.until.lock() = Some(until);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nothing_is_changed_after_the_term() {
        let term = OwnershipTerm::default();
        assert!(term.check().is_ok(), "nobody asked for a lease");
        term.set(Instant::now() + Duration::from_secs(4));
        assert!(term.check().is_ok());
        tokio::time::advance(Duration::from_secs(4)).await;
        assert!(matches!(term.check(), Err(RuntimeError::NotOwned(_))));
    }
}
