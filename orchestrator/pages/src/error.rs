//! What can go wrong with a call on a page.

use std::time::Duration;

use warmpool_core::error::{Code, Fault, FieldError, ServiceError};
use warmpool_reading::ReadError;

/// What can go wrong, as a client sees it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field of the request cannot be used.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The daemon cannot serve now, or has failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// No session could be made, or it has ended.
    #[error(transparent)]
    Session(#[from] warmpool_sessions::Error),
    /// The page did not open.
    #[error("the page did not open: {reason}")]
    NotOpened {
        /// Why, in the browser's words or the daemon's own.
        reason: String,
    },
    /// The browser did not do with the page what was asked for.
    #[error("{message}")]
    Failed {
        /// What it did not do, and why.
        message: String,
    },
    /// Lighthouse has found nothing out.
    #[error("Lighthouse could not audit the page: {reason}")]
    NotAudited {
        /// Why, in Lighthouse's words or the daemon's own.
        reason: String,
    },
    /// The site's `robots.txt` does not let the page be read.
    #[error(
        "the robots.txt of {site} does not let {reader} read this page: leave `robots` out to read it all the same"
    )]
    Robots {
        /// The site's origin.
        site: String,
        /// The name of the reader.
        reader: String,
    },
    /// What the page says cannot be told.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Something did not come in time.
    #[error("{message}")]
    Late {
        /// What was waited for, and what would help.
        message: String,
        /// The field that asks for it.
        field: Option<String>,
    },
    /// The whole call took too long.
    #[error(
        "the call has taken {} ms: allow more by `timeout` in the query, or ask for less",
        after.as_millis()
    )]
    TimedOut {
        /// How long it took.
        after: Duration,
    },
    /// The answer has no place in memory.
    #[error("the answer would be longer than {limit} bytes: ask for a part of the page, or raise `pages.max_answer`")]
    TooLarge {
        /// `pages.max_answer`, in bytes.
        limit: u64,
    },
    /// What the code returned has no place in memory.
    #[error("the code returned more than {limit} bytes: have it return less, or raise `pages.max_answer`")]
    CodeTooLarge {
        /// `pages.max_answer`, in bytes.
        limit: u64,
    },
    /// A download is too large.
    #[error("the download `{name}` has more than {limit} bytes: raise `worker.file_limit`")]
    FileTooLarge {
        /// Its name.
        name: String,
        /// `worker.file_limit`, in bytes.
        limit: u64,
    },
}

impl Fault for Error {
    fn inner(&self) -> Result<&dyn Fault, Code> {
        Err(match self {
            Self::Field(error) => return Ok(error),
            Self::Service(error) => return Ok(error),
            Self::Session(error) => return Ok(error),
            Self::NotOpened { .. }
            | Self::Failed { .. }
            | Self::NotAudited { .. }
            | Self::Read(_)
            | Self::TooLarge { .. }
            | Self::CodeTooLarge { .. }
            | Self::FileTooLarge { .. } => Code::PageFailed,
            Self::Robots { .. } => Code::RefusedByRobots,
            Self::Late { .. } | Self::TimedOut { .. } => Code::PageTimeout,
        })
    }

    fn field(&self) -> Option<&str> {
        match self {
            Self::Late { field, .. } => field.as_deref(),
            Self::Robots { .. } => Some("robots"),
            _ => self.inner().ok()?.field(),
        }
    }
}

impl Error {
    /// The same error, with its field error changed.
    #[must_use]
    pub fn map_field(self, change: impl FnOnce(FieldError) -> FieldError) -> Self {
        match self {
            Self::Field(error) => Self::Field(change(error)),
            Self::Session(error) => Self::Session(error.map_field(change)),
            other => other,
        }
    }

    /// The page did not come to all the moments of which the call waits.
    pub(crate) fn not_open_within(limit: Duration) -> Self {
        let field = "gotoOptions.timeout";
        let message = format!(
            "the page did not open within {} ms: allow more by `{field}`, wait for less by `gotoOptions.waitUntil`, or go on by \
             `bestAttempt`",
            limit.as_millis()
        );
        Self::Late { message, field: Some(field.to_owned()) }
    }

    /// Something for which `field` asks did not come in `limit`, which is its own time, or what was left of the call's.
    pub(crate) fn late(field: impl Into<String>, what: &str, (limit, is_own): (Duration, bool)) -> Self {
        let field = field.into();
        let more = if is_own { "its `timeout`" } else { "`timeout` in the query" };
        let message = format!(
            "`{field}`: {what} within {} ms; allow more by {more}, or go on without it by `bestAttempt`",
            limit.as_millis()
        );
        Self::Late { message, field: Some(field) }
    }
}
