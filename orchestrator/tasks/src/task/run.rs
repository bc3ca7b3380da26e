//! A run or an extract from its turn to its end.

use std::error::Error as _;
use std::sync::Arc;

use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use super::active::{ActiveTask, StopReason};
use super::attempt::{Attempt, WorkItem};
use super::lifecycle::TaskEnd;
use super::tasks::Tasks;
use crate::Error;
use warmpool_api::task::TaskError;
use warmpool_api::task::{Kind, Status};
use warmpool_core::blocking;
use warmpool_core::error::{Code, Fault as _, ServiceFault as _};
use warmpool_core::panics::contained;
use warmpool_core::trace::TRACES;

impl Tasks {
    /// Has a task carried out when its turn comes.
    pub(super) fn launch(&self, task: Arc<ActiveTask>) {
        let tasks = self.clone();
        let span = tracing::info_span!(
            target: TRACES,
            "task",
            warmpool.task = %task.id,
            warmpool.task.type = task.record().kind.as_str(),
            warmpool.task.status = Empty,
            otel.status_code = Empty,
            error.type = Empty,
        );
        task.place.adopt(&span);
        let work = async move {
            let running = async {
                match task.record().kind {
                    Kind::Fleet => tasks.run_fleet(&task).await,
                    Kind::Run | Kind::Extract => tasks.run_single(&task).await,
                }
            };
            let outcome = contained(running).await;
            match outcome.unwrap_or_else(|panicked| Err(Error::internal(panicked))) {
                Ok(()) => {}
                // The store is closed; the next process continues from its state.
                Err(error) if error.code() == Code::Draining => tasks.suspend(&task),
                Err(error) => {
                    tracing::error!(task = %task.id, %error, cause = ?error.source(), "a task failed");
                    let message = "an internal error: the log has the cause under this task's id";
                    let error = TaskError::new("internal", message);
                    tasks.finish(&task, TaskEnd::without_results(Status::Failure, error)).await;
                }
            }
            trace_end(&task);
        };
        self.inner.drain.spawn(work.instrument(span));
    }

    async fn run_single(&self, task: &ActiveTask) -> Result<(), Error> {
        let Some(mut turn) = self.inner.workers.turn(task).await else {
            self.leave_queue(task).await;
            return Ok(());
        };
        let record = task.record();
        let storage = &self.inner.storage;
        let spec = storage.read(task, || storage.spec(&record)).await?;
        let secrets = storage.read(task, || storage.secrets(task.id)).await?;
        let work = blocking::in_place(|| spec.parse_work())?;
        let item = WorkItem {
            spec: &spec,
            work: &work,
            values: spec.values(None, &secrets.values),
            state: secrets.state.as_ref(),
            index: None,
            room: record.room(),
        };
        let attempt = loop {
            // Before its first step it must be on the disk that it was begun: it may not be safe to repeat.
            let error = match self.attempt(task, &item, self.mark_running(task)).await? {
                Attempt::StoreUnavailable(error) => error,
                attempt => break attempt,
            };
            // Others may have the turn meanwhile.
            drop(turn);
            let next = match storage.wait_for_room(task, error).await {
                true => self.inner.workers.turn(task).await,
                false => None,
            };
            let Some(next) = next else {
                self.leave_queue(task).await;
                return Ok(());
            };
            turn = next;
        };
        match attempt {
            Attempt::Finished(results) => {
                let status = if results.error.is_some() { Status::Failure } else { Status::Success };
                task.change(|record| record.session_id = results.session);
                let end =
                    TaskEnd { status, error: results.error, output: results.output, artifacts: results.artifacts };
                self.finish(task, end).await;
            }
            Attempt::Stopped(StopReason::Interrupted) if !spec.safe_to_repeat => {
                self.finish(task, TaskEnd::interrupted()).await;
            }
            Attempt::Stopped(StopReason::Interrupted) | Attempt::NotBegun | Attempt::StoreUnavailable(_) => {
                self.mark_queued(task).await?;
                self.suspend(task);
            }
            Attempt::Stopped(reason) => self.finish(task, TaskEnd::cancelled(reason)).await,
        }
        Ok(())
    }

    /// Ends a queued task that was cancelled, or leaves it for the next process.
    async fn leave_queue(&self, task: &ActiveTask) {
        match task.stopped() {
            Some(StopReason::Interrupted) | None => self.suspend(task),
            Some(reason) => self.finish(task, TaskEnd::cancelled(reason)).await,
        }
    }
}

/// Writes how a task ended into its trace.
fn trace_end(task: &ActiveTask) {
    let (record, span) = (task.record(), Span::current());
    span.record("warmpool.task.status", record.status.as_str());
    if let Some(error) = &record.error {
        span.record("error.type", error.code.as_str());
        span.record("otel.status_code", "ERROR");
    }
}
