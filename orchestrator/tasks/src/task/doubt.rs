//! Doubt about tasks: where the data went back to an older state, a task that had not begun by then may have run since. Unless it is
//! safe to repeat, it ends unrun, as one that was running does, and a fleet's items do.

use std::sync::Arc;

use super::active::ActiveTask;
use super::fleet::OpenItem;
use super::record::Record;
use super::spec::FleetRules;
use super::storage::{put_item, put_record};
use super::tasks::Tasks;
use crate::Error;
use warmpool_api::task::{ItemCounts, Status, TaskError};
use warmpool_store::{Batch, Durability};

/// Records or items that are written at a time: each may be as large as a value can be.
const PAGE: usize = 64;

/// The error of a task or an item that may have run.
pub(super) fn may_have_run() -> TaskError {
    TaskError::new(
        "interrupted",
        "the service went back to an older state of its data, in which this had not begun, so whether it ran is not known: look what \
         it did, and send it again, or mark it safe_to_repeat",
    )
}

/// Marks a task of an older state.
pub(super) fn mark(record: &mut Record) {
    record.may_have_run |= !record.safe_to_repeat;
}

impl Tasks {
    /// Writes down which tasks may have run, so that later starts know it too, and that the older state is dealt with. Where the
    /// store refuses, the next start does it.
    pub(super) async fn settle_doubt(&self) {
        let mut doubtful = self.inner.table.all_active();
        doubtful.retain(|task| task.record().may_have_run);
        tracing::warn!(
            tasks = doubtful.len(),
            "the data went back to an older state; tasks that may have run since are not run again"
        );
        if let Err(error) = self.write_doubt(&doubtful).await {
            tracing::error!(%error, "which tasks may have run was not written down");
        }
    }

    async fn write_doubt(&self, doubtful: &[Arc<ActiveTask>]) -> Result<(), Error> {
        for tasks in doubtful.chunks(PAGE) {
            let mut batch = Batch::new();
            for task in tasks {
                put_record(&mut batch, &task.record())?;
            }
            batch.essential();
            self.inner.storage.commit(batch, Durability::Process).await?;
        }
        let mut batch = Batch::new();
        batch.settle_going_back().essential();
        self.inner.storage.commit(batch, Durability::Power).await
    }

    /// Ends the items of a fleet that may have been carried out.
    pub(super) async fn end_doubtful(
        &self,
        task: &ActiveTask,
        rules: &FleetRules,
        items: &mut [Option<OpenItem>],
        counts: &mut ItemCounts,
    ) -> Result<(), Error> {
        for items in items.chunks_mut(PAGE) {
            let (mut batch, mut bytes) = (Batch::new(), 0);
            for item in items.iter_mut().filter_map(Option::take) {
                let mut item = item.into_item(rules);
                item.status = Status::Failure;
                item.error = Some(may_have_run());
                bytes += put_item(&mut batch, task.id, &item)?;
                counts.moved(Status::Queued, Status::Failure);
            }
            if !batch.is_empty() {
                self.inner.storage.write(task, batch, Durability::Process).await?;
                self.keep(task, bytes);
            }
        }
        Ok(())
    }
}
