//! How much tasks keep on the disk beyond a small record, and how much they may: in all, and those of one key.
//!
//! A task's size is that of its files, of its items if it is a fleet, and of an order that takes more than one value of the
//! store. A task that keeps none of these is not in here, and its record counts by number alone (`tasks.keep`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use parking_lot::Mutex;

use warmpool_core::ids::TaskId;
use warmpool_keys::KeyId;

/// Files take their place on the disk in blocks of so many bytes.
const BLOCK: u64 = 4 << 10;
/// Characters of a key's id in a row.
const OWNER: usize = 12;

/// How much of the disk a file of so many bytes takes, in bytes.
pub(super) const fn on_disk(bytes: u64) -> u64 {
    bytes.saturating_add(BLOCK - 1) / BLOCK * BLOCK
}

/// A task's size, as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SizeRow {
    pub(super) id: TaskId,
    pub(super) owner: KeyId,
    pub(super) bytes: u64,
}

impl SizeRow {
    /// The row's value in the store: owner and size.
    pub(super) fn encode(owner: &KeyId, bytes: u64) -> Vec<u8> {
        [owner.as_str().as_bytes(), &bytes.to_be_bytes()].concat()
    }

    pub(super) fn decode(key: &[u8], row: &[u8]) -> Option<Self> {
        let (owner, bytes) = row.split_at_checked(OWNER)?;
        Some(Self {
            id: TaskId::from_store_key(key)?,
            owner: std::str::from_utf8(owner).ok()?.parse().ok()?,
            bytes: u64::from_be_bytes(bytes.try_into().ok()?),
        })
    }
}

/// The sizes of all tasks.
#[derive(Debug)]
pub(super) struct Sizes {
    /// How much they may keep in all, in bytes.
    all: u64,
    /// How much those of one key may, in bytes.
    per_key: u64,
    known: Mutex<KnownSizes>,
}

/// The sizes of each key's tasks, and what they are together, which is asked for with every file.
#[derive(Debug, Default)]
struct KnownSizes {
    keys: HashMap<KeyId, KeySizes>,
    open_bytes: u64,
    ended_bytes: u64,
}

/// The sizes of one key's tasks.
#[derive(Debug, Default)]
struct KeySizes {
    open: HashMap<TaskId, u64>,
    ended: BTreeMap<TaskId, u64>,
    open_bytes: u64,
    ended_bytes: u64,
}

/// A task that gives way to newer ones.
pub(super) type Oldest = (KeyId, TaskId);

/// Whose tasks keep as much as they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Those of one key.
    Key,
    /// Those of all keys.
    All,
}

impl Share {
    /// The setting that says how much.
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Key => "tasks.keep_size_per_key",
            Self::All => "tasks.keep_size",
        }
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Key => "the tasks of this key",
            Self::All => "the tasks of all keys",
        })
    }
}

/// Why there is no room.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full {
    pub(super) share: Share,
    /// How much may be kept, in bytes.
    pub(super) limit: u64,
    /// What is to be forgotten first. None where no room could be made so.
    pub(super) oldest: Option<Oldest>,
}

impl KeySizes {
    const fn bytes(&self) -> u64 {
        self.open_bytes.saturating_add(self.ended_bytes)
    }

    /// Changes the size of a task, and with it the sums in which it counts.
    fn change(&mut self, task: TaskId, change: impl FnOnce(u64) -> u64) {
        if let Some(bytes) = self.ended.get_mut(&task) {
            let new = change(*bytes);
            self.ended_bytes = self.ended_bytes - *bytes + new;
            *bytes = new;
            return;
        }
        let old = self.open.remove(&task).unwrap_or(0);
        let new = change(old);
        self.open_bytes = self.open_bytes - old + new;
        if new > 0 {
            self.open.insert(task, new);
        }
    }

    fn end(&mut self, task: TaskId) {
        if let Some(bytes) = self.open.remove(&task) {
            self.open_bytes -= bytes;
            self.ended_bytes += bytes;
            self.ended.insert(task, bytes);
        }
    }

    fn forget(&mut self, task: TaskId) {
        self.open_bytes -= self.open.remove(&task).unwrap_or(0);
        self.ended_bytes -= self.ended.remove(&task).unwrap_or(0);
    }

    fn oldest(&self) -> Option<TaskId> {
        self.ended.keys().next().copied()
    }
}

impl KnownSizes {
    const fn bytes(&self) -> u64 {
        self.open_bytes.saturating_add(self.ended_bytes)
    }

    /// Does something with what is known of a key's tasks. Of a key without any nothing is kept.
    fn change(&mut self, owner: &KeyId, act: impl FnOnce(&mut KeySizes)) {
        let key = self.keys.entry(owner.clone()).or_default();
        let (open, ended) = (key.open_bytes, key.ended_bytes);
        act(key);
        self.open_bytes = self.open_bytes - open + key.open_bytes;
        self.ended_bytes = self.ended_bytes - ended + key.ended_bytes;
        if key.open.is_empty() && key.ended.is_empty() {
            self.keys.remove(owner);
        }
    }

    /// The oldest task of the key that keeps most, so that those of a key that keeps little stay.
    fn of_the_largest(&self) -> Option<Oldest> {
        let with_oldest =
            self.keys.iter().filter_map(|(owner, key)| Some((key.bytes(), Reverse(key.oldest()?), owner)));
        with_oldest.max().map(|(_, Reverse(task), owner)| (owner.clone(), task))
    }
}

impl Sizes {
    /// No sizes, and how much may be kept, in bytes.
    pub(super) fn new(all: u64, per_key: u64) -> Self {
        Self { all, per_key, known: Mutex::default() }
    }

    /// Enters what the store has at the start. `open` are the tasks that have not ended.
    pub(super) fn load(&self, rows: Vec<SizeRow>, open: &HashSet<TaskId>) {
        let mut known = self.known.lock();
        for SizeRow { id, owner, bytes } in rows {
            known.change(&owner, |key| {
                key.change(id, |_| bytes);
                if !open.contains(&id) {
                    key.end(id);
                }
            });
        }
    }

    /// Room for what a task is to keep, in bytes.
    pub(super) fn claim<'a>(&'a self, owner: &'a KeyId, task: TaskId, bytes: u64) -> Result<Claim<'a>, Full> {
        let mut known = self.known.lock();
        if bytes > 0 {
            if let Some(full) = self.full(&known, owner, bytes) {
                return Err(full);
            }
            known.change(owner, |key| key.change(task, |old| old + bytes));
        }
        drop(known);
        Ok(Claim { sizes: self, owner, task, bytes })
    }

    /// Counts what a task keeps in any case, in bytes.
    pub(super) fn add(&self, owner: &KeyId, task: TaskId, bytes: u64) {
        if bytes > 0 {
            self.known.lock().change(owner, |key| key.change(task, |old| old + bytes));
        }
    }

    /// Enters a size that was measured. A task that has not ended may have more by now.
    pub(super) fn measured(&self, row: SizeRow, has_ended: bool) {
        if row.bytes > 0 {
            self.known.lock().change(&row.owner, |key| {
                key.change(row.id, |old| old.max(row.bytes));
                if has_ended {
                    key.end(row.id);
                }
            });
        }
    }

    /// From now on the task can be forgotten.
    pub(super) fn end(&self, owner: &KeyId, task: TaskId) {
        self.known.lock().change(owner, |key| key.end(task));
    }

    pub(super) fn forget(&self, owner: &KeyId, task: TaskId) {
        self.known.lock().change(owner, |key| key.forget(task));
    }

    /// The tasks whose sizes are known.
    pub(super) fn known(&self) -> HashSet<TaskId> {
        let known = self.known.lock();
        known.keys.values().flat_map(|key| key.open.keys().chain(key.ended.keys())).copied().collect()
    }

    /// What is to be forgotten first of what is more than may be kept.
    pub(super) fn surplus(&self) -> Option<Oldest> {
        let known = self.known.lock();
        known.keys.keys().find_map(|owner| self.full(&known, owner, 0)?.oldest)
    }

    /// Why there is no room for so many bytes of this key, if there is none.
    fn full(&self, known: &KnownSizes, owner: &KeyId, bytes: u64) -> Option<Full> {
        // Nothing is forgotten in vain.
        let helps = |open: u64, limit: u64| open.saturating_add(bytes) <= limit;
        let key = known.keys.get(owner);
        let (open, all) = key.map_or((0, 0), |key| (key.open_bytes, key.bytes()));
        if all.saturating_add(bytes) > self.per_key {
            let oldest = || Some((owner.clone(), key?.oldest()?));
            let oldest = helps(open, self.per_key).then(oldest).flatten();
            return Some(Full { share: Share::Key, limit: self.per_key, oldest });
        }
        if known.bytes().saturating_add(bytes) > self.all {
            let oldest = helps(known.open_bytes, self.all).then(|| known.of_the_largest()).flatten();
            return Some(Full { share: Share::All, limit: self.all, oldest });
        }
        None
    }
}

/// Room that a task has for something until it is kept.
#[derive(Debug)]
#[must_use = "the room is given back when this is dropped"]
pub(super) struct Claim<'a> {
    sizes: &'a Sizes,
    owner: &'a KeyId,
    task: TaskId,
    bytes: u64,
}

impl Claim<'_> {
    /// It is kept now. Returns how much it is, in bytes.
    pub(super) fn keep(mut self) -> u64 {
        std::mem::replace(&mut self.bytes, 0)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let mut known = self.sizes.known.lock();
            known.change(self.owner, |key| key.change(self.task, |old| old.saturating_sub(self.bytes)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEYS: [&str; 3] = ["00000000000a", "00000000000b", "00000000000c"];

    fn key(at: usize) -> KeyId {
        KEYS[at % KEYS.len()].parse().unwrap()
    }

    fn task(at: u8) -> TaskId {
        TaskId::from_number(u128::from(at) + 1)
    }

    fn keep(sizes: &Sizes, owner: usize, at: u8, bytes: u64) {
        assert_eq!(sizes.claim(&key(owner), task(at), bytes).unwrap().keep(), bytes);
    }

    fn ended(sizes: &Sizes, owner: usize, at: u8, bytes: u64) {
        keep(sizes, owner, at, bytes);
        sizes.end(&key(owner), task(at));
    }

    fn refused(sizes: &Sizes, owner: usize, at: u8, bytes: u64) -> (Share, Option<Oldest>) {
        let full = sizes.claim(&key(owner), task(at), bytes).unwrap_err();
        (full.share, full.oldest)
    }

    #[test]
    fn a_key_beyond_its_share_gives_way_to_itself() {
        let sizes = Sizes::new(20, 10);
        ended(&sizes, 0, 1, 4);
        ended(&sizes, 1, 2, 4);
        ended(&sizes, 1, 3, 4);
        assert_eq!(refused(&sizes, 1, 4, 3), (Share::Key, Some((key(1), task(2)))));
        sizes.forget(&key(1), task(2));
        keep(&sizes, 1, 4, 3);
        assert_eq!(
            refused(&sizes, 1, 4, 8),
            (Share::Key, None),
            "its running task keeps 3, and nothing is forgotten in vain"
        );
    }

    #[test]
    fn the_key_that_keeps_most_gives_way_to_all() {
        let sizes = Sizes::new(20, 10);
        ended(&sizes, 0, 1, 5);
        ended(&sizes, 1, 2, 4);
        ended(&sizes, 1, 3, 5);
        assert_eq!(refused(&sizes, 2, 4, 7), (Share::All, Some((key(1), task(2)))));
        assert_eq!(sizes.surplus(), None);
        sizes.add(&key(2), task(4), 7);
        assert_eq!(sizes.surplus(), Some((key(1), task(2))));
        sizes.forget(&key(1), task(2));
        assert_eq!(sizes.surplus(), None);
    }

    #[test]
    fn what_is_given_up_takes_no_room() {
        let sizes = Sizes::new(20, 10);
        drop(sizes.claim(&key(0), task(1), 10).unwrap());
        assert!(sizes.known.lock().keys.is_empty());
        keep(&sizes, 0, 1, 10);
        drop(sizes.claim(&key(0), task(2), 0).unwrap());
        assert_eq!(sizes.known(), HashSet::from([task(1)]));
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let row = SizeRow { id: task(1), owner: key(0), bytes: 1 << 40 };
        let value = SizeRow::encode(&row.owner, row.bytes);
        assert_eq!(SizeRow::decode(&row.id.store_key(), &value), Some(row.clone()));
        assert_eq!(SizeRow::decode(&row.id.store_key(), &value[1..]), None);
    }

    #[test]
    fn a_file_takes_whole_blocks() {
        for (bytes, taken) in [(0, 0), (1, 4096), (4096, 4096), (4097, 8192)] {
            assert_eq!(on_disk(bytes), taken);
        }
    }

    proptest! {
        #[test]
        fn there_is_never_more_than_may_be(
            steps in proptest::collection::vec((0..3_usize, 0..12_u8, 0..9_u64, 0..4_u8), 0..80),
        ) {
            let sizes = Sizes::new(20, 10);
            for (owner, at, bytes, act) in steps {
                // Each task is one key's.
                let (owner, task) = (key(owner), TaskId::from_number(u128::from(at) * 3 + owner as u128 + 1));
                match act {
                    0 => sizes.end(&owner, task),
                    1 => sizes.forget(&owner, task),
                    2 => drop(sizes.claim(&owner, task, bytes)),
                    _ => while let Err(Full { oldest: Some((owner, task)), .. }) =
                        sizes.claim(&owner, task, bytes).map(Claim::keep)
                    {
                        sizes.forget(&owner, task);
                    },
                }
                let known = sizes.known.lock();
                for key in known.keys.values() {
                    prop_assert_eq!(key.open_bytes, key.open.values().sum::<u64>());
                    prop_assert_eq!(key.ended_bytes, key.ended.values().sum::<u64>());
                    prop_assert!(key.bytes() <= 10 && key.bytes() > 0);
                }
                prop_assert!(known.keys.values().map(KeySizes::bytes).sum::<u64>() <= 20);
            }
        }

        #[test]
        fn the_sums_are_those_of_the_added_up_map(
            steps in proptest::collection::vec((0..3_usize, 0..12_u8, 0..9_u64, 0..8_u8), 0..80),
        ) {
            let sizes = Sizes::new(60, 30);
            for (owner, at, bytes, act) in steps {
                // Each task is one key's.
                let (owner, id) = (key(owner), TaskId::from_number(u128::from(at) * 3 + owner as u128 + 1));
                let row = SizeRow { id, owner: owner.clone(), bytes };
                match act {
                    0 => sizes.end(&owner, id),
                    1 => sizes.forget(&owner, id),
                    2 => drop(sizes.claim(&owner, id, bytes)),
                    3 => drop(sizes.claim(&owner, id, bytes).map(Claim::keep)),
                    4 => sizes.add(&owner, id, bytes),
                    5 => sizes.measured(row, at % 2 == 0),
                    _ => sizes.load(vec![row], &HashSet::from_iter((act == 6).then_some(id))),
                }
                let known = sizes.known.lock();
                let sum = |of: fn(&KeySizes) -> u64| known.keys.values().map(of).sum::<u64>();
                prop_assert_eq!(known.open_bytes, sum(|key| key.open.values().sum()));
                prop_assert_eq!(known.ended_bytes, sum(|key| key.ended.values().sum()));
                prop_assert!(known.keys.values().all(|key| !key.open.is_empty() || !key.ended.is_empty()));
            }
        }
    }
}
