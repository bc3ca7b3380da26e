//! Why a call to an agent fails.

use std::time::Duration;

use http::StatusCode;
use warmpool_core::error::Cause;

/// Why a call to the agent failed.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Nobody listens at the agent's address, or not yet.
    #[error("cannot connect to the agent: {0}")]
    Connect(Cause),
    /// The connection ended in the middle of the call.
    #[error("the connection to the agent broke: {0}")]
    Broken(Cause),
    /// The agent took longer than this.
    #[error("the agent did not answer within {} seconds", .0.as_secs())]
    Timeout(Duration),
    /// The agent refused the call.
    #[error("the agent answered {status}: {message}")]
    Refused {
        /// The status of its answer.
        status: StatusCode,
        /// The agent's own words.
        message: String,
    },
    /// The agent's answer makes no sense.
    #[error("the agent's answer cannot be read: {0}")]
    Unreadable(Cause),
}
