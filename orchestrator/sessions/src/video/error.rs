//! The errors of a recording.

use warmpool_workers::worker::AgentError;

/// Why a part of a recording broke off.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordingError {
    /// The file cannot be written.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// The worker cannot be asked.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// There is nothing to record.
    #[error("no picture came")]
    Nothing,
}
