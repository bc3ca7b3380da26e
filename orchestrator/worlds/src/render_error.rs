//! Why a scene was not rendered.

use std::time::Duration;

use crate::Error;
use warmpool_api::world::Failure;
use warmpool_core::error::{Fault as _, ServiceError};
use warmpool_runtime::RuntimeError;

/// Why a scene was not rendered.
#[derive(Debug, thiserror::Error)]
pub(super) enum RenderError {
    /// The container did not start, or cannot be spoken to.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The renderer ended, or said what makes no sense.
    #[error("the renderer {0}")]
    Crashed(String),
    /// The renderer's container ran out of memory.
    #[error("the scene needs more memory than a renderer has (`world.memory`)")]
    OutOfMemory,
    /// The renderer refused the job.
    #[error("the renderer: {0}")]
    Refused(String),
    /// An attachment cannot be used.
    #[error("`{field}` {problem}")]
    Attachment { field: String, problem: String },
    /// It took too long.
    #[error("the scene was not ready within {} seconds (`world.render_timeout`)", .0.as_secs())]
    Slow(Duration),
    /// The store or the disk.
    #[error(transparent)]
    Store(#[from] Error),
    /// The daemon cannot serve now.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl RenderError {
    /// Whether another try may well do better.
    pub(super) const fn may_pass(&self) -> bool {
        matches!(self, Self::Crashed(_))
    }

    /// Whether the world waits for what is to blame, so that this was no try: the container runtime, the store or the disk.
    pub(super) fn is_waited_for(&self) -> bool {
        match self {
            Self::Runtime(error) => !error.has_no_renderer(),
            Self::Store(error) => error.is_shortage(),
            _ => false,
        }
    }

    /// What a client may know of it.
    pub(super) fn failure(&self) -> Failure {
        let (code, message) = match self {
            Self::Attachment { .. } => ("attachment_refused", self.to_string()),
            Self::Slow(_) => ("render_timeout", self.to_string()),
            Self::OutOfMemory => ("renderer_out_of_memory", self.to_string()),
            Self::Crashed(_) | Self::Refused(_) => ("render_failed", "the scene could not be rendered".to_owned()),
            Self::Runtime(_) => ("renderer_not_starting", "no renderer could be started".to_owned()),
            Self::Store(error) => (error.code().as_str(), error.to_string()),
            Self::Service(error) => (error.code().as_str(), error.to_string()),
        };
        Failure { code: code.to_owned(), message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_waits_for_what_others_are_to_blame_for() {
        let of = |error: ServiceError| RenderError::from(Error::from(error));
        for passing in [of(ServiceError::DiskNearlyFull), of(ServiceError::StoreBusy)] {
            assert!(passing.is_waited_for() && !passing.may_pass(), "{passing}");
        }
        let unreachable = RenderError::Runtime(RuntimeError::Unreachable("it is gone".to_owned()));
        assert!(unreachable.is_waited_for());
        for lasting in
            [of(ServiceError::internal("x")), RenderError::Crashed("ended".to_owned()), RenderError::OutOfMemory]
        {
            assert!(!lasting.is_waited_for(), "{lasting}");
        }
    }
}
