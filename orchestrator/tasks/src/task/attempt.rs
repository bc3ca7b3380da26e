//! One attempt at a piece of work: its session, the player's run in it, and the results on disk.

use std::sync::Arc;
use std::time::Duration;
use warmpool_core::error::{Code, Fault as _, ServiceFault as _};

use serde_json::Value;
use tokio::time::sleep;

use super::active::{ActiveTask, StopReason, TaskEvent};
use super::record::{ArtifactRecord, INLINE_OUTPUT, Output, other_error, task_error};
use super::record_room::RecordRoom;
use super::spec::TaskSpec;
use super::task_session::TaskSession;
use super::tasks::Tasks;
use super::turns::Place;
use super::workers::{NoSession, lacks_worker};
use crate::Error;
use crate::player::{Browser, Outcome, ProgressListener, execute};
use crate::script::{FailureCode, TaskWork, Values};
use warmpool_api::task::{Progress, ProgressEvent, TaskError};
use warmpool_core::ids::SessionId;
use warmpool_sessions::session::GivenState;
use warmpool_sessions::session::{Ending, Session};

/// How long to wait for the news of how a session ended.
const VERDICT: Duration = Duration::from_secs(3);

/// As long as the hash of a file.
const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What came of one attempt.
#[derive(Debug)]
pub(super) enum Attempt {
    /// It ran to an end of its own.
    Finished(AttemptResults),
    /// It did not begin, and may begin later: the daemon goes down.
    NotBegun,
    /// It did not begin, because the store could not take a note of its beginning or of its session.
    StoreUnavailable(Error),
    /// It did not begin for want of a session, and others may have the turn before it begins.
    NoSession(Error),
    /// It was stopped half-way.
    Stopped(StopReason),
}

/// What an attempt left.
#[derive(Debug)]
pub(super) struct AttemptResults {
    pub(super) session: Option<SessionId>,
    pub(super) error: Option<TaskError>,
    pub(super) output: Output,
    pub(super) artifacts: Vec<ArtifactRecord>,
}

impl AttemptResults {
    pub(super) fn failed(error: TaskError) -> Self {
        Self { session: None, error: Some(error), output: Output::default(), artifacts: Vec::new() }
    }
}

/// What the player made of a piece of work in a session, before it is on the disk.
pub(super) struct PlaybackResult {
    pub(super) outcome: Outcome,
    /// How the session ended, if that ended the work.
    lost: Option<Ending>,
}

/// A piece of work and what goes with it.
pub(super) struct WorkItem<'a> {
    pub(super) spec: &'a TaskSpec,
    pub(super) work: &'a TaskWork,
    pub(super) values: Values,
    /// What its browser begins with.
    pub(super) state: Option<&'a GivenState>,
    /// Its number, in a fleet.
    pub(super) index: Option<u32>,
    /// How much its record can hold of its results.
    pub(super) room: RecordRoom,
}

/// Passes progress on to those who follow the task.
struct ProgressEvents<'a> {
    task: &'a ActiveTask,
    item: Option<u32>,
}

impl ProgressListener for ProgressEvents<'_> {
    fn progress(&self, event: Progress) {
        if let (None, Progress::StepFinished { step, ms }) = (self.item, &event) {
            self.task.add_step_time(*step, *ms);
        }
        self.task.notify(TaskEvent::Progress(ProgressEvent { item: self.item, progress: event }));
    }
}

impl Tasks {
    /// One attempt at a piece of work whose turn it is, in a session of its own. The first step waits for `begun`, which
    /// runs while the session is made; if `begun` fails there is no first step.
    pub(super) async fn attempt(
        &self,
        task: &ActiveTask,
        place: &mut Place,
        item: &WorkItem<'_>,
        begun: impl Future<Output = Result<(), Error>>,
    ) -> Result<Attempt, Error> {
        if let Some(shortage) = self.inner.storage.shortage() {
            // No worker is used in vain.
            return Ok(Attempt::StoreUnavailable(shortage));
        }
        let session = async { Ok(self.session(task, place, item.spec, item.state).await) };
        let mut own = match tokio::try_join!(session, begun) {
            Ok((Ok(own), ())) => own,
            Ok((Err(attempt), ())) => return Ok(attempt),
            Err(error) if error.is_shortage() => return Ok(Attempt::StoreUnavailable(error)),
            Err(error) => return Err(error),
        };
        let session = Arc::clone(own.session());
        let played = self.play(task, item, &session, &self.inner.workers.browser(&session)).await;
        own.note(played.outcome.failure.is_none());
        // The results may have to wait for room on the disk, and the worker must not wait with them.
        drop(own);
        self.conclude(task, item, &session, played).await
    }

    /// Carries a piece of work out in a session, and leaves the session open.
    pub(super) async fn play(
        &self,
        task: &ActiveTask,
        item: &WorkItem<'_>,
        session: &Session,
        browser: &Browser,
    ) -> PlaybackResult {
        let limits = item.spec.limits(&self.inner.config);
        let listener = ProgressEvents { task, item: item.index };
        let outcome = execute(item.work, &item.values, browser.clone(), &limits, &listener, task.stop_token()).await;
        let lost = match &outcome.failure {
            Some(failure) if failure.code == FailureCode::BrowserDied => {
                tokio::select! {
                    ending = session.ended() => Some(ending),
                    () = task.stop_token().cancelled() => None,
                    // The driver may know of no session where Warmpool still has one.
                    () = sleep(VERDICT) => None,
                }
            }
            _ => None,
        };
        PlaybackResult { outcome, lost }
    }

    /// Saves the results, unless the work was stopped.
    pub(super) async fn conclude(
        &self,
        task: &ActiveTask,
        item: &WorkItem<'_>,
        session: &Session,
        played: PlaybackResult,
    ) -> Result<Attempt, Error> {
        let PlaybackResult { outcome, lost } = played;
        let succeeded = outcome.failure.is_none();
        if let Some(stop) = task.stopped().filter(|_| !succeeded) {
            return Ok(Attempt::Stopped(stop));
        }
        if matches!(lost, Some(Ending::Drained)) {
            return Ok(Attempt::Stopped(StopReason::Interrupted));
        }
        match self.save_results(task, item, session.id.clone(), outcome).await {
            // It was stopped while it waited for room.
            Err(error) if error.code() == Code::DiskNearlyFull => {
                Ok(Attempt::Stopped(task.stopped().unwrap_or(StopReason::Interrupted)))
            }
            outcome => outcome.map(Attempt::Finished),
        }
    }

    /// A session for a spec, or the outcome of an attempt that gets none.
    pub(super) async fn session(
        &self,
        task: &ActiveTask,
        place: &mut Place,
        spec: &TaskSpec,
        state: Option<&GivenState>,
    ) -> Result<TaskSession, Attempt> {
        let error = match self.inner.workers.session(task, place, spec, state).await {
            Ok(own) => return Ok(own),
            Err(NoSession::ForNow(error)) => return Err(Attempt::NoSession(error)),
            Err(NoSession::Never(error)) => error,
        };
        Err(match (task.stopped(), error.code()) {
            (Some(StopReason::Interrupted), _) | (None, Code::Draining) => Attempt::NotBegun,
            (Some(stop), _) => Attempt::Stopped(stop),
            (None, Code::InvalidKey) => {
                task.stop(StopReason::KeyRevoked);
                Attempt::Stopped(StopReason::KeyRevoked)
            }
            (None, _) if error.is_shortage() => Attempt::StoreUnavailable(error),
            (None, code) => {
                let code = if lacks_worker(&error) { "no_worker" } else { code.as_str() };
                Attempt::Finished(AttemptResults::failed(other_error(code, error.to_string())))
            }
        })
    }

    /// Writes artifacts, and large output, into files.
    /// Errors: `DiskNearlyFull` when it was stopped while it waited for room.
    pub(super) async fn save_results(
        &self,
        task: &ActiveTask,
        item: &WorkItem<'_>,
        session: SessionId,
        outcome: Outcome,
    ) -> Result<AttemptResults, Error> {
        let named = |name: String| match item.index {
            Some(index) => format!("{index}-{name}"),
            None => name,
        };
        let mut error = outcome.failure.map(|failure| task_error(failure, &outcome.artifacts));
        if let Some(error) = &mut error {
            error.screenshot = error.screenshot.take().map(named);
        }
        let mut room = item.room.without(&error);
        let mut artifacts = Vec::with_capacity(outcome.artifacts.len());
        let (mut left_out, mut full) = (0, None);
        for artifact in outcome.artifacts {
            let (name, bytes) = (named(artifact.name), artifact.bytes.len() as u64);
            let mut record = ArtifactRecord { name, media_type: artifact.media_type, bytes, hash: String::new() };
            if room.take(&(&record, NO_HASH)) {
                match self.put_file(task, artifact.bytes).await {
                    Err(error @ Error::TaskLimit { .. }) => full = Some(error),
                    hash => {
                        record.hash = hash?;
                        artifacts.push(record);
                    }
                }
            } else {
                left_out += 1;
            }
        }
        if left_out > 0 {
            let note = format!(
                "{left_out} of the artifacts are left out, because their names do not fit into the record: make fewer, or \
                 give them shorter names"
            );
            error = Some(incomplete(error, FailureCode::TooLarge.as_str(), note, &artifacts));
        }
        let output = match self.save_output(task, outcome.output, room).await {
            Err(error @ Error::TaskLimit { .. }) => {
                full = Some(error);
                Output::default()
            }
            output => output?,
        };
        if let Some(full) = full {
            let note = format!("not all results are kept: {full}");
            error = Some(incomplete(error, full.code().as_str(), note, &artifacts));
        }
        Ok(AttemptResults { session: Some(session), error, output, artifacts })
    }

    /// Result objects, in a file if they are large or the record has no room for them.
    /// Errors: `TaskLimit` where the file has no room; `DiskNearlyFull` when the task was stopped while it waited for the disk.
    pub(super) async fn save_output(
        &self,
        task: &ActiveTask,
        rows: Vec<Value>,
        room: RecordRoom,
    ) -> Result<Output, Error> {
        let text = serde_json::to_vec(&rows).map_err(Error::internal)?;
        if text.len() <= INLINE_OUTPUT && room.holds(text.len()) {
            return Ok(Output::Inline(rows));
        }
        let bytes = text.len() as u64;
        Ok(Output::File { hash: self.put_file(task, text).await?, bytes })
    }
}

/// The error of an attempt some of whose results are not kept: whoever asked for them has to hear of it.
fn incomplete(error: Option<TaskError>, code: &str, note: String, kept: &[ArtifactRecord]) -> TaskError {
    let Some(mut error) = error else { return TaskError::new(code, note) };
    error.screenshot = error.screenshot.filter(|shown| kept.iter().any(|artifact| artifact.name == *shown));
    error.message = format!("{}; {note}", error.message);
    error
}
