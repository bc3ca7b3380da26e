//! Room for what tasks keep: where there is none left, the oldest that have ended give way.

use super::active::ActiveTask;
use super::record::Record;
use super::sizes::{Claim, Full};
use super::storage::NewFile;
use super::tasks::Tasks;
use crate::Error;
use warmpool_core::ids::TaskId;
use warmpool_keys::KeyId;
use warmpool_store::carry_out;

impl Tasks {
    /// Writes a file of a task. Returns its hash.
    /// Errors: `TaskLimit` where it has no room; `DiskNearlyFull` when the task was stopped while it waited for the disk.
    pub(super) async fn put_file(&self, task: &ActiveTask, bytes: Vec<u8>) -> Result<String, Error> {
        let (storage, file) = (&self.inner.storage, NewFile::new(bytes).await?);
        if !storage.has_file(task.id, &file).await? {
            let room = storage.read(task, || self.room(&task.owner, task.id, file.on_disk())).await?;
            if storage.put_file(task, &file).await? {
                let kept = room.keep();
                task.change(|record| record.kept_bytes += kept);
            }
        }
        Ok(file.hash)
    }

    /// Counts what a task that has not ended keeps in any case, in bytes.
    pub(super) fn keep(&self, task: &ActiveTask, bytes: u64) {
        self.inner.sizes.add(&task.owner, task.id, bytes);
        task.change(|record| record.kept_bytes += bytes);
    }

    /// Room for so many bytes of a task. Of what its key's tasks keep, or all if that is too much, the oldest give way.
    /// Errors: `TaskLimit`; `StoreBusy` when one that is to give way could not be removed.
    pub(super) async fn room<'a>(&'a self, owner: &'a KeyId, task: TaskId, bytes: u64) -> Result<Claim<'a>, Error> {
        loop {
            let Full { share, limit, oldest } = match self.inner.sizes.claim(owner, task, bytes) {
                Ok(claim) => return Ok(claim),
                Err(full) => full,
            };
            let Some((owner, oldest)) = oldest else { return Err(Error::TaskLimit { share, limit }) };
            self.give_way(owner, oldest, share.setting()).await?;
        }
    }

    /// Forgets the oldest tasks of what is more than may be kept.
    /// Errors: `StoreBusy`.
    pub(super) async fn forget_surplus(&self) -> Result<(), Error> {
        while let Some((owner, oldest)) = self.inner.sizes.surplus() {
            self.give_way(owner, oldest, "tasks.keep_size").await?;
        }
        Ok(())
    }

    async fn give_way(&self, owner: KeyId, task: TaskId, setting: &'static str) -> Result<(), Error> {
        tracing::info!(%task, key = %owner, setting, "a task is forgotten to make room");
        self.forget_ended(owner, task).await?;
        Ok(())
    }

    /// Removes a task that has ended, with its items and files. Returns its record as it was, if it was still there.
    /// Errors: `StoreBusy`.
    pub(super) async fn forget_ended(&self, owner: KeyId, id: TaskId) -> Result<Option<Record>, Error> {
        let tasks = self.clone();
        let forget = async move {
            let _turn = tasks.inner.forgetting.lock().await;
            let record = tasks.inner.storage.record(id).await?;
            tasks.inner.storage.forget(&[id]).await?;
            if let Some(record) = &record {
                tasks.inner.table.forget(&[(record.owner.clone(), record.index_row())]);
            }
            tasks.inner.sizes.forget(&owner, id);
            Ok(record)
        };
        carry_out(forget).await
    }
}
