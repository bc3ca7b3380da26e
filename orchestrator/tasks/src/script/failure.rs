//! How a task can fail.

use serde::Deserialize;

macro_rules! codes {
    ($($(#[$about:meta])* $variant:ident = $text:literal,)+) => {
        /// Why a task failed, for programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
        pub(crate) enum FailureCode { $($(#[$about])* #[serde(rename = $text)] $variant),+ }

        impl FailureCode {
            /// The code in JSON.
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The failure of this code, if there is one.
            pub(crate) fn parse(code: &str) -> Option<Self> {
                match code { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

codes! {
    /// A template has no value.
    MissingInput = "missing_input",
    /// A template's value does not fit where it stands.
    InvalidInput = "invalid_input",
    /// No selector matched in time.
    NoMatch = "no_match",
    /// An element was found, and could not be used in time: hidden, disabled or moving.
    NotReady = "not_ready",
    /// A selector or an expression cannot be read by the browser.
    InvalidSelector = "invalid_selector",
    /// A page could not be opened.
    NavigationFailed = "navigation_failed",
    /// The egress policy refuses the page's address.
    RefusedByPolicy = "refused_by_policy",
    /// The proxy gave the page no connection.
    ProxyFailed = "proxy_failed",
    /// The page's site has no certificate that the browser takes, or speaks no TLS with it.
    TlsFailed = "tls_failed",
    /// The page did not go where the recording says.
    NavigationMismatch = "navigation_mismatch",
    /// What was waited for did not come in time.
    Timeout = "timeout",
    /// The text is not what it should be.
    AssertionFailed = "assertion_failed",
    /// A script of the page or of the recording threw.
    ScriptError = "script_error",
    /// A field that must have a value has none.
    MissingField = "missing_field",
    /// The result does not fit the JSON Schema.
    InvalidResult = "invalid_result",
    /// The output or an artifact is larger than it may be.
    TooLarge = "too_large",
    /// This engine cannot do that.
    NotSupported = "not_supported",
    /// The browser or its driver ended.
    BrowserDied = "browser_died",
    /// The browser's driver refused.
    DriverError = "driver_error",
    /// The task's time is over.
    TaskTimeout = "task_timeout",
    /// Somebody cancelled the task.
    Cancelled = "cancelled",
}

impl FailureCode {
    /// Whether a page that never came is the reason, and a way to it that is closed.
    pub(crate) const fn is_of_the_way(self) -> bool {
        matches!(self, Self::RefusedByPolicy | Self::ProxyFailed | Self::TlsFailed)
    }

    /// Whether the same task may well succeed when it is tried again.
    pub(crate) const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::NavigationFailed
                | Self::ProxyFailed
                | Self::Timeout
                | Self::TaskTimeout
                | Self::BrowserDied
                | Self::DriverError
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
