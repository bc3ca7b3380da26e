//! Which lines of the journal are needed no more.
//!
//! - A line of which every change was made over by a later one. Numbers only grow, so from whatever moment the rest is replayed,
//!   it leads to the same state. A change of a row that no dump has, since the row was made after the last one, makes over none
//!   from before: those are about earlier rows of the same key, which older dumps may have.
//! - A line whose time is over: no older state can bring back what it took away.
//! - A line that only deletes rows which no dump has. It stays until there is a backup without them, as the database may lose its
//!   end until then; or, where no backups are made, until a start has found them gone.

use std::collections::{HashMap, HashSet};

use super::change::Place;

/// A line of the journal.
#[derive(Clone, Debug, Default)]
pub(super) struct LineFacts {
    /// Where it begins.
    pub(super) at: u64,
    /// How long it is.
    pub(super) bytes: u64,
    /// The number of its commit.
    pub(super) commits: u64,
    /// Whether it only deletes.
    pub(super) deletes: bool,
    /// Whether no older state can bring back what it takes away, because of the time that has passed or of the tables that it is about.
    pub(super) is_over: bool,
    /// The rows that it changes. Where no dump had one, with how many commits there were before the row.
    pub(super) places: Vec<(Place, Option<u64>)>,
}

/// Where the lines begin that are needed no more, and how long they are. The last line stays: it has the highest number. The
/// newest backup, or the database at the last start, has so many commits.
pub(super) fn unneeded(lines: &[LineFacts], backed_up: u64) -> HashMap<u64, u64> {
    // A replay from some moment would begin elsewhere than numbers that go back suggest.
    if !lines.is_sorted_by_key(|line| line.commits) {
        return HashMap::new();
    }
    let mut last: HashMap<Place, Vec<usize>> = HashMap::new();
    for (index, line) in lines.iter().enumerate() {
        for (place, since) in &line.places {
            let before = last.entry(*place).or_default();
            before.retain(|other| since.is_some_and(|since| lines[*other].commits <= since));
            before.push(index);
        }
    }
    let mut needed: HashSet<usize> = last.into_values().flatten().chain(lines.len().checked_sub(1)).collect();
    let mut touching: HashMap<Place, Vec<usize>> = HashMap::new();
    for (index, line) in lines.iter().enumerate().filter(|(index, _)| needed.contains(index)).collect::<Vec<_>>() {
        let is_in_no_dump = line.places.iter().all(|(_, since)| since.is_some());
        let is_spent = line.is_over || line.deletes && is_in_no_dump && line.commits <= backed_up;
        // One that stays for other rows must not make again what this one deletes.
        let is_made_before = |(place, since): &(Place, Option<u64>)| {
            let since = since.filter(|_| !line.is_over).unwrap_or(0);
            touching.get(place).is_some_and(|others| others.iter().any(|other| lines[*other].commits > since))
        };
        if is_spent && index + 1 < lines.len() && !line.places.iter().any(is_made_before) {
            needed.remove(&index);
        } else {
            for (place, _) in &line.places {
                touching.entry(*place).or_default().push(index);
            }
        }
    }
    let rest = lines.iter().enumerate().filter(|(index, _)| !needed.contains(index));
    rest.map(|(_, line)| (line.at, line.bytes)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::Table;
    use super::super::batch::Op;
    use super::super::change::place;
    use super::super::newborn::Newborn;
    use super::*;

    /// What happens to a store.
    #[derive(Clone, Debug)]
    enum Event {
        /// A row is made or changed, and an older state may undo that.
        Put(u8),
        /// Rows are changed for good; those that are told to are deleted.
        ForGood(Vec<(u8, bool)>),
        BeginDump,
        EndDump,
        Compact,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            4 => (0..4u8).prop_map(Event::Put),
            5 => prop::collection::vec((0..4u8, prop::bool::weighted(0.8)), 1..3).prop_map(Event::ForGood),
            1 => Just(Event::BeginDump),
            1 => Just(Event::EndDump),
            1 => Just(Event::Compact),
        ]
    }

    type Rows = BTreeMap<u8, u64>;
    type Ops = Vec<(u8, Option<u64>)>;

    /// A store as the test sees it: each value is written once.
    struct Model {
        commits: u64,
        value: u64,
        rows: Rows,
        /// The rows after each commit.
        states: Vec<(u64, Rows)>,
        dumps: Vec<(u64, Rows)>,
        lines: Vec<(LineFacts, Ops)>,
        newborn: Newborn,
        /// What must never come back.
        banned: HashSet<u64>,
        /// What must never be lost.
        kept: Rows,
    }

    impl Model {
        fn commit(&mut self, ops: Ops, for_good: bool) {
            let row = |key: u8| Op { table: Table::Profiles, key: vec![key], value: None };
            let changes: Vec<Op> =
                ops.iter().map(|(key, value)| Op { value: value.map(|_| Vec::new()), ..row(*key) }).collect();
            let mut seen = HashSet::new();
            for (key, value) in &ops {
                let before = match value {
                    Some(value) => self.rows.insert(*key, *value),
                    None => self.rows.remove(key),
                };
                if before.is_none() && value.is_some() && !seen.contains(key) {
                    self.newborn.make(&row(*key), self.commits);
                }
                seen.insert(*key);
                self.kept.remove(key);
                if for_good {
                    self.banned.extend(before);
                    self.kept.extend(value.map(|value| (*key, value)));
                }
            }
            self.commits += 1;
            self.states.push((self.commits, self.rows.clone()));
            let since = self.newborn.change(&changes);
            if for_good {
                let places = ops.iter().map(|(key, _)| place(Table::Profiles, &[*key])).zip(since).collect();
                let (commits, deletes) = (self.commits, ops.iter().all(|(_, value)| value.is_none()));
                let facts = LineFacts { at: commits, bytes: 1, commits, deletes, is_over: false, places };
                self.lines.push((facts, ops));
            }
        }

        fn next_value(&mut self) -> u64 {
            self.value += 1;
            self.value
        }

        fn happen(&mut self, event: Event) {
            match event {
                Event::Put(key) => {
                    let value = self.next_value();
                    self.commit(vec![(key, Some(value))], false);
                }
                Event::ForGood(rows) => {
                    let ops = rows.into_iter().map(|(key, delete)| (key, (!delete).then(|| self.next_value())));
                    let ops = ops.collect();
                    self.commit(ops, true);
                }
                Event::BeginDump => self.newborn.dump_begins(),
                Event::EndDump => {
                    self.newborn.dump_ends();
                    self.dumps.push((self.commits, self.rows.clone()));
                }
                Event::Compact => {
                    let facts: Vec<LineFacts> = self.lines.iter().map(|(facts, _)| facts.clone()).collect();
                    let gone = unneeded(&facts, self.backed_up());
                    self.lines.retain(|(facts, _)| !gone.contains_key(&facts.at));
                }
            }
        }

        fn backed_up(&self) -> u64 {
            self.dumps.last().map_or(0, |(commits, _)| *commits)
        }

        /// Goes back to each dump, to nothing, and to each state that no backup replaces, and makes again what is irrevocable.
        fn check(&self) -> Result<(), TestCaseError> {
            let nothing = (0, Rows::new());
            let states = self.states.iter().filter(|(commits, _)| *commits >= self.backed_up());
            for (after, rows) in self.dumps.iter().chain(states).chain([&nothing]) {
                let mut rows = rows.clone();
                for (_, ops) in self.lines.iter().filter(|(facts, _)| facts.commits > *after) {
                    for (key, value) in ops {
                        match value {
                            Some(value) => rows.insert(*key, *value),
                            None => rows.remove(key),
                        };
                    }
                }
                let back = rows.values().find(|value| self.banned.contains(value));
                prop_assert_eq!(back, None, "after {}: {:?}", after, &self.lines);
                for (key, value) in &self.kept {
                    prop_assert_eq!(rows.get(key), Some(value), "after {}: {:?}", after, &self.lines);
                }
            }
            Ok(())
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn from_whatever_state_it_is_replayed_nothing_comes_back(events in prop::collection::vec(event(), 1..40)) {
            let mut model = Model {
                commits: 0,
                value: 0,
                rows: Rows::new(),
                states: Vec::new(),
                dumps: Vec::new(),
                lines: Vec::new(),
                newborn: Newborn::default(),
                banned: HashSet::new(),
                kept: Rows::new(),
            };
            for event in events {
                model.happen(event);
            }
            model.check()?;
            model.happen(Event::Compact);
            model.check()?;
        }
    }

    #[test]
    fn rows_that_no_dump_has_leave_nothing() {
        let line = |commits, since, key| {
            let places = vec![(place(Table::Profiles, &[key]), since)];
            LineFacts { at: commits, bytes: 1, commits, deletes: true, is_over: false, places }
        };
        let lines =
            [line(3, None, 0), line(5, Some(4), 1), line(6, Some(4), 0), line(9, Some(8), 2), line(11, None, 3)];
        let left = |backed_up| {
            let gone = unneeded(&lines, backed_up);
            lines.iter().map(|line| line.at).filter(|at| !gone.contains_key(at)).collect::<Vec<_>>()
        };
        assert_eq!(left(4), [3, 5, 6, 9, 11], "the database may lose its end");
        assert_eq!(left(8), [3, 9, 11], "an older dump may have the row of the first");
        assert_eq!(left(20), [3, 11]);
    }
}
