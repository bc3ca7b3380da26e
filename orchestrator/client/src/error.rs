//! Why a command fails.

use std::path::Path;

use http::StatusCode;

use crate::exit::Exit;

/// Where people find a key.
const KEYS: &str = "put one into WARMPOOL_SECRET_KEY, or name a file that holds one by --key-file. After scripts/up, \
                    `set -a; . .warmpool/env` sets it; the file `first-key` in the daemon's data directory has the first \
                    one; `warmpool key create NAME` makes another";

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Something on the command line, or in a file that it names.
    #[error("{0}")]
    Usage(String),
    /// There is no key, or the daemon does not take it.
    #[error("{0}: {KEYS}")]
    Key(String),
    /// There is no integration key.
    #[error(
        "no integration key: put one into WARMPOOL_INTEGRATION_KEY, or name a file that holds one by --integration-key-file; \
         `warmpool integration-key create NAME` makes one"
    )]
    NoIntegrationKey,
    /// The daemon did not answer as it should.
    #[error("{0}")]
    Unreachable(String),
    /// The daemon answered with an error.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// What it said.
        message: String,
        /// The field it named.
        field: Option<String>,
    },
}

impl ClientError {
    /// A file of the user's cannot be read.
    pub(crate) fn unread(path: &Path, error: &std::io::Error) -> Self {
        Self::Usage(format!("cannot read {}: {error}", path.display()))
    }

    /// What is wanted is not there any more, by what the daemon answered.
    pub(crate) const fn gone(message: String) -> Self {
        Self::Refused { status: StatusCode::GONE, message, field: None }
    }

    /// The same error, which also says what to do now.
    #[must_use]
    pub(crate) fn with_hint(self, hint: &str) -> Self {
        match self {
            Self::Usage(problem) => Self::Usage(format!("{problem}; {hint}")),
            Self::Unreachable(problem) => Self::Unreachable(format!("{problem}; {hint}")),
            Self::Refused { status, message, field } => {
                Self::Refused { status, message: format!("{message}; {hint}"), field }
            }
            // They say what to do.
            Self::Key(_) | Self::NoIntegrationKey => self,
        }
    }

    /// Whether the same request may succeed a moment later: the daemon is away, is busy, or gave up for now.
    #[must_use]
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Usage(_) | Self::Key(_) | Self::NoIntegrationKey => false,
            Self::Unreachable(_) => true,
            Self::Refused { status, .. } => {
                let for_now = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
                !status.is_client_error() || for_now.contains(status)
            }
        }
    }

    /// The exit code that tells it.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Key(_) | Self::NoIntegrationKey => Exit::NoPermission,
            Self::Unreachable(_) => Exit::Unavailable,
            Self::Refused { status, .. } => match status.as_u16() {
                401 | 403 => Exit::NoPermission,
                429 | 500.. => Exit::Unavailable,
                _ => Exit::Refused,
            },
        }
    }
}
