//! A task on paper: what the store keeps and what clients read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::id::TaskId;
use super::index_row::{EndUser, IndexRow};
use super::status::{Kind, Status};
use crate::player::{Artifact, Failure};
use warmpool_core::browser::{Engine, Mode};
use warmpool_core::ids::SessionId;
use warmpool_keys::KeyId;

/// A record holds output up to this size, in bytes of JSON; larger output goes into a file.
pub(super) const INLINE_OUTPUT: usize = 16 << 10;
/// The most bytes of a message that a record keeps.
const MAX_MESSAGE: usize = 4 << 10;

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

/// Why a task did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskError {
    /// For programs: a [`FailureCode`](crate::script::FailureCode), or one of `interrupted`, `no_worker`, `items_failed`,
    /// `stopped`, `internal`; or `disk_nearly_full`, `store_busy` of a task that waits.
    pub code: String,
    /// For people.
    pub message: String,
    /// The failed step, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// The artifact that shows the page at that moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<String>,
}

impl TaskError {
    /// An error that is no step's.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), step: None, screenshot: None }
    }

    /// The error of a failure; `artifacts` are those of its task.
    pub(super) fn of(failure: Failure, artifacts: &[Artifact]) -> Self {
        let mut message = failure.message;
        if message.len() > MAX_MESSAGE {
            let end = (0..=MAX_MESSAGE).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
            message.truncate(end);
            message.push('…');
        }
        let shown = failure.screenshot.and_then(|at| artifacts.get(at)).map(|artifact| artifact.name.clone());
        Self { code: failure.code.as_str().to_owned(), message, step: failure.step, screenshot: shown }
    }
}

/// A file that a task made, as its record names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRecord {
    /// Its name; an item's begin with the item's number.
    pub name: String,
    pub media_type: String,
    /// Its size, in bytes.
    pub bytes: u64,
    /// SHA-256 of its content, which is the name of its file.
    pub hash: String,
}

/// How many items of a fleet are in which state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ItemCounts {
    pub total: u32,
    /// Not begun, or to be tried again.
    pub queued: u32,
    /// Being carried out.
    pub running: u32,
    /// With their results.
    pub success: u32,
    /// Without.
    pub failure: u32,
    /// Not to be carried out any more.
    pub cancelled: u32,
}

impl ItemCounts {
    /// A fleet of which nothing is done.
    pub fn of(total: u32) -> Self {
        Self { total, queued: total, ..Self::default() }
    }

    /// One item went from one state to another.
    pub(super) fn moved(&mut self, from: Status, to: Status) {
        let from = self.of_status(from);
        *from = from.saturating_sub(1);
        *self.of_status(to) += 1;
    }

    fn of_status(&mut self, status: Status) -> &mut u32 {
        match status {
            Status::Queued => &mut self.queued,
            Status::Running => &mut self.running,
            Status::Success => &mut self.success,
            Status::Failure => &mut self.failure,
            Status::Cancelled => &mut self.cancelled,
        }
    }
}

/// A task as the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its id, which says when it was accepted.
    pub task_id: TaskId,
    /// The key that sent it.
    pub owner: KeyId,
    /// What it does.
    pub kind: Kind,
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
    /// Whether it may be run again after it was interrupted.
    #[serde(default)]
    pub safe_to_repeat: bool,
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
    /// The task whose failed items it tries again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<TaskId>,
    /// Under which key of [`TaskKeys`](warmpool_store::Table::TaskKeys) it can be found again, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<String>,
    /// Why it is waiting. Never on the disk, because it waits for the disk.
    #[serde(skip)]
    pub waiting: Option<Box<TaskError>>,
    /// The number of parts in which the store keeps its work.
    #[serde(default)]
    pub body_parts: u16,
}

impl Record {
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
            user: self.service_passcode.as_deref().map(EndUser::of),
        }
    }
}

/// One item of a fleet, as the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Its number, from 0.
    pub index: u32,
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
