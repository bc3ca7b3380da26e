//! The order in which what keys keep gives way to newer things, so that what a key with little keeps stays.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::Hash;

/// What gives way next, with its size: always the oldest of the key that keeps most by then.
#[derive(Debug)]
pub struct GivingWay<T> {
    /// What each key keeps, the oldest first: its age among all, its size, and what it is.
    keys: Vec<VecDeque<(usize, u64, T)>>,
    /// How much each key keeps, the age of its oldest, and its place among the keys.
    turns: BinaryHeap<(u64, Reverse<usize>, usize)>,
}

impl<T> GivingWay<T> {
    /// Takes all that is kept, the oldest first: whose it is, its size, and what it is.
    pub fn new<K: Eq + Hash>(kept: impl IntoIterator<Item = (K, u64, T)>) -> Self {
        let (mut of_keys, mut sizes) = (HashMap::<K, VecDeque<(usize, u64, T)>>::new(), Vec::new());
        for (age, (key, size, what)) in kept.into_iter().enumerate() {
            of_keys.entry(key).or_default().push_back((age, size, what));
        }
        let keys: Vec<_> = of_keys.into_values().collect();
        for (place, kept) in keys.iter().enumerate() {
            let size = kept.iter().fold(0_u64, |sum, (_, size, _)| sum.saturating_add(*size));
            sizes.extend(kept.front().map(|(age, ..)| (size, Reverse(*age), place)));
        }
        Self { keys, turns: sizes.into() }
    }
}

impl<T> Iterator for GivingWay<T> {
    type Item = (u64, T);

    fn next(&mut self) -> Option<Self::Item> {
        let (all, _, place) = self.turns.pop()?;
        let kept = self.keys.get_mut(place)?;
        let (_, size, what) = kept.pop_front()?;
        if let Some((age, ..)) = kept.front() {
            self.turns.push((all.saturating_sub(size), Reverse(*age), place));
        }
        Some((size, what))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_key_that_keeps_most_gives_way_first() {
        let kept = [("a", 3, "a1"), ("b", 2, "b1"), ("b", 2, "b2"), ("c", 1, "c1"), ("b", 2, "b3")];
        let order: Vec<_> = GivingWay::new(kept).collect();
        assert_eq!(order, [(2, "b1"), (2, "b2"), (3, "a1"), (2, "b3"), (1, "c1")]);
        let equal = [("a", 1, "a1"), ("b", 1, "b1"), ("a", 1, "a2"), ("b", 1, "b2")];
        let order: Vec<_> = GivingWay::new(equal).map(|(_, what)| what).collect();
        assert_eq!(order, ["a1", "b1", "a2", "b2"], "where none keeps more, the oldest of all");
    }

    proptest! {
        #[test]
        fn all_of_it_gives_way_and_each_time_the_oldest_of_the_largest(
            kept in proptest::collection::vec((0..4_u8, 0..9_u64), 0..40),
        ) {
            let mut left: Vec<(usize, (u8, u64))> = kept.iter().copied().enumerate().collect();
            let all = kept.iter().enumerate().map(|(age, (key, size))| (*key, *size, age));
            for (size, age) in GivingWay::new(all) {
                let of = |key: u8| left.iter().filter(|(_, (of, _))| *of == key).map(|(_, (_, size))| size).sum::<u64>();
                let most = left.iter().map(|(_, (key, _))| of(*key)).max();
                let oldest = left.iter().position(|(_, (key, _))| Some(of(*key)) == most).unwrap();
                prop_assert_eq!(left.remove(oldest), (age, (kept[age].0, size)));
            }
            prop_assert!(left.is_empty());
        }
    }
}
