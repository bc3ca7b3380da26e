//! The pool: which workers there are, who has them, and who waits.
//!
//! `plan` decides, as a pure function; `state` holds the one table and hands out leases; `boot` starts workers and removes them, and `page_out` has the memory of those that wait long go to swap;
//! `images` knows which engines can be served, `readiness` whether the pool can serve at all; `reconcile` compares it with the
//! runtime; `nodes` takes workers off nodes; `adopt` takes over
//! what an earlier process left; `trusted` knows the authorities of each kind. `lease` is what callers hold, `presets` chooses the kind of
//! worker that one gets, `rejections` counts those turned away, `image_builds` knows how far the builds of missing images are, and `image_ids` which images are older ones. A worker goes one way: starting, ready, leased, removed. It is never given
//! to a second owner.

mod adopt;
mod boot;
mod image_builds;
mod image_ids;
mod images;
mod lease;
mod nodes;
mod page_out;
mod plan;
mod presets;
mod readiness;
mod reconcile;
mod rejections;
mod state;
#[cfg(any(test, feature = "testing"))]
mod testing;
mod trusted;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use warmpool_core::error::ServiceError;
use warmpool_protocol::Snapshot;

use crate::Error;
use crate::worker::{Health, Worker};
use warmpool_api::status::{KindCounts, KindStatus};
use warmpool_config::Config;
use warmpool_core::browser::{Engine, Mode, PoolKey};
use warmpool_core::drain::Drain;
use warmpool_core::instance::Instance;
use warmpool_extensions::Extensions;
use warmpool_keys::KeyId;
use warmpool_runtime::{NodeFacts, Runtime};

use images::image_build;
pub use lease::Lease;
use lease::QueuePlace;
pub use nodes::NodeStatus;
use plan::{Action, PlanInput, plan};
pub use presets::WorkerRequest;
use rejections::Rejections;
use state::{PoolState, Target, Waiter};
use trusted::Trusted;

/// The pool. Clones share it.
#[derive(Clone)]
pub struct Pool {
    parts: Arc<PoolParts>,
}

/// What the clones of a pool share.
struct PoolParts {
    config: Arc<Config>,
    trusted: Trusted,
    instance: Arc<Instance>,
    runtime: Runtime,
    drain: Drain,
    extensions: Extensions,
    state: Mutex<PoolState>,
    changed: Notify,
    /// Wakes the comparison with the runtime before its time.
    compare: Notify,
    /// Of the one worker whose memory is being paged out: whether that failed with the one before.
    paging_out: tokio::sync::Mutex<bool>,
    rejections: Rejections,
    /// The nodes as they were at the last look.
    nodes: Mutex<Vec<NodeFacts>>,
}

impl Pool {
    /// An empty pool. Nothing starts before [`Pool::run`].
    pub fn new(
        config: Arc<Config>,
        instance: Arc<Instance>,
        runtime: Runtime,
        drain: Drain,
        extensions: Extensions,
    ) -> Self {
        let trusted = Trusted::new(config.egress.ca_certificates.as_slice().into(), &config.pool.presets.0);
        let state = PoolState::new(targets(&config, &trusted));
        let parts = PoolParts {
            config,
            trusted,
            instance,
            runtime,
            drain,
            extensions,
            state: Mutex::new(state),
            changed: Notify::new(),
            compare: Notify::new(),
            paging_out: tokio::sync::Mutex::default(),
            rejections: Rejections::default(),
            nodes: Mutex::default(),
        };
        Self { parts: Arc::new(parts) }
    }

    /// Returns a warm worker, or waits for one in a queue: keys take turns, and among the callers of one the first to come is the
    /// first served. Where a preset has exactly these settings and extensions its workers come first: they have them already. Any
    /// other worker is given as it is. Its browser trusts the authorities of the daemon, of that preset and these; where nobody
    /// waits for those, one starts for this caller.
    ///
    /// Dropping the future leaves the queue.
    /// Errors: `QueueFull`, `KeyLimit`, `NoWorker` after the caller's wait, `NoEngine`, `NoStart`, `RuntimeDown`, `Starting`,
    /// `Draining`.
    pub async fn lease(&self, wanted: WorkerRequest<'_>, owner: &KeyId) -> Result<Lease, Error> {
        let key = self.kind_for(wanted);
        self.check_image(key).await?;
        let limits = &self.parts.config.session;
        let (receiver, _place) = {
            let mut state = self.lock();
            if state.closed {
                return Err(Error::Service(ServiceError::Draining));
            }
            if limits.max_per_key > 0 && state.held_by(owner) >= limits.max_per_key {
                return Err(Error::KeyLimit { limit: limits.max_per_key });
            }
            let sessions = state.leased();
            // Nobody may overtake a caller who waits for the same thing, or take the place of one who waits for another.
            if state.has_places_for_more(self.most_sessions(), Instant::now())
                && !state.waits_for(key)
                && let Some(worker) = state.take_ready(key, owner)
            {
                state.hold_refill(self.parts.config.pool.refill_delay);
                drop(state);
                self.parts.changed.notify_one();
                return Ok(Lease { pool: self.clone(), worker, used: false });
            }
            if !state.runtime_up {
                return Err(state.unavailable());
            }
            if let Some(reason) = state.start_error(key, Instant::now()) {
                return Err(Error::NoStart { kind: key.to_string(), reason });
            }
            let waiting = state.waiting();
            if waiting >= limits.queue_length {
                self.parts.rejections.add();
                // One of the two is refused.
                let Some(other) = state.make_room_for(owner) else {
                    return Err(Error::QueueFull { sessions, waiting });
                };
                let _ = other.sender.send(Err(Error::QueueFull { sessions, waiting }));
            }
            let (sender, receiver) = oneshot::channel();
            let number = state.enqueue(Waiter { number: 0, key, owner: owner.clone(), sender });
            (receiver, QueuePlace { pool: self.clone(), number })
        };
        self.settle();
        let queue_wait = wanted.queue_wait.unwrap_or(limits.queue_wait);
        match timeout(queue_wait, receiver).await {
            Ok(Ok(served)) => served,
            Ok(Err(_)) => Err(Error::Service(ServiceError::Draining)),
            Err(_) => Err(Error::NoWorker { waited: queue_wait }),
        }
    }

    /// Returns what a warm worker of this engine says of itself, if there is one.
    pub fn warm_snapshot(&self, engine: Engine) -> Option<Snapshot> {
        self.lock().ready(engine).map(|worker| worker.snapshot.borrow().clone())
    }

    /// Returns what the warm worker says of itself that [`Pool::lease`] would hand out now for this.
    pub fn next_snapshot(&self, wanted: WorkerRequest<'_>) -> Option<Snapshot> {
        let key = self.kind_for(wanted);
        self.lock().next(key).map(|worker| worker.snapshot.borrow().clone())
    }

    /// How many callers wait.
    pub fn waiting(&self) -> usize {
        self.lock().waiting()
    }

    /// How many workers a key has or waits for, which `session.max_per_key` limits.
    pub fn held_by(&self, owner: &KeyId) -> usize {
        self.lock().held_by(owner)
    }

    /// Whether nobody has a worker or waits for one.
    pub fn is_idle(&self) -> bool {
        let state = self.lock();
        state.waiting() == 0 && state.leased() == 0
    }

    /// Whether nobody gets a worker before somebody gives one up.
    pub fn is_full(&self) -> bool {
        let state = self.lock();
        let limits = &self.parts.config;
        state.workers.len() >= limits.pool.max_workers || state.leased() >= limits.session.max_sessions
    }

    /// Returns the state of every kind.
    pub fn kinds(&self) -> Vec<KindStatus> {
        let state = self.lock();
        let now = Instant::now();
        let status = |(key, kind): (PoolKey, KindCounts)| KindStatus {
            engine: key.engine,
            mode: key.mode,
            preset: self.name(key),
            installed: !state.absent.contains(&key.engine),
            image_build: image_build(&state, key.engine, now),
            counts: kind,
            last_error: state.last_error(key),
        };
        state.kinds(usize::MAX, now).into_iter().map(status).collect()
    }

    /// Keeps the pool at its targets until the daemon stops. To be called once, after [`Pool::keep_unclaimed`]. It decides and
    /// hands on, and so never waits for the runtime.
    pub async fn run(&self) {
        loop {
            // A place that was kept for somebody may be another's now.
            self.hand_out();
            let wake_at = {
                let mut state = self.lock();
                if state.closed {
                    return;
                }
                let now = Instant::now();
                if state.runtime_up {
                    for action in plan(&self.view(&state, now)) {
                        self.begin(&mut state, action);
                    }
                }
                state.next_change(now)
            };
            let later = async {
                match wake_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.parts.changed.notified() => {}
                () = later => {}
            }
        }
    }

    /// Ends the queue, removes every worker that no session owns, and waits until all containers are gone, also those of starts
    /// whose answer was lost. `knows_sessions` says that no session of an earlier process may have a container that is in no table.
    pub async fn close(&self, knows_sessions: bool) {
        self.stop_leasing();
        let unowned = self.lock().unowned();
        for id in unowned {
            self.retire(&id);
        }
        loop {
            let emptied = self.parts.changed.notified();
            let (is_empty, is_away) = {
                let state = self.lock();
                (state.workers.is_empty(), state.runtime_is_away())
            };
            if is_empty {
                if knows_sessions && !is_away {
                    self.reconcile().await;
                }
                return;
            }
            // `notify_one` may have been taken by `run` on its way out; look again in a moment at the latest.
            let _ = timeout(Duration::from_millis(100), emptied).await;
        }
    }

    /// How many workers still have a container, as far as the pool knows.
    pub fn left(&self) -> usize {
        self.lock().workers.len()
    }

    /// Why no worker can be had while the runtime cannot be used.
    pub fn unavailable(&self) -> Error {
        self.lock().unavailable()
    }

    /// Ends the queue: callers that wait are answered `Draining`, and nothing new is handed out.
    pub fn stop_leasing(&self) {
        let waiters = self.lock().close();
        drop(waiters);
        self.parts.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // The table is changed in steps that do not panic half-way.
        self.parts.state.lock()
    }

    /// Enters an action in the table, and carries it out in a task of its own.
    fn begin(&self, state: &mut PoolState, action: Action) {
        match action {
            Action::Start(key) => {
                let (pool, id) = (self.clone(), state.add_starting(key));
                self.parts.drain.spawn(async move { pool.boot(id, key).await });
            }
            Action::Evict(key) => {
                if let Some(id) = state.evict(key) {
                    self.spawn_removal(id);
                }
            }
        }
    }

    fn view(&self, state: &PoolState, now: Instant) -> PlanInput {
        let limits = &self.parts.config;
        let callers = self.most_sessions().saturating_sub(state.leased());
        PlanInput {
            kinds: state.kinds(callers, now),
            max_workers: limits.pool.max_workers,
            start_concurrency: limits.pool.start_concurrency,
            refill: state.may_refill(now),
        }
    }

    /// How many sessions there may be at the same time.
    fn most_sessions(&self) -> usize {
        self.parts.config.session.max_sessions.min(self.parts.config.pool.max_workers)
    }

    /// Hands ready workers to waiting callers, and wakes the planner.
    fn settle(&self) {
        self.hand_out();
        self.parts.changed.notify_one();
    }

    fn hand_out(&self) {
        let mut handed = Vec::new();
        {
            let mut state = self.lock();
            while let Some((waiter, worker)) = state.match_waiter(self.most_sessions()) {
                handed.push((waiter, worker));
            }
        }
        // Outside the lock: a receiver that is gone drops the lease, and that takes the lock.
        for (waiter, worker) in handed {
            let _ = waiter.sender.send(Ok(Lease { pool: self.clone(), worker, used: false }));
        }
    }

    /// Takes a lease back: a worker that was never touched is warm still, any other is destroyed.
    fn give_back(&self, worker: &Arc<Worker>, used: bool) {
        let reusable = !used && worker.health() == Health::Alive;
        if reusable && self.lock().return_unused(worker) {
            self.settle();
        } else {
            self.retire(&worker.id);
        }
    }
}

fn targets(config: &Config, trusted: &Trusted) -> BTreeMap<PoolKey, Target> {
    let pool = &config.pool;
    let target = |engine, mode, count| {
        (trusted.plain(PoolKey::plain(engine, mode)), Target { count, optional: !config.needs_engine(engine) })
    };
    let kinds = [
        target(Engine::Chromium, Mode::Headed, pool.chromium_headed),
        target(Engine::Chromium, Mode::Headless, pool.chromium_headless),
        target(Engine::Firefox, Mode::Headed, pool.firefox_headed),
        target(Engine::Firefox, Mode::Headless, pool.firefox_headless),
        target(Engine::Webkit, Mode::Headed, pool.webkit_headed),
        target(Engine::Webkit, Mode::Headless, pool.webkit_headless),
    ];
    let presets = pool.presets.0.iter();
    let presets = presets.map(|preset| (trusted.kind(preset), Target { count: preset.target, optional: false }));
    kinds.into_iter().chain(presets).collect()
}

#[cfg(test)]
impl Pool {
    /// A pool whose container engine does not answer, and the folder of its data.
    fn without_engine() -> (Self, tempfile::TempDir) {
        use warmpool_config::{Flags, Host};
        use warmpool_store::Store;
        let data = tempfile::tempdir().unwrap();
        let env = [("WARMPOOL_DOCKER_HOST".to_owned(), format!("unix://{}/no-engine.sock", data.path().display()))];
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Arc::new(Config::resolve(None, env, &Flags::default(), &host).unwrap());
        let instance = Arc::new(Instance::load_or_create(data.path()).unwrap());
        let runtime = Runtime::new(Arc::clone(&config), "test".to_owned());
        let store = Store::memory();
        let extensions = Extensions::none(config.extensions.clone(), data.path(), store);
        (Self::new(config, instance, runtime, Drain::default(), extensions), data)
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn containers_are_nobodys_once_no_session_is_looked_for() {
        let (pool, data) = Pool::without_engine();
        let engine = UnixListener::bind(data.path().join("no-engine.sock")).unwrap();
        tokio::select! {
            () = pool.close(false) => {}
            asked = engine.accept() => panic!("they may be those of sessions: {asked:?}"),
        }
        tokio::select! {
            () = pool.close(true) => panic!("nobody looked for what an earlier process left"),
            asked = engine.accept() => drop(asked.unwrap()),
        }
    }
}
