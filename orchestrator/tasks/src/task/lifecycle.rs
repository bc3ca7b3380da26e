//! The changes of a task's status. Each is in the store before anybody hears of it.

use super::active::{ActiveTask, StopReason, TaskEvent};
use super::record::{ArtifactRecord, Output, Record};
use super::storage::put_record;
use super::tasks::Tasks;
use crate::Error;
use warmpool_api::task::Status;
use warmpool_api::task::TaskError;
use warmpool_core::clock::unix_ms;
use warmpool_store::{Batch, Durability};

/// How a task ended.
#[derive(Debug)]
pub(super) struct TaskEnd {
    pub(super) status: Status,
    pub(super) error: Option<TaskError>,
    pub(super) output: Output,
    pub(super) artifacts: Vec<ArtifactRecord>,
}

impl TaskEnd {
    /// An end without results.
    pub(super) fn without_results(status: Status, error: TaskError) -> Self {
        Self { status, error: Some(error), output: Output::default(), artifacts: Vec::new() }
    }

    pub(super) fn cancelled(reason: StopReason) -> Self {
        Self::without_results(Status::Cancelled, stop_error(reason))
    }

    pub(super) fn interrupted() -> Self {
        Self::without_results(Status::Failure, stop_error(StopReason::Interrupted))
    }
}

/// The error of a task or an item that was stopped.
pub(super) fn stop_error(reason: StopReason) -> TaskError {
    match reason {
        StopReason::Cancelled => TaskError::new("cancelled", "cancelled by request"),
        StopReason::KeyRevoked => TaskError::new("key_revoked", "its key was revoked"),
        StopReason::Interrupted => TaskError::new(
            "interrupted",
            "the service ended while it ran, so how far it came is not known: send it again, or mark it safe_to_repeat",
        ),
    }
}

fn batch_of(record: &Record) -> Result<Batch, Error> {
    let mut batch = Batch::new();
    put_record(&mut batch, record)?;
    Ok(batch)
}

impl Tasks {
    /// Writes down that a task runs now. Only once this is on the disk may it do anything.
    /// Errors: It is not on the disk, and nothing of the task has changed.
    pub(super) async fn mark_running(&self, task: &ActiveTask) -> Result<(), Error> {
        let record = Record { status: Status::Running, started_ms: Some(unix_ms()), ..task.record() };
        self.inner.storage.commit(batch_of(&record)?, Durability::Power).await?;
        self.publish(task, record.status, record.started_ms);
        Ok(())
    }

    /// Writes down that a task is queued again.
    /// Errors: the store is gone. There the task still runs, and the next process takes it for running.
    pub(super) async fn mark_queued(&self, task: &ActiveTask) -> Result<(), Error> {
        let record = Record { status: Status::Queued, started_ms: None, ..task.record() };
        self.inner.storage.write(task, batch_of(&record)?, Durability::Process).await?;
        self.publish(task, record.status, record.started_ms);
        Ok(())
    }

    /// Shows a status that has been written.
    fn publish(&self, task: &ActiveTask, status: Status, started_ms: Option<u64>) {
        let record = task.change(|record| (record.status, record.started_ms) = (status, started_ms));
        self.inner.table.update(&record);
        task.notify(TaskEvent::status(record));
    }

    /// Writes an end, then publishes it and removes the task from the table. If the store is gone before it has taken the
    /// end, the task is left for the next process, which ends or repeats it by what was written before.
    pub(super) async fn finish(&self, task: &ActiveTask, end: TaskEnd) {
        let mut record = task.record();
        record.status = end.status;
        record.error = end.error;
        record.output = end.output;
        record.artifacts = end.artifacts;
        record.waiting = None;
        record.ended_ms = Some(unix_ms().max(record.started_ms.unwrap_or(0)));
        let written = match batch_of(&record) {
            Ok(mut batch) => {
                let enclosed = self.enclose_end(&mut batch, &record);
                self.inner.storage.write(task, batch, Durability::Process).await.map(|()| enclosed)
            }
            Err(error) => Err(error),
        };
        match written {
            Ok(enclosed) => self.inner.webhooks.send(enclosed),
            Err(error) => {
                tracing::error!(task = %task.id, %error, "the end of a task was not written");
                self.suspend(task);
                return;
            }
        }
        task.change(|now| now.clone_from(&record));
        self.inner.table.end(&record);
        self.inner.sizes.end(&record.owner, record.task_id);
        let reason = record.error.as_ref().map_or("", |error| error.code.as_str());
        tracing::info!(task = %task.id, status = %record.status, reason, ms = record.execution_time(), "task ended");
        let labels = [("type", record.kind.as_str()), ("status", record.status.as_str())];
        metrics::counter!("warmpool_tasks_ended_total", &labels).increment(1);
        #[expect(clippy::cast_precision_loss, reason = "a metric")]
        metrics::histogram!("warmpool_task_seconds", "type" => record.kind.as_str())
            .record(record.execution_time() as f64 / 1000.0);
        task.notify(TaskEvent::status(record));
        task.set_ended();
    }

    /// Removes a task that the next process continues, and tells its followers that it has not ended.
    pub(super) fn suspend(&self, task: &ActiveTask) {
        tracing::info!(task = %task.id, "task left for the next start");
        self.inner.table.release(task.id);
        task.set_ended();
    }
}
