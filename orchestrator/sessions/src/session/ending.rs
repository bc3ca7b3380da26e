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

    /// The status that it leaves, the websocket Close code (RFC 6455, section 7.4.1), the short name, and a sentence.
    const fn terms(&self) -> (Status, u16, &'static str, &'static str) {
        match self {
            Self::BrowserClosed => (Status::Completed, 1000, "browser_closed", "the client closed the browser"),
            Self::ClientFinished => (Status::Completed, 1000, "client_finished", "the client finished"),
            Self::Disconnected => {
                (Status::Completed, 1000, "disconnected", "the client disconnected and did not come back")
            }
            Self::DriverQuit => (Status::Terminated, 1001, "driver_quit", "the client quit its driver"),
            Self::DriverRefused => {
                (Status::Terminated, 1001, "driver_refused", "the driver did not make the session that was asked for")
            }
            Self::Deleted => (Status::Terminated, 1001, "deleted", "ended by request"),
            Self::TimedOut => (Status::Terminated, 1001, "session_timeout", "session_timeout is over"),
            Self::Idle => (Status::Terminated, 1001, "idle_timeout", "idle_timeout is over"),
            Self::NeverAttached => {
                (Status::Terminated, 1001, "attach_timeout", "nobody attached to it within session.attach_timeout")
            }
            Self::TaskSucceeded => (Status::Success, 1001, "task_succeeded", "its task succeeded"),
            Self::TaskFailed => (Status::Failure, 1001, "task_failed", "its task did not succeed"),
            Self::Drained => (Status::Terminated, 1012, "drained", "the service is shutting down"),
            Self::KeyRevoked => (Status::Terminated, 1008, "key_revoked", "the key was revoked"),
            Self::ClientGone => (Status::Terminated, 1001, "client_gone", "the client left before it had its answer"),
            Self::Interrupted => {
                (Status::Failure, 1011, "interrupted", "the worker was gone when the service came back")
            }
            Self::WorkerLost(loss) => (Status::Failure, 1011, loss.code(), "its worker was lost"),
        }
    }

    /// The status that it leaves.
    pub const fn status(&self) -> Status {
        self.terms().0
    }

    /// The websocket Close code.
    pub(crate) const fn close_code(&self) -> u16 {
        self.terms().1
    }

    /// The short name in records and metrics.
    pub const fn code(&self) -> &'static str {
        self.terms().2
    }

    /// One plain sentence for people.
    pub fn message(&self) -> String {
        match self {
            Self::WorkerLost(loss) => loss.to_string(),
            other => other.terms().3.to_owned(),
        }
    }

    /// What a later request to the session gets.
    pub fn error(&self, id: &SessionId) -> Error {
        Error::SessionEnded { id: id.to_string(), status: self.status().as_str(), reason: self.message() }
    }
}
