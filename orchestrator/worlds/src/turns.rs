//! Whose turn it is: integration keys take turns, and each key's worlds are in the order of its requests. However many
//! worlds one key asks for, the next one of any other key waits for at most one of them.

use std::collections::VecDeque;

use warmpool_core::ids::{IntegrationKeyId, WorldId};

/// The worlds that wait.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Keys that have worlds waiting; the first one is next.
    keys: VecDeque<(IntegrationKeyId, VecDeque<WorldId>)>,
}

impl Turns {
    /// Adds a world behind those of its key.
    pub(super) fn push(&mut self, key: &IntegrationKeyId, world: WorldId) {
        match self.keys.iter_mut().find(|(known, _)| known == key) {
            Some((_, worlds)) => worlds.push_back(world),
            None => self.keys.push_back((key.clone(), VecDeque::from([world]))),
        }
    }

    /// Takes the world whose turn it is. Its key is last now.
    pub(super) fn pop(&mut self) -> Option<WorldId> {
        let (key, mut worlds) = self.keys.pop_front()?;
        let world = worlds.pop_front();
        if !worlds.is_empty() {
            self.keys.push_back((key, worlds));
        }
        world
    }

    /// Removes a world. Returns whether it was waiting.
    pub(super) fn remove(&mut self, world: &WorldId) -> bool {
        let mut found = false;
        self.keys.retain_mut(|(_, worlds)| {
            let before = worlds.len();
            worlds.retain(|waiting| waiting != world);
            found |= worlds.len() < before;
            !worlds.is_empty()
        });
        found
    }

    pub(super) fn len(&self) -> usize {
        self.keys.iter().map(|(_, worlds)| worlds.len()).sum()
    }

    /// How many worlds of one key wait.
    pub(super) fn count_of(&self, key: &IntegrationKeyId) -> usize {
        self.keys.iter().find(|(known, _)| known == key).map_or(0, |(_, worlds)| worlds.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(number: usize) -> IntegrationKeyId {
        IntegrationKeyId::from(&*format!("key{number}"))
    }

    fn world(number: usize) -> WorldId {
        WorldId::from(&*format!("world{number}"))
    }

    #[test]
    fn a_key_with_many_worlds_holds_the_others_up_for_one_at_a_time() {
        let mut turns = Turns::default();
        (0..100).for_each(|number| turns.push(&key(0), world(number)));
        turns.push(&key(1), world(100));
        turns.push(&key(2), world(101));
        turns.push(&key(1), world(102));
        let first: Vec<_> = (0..6).map_while(|_| turns.pop()).collect();
        assert_eq!(first, [0, 100, 101, 1, 102, 2].map(world));
    }

    #[test]
    fn what_is_removed_takes_no_place() {
        let mut turns = Turns::default();
        (0..100).for_each(|number| turns.push(&key(0), world(number)));
        assert!((0..100).all(|number| turns.remove(&world(number))) && !turns.remove(&world(0)));
        assert_eq!((turns.len(), turns.count_of(&key(0)), turns.pop()), (0, 0, None));
    }

    proptest! {
        /// A world waits for at most one world of each other key between two of its own, and none is lost or twice there.
        #[test]
        fn keys_take_turns(pushed in proptest::collection::vec(0..4usize, 0..60), gone in proptest::collection::vec(0..60usize, 0..20)) {
            let mut turns = Turns::default();
            for (number, of) in pushed.iter().enumerate() {
                turns.push(&key(*of), world(number));
            }
            let removed: Vec<usize> = gone.into_iter().filter(|number| turns.remove(&world(*number))).collect();
            let mut left: Vec<(usize, usize)> = pushed.iter().copied().enumerate().filter(|(number, _)| !removed.contains(number)).collect();
            prop_assert_eq!(turns.len(), left.len());
            let mut waited = [0usize; 4];
            while let Some(next) = turns.pop() {
                let place = left.iter().position(|(number, _)| world(*number) == next);
                let Some(place) = place else { panic!("{next} was removed, or came twice") };
                let (_, of) = left.remove(place);
                prop_assert!(left.iter().take(place).all(|(_, other)| *other != of), "a key's worlds are in order");
                waited[of] = 0;
                for (other, waits) in waited.iter_mut().enumerate() {
                    *waits = if other != of && left.iter().any(|(_, key)| *key == other) { *waits + 1 } else { 0 };
                    prop_assert!(*waits <= 3, "key {other} waits for {waits} worlds");
                }
            }
            prop_assert!(left.is_empty());
        }
    }
}
