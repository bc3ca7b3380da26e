//! One lane of a fleet: it holds a session for one item after another, each in a fresh browser context, and gives it up
//! between two items as soon as others want the worker more.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

use super::live::Live;
use super::order::Order;
use super::perform::{Attempt, Done, Piece};
use super::record::Fault;
use super::table::Tasks;
use crate::drain::Phase;
use crate::error::Error;
use crate::player::Browser;
use crate::script::FailureCode;
use crate::session::{Ending, Session};

/// How long a worker is held before other tasks that wait get it: below, more time would go into new browsers than into
/// work.
const SLICE: Duration = Duration::from_secs(2);

/// While a lane rests: between two looks whether others want its worker.
const LOOK: Duration = Duration::from_millis(50);

pub(super) struct Lane<'a> {
    tasks: &'a Tasks,
    live: &'a Live,
    order: &'a Order,
    /// Before the turn, which is given up only when the session has ended.
    seat: Option<Seat>,
    turn: Option<OwnedSemaphorePermit>,
}

/// A session that a lane holds. Ends when dropped.
struct Seat {
    session: Arc<Session>,
    browser: Browser,
    since: Instant,
    items: usize,
    failed: bool,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.session.end(if self.failed { Ending::TaskFailed } else { Ending::TaskSucceeded });
    }
}

impl<'a> Lane<'a> {
    /// A lane that holds nothing.
    pub(super) const fn new(tasks: &'a Tasks, live: &'a Live, order: &'a Order) -> Self {
        Self { tasks, live, order, seat: None, turn: None }
    }

    /// Waits until it is the lane's turn to have a worker. False when the fleet is stopped or the daemon goes down before.
    pub(super) async fn turn(&mut self) -> bool {
        self.give_way();
        if self.turn.is_none() {
            self.turn = self.tasks.turn(self.live).await;
        }
        self.tasks.ask_key(self.live);
        self.turn.is_some() && self.live.stopped().is_none()
    }

    /// Waits until then, and holds no worker that others want meanwhile. False when the fleet is stopped or the daemon
    /// goes down before.
    pub(super) async fn rest(&mut self, until: Instant) -> bool {
        while Instant::now() < until {
            self.give_way();
            // Who holds nothing need not look.
            let next = if self.seat.is_some() { until.min(Instant::now() + LOOK) } else { until };
            tokio::select! {
                biased;
                () = self.live.stop_token().cancelled() => return false,
                () = self.tasks.inner.drain.reached(Phase::Draining) => return false,
                () = sleep_until(next) => {}
            }
        }
        true
    }

    /// One attempt at an item, with nothing left of an earlier one.
    pub(super) async fn attempt(&mut self, piece: &Piece<'_>) -> Result<Attempt, Error> {
        let mut seat = match self.sit_down().await {
            Ok(seat) => seat,
            Err(attempt) => return Ok(attempt),
        };
        let worked = self.tasks.work(self.live, piece, &seat.session, &seat.browser).await;
        let failure = worked.outcome.failure.as_ref().map(|failure| failure.code);
        seat.items += 1;
        seat.failed |= failure.is_some();
        let session = Arc::clone(&seat.session);
        // What it has found may have to wait for room, and a worker would wait with it.
        let will_wait = self.tasks.shortage().is_some();
        if !will_wait && failure.is_none_or(leaves_a_sound_browser) && seat.browser.has_context().await {
            self.seat = Some(seat);
        } else {
            drop(seat);
        }
        let put_away = async {
            match &self.seat {
                Some(seat) => seat.browser.close_context().await,
                None => Ok(()),
            }
        };
        let (attempt, put_away) = tokio::join!(self.tasks.conclude(self.live, piece.item, &session, worked), put_away);
        if put_away.is_err() {
            self.seat = None;
        }
        attempt
    }

    /// A session with a fresh context: the one that the lane holds, or a new one.
    async fn sit_down(&mut self) -> Result<Seat, Attempt> {
        loop {
            let seat = match self.seat.take() {
                Some(seat) => seat,
                None => self.new_seat().await?,
            };
            if self.order.per_session(&self.tasks.inner.config) == 1 {
                return Ok(seat);
            }
            let opened = tokio::select! {
                biased;
                () = self.live.stop_token().cancelled() => Ok(()),
                opened = seat.browser.open_context() => opened,
            };
            match opened {
                // Where it was stopped, nothing is begun.
                Ok(()) => return Ok(seat),
                // That may be for what an earlier item did to it.
                Err(_) if seat.items > 0 => {}
                Err(fault) => {
                    let fault = Fault::new(FailureCode::DriverError.as_str(), fault.message);
                    return Err(Attempt::Done(Done::failed(fault)));
                }
            }
        }
    }

    async fn new_seat(&self) -> Result<Seat, Attempt> {
        let session = self.tasks.session(self.live, self.order).await?;
        let browser = self.tasks.browser(&session);
        Ok(Seat { session, browser, since: Instant::now(), items: 0, failed: false })
    }

    /// Gives up what the lane holds: it has to wait for something else than a worker.
    pub(super) fn let_go(&mut self) {
        // In this order, as always.
        self.seat = None;
        self.turn = None;
    }

    /// Gives the worker up if it is no use for another item, or if others want it more.
    fn give_way(&mut self) {
        let keeps = self.seat.as_ref().is_some_and(|seat| {
            let config = &self.tasks.inner.config;
            let serves = seat.session.ending().is_none()
                && seat.items < self.order.per_session(config)
                && seat.session.time_left() >= self.order.life();
            let client_waits = self.tasks.clients_waiting() > 0 && self.tasks.inner.pool.is_full();
            let task_waits = seat.since.elapsed() >= SLICE && self.tasks.others_queue(self.live);
            serves && !client_waits && !task_waits
        });
        if !keeps {
            self.let_go();
        }
    }
}

/// Whether a browser is as good as before after such a failure. After a time-out its driver may be busy still.
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
