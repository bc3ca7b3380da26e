//! Requests that came without an integration key that works. Anybody can send them, so they take no room on the disk: the newest are
//! kept in memory, and a restart forgets them.

use std::collections::BTreeMap;

use super::RequestRow;
use super::index::RowKey;

#[derive(Debug)]
pub(super) struct Unproven {
    rows: BTreeMap<RowKey, RequestRow>,
    /// How many are kept.
    limit: usize,
}

impl Unproven {
    pub(super) const fn new(limit: usize) -> Self {
        Self { rows: BTreeMap::new(), limit }
    }

    /// Keeps a row. Returns where the one lies that had to make room, which may be the same.
    pub(super) fn add(&mut self, key: RowKey, row: RequestRow) -> Option<RowKey> {
        self.rows.insert(key, row);
        let (oldest, _) = self.rows.first_key_value().filter(|_| self.rows.len() > self.limit)?;
        let oldest = *oldest;
        self.rows.remove(&oldest);
        Some(oldest)
    }

    pub(super) fn get(&self, key: RowKey) -> Option<&RequestRow> {
        self.rows.get(&key)
    }

    /// Forgets the rows before `key`.
    pub(super) fn forget_before(&mut self, key: RowKey) {
        self.rows = self.rows.split_off(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room_and_go_in_time() {
        let mut unproven = Unproven::new(2);
        let mut add = |at_ms| unproven.add((at_ms, 0), RequestRow { at_ms, ..RequestRow::default() });
        assert_eq!([3, 1, 2, 9].map(&mut add), [None, None, Some((1, 0)), Some((2, 0))]);
        assert_eq!(add(0), Some((0, 0)), "one that is older than all of them is not kept");
        unproven.forget_before((9, 0));
        let is_kept = |at_ms| unproven.get((at_ms, 0)).map(|row| row.at_ms);
        assert_eq!([3, 9].map(is_kept), [None, Some(9)]);
        assert_eq!(Unproven::new(0).add((5, 0), RequestRow::default()), Some((5, 0)));
    }
}
