//! Why a call to an agent fails.

use std::time::Duration;

use http::StatusCode;
use warmpool_core::error::{Cause, FieldError};
use warmpool_protocol::text::{MAX_KEPT, shortened};

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
    /// The worker cannot carry out a field of a create call.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The agent's answer makes no sense.
    #[error("the agent's answer cannot be read: {0}")]
    Unreadable(Cause),
}

/// The setting of a launch that names extensions.
const EXTENSIONS: &str = "extension_ids";

impl AgentError {
    /// An answer that is not what was asked for: what is said of it may repeat a text from it.
    pub(in crate::worker) fn of_answer(error: &serde_json::Error) -> Self {
        Self::Unreadable(shortened(error.to_string(), MAX_KEPT).into())
    }

    /// What an agent means that answers 422: it names the setting of a launch that it cannot carry out, and says why.
    pub(super) fn of_setting(message: &str) -> Self {
        let (setting, reason) = message.split_once(": ").unwrap_or(("", message));
        let parent = if setting.split('[').next() == Some(EXTENSIONS) { "advanced" } else { "settings" };
        FieldError::not_supported(setting, reason).within(parent).into()
    }

    /// Extensions that a worker does not take.
    pub(super) fn of_extensions(reason: &str) -> Self {
        FieldError::not_supported(EXTENSIONS, reason).within("advanced").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_core::error::Fault as _;

    #[test]
    fn a_setting_has_the_name_that_clients_know() {
        for (message, field, told) in [
            ("timezone: is unknown", "settings.timezone", "`settings.timezone` is unknown"),
            ("extension_ids[1]: is broken: x", "advanced.extension_ids[1]", "`advanced.extension_ids[1]` is broken: x"),
            ("extension_ids: are none", "advanced.extension_ids", "`advanced.extension_ids` are none"),
        ] {
            let AgentError::Field(error) = AgentError::of_setting(message) else { panic!("{message}") };
            assert_eq!((error.field(), error.to_string().as_str()), (Some(field), told));
        }
    }
}
