//! How a task can fail.

use serde::{Deserialize, Serialize};

/// Why a task failed, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// A template has no value.
    MissingInput,
    /// A template's value does not fit where it stands.
    InvalidInput,
    /// No selector matched in time.
    NoMatch,
    /// An element was found, and could not be used in time: hidden, disabled or moving.
    NotReady,
    /// A selector or an expression cannot be read by the browser.
    InvalidSelector,
    /// A page could not be opened.
    NavigationFailed,
    /// The page did not go where the recording says.
    NavigationMismatch,
    /// What was waited for did not come in time.
    Timeout,
    /// The text is not what it should be.
    AssertionFailed,
    /// A script of the page or of the recording threw.
    ScriptError,
    /// A field that must have a value has none.
    MissingField,
    /// The result does not fit the JSON Schema.
    InvalidResult,
    /// The output or an artifact is larger than it may be.
    TooLarge,
    /// This engine cannot do that.
    NotSupported,
    /// The browser or its driver ended.
    BrowserDied,
    /// The browser's driver refused.
    DriverError,
    /// The task's time is over.
    TaskTimeout,
    /// Somebody cancelled the task.
    Cancelled,
}

impl FailureCode {
    /// The name in JSON.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::MissingInput => "missing_input",
            Self::InvalidInput => "invalid_input",
            Self::NoMatch => "no_match",
            Self::NotReady => "not_ready",
            Self::InvalidSelector => "invalid_selector",
            Self::NavigationFailed => "navigation_failed",
            Self::NavigationMismatch => "navigation_mismatch",
            Self::Timeout => "timeout",
            Self::AssertionFailed => "assertion_failed",
            Self::ScriptError => "script_error",
            Self::MissingField => "missing_field",
            Self::InvalidResult => "invalid_result",
            Self::TooLarge => "too_large",
            Self::NotSupported => "not_supported",
            Self::BrowserDied => "browser_died",
            Self::DriverError => "driver_error",
            Self::TaskTimeout => "task_timeout",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the same task may well succeed when it is tried again.
    pub(crate) const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::NavigationFailed | Self::Timeout | Self::TaskTimeout | Self::BrowserDied | Self::DriverError
        )
    }
}

/// An error of a step. Each step decides whether it tries again.
#[derive(Debug, Clone)]
pub(crate) struct StepError {
    /// For programs.
    pub(crate) code: FailureCode,
    /// For people. May hold secrets until it becomes a failure.
    pub(crate) message: String,
    /// Whether the same may succeed a moment later.
    pub(crate) is_passing: bool,
}

impl StepError {
    /// A lasting error.
    pub(crate) fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), is_passing: false }
    }

    /// An error that may be gone a moment later.
    pub(crate) fn passing(code: FailureCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), is_passing: true }
    }

    /// The same error with `what` before its message.
    pub(crate) fn about(mut self, what: &str) -> Self {
        self.message = if self.message.is_empty() { what.to_owned() } else { format!("{what}: {}", self.message) };
        self
    }
}
