//! Budgets of memory. One is for request bodies, their text while it arrives and the values parsed from it; a smaller one for bodies
//! whose key is in them, or that need none: strangers hold up strangers alone. A third is for answers that are in memory as a whole. Of
//! each, one key or address may hold a share, so nobody holds up all the others.

use std::net::IpAddr;

use super::addresses::one_client;
use super::reply::REQUEST;
use crate::http::error::Error;
use warmpool_config::ByteSize;
use warmpool_core::tally::{Share, Tally};
use warmpool_keys::KeyId;

/// The setting of what one address may hold of the budget of strangers.
pub(super) const KEYLESS_SHARE: &str = "server.keyless_body_share";

/// What the memory of a budget is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Bodies of requests whose key is known.
    Bodies,
    /// Bodies of all other requests.
    KeylessBodies,
    /// Answers.
    Answers,
}

impl Purpose {
    /// The setting of what one key or address may hold.
    const fn share(self) -> &'static str {
        match self {
            Self::Bodies => "server.body_share",
            Self::KeylessBodies => KEYLESS_SHARE,
            Self::Answers => "server.answer_share",
        }
    }

    /// Others hold too much of the whole budget.
    const fn full(self) -> Error {
        match self {
            Self::Bodies => Error::BodyMemory,
            Self::KeylessBodies => Error::KeylessBodyMemory,
            Self::Answers => Error::AnswerMemory,
        }
    }

    /// The same key or address holds too much of its share.
    const fn share_full(self) -> Error {
        match self {
            Self::Bodies => Error::KeyBodyMemory,
            Self::KeylessBodies | Self::Answers => self.full(),
        }
    }

    /// The whole share would not be enough.
    const fn too_heavy(self, limit: u64) -> Error {
        match self {
            Self::Bodies | Self::KeylessBodies => Error::BodyTooHeavy { limit, setting: self.share() },
            Self::Answers => Error::AnswerMemory,
        }
    }
}

/// Whose share something counts against.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Holder {
    /// Whoever has this key.
    Key(KeyId),
    /// A client without a key, by what it can choose its addresses from.
    Address(IpAddr),
}

impl Holder {
    /// The client at an address, whose key is not known.
    pub(super) fn at(address: IpAddr) -> Self {
        Self::Address(one_client(address))
    }

    /// Whoever sent the request that this task answers, as far as that is known by now.
    pub(super) fn of_request() -> Self {
        let known = REQUEST.try_with(|asked| match asked.notes.caller.get() {
            Some((key, _)) => Self::Key(key.clone()),
            None => Self::at(asked.address),
        });
        known.unwrap_or_else(|_| Self::Address(IpAddr::from([0; 4])))
    }
}

/// Memory for one purpose, of which each key or address has a share at most. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    purpose: Purpose,
    /// Bytes of everybody.
    total: u64,
    /// Bytes of one key or address.
    share: u64,
    held: Tally<Holder>,
}

impl Budget {
    /// A budget of `total` bytes, of which one key or address may hold `share`, and nobody holds any yet.
    pub(crate) fn new(purpose: Purpose, total: ByteSize, share: ByteSize) -> Self {
        let total = total.bytes();
        Self { purpose, total, share: share.bytes().min(total), held: Tally::default() }
    }

    /// A part of it for this holder that is empty yet.
    pub(super) fn part(&self, holder: Holder) -> Reservation {
        Reservation { budget: self.clone(), held: self.held.add(holder, 0) }
    }
}

/// What one body or answer holds of a budget; given back when dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    budget: Budget,
    held: Share<Holder>,
}

impl Reservation {
    /// How much more it could hold if nothing else were held.
    pub(super) fn room(&self) -> u64 {
        self.budget.share.saturating_sub(self.held.amount())
    }

    /// The budget could not hold this even if it were empty.
    pub(super) fn too_heavy(&self) -> Error {
        self.budget.purpose.too_heavy(self.budget.share)
    }

    /// Holds as much of `budget` instead, for whoever sent the request: its key is known by now.
    /// Errors: those of [`Reservation::grow`].
    pub(super) fn move_to(&mut self, budget: &Budget) -> Result<(), Error> {
        let mut part = budget.part(Holder::of_request());
        part.grow(self.held.amount())?;
        *self = part;
        Ok(())
    }

    /// Takes `more` bytes. It never waits, so that no two bodies can wait for each other.
    /// Errors: `BodyTooHeavy` when the whole share would not be enough, `BodyMemory`, `KeyBodyMemory` or `KeylessBodyMemory` when
    /// too much of it is held now; `AnswerMemory` for both in the budget for answers.
    pub(super) fn grow(&mut self, more: u64) -> Result<(), Error> {
        if more > self.room() {
            return Err(self.too_heavy());
        }
        let Budget { purpose, total, share, .. } = self.budget;
        self.held.grow(|held| {
            if held.all.saturating_add(more) > total {
                return Err(purpose.full());
            }
            if held.own.saturating_add(more) > share {
                return Err(purpose.share_full());
            }
            Ok(more)
        })
    }

    /// Gives back what it holds beyond these bytes.
    pub(super) fn shrink_to(&mut self, bytes: u64) {
        self.held.shrink_to(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_core::error::Fault as _;

    const UNIT: u64 = 1 << 10;

    fn bodies(total: u64, share: u64) -> Budget {
        Budget::new(Purpose::Bodies, ByteSize(total * UNIT), ByteSize(share * UNIT))
    }

    fn addresses() -> [Holder; 2] {
        ["192.0.2.1", "192.0.2.2"].map(|address| Holder::at(address.parse().unwrap()))
    }

    fn keys() -> [Holder; 2] {
        ["0123456789ab", "fedcba987654"].map(|id| Holder::Key(id.parse().unwrap()))
    }

    #[test]
    fn a_part_is_given_back_when_it_is_dropped() {
        let (budget, [key, other]) = (bodies(10, 10), keys());
        let mut first = budget.part(key);
        for _ in 0..8 {
            first.grow(UNIT / 2).unwrap();
        }
        let mut second = budget.part(other);
        second.grow(6 * UNIT).unwrap();
        assert!(matches!(first.grow(1), Err(Error::BodyMemory)));
        drop(second);
        first.grow(6 * UNIT).unwrap();
        assert!(matches!(first.grow(1), Err(Error::BodyTooHeavy { .. })));
        drop(first);
        assert_eq!(budget.held.all(), 0);
    }

    #[test]
    fn what_never_fits_differs_from_what_does_not_fit_now() {
        let (budget, [key, other]) = (bodies(4, 4), keys());
        assert!(matches!(budget.part(key.clone()).grow(5 * UNIT), Err(Error::BodyTooHeavy { limit: 4096, .. })));
        assert!(matches!(budget.part(key.clone()).grow(u64::MAX), Err(Error::BodyTooHeavy { .. })));
        let mut all = budget.part(key);
        all.grow(4 * UNIT).unwrap();
        let refused = budget.part(other).grow(1).unwrap_err();
        assert_eq!(refused.code().status(), 503);
        assert!(refused.retry_after().is_some());
    }

    #[test]
    fn no_key_holds_more_than_its_share() {
        let (budget, [key, other]) = (bodies(10, 6), keys());
        let mut parts = [budget.part(key.clone()), budget.part(key.clone())];
        parts.iter_mut().for_each(|part| part.grow(3 * UNIT).unwrap());
        let refused = budget.part(key.clone()).grow(1).unwrap_err();
        assert!(matches!(refused, Error::KeyBodyMemory) && refused.code().status() == 503, "{refused}");
        budget.part(other.clone()).grow(4 * UNIT).unwrap();
        assert_eq!(budget.held.all(), 6 * UNIT, "what is refused takes nothing");
        // A body that has been read needs less.
        parts[0].shrink_to(UNIT);
        budget.part(key).grow(2 * UNIT).unwrap();
        parts[0].grow(2 * UNIT).unwrap();
        drop(parts);
        assert_eq!(budget.held.all(), 0);
        assert!(matches!(budget.part(other).grow(7 * UNIT), Err(Error::BodyTooHeavy { limit: 6144, .. })));
    }

    #[test]
    fn strangers_hold_up_strangers_alone() {
        let budget = bodies(10, 10);
        let keyless = Budget::new(Purpose::KeylessBodies, ByteSize(5 * UNIT), ByteSize(3 * UNIT));
        let [one, two] = addresses();
        let mut first = keyless.part(one.clone());
        first.grow(2 * UNIT).unwrap();
        assert!(matches!(first.grow(2 * UNIT), Err(Error::BodyTooHeavy { limit: 3072, setting: KEYLESS_SHARE })));
        // Another body from there, and one from elsewhere.
        assert!(matches!(keyless.part(one.clone()).grow(2 * UNIT), Err(Error::KeylessBodyMemory)));
        let mut second = keyless.part(two.clone());
        second.grow(3 * UNIT).unwrap();
        assert!(matches!(first.grow(UNIT), Err(Error::KeylessBodyMemory)), "all of them together");
        budget.part(two).grow(10 * UNIT).unwrap();

        // Once its key is known it is a stranger's no more.
        first.move_to(&budget).unwrap();
        first.grow(8 * UNIT).unwrap();
        keyless.part(one).grow(2 * UNIT).unwrap();
        assert!(matches!(second.move_to(&budget), Err(Error::BodyMemory)));
        drop((first, second));
        assert_eq!((budget.held.all(), keyless.held.all()), (0, 0));
    }
}
