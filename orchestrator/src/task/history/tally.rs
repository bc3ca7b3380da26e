//! Counts of cells, by block of positions and by block of blocks: what lets a page be found without walking to it.

use std::collections::VecDeque;
use std::ops::Range;

use super::cells::{CELLS, Cell, CellSet};
use super::columns::BLOCK;

/// Blocks in one group.
const GROUP: usize = 64;
/// Positions in one group.
const GROUP_ROWS: usize = BLOCK * GROUP;

/// Which way a list is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Up,
    Down,
}

/// What is still to be passed over, and to be taken.
#[derive(Debug)]
pub(super) struct Window<T> {
    pub(super) skip: u64,
    pub(super) take: usize,
    pub(super) found: Vec<T>,
}

impl<T> Window<T> {
    pub(super) fn new(skip: u64, take: usize) -> Self {
        Self { skip, take, found: Vec::with_capacity(take) }
    }

    /// Offers one item.
    pub(super) fn offer(&mut self, item: T) {
        if self.skip > 0 {
            self.skip -= 1;
        } else if self.found.len() < self.take {
            self.found.push(item);
        }
    }

    /// Passes over `count` items, if all of them come before what is wanted.
    pub(super) const fn pass(&mut self, count: u64) -> bool {
        let passes = count <= self.skip;
        if passes {
            self.skip -= count;
        }
        passes
    }

    pub(super) fn full(&self) -> bool {
        self.found.len() >= self.take
    }
}

/// Counts over positions 0, 1, 2 …, of which the first may be forgotten.
#[derive(Debug, Default)]
pub(super) struct Tally {
    blocks: VecDeque<[u16; CELLS]>,
    first_block: usize,
    groups: VecDeque<[u32; CELLS]>,
    first_group: usize,
}

impl Tally {
    /// Counts the position after the last one, `position`.
    pub(super) fn push(&mut self, position: usize, cell: Cell) {
        while self.first_block + self.blocks.len() <= position / BLOCK {
            self.blocks.push_back([0; CELLS]);
        }
        while self.first_group + self.groups.len() <= position / GROUP_ROWS {
            self.groups.push_back([0; CELLS]);
        }
        self.count(position, cell, true);
    }

    /// The cell of a position is another now.
    pub(super) fn change(&mut self, position: usize, from: Cell, to: Cell) {
        self.count(position, from, false);
        self.count(position, to, true);
    }

    fn count(&mut self, position: usize, cell: Cell, more: bool) {
        let Some(index) = cell.index() else { return };
        let block = &mut self.blocks[position / BLOCK - self.first_block][index];
        let group = &mut self.groups[position / GROUP_ROWS - self.first_group][index];
        if more {
            *block += 1;
            *group += 1;
        } else {
            *block -= 1;
            *group -= 1;
        }
    }

    /// Lets go of the counts of blocks that lie wholly before `position`. Those positions were taken out one by one.
    pub(super) fn drop_before(&mut self, position: usize) {
        while self.first_block < position / BLOCK && self.blocks.pop_front().is_some() {
            self.first_block += 1;
        }
        while self.first_group < position / GROUP_ROWS && self.groups.pop_front().is_some() {
            self.first_group += 1;
        }
    }

    /// How many positions of a range are in the set.
    pub(super) fn sum(&self, range: Range<usize>, set: CellSet, cell: impl Fn(usize) -> Cell) -> u64 {
        let mut window = Window::<usize>::new(u64::MAX, 0);
        self.collect(range, set, Way::Up, cell, &mut window);
        u64::MAX - window.skip
    }

    /// Offers the positions of a range that are in the set, in order, until the window is full.
    pub(super) fn collect(
        &self,
        range: Range<usize>,
        set: CellSet,
        way: Way,
        cell: impl Fn(usize) -> Cell,
        window: &mut Window<usize>,
    ) {
        let Range { mut start, mut end } = range;
        // A window that takes nothing only counts.
        let counting = window.take == 0;
        while start < end && (counting || !window.full()) {
            let left = end - start;
            let edge = match way {
                Way::Up => start,
                Way::Down => end,
            };
            let whole = |size: usize| edge.is_multiple_of(size) && left >= size;
            let at = |size: usize| if way == Way::Up { edge / size } else { edge / size - 1 };
            let step = if whole(GROUP_ROWS) && window.pass(set.sum(&self.groups[at(GROUP_ROWS) - self.first_group])) {
                GROUP_ROWS
            } else if whole(BLOCK) && window.pass(set.sum(&self.blocks[at(BLOCK) - self.first_block])) {
                BLOCK
            } else {
                let run = self.run(edge, left, way);
                for offset in 0..run {
                    let position = if way == Way::Up { edge + offset } else { edge - 1 - offset };
                    if set.has(cell(position)) {
                        window.offer(position);
                    }
                }
                run
            };
            match way {
                Way::Up => start += step,
                Way::Down => end -= step,
            }
        }
    }

    /// How many positions lie between `edge` and the next border of a block.
    fn run(&self, edge: usize, left: usize, way: Way) -> usize {
        let to_border = match way {
            Way::Up => BLOCK - edge % BLOCK,
            Way::Down => (edge - 1) % BLOCK + 1,
        };
        to_border.min(left)
    }
}
