//! Cells: a task's type and status as one small number, and sets of them.

use super::super::record::{Kind, Status};

/// How many pairs of type and status there are.
pub(super) const CELLS: usize = Kind::ALL.len() * Status::ALL.len();

/// A pair of type and status, or nothing at all for a row that was taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell(u8);

impl Cell {
    /// A row that no query finds.
    pub(super) const GONE: Self = Self(CELLS as u8);

    pub(super) const fn new(kind: Kind, status: Status) -> Self {
        Self(kind as u8 * Status::ALL.len() as u8 + status as u8)
    }

    /// Where it is counted; none for a row that was taken out.
    pub(super) fn index(self) -> Option<usize> {
        (self != Self::GONE).then_some(self.0 as usize)
    }

    pub(super) fn kind(self) -> Option<Kind> {
        self.index().and_then(|index| Kind::ALL.get(index / Status::ALL.len()).copied())
    }

    pub(super) fn status(self) -> Option<Status> {
        self.index().and_then(|index| Status::ALL.get(index % Status::ALL.len()).copied())
    }
}

/// Some of the cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CellSet(u16);

impl CellSet {
    /// All statuses of these types; of every type when none is named.
    pub(super) fn of_kinds(kinds: &[Kind]) -> Self {
        let kinds = if kinds.is_empty() { &Kind::ALL[..] } else { kinds };
        let bits = kinds.iter().flat_map(|kind| Status::ALL.iter().map(|status| Cell::new(*kind, *status)));
        Self(bits.fold(0, |bits, cell| bits | 1 << cell.0))
    }

    /// Those of its cells that have this status.
    pub(super) fn with_status(self, status: Status) -> Self {
        let bits = Kind::ALL.iter().map(|kind| Cell::new(*kind, status));
        Self(self.0 & bits.fold(0, |bits, cell| bits | 1 << cell.0))
    }

    /// Those of its cells that have this type.
    pub(super) fn with_kind(self, kind: Kind) -> Self {
        Self(self.0 & Self::of_kinds(&[kind]).0)
    }

    pub(super) const fn has(self, cell: Cell) -> bool {
        self.0 >> cell.0 & 1 == 1
    }

    /// How many rows of the set there are, by the counts of all cells.
    pub(super) fn sum<N: Copy + Into<u64>>(self, counts: &[N; CELLS]) -> u64 {
        counts.iter().enumerate().filter(|(index, _)| self.0 >> index & 1 == 1).map(|(_, count)| (*count).into()).sum()
    }
}
