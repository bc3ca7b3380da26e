//! The workers that tasks may use: sessions for those whose turn it is, and when they give their turns back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::active::ActiveTask;
use super::spec::TaskSpec;
use super::task_session::TaskSession;
use super::turns::{KeyLimits, Place, Turns};
use crate::Error;
use crate::player::Browser;
use warmpool_config::Config;
use warmpool_core::drain::{Drain, Phase};
use warmpool_core::error::{Code, Fault};
use warmpool_keys::{KeyId, Keys};
use warmpool_sessions::session::{GivenState, Options, Session, Sessions};
use warmpool_workers::pool::Pool;

/// How long a task that has its turn keeps asking for a worker.
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
    /// One turn for each worker that tasks may use.
    turns: Turns,
    /// How many tasks are asking the pool for a worker.
    leasing: AtomicUsize,
}

/// What `session.max_per_key` and profiles leave to a key.
struct SessionLimits {
    max_per_key: usize,
    pool: Pool,
    sessions: Sessions,
}

impl KeyLimits for SessionLimits {
    fn room(&self, owner: &KeyId) -> usize {
        match self.max_per_key {
            0 => usize::MAX,
            most => most.saturating_sub(self.pool.held_by(owner)),
        }
    }

    fn is_written(&self, owner: &KeyId, profile: &str) -> bool {
        self.sessions.check_profile(owner, profile).is_err()
    }
}

/// Why a task whose turn it is has no session.
pub(super) enum NoSession {
    /// It asks again when it has its next turn. This one is of more use to others.
    ForNow(Error),
    Never(Error),
}

impl Workers {
    pub(super) fn new(config: Arc<Config>, keys: Keys, sessions: Sessions, pool: Pool, drain: Drain) -> Self {
        let max_per_key = config.session.max_per_key;
        let limits = SessionLimits { max_per_key, pool: pool.clone(), sessions: sessions.clone() };
        let turns = Turns::new(config.tasks.workers, limits, sessions.changes(), drain.clone());
        Self { config, keys, sessions, pool, drain, turns, leasing: AtomicUsize::new(0) }
    }

    /// Waits until it is the task's turn to have a worker. The place has no turn when the task is stopped or the daemon goes down
    /// before.
    pub(super) async fn turn(&self, task: &ActiveTask, place: &mut Place) {
        tokio::select! {
            biased;
            () = task.stop_token().cancelled() => {}
            () = self.drain.reached(Phase::Draining) => {}
            () = self.turns.take(task, place) => {}
        }
        task.stop_if_revoked(&self.keys);
        if task.stopped().is_some() {
            place.give_back();
        }
    }

    /// Takes the right to write the profile of a task that has its turn, so that no other task asks for it meanwhile.
    /// Errors: `ProfileInUse`. The next turn of the place comes when nobody writes the profile.
    pub(super) fn claim_profile(&self, task: &ActiveTask, place: &mut Place, spec: &TaskSpec) -> Result<(), Error> {
        let Some(profile) = spec.profile.as_ref().filter(|profile| profile.is_written()) else { return Ok(()) };
        let is_first = place.claim(&profile.name);
        self.sessions.check_profile(&task.owner, &profile.name)?;
        if is_first {
            return Ok(());
        }
        let in_use = warmpool_profiles::Error::ProfileInUse {
            name: profile.name.clone(),
            holder: "a session that is being made".to_owned(),
        };
        Err(warmpool_sessions::Error::from(in_use).into())
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

    /// Makes a session for a task that has its turn.
    pub(super) async fn session(
        &self,
        task: &ActiveTask,
        place: &mut Place,
        spec: &TaskSpec,
        state: Option<&GivenState>,
    ) -> Result<TaskSession, NoSession> {
        let options = Options { state: state.cloned(), ..spec.session(task.id, &self.config) };
        loop {
            let begun = Instant::now();
            let created = {
                let _counted = CountGuard::new(&self.leasing);
                tokio::select! {
                    () = task.stop_token().cancelled() => None,
                    created = self.sessions.create(task.owner.clone(), options.clone()) => Some(created),
                }
            };
            let error = match created {
                None => {
                    let stopped = warmpool_workers::Error::NoWorker { waited: Duration::ZERO };
                    return Err(NoSession::Never(warmpool_sessions::Error::from(stopped).into()));
                }
                Some(Ok(created)) => {
                    let session = created.confirm().map_err(|error| NoSession::Never(error.into()))?;
                    place.got_session();
                    return Ok(TaskSession::new(session));
                }
                Some(Err(error)) => error,
            };
            let shortage = Shortage::of(&error);
            if shortage == Some(Shortage::Own) {
                return Err(NoSession::ForNow(error.into()));
            }
            if shortage.is_none() || place.asked >= WORKER_TIMEOUT {
                place.asked = Duration::ZERO;
                return Err(NoSession::Never(error.into()));
            }
            tokio::select! {
                () = task.stop_token().cancelled() => {}
                () = sleep(RETRY) => {}
            }
            place.asked += begun.elapsed();
            // Another key may stand better with the pool, or want another kind of browser.
            if shortage == Some(Shortage::Partial) && self.turns.are_wanted(task, place) {
                return Err(NoSession::ForNow(error.into()));
            }
        }
    }

    /// The browser of a session, for tasks to drive.
    pub(super) fn browser(&self, session: &Arc<Session>) -> Browser {
        Browser::new(self.sessions.clone(), Arc::clone(session), Arc::clone(&self.config))
    }

    /// Whether a worker that a task has had since then should go to a client or to another task.
    pub(super) fn are_wanted(&self, task: &ActiveTask, place: &Place, since: Instant) -> bool {
        let client_waits = self.clients_waiting() > 0 && self.pool.is_full();
        client_waits || (since.elapsed() >= SLICE && self.turns.are_wanted(task, place))
    }

    #[cfg(test)]
    pub(super) const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// How many turns nobody has.
    #[cfg(test)]
    pub(super) fn free_turns(&self) -> usize {
        self.turns.free()
    }

    /// How many wait for a turn.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.turns.waiting()
    }

    /// How many others than tasks wait for a worker.
    fn clients_waiting(&self) -> usize {
        self.pool.waiting().saturating_sub(self.leasing.load(Ordering::Relaxed))
    }
}

/// Why a session that cannot be had now may be had a little later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shortage {
    /// Of what the key has: other keys may have a session.
    Own,
    /// Of workers of a kind, or for those who wait for one: others may have a session.
    Partial,
    /// Nobody has one.
    Total,
}

impl Shortage {
    fn of(error: &impl Fault) -> Option<Self> {
        match error.code() {
            Code::KeyLimit | Code::ProfileInUse => Some(Self::Own),
            Code::QueueFull | Code::NoWorker | Code::BrowserNotStarting | Code::WorkerFailed => Some(Self::Partial),
            Code::RuntimeDown | Code::Starting => Some(Self::Total),
            _ => None,
        }
    }
}

/// Whether it is for want of a worker, which may be available a little later.
pub(super) fn lacks_worker(error: &impl Fault) -> bool {
    Shortage::of(error).is_some()
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
