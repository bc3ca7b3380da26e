//! How many workers there are that somebody has, and how many each key has or waits for: counted as they change, since each
//! hand-out asks for it.

use std::collections::HashMap;
use std::sync::Arc;

use super::{PoolState, Waiter, WorkerStage};
use warmpool_core::ids::WorkerId;
use warmpool_keys::KeyId;

/// What one key has of the pool.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// Workers of its sessions.
    pub(super) leased: usize,
    /// Its callers in the queue.
    pub(super) waiting: usize,
}

/// What all keys have.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Leased workers, also those whose sessions have ended.
    leased: usize,
    /// The shares of keys that have one.
    shares: HashMap<KeyId, Share>,
}

impl Held {
    /// A worker reaches this stage, or is there from the start.
    pub(super) fn enters(&mut self, stage: &WorkerStage) {
        if let WorkerStage::Leased(owner, _) = stage {
            self.leased += 1;
            if let Some(owner) = owner {
                self.change(owner, |share| share.leased += 1);
            }
        }
    }

    /// A worker leaves this stage, or the table.
    pub(super) fn leaves(&mut self, stage: &WorkerStage) {
        if let WorkerStage::Leased(owner, _) = stage {
            self.leased = self.leased.saturating_sub(1);
            if let Some(owner) = owner {
                self.change(owner, |share| share.leased = share.leased.saturating_sub(1));
            }
        }
    }

    /// A caller of this key comes into the queue.
    pub(super) fn waits(&mut self, owner: &KeyId) {
        self.change(owner, |share| share.waiting += 1);
    }

    /// A caller of this key is out of the queue.
    pub(super) fn waits_no_more(&mut self, owner: &KeyId) {
        self.change(owner, |share| share.waiting = share.waiting.saturating_sub(1));
    }

    /// What a key has.
    pub(super) fn of(&self, owner: &KeyId) -> Share {
        self.shares.get(owner).copied().unwrap_or_default()
    }

    fn change(&mut self, owner: &KeyId, by: impl Fn(&mut Share)) {
        let share = self.shares.entry(owner.clone()).or_default();
        by(share);
        if *share == Share::default() {
            self.shares.remove(owner);
        }
    }
}

impl PoolState {
    /// How many workers somebody has.
    pub(in crate::pool) fn leased(&self) -> usize {
        self.held.leased
    }

    /// How many workers a key has or waits for.
    pub(in crate::pool) fn held_by(&self, owner: &KeyId) -> usize {
        let share = self.held.of(owner);
        share.leased + share.waiting
    }

    /// Puts a worker on another stage, and returns the one before.
    pub(super) fn put(&mut self, id: &WorkerId, stage: WorkerStage) -> Option<WorkerStage> {
        let entry = self.workers.get_mut(id)?;
        let before = std::mem::replace(&mut entry.stage, stage);
        self.held.leaves(&before);
        self.held.enters(&entry.stage);
        Some(before)
    }

    /// Counts a leased worker towards its key no more: its session has ended.
    pub(in crate::pool) fn session_ended(&mut self, id: &WorkerId) {
        let entry = self.workers.get(id).map(|entry| &entry.stage);
        if let Some(WorkerStage::Leased(_, worker)) = entry {
            let worker = Arc::clone(worker);
            self.put(id, WorkerStage::Leased(None, worker));
        }
    }

    /// Removes from the queue whoever stands there.
    pub(super) fn take_waiter(&mut self, at: usize) -> Option<Waiter> {
        let waiter = self.waiters.remove(at)?;
        self.held.waits_no_more(&waiter.owner);
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use tokio::sync::oneshot;

    use super::*;
    use crate::worker::Worker;
    use warmpool_core::browser::{Engine, Mode, PoolKey};
    use warmpool_protocol::Secret;
    use warmpool_runtime::AgentAddress;

    const KIND: PoolKey = PoolKey::plain(Engine::Chromium, Mode::Headless);

    fn key(at: usize) -> KeyId {
        ["a", "b", "c"][at % 3].repeat(12).parse().unwrap()
    }

    fn worker(id: WorkerId) -> Arc<Worker> {
        let address = AgentAddress::Tcp(([127, 0, 0, 1], 1).into());
        Worker::found(id, KIND, address.into(), &Secret::new(String::new())).0
    }

    /// The same numbers by a walk over the table and the queue.
    fn walked(state: &PoolState) -> Held {
        let mut held = Held::default();
        for entry in state.workers.values() {
            if let WorkerStage::Leased(owner, _) = &entry.stage {
                held.leased += 1;
                if let Some(owner) = owner {
                    held.shares.entry(owner.clone()).or_default().leased += 1;
                }
            }
        }
        for waiter in &state.waiters {
            held.shares.entry(waiter.owner.clone()).or_default().waiting += 1;
        }
        held
    }

    /// One of the things that happen to a pool, to one of the workers there are or in the name of one of three keys.
    fn happens(state: &mut PoolState, what: usize, at: usize) {
        let mut ids: Vec<WorkerId> = state.workers.keys().cloned().collect();
        ids.sort();
        let id = ids.get(at % ids.len().max(1)).cloned();
        let leased = id.as_ref().and_then(|id| match &state.workers[id].stage {
            WorkerStage::Leased(_, worker) => Some(Arc::clone(worker)),
            WorkerStage::Starting { .. } | WorkerStage::Ready(_) | WorkerStage::Removing => None,
        });
        match (what, id) {
            (0, _) => drop(state.add_starting(KIND)),
            (1, _) => drop(state.add_ready(worker(WorkerId::random()))),
            (2, _) => drop(state.add_leased(&worker(WorkerId::random()), key(at))),
            (3, Some(id)) => {
                state.set_ready(worker(id));
            }
            (4, _) => drop(state.take_ready(KIND, &key(at))),
            (5, Some(id)) => state.session_ended(&id),
            (6, Some(id)) => {
                state.set_removing(&id);
            }
            (7, Some(id)) => state.forget(&id),
            (8, _) => drop(state.evict(KIND)),
            (9 | 10, _) => {
                let sender = oneshot::channel().0;
                state.enqueue(Waiter { number: 0, key: KIND, owner: key(at), sender });
            }
            (11, _) => drop(state.match_waiter(at)),
            (12, _) => drop(state.make_room_for(&key(at))),
            (13, _) => {
                state.leave(at as u64);
            }
            (14, _) => drop(state.dismiss(|_| at < 8)),
            (15, _) if at < 4 => drop(state.close()),
            (16, _) => {
                if let Some(worker) = leased {
                    state.return_unused(&worker);
                }
            }
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn the_counts_are_those_of_a_walk(steps in prop::collection::vec((0..17usize, 0..64usize), 1..200)) {
            let mut state = PoolState::new(BTreeMap::new());
            for (what, at) in steps {
                happens(&mut state, what, at);
                let walked = walked(&state);
                prop_assert_eq!(&state.held, &walked, "after {} of {}", what, at);
                prop_assert_eq!(state.leased(), walked.leased);
                for at in 0..3 {
                    let share = walked.of(&key(at));
                    prop_assert_eq!(state.held_by(&key(at)), share.leased + share.waiting);
                }
            }
        }
    }
}
