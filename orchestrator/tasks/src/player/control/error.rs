//! What can go wrong while somebody drives a browser.

use crate::script::{FailureCode, StepError};

/// What can go wrong. Each says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The element has left the page.
    #[error(
        "the element `{target}` is not on the page any more: take a new snapshot by browser_snapshot, and use its references"
    )]
    Stale {
        /// Its reference.
        target: String,
    },
    /// No snapshot has shown such a reference.
    #[error("no snapshot has shown the reference `{target}`: take one by browser_snapshot, and use its references")]
    UnknownReference {
        /// What was sent.
        target: String,
    },
    /// The page asks something, and does nothing before it has an answer.
    #[error("the page shows the dialog {message:?} and waits for an answer: give it by browser_handle_dialog")]
    Dialog {
        /// Its text.
        message: String,
    },
    /// The browser is gone.
    #[error("the browser is gone: {message}")]
    Gone {
        /// How that came.
        message: String,
    },
    /// Something else did not work.
    #[error("{message}")]
    Failed {
        /// What, why, and what to do.
        message: String,
    },
}

impl ControlError {
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::Failed { message: message.into() }
    }
}

impl From<StepError> for ControlError {
    fn from(error: StepError) -> Self {
        match error.code {
            FailureCode::BrowserDied => Self::Gone { message: error.text() },
            _ if error.is_silent() => Self::Failed { message: error.code.as_str().replace('_', " ") },
            _ => Self::Failed { message: error.text() },
        }
    }
}
