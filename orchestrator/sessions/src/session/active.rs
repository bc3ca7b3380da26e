//! A session that lives, and the right to make its driver session.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::activity::{Activity, Attachment, CommandGuard, Watching};
use super::ends::EndLost;
use super::gate::Gate;
use super::grid_ids::shown_grid_id;
use super::journal::Journal;
use super::page_error::PageError;
use super::profile::SessionProfile;
use super::record::{Options, Record};
use super::share::Shares;
use super::{Ending, Status};
use crate::Error;
use warmpool_core::clock::Deadline;
use warmpool_core::ids::SessionId;
use warmpool_core::secret;
use warmpool_keys::KeyId;
use warmpool_workers::Hide;
use warmpool_workers::captcha::SessionCaptchas;
use warmpool_workers::egress::Egress;
use warmpool_workers::worker::{Health, Worker};

/// The one WebDriver session of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DriverSession {
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
pub struct Session {
    /// Its id: `ses_` and 128 random bits.
    pub id: SessionId,
    /// The key that made it.
    pub owner: KeyId,
    /// What it was asked to be.
    pub options: Options,
    /// When it was made, in Unix milliseconds.
    pub(crate) created_ms: u64,
    /// The worker that it alone uses.
    pub worker: Arc<Worker>,
    /// The way out of the worker.
    pub egress: Egress,
    /// The challenges of its pages.
    pub(crate) captchas: SessionCaptchas,
    /// Warnings about options that the engine supports only in part.
    pub warnings: Vec<String>,
    /// The secret in its client URLs.
    pub(super) token: String,
    /// The secret in its live-view URL.
    pub(super) view_token: String,
    /// Its ids for a grid's clients, this release's first. Anyone holding one can drive the session.
    pub(super) grid_ids: [String; 2],
    /// Holds the client's commands while a person has paused it.
    pub(crate) gate: Gate,
    /// The links of its live view.
    pub shares: Shares,
    pub(super) journal: Journal,
    pub(super) deadline: Instant,
    /// The same end, as the store keeps it.
    pub(super) kept_deadline: Option<Deadline>,
    pub(super) activity: Arc<Activity>,
    pub(super) ending: watch::Sender<Option<Ending>>,
    /// Set once the end is in the table, and in the store or lost.
    pub(super) end_persisted: watch::Sender<Option<Result<(), EndLost>>>,
    pub(super) driver: Mutex<DriverSession>,
    /// The proxy that its WebDriver client named, encrypted.
    pub(super) client_proxy: Mutex<Option<String>>,
    pub(super) page_error: PageError,
    /// Held while a client reads its state, of which there may be much: one call at a time.
    pub(super) reading: tokio::sync::Mutex<()>,
    /// The profile that it writes.
    pub(super) profile: Option<SessionProfile>,
}

impl Session {
    /// The secret that opens the session's DevTools and WebDriver URLs.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The secret that opens the session's live view and its recording, and nothing else.
    pub fn view_token(&self) -> &str {
        &self.view_token
    }

    /// The id by which a grid's clients know the session. It opens the session, as its token does.
    pub fn grid_id(&self) -> &str {
        &self.grid_ids[0]
    }

    /// Checks a token from a URL in constant time.
    /// Errors: `InvalidToken`.
    pub fn check_token(&self, token: &str) -> Result<(), Error> {
        if secret::equal(&self.token, token) { Ok(()) } else { Err(Error::InvalidToken) }
    }

    /// Checks the token of a live-view URL in constant time.
    /// Errors: `InvalidToken`.
    pub fn check_view_token(&self, token: &str) -> Result<(), Error> {
        if secret::equal(&self.view_token, token) { Ok(()) } else { Err(Error::InvalidToken) }
    }

    /// Waits until a client's command may go on to the browser.
    /// Errors: `SessionEnded` when the session ends instead.
    pub(crate) async fn wait_for_gate(&self) -> Result<(), Error> {
        tokio::select! {
            biased;
            () = self.gate.open() => Ok(()),
            ending = self.ended() => Err(ending.error(&self.id)),
        }
    }

    /// Takes out of its record and its messages what may not be told, such as secrets in the addresses of its pages. The first one
    /// holds.
    pub fn hide(&self, hide: &Hide) {
        self.egress.hide(Arc::clone(hide));
        self.captchas.hide(Arc::clone(hide));
    }

    /// How it is now.
    pub fn status(&self) -> Status {
        if let Some(ending) = &*self.ending.borrow() {
            return ending.status();
        }
        match self.worker.health() {
            Health::Unknown => Status::Unknown,
            Health::Booting => Status::Starting,
            Health::Alive | Health::Lost(_) => Status::Running,
        }
    }

    /// Ends it, if nothing else has. The first reason holds.
    pub fn end(&self, ending: Ending) {
        self.ending.send_if_modified(|now| {
            let first = now.is_none();
            if first {
                *now = Some(ending);
            }
            first
        });
    }

    /// Why it ended, once it has.
    pub fn ending(&self) -> Option<Ending> {
        self.ending.borrow().clone()
    }

    /// Waits until it ends, and says why.
    pub async fn ended(&self) -> Ending {
        let mut receiver = self.ending.subscribe();
        match receiver.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(ending)) => ending.clone(),
            // The sender is a field of `self`.
            _ => Ending::Deleted,
        }
    }

    /// Waits until its end is in the table and in the store.
    /// Errors: `Draining` where the store was closed before: the next process finds the session as it was.
    pub(crate) async fn end_persisted(&self) -> Result<(), Error> {
        let mut receiver = self.end_persisted.subscribe();
        match receiver.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(written)) => Ok((*written)?),
            // The sender is a field of `self`.
            _ => Err(EndLost.into()),
        }
    }

    /// Fails when it has ended.
    /// Errors: `SessionEnded`.
    pub fn check_open(&self) -> Result<(), Error> {
        match &*self.ending.borrow() {
            None => Ok(()),
            Some(ending) => Err(ending.error(&self.id)),
        }
    }

    /// Counts one socket, until the attachment is dropped.
    /// Errors: `SocketLimit`.
    pub(crate) fn attach(self: &Arc<Self>, limit: usize) -> Result<Attachment, Error> {
        Activity::attach(&self.activity, limit)
    }

    /// Counts a person who has control, until the attachment is dropped.
    pub(crate) fn hold(&self) -> Attachment {
        Activity::hold(&self.activity)
    }

    /// Counts somebody who watches it, until the guard is dropped: it is not left to nobody.
    pub(crate) fn watch(&self) -> Watching {
        Activity::watch(&self.activity)
    }

    /// Counts one command under way, until the guard is dropped.
    #[must_use]
    pub fn busy(&self) -> CommandGuard {
        Activity::busy(&self.activity)
    }

    /// A client is done with it, whose socket still counts. A session stays that keeps itself alive, that others may come back to
    /// by its name, or that somebody else is connected to.
    pub(crate) fn client_finished(&self) {
        let is_awaited = self.options.keep_alive || self.options.name.is_some();
        if !is_awaited && self.activity.open_sockets() <= 1 {
            self.end(Ending::ClientFinished);
        }
    }

    /// What is left of `session_timeout`.
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The driver session's state.
    pub fn driver(&self) -> DriverSession {
        self.driver.lock().clone()
    }

    /// The driver's own id of its session.
    /// Errors: `UnknownSession` when there is none.
    pub fn driver_id(&self) -> Result<String, Error> {
        match self.driver() {
            DriverSession::Open(id) => Ok(id),
            DriverSession::Idle | DriverSession::Opening => {
                Err(Error::UnknownSession { id: shown_grid_id(self.grid_id()) })
            }
        }
    }

    /// Takes the right to make the one driver session.
    /// Errors: `Conflict` when there is one, or one is being made.
    pub(crate) fn open_driver(self: &Arc<Self>) -> Result<DriverOpening, Error> {
        let mut driver = self.driver.lock();
        match &*driver {
            DriverSession::Idle => {
                *driver = DriverSession::Opening;
                Ok(DriverOpening { session: Arc::clone(self) })
            }
            DriverSession::Opening | DriverSession::Open(_) => Err(Error::Conflict {
                message: "this session has its one WebDriver session already: quit it, or create another session"
                    .to_owned(),
            }),
        }
    }

    /// The record of it as it is now.
    pub(super) fn record(&self) -> Record {
        let driver_session = match self.driver() {
            DriverSession::Open(id) => Some(id),
            DriverSession::Idle | DriverSession::Opening => None,
        };
        let saved = self.saved();
        Record {
            session_id: self.id.clone(),
            owner: self.owner.clone(),
            options: self.options.clone(),
            created_ms: self.created_ms,
            deadline: self.kept_deadline.clone(),
            worker: self.worker.id.clone(),
            driver_session,
            client_proxy: self.client_proxy.lock().clone(),
            attached: self.activity.was_attached(),
            shares: self.shares.current(),
            egress: Some(self.egress.summary()),
            captchas: self.captchas.ended(),
            captcha_count: self.captchas.count(),
            page_error: self.page_error(),
            oom_kills: self.worker.snapshot.borrow().oom_kills,
            profile_saved_ms: saved.at_ms,
            profile_error: saved.error,
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
        *self.session.driver.lock() = DriverSession::Open(id);
    }
}

impl Drop for DriverOpening {
    fn drop(&mut self) {
        let mut driver = self.session.driver.lock();
        if *driver == DriverSession::Opening {
            *driver = DriverSession::Idle;
        }
    }
}
