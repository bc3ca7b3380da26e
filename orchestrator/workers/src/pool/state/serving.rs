//! Whether the pool is warm, and whether it can serve.

use std::time::Duration;

use tokio::time::Instant;

use super::{FAILURES_TO_GIVE_UP, PoolState, PooledWorker, WorkerStage};
use crate::Error;
use warmpool_api::status::KindCounts;
use warmpool_core::browser::{Engine, PoolKey};
use warmpool_core::error::ServiceError;

/// How long a pool without a warm worker counts as able to serve.
#[derive(Debug, Clone, Copy)]
pub(in crate::pool) struct ProgressBounds {
    /// `pool.max_workers`.
    pub(in crate::pool) max_workers: usize,
    /// How long a start may take: `worker.ready_timeout`.
    pub(in crate::pool) patience: Duration,
}

impl PoolState {
    /// Whether every kind has what it is to keep, or had it for a moment: work that waited for the pool takes workers as they
    /// become warm, and has the pool make those that it waits for first. One that nobody asked for may fail without keeping
    /// the others up. Only workers that are known to live count: those of a runtime that has just come back may be gone.
    pub(in crate::pool) fn is_warm(&self, now: Instant) -> bool {
        let fails = |key: &PoolKey| self.backoffs.contains_key(key) || self.absent.contains(&key.engine);
        let is_optional = |key: &PoolKey| self.targets.get(key).is_some_and(|target| target.optional);
        let mut kinds = self.kinds(usize::MAX, now);
        kinds.retain(|key, kind| kind.target > 0 && !(fails(key) && is_optional(key)));
        let wanted: usize = kinds.values().map(|kind| kind.target).sum();
        let all_made = wanted > 0 && self.made >= wanted && !kinds.keys().any(fails);
        all_made || kinds.iter().all(|(key, kind)| self.alive(Some(*key)) >= kind.target)
    }

    /// How many workers, of one kind or of all, are warm or leased and known to live.
    fn alive(&self, key: Option<PoolKey>) -> usize {
        let of_key = |entry: &&PooledWorker| key.is_none_or(|key| entry.key == key);
        let lives = |entry: &&PooledWorker| match &entry.stage {
            WorkerStage::Ready(worker) | WorkerStage::Leased(_, worker) => worker.is_alive(),
            WorkerStage::Starting { .. } | WorkerStage::Removing => false,
        };
        self.workers.values().filter(of_key).filter(lives).count()
    }

    /// Whether a caller can have a worker, now or as soon as the next one is warm. One kind that has none for a moment
    /// behind a hand-out does not make it false; the loss of all workers does, until the pool is warm again, and so does a
    /// pool that comes no further.
    pub(in crate::pool) fn can_serve(&mut self, now: Instant, bounds: ProgressBounds) -> bool {
        if !self.warmed && self.is_warm(now) {
            let on_demand = self.targets.values().all(|target| target.count == 0);
            let installed = self.absent.len() < Engine::ALL.len();
            self.warmed = if on_demand { installed } else { self.made > 0 || self.alive(None) > 0 };
        }
        self.runtime_up && self.warmed && self.has_or_makes(now, bounds)
    }

    /// Whether a worker is warm, or the next one makes progress; also where none is to be made, because none is wanted or
    /// sessions have all that there may be.
    fn has_or_makes(&self, now: Instant, bounds: ProgressBounds) -> bool {
        let warm = |entry: &PooledWorker| entry.ready().is_some_and(|worker| worker.is_alive());
        if self.workers.values().any(warm) || self.leased() >= bounds.max_workers {
            return true;
        }
        let kinds = self.kinds(usize::MAX, now);
        let is_owed = |(key, kind): &(&PoolKey, &KindCounts)| {
            kind.target + kind.waiting > 0 && !self.absent.contains(&key.engine)
        };
        let mut owed = kinds.iter().filter(is_owed).map(|(key, _)| key).peekable();
        let gives_up =
            |key: &PoolKey| self.backoffs.get(key).is_some_and(|backoff| backoff.failures >= FAILURES_TO_GIVE_UP);
        let moves = now.saturating_duration_since(self.moved) < bounds.patience;
        owed.peek().is_none() || (moves && owed.any(|key| !gives_up(key)))
    }

    /// Why no worker can be had while the runtime cannot be used.
    pub(in crate::pool) fn unavailable(&self) -> Error {
        if self.runtime_failed && !self.runtime_up {
            Error::Service(ServiceError::RuntimeDown)
        } else {
            Error::Service(ServiceError::Starting)
        }
    }

    /// Records that the runtime cannot be used any more. Returns whether it could be until now.
    pub(in crate::pool) fn runtime_went(&mut self) -> bool {
        self.runtime_failed = true;
        self.cool();
        std::mem::replace(&mut self.runtime_up, false)
    }

    /// Whether the runtime was lost and is not back.
    pub(in crate::pool) const fn runtime_is_away(&self) -> bool {
        self.runtime_failed && !self.runtime_up
    }

    /// Records that a container ended by itself. If it was the last one, the runtime may have been away.
    pub(in crate::pool) fn lost_a_container(&mut self) {
        if self.alive(None) == 0 {
            self.cool();
        }
    }

    /// Requires the pool to become warm anew.
    pub(in crate::pool) fn cool(&mut self) {
        self.warmed = false;
        self.made = 0;
    }
}
