//! Forgetting the oldest tasks, their items and their files.

use std::time::Duration;

use super::id::TaskId;
use super::keep::Keep;
use super::table::Tasks;
use crate::clock::unix_ms;
use crate::drain::Phase;
use crate::error::Error;
use crate::keys::KeyId;
use crate::store::{Batch, Durability};

/// Between two looks for tasks that are older, or more, than they may be.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Tasks forgotten at a time.
const PAGE: usize = 256;

impl Tasks {
    /// Forgets the oldest tasks beyond `tasks.keep` and `tasks.keep_for`, until the daemon stops.
    pub(crate) async fn sweep(&self) {
        if let Err(error) = self.remove_strays().await {
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

    /// A task that has not ended holds the ones behind it: the history has no holes.
    async fn forget_old(&self, now: u64) -> Result<(), Error> {
        let limits = &self.inner.config.tasks;
        let age = u64::try_from(limits.keep_for.as_millis()).unwrap_or(u64::MAX);
        loop {
            let surplus = self.history().len().saturating_sub(limits.keep);
            let oldest = self.inner.keep.oldest(PAGE).await?;
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
            self.forget(old).await?;
            if !more {
                return Ok(());
            }
        }
    }

    async fn forget(&self, old: Vec<(KeyId, TaskId)>) -> Result<(), Error> {
        let ids: Vec<TaskId> = old.iter().map(|(_, id)| *id).collect();
        let mut batch = Batch::new();
        for record in self.inner.keep.records(&ids).await? {
            if !record.artifacts.is_empty()
                || matches!(record.output, super::record::Output::File { .. })
                || record.items.is_some()
            {
                // Files first: a record without its files tells so, files without a record would lie there for ever.
                self.inner.files.remove(record.task_id).await?;
            }
            if record.items.is_some() {
                self.inner.keep.forget(&record).await?;
                continue;
            }
            if !Keep::fits(&batch, usize::from(record.body_parts) + 4) {
                self.inner.keep.commit(std::mem::take(&mut batch), Durability::Process).await?;
            }
            Keep::delete(&mut batch, &record);
        }
        self.inner.keep.commit(batch, Durability::Process).await?;
        // One call a key: the last of its tasks, and all before it.
        let mut last: std::collections::HashMap<KeyId, TaskId> = std::collections::HashMap::new();
        for (owner, id) in old {
            last.insert(owner, id);
        }
        let mut history = self.history();
        for (owner, id) in last {
            history.forget_through(&owner, id);
        }
        Ok(())
    }

    /// Removes folders whose tasks are gone, as a crash between two steps of forgetting leaves them.
    async fn remove_strays(&self) -> Result<(), Error> {
        for task in self.inner.files.tasks().await? {
            if !self.live_table().contains_key(&task) && self.inner.keep.record(task).await?.is_none() {
                self.inner.files.remove(task).await?;
            }
        }
        Ok(())
    }
}
