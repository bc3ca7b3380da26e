//! A task's type and status as one small number, and sets of them.

use warmpool_api::task::{Status, TaskKind};

/// How many pairs of type and status there are.
pub(super) const CATEGORIES: usize = TaskKind::ALL.len() * Status::ALL.len();

/// A pair of type and status; or neither, for a task that was withdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Category(u8);

impl Category {
    /// A withdrawn task, which no query finds.
    pub(super) const WITHDRAWN: Self = Self(CATEGORIES as u8);

    pub(super) const fn new(kind: TaskKind, status: Status) -> Self {
        Self(kind as u8 * Status::ALL.len() as u8 + status as u8)
    }

    /// Its place in an array of counts; `None` for a withdrawn task.
    pub(super) fn index(self) -> Option<usize> {
        (self != Self::WITHDRAWN).then_some(self.0 as usize)
    }

    pub(super) fn status(self) -> Option<usize> {
        self.index().map(|index| index % Status::ALL.len())
    }

    pub(super) fn kind(self) -> Option<usize> {
        self.index().map(|index| index / Status::ALL.len())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CategorySet(u16);

impl CategorySet {
    /// All statuses of these types; of every type when none is named.
    pub(super) fn of_kinds(kinds: &[TaskKind]) -> Self {
        let kinds = if kinds.is_empty() { &TaskKind::ALL[..] } else { kinds };
        let bits = kinds.iter().flat_map(|kind| Status::ALL.iter().map(|status| Category::new(*kind, *status)));
        Self(bits.fold(0, |bits, category| bits | 1 << category.0))
    }

    pub(super) fn with_status(self, status: Status) -> Self {
        let bits = TaskKind::ALL.iter().map(|kind| Category::new(*kind, status));
        Self(self.0 & bits.fold(0, |bits, category| bits | 1 << category.0))
    }

    pub(super) fn with_kind(self, kind: TaskKind) -> Self {
        Self(self.0 & Self::of_kinds(&[kind]).0)
    }

    /// Whether it has tasks of this type, whatever their status.
    pub(super) fn has_kind(self, kind: TaskKind) -> bool {
        self.with_kind(kind).0 != 0
    }

    pub(super) const fn has(self, category: Category) -> bool {
        self.0 >> category.0 & 1 == 1
    }

    /// How many tasks of the set there are, given the counts of all categories.
    pub(super) fn sum(self, counts: &[u16; CATEGORIES]) -> usize {
        counts.iter().enumerate().map(|(index, count)| usize::from(*count) * usize::from(self.0 >> index & 1)).sum()
    }
}
