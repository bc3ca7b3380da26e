//! A session that lives, and the right to make its driver session.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::activity::{Activity, Attachment, Busy};
use super::ending::{Ending, Status};
use super::gate::Gate;
use super::journal::Journal;
use super::record::{Options, Record};
use super::share::Shares;
use crate::clock::Deadline;
use crate::engine::SessionId;
use crate::error::Error;
use crate::keys::KeyId;
use crate::worker::{Health, Worker};

/// The one WebDriver session of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Driver {
    /// None yet.
    #[default]
    Idle,
    /// One is being made.
    Opening,
    /// One is there, by the driver's own id.
    Open(String),
}

/// A live session.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its id.
    pub id: SessionId,
    /// The key that made it.
    pub owner: KeyId,
    /// What it was asked to be.
    pub options: Options,
    /// When it was made, in Unix milliseconds.
    pub created_ms: u64,
    /// The worker it owns.
    pub worker: Arc<Worker>,
    /// Warnings about options that could not be made quite true.
    pub warnings: Vec<String>,
    /// The secret in its client URLs.
    pub(super) token: String,
    /// The secret in its live-view URL.
    pub(super) view_token: String,
    /// What a client's commands pass on their way to the browser.
    pub gate: Gate,
    pub shares: Shares,
    pub(super) journal: Journal,
    pub(super) deadline: Instant,
    /// The same end, as the store keeps it.
    pub(super) kept_deadline: Option<Deadline>,
    pub(super) activity: Arc<Activity>,
    pub(super) ending: watch::Sender<Option<Ending>>,
    /// Cancelled once the end is in the table and in the store.
    pub(super) recorded: CancellationToken,
    pub(super) driver: Mutex<Driver>,
}

impl Session {
    /// The secret that opens the session's DevTools and WebDriver URLs.
    #[must_use]
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The secret that opens the session's live view and its recording, and nothing else.
    #[must_use]
    pub(crate) fn view_token(&self) -> &str {
        &self.view_token
    }

    /// Checks a token from a URL in constant time.
    ///
    /// # Errors
    /// `InvalidToken`.
    pub(crate) fn check_token(&self, token: &str) -> Result<(), Error> {
        use subtle::ConstantTimeEq as _;
        if bool::from(self.token.as_bytes().ct_eq(token.as_bytes())) { Ok(()) } else { Err(Error::InvalidToken) }
    }

    /// Checks the token of a live-view URL in constant time.
    ///
    /// # Errors
    /// `InvalidToken`.
    pub(crate) fn check_view_token(&self, token: &str) -> Result<(), Error> {
        use subtle::ConstantTimeEq as _;
        if bool::from(self.view_token.as_bytes().ct_eq(token.as_bytes())) { Ok(()) } else { Err(Error::InvalidToken) }
    }

    /// Waits until a client's command may go on to the browser.
    ///
    /// # Errors
    /// `SessionEnded` when the session ends instead.
    pub(crate) async fn admitted(&self) -> Result<(), Error> {
        tokio::select! {
            biased;
            () = self.gate.open() => Ok(()),
            ending = self.ended() => Err(ending.error(&self.id)),
        }
    }

    /// How it is now.
    #[must_use]
    pub(crate) fn status(&self) -> Status {
        if let Some(ending) = &*self.ending.borrow() {
            return ending.status();
        }
        match self.worker.health() {
            Health::Unknown => Status::Unknown,
            Health::Booting => Status::Starting,
            Health::Alive | Health::Lost(_) => Status::Running,
        }
    }

    /// Ends it, if nothing else has. What is said first holds.
    pub(crate) fn end(&self, ending: Ending) {
        self.ending.send_if_modified(|now| {
            let first = now.is_none();
            if first {
                *now = Some(ending);
            }
            first
        });
    }

    /// Why it ended, once it has.
    #[must_use]
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending.borrow().clone()
    }

    /// Waits until it ends, and says why.
    pub(crate) async fn ended(&self) -> Ending {
        let mut receiver = self.ending.subscribe();
        match receiver.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(ending)) => ending.clone(),
            // The sender is a field of `self`.
            _ => Ending::Deleted,
        }
    }

    /// Waits until its end is in the table and in the store.
    pub(crate) async fn recorded(&self) {
        self.recorded.cancelled().await;
    }

    /// Fails when it has ended.
    ///
    /// # Errors
    /// `SessionEnded`.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        match &*self.ending.borrow() {
            None => Ok(()),
            Some(ending) => Err(ending.error(&self.id)),
        }
    }

    /// Counts one socket, until the attachment is dropped.
    ///
    /// # Errors
    /// `SocketLimit`.
    pub(crate) fn attach(self: &Arc<Self>, limit: usize) -> Result<Attachment, Error> {
        Activity::attach(&self.activity, limit)
    }

    /// Counts one command under way, until the guard is dropped.
    #[must_use]
    pub(crate) fn busy(&self) -> Busy {
        Activity::busy(&self.activity)
    }

    /// The client is done with it. A session that keeps itself alive stays.
    pub(crate) fn client_finished(&self) {
        if !self.options.keep_alive {
            self.end(Ending::ClientFinished);
        }
    }

    /// What is left of `session_timeout`.
    #[must_use]
    pub(crate) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The driver session's state.
    #[must_use]
    pub(crate) fn driver(&self) -> Driver {
        self.driver.lock().clone()
    }

    /// Takes the right to make the one driver session.
    ///
    /// # Errors
    /// `Conflict` when there is one, or one is being made.
    pub(crate) fn open_driver(self: &Arc<Self>) -> Result<DriverOpening, Error> {
        let mut driver = self.driver.lock();
        match &*driver {
            Driver::Idle => {
                *driver = Driver::Opening;
                Ok(DriverOpening { session: Arc::clone(self) })
            }
            Driver::Opening | Driver::Open(_) => Err(Error::Conflict {
                message: "this session has its one WebDriver session already: quit it, or create another session"
                    .to_owned(),
            }),
        }
    }

    /// The record of it as it is now.
    #[must_use]
    pub(crate) fn record(&self) -> Record {
        let driver_session = match self.driver() {
            Driver::Open(id) => Some(id),
            Driver::Idle | Driver::Opening => None,
        };
        Record {
            session_id: self.id.clone(),
            owner: self.owner.clone(),
            options: self.options.clone(),
            created_ms: self.created_ms,
            deadline: self.kept_deadline.clone(),
            worker: self.worker.id.clone(),
            driver_session,
            attached: self.activity.was_attached(),
            shares: self.shares.current(),
            ended: None,
        }
    }
}

/// The right to make the driver session; given up when dropped.
#[derive(Debug)]
pub(crate) struct DriverOpening {
    session: Arc<Session>,
}

impl DriverOpening {
    /// The driver made the session `id`.
    pub(super) fn opened(self, id: String) {
        *self.session.driver.lock() = Driver::Open(id);
    }
}

impl Drop for DriverOpening {
    fn drop(&mut self) {
        let mut driver = self.session.driver.lock();
        if *driver == Driver::Opening {
            *driver = Driver::Idle;
        }
    }
}
