//! Forgetting the oldest tasks, with their items and files.

use std::collections::HashSet;
use std::time::Duration;

use super::table::Forgotten;
use super::tasks::Tasks;
use crate::Error;
use warmpool_core::clock::unix_ms;
use warmpool_core::drain::Phase;
use warmpool_core::ids::TaskId;

/// Time between two checks for tasks that are older, or more, than they may be.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Tasks forgotten at a time.
const PAGE: usize = 256;

impl Tasks {
    /// Forgets the oldest tasks beyond `tasks.keep` and `tasks.keep_for`, until the daemon stops.
    pub async fn sweep(&self) {
        if let Err(error) = self.inner.storage.remove_stray_files(|task| self.inner.table.active(task).is_some()).await
        {
            tracing::error!(%error, "files of forgotten tasks could not be removed");
        }
        loop {
            if let Err(error) = self.forget_old(unix_ms()).await {
                tracing::error!(%error, "old tasks could not be removed");
            }
            tokio::select! {
                () = self.inner.drain.reached(Phase::Draining) => return,
                () = tokio::time::sleep(SWEEP_EVERY) => {}
            }
        }
    }

    /// Forgets what has ended and is too old or too much, the oldest first. A task that has not ended stays, and keeps no other one.
    pub(super) async fn forget_old(&self, now: u64) -> Result<(), Error> {
        let limits = &self.inner.config.tasks;
        let age = u64::try_from(limits.keep_for.as_millis()).unwrap_or(u64::MAX);
        let mut surplus = self.inner.table.counts().2.saturating_sub(limits.keep);
        let mut after = None;
        // The keys with a task that has not ended.
        let mut going_on = HashSet::new();
        loop {
            let page = self.inner.storage.oldest(after, PAGE).await?;
            let mut old = Vec::new();
            for (owner, row) in &page {
                after = Some(row.id);
                if surplus == 0 && row.id.timestamp().saturating_add(age) >= now {
                    // So are all that come after it.
                    after = None;
                    break;
                }
                if row.status.is_end() {
                    surplus = surplus.saturating_sub(1);
                    old.push(Forgotten { owner, row, is_oldest: !going_on.contains(owner) });
                } else {
                    going_on.insert(owner.clone());
                }
            }
            let ids: Vec<TaskId> = old.iter().map(|task| task.row.id).collect();
            self.inner.storage.forget(&ids).await?;
            self.inner.table.forget(&old);
            if after.is_none() || page.len() < PAGE {
                return Ok(());
            }
        }
    }
}
