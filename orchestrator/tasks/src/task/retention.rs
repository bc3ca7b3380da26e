//! Forgetting the oldest tasks, with their items and files.

use std::time::Duration;

use super::sizes::SizeRow;
use super::tasks::Tasks;
use crate::Error;
use warmpool_core::clock::Now;
use warmpool_core::drain::Phase;
use warmpool_core::ids::TaskId;

/// Time between two checks for tasks that are older, or more, than they may be.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Tasks forgotten at a time.
const PAGE: usize = 256;

impl Tasks {
    /// Forgets the oldest tasks beyond `tasks.keep`, `tasks.keep_for` and `tasks.keep_size`, until the daemon stops.
    pub async fn sweep(&self) {
        if let Err(error) = self.look_at_files().await {
            tracing::error!(%error, "files of forgotten tasks could not be removed, or those of others not be measured");
        }
        loop {
            let forgotten = match self.forget_old(Now::read().unix_ms_for_ages()).await {
                Ok(()) => self.forget_surplus().await,
                failed => failed,
            };
            if let Err(error) = forgotten {
                tracing::error!(%error, "old tasks could not be removed");
            }
            tokio::select! {
                () = self.inner.drain.reached(Phase::Draining) => return,
                () = tokio::time::sleep(SWEEP_EVERY) => {}
            }
        }
    }

    /// Removes the files of tasks that are gone, and measures those that nobody has counted: an earlier release wrote them, or a
    /// process that was killed before it could say so.
    pub(super) async fn look_at_files(&self) -> Result<(), Error> {
        let known = self.inner.sizes.known();
        for id in self.inner.storage.with_files().await? {
            let active = self.inner.table.active(id);
            if active.is_none() && known.contains(&id) {
                continue;
            }
            let _turn = self.inner.forgetting.lock().await;
            let owner = match &active {
                Some(task) => task.owner.clone(),
                None => match self.inner.storage.record(id).await? {
                    Some(record) => record.owner,
                    None => {
                        self.inner.storage.remove_files(id).await?;
                        continue;
                    }
                },
            };
            let row = SizeRow { id, owner, bytes: self.inner.storage.measure_files(id).await? };
            match &active {
                // Its own next write has it.
                Some(task) => drop(task.change(|record| record.kept_bytes = record.kept_bytes.max(row.bytes))),
                None => self.inner.storage.put_size(&row).await?,
            }
            self.inner.sizes.measured(row, active.is_none());
        }
        Ok(())
    }

    /// Forgets what has ended and is too old or too much, the oldest first. A task that has not ended stays, and keeps no other one.
    pub(super) async fn forget_old(&self, now: u64) -> Result<(), Error> {
        let limits = &self.inner.config.tasks;
        let age = u64::try_from(limits.keep_for.as_millis()).unwrap_or(u64::MAX);
        let mut surplus = self.inner.table.counts().2.saturating_sub(limits.keep);
        let mut after = None;
        loop {
            let page = self.inner.storage.oldest(after, PAGE).await?;
            let is_last = page.len() < PAGE;
            let mut old = Vec::new();
            for (owner, row) in page {
                after = Some(row.id);
                if surplus == 0 && row.id.timestamp().saturating_add(age) >= now {
                    // So are all that come after it.
                    after = None;
                    break;
                }
                if row.status.is_end() {
                    surplus = surplus.saturating_sub(1);
                    old.push((owner, row));
                }
            }
            let ids: Vec<TaskId> = old.iter().map(|(_, row)| row.id).collect();
            self.inner.storage.forget(&ids).await?;
            self.inner.table.forget(&old);
            old.iter().for_each(|(owner, row)| self.inner.sizes.forget(owner, row.id));
            if after.is_none() || is_last {
                return Ok(());
            }
        }
    }
}
