//! How sessions end: the status, the reason, and the websocket Close frame for the client.

use crate::Error;
use warmpool_api::session::Status;
use warmpool_core::ids::SessionId;
use warmpool_workers::worker::LossReason;

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The client closed the browser.
    BrowserClosed,
    /// The client said that it is done.
    ClientFinished,
    /// The client's socket closed and nobody came back within `session.reconnect_window`.
    Disconnected,
    /// The client quit its WebDriver session.
    DriverQuit,
    /// The driver refused the session's only WebDriver session.
    DriverRefused,
    /// `DELETE /sessions/<id>`.
    Deleted,
    /// `session_timeout` is over.
    TimedOut,
    /// `idle_timeout` is over.
    Idle,
    /// `session.attach_timeout` is over, and nobody ever used it.
    NeverAttached,
    /// The task that owned it succeeded.
    TaskSucceeded,
    /// The task that owned it did not succeed.
    TaskFailed,
    /// The daemon goes down.
    Drained,
    /// The session's key was revoked.
    KeyRevoked,
    /// The client left before it got its answer.
    ClientGone,
    /// Its worker was lost, or the browser there.
    WorkerLost(LossReason),
    /// The daemon was down, and the worker was gone when it came back.
    Interrupted,
}

impl Ending {
    /// The end that follows from the loss of its worker.
    pub(crate) fn of_loss(loss: LossReason) -> Self {
        match loss {
            LossReason::BrowserClosed => Self::BrowserClosed,
            other => Self::WorkerLost(other),
        }
    }

    /// The status that it leaves.
    pub const fn status(&self) -> Status {
        match self {
            Self::BrowserClosed | Self::ClientFinished | Self::Disconnected => Status::Completed,
            Self::DriverQuit
            | Self::DriverRefused
            | Self::Deleted
            | Self::TimedOut
            | Self::Idle
            | Self::NeverAttached
            | Self::Drained
            | Self::KeyRevoked
            | Self::ClientGone => Status::Terminated,
            Self::TaskSucceeded => Status::Success,
            Self::TaskFailed | Self::WorkerLost(_) | Self::Interrupted => Status::Failure,
        }
    }

    /// The short name in records and metrics.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::BrowserClosed => "browser_closed",
            Self::ClientFinished => "client_finished",
            Self::Disconnected => "disconnected",
            Self::DriverQuit => "driver_quit",
            Self::DriverRefused => "driver_refused",
            Self::Deleted => "deleted",
            Self::TimedOut => "session_timeout",
            Self::Idle => "idle_timeout",
            Self::NeverAttached => "attach_timeout",
            Self::TaskSucceeded => "task_succeeded",
            Self::TaskFailed => "task_failed",
            Self::Drained => "drained",
            Self::KeyRevoked => "key_revoked",
            Self::ClientGone => "client_gone",
            Self::WorkerLost(loss) => loss.code(),
            Self::Interrupted => "interrupted",
        }
    }

    /// One plain sentence for people.
    pub fn message(&self) -> String {
        match self {
            Self::BrowserClosed => "the client closed the browser".to_owned(),
            Self::ClientFinished => "the client finished".to_owned(),
            Self::Disconnected => "the client disconnected and did not come back".to_owned(),
            Self::DriverQuit => "the client quit its driver".to_owned(),
            Self::DriverRefused => "the driver did not make the session that was asked for".to_owned(),
            Self::Deleted => "ended by request".to_owned(),
            Self::TimedOut => "session_timeout is over".to_owned(),
            Self::Idle => "idle_timeout is over".to_owned(),
            Self::NeverAttached => "nobody attached to it within session.attach_timeout".to_owned(),
            Self::TaskSucceeded => "its task succeeded".to_owned(),
            Self::TaskFailed => "its task did not succeed".to_owned(),
            Self::Drained => "the service is shutting down".to_owned(),
            Self::KeyRevoked => "the key was revoked".to_owned(),
            Self::ClientGone => "the client left before its session was ready".to_owned(),
            Self::WorkerLost(loss) => loss.to_string(),
            Self::Interrupted => "the worker was gone when the service came back".to_owned(),
        }
    }

    /// The websocket Close code (RFC 6455, section 7.4.1).
    pub(crate) const fn close_code(&self) -> u16 {
        match self {
            Self::BrowserClosed | Self::ClientFinished | Self::Disconnected => 1000,
            Self::DriverQuit
            | Self::DriverRefused
            | Self::Deleted
            | Self::TimedOut
            | Self::Idle
            | Self::NeverAttached
            | Self::ClientGone
            | Self::TaskSucceeded
            | Self::TaskFailed => 1001,
            Self::KeyRevoked => 1008,
            Self::WorkerLost(_) | Self::Interrupted => 1011,
            Self::Drained => 1012,
        }
    }

    /// What a later request to the session gets.
    pub fn error(&self, id: &SessionId) -> Error {
        Error::SessionEnded { id: id.to_string(), status: self.status().as_str(), reason: self.message() }
    }
}
