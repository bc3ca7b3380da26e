//! Rows in order of duration, and of time within it, for each type of task. Pages of several such lists together.

use warmpool_api::task::TaskKind;

/// Keys of rows, ascending, by type.
#[derive(Debug, Default)]
pub(super) struct Sorted([Vec<u64>; TaskKind::ALL.len()]);

/// A duration and a row as one number that sorts by both. It holds four billion rows of one process.
pub(super) const fn key(duration: u32, row: usize) -> u64 {
    (duration as u64) << 32 | (row as u64 & 0xffff_ffff)
}

const fn row(key: u64) -> usize {
    (key & 0xffff_ffff) as usize
}

impl Sorted {
    /// Adds a key at the end; [`Sorted::sort`] brings all into order.
    pub(super) fn push(&mut self, kind: usize, key: u64) {
        self.0[kind].push(key);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        self.0.iter_mut().for_each(|keys| keys.retain(|key| keep(row(*key))));
    }

    pub(super) fn sort(&mut self) {
        for keys in &mut self.0 {
            keys.sort();
            keys.shrink_to_fit();
        }
    }

    pub(super) fn merge<'a>(parts: impl Iterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        for part in parts {
            all.0.iter_mut().zip(&part.0).for_each(|(all, keys)| all.extend(keys));
        }
        all.sort();
        all
    }

    pub(super) fn insert(&mut self, kind: usize, key: u64) {
        let keys = &mut self.0[kind];
        keys.insert(keys.partition_point(|other| *other < key), key);
    }

    pub(super) fn remove(&mut self, kind: usize, key: u64) {
        if let Ok(at) = self.0[kind].binary_search(&key) {
            self.0[kind].remove(at);
        }
    }

    pub(super) fn keys(&self, kind: usize) -> &[u64] {
        &self.0[kind]
    }
}

/// The rows of all lists together in their order, without the first `skip`, and `take` at most.
pub(super) fn page(mut lists: Vec<&[u64]>, skip: usize, take: usize) -> Vec<usize> {
    let first = split(&lists, skip);
    lists.iter_mut().zip(&first).for_each(|(keys, first)| *keys = &keys[*first..]);
    let last = split(&lists, take);
    let mut found: Vec<u64> = lists.iter().zip(last).flat_map(|(keys, last)| &keys[..last]).copied().collect();
    found.sort_unstable();
    found.into_iter().map(row).collect()
}

/// How many keys of each list are among the `rank` smallest of all. No two keys are equal.
fn split(lists: &[&[u64]], rank: usize) -> Vec<usize> {
    let (mut low, mut high) = (vec![0; lists.len()], lists.iter().map(|keys| keys.len()).collect::<Vec<_>>());
    if rank >= high.iter().sum() {
        return high;
    }
    // Halves the range of keys that the border may have until as many as wanted lie below it.
    let (mut from, mut to) = (0, lists.iter().filter_map(|keys| keys.last()).max().map_or(0, |last| last + 1));
    loop {
        let middle = from + (to - from) / 2;
        let bounds = lists.iter().zip(low.iter().zip(&high));
        let below = |(keys, (low, high)): (&&[u64], (&usize, &usize))| {
            low + keys[*low..*high].partition_point(|key| *key < middle)
        };
        let cut: Vec<usize> = bounds.map(below).collect();
        match cut.iter().sum::<usize>().cmp(&rank) {
            std::cmp::Ordering::Equal => return cut,
            std::cmp::Ordering::Less => (low, from) = (cut, middle),
            std::cmp::Ordering::Greater => (high, to) = (cut, middle),
        }
    }
}
