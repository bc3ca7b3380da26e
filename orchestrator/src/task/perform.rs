//! Carrying one piece of work out: its turn, its session, its outcome, its files.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use super::accept::values;
use super::live::{Event, Live, Stop};
use super::order::Order;
use super::record::{ArtifactNote, Fault, INLINE_OUTPUT, Kind, Output, Status};
use super::table::{End, Tasks};
use crate::drain::Phase;
use crate::engine::SessionId;
use crate::error::Error;
use crate::player::{Browser, Outcome, Progress, ProgressListener, execute};
use crate::script::FailureCode;
use crate::script::{Values, Work};
use crate::session::{Ending, Session};

/// How long a task goes on asking for a worker.
const WORKER_PATIENCE: Duration = Duration::from_secs(600);
/// Between two such questions.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// What came of one attempt.
#[derive(Debug)]
pub(super) enum Attempt {
    /// It ran to an end of its own.
    Done(Done),
    /// It did not begin, and may begin later: the daemon goes down.
    NotBegun,
    /// It did not begin, because the store did not take that it was about to.
    Held(Error),
    /// It was stopped half-way.
    Stopped(Stop),
}

/// What an attempt left.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) session: Option<SessionId>,
    pub(super) error: Option<Fault>,
    pub(super) output: Output,
    pub(super) artifacts: Vec<ArtifactNote>,
}

impl Done {
    pub(super) fn failed(fault: Fault) -> Self {
        Self { session: None, error: Some(fault), output: Output::default(), artifacts: Vec::new() }
    }
}

/// What came of a piece of work in a session, before it is on the disk.
pub(super) struct Worked {
    pub(super) outcome: Outcome,
    /// How the session ended, where that broke the work off.
    lost: Option<Ending>,
}

/// One piece of work and what goes with it.
pub(super) struct Piece<'a> {
    pub(super) order: &'a Order,
    pub(super) work: &'a Work,
    pub(super) values: Values,
    /// Its number, in a fleet.
    pub(super) item: Option<u32>,
}

/// Passes progress on to those who listen.
struct Teller<'a> {
    live: &'a Live,
    item: Option<u32>,
}

impl ProgressListener for Teller<'_> {
    fn progress(&self, event: Progress) {
        self.live.tell(Event::Progress { item: self.item, progress: event });
    }
}

impl Tasks {
    /// Has a task carried out when its turn comes.
    pub(super) fn launch(&self, live: Arc<Live>) {
        let tasks = self.clone();
        self.inner.drain.spawn(async move {
            let kind = live.record().kind;
            let outcome = match kind {
                Kind::Fleet => tasks.run_fleet(&live).await,
                Kind::Run | Kind::Extract => tasks.run_single(&live).await,
            };
            match outcome {
                Ok(()) => {}
                // The store is closed: the next process goes on from what it has.
                Err(Error::Draining) => tasks.suspend(&live),
                Err(error) => {
                tracing::error!(task = %live.id, %error, cause = ?std::error::Error::source(&error), "a task failed");
                let fault = Fault::new("internal", "an internal error: the log has the cause under this task's id");
                tasks.finish(&live, End::empty(Status::Failure, fault)).await;
                }
            }
        });
    }

    /// Waits for a permit; none when the task is stopped or the daemon goes down before.
    pub(super) async fn turn(&self, live: &Live) -> Option<tokio::sync::OwnedSemaphorePermit> {
        let _counted = (Counted::new(&self.inner.queueing), Counted::new(&live.queueing));
        let turn = tokio::select! {
            biased;
            () = live.stop_token().cancelled() => None,
            () = self.inner.drain.reached(Phase::Draining) => None,
            permit = Arc::clone(&self.inner.slots).acquire_owned() => permit.ok(),
        };
        self.ask_key(live);
        turn.filter(|_| live.stopped().is_none())
    }

    async fn run_single(&self, live: &Live) -> Result<(), Error> {
        let Some(mut turn) = self.turn(live).await else {
            self.not_begun(live).await;
            return Ok(());
        };
        let record = live.record();
        let order = self.patiently(live, || self.order(&record)).await?;
        let secrets: Map<String, Value> =
            self.patiently(live, || self.inner.keep.secrets(&self.inner.instance, live.id)).await?;
        let work = order.parse_work()?;
        let piece = Piece { order: &order, work: &work, values: values(&order, None, &secrets), item: None };
        let attempt = loop {
            // Before its first step it must be on the disk that it was begun: it may not be safe to repeat.
            let error = match self.attempt(live, &piece, self.mark_running(live)).await? {
                Attempt::Held(error) => error,
                attempt => break attempt,
            };
            // Others may have the turn meanwhile.
            drop(turn);
            let next = match self.room(live, error).await {
                true => self.turn(live).await,
                false => None,
            };
            let Some(next) = next else {
                self.not_begun(live).await;
                return Ok(());
            };
            turn = next;
        };
        match attempt {
            Attempt::Done(done) => {
                let status = if done.error.is_some() { Status::Failure } else { Status::Success };
                live.change(|record| record.session_id = done.session);
                let end = End { status, error: done.error, output: done.output, artifacts: done.artifacts };
                self.finish(live, end).await;
            }
            Attempt::Stopped(Stop::Interrupted) if !order.safe_to_repeat => {
                self.finish(live, End::empty(Status::Failure, interrupted())).await;
            }
            Attempt::Stopped(Stop::Interrupted) | Attempt::NotBegun | Attempt::Held(_) => {
                self.mark_queued(live).await?;
                self.suspend(live);
            }
            Attempt::Stopped(stop) => self.finish(live, End::empty(Status::Cancelled, stopped(stop))).await,
        }
        Ok(())
    }

    /// A task that never began: cancelled, or left for the next process.
    pub(super) async fn not_begun(&self, live: &Live) {
        match live.stopped() {
            Some(Stop::Interrupted) | None => self.suspend(live),
            Some(stop) => self.finish(live, End::empty(Status::Cancelled, stopped(stop))).await,
        }
    }

    /// Lets go of a task that the next process goes on with. Those who wait for it hear that it has not ended.
    pub(super) fn suspend(&self, live: &Live) {
        tracing::info!(task = %live.id, "task left for the next start");
        self.live_table().remove(&live.id);
        live.set_ended();
    }

    /// One attempt at a piece of work, in a session of its own. Its first step waits for `begun`, which goes on while
    /// the session is made; if that fails there is no first step.
    async fn attempt(
        &self,
        live: &Live,
        piece: &Piece<'_>,
        begun: impl Future<Output = Result<(), Error>>,
    ) -> Result<Attempt, Error> {
        if let Some(shortage) = self.shortage() {
            // Rather than to have a worker for nothing.
            return Ok(Attempt::Held(shortage));
        }
        let session = async { Ok(self.session(live, piece.order).await) };
        let session = match tokio::try_join!(session, begun) {
            Ok((Ok(session), ())) => session,
            Ok((Err(attempt), ())) => return Ok(attempt),
            Err(error) if error.is_passing() => return Ok(Attempt::Held(error)),
            Err(error) => return Err(error),
        };
        let worked = self.work(live, piece, &session, &self.browser(&session)).await;
        let ending = if worked.outcome.failure.is_none() { Ending::TaskSucceeded } else { Ending::TaskFailed };
        session.end(ending);
        self.conclude(live, piece.item, &session, worked).await
    }

    /// The browser of a session, for tasks to drive.
    pub(super) fn browser(&self, session: &Arc<Session>) -> Browser {
        Browser::new(self.inner.sessions.clone(), Arc::clone(session), Arc::clone(&self.inner.config))
    }

    /// Carries a piece of work out in a session, which is left as it is.
    pub(super) async fn work(&self, live: &Live, piece: &Piece<'_>, session: &Session, browser: &Browser) -> Worked {
        let limits = piece.order.limits(&self.inner.config);
        let teller = Teller { live, item: piece.item };
        let outcome = execute(piece.work, &piece.values, browser.clone(), &limits, &teller, live.stop_token()).await;
        let lost = match &outcome.failure {
            Some(failure) if failure.code == FailureCode::BrowserDied => Some(session.ended().await),
            _ => None,
        };
        Worked { outcome, lost }
    }

    /// Keeps what came of it, unless it was broken off.
    pub(super) async fn conclude(
        &self,
        live: &Live,
        item: Option<u32>,
        session: &Session,
        worked: Worked,
    ) -> Result<Attempt, Error> {
        let Worked { outcome, lost } = worked;
        let succeeded = outcome.failure.is_none();
        if let Some(stop) = live.stopped().filter(|_| !succeeded) {
            return Ok(Attempt::Stopped(stop));
        }
        if matches!(lost, Some(Ending::Drained)) {
            return Ok(Attempt::Stopped(Stop::Interrupted));
        }
        match self.keep_outcome(live, item, session.id.clone(), outcome).await {
            // It was stopped while it waited for room.
            Err(Error::DiskNearlyFull) => Ok(Attempt::Stopped(live.stopped().unwrap_or(Stop::Interrupted))),
            outcome => outcome.map(Attempt::Done),
        }
    }

    /// A session for an order, or what becomes of an attempt that gets none.
    pub(super) async fn session(&self, live: &Live, order: &Order) -> Result<Arc<Session>, Attempt> {
        self.take_session(live, order).await.map_err(|error| match (live.stopped(), error) {
            (Some(Stop::Interrupted), _) | (None, Error::Draining) => Attempt::NotBegun,
            (Some(stop), _) => Attempt::Stopped(stop),
            (None, Error::InvalidKey) => {
                live.stop(Stop::KeyRevoked);
                Attempt::Stopped(Stop::KeyRevoked)
            }
            (None, error) => {
                let code = if is_shortage(&error) { "no_worker" } else { error.code() };
                Attempt::Done(Done::failed(Fault::new(code, error.to_string())))
            }
        })
    }

    /// Makes a session. Fleets let waiting clients go first.
    async fn take_session(&self, live: &Live, order: &Order) -> Result<Arc<Session>, Error> {
        let options = order.session(&self.inner.config);
        let patience = Instant::now() + WORKER_PATIENCE;
        loop {
            while order.fleet.is_some() && self.clients_waiting() > 0 {
                tokio::select! {
                    () = live.stop_token().cancelled() => return Err(Error::Draining),
                    () = sleep(Duration::from_millis(50)) => {}
                }
            }
            let created = {
                let _counted = Counted::new(&self.inner.leasing);
                tokio::select! {
                    () = live.stop_token().cancelled() => None,
                    created = self.inner.sessions.create(live.owner.clone(), options.clone()) => Some(created),
                }
            };
            match created {
                None => return Err(Error::NoWorker { waited: Duration::ZERO }),
                Some(Ok(created)) => return created.confirm().ok_or(Error::Draining),
                Some(Err(error)) if is_shortage(&error) && Instant::now() < patience => {}
                Some(Err(error)) => return Err(error),
            }
            tokio::select! {
                () = live.stop_token().cancelled() => {}
                () = sleep(ASK_AGAIN) => {}
            }
        }
    }

    /// Writes what is large into files.
    ///
    /// # Errors
    /// `DiskNearlyFull` when it was stopped while it waited for room.
    async fn keep_outcome(
        &self,
        live: &Live,
        item: Option<u32>,
        session: SessionId,
        outcome: Outcome,
    ) -> Result<Done, Error> {
        let mut error = outcome.failure.map(|failure| Fault::of(failure, &outcome.artifacts));
        let mut artifacts = Vec::with_capacity(outcome.artifacts.len());
        for artifact in outcome.artifacts {
            let bytes = artifact.bytes.len() as u64;
            let hash = self.put_file(live, artifact.bytes).await?;
            let name = item.map_or(artifact.name.clone(), |item| format!("{item}-{}", artifact.name));
            artifacts.push(ArtifactNote { name, media_type: artifact.media_type, bytes, hash });
        }
        if let (Some(fault), Some(item)) = (&mut error, item)
            && let Some(shown) = &mut fault.screenshot
        {
            *shown = format!("{item}-{shown}");
        }
        let output = self.keep_output(live, outcome.output).await?;
        Ok(Done { session: Some(session), error, output, artifacts })
    }

    /// Result objects, in a file if they are large.
    ///
    /// # Errors
    /// As [`Tasks::put_file`].
    pub(super) async fn keep_output(&self, live: &Live, rows: Vec<Value>) -> Result<Output, Error> {
        let text = serde_json::to_vec(&rows).map_err(Error::internal)?;
        if text.len() <= INLINE_OUTPUT {
            return Ok(Output::Inline(rows));
        }
        let bytes = text.len() as u64;
        Ok(Output::File { hash: self.put_file(live, text).await?, bytes })
    }

    /// Writes a file, and waits for room if there is none: what was worked for is not thrown away.
    ///
    /// # Errors
    /// `DiskNearlyFull` when the task was stopped while it waited.
    async fn put_file(&self, live: &Live, bytes: Vec<u8>) -> Result<String, Error> {
        let bytes = Bytes::from(bytes);
        let min_free = self.inner.config.store.min_free.bytes();
        loop {
            match self.inner.files.put(live.id, bytes.clone(), min_free).await {
                Err(Error::DiskNearlyFull) if self.room_for_file(live).await => {}
                outcome => {
                    if outcome.is_ok() {
                        self.go_on(live);
                    }
                    return outcome;
                }
            }
        }
    }
}

/// Counts somebody who waits.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a worker may be had a little later.
const fn is_shortage(error: &Error) -> bool {
    matches!(
        error,
        Error::QueueFull { .. }
            | Error::KeyLimit { .. }
            | Error::NoWorker { .. }
            | Error::NoStart { .. }
            | Error::RuntimeDown
            | Error::Worker { .. }
    )
}

pub(super) fn interrupted() -> Fault {
    Fault::new(
        "interrupted",
        "the service ended while it ran, so how far it came is not known: send it again, or mark it safe_to_repeat",
    )
}

pub(super) fn stopped(stop: Stop) -> Fault {
    match stop {
        Stop::Cancelled => Fault::new("cancelled", "cancelled by request"),
        Stop::KeyRevoked => Fault::new("key_revoked", "its key was revoked"),
        Stop::Interrupted => interrupted(),
    }
}
