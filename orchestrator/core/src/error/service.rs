//! What keeps the daemon from serving any request, whatever it asks for.

use super::{Cause, Code, Fault};

/// The daemon cannot serve now, or has failed.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The daemon is going down.
    #[error("the service is shutting down and takes no new work")]
    Draining,
    /// The container runtime does not answer.
    #[error("the container runtime cannot be reached at the moment: try again later")]
    RuntimeDown,
    /// The daemon has not looked for its sessions and workers yet.
    #[error("the service has just started, and is looking for its sessions and browsers: try again in a moment")]
    Starting,
    /// The store did not answer in time, and nothing was written.
    #[error("the store does not answer at the moment, and nothing was changed: try again later")]
    StoreBusy,
    /// The disk is nearly full.
    #[error("the disk is nearly full, so nothing new can be recorded: free space under the data directory")]
    DiskNearlyFull,
    /// A fault of the daemon itself.
    #[error("internal error: the log has the cause under this request id")]
    Internal {
        /// The cause, for the log.
        #[source]
        source: Cause,
    },
}

impl Fault for ServiceError {
    fn inner(&self) -> Result<&dyn Fault, Code> {
        Err(match self {
            Self::Draining => Code::Draining,
            Self::RuntimeDown => Code::RuntimeDown,
            Self::Starting => Code::Starting,
            Self::StoreBusy => Code::StoreBusy,
            Self::DiskNearlyFull => Code::DiskNearlyFull,
            Self::Internal { .. } => Code::Internal,
        })
    }
}

impl ServiceError {
    /// A failure of the daemon itself.
    pub fn internal(source: impl Into<Cause>) -> Self {
        Self::Internal { source: source.into() }
    }
}
