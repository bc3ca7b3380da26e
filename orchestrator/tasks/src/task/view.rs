//! Tasks, items and artifacts as clients read them.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::id::TaskId;
use super::record::{ArtifactRecord, Item, ItemCounts, Output, Record, TaskError};
use super::status::{Kind, Status};
use warmpool_core::browser::{Engine, Mode};
use warmpool_core::ids::SessionId;
use warmpool_keys::KeyId;

/// A task.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Task")]
pub struct TaskView {
    task_id: TaskId,
    /// What it does.
    execution_type: Kind,
    /// How long it took, in milliseconds; 0 until it has ended.
    execution_time: u64,
    /// What its templates are filled with; a fleet's stand with its items.
    inputs: Map<String, Value>,
    /// The end user it was sent for.
    service_passcode: Option<String>,
    /// When it was accepted, in Unix milliseconds.
    timestamp: u64,
    status: Status,
    browser_type: Engine,
    headless: bool,
    /// The id of the key that sent it.
    key_id: KeyId,
    #[serde(flatten)]
    output: OutputView,
    /// Its files; those of a fleet's items stand with the items.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    artifacts: Vec<ArtifactView>,
    /// What its sender calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The title of its recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// The first page of its work, with templates as they were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<String>,
    /// The session it was carried out in.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<SessionId>,
    /// Why it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<TaskError>,
    /// Why it stands still at the moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<TaskError>,
    /// When it was begun, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<u64>,
    /// When it ended, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<u64>,
    /// How long each step took, in milliseconds, in the order in which they ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    step_times: Vec<u32>,
    /// How many items of a fleet are in which state.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<ItemCounts>,
    /// The task of which it tries again what failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_of: Option<TaskId>,
    /// Whether it had ended before the request to cancel it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub already_ended: bool,
}

/// An item of a fleet.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskItem")]
pub struct ItemView {
    /// Its number, from 0.
    index: u32,
    status: Status,
    /// How often it was begun.
    attempts: u32,
    /// How long its last attempt took, in milliseconds.
    execution_time: u64,
    inputs: Map<String, Value>,
    #[serde(flatten)]
    output: OutputView,
    /// The session of its last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<SessionId>,
    /// Why it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<TaskError>,
    /// The names of its files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    artifacts: Vec<String>,
}

/// Result objects, or where they are.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OutputView {
    /// The result objects. Empty where there are too many for a list: then `outputBytes` says how large they are.
    output: Vec<Value>,
    /// Their size as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_bytes: Option<u64>,
    /// The path that answers all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_url: Option<String>,
}

/// A file that a task made.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Artifact")]
pub struct ArtifactView {
    /// Its name; an item's begin with the item's number.
    name: String,
    media_type: String,
    /// Its size.
    bytes: u64,
    sha256: String,
    /// The path that answers it.
    url: String,
}

/// A task, with these result objects where they are not in the record.
pub fn record(record: &Record, output: Option<Vec<Value>>) -> TaskView {
    let base = format!("/lam/tasks/{}", record.task_id);
    TaskView {
        task_id: record.task_id,
        execution_type: record.kind,
        execution_time: record.execution_time(),
        inputs: record.inputs.clone(),
        service_passcode: record.service_passcode.clone(),
        timestamp: record.task_id.timestamp(),
        status: record.status,
        browser_type: record.engine,
        headless: record.mode == Mode::Headless,
        key_id: record.owner.clone(),
        output: output_view(&record.output, output, Some(base)),
        artifacts: artifacts(record, &record.artifacts),
        name: record.name.clone(),
        title: record.title.clone(),
        page: record.page.clone(),
        session_id: record.session_id.clone(),
        error: record.error.clone(),
        waiting: record.waiting.as_deref().cloned(),
        started_at: record.started_ms,
        ended_at: record.ended_ms,
        step_times: record.step_times.clone(),
        items: record.items.clone(),
        retry_of: record.retry_of,
        already_ended: false,
    }
}

/// An item of a fleet, with these result objects where they are not in it.
pub fn item(item: &Item, output: Option<Vec<Value>>) -> ItemView {
    ItemView {
        index: item.index,
        status: item.status,
        attempts: item.attempts,
        execution_time: item.execution_time,
        inputs: item.inputs.clone(),
        output: output_view(&item.output, output, None),
        session_id: item.session_id.clone(),
        error: item.error.clone(),
        artifacts: item.artifacts.iter().map(|artifact| artifact.name.clone()).collect(),
    }
}

/// The artifacts of a task, or of one of its items.
pub fn artifacts(record: &Record, list: &[ArtifactRecord]) -> Vec<ArtifactView> {
    let one = |artifact: &ArtifactRecord| ArtifactView {
        name: artifact.name.clone(),
        media_type: artifact.media_type.clone(),
        bytes: artifact.bytes,
        sha256: artifact.hash.clone(),
        url: format!(
            "/lam/tasks/{}/artifacts/{}",
            record.task_id,
            warmpool_core::address::path_segment(&artifact.name)
        ),
    };
    list.iter().map(one).collect()
}

fn output_view(kept: &Output, output: Option<Vec<Value>>, url: Option<String>) -> OutputView {
    let here = |output| OutputView { output, output_bytes: None, output_url: None };
    match (kept, output) {
        (_, Some(rows)) => here(rows),
        (Output::Inline(rows), None) => here(rows.clone()),
        (Output::File { bytes, .. }, None) => {
            OutputView { output: Vec::new(), output_bytes: Some(*bytes), output_url: url }
        }
    }
}
