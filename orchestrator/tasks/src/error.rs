//! What can go wrong with a task.

use std::time::Duration;

use crate::task::Share;
use warmpool_core::error::{Code, Fault, FieldError, ServiceError};
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
    /// The session of the task cannot be made, or has failed.
    #[error(transparent)]
    Session(#[from] warmpool_sessions::Error),
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] warmpool_keys::Error),
    /// There is no such task, or it is another key's.
    #[error("no task `{id}`: it is unknown, forgotten, or belongs to another key")]
    UnknownTask {
        /// The id that was sent.
        id: String,
    },
    /// The task made no such file, or the file is gone.
    #[error("no artifact `{name}` of this task: GET /lam/tasks/<id>/artifacts for a list")]
    UnknownArtifact {
        /// The artifact's name.
        name: String,
    },
    /// An idempotency key came again with another body.
    #[error("this Idempotency-Key came with another request before: use a new one for a new task")]
    KeyReused,
    /// As many tasks wait as may, and of these the key has its share.
    #[error(
        "{waiting} tasks wait already, and {own} of this key are its share of them: try again later, or raise \
         `tasks.queue_length`"
    )]
    TaskQueueFull {
        /// How many tasks wait.
        waiting: usize,
        /// How many of them are this key's.
        own: usize,
    },
    /// There is no room for more of what tasks keep.
    #[error(
        "{share} may keep {limit} bytes, and this is more, also without the oldest that have ended: keep less, let those end that \
         run, or raise `{}`",
        share.setting()
    )]
    TaskLimit {
        /// Whose tasks.
        share: Share,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The store did not answer in time, and may still take the task.
    #[error(
        "the store has not answered yet, so it is not known whether task `{task}` is accepted: ask for it later, or send \
         the request again with the same Idempotency-Key"
    )]
    OutcomeUnknown {
        /// The task's id, should it be accepted.
        task: String,
    },
    /// A cancelled task has not ended yet.
    #[error(
        "task `{task}` is being cancelled, and after {} its end is not written yet: it begins nothing new, and ends once the \
         store or its worker answers; look at it later, or cancel it again",
        humantime::format_duration(*waited)
    )]
    TaskStopping {
        /// The task's id.
        task: String,
        /// `tasks.cancel_timeout`
        waited: Duration,
    },
    /// The task is in a state that does not allow this.
    #[error("{message}")]
    Conflict {
        /// What is in the way.
        message: &'static str,
    },
    /// An answer of a session's driver is longer than the limit.
    #[error("the body is longer than {limit} bytes: send less, or raise `{setting}`")]
    BodyTooLarge {
        /// The limit, in bytes.
        limit: u64,
        /// The setting that holds the limit.
        setting: &'static str,
    },
}

impl Fault for Error {
    fn inner(&self) -> Result<&dyn Fault, Code> {
        Err(match self {
            Self::Field(error) => return Ok(error),
            Self::Service(error) => return Ok(error),
            Self::Session(error) => return Ok(error),
            Self::Key(error) => return Ok(error),
            Self::UnknownTask { .. } => Code::UnknownTask,
            Self::UnknownArtifact { .. } => Code::UnknownArtifact,
            Self::KeyReused => Code::IdempotencyKeyReused,
            Self::TaskQueueFull { .. } => Code::TaskQueueFull,
            Self::TaskLimit { .. } => Code::TaskLimit,
            Self::OutcomeUnknown { .. } => Code::OutcomeUnknown,
            Self::TaskStopping { .. } => Code::TaskStopping,
            Self::Conflict { .. } => Code::Conflict,
            Self::BodyTooLarge { .. } => Code::BodyTooLarge,
        })
    }
}

impl Error {
    /// No such artifact.
    #[must_use]
    pub fn unknown_artifact(name: &str) -> Self {
        Self::UnknownArtifact { name: name.chars().take(200).collect() }
    }

    /// The same error, with its field error changed.
    #[must_use]
    pub fn map_field(self, change: impl FnOnce(FieldError) -> FieldError) -> Self {
        match self {
            Self::Field(error) => Self::Field(change(error)),
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
    fn a_field_is_told_whichever_crate_names_it() {
        let error = Error::from(warmpool_keys::Error::from(FieldError::invalid("name", "is taken")));
        assert_eq!((error.code(), error.field()), (Code::InvalidField, Some("name")));
    }
}
