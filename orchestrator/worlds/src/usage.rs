//! How much the worlds of each service key take on the disk, and how many patients it has.

use std::collections::HashMap;

use warmpool_core::ids::{KeyId, WorldId};

/// What a world takes beside its files: its row, of which the store takes 64 KiB at most.
const ROW_BYTES: u64 = 64 << 10;

/// What is known of it. It is in memory alone, and found out anew at each start.
#[derive(Debug, Default)]
pub(super) struct Usage {
    worlds: HashMap<WorldId, (KeyId, u64)>,
    totals: HashMap<KeyId, u64>,
    patients: HashMap<KeyId, usize>,
}

impl Usage {
    /// Notes that a world's files have so many bytes.
    pub(super) fn set(&mut self, world: &WorldId, owner: &KeyId, files: u64) {
        self.remove(world);
        let bytes = files.saturating_add(ROW_BYTES);
        *self.totals.entry(owner.clone()).or_default() += bytes;
        self.worlds.insert(world.clone(), (owner.clone(), bytes));
    }

    /// Forgets a world that is gone.
    pub(super) fn remove(&mut self, world: &WorldId) {
        let Some((owner, bytes)) = self.worlds.remove(world) else { return };
        if let Some(total) = self.totals.get_mut(&owner) {
            *total -= bytes;
            if *total == 0 {
                self.totals.remove(&owner);
            }
        }
    }

    /// Returns how many bytes a service key's worlds would take with another one whose files have so many.
    pub(super) fn with(&self, owner: &KeyId, files: u64) -> u64 {
        let total = self.totals.get(owner).copied().unwrap_or_default();
        total.saturating_add(files).saturating_add(ROW_BYTES)
    }

    /// Counts one more patient of a service key.
    pub(super) fn add_patient(&mut self, owner: &KeyId) {
        *self.patients.entry(owner.clone()).or_default() += 1;
    }

    /// Counts one patient of a service key less.
    pub(super) fn remove_patient(&mut self, owner: &KeyId) {
        let Some(count) = self.patients.get_mut(owner) else { return };
        *count -= 1;
        if *count == 0 {
            self.patients.remove(owner);
        }
    }

    /// Returns how many patients a service key has.
    pub(super) fn patients(&self, owner: &KeyId) -> usize {
        self.patients.get(owner).copied().unwrap_or_default()
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
        assert!(usage.totals.is_empty() && usage.worlds.is_empty());
        usage.add_patient(&one);
        usage.add_patient(&one);
        usage.remove_patient(&one);
        usage.remove_patient(&other);
        assert_eq!([&one, &other].map(|owner| usage.patients(owner)), [1, 0]);
        usage.remove_patient(&one);
        assert!(usage.patients.is_empty());
    }
}
