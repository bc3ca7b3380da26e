//! The workers that tasks may use: whose turn it is, and sessions for those whose turn it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};

use super::active::ActiveTask;
use super::spec::TaskSpec;
use crate::Error;
use crate::player::Browser;
use warmpool_config::Config;
use warmpool_core::drain::{Drain, Phase};
use warmpool_core::error::{Code, Fault};
use warmpool_keys::Keys;
use warmpool_sessions::session::{GivenState, Options, Session, Sessions};
use warmpool_workers::pool::Pool;

/// How long a task keeps asking for a worker.
const WORKER_TIMEOUT: Duration = Duration::from_secs(600);
/// Time between two such questions.
const RETRY: Duration = Duration::from_secs(1);
/// How long an item of a fleet lets clients that wait go first. From then on it waits as they do: where somebody always waits, it
/// would never be carried out.
const GIVE_WAY: Duration = Duration::from_secs(5);
/// Time between two checks whether clients still wait.
const YIELD: Duration = Duration::from_millis(50);
/// How long a fleet has a worker before other tasks that wait get it: with less, more time would go into new browsers
/// than into work.
const SLICE: Duration = Duration::from_secs(2);

pub(super) struct Workers {
    config: Arc<Config>,
    keys: Keys,
    sessions: Sessions,
    pool: Pool,
    drain: Drain,
    /// One permit for each worker that tasks may use.
    permits: Arc<Semaphore>,
    /// How many workers tasks wait for their turn to have.
    queueing: AtomicUsize,
    /// How many tasks are asking the pool for a worker.
    leasing: AtomicUsize,
}

impl Workers {
    pub(super) fn new(config: Arc<Config>, keys: Keys, sessions: Sessions, pool: Pool, drain: Drain) -> Self {
        let permits = Arc::new(Semaphore::new(config.tasks.workers));
        let (queueing, leasing) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { config, keys, sessions, pool, drain, permits, queueing, leasing }
    }

    /// Waits until it is the task's turn to have a worker. `None` when it is stopped or the daemon goes down before.
    pub(super) async fn turn(&self, task: &ActiveTask) -> Option<OwnedSemaphorePermit> {
        let _counted = (CountGuard::new(&self.queueing), CountGuard::new(&task.queueing));
        let turn = tokio::select! {
            biased;
            () = task.stop_token().cancelled() => None,
            () = self.drain.reached(Phase::Draining) => None,
            permit = Arc::clone(&self.permits).acquire_owned() => permit.ok(),
        };
        task.stop_if_revoked(&self.keys);
        turn.filter(|_| task.stopped().is_none())
    }

    /// Lets clients that wait for a worker go first, for a while. A fleet calls it before its turn: meanwhile other tasks have theirs.
    pub(super) async fn give_way(&self, task: &ActiveTask) {
        let until = Instant::now() + GIVE_WAY;
        while self.clients_waiting() > 0 && Instant::now() < until {
            tokio::select! {
                () = task.stop_token().cancelled() => return,
                () = self.drain.reached(Phase::Draining) => return,
                () = sleep(YIELD) => {}
            }
        }
    }

    /// Makes a session.
    pub(super) async fn session(
        &self,
        task: &ActiveTask,
        spec: &TaskSpec,
        state: Option<&GivenState>,
    ) -> Result<Arc<Session>, Error> {
        let options = Options { state: state.cloned(), ..spec.session(task.id, &self.config) };
        let deadline = Instant::now() + WORKER_TIMEOUT;
        loop {
            let created = {
                let _counted = CountGuard::new(&self.leasing);
                tokio::select! {
                    () = task.stop_token().cancelled() => None,
                    created = self.sessions.create(task.owner.clone(), options.clone()) => Some(created),
                }
            };
            match created {
                None => {
                    let stopped = warmpool_workers::Error::NoWorker { waited: Duration::ZERO };
                    return Err(warmpool_sessions::Error::from(stopped).into());
                }
                Some(Ok(created)) => return Ok(created.confirm()?),
                Some(Err(error)) if is_shortage(&error) && Instant::now() < deadline => {}
                Some(Err(error)) => return Err(error.into()),
            }
            tokio::select! {
                () = task.stop_token().cancelled() => {}
                () = sleep(RETRY) => {}
            }
        }
    }

    /// The browser of a session, for tasks to drive.
    pub(super) fn browser(&self, session: &Arc<Session>) -> Browser {
        Browser::new(self.sessions.clone(), Arc::clone(session), Arc::clone(&self.config))
    }

    /// Whether a worker that a task has had since then should go to a client or to another task.
    pub(super) fn are_wanted(&self, task: &ActiveTask, since: Instant) -> bool {
        let client_waits = self.clients_waiting() > 0 && self.pool.is_full();
        let others_wait = self.queueing.load(Ordering::Relaxed) > task.queueing.load(Ordering::Relaxed);
        client_waits || (since.elapsed() >= SLICE && others_wait)
    }

    /// How many others than tasks wait for a worker.
    fn clients_waiting(&self) -> usize {
        self.pool.waiting().saturating_sub(self.leasing.load(Ordering::Relaxed))
    }
}

/// Whether a worker may be available a little later.
pub(super) fn is_shortage(error: &impl Fault) -> bool {
    matches!(
        error.code(),
        Code::QueueFull
            | Code::KeyLimit
            | Code::NoWorker
            | Code::BrowserNotStarting
            | Code::RuntimeDown
            | Code::Starting
            | Code::WorkerFailed
            | Code::ProfileInUse
    )
}

/// Adds one to a count while it exists.
struct CountGuard<'a>(&'a AtomicUsize);

impl<'a> CountGuard<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
