//! The daemon's phases, and the tasks that must end before it does.

use std::future::Future;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// Where the daemon is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Looking for what an earlier process left, and filling the pool.
    Starting,
    /// Taking sessions.
    Serving,
    /// Taking no new sessions; the running ones may end.
    Draining,
    /// Serving nothing any more but probes: the sessions are left to the next start.
    Leaving,
    /// Ending what is left.
    Stopped,
}

/// Shared by everything that outlives one request.
#[derive(Debug, Clone)]
pub struct Drain {
    phase: Arc<watch::Sender<Phase>>,
    tracker: TaskTracker,
}

impl Default for Drain {
    fn default() -> Self {
        Self { phase: Arc::new(watch::Sender::new(Phase::Starting)), tracker: TaskTracker::new() }
    }
}

impl Drain {
    /// The phase now.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Goes on to `next`; phases never go back.
    pub fn advance(&self, next: Phase) {
        let moved = self.phase.send_if_modified(|phase| {
            let forward = next > *phase;
            if forward {
                *phase = next;
            }
            forward
        });
        if moved {
            tracing::info!(phase = ?next, "phase");
        }
    }

    /// Resolves once the phase is at least `phase`.
    pub async fn reached(&self, phase: Phase) {
        let mut receiver = self.phase.subscribe();
        // The sender lives as long as `self`, so this cannot fail.
        let _ = receiver.wait_for(|now| *now >= phase).await;
    }

    /// Runs `task` on its own, and counts it until it ends.
    pub fn spawn<F>(&self, task: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tracker.spawn(task)
    }

    /// Waits until every counted task has ended.
    pub async fn finished(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}
