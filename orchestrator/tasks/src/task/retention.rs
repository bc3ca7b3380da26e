//! Forgetting the oldest tasks, with their items and files.

use std::time::Duration;

use super::tasks::Tasks;
use crate::Error;
use warmpool_core::clock::unix_ms;
use warmpool_core::drain::Phase;
use warmpool_core::ids::TaskId;
use warmpool_keys::KeyId;

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

    /// A task that has not ended keeps all that came after it: the history has no holes.
    async fn forget_old(&self, now: u64) -> Result<(), Error> {
        let limits = &self.inner.config.tasks;
        let age = u64::try_from(limits.keep_for.as_millis()).unwrap_or(u64::MAX);
        loop {
            let surplus = self.inner.table.counts().2.saturating_sub(limits.keep);
            let oldest = self.inner.storage.oldest(PAGE).await?;
            let full = oldest.len() == PAGE;
            let old: Vec<(KeyId, TaskId)> = oldest
                .into_iter()
                .enumerate()
                .take_while(|(rank, (_, entry))| {
                    let too_old = entry.id.timestamp().saturating_add(age) < now;
                    entry.status.is_end() && (*rank < surplus || too_old)
                })
                .map(|(_, (owner, entry))| (owner, entry.id))
                .collect();
            if old.is_empty() {
                return Ok(());
            }
            let more = full && old.len() == PAGE;
            let ids: Vec<TaskId> = old.iter().map(|(_, id)| *id).collect();
            self.inner.storage.forget(&ids).await?;
            self.inner.table.forget(old);
            if !more {
                return Ok(());
            }
        }
    }
}
