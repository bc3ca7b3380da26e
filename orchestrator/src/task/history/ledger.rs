//! One key's tasks, and the tasks of each of its end users.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use super::cells::{Cell, CellSet};
use super::columns::Columns;
use super::lengths::{Lengths, MAX_ROW, Timed, Wanted};
use super::tally::{Tally, Way, Window};
use super::{EndUser, Entry, Row};
use crate::sort::SortOrder;
use crate::task::id::TaskId;
use crate::task::query::{SortKey, TaskQuery};
use crate::task::record::{Kind, Status};

/// An end user with more tasks than this gets counts of their own; fewer are looked through.
const FEW: usize = 512;

/// The tasks of one key.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    columns: Columns,
    all: Counted,
    users: HashMap<EndUser, Postings>,
    /// How many rows there are that have not been taken out.
    count: usize,
}

/// Counts over a list of rows.
#[derive(Debug, Default)]
struct Counted {
    tally: Tally,
    lengths: Lengths,
}

/// The rows of one end user.
#[derive(Debug, Default)]
struct Postings {
    /// Ascending.
    rows: VecDeque<Row>,
    /// How many rows were dropped from the front.
    dropped: usize,
    counted: Option<Box<Counted>>,
}

impl Postings {
    /// The places, among all rows that ever were here, of those in a range.
    fn places(&self, rows: &Range<Row>) -> Range<usize> {
        let place = |row: Row| self.dropped + self.rows.partition_point(|other| *other < row);
        place(rows.start)..place(rows.end)
    }

    fn row(&self, place: usize) -> Row {
        self.rows[place - self.dropped]
    }

    fn place_of(&self, row: Row) -> Option<usize> {
        self.rows.binary_search(&row).ok().map(|at| at + self.dropped)
    }

    fn push(&mut self, row: Row, columns: &Columns) {
        self.rows.push_back(row);
        if let Some(counted) = &mut self.counted {
            let cell = columns.cell(row);
            counted.tally.push(self.dropped + self.rows.len() - 1, cell);
            if let Some(timed) = timed(columns, row) {
                counted.lengths.insert(timed);
            }
        } else if self.rows.len() > FEW {
            self.count(columns);
        }
    }

    /// Makes the counts anew.
    fn count(&mut self, columns: &Columns) {
        let mut tally = Tally::default();
        self.dropped = 0;
        for (place, row) in self.rows.iter().enumerate() {
            tally.push(place, columns.cell(*row));
        }
        let lengths = Lengths::of(self.rows.iter().filter_map(|row| timed(columns, *row)).collect());
        self.counted = Some(Box::new(Counted { tally, lengths }));
    }

    fn drop_before(&mut self, row: Row, columns: &Columns) {
        while let Some(front) = self.rows.front().copied().filter(|front| *front < row) {
            if let Some(counted) = &mut self.counted {
                counted.tally.change(self.dropped, columns.cell(front), Cell::GONE);
            }
            self.rows.pop_front();
            self.dropped += 1;
        }
        if let Some(counted) = &mut self.counted {
            counted.tally.drop_before(self.dropped);
            counted.lengths.drop_before(row);
        }
    }
}

/// A row as the tree of durations has it; none for one that was taken out.
fn timed(columns: &Columns, row: Row) -> Option<Timed> {
    columns.cell(row).kind().map(|kind| Timed::new(columns.length(row), row, kind))
}

impl Ledger {
    pub(super) fn add(&mut self, entry: &Entry) {
        if self.columns.end() >= MAX_ROW {
            // A billion tasks in one process: the index has no more numbers, and the store still has the record.
            return;
        }
        let row = self.columns.push(entry.id.number(), entry.length, Cell::new(entry.kind, entry.status));
        self.all.tally.push(row as usize, self.columns.cell(row));
        self.all.lengths.insert(Timed::new(entry.length, row, entry.kind));
        if let Some(user) = entry.user {
            self.users.entry(user).or_default().push(row, &self.columns);
        }
        self.count += 1;
    }

    pub(super) fn load(&mut self, entries: &[Entry]) {
        debug_assert!(self.columns.end() == 0, "only a new ledger is loaded");
        let mut lengths = Vec::with_capacity(entries.len());
        for entry in entries.iter().take(MAX_ROW as usize) {
            let row = self.columns.push(entry.id.number(), entry.length, Cell::new(entry.kind, entry.status));
            self.all.tally.push(row as usize, self.columns.cell(row));
            lengths.push(Timed::new(entry.length, row, entry.kind));
            if let Some(user) = entry.user {
                self.users.entry(user).or_default().rows.push_back(row);
            }
            self.count += 1;
        }
        self.all.lengths = Lengths::of(lengths);
        for postings in self.users.values_mut() {
            postings.rows.shrink_to_fit();
            if postings.rows.len() > FEW {
                postings.count(&self.columns);
            }
        }
    }

    pub(super) fn change(&mut self, entry: &Entry) {
        self.set(entry, Cell::new(entry.kind, entry.status), entry.length);
    }

    /// Whether it was there.
    pub(super) fn withdraw(&mut self, entry: &Entry) -> bool {
        let there = self.set(entry, Cell::GONE, 0);
        self.count -= usize::from(there);
        there
    }

    /// Whether the row was there.
    fn set(&mut self, entry: &Entry, cell: Cell, length: u32) -> bool {
        let Some(row) = self.columns.row_of(entry.id.number()) else { return false };
        let old = self.columns.cell(row);
        if old == Cell::GONE {
            return false;
        }
        let before = timed(&self.columns, row);
        self.columns.set(row, length, cell);
        let after = timed(&self.columns, row);
        let write = |counted: &mut Counted, place: usize| {
            counted.tally.change(place, old, cell);
            if before != after {
                before.into_iter().for_each(|timed| counted.lengths.remove(timed));
                after.into_iter().for_each(|timed| counted.lengths.insert(timed));
            }
        };
        write(&mut self.all, row as usize);
        if let Some(postings) = entry.user.and_then(|user| self.users.get_mut(&user))
            && let Some(place) = postings.place_of(row)
            && let Some(counted) = &mut postings.counted
        {
            write(counted, place);
        }
        true
    }

    /// How many rows were forgotten.
    pub(super) fn forget_through(&mut self, id: TaskId) -> usize {
        let Some(past) = id.number().checked_add(1) else { return 0 };
        let end = self.columns.row_from(past);
        let before = self.count;
        for row in self.columns.first()..end {
            let cell = self.columns.cell(row);
            self.all.tally.change(row as usize, cell, Cell::GONE);
            self.count -= usize::from(cell != Cell::GONE);
        }
        self.all.tally.drop_before(end as usize);
        self.all.lengths.drop_before(end);
        for postings in self.users.values_mut() {
            postings.drop_before(end, &self.columns);
        }
        self.users.retain(|_, postings| !postings.rows.is_empty());
        self.columns.drop_before(end);
        before - self.count
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn page(&self, query: &TaskQuery) -> (Vec<TaskId>, u64) {
        let mut rows = self.time_range(query);
        if let Some(text) = &query.task_id {
            let row = text.parse::<TaskId>().ok().and_then(|id| self.columns.row_of(id.number()));
            rows = match row {
                Some(row) if rows.contains(&row) => row..row + 1,
                _ => 0..0,
            };
        }
        let search = Search { ledger: self, rows, set: CellSet::of_kinds(&query.kinds), query };
        let (found, total) = match &query.service_passcode {
            None => search.in_all(&self.all),
            Some(passcode) => match self.users.get(&EndUser::of(passcode)) {
                Some(postings) => search.in_postings(postings),
                None => (Vec::new(), 0),
            },
        };
        (found.into_iter().map(|row| TaskId::from_number(self.columns.id(row))).collect(), total)
    }

    /// Both ends are outside of the range: "after" and "before".
    fn time_range(&self, query: &TaskQuery) -> Range<Row> {
        let row_at = |ms: u64| TaskId::first_at(ms).map_or(self.columns.end(), |id| self.columns.row_from(id));
        let start = query.start_time.map_or(self.columns.first(), |after| row_at(after.saturating_add(1)));
        let end = query.end_time.map_or(self.columns.end(), row_at);
        start..end.max(start)
    }
}

/// One query over a range of rows.
struct Search<'a> {
    ledger: &'a Ledger,
    rows: Range<Row>,
    set: CellSet,
    query: &'a TaskQuery,
}

impl Search<'_> {
    fn way(&self) -> Way {
        match self.query.sort_order {
            SortOrder::Ascend => Way::Up,
            SortOrder::Descend => Way::Down,
        }
    }

    fn in_all(&self, counted: &Counted) -> (Vec<Row>, u64) {
        let places = self.rows.start as usize..self.rows.end as usize;
        // Rows fit into u32, and these places are rows.
        self.page(counted, places, &|place| place as Row)
    }

    fn in_postings(&self, postings: &Postings) -> (Vec<Row>, u64) {
        let places = postings.places(&self.rows);
        match &postings.counted {
            Some(counted) => self.page(counted, places, &|place| postings.row(place)),
            None => self.look_through(places.map(|place| postings.row(place))),
        }
    }

    fn page(&self, counted: &Counted, places: Range<usize>, row: &dyn Fn(usize) -> Row) -> (Vec<Row>, u64) {
        let cell = |place| self.ledger.columns.cell(row(place));
        let total = counted.tally.sum(places.clone(), self.set, cell);
        let way = self.way();
        let mut window = Window::new(self.query.skip(), self.query.take(total));
        if window.take == 0 {
            return (Vec::new(), total);
        }
        if self.query.sort_by == SortKey::ExecutionTime {
            let mut window = Window::new(window.skip, window.take);
            let kinds = Kind::ALL.map(|kind| self.set.has(Cell::new(kind, Status::Success)));
            let wanted = Wanted { rows: self.rows.clone(), kinds };
            counted.lengths.collect(&wanted, way, &mut window);
            return (window.found, total);
        }
        for set in self.groups() {
            counted.tally.collect(places.clone(), set, way, cell, &mut window);
        }
        (window.found.into_iter().map(row).collect(), total)
    }

    /// The sets whose rows follow one another in the order that is asked for, each in order of time.
    fn groups(&self) -> Vec<CellSet> {
        let mut groups: Vec<CellSet> = match self.query.sort_by {
            SortKey::Timestamp | SortKey::TaskId | SortKey::ExecutionTime => vec![self.set],
            SortKey::Status => Status::ALL.iter().map(|status| self.set.with_status(*status)).collect(),
            SortKey::ExecutionType => Kind::ALL.iter().map(|kind| self.set.with_kind(*kind)).collect(),
        };
        if self.way() == Way::Down {
            groups.reverse();
        }
        groups
    }

    /// For so few rows that counting them beforehand would be a waste.
    fn look_through(&self, rows: impl Iterator<Item = Row>) -> (Vec<Row>, u64) {
        let columns = &self.ledger.columns;
        let mut found: Vec<(u64, Row)> = rows
            .filter(|row| self.set.has(columns.cell(*row)))
            .map(|row| {
                let rank = match self.query.sort_by {
                    SortKey::Timestamp | SortKey::TaskId => 0,
                    SortKey::ExecutionTime => u64::from(columns.length(row)),
                    SortKey::Status => columns.cell(row).status().map_or(0, |status| status as u64),
                    SortKey::ExecutionType => columns.cell(row).kind().map_or(0, |kind| kind as u64),
                };
                (rank, row)
            })
            .collect();
        found.sort_unstable();
        if self.way() == Way::Down {
            found.reverse();
        }
        let total = found.len() as u64;
        let skip = usize::try_from(self.query.skip()).unwrap_or(usize::MAX);
        let page = found.into_iter().skip(skip).take(self.query.take(total)).map(|(_, row)| row);
        (page.collect(), total)
    }
}
