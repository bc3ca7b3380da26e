//! Builds what clients read of tasks, items and artifacts.

use serde_json::Value;
use warmpool_api::task::{ArtifactView, ItemView, OutputView, TaskView};
use warmpool_core::browser::Mode;
use warmpool_core::ids::TaskId;

use super::record::{ArtifactRecord, Item, Output, Record};

/// A task, with these result objects where they are not in the record.
pub fn record(record: &Record, output: Option<Vec<Value>>) -> TaskView {
    TaskView {
        task_id: record.task_id,
        execution_type: record.kind,
        execution_time: record.execution_time(),
        inputs: record.inputs.clone(),
        service_passcode: record.service_passcode.clone(),
        metadata: record.metadata.clone(),
        timestamp: record.task_id.timestamp(),
        status: record.status,
        browser_type: record.engine,
        headless: record.mode == Mode::Headless,
        key_id: record.owner.clone(),
        output: output_view(&record.output, output, || path(record.task_id)),
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

/// An item of the fleet `task`, with these result objects where they are not in it.
pub fn item(task: TaskId, item: &Item, output: Option<Vec<Value>>) -> ItemView {
    ItemView {
        index: item.index,
        status: item.status,
        attempts: item.attempts,
        execution_time: item.execution_time,
        inputs: item.inputs.clone(),
        output: output_view(&item.output, output, || format!("{}/items?format=ndjson", path(task))),
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
        url: format!("{}/artifacts/{}", path(record.task_id), warmpool_core::address::path_segment(&artifact.name)),
    };
    list.iter().map(one).collect()
}

/// The path of a task.
fn path(task: TaskId) -> String {
    format!("/lam/tasks/{task}")
}

/// Result objects, or how large they are and at which `url` all of them are.
fn output_view(kept: &Output, output: Option<Vec<Value>>, url: impl FnOnce() -> String) -> OutputView {
    let here = |output| OutputView { output, output_bytes: None, output_url: None };
    match (kept, output) {
        (_, Some(rows)) => here(rows),
        (Output::Inline(rows), None) => here(rows.clone()),
        (Output::File { bytes, .. }, None) => {
            OutputView { output: Vec::new(), output_bytes: Some(*bytes), output_url: Some(url()) }
        }
    }
}
