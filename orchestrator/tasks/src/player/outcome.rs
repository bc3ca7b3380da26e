//! The limits of a task, its progress, and its outcome.

use std::time::Duration;

use serde_json::Value;
use warmpool_api::task::Progress;

use crate::script::FailureCode;

/// The limits of a task.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Time for the whole of it, from the first step on.
    pub(crate) task_timeout: Duration,
    /// Time for a step that names none.
    pub(crate) step_timeout: Duration,
    /// Time for a page to load, for a `navigate` step that names none.
    pub(crate) navigation_timeout: Duration,
    /// Elements of a page whose main content is read.
    pub(crate) max_elements: usize,
    /// Bytes of the work's strings, with all inputs and secrets filled in.
    pub(crate) max_work: u64,
    /// Size of the whole output as JSON, in bytes.
    pub(crate) max_output: u64,
    /// Number of artifacts.
    pub(crate) max_artifacts: usize,
    /// Size of all artifacts together, in bytes.
    pub(crate) max_artifact_bytes: u64,
}

/// Why and where a task failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// For programs.
    pub(crate) code: FailureCode,
    /// For people. Holds no secret.
    pub(crate) message: String,
    /// The step's number, counted from 0; none when it was no step's error.
    pub(crate) step: Option<usize>,
    /// Which of the artifacts shows the page at that moment.
    pub(crate) screenshot: Option<usize>,
}

/// A file that a task made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Artifact {
    /// Its name: one path component.
    pub(crate) name: String,
    pub(crate) media_type: String,
    /// Its content.
    pub(crate) bytes: Vec<u8>,
}

/// The outcome of a task.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Result objects, in order; also what there was before a failure.
    pub(crate) output: Vec<Value>,
    /// Why it failed, if it did.
    pub(crate) failure: Option<Failure>,
    /// Screenshots, documents and downloads.
    pub(crate) artifacts: Vec<Artifact>,
}

/// Follows the progress of a task. Must not block.
pub(crate) trait ProgressListener: Send + Sync {
    fn progress(&self, event: Progress);
}
