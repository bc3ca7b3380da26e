//! The pool's one table. Everything in it happens under one short lock; nothing in it waits.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Lease;
use super::plan::Shelf;
use crate::engine::{Engine, PoolKey, WorkerId};
use crate::keys::KeyId;
use crate::worker::Worker;

/// The first pause after a failed start; it doubles up to [`BACKOFF_MAX`].
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Where a worker is on its one way.
enum Stage {
    Starting,
    Ready(Arc<Worker>),
    Leased(KeyId),
    Removing,
}

/// Who removes a worker that was just marked for it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Remover {
    /// Whoever marked it.
    Caller,
    /// The task that boots it: only it knows when the container exists. Removing one that is still being created
    /// would find nothing, and leave it behind.
    Boot,
    /// It is under way already, or done.
    Nobody,
}

/// A worker in the table.
pub(super) struct Entry {
    key: PoolKey,
    stage: Stage,
    since: Instant,
    /// Stops the worker's watch, or its boot.
    pub(super) stop: CancellationToken,
}

/// A caller in the queue.
pub(super) struct Waiter {
    pub(super) number: u64,
    pub(super) key: PoolKey,
    pub(super) owner: KeyId,
    pub(super) sender: oneshot::Sender<Lease>,
}

struct Backoff {
    failures: u32,
    until: Instant,
    error: String,
}

pub(super) struct State {
    pub(super) workers: HashMap<WorkerId, Entry>,
    pub(super) waiters: VecDeque<Waiter>,
    pub(super) runtime_up: bool,
    pub(super) closed: bool,
    targets: BTreeMap<PoolKey, usize>,
    backoffs: HashMap<PoolKey, Backoff>,
    refill_at: Option<Instant>,
    last_number: u64,
}

impl State {
    /// Any ready worker of this engine.
    pub(super) fn ready(&self, engine: Engine) -> Option<&Arc<Worker>> {
        self.workers.values().find_map(|entry| match &entry.stage {
            Stage::Ready(worker) if entry.key.engine == engine => Some(worker),
            _ => None,
        })
    }

    pub(super) fn new(targets: BTreeMap<PoolKey, usize>) -> Self {
        Self {
            workers: HashMap::new(),
            waiters: VecDeque::new(),
            runtime_up: false,
            closed: false,
            targets,
            backoffs: HashMap::new(),
            refill_at: None,
            last_number: 0,
        }
    }

    /// The shelves as the planner sees them; at most `callers` of those who wait count.
    pub(super) fn shelves(&self, callers: usize, now: Instant) -> BTreeMap<PoolKey, Shelf> {
        let mut shelves: BTreeMap<PoolKey, Shelf> = BTreeMap::new();
        for (key, target) in &self.targets {
            shelves.entry(*key).or_default().target = *target;
        }
        for entry in self.workers.values() {
            let shelf = shelves.entry(entry.key).or_default();
            match entry.stage {
                Stage::Starting => shelf.starting += 1,
                Stage::Ready(_) => shelf.ready += 1,
                Stage::Leased(_) => shelf.leased += 1,
                Stage::Removing => shelf.removing += 1,
            }
        }
        for waiter in self.waiters.iter().take(callers) {
            shelves.entry(waiter.key).or_default().waiting += 1;
        }
        for (key, backoff) in &self.backoffs {
            shelves.entry(*key).or_default().backing_off = backoff.until > now;
        }
        shelves
    }

    pub(super) fn leased(&self) -> usize {
        self.workers.values().filter(|entry| matches!(entry.stage, Stage::Leased(_))).count()
    }

    /// How many workers a key has or waits for.
    pub(super) fn held_by(&self, owner: &KeyId) -> usize {
        let leased = self.workers.values().filter(|entry| matches!(&entry.stage, Stage::Leased(by) if by == owner));
        leased.count() + self.waiters.iter().filter(|waiter| waiter.owner == *owner).count()
    }

    pub(super) fn waits_for(&self, key: PoolKey) -> bool {
        self.waiters.iter().any(|waiter| waiter.key == key)
    }

    /// Takes the worker that is warm the longest: it has had the most time to settle.
    pub(super) fn take_ready(&mut self, key: PoolKey, owner: &KeyId) -> Option<Arc<Worker>> {
        let entry = self
            .workers
            .values_mut()
            .filter(|entry| entry.key == key && matches!(entry.stage, Stage::Ready(_)))
            .min_by_key(|entry| entry.since)?;
        match std::mem::replace(&mut entry.stage, Stage::Leased(owner.clone())) {
            Stage::Ready(worker) => Some(worker),
            other => {
                entry.stage = other;
                None
            }
        }
    }

    /// The first caller in the queue who can be served now, and the worker for it.
    pub(super) fn match_waiter(&mut self, max_sessions: usize) -> Option<(Waiter, Arc<Worker>)> {
        if self.leased() >= max_sessions {
            return None;
        }
        for index in 0..self.waiters.len() {
            let (key, owner) = {
                let waiter = self.waiters.get(index)?;
                (waiter.key, waiter.owner.clone())
            };
            if let Some(worker) = self.take_ready(key, &owner) {
                return self.waiters.remove(index).map(|waiter| (waiter, worker));
            }
        }
        None
    }

    pub(super) fn enqueue(&mut self, waiter: Waiter) -> u64 {
        self.last_number += 1;
        let number = self.last_number;
        self.waiters.push_back(Waiter { number, ..waiter });
        number
    }

    /// Whether the place was still held.
    pub(super) fn leave(&mut self, number: u64) -> bool {
        let before = self.waiters.len();
        self.waiters.retain(|waiter| waiter.number != number);
        self.waiters.len() < before
    }

    pub(super) fn add_starting(&mut self, key: PoolKey) -> WorkerId {
        let id = WorkerId::random();
        self.insert(id.clone(), key, Stage::Starting);
        id
    }

    pub(super) fn add_ready(&mut self, worker: Arc<Worker>) -> CancellationToken {
        self.insert(worker.id.clone(), worker.key, Stage::Ready(worker))
    }

    pub(super) fn add_leased(&mut self, worker: &Worker, owner: KeyId) -> CancellationToken {
        self.insert(worker.id.clone(), worker.key, Stage::Leased(owner))
    }

    fn insert(&mut self, id: WorkerId, key: PoolKey, stage: Stage) -> CancellationToken {
        let stop = CancellationToken::new();
        self.workers.insert(id, Entry { key, stage, since: Instant::now(), stop: stop.clone() });
        stop
    }

    /// A started worker became ready. False when it is not wanted any more.
    pub(super) fn set_ready(&mut self, worker: Arc<Worker>) -> bool {
        let closed = self.closed;
        match self.workers.get_mut(&worker.id) {
            Some(entry) if matches!(entry.stage, Stage::Starting) && !closed => {
                self.backoffs.remove(&entry.key);
                entry.since = Instant::now();
                entry.stage = Stage::Ready(worker);
                true
            }
            _ => false,
        }
    }

    /// A lease came back unused: the worker is warm still. False when its place is gone or the pool closed.
    pub(super) fn put_back(&mut self, worker: &Arc<Worker>) -> bool {
        let closed = self.closed;
        match self.workers.get_mut(&worker.id) {
            Some(entry) if matches!(entry.stage, Stage::Leased(_)) && !closed => {
                entry.stage = Stage::Ready(Arc::clone(worker));
                true
            }
            _ => false,
        }
    }

    /// Marks a worker for removal, and says who has to remove it.
    pub(super) fn set_removing(&mut self, id: &WorkerId) -> Remover {
        let Some(entry) = self.workers.get_mut(id) else { return Remover::Nobody };
        entry.stop.cancel();
        match std::mem::replace(&mut entry.stage, Stage::Removing) {
            Stage::Starting => Remover::Boot,
            Stage::Ready(_) | Stage::Leased(_) => Remover::Caller,
            Stage::Removing => Remover::Nobody,
        }
    }

    /// Marks a ready worker of this kind for removal.
    pub(super) fn evict(&mut self, key: PoolKey) -> Option<WorkerId> {
        let ready = |entry: &Entry| entry.key == key && matches!(entry.stage, Stage::Ready(_));
        let id = self.workers.iter().find(|(_, entry)| ready(entry)).map(|(id, _)| id.clone())?;
        self.set_removing(&id);
        Some(id)
    }

    /// Whether a worker is warm and nobody's.
    pub(super) fn is_ready(&self, id: &WorkerId) -> bool {
        self.workers.get(id).is_some_and(|entry| matches!(entry.stage, Stage::Ready(_)))
    }

    /// Every worker that no session owns and that is not being removed.
    pub(super) fn unowned(&self) -> Vec<WorkerId> {
        let unowned = |entry: &Entry| matches!(entry.stage, Stage::Starting | Stage::Ready(_));
        self.workers.iter().filter(|(_, entry)| unowned(entry)).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn start_failed(&mut self, key: PoolKey, error: String) {
        let failures = self.backoffs.get(&key).map_or(0, |backoff| backoff.failures) + 1;
        let pause = BACKOFF_MIN.saturating_mul(1 << failures.min(10)).min(BACKOFF_MAX);
        self.backoffs.insert(key, Backoff { failures, until: Instant::now() + pause, error });
    }

    pub(super) fn forget_failures(&mut self) {
        self.backoffs.clear();
    }

    pub(super) fn last_error(&self, key: PoolKey) -> Option<String> {
        self.backoffs.get(&key).map(|backoff| backoff.error.clone())
    }

    /// Lets the session that was just handed out have the machine for a moment.
    pub(super) fn hold_refill(&mut self, pause: Duration) {
        self.refill_at = Some(Instant::now() + pause);
    }

    pub(super) fn may_refill(&self, now: Instant) -> bool {
        self.refill_at.is_none_or(|at| at <= now)
    }

    /// When the plan may change though nothing happens.
    pub(super) fn next_change(&self, now: Instant) -> Option<Instant> {
        let backoffs = self.backoffs.values().map(|backoff| backoff.until);
        backoffs.chain(self.refill_at).filter(|at| *at > now).min()
    }
}
