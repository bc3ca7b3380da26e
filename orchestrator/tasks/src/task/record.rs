//! A task on paper: what the store keeps and what clients read.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::index_row::{EndUser, IndexRow, LabelHash};
use super::record_room::{RecordRoom, shorten};
use crate::player::{Artifact, Failure};
use warmpool_api::task::{ItemCounts, Status, TaskError, TaskKind};
use warmpool_core::browser::{Engine, Mode};
use warmpool_core::ids::SessionId;
use warmpool_core::ids::TaskId;
use warmpool_core::metadata::Metadata;
use warmpool_keys::KeyId;

/// A record holds output up to this size, in bytes of JSON; larger output goes into a file.
pub(super) const INLINE_OUTPUT: usize = 16 << 10;
/// The most bytes of a message that a record keeps, as JSON.
const MAX_MESSAGE: usize = 4 << 10;
/// The same where the record is full of what its sender put into it.
const MIN_MESSAGE: usize = 200;

/// Where the result objects are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// In the record.
    Inline(Vec<Value>),
    /// In a file of the task: a JSON array.
    File {
        /// SHA-256 of the file, which is its name.
        hash: String,
        /// Its size, in bytes.
        bytes: u64,
    },
}

impl Default for Output {
    fn default() -> Self {
        Self::Inline(Vec::new())
    }
}

/// A file that a task made, as its record names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRecord {
    /// Its name; an item's begin with the item's number.
    pub name: String,
    /// Its media type.
    pub media_type: String,
    /// Its size, in bytes.
    pub bytes: u64,
    /// SHA-256 of its content, which is the name of its file.
    pub hash: String,
}

/// The error of a failure; `artifacts` are those of its task.
pub(super) fn task_error(failure: Failure, artifacts: &[Artifact]) -> TaskError {
    let mut message = failure.message;
    shorten(&mut message, MAX_MESSAGE);
    let screenshot = failure.screenshot.and_then(|at| artifacts.get(at)).map(|artifact| artifact.name.clone());
    TaskError { code: failure.code.as_str().to_owned(), message, step: failure.step, screenshot }
}

/// A task as the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its id, which says when it was accepted.
    pub task_id: TaskId,
    /// The key that sent it.
    pub owner: KeyId,
    /// What it does.
    pub kind: TaskKind,
    /// How far it is.
    pub status: Status,
    /// What its sender calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The title of its recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The first page of its work, as it was sent, so that a template of it holds no input or secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// On which engine.
    pub engine: Engine,
    /// Headed or headless.
    pub mode: Mode,
    /// What its templates are filled with. A fleet's stand with its items.
    #[serde(default)]
    pub inputs: Map<String, Value>,
    /// The end user it was sent for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_passcode: Option<String>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// Whether it may be run again after it was interrupted.
    #[serde(default)]
    pub safe_to_repeat: bool,
    /// Whether the data went back to a state from before it ended, so that it may have run since. None that is safe to repeat is marked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_have_run: bool,
    /// When it was begun, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<u64>,
    /// When it ended, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// The session it was carried out in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
    /// Its results.
    #[serde(default)]
    pub output: Output,
    /// Its files.
    #[serde(default)]
    pub artifacts: Vec<ArtifactRecord>,
    /// How long each step took that is done, in milliseconds; not of a fleet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step_times: Vec<u32>,
    /// The items of a fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<ItemCounts>,
    /// Where its sender wants to hear of its end. No answer shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
    /// The task whose failed items it tries again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<TaskId>,
    /// Under which key of [`TaskKeys`](warmpool_store::Table::TaskKeys) it can be found again, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<String>,
    /// Why it is waiting. Never on the disk: it may wait for the disk, and knows anew after a restart.
    #[serde(skip)]
    pub waiting: Option<Box<TaskError>>,
    /// The number of parts in which the store keeps its work.
    #[serde(default)]
    pub body_parts: u16,
    /// How much its files, its items and a large order take on the disk, in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kept_bytes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// The error of a failure that is none of the player's.
pub(super) fn other_error(code: &str, mut message: String) -> TaskError {
    shorten(&mut message, MAX_MESSAGE);
    TaskError::new(code, message)
}

impl Record {
    /// How much it can hold of results. The times of its steps give way to them.
    pub(super) fn room(&self) -> RecordRoom {
        RecordRoom::beside(&Self {
            error: None,
            output: Output::default(),
            artifacts: Vec::new(),
            step_times: Vec::new(),
            ..self.clone()
        })
    }

    /// Leaves out what has no room beside the rest, so that the end of a task is always written.
    pub(super) fn shorten(&mut self) {
        self.step_times.clear();
        let mut room = self.room();
        if let Some(error) = &mut self.error
            && !room.take(&*error)
        {
            shorten(&mut error.message, MIN_MESSAGE);
        }
    }

    /// How long it took, in milliseconds; 0 until it has ended.
    pub fn execution_time(&self) -> u64 {
        match (self.started_ms, self.ended_ms) {
            (Some(started), Some(ended)) => ended.saturating_sub(started),
            _ => 0,
        }
    }

    pub(super) fn index_row(&self) -> IndexRow {
        IndexRow {
            id: self.task_id,
            kind: self.kind,
            status: self.status,
            duration: u32::try_from(self.execution_time()).unwrap_or(u32::MAX),
            user: self.service_passcode.as_deref().map(EndUser::from_passcode),
            labels: self.metadata.labels().map(|(key, value)| LabelHash::new(key, value)).collect(),
        }
    }
}

/// One item of a fleet, as the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Its number, from 0.
    pub index: u32,
    /// How far it is.
    pub status: Status,
    /// How often it was begun.
    #[serde(default)]
    pub attempts: u32,
    /// How long its last attempt took, in milliseconds.
    #[serde(default)]
    pub execution_time: u64,
    /// What its templates are filled with.
    #[serde(default)]
    pub inputs: Map<String, Value>,
    /// The session of its last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
    /// Its results.
    #[serde(default)]
    pub output: Output,
    /// Its files.
    #[serde(default)]
    pub artifacts: Vec<ArtifactRecord>,
}

impl Item {
    /// How much it can hold of results.
    pub(super) fn room(&self) -> RecordRoom {
        RecordRoom::beside(&Self { error: None, output: Output::default(), artifacts: Vec::new(), ..self.clone() })
    }
}
