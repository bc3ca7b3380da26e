//! How much each key has of what all of them share: places, connections, bytes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

/// How much each key has, and all of them together. For counts with a lock of their own, whose parts give themselves back, there
/// is [`Tally`].
#[derive(Debug)]
pub struct Counts<K> {
    all: u64,
    /// What each key has that has anything.
    own: HashMap<K, u64>,
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self { all: 0, own: HashMap::new() }
    }
}

impl<K: Eq + Hash + Clone> Counts<K> {
    /// How much all keys have together.
    pub const fn all(&self) -> u64 {
        self.all
    }

    /// How much a key has.
    pub fn of(&self, key: &K) -> u64 {
        self.own.get(key).copied().unwrap_or_default()
    }

    /// Counts so much more for a key.
    pub fn add(&mut self, key: &K, more: u64) {
        if more > 0 {
            let own = self.own.entry(key.clone()).or_default();
            *own = own.saturating_add(more);
            self.all = self.all.saturating_add(more);
        }
    }

    /// Counts so much less for a key, and nothing where it had less than that.
    pub fn subtract(&mut self, key: &K, less: u64) {
        let Some(own) = self.own.get_mut(key) else { return };
        let less = less.min(*own);
        *own -= less;
        self.all = self.all.saturating_sub(less);
        if *own == 0 {
            self.own.remove(key);
        }
    }
}

/// What is taken when somebody asks for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// By all keys together.
    pub all: u64,
    /// By the key that asks.
    pub own: u64,
}

/// Counts whose parts are [`Share`]s, which give themselves back. Clones share the counts.
///
/// Nobody holds the lock of the counts for longer than a call takes, so a share may be dropped under any other lock, unless a
/// decision takes that one. Decisions run under the lock of the counts, so that nobody else takes in between: they must neither
/// take nor drop shares of the same tally, and nobody may do so under a lock that they take.
#[derive(Debug, Clone)]
pub struct Tally<K>(Arc<Mutex<Counts<K>>>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Eq + Hash + Clone> Tally<K> {
    /// How much all keys have together.
    pub fn all(&self) -> u64 {
        self.0.lock().all()
    }

    /// How much a key has.
    pub fn of(&self, key: &K) -> u64 {
        self.0.lock().of(key)
    }

    /// Counts so much for a key, whatever is taken already.
    pub fn add(&self, key: K, amount: u64) -> Share<K> {
        self.0.lock().add(&key, amount);
        Share { tally: self.clone(), key, amount }
    }

    /// Takes as much for a key as `decide` says.
    /// Errors: those of `decide`; then nothing is taken.
    pub fn take<E>(&self, key: K, decide: impl FnOnce(Taken) -> Result<u64, E>) -> Result<Share<K>, E> {
        let mut share = Share { tally: self.clone(), key, amount: 0 };
        share.grow(decide)?;
        Ok(share)
    }
}

/// What somebody has of a [`Tally`], counted for a key. Dropping it gives it back.
#[derive(Debug)]
#[must_use = "what is taken is given back when this is dropped"]
pub struct Share<K: Eq + Hash + Clone> {
    tally: Tally<K>,
    key: K,
    amount: u64,
}

impl<K: Eq + Hash + Clone> Share<K> {
    /// How much it is.
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// Takes as much more as `decide` says.
    /// Errors: those of `decide`; then it is as large as before.
    pub fn grow<E>(&mut self, decide: impl FnOnce(Taken) -> Result<u64, E>) -> Result<(), E> {
        let mut counts = self.tally.0.lock();
        let more = decide(Taken { all: counts.all(), own: counts.of(&self.key) })?;
        counts.add(&self.key, more);
        self.amount = self.amount.saturating_add(more);
        Ok(())
    }

    /// Gives back what it has beyond this.
    pub fn shrink_to(&mut self, amount: u64) {
        let less = self.amount.saturating_sub(amount);
        if less > 0 {
            self.tally.0.lock().subtract(&self.key, less);
            self.amount = amount;
        }
    }
}

impl<K: Eq + Hash + Clone> Drop for Share<K> {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    /// Decides for so much, unless the key would have more than its limit then, or all keys more than theirs.
    fn within(amount: u64, own: u64, all: u64) -> impl FnOnce(Taken) -> Result<u64, Taken> {
        move |taken| if taken.own + amount > own || taken.all + amount > all { Err(taken) } else { Ok(amount) }
    }

    fn is_empty<K: Eq + Hash + Clone>(tally: &Tally<K>) -> bool {
        let counts = tally.0.lock();
        counts.all == 0 && counts.own.is_empty()
    }

    #[test]
    fn a_share_counts_until_it_is_dropped() {
        let tally = Tally::default();
        let mut one = tally.take("a", within(2, 3, 5)).unwrap();
        let other = tally.clone().take("b", within(3, 3, 5)).unwrap();
        assert_eq!((tally.of(&"a"), tally.of(&"b"), tally.of(&"c"), tally.all()), (2, 3, 0, 5));
        assert_eq!(tally.take("a", within(2, 3, 5)).unwrap_err(), Taken { all: 5, own: 2 });
        assert_eq!(tally.take("c", within(1, 3, 5)).unwrap_err(), Taken { all: 5, own: 0 });
        drop(other);
        one.grow(within(1, 3, 5)).unwrap();
        assert_eq!(one.grow(within(1, 3, 5)).unwrap_err(), Taken { all: 3, own: 3 });
        assert_eq!((one.amount(), tally.all()), (3, 3), "what is refused takes nothing");
        one.shrink_to(7);
        one.shrink_to(1);
        assert_eq!((one.amount(), tally.of(&"a")), (1, 1));
        drop(one);
        assert!(is_empty(&tally));
        drop(tally.add("a", 0));
        assert!(is_empty(&tally), "a key that has nothing takes no memory");
    }

    #[test]
    fn a_share_that_is_dropped_while_another_takes_is_given_back_once_and_after_it() {
        let tally = Tally::default();
        let first = tally.add("a", 1);
        let refused = tally.take("a", |taken| {
            let dropper = thread::spawn(move || drop(first));
            Err::<u64, _>((taken, dropper))
        });
        let (taken, dropper) = refused.unwrap_err();
        assert_eq!(taken, Taken { all: 1, own: 1 });
        dropper.join().unwrap();
        assert!(is_empty(&tally));
    }

    #[test]
    fn a_decision_that_panics_takes_nothing() {
        let tally = Tally::default();
        let mut share = tally.add("a", 1);
        let grow = || share.grow(|_| -> Result<u64, Infallible> { panic!("as planned") });
        assert!(catch_unwind(AssertUnwindSafe(grow)).is_err());
        assert_eq!((share.amount(), tally.all()), (1, 1));
        drop(share);
        assert!(is_empty(&tally));
    }

    #[test]
    fn threads_that_take_and_drop_never_have_more_than_they_may() {
        let tally = Tally::default();
        thread::scope(|scope| {
            for key in [1, 1, 1, 2] {
                let tally = &tally;
                scope.spawn(move || {
                    for amount in (1..=3).cycle().take(2000) {
                        let share = tally.take(key, within(amount, 4, 6));
                        assert!(tally.of(&key) <= 4 && tally.all() <= 6);
                        drop(share);
                    }
                });
            }
        });
        assert!(is_empty(&tally));
    }

    #[test]
    fn counts_never_pass_their_ends() {
        let mut counts = Counts::default();
        counts.add(&'a', u64::MAX);
        counts.add(&'b', 2);
        counts.subtract(&'b', 5);
        counts.subtract(&'c', 1);
        assert_eq!((counts.all(), counts.of(&'b'), counts.own.len()), (u64::MAX - 2, 0, 1));
        counts.subtract(&'a', u64::MAX);
        assert!(counts.all() == 0 && counts.own.is_empty());
    }

    proptest! {
        #[test]
        fn the_counts_are_the_sums_of_the_shares(
            steps in prop::collection::vec((0..5_u8, 0..3_u8, 0..8_u64, 0..16_usize), 0..100),
        ) {
            let tally = Tally::default();
            let mut shares: Vec<Share<u8>> = Vec::new();
            for (act, key, amount, at) in steps {
                let at = at % shares.len().max(1);
                match (act, shares.get_mut(at)) {
                    (0, _) => shares.push(tally.add(key, amount)),
                    (1, _) => shares.extend(tally.take(key, within(amount, 20, 40)).ok()),
                    (2, Some(share)) => share.grow(within(amount, 20, 40)).unwrap_or_default(),
                    (3, Some(share)) => share.shrink_to(amount),
                    (_, Some(_)) => drop(shares.swap_remove(at)),
                    (_, None) => {}
                }
                let of = |key: u8| shares.iter().filter(|share| share.key == key).map(Share::amount).sum::<u64>();
                for key in 0..3 {
                    prop_assert_eq!(tally.of(&key), of(key));
                }
                let counts = tally.0.lock();
                prop_assert_eq!(counts.all, counts.own.values().sum::<u64>());
                prop_assert!(counts.own.values().all(|own| *own > 0));
            }
            drop(shares);
            prop_assert!(is_empty(&tally));
        }
    }
}
