//! Writing and reading however long the store takes. A task that waits for the store says so in its record. It neither
//! goes on as if it had been written, nor fails because a disk is full.

use std::time::Duration;
use warmpool_core::error::{Code, Fault as _, ServiceError};

use tokio::time::sleep;

use super::{NewFile, TaskStorage};
use crate::Error;
use crate::task::active::{ActiveTask, TaskEvent};
use warmpool_api::task::TaskError;
use warmpool_core::drain::Phase;
use warmpool_store::{Batch, Durability, StoreError};

/// Time between two checks whether there is room again, and between two attempts to read.
const RETRY: Duration = Duration::from_millis(500);

impl TaskStorage {
    /// Writes what must not be lost: tries until the store has taken it.
    /// Errors: the store is closed or broken, or will never take this. Nothing was written.
    pub(in crate::task) async fn write(
        &self,
        task: &ActiveTask,
        mut batch: Batch,
        durability: Durability,
    ) -> Result<(), Error> {
        batch.essential();
        let waiting = |error: &StoreError| show_waiting(task, error.is_full(), error);
        self.store.commit_with_retry(batch, durability, waiting).await?;
        self.clear_waiting(task);
        Ok(())
    }

    /// Reads what a task needs: tries until the store answers.
    /// Errors: the store is closed or broken, or what it has cannot be read.
    pub(in crate::task) async fn read<T, R>(&self, task: &ActiveTask, mut read: impl FnMut() -> R) -> Result<T, Error>
    where
        R: Future<Output = Result<T, Error>>,
    {
        loop {
            match read().await {
                Err(error) if error.code() == Code::StoreBusy => show_waiting(task, false, &error),
                outcome => {
                    if outcome.is_ok() {
                        self.clear_waiting(task);
                    }
                    return outcome;
                }
            }
            sleep(RETRY).await;
        }
    }

    /// Why the store takes no new work, if it is known not to.
    pub(in crate::task) fn shortage(&self) -> Option<Error> {
        self.store.shortage().map(Into::into)
    }

    /// Waits until the store takes new work. False when the task is stopped or the daemon goes down before.
    pub(in crate::task) async fn wait_for_room(&self, task: &ActiveTask, error: Error) -> bool {
        let mut shortage = Some(error);
        while let Some(error) = shortage {
            show_waiting(task, error.code() == Code::DiskNearlyFull, &error);
            tokio::select! {
                biased;
                () = task.stop_token().cancelled() => return false,
                () = self.drain.reached(Phase::Draining) => return false,
                () = sleep(RETRY) => {}
            }
            shortage = self.shortage();
        }
        self.clear_waiting(task);
        true
    }

    /// Writes a file, and waits for room if there is none: results are not thrown away. Returns whether the task did not have it.
    /// Errors: `DiskNearlyFull` when the task was stopped while it waited.
    pub(in crate::task) async fn put_file(&self, task: &ActiveTask, file: &NewFile) -> Result<bool, Error> {
        loop {
            let outcome = self.files.put(task.id, file.clone(), self.min_free).await;
            match &outcome {
                Ok(_) => self.clear_waiting(task),
                Err(error) if error.code() == Code::DiskNearlyFull => {
                    show_waiting(task, true, error);
                    tokio::select! {
                        biased;
                        () = task.stop_token().cancelled() => {}
                        () = sleep(RETRY) => continue,
                    }
                }
                Err(_) => {}
            }
            return outcome;
        }
    }

    /// Called when the store has taken something. If it takes new work, too, the task waits no longer.
    fn clear_waiting(&self, task: &ActiveTask) {
        if task.record().waiting.is_some() && self.shortage().is_none() {
            tracing::info!(task = %task.id, "a task waits no longer");
            task.notify(TaskEvent::status(task.change(|record| record.waiting = None)));
        }
    }
}

/// Shows in the record why a task waits. In memory only, because it is the store that takes nothing.
fn show_waiting(task: &ActiveTask, is_full: bool, cause: &dyn std::error::Error) {
    let error = if is_full { ServiceError::DiskNearlyFull } else { ServiceError::StoreBusy };
    if task.show_waiting(TaskError::new(error.code().as_str(), error.to_string())) {
        tracing::warn!(task = %task.id, %cause, "a task waits for the store");
    }
}
