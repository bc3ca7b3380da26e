//! One list of tasks, in the order in which they were accepted, in blocks that know how many tasks of each category they
//! have and, once they are full, their order by duration.

mod labelled;

use std::collections::VecDeque;
use std::ops::Range;

use super::categories::{CATEGORIES, Category, CategorySet};
use super::sorted::{self, Sorted};
use crate::task::index_row::IndexRow;
use crate::task::query::{SortKey, TaskQuery};
use warmpool_api::task::{Status, TaskKind};
use warmpool_core::ids::TaskId;
use warmpool_core::sort::SortOrder;

use labelled::Labels;

/// Rows in one block: few enough to look at one by one, enough that there are few blocks.
const BLOCK: usize = 1024;
/// Rows in one group of blocks.
const GROUP: usize = 32 * BLOCK;
/// Rows of withdrawn tasks that a list has in any case, so that a short one is not made anew all the time.
const MAX_WITHDRAWN: usize = 64;

/// A row is a task's number in the list. Numbers are never given twice.
#[derive(Debug, Default)]
pub(super) struct TaskList {
    /// The blocks from that of `first` on.
    blocks: VecDeque<Block>,
    /// The full groups from that of `first` on, by duration.
    groups: VecDeque<Sorted>,
    /// The oldest row that was not forgotten.
    first: usize,
    /// The row after the newest.
    end: usize,
    /// Rows from `first` on whose tasks were withdrawn.
    withdrawn: usize,
}

#[derive(Debug, Default)]
struct Block {
    ids: Vec<u128>,
    durations: Vec<u32>,
    categories: Vec<Category>,
    counts: [u16; CATEGORIES],
    labels: Labels,
    /// Empty until the block is full.
    by_duration: Sorted,
}

impl Block {
    /// Enters some of its rows, of which the first is `start`, into an order by duration.
    fn sort(&self, start: usize, categories: CategorySet, sorted: &mut Sorted) {
        let from = start % BLOCK;
        let rows = self.durations[from..].iter().zip(&self.categories[from..]).enumerate();
        for (offset, (duration, category)) in rows {
            if let Some(kind) = category.kind().filter(|_| categories.has(*category)) {
                sorted.push(kind, sorted::key(*duration, start + offset));
            }
        }
    }
}

impl TaskList {
    /// Adds a task whose id is larger than all before it.
    pub(super) fn push(&mut self, task: &IndexRow) {
        if u32::try_from(self.end).is_err() {
            // The index has no more numbers before the next start. The store has the task all the same.
            return;
        }
        if self.end.is_multiple_of(BLOCK) {
            self.blocks.push_back(Block::default());
        }
        let category = Category::new(task.kind, task.status);
        if let Some(block) = self.blocks.back_mut() {
            block.ids.push(task.id.number());
            block.durations.push(task.duration);
            block.categories.push(category);
            block.labels.push(&task.labels);
            category.index().into_iter().for_each(|index| block.counts[index] += 1);
        }
        self.end += 1;
        if self.end.is_multiple_of(BLOCK)
            && let Some(block) = self.blocks.back_mut()
        {
            let mut sorted = Sorted::default();
            block.sort(self.end - BLOCK, CategorySet::of_kinds(&[]), &mut sorted);
            sorted.sort();
            block.by_duration = sorted;
        }
        if self.end.is_multiple_of(GROUP) {
            let full = self.blocks.iter().rev().take(GROUP / BLOCK).rev();
            self.groups.push_back(Sorted::merge(full.map(|block| &block.by_duration)));
        }
    }

    /// Sets a task's category and duration. Returns whether the task was there.
    pub(super) fn set(&mut self, id: TaskId, category: Category, duration: u32) -> bool {
        let Some(row) = self.row_of(id) else { return false };
        let (place, group) = (row / BLOCK - self.first / BLOCK, row / GROUP - self.first / GROUP);
        let block = &mut self.blocks[place];
        let old = std::mem::replace(&mut block.categories[row % BLOCK], category);
        let old_duration = std::mem::replace(&mut block.durations[row % BLOCK], duration);
        let Some(counted) = old.index() else {
            block.categories[row % BLOCK] = old;
            return false;
        };
        block.counts[counted] -= 1;
        category.index().into_iter().for_each(|index| block.counts[index] += 1);
        let is_full = block.ids.len() == BLOCK;
        for sorted in is_full.then_some(&mut block.by_duration).into_iter().chain(self.groups.get_mut(group)) {
            old.kind().into_iter().for_each(|kind| sorted.remove(kind, sorted::key(old_duration, row)));
            category.kind().into_iter().for_each(|kind| sorted.insert(kind, sorted::key(duration, row)));
        }
        true
    }

    /// Takes a task out, if it is there.
    pub(super) fn withdraw(&mut self, id: TaskId) {
        if !self.set(id, Category::WITHDRAWN, 0) {
            return;
        }
        self.withdrawn += 1;
        let live = (self.first..self.end).find(|row| self.category(*row) != Category::WITHDRAWN);
        self.forget_before(live.unwrap_or(self.end));
        // Tasks may go in any order, and one that stays must not keep the rows of all that came after it.
        if self.withdrawn > MAX_WITHDRAWN && self.withdrawn > self.len() {
            self.compact();
        }
    }

    /// Forgets the rows before this one, whose tasks were withdrawn.
    fn forget_before(&mut self, first: usize) {
        self.blocks.drain(..first / BLOCK - self.first / BLOCK);
        self.groups.drain(..first / GROUP - self.first / GROUP);
        self.withdrawn -= first - self.first;
        self.first = first;
    }

    /// Numbers the rows anew, without those whose tasks were withdrawn.
    fn compact(&mut self) {
        let mut compact = Self::default();
        (self.first..self.end).filter_map(|row| self.task(row)).for_each(|task| compact.push(&task));
        *self = compact;
    }

    /// What it knows of the task of a row, unless that was withdrawn.
    fn task(&self, row: usize) -> Option<IndexRow> {
        let (block, at) = (self.block(row), row % BLOCK);
        let (kind, status) = (block.categories[at].kind()?, block.categories[at].status()?);
        Some(IndexRow {
            id: TaskId::from_number(block.ids[at]),
            kind: TaskKind::ALL[kind],
            status: Status::ALL[status],
            duration: block.durations[at],
            user: None,
            labels: block.labels.of(at).to_vec(),
        })
    }

    fn category(&self, row: usize) -> Category {
        self.block(row).categories[row % BLOCK]
    }

    /// How many tasks it has.
    pub(super) const fn len(&self) -> usize {
        self.end - self.first - self.withdrawn
    }

    /// How many rows it has, with those of withdrawn tasks.
    #[cfg(test)]
    pub(super) const fn rows_kept(&self) -> usize {
        self.end - self.first
    }

    /// Whether it has no tasks.
    pub(super) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One page of the matching tasks of all end users, and how many match in all.
    pub(super) fn page(&self, query: &TaskQuery) -> (Vec<TaskId>, u64) {
        if !query.metadata.is_empty() {
            return self.labelled_page(query);
        }
        let (rows, categories) = (self.rows(query), CategorySet::of_kinds(&query.kinds));
        let total = self.count(rows.clone(), categories);
        let take = query.take(total as u64);
        if take == 0 {
            return (Vec::new(), total as u64);
        }
        let skip = usize::try_from(query.skip()).unwrap_or(usize::MAX);
        // A page of a descending order is, backwards, the page of the ascending one that is as far from the other end.
        let skip = match query.sort_order {
            SortOrder::Ascend => skip,
            SortOrder::Descend => total - skip - take,
        };
        let mut found = match query.sort_by {
            SortKey::ExecutionTime => self.by_duration(rows, categories, skip, take),
            SortKey::Timestamp | SortKey::TaskId => self.by_time(rows, &[categories], skip, take),
            SortKey::Status => self.by_time(rows, &Status::ALL.map(|it| categories.with_status(it)), skip, take),
            SortKey::ExecutionType => self.by_time(rows, &TaskKind::ALL.map(|it| categories.with_kind(it)), skip, take),
        };
        if query.sort_order == SortOrder::Descend {
            found.reverse();
        }
        (found.into_iter().map(|row| TaskId::from_number(self.id(row))).collect(), total as u64)
    }

    /// The rows of one category set after the other, each set in the order of time.
    fn by_time(&self, rows: Range<usize>, sets: &[CategorySet], mut skip: usize, take: usize) -> Vec<usize> {
        let mut found = Vec::with_capacity(take);
        for (set, part) in sets.iter().flat_map(|set| parts(rows.clone()).map(move |part| (set, part))) {
            let block = self.block(part.start);
            if part.len() == BLOCK {
                let count = set.sum(&block.counts);
                if count <= skip {
                    skip -= count;
                    continue;
                }
            }
            for row in part.filter(|row| set.has(block.categories[row % BLOCK])) {
                if skip > 0 {
                    skip -= 1;
                } else if found.len() < take {
                    found.push(row);
                }
            }
            if found.len() == take {
                break;
            }
        }
        found
    }

    fn by_duration(&self, rows: Range<usize>, categories: CategorySet, skip: usize, take: usize) -> Vec<usize> {
        // The rows at both ends that fill no block.
        let mut rest = Sorted::default();
        let mut whole: Vec<&Sorted> = Vec::new();
        let mut at = rows.start;
        while at < rows.end {
            let left = rows.end - at;
            at += if at.is_multiple_of(GROUP) && left >= GROUP {
                whole.push(&self.groups[at / GROUP - self.first / GROUP]);
                GROUP
            } else if at.is_multiple_of(BLOCK) && left >= BLOCK {
                whole.push(&self.block(at).by_duration);
                BLOCK
            } else {
                let step = left.min(BLOCK - at % BLOCK);
                self.block(at).sort(at, categories, &mut rest);
                step
            };
        }
        rest.retain(|row| row < rows.end);
        rest.sort();
        whole.push(&rest);
        let kinds = TaskKind::ALL.into_iter().filter(|kind| categories.has_kind(*kind));
        let lists = kinds.flat_map(|kind| whole.iter().map(move |sorted| sorted.keys(kind as usize))).collect();
        sorted::page(lists, skip, take)
    }

    fn count(&self, rows: Range<usize>, set: CategorySet) -> usize {
        let one = |part: Range<usize>| {
            let block = self.block(part.start);
            match part.len() {
                BLOCK => set.sum(&block.counts),
                _ => part.filter(|row| set.has(block.categories[row % BLOCK])).count(),
            }
        };
        parts(rows).map(one).sum()
    }

    /// The rows of the time range, or the one with the id that is asked for. A range excludes both of its ends.
    fn rows(&self, query: &TaskQuery) -> Range<usize> {
        let row_at = |ms: u64| TaskId::first_at(ms).map_or(self.end, |id| self.row_from(id));
        let start = query.start_time.map_or(self.first, |after| row_at(after.saturating_add(1)));
        let rows = start..query.end_time.map_or(self.end, row_at).max(start);
        let Some(text) = &query.task_id else { return rows };
        let row = text.parse().ok().and_then(|id| self.row_of(id)).filter(|row| rows.contains(row));
        row.map_or(0..0, |row| row..row + 1)
    }

    /// The first row whose id is at least `id`.
    fn row_from(&self, id: u128) -> usize {
        let (mut from, mut to) = (self.first, self.end);
        while from < to {
            let middle = from + (to - from) / 2;
            if self.id(middle) < id {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    fn row_of(&self, id: TaskId) -> Option<usize> {
        let row = self.row_from(id.number());
        (row < self.end && self.id(row) == id.number()).then_some(row)
    }

    fn id(&self, row: usize) -> u128 {
        self.block(row).ids[row % BLOCK]
    }

    fn block(&self, row: usize) -> &Block {
        &self.blocks[row / BLOCK - self.first / BLOCK]
    }
}

/// A range of rows, cut at the borders of blocks.
fn parts(rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let blocks = if rows.is_empty() { 0..0 } else { rows.start / BLOCK..rows.end.div_ceil(BLOCK) };
    blocks.map(move |block| rows.start.max(block * BLOCK)..rows.end.min((block + 1) * BLOCK))
}
