//! The daemon's phases, and the tasks that must end before it does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

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

    /// Runs `task` on its own, and counts it until its output is taken or dropped: what nobody took may be given back by another task.
    pub fn spawn<F>(&self, task: F) -> DrainTask<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let token = self.tracker.token();
        // The runtime drops an output that nobody waits for, and its parts in their order.
        DrainTask(tokio::spawn(async move { (task.await, token) }))
    }

    /// Waits until every counted task has ended.
    pub async fn finished(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// A task that the daemon's end waits for. Waiting for it returns its output; dropping it leaves it alone.
#[derive(Debug)]
pub struct DrainTask<T>(JoinHandle<(T, TaskTrackerToken)>);

impl<T> DrainTask<T> {
    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl<T> Future for DrainTask<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map_ok(|(output, _)| output)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// What is given back by a task of its own, such as a container that nobody has taken.
    struct Container(Drain, Arc<AtomicBool>);

    impl Drop for Container {
        fn drop(&mut self) {
            let is_removed = Arc::clone(&self.1);
            self.0.spawn(async move {
                tokio::task::yield_now().await;
                is_removed.store(true, Ordering::SeqCst);
            });
        }
    }

    #[tokio::test]
    async fn the_end_waits_for_what_gives_back_an_output_that_nobody_took() {
        let (drain, is_removed) = (Drain::default(), Arc::new(AtomicBool::new(false)));
        let container = Container(drain.clone(), Arc::clone(&is_removed));
        drop(drain.spawn(async move {
            tokio::task::yield_now().await;
            container
        }));
        drain.finished().await;
        assert!(is_removed.load(Ordering::SeqCst));
        assert_eq!(drain.spawn(async { 7 }).await.unwrap(), 7);
    }
}
