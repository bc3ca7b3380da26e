//! One budget for the memory of request bodies: their text while it arrives, and the values parsed from it.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::error::Error;
use warmpool_config::ByteSize;

/// Bytes of one permit.
const UNIT: u64 = 1 << 10;

/// The memory that the bodies of all requests may take together. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    units: Arc<Semaphore>,
    total: u64,
}

impl Budget {
    /// A budget of `total` bytes, which nobody holds any of yet.
    pub(crate) fn new(total: ByteSize) -> Self {
        let units = usize::try_from(total.bytes() / UNIT).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self { units: Arc::new(Semaphore::new(units)), total: total.bytes() }
    }

    /// A part of it that is empty yet.
    pub(super) fn part(&self) -> Part {
        Part { budget: self.clone(), bytes: 0, permit: None }
    }
}

/// What one body holds of the budget; given back when dropped.
#[derive(Debug)]
pub(super) struct Part {
    budget: Budget,
    bytes: u64,
    permit: Option<OwnedSemaphorePermit>,
}

impl Part {
    /// How much more it could hold if nobody else held anything.
    pub(super) const fn room(&self) -> u64 {
        self.budget.total.saturating_sub(self.bytes)
    }

    /// The budget could not hold this even if it were empty.
    pub(super) const fn too_heavy(&self) -> Error {
        Error::BodyTooHeavy { limit: self.budget.total }
    }

    /// Takes `more` bytes. It never waits, so that no two bodies can wait for each other.
    /// Errors: `BodyTooHeavy` when the whole budget would not be enough, `BodyMemory` when others hold too much of it
    /// now.
    pub(super) fn grow(&mut self, more: u64) -> Result<(), Error> {
        let bytes = self.bytes.saturating_add(more);
        let held = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let units = usize::try_from(bytes.div_ceil(UNIT)).unwrap_or(usize::MAX);
        if bytes > self.budget.total {
            return Err(self.too_heavy());
        }
        if let Some(missing) = units.checked_sub(held).filter(|missing| *missing > 0) {
            let missing = u32::try_from(missing).map_err(|_| self.too_heavy())?;
            let taken = Arc::clone(&self.budget.units).try_acquire_many_owned(missing);
            let taken = taken.map_err(|_| Error::BodyMemory)?;
            match &mut self.permit {
                Some(permit) => permit.merge(taken),
                None => self.permit = Some(taken),
            }
        }
        self.bytes = bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_core::error::Fault as _;

    #[test]
    fn a_part_is_given_back_when_it_is_dropped() {
        let budget = Budget::new(ByteSize(10 * UNIT));
        let mut first = budget.part();
        for _ in 0..8 {
            first.grow(UNIT / 2).unwrap();
        }
        let mut second = budget.part();
        second.grow(6 * UNIT).unwrap();
        assert!(matches!(first.grow(1), Err(Error::BodyMemory)));
        drop(second);
        first.grow(6 * UNIT).unwrap();
        assert!(matches!(first.grow(1), Err(Error::BodyTooHeavy { .. })));
        drop(first);
        assert_eq!(budget.units.available_permits(), 10);
    }

    #[test]
    fn what_never_fits_differs_from_what_does_not_fit_now() {
        let budget = Budget::new(ByteSize(4 * UNIT));
        assert!(matches!(budget.part().grow(5 * UNIT), Err(Error::BodyTooHeavy { limit: 4096 })));
        assert!(matches!(budget.part().grow(u64::MAX), Err(Error::BodyTooHeavy { .. })));
        let mut all = budget.part();
        all.grow(4 * UNIT).unwrap();
        let refused = budget.part().grow(1).unwrap_err();
        assert_eq!(refused.code().status(), 503);
        assert!(refused.retry_after().is_some());
    }
}
