//! What a task is to do, and what comes of it.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::error::Error;

/// What a task is to do, checked. Serializes as it was sent, so that it can be kept and read again.
#[derive(Debug, Clone)]
pub enum Work {
    /// A recording to play.
    Run(Run),
    /// A page to read.
    Extract(Extract),
}

/// A recording to play.
#[derive(Debug, Clone)]
pub struct Run {
    source: Value,
}

/// A page to read.
#[derive(Debug, Clone)]
pub struct Extract {
    source: Value,
}

impl Work {
    /// The members of a run's body that say what to do; all others belong to the task around it.
    pub const RUN_MEMBERS: &'static [&'static str] = &["recording", "steps", "title", "selectorAttribute"];

    /// The members of an extract's body that say what to do; all others belong to the task around it.
    pub const EXTRACT_MEMBERS: &'static [&'static str] =
        &["url", "recording", "steps", "schema", "rows", "builtins", "next", "wait_for", "validate"];

    /// Reads a run: an object with nothing but [`Work::RUN_MEMBERS`].
    ///
    /// # Errors
    /// `InvalidField` and `UnknownField`, by the member's path.
    pub fn parse_run(body: &Value) -> Result<Run, Error> {
        Ok(Run { source: body.clone() })
    }

    /// Reads an extract: an object with nothing but [`Work::EXTRACT_MEMBERS`].
    ///
    /// # Errors
    /// `InvalidField` and `UnknownField`, by the member's path.
    pub fn parse_extract(body: &Value) -> Result<Extract, Error> {
        Ok(Extract { source: body.clone() })
    }

    /// Checks that every `{{input.name}}` and `{{secret.name}}` has a value.
    ///
    /// # Errors
    /// `InvalidField`, which names the first that has none.
    pub fn check_values(&self, _values: &Values) -> Result<(), Error> {
        Ok(())
    }
}

impl Serialize for Work {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Run(run) => run.source.serialize(serializer),
            Self::Extract(extract) => extract.source.serialize(serializer),
        }
    }
}

/// What the templates of a task are filled with. Secrets are never shown.
#[derive(Clone, Default)]
pub struct Values {
    /// `{{input.name}}`.
    pub inputs: Map<String, Value>,
    /// `{{secret.name}}`.
    pub secrets: Map<String, Value>,
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Values").finish_non_exhaustive()
    }
}

/// How far a task may go.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Time for the whole of it, from the first step on.
    pub task_timeout: Duration,
    /// Time for a step that names none.
    pub step_timeout: Duration,
    /// Size of the whole output as JSON, in bytes.
    pub max_output: u64,
    /// Number of artifacts.
    pub max_artifacts: usize,
    /// Size of all artifacts together, in bytes.
    pub max_artifact_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            task_timeout: Duration::from_secs(300),
            step_timeout: Duration::from_secs(5),
            max_output: 4 << 20,
            max_artifacts: 50,
            max_artifact_bytes: 64 << 20,
        }
    }
}

/// Why a task failed, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// A template has no value.
    MissingInput,
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
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingInput => "missing_input",
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
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::NavigationFailed | Self::Timeout | Self::TaskTimeout | Self::BrowserDied | Self::DriverError
        )
    }
}

/// Why and where a task failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// For programs.
    pub code: FailureCode,
    /// For people. Holds no secret.
    pub message: String,
    /// The step's number, counted from 0; none when it was no step's fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// Which of the artifacts shows the page at that moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<usize>,
}

/// A file that a task made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Its name: one path component.
    pub name: String,
    /// Its media type.
    pub media_type: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// What came of a task.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Result objects, in order; also what there was before a failure.
    pub output: Vec<Value>,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// Screenshots, documents and downloads.
    pub artifacts: Vec<Artifact>,
}

/// What happens while a task runs. Holds no values, so no secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Progress {
    /// A step begins.
    StepStarted {
        /// Its number, counted from 0.
        step: usize,
        /// How many there are.
        steps: usize,
        /// Its type, or the name of a custom step.
        kind: String,
    },
    /// A step is done.
    StepFinished {
        /// Its number, counted from 0.
        step: usize,
        /// How long it took, in milliseconds.
        ms: u64,
    },
    /// Results have come.
    Rows {
        /// How many there are so far.
        rows: usize,
        /// How many pages were read so far.
        pages: usize,
    },
    /// Something could not be done quite as the recording says, and did not matter enough to fail.
    Warning {
        /// What.
        message: String,
    },
}

/// Somebody who is told how a task goes. Must not block.
pub trait Watch: Send + Sync {
    /// One thing happened.
    fn progress(&self, event: Progress);
}
