//! The pool's one table. Everything in it happens under one short lock; nothing in it waits. `queue` has those who wait,
//! `held` counts what each key has, and `serving` judges it.

mod held;
mod queue;
mod serving;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use held::Held;
use queue::LastTurns;
pub(super) use serving::ProgressBounds;

use super::Lease;
use super::image_builds::ImageBuilds;
use super::image_ids::ImageIds;
use crate::Error;
use crate::worker::Worker;
use warmpool_api::status::KindCounts;
use warmpool_core::browser::{Engine, PoolKey};
use warmpool_core::ids::WorkerId;
use warmpool_keys::KeyId;

/// The first pause after a failed start; it doubles up to [`BACKOFF_MAX`].
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// A single failure may pass; after this many in a row the waiting callers get the error.
const FAILURES_TO_GIVE_UP: u32 = 2;

/// The stage of a worker's life; it never goes back but from `Leased` to `Ready`, unused.
enum WorkerStage {
    /// On its way, to a caller who waits for it if it is awaited.
    Starting {
        awaited: bool,
    },
    Ready(Arc<Worker>),
    /// Somebody's. Of a session that has ended there is no key: its worker counts towards none while it goes.
    Leased(Option<KeyId>, Arc<Worker>),
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
pub(super) struct PooledWorker {
    pub(super) key: PoolKey,
    stage: WorkerStage,
    since: Instant,
    /// Stops the worker's watch, or its boot.
    pub(super) stop: CancellationToken,
}

impl PooledWorker {
    /// The worker, where it is warm and nobody's.
    const fn ready(&self) -> Option<&Arc<Worker>> {
        match &self.stage {
            WorkerStage::Ready(worker) => Some(worker),
            WorkerStage::Starting { .. } | WorkerStage::Leased(..) | WorkerStage::Removing => None,
        }
    }

    const fn is_leased(&self) -> bool {
        matches!(self.stage, WorkerStage::Leased(..))
    }
}

/// A caller in the queue.
pub(super) struct Waiter {
    pub(super) number: u64,
    pub(super) key: PoolKey,
    pub(super) owner: KeyId,
    pub(super) sender: oneshot::Sender<Result<Lease, Error>>,
}

/// How many workers of a kind to keep warm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) count: usize,
    /// Nobody asked for it by name: without its image, or when it does not start, the pool does without.
    pub(super) optional: bool,
}

/// Why a worker did not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// For the log and the operator.
    pub(super) error: String,
    /// For a client, where the failure would be another one's too.
    pub(super) reason: Option<String>,
}

struct Backoff {
    failures: u32,
    until: Instant,
    failure: Failure,
}

pub(super) struct PoolState {
    pub(super) workers: HashMap<WorkerId, PooledWorker>,
    waiters: VecDeque<Waiter>,
    held: Held,
    pub(super) runtime_up: bool,
    /// Whether the runtime has failed since the daemon started.
    runtime_failed: bool,
    /// Whether the pool has been warm since its workers were last lost together, as in an outage of the runtime.
    warmed: bool,
    /// How many workers have become warm since then, whatever became of them.
    made: usize,
    /// When a worker last reached another stage.
    moved: Instant,
    pub(super) closed: bool,
    /// Engines whose image is not on this host.
    pub(super) absent: HashSet<Engine>,
    pub(super) builds: ImageBuilds,
    pub(super) images: ImageIds,
    targets: BTreeMap<PoolKey, Target>,
    backoffs: HashMap<PoolKey, Backoff>,
    refill_at: Option<Instant>,
    queue: LastTurns,
}

impl PoolState {
    /// The warm worker of this kind that is handed out next.
    pub(super) fn next(&self, key: PoolKey) -> Option<&Arc<Worker>> {
        let ready = self.workers.values().filter(|entry| entry.key == key && entry.ready().is_some());
        ready.min_by_key(|entry| entry.since)?.ready()
    }

    /// A warm worker of this engine.
    pub(super) fn ready(&self, engine: Engine) -> Option<&Arc<Worker>> {
        self.workers.values().filter(|entry| entry.key.engine == engine).find_map(PooledWorker::ready)
    }

    pub(super) fn new(targets: BTreeMap<PoolKey, Target>) -> Self {
        Self {
            workers: HashMap::new(),
            waiters: VecDeque::new(),
            held: Held::default(),
            runtime_up: false,
            runtime_failed: false,
            warmed: false,
            made: 0,
            moved: Instant::now(),
            closed: false,
            absent: HashSet::new(),
            builds: ImageBuilds::default(),
            images: ImageIds::default(),
            targets,
            backoffs: HashMap::new(),
            refill_at: None,
            queue: LastTurns::default(),
        }
    }

    /// The kinds as the planner sees them; at most `callers` of those who wait count, as their turns come.
    pub(super) fn kinds(&self, callers: usize, now: Instant) -> BTreeMap<PoolKey, KindCounts> {
        let mut kinds: BTreeMap<PoolKey, KindCounts> = BTreeMap::new();
        for (key, target) in &self.targets {
            let without = target.optional && self.absent.contains(&key.engine);
            kinds.entry(*key).or_default().target = if without { 0 } else { target.count };
        }
        for entry in self.workers.values() {
            let kind = kinds.entry(entry.key).or_default();
            match entry.stage {
                WorkerStage::Starting { .. } => kind.starting += 1,
                WorkerStage::Ready(_) => kind.ready += 1,
                WorkerStage::Leased(..) => kind.leased += 1,
                WorkerStage::Removing => kind.removing += 1,
            }
        }
        let all = self.waiters.len();
        let counted = if callers < all { self.in_turn(callers, now) } else { (0..all).collect() };
        for at in counted {
            kinds.entry(self.waiters[at].key).or_default().waiting += 1;
        }
        for (key, kind) in &mut kinds {
            kind.backing_off = self.backs_off(*key, now);
        }
        kinds
    }

    /// Whether no worker of this kind may be started now.
    fn backs_off(&self, key: PoolKey, now: Instant) -> bool {
        self.backoffs.get(&key).is_some_and(|backoff| backoff.until > now) || self.absent.contains(&key.engine)
    }

    /// Whether a caller would get a worker at once.
    pub(super) fn serves_now(&self, key: PoolKey) -> bool {
        !self.waits_for(key) && self.workers.values().any(|entry| entry.key == key && entry.ready().is_some())
    }

    pub(super) fn waits_for(&self, key: PoolKey) -> bool {
        self.waiters.iter().any(|waiter| waiter.key == key)
    }

    /// Takes the worker that is warm the longest: it has had the most time to settle.
    pub(super) fn take_ready(&mut self, key: PoolKey, owner: &KeyId) -> Option<Arc<Worker>> {
        let worker = Arc::clone(self.next(key)?);
        self.put(&worker.id, WorkerStage::Leased(Some(owner.clone()), Arc::clone(&worker)))?;
        self.moved = Instant::now();
        self.queue.serves(owner);
        Some(worker)
    }

    pub(super) fn add_starting(&mut self, key: PoolKey) -> WorkerId {
        let id = WorkerId::random();
        self.insert(id.clone(), key, WorkerStage::Starting { awaited: false });
        id
    }

    pub(super) fn add_ready(&mut self, worker: Arc<Worker>) -> CancellationToken {
        self.insert(worker.id.clone(), worker.key, WorkerStage::Ready(worker))
    }

    pub(super) fn add_leased(&mut self, worker: &Arc<Worker>, owner: KeyId) -> CancellationToken {
        self.insert(worker.id.clone(), worker.key, WorkerStage::Leased(Some(owner), Arc::clone(worker)))
    }

    fn insert(&mut self, id: WorkerId, key: PoolKey, stage: WorkerStage) -> CancellationToken {
        let stop = CancellationToken::new();
        self.moved = Instant::now();
        self.held.enters(&stage);
        let entry = PooledWorker { key, stage, since: self.moved, stop: stop.clone() };
        if let Some(before) = self.workers.insert(id, entry) {
            self.held.leaves(&before.stage);
        }
        stop
    }

    /// Makes a started worker available. Returns `false` when it is not wanted any more, or lost: who follows its loss looks for it
    /// once, and may have looked.
    pub(super) fn set_ready(&mut self, worker: Arc<Worker>) -> bool {
        match self.workers.get_mut(&worker.id) {
            Some(entry) if matches!(entry.stage, WorkerStage::Starting { .. }) && !self.closed && !worker.is_lost() => {
                self.backoffs.remove(&entry.key);
                entry.since = Instant::now();
                entry.stage = WorkerStage::Ready(worker);
                self.made += 1;
                self.moved = entry.since;
                true
            }
            _ => false,
        }
    }

    /// Makes the worker of an unused lease available again. Returns `false` when its place is gone, the pool closed, or it is lost.
    pub(super) fn return_unused(&mut self, worker: &Arc<Worker>) -> bool {
        let is_leased = self.workers.get(&worker.id).is_some_and(PooledWorker::is_leased);
        let is_wanted = is_leased && !self.closed && !worker.is_lost();
        is_wanted && self.put(&worker.id, WorkerStage::Ready(Arc::clone(worker))).is_some()
    }

    /// Marks a worker for removal, and returns who has to remove it.
    pub(super) fn set_removing(&mut self, id: &WorkerId) -> Remover {
        let Some(entry) = self.workers.get(id) else { return Remover::Nobody };
        self.moved = Instant::now();
        entry.stop.cancel();
        match self.put(id, WorkerStage::Removing) {
            Some(WorkerStage::Starting { .. }) => Remover::Boot,
            Some(WorkerStage::Ready(_) | WorkerStage::Leased(..)) => Remover::Caller,
            Some(WorkerStage::Removing) | None => Remover::Nobody,
        }
    }

    /// Removes a worker whose container is gone from the table.
    pub(super) fn forget(&mut self, id: &WorkerId) {
        self.moved = Instant::now();
        if let Some(entry) = self.workers.remove(id) {
            self.held.leaves(&entry.stage);
        }
    }

    /// Marks a ready worker of this kind for removal.
    pub(super) fn evict(&mut self, key: PoolKey) -> Option<WorkerId> {
        let mut of_key = self.workers.values().filter(|entry| entry.key == key);
        let id = of_key.find_map(PooledWorker::ready)?.id.clone();
        self.set_removing(&id);
        Some(id)
    }

    /// Whether a worker is warm and nobody's.
    pub(super) fn is_ready(&self, id: &WorkerId) -> bool {
        self.workers.get(id).is_some_and(|entry| entry.ready().is_some())
    }

    /// The workers on this node that are warm or leased, and whether each of them is nobody's.
    pub(super) fn on_node(&self, node: &str) -> Vec<(WorkerId, bool)> {
        let found = self.workers.values().filter_map(|entry| match &entry.stage {
            WorkerStage::Ready(worker) => Some((worker, true)),
            WorkerStage::Leased(_, worker) => Some((worker, false)),
            WorkerStage::Starting { .. } | WorkerStage::Removing => None,
        });
        let here = found.filter(|(worker, _)| worker.node.as_deref() == Some(node));
        here.map(|(worker, ready)| (worker.id.clone(), ready)).collect()
    }

    /// The warm workers that run on nodes.
    pub(super) fn warm_on_nodes(&self) -> Vec<Arc<Worker>> {
        let warm = self.workers.values().filter_map(PooledWorker::ready);
        warm.filter(|worker| worker.node.is_some()).map(Arc::clone).collect()
    }

    /// Every worker that no session owns and that is not being removed.
    pub(super) fn unowned(&self) -> Vec<WorkerId> {
        let unowned =
            |entry: &PooledWorker| matches!(entry.stage, WorkerStage::Starting { .. } | WorkerStage::Ready(_));
        self.workers.iter().filter(|(_, entry)| unowned(entry)).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn start_failed(&mut self, key: PoolKey, failure: Failure) {
        let failures = self.backoffs.get(&key).map_or(0, |backoff| backoff.failures) + 1;
        let pause = BACKOFF_MIN.saturating_mul(1 << failures.min(10)).min(BACKOFF_MAX);
        // One failure may be bad luck; when none can be started, none can be had.
        if failures >= FAILURES_TO_GIVE_UP {
            self.lost_a_container();
        }
        self.backoffs.insert(key, Backoff { failures, until: Instant::now() + pause, failure });
    }

    pub(super) fn forget_failures(&mut self) {
        self.backoffs.clear();
    }

    pub(super) fn forget_failures_of(&mut self, engine: Engine) {
        self.backoffs.retain(|key, _| key.engine != engine);
    }

    pub(super) fn last_error(&self, key: PoolKey) -> Option<String> {
        self.backoffs.get(&key).map(|backoff| backoff.failure.error.clone())
    }

    /// Returns why waiting for such a worker is pointless, if it is: the last ones did not start, the next one is not tried yet,
    /// and none is warm or being started.
    pub(super) fn start_error(&self, key: PoolKey, now: Instant) -> Option<String> {
        let backoff =
            self.backoffs.get(&key).filter(|backoff| backoff.failures >= FAILURES_TO_GIVE_UP && backoff.until > now)?;
        let coming = |entry: &PooledWorker| {
            entry.key == key && matches!(entry.stage, WorkerStage::Starting { .. } | WorkerStage::Ready(_))
        };
        if self.workers.values().any(coming) { None } else { backoff.failure.reason.clone() }
    }

    /// Removes from the queue the callers that wait for a matching worker.
    pub(super) fn dismiss(&mut self, of: impl Fn(PoolKey) -> bool) -> Vec<Waiter> {
        let (gone, left) = std::mem::take(&mut self.waiters).into_iter().partition(|waiter| of(waiter.key));
        self.waiters = left;
        let gone = Vec::from(gone);
        gone.iter().for_each(|waiter| self.held.waits_no_more(&waiter.owner));
        gone
    }

    /// Delays refills, so that the session that has just begun has the machine to itself for a moment.
    pub(super) fn hold_refill(&mut self, pause: Duration) {
        self.refill_at = Some(Instant::now() + pause);
    }

    pub(super) fn may_refill(&self, now: Instant) -> bool {
        self.refill_at.is_none_or(|at| at <= now)
    }

    /// Returns when the plan may change by time alone.
    pub(super) fn next_change(&self, now: Instant) -> Option<Instant> {
        let backoffs = self.backoffs.values().map(|backoff| backoff.until);
        backoffs.chain(self.refill_at).filter(|at| *at > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::{Health, LossReason, Reports};
    use warmpool_core::browser::Mode;
    use warmpool_protocol::{Secret, Settings};
    use warmpool_runtime::{AgentAddress, WorkerLocation};

    const FIREFOX: PoolKey = PoolKey::plain(Engine::Firefox, Mode::Headed);

    const BOUNDS: ProgressBounds = ProgressBounds { max_workers: 2, patience: Duration::from_secs(60) };

    fn state(optional: bool) -> PoolState {
        PoolState::new(BTreeMap::from([(FIREFOX, Target { count: 1, optional })]))
    }

    fn fail(state: &mut PoolState, reason: Option<&str>) {
        let reason = reason.map(ToOwned::to_owned);
        state.start_failed(FIREFOX, Failure { error: "it broke".to_owned(), reason });
    }

    #[test]
    fn an_engine_without_an_image_is_missed_only_where_somebody_asked_for_it() {
        for optional in [true, false] {
            let mut state = state(optional);
            assert!(!state.is_warm(Instant::now()));
            state.absent.insert(Engine::Firefox);
            assert_eq!(state.is_warm(Instant::now()), optional);
            let kind = state.kinds(usize::MAX, Instant::now())[&FIREFOX];
            assert!(kind.backing_off, "nothing can start");
            assert_eq!(kind.target, usize::from(!optional));
        }
    }

    #[test]
    fn a_default_that_does_not_start_keeps_nobody_waiting() {
        for optional in [true, false] {
            let mut state = state(optional);
            fail(&mut state, Some("no display"));
            assert_eq!(state.is_warm(Instant::now()), optional);
        }
    }

    #[test]
    fn waiting_is_hopeless_after_two_failures_and_until_the_next_try() {
        let mut state = state(true);
        let now = Instant::now();
        fail(&mut state, Some("no display"));
        assert_eq!(state.start_error(FIREFOX, now), None);
        fail(&mut state, Some("no display"));
        assert_eq!(state.start_error(FIREFOX, now).as_deref(), Some("no display"));
        assert_eq!(state.start_error(FIREFOX, now + BACKOFF_MAX), None, "the next caller has it tried again");
        let other =
            PoolKey { preset: Some(warmpool_core::browser::PresetId::new(&Settings::default(), &[])), ..FIREFOX };
        assert_eq!(state.start_error(other, now), None);
        state.add_starting(FIREFOX);
        assert_eq!(state.start_error(FIREFOX, now), None, "one is on its way");
    }

    fn worker() -> (Arc<Worker>, Reports) {
        found(WorkerId::random(), FIREFOX, None)
    }

    fn found(id: WorkerId, key: PoolKey, node: Option<&str>) -> (Arc<Worker>, Reports) {
        let address = AgentAddress::Tcp(([127, 0, 0, 1], 1).into());
        Worker::found(id, key, WorkerLocation { address, node: node.map(str::to_owned) }, &Secret::new(String::new()))
    }

    #[test]
    fn readiness_means_that_a_worker_can_be_had() {
        let (mut state, now) = (state(false), Instant::now());
        state.runtime_up = true;
        assert!(!state.can_serve(now, BOUNDS), "there is none yet");
        let (first, reports) = worker();
        state.add_ready(Arc::clone(&first));
        assert!(!state.can_serve(now, BOUNDS), "nobody has heard of it yet");
        reports.say(Health::Alive);
        assert!(state.can_serve(now, BOUNDS));

        // Its session ends before the next worker is warm.
        state.take_ready(FIREFOX, &"000000000000".parse().unwrap()).unwrap();
        state.set_removing(&first.id);
        state.workers.remove(&first.id);
        assert!(state.can_serve(now, BOUNDS), "a kind may have none for a moment");

        // The runtime goes and comes back; what it left is not known at first.
        let (second, reports) = worker();
        state.add_ready(second);
        reports.say(Health::Alive);
        assert!(state.runtime_went());
        reports.say(Health::Unknown);
        assert!(!state.can_serve(now, BOUNDS));
        state.runtime_up = true;
        assert!(!state.can_serve(now, BOUNDS), "nobody knows whether its worker outlived that");
        reports.say(Health::Alive);
        assert!(state.can_serve(now, BOUNDS));

        // It goes and comes back between two looks.
        reports.say(Health::Lost(LossReason::ContainerGone));
        state.lost_a_container();
        assert!(!state.can_serve(now, BOUNDS), "its last worker went with it");
    }

    #[test]
    fn the_workers_of_a_node_are_known() {
        let mut state = state(false);
        let workers = [(); 2].map(|()| found(WorkerId::random(), FIREFOX, Some("east")).0);
        workers.iter().for_each(|worker| drop(state.add_ready(Arc::clone(worker))));
        let taken = state.take_ready(FIREFOX, &"000000000000".parse().unwrap()).unwrap();
        assert_eq!(state.on_node("west"), []);
        let mut found = state.on_node("east");
        found.sort_by_key(|(_, ready)| *ready);
        assert_eq!(found[0], (taken.id.clone(), false));
        assert!(!state.is_ready(&taken.id), "it has a session");
        assert!(found[1].1 && state.set_removing(&found[1].0) == Remover::Caller);
        assert_eq!(state.on_node("east"), [(taken.id.clone(), false)]);
    }

    #[test]
    fn a_worker_counts_towards_its_key_until_its_session_ends() {
        let (mut state, key) = (state(false), "000000000000".parse().unwrap());
        state.add_ready(worker().0);
        let taken = state.take_ready(FIREFOX, &key).unwrap();
        assert_eq!((state.held_by(&key), state.leased()), (1, 1));
        state.session_ended(&taken.id);
        assert_eq!((state.held_by(&key), state.leased()), (0, 1), "its container is still there");
        assert_eq!(state.set_removing(&taken.id), Remover::Caller);
    }

    #[test]
    fn workers_that_cannot_be_started_cannot_be_had() {
        let (mut state, now) = (state(true), Instant::now());
        state.runtime_up = true;
        let (only, reports) = worker();
        state.add_ready(Arc::clone(&only));
        reports.say(Health::Alive);
        assert!(state.can_serve(now, BOUNDS));
        state.set_removing(&only.id);
        fail(&mut state, None);
        assert!(state.can_serve(now, BOUNDS), "one failure may be bad luck");
        fail(&mut state, None);
        assert!(!state.can_serve(now, BOUNDS));
    }

    #[test]
    fn workers_on_demand_can_be_had_where_an_engine_is_installed() {
        let mut state = PoolState::new(BTreeMap::from([(FIREFOX, Target { count: 0, optional: false })]));
        state.runtime_up = true;
        state.absent.extend(Engine::ALL);
        assert!(!state.can_serve(Instant::now(), BOUNDS));
        state.absent.clear();
        assert!(state.can_serve(Instant::now(), BOUNDS));
    }

    #[test]
    fn an_engine_that_cannot_be_asked_is_not_the_browsers_fault() {
        let mut state = state(true);
        fail(&mut state, None);
        fail(&mut state, None);
        assert_eq!(state.start_error(FIREFOX, Instant::now()), None);
    }

    /// A worker on its way, and the word that it is warm.
    fn becomes_warm(state: &mut PoolState, key: PoolKey) -> (Arc<Worker>, Reports) {
        let (worker, reports) = found(state.add_starting(key), key, None);
        reports.say(Health::Alive);
        assert!(state.set_ready(Arc::clone(&worker)));
        (worker, reports)
    }

    #[test]
    fn a_worker_that_is_lost_does_not_become_warm() {
        let mut state = state(false);
        let (starting, reports) = found(state.add_starting(FIREFOX), FIREFOX, None);
        reports.say(Health::Lost(LossReason::ContainerGone));
        assert!(!state.set_ready(starting));
        let (_warm, reports) = becomes_warm(&mut state, FIREFOX);
        let unused = state.take_ready(FIREFOX, &"000000000000".parse().unwrap()).unwrap();
        reports.say(Health::Lost(LossReason::ContainerGone));
        assert!(!state.return_unused(&unused));
    }

    #[test]
    fn a_backlog_that_takes_every_worker_keeps_no_pool_from_being_warm() {
        let other = PoolKey::plain(Engine::Chromium, Mode::Headless);
        let targets = [FIREFOX, other].map(|key| (key, Target { count: 1, optional: false }));
        let mut state = PoolState::new(BTreeMap::from(targets));
        state.runtime_up = true;
        for made in 0..2 {
            assert!(!state.can_serve(Instant::now(), BOUNDS), "{made} of two were warm");
            let (worker, _reports) = becomes_warm(&mut state, FIREFOX);
            state.take_ready(FIREFOX, &"000000000000".parse().unwrap()).unwrap();
            state.set_removing(&worker.id);
            state.forget(&worker.id);
        }
        assert!(state.can_serve(Instant::now(), BOUNDS), "workers become warm, whoever takes them");
        state.cool();
        let _warm = [(); 2].map(|()| becomes_warm(&mut state, FIREFOX));
        state.start_failed(other, Failure { error: "it broke".to_owned(), reason: None });
        assert!(!state.can_serve(Instant::now(), BOUNDS), "the other kind does not start");
    }

    #[test]
    fn a_pool_that_comes_no_further_cannot_serve() {
        let (mut state, now) = (state(false), Instant::now());
        state.runtime_up = true;
        let (only, reports) = becomes_warm(&mut state, FIREFOX);
        assert!(state.can_serve(now + BOUNDS.patience * 2, BOUNDS), "one is warm");
        state.take_ready(FIREFOX, &"000000000000".parse().unwrap()).unwrap();
        state.add_starting(FIREFOX);
        assert!(state.can_serve(now, BOUNDS), "one is on its way");
        let later = Instant::now() + BOUNDS.patience;
        assert!(!state.can_serve(later, BOUNDS), "nothing came of it");
        let bounds = ProgressBounds { max_workers: 1, ..BOUNDS };
        assert!(state.can_serve(later, bounds), "its session has all that there may be");
        reports.say(Health::Lost(LossReason::ContainerGone));
        state.set_removing(&only.id);
        state.forget(&only.id);
        assert!(state.can_serve(Instant::now(), BOUNDS), "the pool moves");
    }
}
