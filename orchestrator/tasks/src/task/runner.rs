//! One of a fleet's runners. It carries out one item after another in the same session, each in a fresh browser context,
//! and gives the session up between two items as soon as others need the worker more.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::active::ActiveTask;
use super::attempt::{Attempt, AttemptResults, WorkItem};
use super::record::other_error;
use super::spec::TaskSpec;
use super::task_session::TaskSession;
use super::tasks::Tasks;
use super::turns::Place;
use crate::Error;
use crate::player::Browser;
use crate::script::FailureCode;
use warmpool_core::drain::Phase;
use warmpool_sessions::session::GivenState;

/// While a runner pauses: between two looks whether others need its worker.
const LOOK: Duration = Duration::from_millis(50);

pub(super) struct Runner<'a> {
    tasks: &'a Tasks,
    task: &'a ActiveTask,
    spec: &'a TaskSpec,
    /// Stands before the place and so is dropped before it: a turn is given back only when the session has ended.
    held: Option<RunnerSession>,
    place: Place,
}

/// The session of a runner, and how long it has served it.
struct RunnerSession {
    own: TaskSession,
    browser: Browser,
    since: Instant,
    items: usize,
}

impl<'a> Runner<'a> {
    pub(super) const fn new(tasks: &'a Tasks, task: &'a ActiveTask, spec: &'a TaskSpec) -> Self {
        Self { tasks, task, spec, held: None, place: Place::of_runner() }
    }

    /// Waits until it is the runner's turn to have a worker. False when the fleet is stopped or the daemon goes down before.
    pub(super) async fn turn(&mut self) -> bool {
        self.yield_to_others();
        if !self.place.has_turn() {
            self.tasks.inner.workers.give_way(self.task).await;
            self.tasks.inner.workers.turn(self.task, &mut self.place).await;
        }
        self.task.stop_if_revoked(&self.tasks.inner.keys);
        self.place.has_turn() && self.task.stopped().is_none()
    }

    /// Waits until then, and keeps no worker meanwhile that others need. False when the fleet is stopped or the daemon
    /// goes down before.
    pub(super) async fn pause_until(&mut self, until: Instant) -> bool {
        while Instant::now() < until {
            self.yield_to_others();
            let next = if self.held.is_some() { until.min(Instant::now() + LOOK) } else { until };
            tokio::select! {
                biased;
                () = self.task.stop_token().cancelled() => return false,
                () = self.tasks.inner.drain.reached(Phase::Draining) => return false,
                () = sleep_until(next) => {}
            }
        }
        true
    }

    /// Gets a session with nothing left of an earlier item, and holds it for the attempt that comes.
    pub(super) async fn ready(&mut self, state: Option<&GivenState>) -> Result<(), Attempt> {
        self.held = Some(self.take_session(state).await?);
        Ok(())
    }

    /// One attempt at an item, with nothing left of an earlier one.
    pub(super) async fn attempt(&mut self, item: &WorkItem<'_>) -> Result<Attempt, Error> {
        let mut held = match self.take_session(item.state).await {
            Ok(held) => held,
            Err(attempt) => return Ok(attempt),
        };
        let played = self.tasks.play(self.task, item, held.own.session(), &held.browser).await;
        let failure = played.outcome.failure.as_ref().map(|failure| failure.code);
        held.items += 1;
        held.own.note(failure.is_none());
        let session = Arc::clone(held.own.session());
        // The results may have to wait for room on the disk, and the worker must not wait with them.
        let will_wait = self.tasks.inner.storage.shortage().is_some();
        if !will_wait && failure.is_none_or(leaves_a_sound_browser) && held.browser.has_context().await {
            self.held = Some(held);
        } else {
            drop(held);
        }
        let close = async {
            match &self.held {
                Some(held) => held.browser.close_context().await,
                None => Ok(()),
            }
        };
        let (attempt, closed) = tokio::join!(self.tasks.conclude(self.task, item, &session, played), close);
        if closed.is_err() {
            self.held = None;
        }
        attempt
    }

    /// A session with a fresh context: the one that the runner has, or a new one.
    async fn take_session(&mut self, state: Option<&GivenState>) -> Result<RunnerSession, Attempt> {
        loop {
            let held = match self.held.take() {
                Some(held) => held,
                None => self.new_session(state).await?,
            };
            // The runner may have got ready for the item before.
            if self.spec.per_session(&self.tasks.inner.config) == 1 || held.browser.has_context().await {
                return Ok(held);
            }
            let opened = tokio::select! {
                biased;
                () = self.task.stop_token().cancelled() => Ok(()),
                opened = held.browser.open_context() => opened,
            };
            match opened {
                // If the task was stopped, the player begins nothing.
                Ok(()) => return Ok(held),
                // An earlier item may have caused this: try a new session.
                Err(_) if held.items > 0 => {}
                Err(error) => {
                    let error = other_error(FailureCode::DriverError.as_str(), error.text());
                    return Err(Attempt::Finished(AttemptResults::failed(error)));
                }
            }
        }
    }

    async fn new_session(&mut self, state: Option<&GivenState>) -> Result<RunnerSession, Attempt> {
        let own = self.tasks.session(self.task, &mut self.place, self.spec, state).await?;
        let browser = self.tasks.inner.workers.browser(own.session());
        Ok(RunnerSession { own, browser, since: Instant::now(), items: 0 })
    }

    /// Gives up session and turn, to wait for something other than a worker.
    pub(super) fn release(&mut self) {
        // In this order: see the fields.
        self.held = None;
        self.place.give_back();
    }

    /// Gives the worker up if it can serve no other item, or if others need it more.
    fn yield_to_others(&mut self) {
        let keeps = self.held.as_ref().is_some_and(|held| {
            held.own.session().ending().is_none()
                && held.items < self.spec.per_session(&self.tasks.inner.config)
                && held.own.session().time_left() >= self.spec.life()
                && !self.tasks.inner.workers.are_wanted(self.task, &self.place, held.since)
        });
        if !keeps {
            self.release();
        }
    }
}

/// Whether a browser is as good as before after such a failure. After a time-out its driver may still be busy.
const fn leaves_a_sound_browser(code: FailureCode) -> bool {
    !matches!(
        code,
        FailureCode::BrowserDied
            | FailureCode::DriverError
            | FailureCode::Timeout
            | FailureCode::TaskTimeout
            | FailureCode::Cancelled
    )
}
