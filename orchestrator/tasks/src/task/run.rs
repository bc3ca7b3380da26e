//! A run or an extract from its turn to its end.

use std::error::Error as _;
use std::sync::Arc;

use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use super::active::{ActiveTask, StopReason};
use super::attempt::{Attempt, WorkItem};
use super::lifecycle::TaskEnd;
use super::tasks::Tasks;
use super::turns::Place;
use crate::Error;
use warmpool_api::task::TaskError;
use warmpool_api::task::{Status, TaskKind};
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
                    TaskKind::Fleet => tasks.run_fleet(&task).await,
                    TaskKind::Run | TaskKind::Extract => tasks.run_single(&task).await,
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
        let mut place = Place::of_task();
        loop {
            self.inner.workers.turn(task, &mut place).await;
            if !place.has_turn() {
                break;
            }
            let Some(shortage) = self.use_turn(task, &mut place).await? else { return Ok(()) };
            // Others may have the turn meanwhile.
            place.give_back();
            if task.status() == Status::Running {
                self.mark_queued(task).await?;
            }
            if shortage.is_shortage() {
                if !self.inner.storage.wait_for_room(task, shortage).await {
                    break;
                }
            } else {
                task.show_waiting(TaskError::new(shortage.code().as_str(), shortage.to_string()));
            }
        }
        self.leave_queue(task).await;
        Ok(())
    }

    /// Carries out a run or an extract that has its turn. What it needs is read at each turn, so that those who wait for another one
    /// keep none of it in memory. Returns the shortage for which it has not begun.
    async fn use_turn(&self, task: &ActiveTask, place: &mut Place) -> Result<Option<Error>, Error> {
        let record = task.record();
        let storage = &self.inner.storage;
        let spec = storage.read(task, || storage.spec(&record)).await?;
        if let Err(in_use) = self.inner.workers.claim_profile(task, place, &spec) {
            return Ok(Some(in_use));
        }
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
        // Before its first step it must be on the disk that it was begun: it may not be safe to repeat.
        match self.attempt(task, place, &item, self.mark_running(task)).await? {
            Attempt::NoSession(error) | Attempt::StoreUnavailable(error) => return Ok(Some(error)),
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
            Attempt::Stopped(StopReason::Interrupted) | Attempt::NotBegun => {
                self.mark_queued(task).await?;
                self.suspend(task);
            }
            Attempt::Stopped(reason) => self.finish(task, TaskEnd::cancelled(reason)).await,
        }
        Ok(None)
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
