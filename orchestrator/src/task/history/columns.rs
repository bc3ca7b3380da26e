//! The columns of a ledger: id, duration and cell of every row, oldest first.

use std::collections::VecDeque;

use super::Row;
use super::cells::Cell;

/// Rows in one block: small enough that looking through one costs nothing, large enough that blocks are few.
pub(super) const BLOCK: usize = 256;

/// Blocks, each allocated once and dropped as a whole when its last row is forgotten.
#[derive(Debug, Default)]
pub(super) struct Columns {
    blocks: VecDeque<Block>,
    /// The number of the first block.
    first_block: usize,
    /// The first row that is not forgotten.
    first: Row,
    /// The row after the last.
    end: Row,
}

#[derive(Debug, Default)]
struct Block {
    ids: Vec<u128>,
    lengths: Vec<u32>,
    cells: Vec<Cell>,
}

impl Columns {
    pub(super) fn push(&mut self, id: u128, length: u32, cell: Cell) -> Row {
        if (self.end as usize).is_multiple_of(BLOCK) {
            self.blocks.push_back(Block::default());
        }
        if let Some(block) = self.blocks.back_mut() {
            block.ids.push(id);
            block.lengths.push(length);
            block.cells.push(cell);
        }
        self.end += 1;
        self.end - 1
    }

    pub(super) const fn first(&self) -> Row {
        self.first
    }

    pub(super) const fn end(&self) -> Row {
        self.end
    }

    pub(super) fn id(&self, row: Row) -> u128 {
        let (block, at) = self.place(row);
        block.ids[at]
    }

    pub(super) fn length(&self, row: Row) -> u32 {
        let (block, at) = self.place(row);
        block.lengths[at]
    }

    pub(super) fn cell(&self, row: Row) -> Cell {
        let (block, at) = self.place(row);
        block.cells[at]
    }

    pub(super) fn set(&mut self, row: Row, length: u32, cell: Cell) {
        let (block, at) = (row as usize / BLOCK - self.first_block, row as usize % BLOCK);
        let block = &mut self.blocks[block];
        block.lengths[at] = length;
        block.cells[at] = cell;
    }

    /// The first row whose id is at least `id`.
    pub(super) fn row_from(&self, id: u128) -> Row {
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

    /// The row with this id.
    pub(super) fn row_of(&self, id: u128) -> Option<Row> {
        let row = self.row_from(id);
        (row < self.end && self.id(row) == id).then_some(row)
    }

    /// Forgets every row before `row`.
    pub(super) fn drop_before(&mut self, row: Row) {
        self.first = self.first.max(row.min(self.end));
        while self.first_block < self.first as usize / BLOCK {
            self.blocks.pop_front();
            self.first_block += 1;
        }
    }

    fn place(&self, row: Row) -> (&Block, usize) {
        (&self.blocks[row as usize / BLOCK - self.first_block], row as usize % BLOCK)
    }
}
