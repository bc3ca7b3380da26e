//! The index of the log: which rows match a query, and how many.
//!
//! It is in memory, and built at the start. Rows lie in blocks in the order of time. Each block counts its rows by key,
//! environment and status, so a query adds up counts and looks only at the rows of the blocks in which its times or its
//! page begin or end. The rows of each patient are a list of their own.

use std::collections::{HashMap, HashSet};

use super::{RequestQuery, RequestRow};
use crate::PatientRef;
use warmpool_api::world::Environment;
use warmpool_keys::{IntegrationKeyId, KeyId};

/// Rows of a full block; one with twice as many is divided.
const BLOCK: usize = 1024;

/// Where a row lies in the store: its time, and a number that tells rows of one millisecond apart.
pub(super) type RowKey = (u64, u32);

/// What a block counts its rows by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Category {
    owner: Option<KeyId>,
    key: Option<IntegrationKeyId>,
    environment: Option<Environment>,
    /// The first digit of the status.
    class: u16,
    /// Whether the store has it.
    stored: bool,
}

impl Category {
    fn is_wanted(&self, query: &RequestQuery) -> bool {
        // A row of an unknown integration key belongs to nobody, and every service key may see it.
        query.owner.as_ref().is_none_or(|owner| self.owner.as_ref().is_none_or(|of| of == owner))
            && query.key.as_ref().is_none_or(|key| self.key.as_ref() == Some(key))
            && query.environment.is_none_or(|environment| self.environment == Some(environment))
            && query.class.is_none_or(|class| self.class == class)
    }
}

/// The place of a category in the index's list.
type CategoryId = u32;

#[derive(Debug, Default)]
struct Block {
    rows: Vec<(RowKey, CategoryId)>,
    counts: HashMap<CategoryId, usize>,
}

impl Block {
    fn of(rows: Vec<(RowKey, CategoryId)>) -> Self {
        let mut counts = HashMap::new();
        for (_, category) in &rows {
            *counts.entry(*category).or_default() += 1;
        }
        Self { rows, counts }
    }

    fn last(&self) -> Option<RowKey> {
        self.rows.last().map(|(key, _)| *key)
    }
}

#[derive(Debug, Default)]
pub(super) struct Index {
    blocks: Vec<Block>,
    categories: Vec<Category>,
    ids: HashMap<Category, CategoryId>,
    patients: HashMap<PatientRef, Vec<(RowKey, CategoryId)>>,
}

impl Index {
    /// Adds a row, which the store has or has not. Most rows are newer than all before them.
    pub(super) fn add(&mut self, key: RowKey, row: &RequestRow, stored: bool) {
        let category = Category {
            owner: row.owner.clone(),
            key: row.key.clone(),
            environment: row.environment,
            class: row.status / 100,
            stored,
        };
        let id = match self.ids.get(&category) {
            Some(id) => *id,
            None => {
                let id = CategoryId::try_from(self.categories.len()).unwrap_or(CategoryId::MAX);
                self.categories.push(category.clone());
                self.ids.insert(category, id);
                id
            }
        };
        if let Some(patient) = &row.patient {
            insert(self.patients.entry(patient.clone()).or_default(), key, id);
        }
        if self.blocks.is_empty() {
            self.blocks.push(Block::default());
        }
        let place = self.blocks.partition_point(|block| block.last().is_some_and(|last| last < key));
        let place = place.min(self.blocks.len() - 1);
        let block = &mut self.blocks[place];
        insert(&mut block.rows, key, id);
        *block.counts.entry(id).or_default() += 1;
        if block.rows.len() >= 2 * BLOCK {
            let newer = block.rows.split_off(BLOCK);
            *block = Block::of(std::mem::take(&mut block.rows));
            self.blocks.insert(place + 1, Block::of(newer));
        }
    }

    /// Whether a row is for this patient.
    pub(super) fn names(&self, patient: &PatientRef) -> bool {
        self.patients.contains_key(patient)
    }

    /// Forgets one row of no patient.
    pub(super) fn remove(&mut self, key: RowKey) {
        let place = self.blocks.partition_point(|block| block.last().is_some_and(|last| last < key));
        let Some(block) = self.blocks.get_mut(place) else { return };
        let Ok(row) = block.rows.binary_search_by_key(&key, |(row, _)| *row) else { return };
        let (_, category) = block.rows.remove(row);
        if let Some(count) = block.counts.get_mut(&category) {
            *count -= 1;
        }
        if block.rows.is_empty() {
            self.blocks.remove(place);
        }
    }

    /// Returns the stored rows of each service key beyond its newest ones, of which there are `keep`.
    pub(super) fn surplus(&self, keep: usize) -> Vec<RowKey> {
        let mut owners: HashMap<&KeyId, usize> = HashMap::new();
        // Each category's owner, by number.
        let numbered = self.categories.iter().map(|category| {
            let owner = category.owner.as_ref().filter(|_| category.stored)?;
            let next = owners.len();
            Some(*owners.entry(owner).or_insert(next))
        });
        let numbers: Vec<Option<usize>> = numbered.collect();
        let mut newest = vec![0; owners.len()];
        let is_surplus = |(_, id): &&(RowKey, CategoryId)| {
            let owner = usize::try_from(*id).ok().and_then(|id| *numbers.get(id)?);
            let Some(count) = owner.and_then(|owner| newest.get_mut(owner)) else { return false };
            *count += 1;
            *count > keep
        };
        let rows = self.blocks.iter().rev().flat_map(|block| block.rows.iter().rev());
        rows.filter(is_surplus).map(|(key, _)| *key).collect()
    }

    /// Forgets these rows.
    pub(super) fn forget(&mut self, gone: &HashSet<RowKey>) {
        let is_kept = |(key, _): &(RowKey, CategoryId)| !gone.contains(key);
        for block in &mut self.blocks {
            if !block.rows.iter().all(is_kept) {
                block.rows.retain(is_kept);
                *block = Block::of(std::mem::take(&mut block.rows));
            }
        }
        self.blocks.retain(|block| !block.rows.is_empty());
        self.patients.retain(|_, rows| {
            rows.retain(is_kept);
            !rows.is_empty()
        });
    }

    /// Forgets the rows before `key`.
    pub(super) fn forget_before(&mut self, key: RowKey) {
        let old = self.blocks.partition_point(|block| block.last().is_some_and(|last| last < key));
        self.blocks.drain(..old);
        if let Some(block) = self.blocks.first_mut()
            && block.rows.first().is_some_and(|(first, _)| *first < key)
        {
            let kept = block.rows.partition_point(|(row, _)| *row < key);
            *block = Block::of(block.rows.split_off(kept));
        }
        self.patients.retain(|_, rows| {
            rows.drain(..rows.partition_point(|(row, _)| *row < key));
            !rows.is_empty()
        });
    }

    /// One page of the rows that match, newest first, and how many match in all.
    pub(super) fn page(&self, query: &RequestQuery) -> (Vec<RowKey>, usize) {
        let wanted: Vec<bool> = self.categories.iter().map(|category| category.is_wanted(query)).collect();
        let mut page = Page::of(query);
        if let Some(patients) = &query.patients {
            let mut rows: Vec<(RowKey, CategoryId)> = Vec::new();
            for patient in patients {
                rows.extend(self.patients.get(patient).into_iter().flatten());
            }
            rows.sort_unstable();
            page.look_at(&rows, query, &wanted);
        } else {
            for block in self.blocks.iter().rev() {
                let whole = block.rows.first().is_some_and(|(first, _)| is_within(*first, query))
                    && block.last().is_some_and(|last| is_within(last, query));
                let count = || block.counts.iter().filter(|(id, _)| is_in(&wanted, **id)).map(|(_, count)| count).sum();
                match whole.then(count) {
                    Some(count) if page.is_elsewhere(count) => page.total += count,
                    _ => page.look_at(&block.rows, query, &wanted),
                }
            }
        }
        (page.found, page.total)
    }
}

/// The page that a query asks for, as far as it was found.
struct Page {
    found: Vec<RowKey>,
    /// Matches so far.
    total: usize,
    first: usize,
    limit: usize,
}

impl Page {
    fn of(query: &RequestQuery) -> Self {
        let first = (query.page - 1).saturating_mul(query.limit);
        Self { found: Vec::new(), total: 0, first, limit: query.limit }
    }

    /// Whether none of the next `count` matches is on the page.
    fn is_elsewhere(&self, count: usize) -> bool {
        self.total + count <= self.first || self.found.len() == self.limit
    }

    fn look_at(&mut self, rows: &[(RowKey, CategoryId)], query: &RequestQuery, wanted: &[bool]) {
        for (key, id) in rows.iter().rev() {
            if is_in(wanted, *id) && is_within(*key, query) {
                if self.total >= self.first && self.found.len() < self.limit {
                    self.found.push(*key);
                }
                self.total += 1;
            }
        }
    }
}

fn is_in(wanted: &[bool], id: CategoryId) -> bool {
    usize::try_from(id).is_ok_and(|id| wanted.get(id) == Some(&true))
}

fn is_within((at_ms, _): RowKey, query: &RequestQuery) -> bool {
    query.start_ms.is_none_or(|start| at_ms > start) && query.end_ms.is_none_or(|end| at_ms < end)
}

fn insert(rows: &mut Vec<(RowKey, CategoryId)>, key: RowKey, id: CategoryId) {
    let place = rows.partition_point(|(row, _)| *row < key);
    rows.insert(place, (key, id));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of every third kind, in an order that is not quite that of time.
    fn rows() -> Vec<(RowKey, RequestRow)> {
        let owners: Vec<KeyId> = ["0123456789ab", "ba9876543210"].map(|id| id.parse().unwrap()).to_vec();
        let patients: Vec<PatientRef> =
            (0..7).map(|number| serde_json::from_str(&format!("\"{number}\"")).unwrap()).collect();
        let row = |number: u32| {
            let at_ms = u64::from(number ^ 5);
            let index = number as usize;
            let row = RequestRow {
                at_ms,
                owner: (!index.is_multiple_of(5)).then(|| owners[index % 2].clone()),
                key: (!index.is_multiple_of(5)).then(|| IntegrationKeyId::from(["a", "b", "c"][index % 3])),
                patient: (!index.is_multiple_of(4)).then(|| patients[index % 7].clone()),
                environment: Environment::ALL.get(index % 4).copied(),
                status: [200, 400, 503][index % 3],
                ..RequestRow::default()
            };
            ((at_ms, number), row)
        };
        (0..5000).map(row).collect()
    }

    fn queries() -> Vec<RequestQuery> {
        let all = RequestQuery { page: 1, limit: 25, ..RequestQuery::default() };
        let owner = Some("0123456789ab".parse().unwrap());
        let patients = Some(vec![serde_json::from_str("\"3\"").unwrap(), serde_json::from_str("\"4\"").unwrap()]);
        let mut queries = vec![
            all.clone(),
            RequestQuery { owner: owner.clone(), ..all.clone() },
            RequestQuery { owner, start_ms: Some(700), end_ms: Some(4100), class: Some(4), ..all.clone() },
            RequestQuery { environment: Some(Environment::ALL[1]), end_ms: Some(3), ..all.clone() },
            RequestQuery { key: Some(IntegrationKeyId::from("b")), start_ms: Some(4990), ..all.clone() },
            RequestQuery { patients: patients.clone(), ..all.clone() },
            RequestQuery { patients, class: Some(5), start_ms: Some(2000), ..all },
        ];
        for page in [2, 41, 199, 1000] {
            let later: Vec<RequestQuery> =
                queries.iter().take(7).map(|query| RequestQuery { page, ..query.clone() }).collect();
            queries.extend(later);
        }
        queries
    }

    fn check(index: &Index, rows: &[(RowKey, RequestRow)]) {
        for query in queries() {
            let mut matching: Vec<RowKey> =
                rows.iter().filter(|(_, row)| query.takes(row)).map(|(key, _)| *key).collect();
            matching.sort_unstable();
            matching.reverse();
            let page: Vec<RowKey> =
                matching.iter().skip((query.page - 1) * query.limit).take(query.limit).copied().collect();
            assert_eq!(index.page(&query), (page, matching.len()), "{query:?}");
        }
    }

    #[test]
    fn a_page_has_what_reading_every_row_would_find() {
        let mut rows = rows();
        let mut index = Index::default();
        check(&index, &[]);
        for (key, row) in &rows {
            index.add(*key, row, true);
        }
        assert!(index.blocks.len() > 2);
        check(&index, &rows);
        let is_removed = |key: &RowKey, row: &RequestRow| row.patient.is_none() && !key.1.is_multiple_of(3);
        rows.iter().filter(|(key, row)| is_removed(key, row)).for_each(|(key, _)| index.remove(*key));
        rows.retain(|(key, row)| !is_removed(key, row));
        index.remove((u64::MAX, 0));
        check(&index, &rows);
        rows.sort_unstable_by_key(|(key, _)| *key);
        for keep in [3000, 700] {
            let is_surplus = |number: usize, row: &RequestRow| {
                let newer = rows.iter().skip(number).filter(|(_, newer)| newer.owner == row.owner).count();
                row.owner.is_some() && newer > keep
            };
            let gone: HashSet<RowKey> = rows
                .iter()
                .enumerate()
                .filter(|(number, (_, row))| is_surplus(*number, row))
                .map(|(_, (key, _))| *key)
                .collect();
            let found = index.surplus(keep);
            assert_eq!((found.len(), found.iter().copied().collect::<HashSet<_>>()), (gone.len(), gone.clone()));
            index.forget(&gone);
            rows.retain(|(key, _)| !gone.contains(key));
            check(&index, &rows);
        }
        assert!(index.surplus(700).is_empty());
        let unstored = RequestRow { owner: Some("0123456789ab".parse().unwrap()), ..RequestRow::default() };
        (0..9).for_each(|number| index.add((9000, number), &unstored, false));
        assert!(index.surplus(700).is_empty(), "what is in memory alone makes no room");
        (0..9).for_each(|number| index.remove((9000, number)));
        index.forget_before((3000, 0));
        rows.retain(|(key, _)| *key >= (3000, 0));
        check(&index, &rows);
        index.forget_before((u64::MAX, 0));
        assert!(index.patients.is_empty());
        check(&index, &[]);
    }
}
