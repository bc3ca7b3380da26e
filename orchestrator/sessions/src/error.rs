//! What can go wrong with a session.

use std::time::Duration;

use warmpool_core::error::{Cause, Code, Fault, FieldError, ServiceError};
use warmpool_store::StoreError;

/// What can go wrong, as a client sees it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field of the request cannot be used.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The daemon cannot serve now, or has failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] warmpool_keys::Error),
    /// The profile cannot be used.
    #[error(transparent)]
    Profile(#[from] warmpool_profiles::Error),
    /// An extension cannot be used.
    #[error(transparent)]
    Extension(#[from] warmpool_extensions::Error),
    /// No worker, or no way out for its pages.
    #[error(transparent)]
    Pool(#[from] warmpool_workers::Error),
    /// The body is not the JSON that the route takes.
    #[error("{message}")]
    InvalidBody {
        /// What is wrong and what would be right.
        message: String,
    },
    /// A capability that would weaken the worker's isolation, or that names another browser.
    #[error("capability {capability}: {message}")]
    Capability {
        /// The capability or argument, as the client wrote it.
        capability: String,
        /// Why it is refused.
        message: String,
    },
    /// There is no such session, or it is another key's.
    #[error("no session `{id}`: it is unknown, or belongs to another key")]
    UnknownSession {
        /// The id that was sent.
        id: String,
    },
    /// The session is over.
    #[error("session `{id}` has ended: {status} ({reason})")]
    SessionEnded {
        /// The session.
        id: String,
        /// How it ended.
        status: &'static str,
        /// Why it ended.
        reason: String,
    },
    /// The token in a session's URL is wrong.
    #[error("the token in the URL does not open this session: use the URL that its create call returned")]
    InvalidToken,
    /// The session has as many sockets as it may have.
    #[error("this session has {limit} sockets open already: close one first")]
    SocketLimit {
        /// `relay.max_sockets`.
        limit: usize,
    },
    /// The session is in a state that does not allow this.
    #[error("{message}")]
    Conflict {
        /// What is in the way.
        message: String,
    },
    /// The browser has no such target.
    #[error("no such target in this session's browser: it has closed, or never was")]
    UnknownTarget,
    /// None of the caller's sessions has such a target.
    #[error("no browser of yours has this target: `GET /json/list` names those that there are, with their URLs")]
    ForeignTarget,
    /// No such file in the session.
    #[error("no file `{name}` in this session: GET the folder for a list")]
    UnknownFile {
        /// The file's name.
        name: String,
    },
    /// The session's own files fill its directory.
    #[error("the session has no room left for this file: delete others first, or raise `worker.tmp`")]
    NoSpace,
    /// The route is a websocket and the request is not an upgrade.
    #[error("this path is a websocket: connect with a websocket client")]
    UpgradeRequired,
    /// The session's worker, browser or driver failed.
    #[error("{message}")]
    Worker {
        /// What failed.
        message: String,
        /// The cause, for the log.
        #[source]
        source: Option<Cause>,
    },
    /// The driver did not answer in time.
    #[error("the browser did not answer within {} seconds", after.as_secs())]
    WorkerTimeout {
        /// How long the daemon waited.
        after: Duration,
    },
    /// The standard has no such command.
    #[error("there is no {method} {path} here")]
    UnknownCommand {
        /// The request's method.
        method: String,
        /// The request's path.
        path: String,
    },
}

impl Fault for Error {
    fn inner(&self) -> Result<&dyn Fault, Code> {
        Err(match self {
            Self::Field(error) => return Ok(error),
            Self::Service(error) => return Ok(error),
            Self::Key(error) => return Ok(error),
            Self::Profile(error) => return Ok(error),
            Self::Extension(error) => return Ok(error),
            Self::Pool(error) => return Ok(error),
            Self::InvalidBody { .. } => Code::InvalidBody,
            Self::Capability { .. } => Code::CapabilityRefused,
            Self::UnknownSession { .. } => Code::UnknownSession,
            Self::SessionEnded { .. } => Code::SessionEnded,
            Self::InvalidToken => Code::InvalidToken,
            Self::SocketLimit { .. } => Code::SocketLimit,
            Self::Conflict { .. } => Code::Conflict,
            Self::UnknownTarget | Self::ForeignTarget => Code::UnknownTarget,
            Self::UnknownFile { .. } => Code::UnknownFile,
            Self::NoSpace => Code::NoSpace,
            Self::UpgradeRequired => Code::UpgradeRequired,
            Self::Worker { .. } => Code::WorkerFailed,
            Self::WorkerTimeout { .. } => Code::WorkerTimeout,
            Self::UnknownCommand { .. } => Code::UnknownPath,
        })
    }

    fn field(&self) -> Option<&str> {
        match self {
            Self::Capability { capability, .. } => Some(capability),
            _ => self.inner().ok()?.field(),
        }
    }
}

impl Error {
    /// A failure of the session's worker.
    pub fn worker(message: impl Into<String>, source: impl Into<Cause>) -> Self {
        Self::Worker { message: message.into(), source: Some(source.into()) }
    }

    /// The same error, with its field error changed.
    #[must_use]
    pub fn map_field(self, change: impl FnOnce(FieldError) -> FieldError) -> Self {
        match self {
            Self::Field(error) => Self::Field(change(error)),
            Self::Pool(warmpool_workers::Error::Field(error)) => Self::Pool(change(error).into()),
            Self::Profile(warmpool_profiles::Error::Field(error)) => Self::Profile(change(error).into()),
            other => other,
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_reads_never_shows_the_cause() {
        let error = Error::worker("the browser's driver failed", "connect 172.18.0.4:8400 refused");
        assert!(!error.to_string().contains("172.18"));
    }
}
