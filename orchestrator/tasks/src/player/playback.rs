//! A task while it is carried out: its browser and page, its limits, and its results so far.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::browser::Browser;
use super::outcome::{Artifact, Limits, ProgressListener};
use super::page::Page;
use crate::script::template::Redactor;
use crate::script::{FailureCode, StepError};
use warmpool_api::task::Progress;

/// A task under way.
pub(crate) struct Playback<'a> {
    pub(crate) browser: &'a Browser,
    /// Its page, once there is one.
    page: Option<Page>,
    pub(crate) limits: &'a Limits,
    pub(crate) listener: &'a dyn ProgressListener,
    redactor: &'a Redactor,
    pub(crate) output: Vec<Value>,
    /// Size of the output as JSON, in bytes.
    output_bytes: u64,
    pub(crate) artifacts: Vec<Artifact>,
    /// The step that is being carried out.
    pub(crate) step: Option<usize>,
    /// How many pages were read.
    pub(crate) pages: usize,
}

impl<'a> Playback<'a> {
    /// A task that has done nothing yet.
    pub(super) const fn new(
        browser: &'a Browser,
        limits: &'a Limits,
        listener: &'a dyn ProgressListener,
        redactor: &'a Redactor,
    ) -> Self {
        Self {
            browser,
            page: None,
            limits,
            listener,
            redactor,
            output: Vec::new(),
            output_bytes: 0,
            artifacts: Vec::new(),
            step: None,
            pages: 0,
        }
    }

    /// Opens the page, whose driver waits `timeout` for pages and scripts at first.
    pub(super) async fn open(&mut self, timeout: Duration) -> Result<(), StepError> {
        self.page = Some(Page::open(self.browser, timeout, self.limits.max_output).await?);
        Ok(())
    }

    /// The page.
    /// Errors: when there is none yet.
    pub(super) fn page(&mut self) -> Result<&mut Page, StepError> {
        self.page.as_mut().ok_or_else(|| StepError::new(FailureCode::DriverError, "the browser was not opened"))
    }

    pub(super) const fn opened(&self) -> Option<&Page> {
        self.page.as_ref()
    }

    /// What is left of the output's size, in bytes.
    pub(crate) const fn output_left(&self) -> u64 {
        self.limits.max_output.saturating_sub(self.output_bytes)
    }

    /// Adds a result.
    /// Errors: `TooLarge`.
    pub(crate) fn push_output(&mut self, result: Value) -> Result<(), StepError> {
        let size = result.to_string().len() as u64;
        if size > self.output_left() {
            return Err(self.output_too_large());
        }
        self.output_bytes += size;
        self.output.push(result);
        Ok(())
    }

    /// The output is larger than it may be.
    pub(crate) fn output_too_large(&self) -> StepError {
        let message = format!(
            "the output is larger than {} bytes: read less, or raise `tasks.max_output`",
            self.limits.max_output
        );
        StepError::new(FailureCode::TooLarge, message)
    }

    /// How many bytes another artifact may have.
    /// Errors: `TooLarge` when there may be no other.
    pub(crate) fn artifact_room(&self) -> Result<u64, StepError> {
        if self.artifacts.len() >= self.limits.max_artifacts {
            let message =
                format!("a task may make {} artifacts: raise `tasks.max_artifacts`", self.limits.max_artifacts);
            return Err(StepError::new(FailureCode::TooLarge, message));
        }
        let taken: u64 = self.artifacts.iter().map(|artifact| artifact.bytes.len() as u64).sum();
        Ok(self.limits.max_artifact_bytes.saturating_sub(taken))
    }

    /// Keeps a file by its name without secrets; a name that is taken gets a number. Returns its place.
    /// Errors: `TooLarge`.
    pub(crate) fn add_artifact(
        &mut self,
        name: &str,
        ending: &str,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<usize, StepError> {
        if bytes.len() as u64 > self.artifact_room()? {
            let message = format!(
                "the artifacts are larger than {} bytes: raise `tasks.max_artifact_size`",
                self.limits.max_artifact_bytes
            );
            return Err(StepError::new(FailureCode::TooLarge, message));
        }
        let name = free_name(&self.artifacts, self.redactor, name, ending);
        self.artifacts.push(Artifact { name, media_type: media_type.to_owned(), bytes });
        Ok(self.artifacts.len() - 1)
    }

    /// Reports something that was left out and does not change a result.
    pub(super) fn warn(&self, message: &str) {
        self.listener.progress(Progress::Warning { message: self.redactor.text(message) });
    }

    /// Reports the number of results.
    pub(crate) fn report_rows(&self) {
        self.listener.progress(Progress::Rows { rows: self.output.len(), pages: self.pages });
    }
}

/// The name without secrets, or with a number where one of the artifacts has it: names may differ by their secrets alone.
fn free_name(artifacts: &[Artifact], redactor: &Redactor, name: &str, ending: &str) -> String {
    let name = redactor.text(name);
    let stem = name.strip_suffix(ending).unwrap_or(&name);
    let taken = |name: &str| artifacts.iter().any(|artifact| artifact.name == name);
    let mut full = format!("{stem}{ending}");
    let mut number = 2;
    while taken(&full) {
        full = format!("{stem}-{number}{ending}");
        number += 1;
    }
    full
}

/// How long something may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepTimeout {
    pub(crate) duration: Duration,
    /// Its end.
    pub(crate) deadline: Instant,
}

impl StepTimeout {
    /// Begins now.
    pub(super) fn start(duration: Duration) -> Self {
        Self { duration, deadline: Instant::now() + duration }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::script::Values;

    #[test]
    fn names_that_differ_by_secrets_alone_are_told_apart() {
        let secrets = Map::from_iter([("a".to_owned(), json!("first")), ("b".to_owned(), json!("other"))]);
        let redactor = Redactor::new(&Values { inputs: Map::new(), secrets });
        let mut artifacts = Vec::new();
        for name in ["of-first", "of-other", "of-other.png", "plain", "plain"] {
            let name = free_name(&artifacts, &redactor, name, ".png");
            artifacts.push(Artifact { name, media_type: "image/png".to_owned(), bytes: Vec::new() });
        }
        let names: Vec<&str> = artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
        assert_eq!(names, ["of-[secret].png", "of-[secret]-2.png", "of-[secret]-3.png", "plain.png", "plain-2.png"]);
    }
}
