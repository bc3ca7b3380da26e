//! Queries by labels. A client may give each task labels that no other has, so there is no list for each: each row has small
//! hashes of its labels, and a query looks at the rows of its time range one by one.

use super::{BLOCK, TaskList, parts};
use crate::task::history::categories::CategorySet;
use crate::task::index_row::LabelHash;
use crate::task::query::{SortKey, TaskQuery};
use warmpool_core::ids::TaskId;
use warmpool_core::sort::SortOrder;

/// The labels of the rows of a block.
#[derive(Debug, Default)]
pub(super) struct Labels {
    hashes: Vec<LabelHash>,
    /// For each row, where its labels end; they begin where those of the row before it end.
    ends: Vec<u16>,
}

impl Labels {
    pub(super) fn push(&mut self, labels: &[LabelHash]) {
        self.hashes.extend_from_slice(labels);
        self.ends.push(u16::try_from(self.hashes.len()).unwrap_or(u16::MAX));
    }

    /// The labels of a row.
    pub(super) fn of(&self, row: usize) -> &[LabelHash] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.hashes[usize::from(start)..usize::from(self.ends[row])]
    }

    /// Whether a row has all of these.
    fn have(&self, row: usize, wanted: &[LabelHash]) -> bool {
        wanted.iter().all(|label| self.of(row).contains(label))
    }
}

impl TaskList {
    /// One page of the matching tasks that have the query's labels, and how many match in all.
    pub(super) fn labelled_page(&self, query: &TaskQuery) -> (Vec<TaskId>, u64) {
        let wanted: Vec<_> = query.metadata.iter().map(|label| LabelHash::new(label.key(), label.value())).collect();
        let categories = CategorySet::of_kinds(&query.kinds);
        let mut found: Vec<usize> = Vec::new();
        for part in parts(self.rows(query)) {
            let block = self.block(part.start);
            let matches = |row: &usize| {
                let at = row % BLOCK;
                categories.has(block.categories[at]) && block.labels.have(at, &wanted)
            };
            found.extend(part.filter(matches));
        }
        let category = |row: &usize| self.block(*row).categories[row % BLOCK];
        // The sorts are stable, so what compares equal stays in the order of time.
        match query.sort_by {
            SortKey::Timestamp | SortKey::TaskId => {}
            SortKey::ExecutionTime => found.sort_by_key(|row| self.block(*row).durations[row % BLOCK]),
            SortKey::Status => found.sort_by_key(|row| category(row).status()),
            SortKey::ExecutionType => found.sort_by_key(|row| category(row).kind()),
        }
        if query.sort_order == SortOrder::Descend {
            found.reverse();
        }
        let total = found.len() as u64;
        let skip = usize::try_from(query.skip()).unwrap_or(usize::MAX);
        let page = found.into_iter().skip(skip).take(query.take(total));
        (page.map(|row| TaskId::from_number(self.id(row))).collect(), total)
    }
}
