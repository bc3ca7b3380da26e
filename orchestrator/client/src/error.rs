//! Why a command fails.

use http::StatusCode;

use crate::exit::Exit;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Something on the command line, or in a file that it names.
    #[error("{0}")]
    Usage(String),
    /// The daemon did not answer as it should.
    #[error("{0}")]
    Unreachable(String),
    /// The daemon answered with an error.
    #[error("{message}{}", field.as_ref().map(|field| format!(" (field {field})")).unwrap_or_default())]
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
    /// What is wanted is not there any more, by what the daemon answered.
    pub(crate) const fn gone(message: String) -> Self {
        Self::Refused { status: StatusCode::GONE, message, field: None }
    }

    /// The exit code that tells it.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Unreachable(_) => Exit::Unavailable,
            Self::Refused { status, .. } => match status.as_u16() {
                401 | 403 => Exit::NoPermission,
                429 | 500.. => Exit::Unavailable,
                _ => Exit::Refused,
            },
        }
    }
}
