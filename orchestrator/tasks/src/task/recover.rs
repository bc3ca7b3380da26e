//! The tasks of an earlier process, which this one resumes or ends; and those of this process when it drains.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::active::{ActiveTask, StopReason};
use super::doubt;
use super::lifecycle::TaskEnd;
use super::tasks::Tasks;
use crate::Error;
use warmpool_api::task::{Status, TaskKind};
use warmpool_core::drain::Phase;
use warmpool_core::error::ServiceFault as _;
use warmpool_core::ids::TaskId;

/// Time between two checks whether a running task has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long interrupted tasks may take to say so.
const INTERRUPTION: Duration = Duration::from_secs(10);

impl Tasks {
    /// Makes the index of the history, and finds the tasks that have not ended. They do not run before
    /// [`Tasks::resume`].
    /// Fails when the store cannot be read.
    pub async fn load(&self) -> Result<(), Error> {
        let rows = self.inner.storage.index().await?;
        let open: HashSet<TaskId> =
            rows.iter().filter(|(_, row)| !row.status.is_end()).map(|(_, row)| row.id).collect();
        let sizes = self.inner.storage.sizes().await?;
        // Building an index of a million rows takes a moment that other tasks of the runtime should not wait for.
        let tasks = self.clone();
        let build = move || {
            tasks.inner.table.load(&rows);
            tasks.inner.sizes.load(sizes, &open);
            open
        };
        let open = tokio::task::spawn_blocking(build).await.map_err(Error::internal)?;
        let went_back = self.inner.storage.went_back().await?;
        for task in open {
            let Some(mut record) = self.inner.storage.record(task).await? else { continue };
            if went_back {
                doubt::mark(&mut record);
            }
            self.inner.table.restore(record);
        }
        if went_back {
            self.settle_doubt().await;
        }
        Ok(())
    }

    /// Goes on with the tasks of an earlier process: queued ones run, fleets go on where they were, and those that were
    /// running, or may have run, end as interrupted unless they are safe to repeat. Those whose key was revoked meanwhile end unrun.
    pub fn resume(&self) {
        let mut left = self.inner.table.all_active();
        left.retain(|task| task.is_left());
        if !left.is_empty() {
            tracing::info!(tasks = left.len(), "going on with the tasks of an earlier process");
        }
        left.into_iter().for_each(|task| self.go_on(task));
    }

    /// Goes on with a task that an earlier process left, unless somebody does. One that was stopped meanwhile only ends, so
    /// this need not wait for workers.
    pub(super) fn go_on(&self, task: Arc<ActiveTask>) {
        if !task.take_up() {
            return;
        }
        task.stop_if_revoked(&self.inner.keys);
        let record = task.record();
        if record.status == Status::Queued && !record.may_have_run || record.kind == TaskKind::Fleet {
            self.launch(task);
            return;
        }
        // Each in its own: one that waits for the store delays no other.
        let tasks = self.clone();
        self.inner.drain.spawn(async move { tasks.resume_begun(task).await });
    }

    /// Goes on with a run or extract that was running, or may have run.
    async fn resume_begun(&self, task: Arc<ActiveTask>) {
        let record = task.record();
        if record.status == Status::Queued {
            self.finish(&task, TaskEnd::without_results(Status::Failure, doubt::may_have_run())).await;
            return;
        }
        if !record.safe_to_repeat {
            self.finish(&task, TaskEnd::interrupted()).await;
            return;
        }
        match self.mark_queued(&task).await {
            Ok(()) => self.launch(task),
            Err(error) => {
                tracing::error!(task = %task.id, %error, "a task could not be resumed");
                self.suspend(&task);
            }
        }
    }

    /// Lets running tasks end until `deadline`, then interrupts them. Queued ones stay for the next process.
    pub async fn drain(&self, deadline: Duration) {
        let running = || -> Vec<Arc<ActiveTask>> {
            let mut tasks = self.inner.table.all_active();
            // One that an earlier process left, and nobody went on with, stays as it is.
            tasks.retain(|task| task.status() == Status::Running && !task.is_left());
            tasks
        };
        let all_ended = async {
            while let Some(task) = running().first() {
                tokio::select! {
                    () = task.ended() => {}
                    () = sleep(LOOK) => {}
                }
            }
        };
        if timeout(deadline, all_ended).await.is_err() {
            let left = running();
            left.iter().for_each(|task| task.stop(StopReason::Interrupted));
            let all = futures_util::future::join_all(left.iter().map(|task| task.ended()));
            if timeout(INTERRUPTION, all).await.is_err() {
                tracing::error!("not every task could be interrupted; the next start will find them");
            }
        }
        debug_assert!(self.inner.drain.phase() >= Phase::Draining, "new tasks are refused by now");
    }
}
