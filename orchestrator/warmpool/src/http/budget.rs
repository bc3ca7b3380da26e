//! Budgets for the memory of request bodies: their text while it arrives, and the values parsed from it. There is one for those
//! whose key is known, and a smaller one for those whose key is in them, or that need none: strangers hold up strangers alone.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::addresses::one_client;
use crate::http::error::Error;
use warmpool_config::ByteSize;

/// Bytes of one permit.
const UNIT: u64 = 1 << 10;

/// The setting of the budget of those whose key is known.
const MEMORY: &str = "server.body_memory";
/// The setting of what one address may hold of the budget of strangers.
pub(super) const SHARE: &str = "server.keyless_body_share";

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
    pub(super) fn part(&self) -> BodyReservation {
        BodyReservation { budget: self.clone(), bytes: 0, permit: None, share: None }
    }
}

/// The memory that the bodies of all strangers may take together, of which each address has a share at most. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct KeylessBudget {
    budget: Budget,
    share: u64,
    held: Arc<Mutex<HashMap<IpAddr, u64>>>,
}

impl KeylessBudget {
    /// A budget of `total` bytes, of which one address may hold `share`.
    pub(crate) fn new(total: ByteSize, share: ByteSize) -> Self {
        Self { budget: Budget::new(total), share: share.bytes(), held: Arc::default() }
    }

    /// A part of it that is empty yet, for a body from this address.
    pub(super) fn part(&self, address: IpAddr) -> BodyReservation {
        let share =
            AddressShare { held: Arc::clone(&self.held), address: one_client(address), limit: self.share, bytes: 0 };
        BodyReservation { share: Some(share), ..self.budget.part() }
    }
}

/// What one body holds of the share of its address; given back when dropped.
#[derive(Debug)]
struct AddressShare {
    held: Arc<Mutex<HashMap<IpAddr, u64>>>,
    address: IpAddr,
    limit: u64,
    bytes: u64,
}

impl AddressShare {
    /// Takes as much as it needs to hold `bytes`.
    /// Errors: `BodyTooHeavy` when the whole share would not be enough, `KeylessBodyMemory` when other bodies hold too much of it.
    fn grow_to(&mut self, bytes: u64) -> Result<(), Error> {
        if bytes > self.limit {
            return Err(Error::BodyTooHeavy { limit: self.limit, setting: SHARE });
        }
        let more = bytes.saturating_sub(self.bytes);
        let mut held = self.held.lock();
        let all = held.entry(self.address).or_default();
        if all.saturating_add(more) > self.limit {
            return Err(Error::KeylessBodyMemory);
        }
        *all += more;
        self.bytes += more;
        Ok(())
    }
}

impl Drop for AddressShare {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        if let Some(all) = held.get_mut(&self.address) {
            *all = all.saturating_sub(self.bytes);
            if *all == 0 {
                held.remove(&self.address);
            }
        }
    }
}

/// What one body holds of the budget; given back when dropped.
#[derive(Debug)]
pub(super) struct BodyReservation {
    budget: Budget,
    bytes: u64,
    permit: Option<OwnedSemaphorePermit>,
    /// Of a stranger's body.
    share: Option<AddressShare>,
}

impl BodyReservation {
    /// How much it could hold if nobody else held anything, and the setting that says so.
    fn limit(&self) -> (u64, &'static str) {
        match &self.share {
            Some(share) => (share.limit, SHARE),
            None => (self.budget.total, MEMORY),
        }
    }

    /// How much more it could hold if nobody else held anything.
    pub(super) fn room(&self) -> u64 {
        self.limit().0.saturating_sub(self.bytes)
    }

    /// The budget could not hold this even if it were empty.
    pub(super) fn too_heavy(&self) -> Error {
        let (limit, setting) = self.limit();
        Error::BodyTooHeavy { limit, setting }
    }

    /// Holds as much of `budget` instead: the body's key is known by now.
    /// Errors: those of [`BodyReservation::grow`].
    pub(super) fn move_to(&mut self, budget: &Budget) -> Result<(), Error> {
        let mut part = budget.part();
        part.grow(self.bytes)?;
        *self = part;
        Ok(())
    }

    /// Takes `more` bytes. It never waits, so that no two bodies can wait for each other.
    /// Errors: `BodyTooHeavy` when the whole budget would not be enough, `BodyMemory` or `KeylessBodyMemory` when others hold too
    /// much of it now.
    pub(super) fn grow(&mut self, more: u64) -> Result<(), Error> {
        let bytes = self.bytes.saturating_add(more);
        let held = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let units = usize::try_from(bytes.div_ceil(UNIT)).unwrap_or(usize::MAX);
        if bytes > self.budget.total {
            return Err(self.too_heavy());
        }
        if let Some(share) = &mut self.share {
            share.grow_to(bytes)?;
        }
        if let Some(missing) = units.checked_sub(held).filter(|missing| *missing > 0) {
            let missing = u32::try_from(missing).map_err(|_| self.too_heavy())?;
            let taken = Arc::clone(&self.budget.units).try_acquire_many_owned(missing);
            let full = |_| if self.share.is_some() { Error::KeylessBodyMemory } else { Error::BodyMemory };
            let taken = taken.map_err(full)?;
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
        assert!(matches!(budget.part().grow(5 * UNIT), Err(Error::BodyTooHeavy { limit: 4096, .. })));
        assert!(matches!(budget.part().grow(u64::MAX), Err(Error::BodyTooHeavy { .. })));
        let mut all = budget.part();
        all.grow(4 * UNIT).unwrap();
        let refused = budget.part().grow(1).unwrap_err();
        assert_eq!(refused.code().status(), 503);
        assert!(refused.retry_after().is_some());
    }

    #[test]
    fn strangers_hold_up_strangers_alone() {
        let budget = Budget::new(ByteSize(10 * UNIT));
        let keyless = KeylessBudget::new(ByteSize(5 * UNIT), ByteSize(3 * UNIT));
        let [one, two]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().unwrap());
        let mut first = keyless.part(one);
        first.grow(2 * UNIT).unwrap();
        assert!(matches!(first.grow(2 * UNIT), Err(Error::BodyTooHeavy { limit: 3072, setting: SHARE })));
        // Another body from there, and one from elsewhere.
        assert!(matches!(keyless.part(one).grow(2 * UNIT), Err(Error::KeylessBodyMemory)));
        let mut second = keyless.part(two);
        second.grow(3 * UNIT).unwrap();
        assert!(matches!(first.grow(UNIT), Err(Error::KeylessBodyMemory)), "all of them together");
        budget.part().grow(10 * UNIT).unwrap();

        // Once its key is known it is a stranger's no more.
        first.move_to(&budget).unwrap();
        first.grow(8 * UNIT).unwrap();
        keyless.part(one).grow(2 * UNIT).unwrap();
        assert!(matches!(second.move_to(&budget), Err(Error::BodyMemory)));
        drop((first, second));
        assert_eq!((budget.units.available_permits(), keyless.budget.units.available_permits()), (10, 5));
        assert!(keyless.held.lock().is_empty());
    }
}
