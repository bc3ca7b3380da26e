//! The rows of the table of sessions, and the orders that lists and counts read: neither has to walk all that there are.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::table::SessionEntry;
use super::{Record, Session};
use warmpool_core::ids::{SessionId, WorkerId};
use warmpool_core::sort::SortOrder;
use warmpool_keys::KeyId;

/// The ids of sessions in the order of their time, then of the id.
type ByTime = BTreeSet<(u64, SessionId)>;

/// The rows by their ids, and which of them are live, wait for their workers, and belong to each key.
#[derive(Default)]
pub(super) struct Rows {
    by_id: HashMap<SessionId, SessionEntry>,
    live: HashMap<SessionId, Arc<Session>>,
    /// Those whose workers have not been found again yet.
    unfound: HashMap<SessionId, Arc<Record>>,
    by_time: ByTime,
    by_owner: HashMap<KeyId, ByTime>,
}

impl Rows {
    pub(super) fn get(&self, id: &SessionId) -> Option<&SessionEntry> {
        self.by_id.get(id)
    }

    /// Adds a row, or puts it in the place of the one of its id.
    pub(super) fn put(&mut self, entry: SessionEntry) {
        let id = entry.id().clone();
        self.remove(&id);
        match &entry {
            SessionEntry::Live(session) => {
                self.live.insert(id.clone(), Arc::clone(session));
            }
            SessionEntry::Past(record) if record.ended.is_none() => {
                self.unfound.insert(id.clone(), Arc::clone(record));
            }
            SessionEntry::Past(_) => {}
        }
        let place = (entry.created_ms(), id.clone());
        self.by_owner.entry(entry.owner().clone()).or_default().insert(place.clone());
        self.by_time.insert(place);
        self.by_id.insert(id, entry);
    }

    pub(super) fn remove(&mut self, id: &SessionId) {
        let Some(entry) = self.by_id.remove(id) else { return };
        self.live.remove(id);
        self.unfound.remove(id);
        let place = (entry.created_ms(), id.clone());
        self.by_time.remove(&place);
        let Some(own) = self.by_owner.get_mut(entry.owner()) else { return };
        own.remove(&place);
        if own.is_empty() {
            self.by_owner.remove(entry.owner());
        }
    }

    /// How many a key has, or all together.
    pub(super) fn count(&self, owner: Option<&KeyId>) -> usize {
        owner.map_or(self.by_id.len(), |owner| self.by_owner.get(owner).map_or(0, BTreeSet::len))
    }

    pub(super) fn live(&self) -> impl ExactSizeIterator<Item = &Arc<Session>> {
        self.live.values()
    }

    /// The records of those whose workers have not been found again yet.
    pub(super) fn unfound(&self) -> impl ExactSizeIterator<Item = &Arc<Record>> {
        self.unfound.values()
    }

    /// The workers of those that have ended.
    pub(super) fn ended_workers(&self) -> HashSet<WorkerId> {
        let ended = self.by_id.values().filter_map(|entry| match entry {
            SessionEntry::Past(record) if record.ended.is_some() => Some(record.worker.clone()),
            SessionEntry::Live(_) | SessionEntry::Past(_) => None,
        });
        ended.collect()
    }

    /// Those of a key, or all, the oldest first.
    pub(super) fn by_time(&self, owner: Option<&KeyId>) -> impl DoubleEndedIterator<Item = &SessionEntry> {
        self.ids(owner).filter_map(move |id| self.by_id.get(id))
    }

    /// A page of them in this order: `limit` rows behind the first `skip`.
    pub(super) fn page(
        &self,
        owner: Option<&KeyId>,
        order: SortOrder,
        (skip, limit): (usize, usize),
    ) -> Vec<SessionEntry> {
        let ids = self.ids(owner);
        let page: Vec<&SessionId> = match order {
            SortOrder::Ascend => ids.skip(skip).take(limit).collect(),
            SortOrder::Descend => ids.rev().skip(skip).take(limit).collect(),
        };
        page.into_iter().filter_map(|id| self.by_id.get(id)).cloned().collect()
    }

    fn ids(&self, owner: Option<&KeyId>) -> impl DoubleEndedIterator<Item = &SessionId> {
        let places = owner.map_or(Some(&self.by_time), |owner| self.by_owner.get(owner));
        places.into_iter().flatten().map(|(_, id)| id)
    }
}
