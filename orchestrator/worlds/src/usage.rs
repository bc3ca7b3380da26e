//! How much the worlds of each service key take on the disk, and how many patients it has.

use std::collections::HashMap;

use warmpool_core::ids::{KeyId, WorldId};
use warmpool_core::tally::{Counts, Share, Tally};

/// What a world takes beside its files: its row, of which the store takes 64 KiB at most.
const ROW_BYTES: u64 = 64 << 10;

/// What is known of it. It is in memory alone, and found out anew at each start.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// The bytes of each world.
    worlds: HashMap<WorldId, Share<KeyId>>,
    bytes: Tally<KeyId>,
    patients: Counts<KeyId>,
}

impl Usage {
    /// Notes that a world's files have so many bytes.
    pub(super) fn set(&mut self, world: &WorldId, owner: &KeyId, files: u64) {
        self.worlds.insert(world.clone(), self.bytes.add(owner.clone(), files.saturating_add(ROW_BYTES)));
    }

    /// Forgets a world that is gone.
    pub(super) fn remove(&mut self, world: &WorldId) {
        self.worlds.remove(world);
    }

    /// Returns how many bytes a service key's worlds would take with another one whose files have so many.
    pub(super) fn with(&self, owner: &KeyId, files: u64) -> u64 {
        self.bytes.of(owner).saturating_add(files).saturating_add(ROW_BYTES)
    }

    /// Counts one more patient of a service key.
    pub(super) fn add_patient(&mut self, owner: &KeyId) {
        self.patients.add(owner, 1);
    }

    /// Counts one patient of a service key less.
    pub(super) fn remove_patient(&mut self, owner: &KeyId) {
        self.patients.subtract(owner, 1);
    }

    /// Returns how many patients a service key has.
    pub(super) fn patients(&self, owner: &KeyId) -> u64 {
        self.patients.of(owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_counts_once_with_what_it_has_now() {
        let (one, other): (KeyId, KeyId) = ("0123456789ab".parse().unwrap(), "ba9876543210".parse().unwrap());
        let worlds = [WorldId::random(), WorldId::random(), WorldId::random()];
        let mut usage = Usage::default();
        assert_eq!(usage.with(&one, 7), ROW_BYTES + 7);
        usage.set(&worlds[0], &one, 100);
        usage.set(&worlds[0], &one, 30);
        usage.set(&worlds[1], &one, 0);
        usage.set(&worlds[2], &other, 5);
        assert_eq!(usage.with(&one, 1), 3 * ROW_BYTES + 31);
        assert_eq!(usage.with(&other, 0), 2 * ROW_BYTES + 5);
        worlds.iter().chain(&worlds).for_each(|world| usage.remove(world));
        assert!(usage.bytes.all() == 0 && usage.worlds.is_empty());
        usage.add_patient(&one);
        usage.add_patient(&one);
        usage.remove_patient(&one);
        usage.remove_patient(&other);
        assert_eq!([&one, &other].map(|owner| usage.patients(owner)), [1, 0]);
        usage.remove_patient(&one);
        assert_eq!(usage.patients.all(), 0);
    }
}
