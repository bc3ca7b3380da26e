//! Whose turn it is: service keys take turns, within each of them its integration keys, and each integration key's worlds are in
//! the order of its requests. However many worlds one service key asks for, by however many integration keys, the next one
//! of any other waits for at most one of them.

use std::collections::VecDeque;

use warmpool_core::ids::{IntegrationKeyId, KeyId, WorldId};

/// The worlds that wait.
#[derive(Debug, Default)]
pub(super) struct WorldQueue(Line<KeyId, Line<IntegrationKeyId, Worlds>>);

/// The worlds of one integration key.
type Worlds = VecDeque<WorldId>;

/// Who takes turns. Each has something that waits; the first one is next.
#[derive(Debug)]
struct Line<K, W>(VecDeque<(K, W)>);

impl<K, W> Default for Line<K, W> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

/// What waits, of one who takes turns.
trait Waiting: Default {
    fn pop(&mut self) -> Option<WorldId>;
    fn remove(&mut self, world: &WorldId) -> bool;
    fn len(&self) -> usize;
}

impl Waiting for Worlds {
    fn pop(&mut self) -> Option<WorldId> {
        self.pop_front()
    }

    fn remove(&mut self, world: &WorldId) -> bool {
        let before = self.len();
        self.retain(|waiting| waiting != world);
        self.len() < before
    }

    fn len(&self) -> usize {
        Self::len(self)
    }
}

impl<K: PartialEq + Clone, W: Waiting> Line<K, W> {
    fn of(&mut self, key: &K) -> &mut W {
        let place = self.0.iter().position(|(known, _)| known == key).unwrap_or_else(|| {
            self.0.push_back((key.clone(), W::default()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }
}

impl<K, W: Waiting> Waiting for Line<K, W> {
    /// The one whose turn it is comes last now.
    fn pop(&mut self) -> Option<WorldId> {
        let (key, mut waiting) = self.0.pop_front()?;
        let world = waiting.pop();
        if waiting.len() > 0 {
            self.0.push_back((key, waiting));
        }
        world
    }

    fn remove(&mut self, world: &WorldId) -> bool {
        let mut found = false;
        self.0.retain_mut(|(_, waiting)| {
            found |= waiting.remove(world);
            waiting.len() > 0
        });
        found
    }

    fn len(&self) -> usize {
        self.0.iter().map(|(_, waiting)| waiting.len()).sum()
    }
}

impl WorldQueue {
    /// Adds a world behind those of its integration key, which is this service key's.
    pub(super) fn push(&mut self, owner: &KeyId, key: &IntegrationKeyId, world: WorldId) {
        self.0.of(owner).of(key).push_back(world);
    }

    /// Takes the world whose turn it is.
    pub(super) fn pop(&mut self) -> Option<WorldId> {
        self.0.pop()
    }

    /// Removes a world. Returns whether it was waiting.
    pub(super) fn remove(&mut self, world: &WorldId) -> bool {
        self.0.remove(world)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// How many worlds of one service key wait.
    pub(super) fn count_of(&self, owner: &KeyId) -> usize {
        self.0.0.iter().find(|(known, _)| known == owner).map_or(0, |(_, waiting)| waiting.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn owner(number: usize) -> KeyId {
        format!("{number:012}").parse().unwrap()
    }

    fn key(number: usize) -> IntegrationKeyId {
        IntegrationKeyId::from(&*format!("key{number}"))
    }

    fn world(number: usize) -> WorldId {
        WorldId::from(&*format!("world{number}"))
    }

    #[test]
    fn an_owner_of_many_keys_holds_the_others_up_for_one_at_a_time() {
        let mut turns = WorldQueue::default();
        (0..100).for_each(|number| turns.push(&owner(0), &key(number), world(number)));
        turns.push(&owner(1), &key(1), world(100));
        turns.push(&owner(2), &key(2), world(101));
        turns.push(&owner(1), &key(1), world(102));
        let first: Vec<_> = (0..6).map_while(|_| turns.pop()).collect();
        assert_eq!(first, [0, 100, 101, 1, 102, 2].map(world));
    }

    #[test]
    fn two_keys_of_one_owner_share_one_turn() {
        let mut turns = WorldQueue::default();
        for (number, (of, by)) in [(0, 0), (0, 0), (0, 1), (1, 2), (1, 2), (1, 2)].into_iter().enumerate() {
            turns.push(&owner(of), &key(by), world(number));
        }
        assert_eq!((turns.count_of(&owner(0)), turns.count_of(&owner(1)), turns.count_of(&owner(2))), (3, 3, 0));
        let order: Vec<_> = (0..6).map_while(|_| turns.pop()).collect();
        assert_eq!(order, [0, 3, 2, 4, 1, 5].map(world), "and take turns within it");
    }

    #[test]
    fn what_is_removed_takes_no_place() {
        let mut turns = WorldQueue::default();
        (0..100).for_each(|number| turns.push(&owner(0), &key(number % 3), world(number)));
        assert!((0..100).all(|number| turns.remove(&world(number))) && !turns.remove(&world(0)));
        assert_eq!((turns.len(), turns.count_of(&owner(0)), turns.pop()), (0, 0, None));
    }

    proptest! {
        /// A world waits for at most one world of each other owner between two of its own, and none is lost or twice there.
        #[test]
        fn keys_take_turns(
            pushed in proptest::collection::vec((0..4usize, 0..3usize), 0..60),
            gone in proptest::collection::vec(0..60usize, 0..20),
        ) {
            let mut turns = WorldQueue::default();
            for (number, (of, by)) in pushed.iter().enumerate() {
                turns.push(&owner(*of), &key(of * 3 + by), world(number));
            }
            let removed: Vec<usize> = gone.into_iter().filter(|number| turns.remove(&world(*number))).collect();
            let mut left: Vec<(usize, (usize, usize))> =
                pushed.iter().copied().enumerate().filter(|(number, _)| !removed.contains(number)).collect();
            prop_assert_eq!(turns.len(), left.len());
            let mut waited = [0usize; 4];
            while let Some(next) = turns.pop() {
                let place = left.iter().position(|(number, _)| world(*number) == next);
                let Some(place) = place else { panic!("{next} was removed, or came twice") };
                let (_, key) = left.remove(place);
                prop_assert!(left.iter().take(place).all(|(_, other)| *other != key), "a key's worlds are in order");
                waited[key.0] = 0;
                for (other, waits) in waited.iter_mut().enumerate() {
                    *waits = if other != key.0 && left.iter().any(|(_, (of, _))| *of == other) { *waits + 1 } else { 0 };
                    prop_assert!(*waits <= 3, "owner {other} waits for {waits} worlds");
                }
            }
            prop_assert!(left.is_empty());
        }
    }
}
