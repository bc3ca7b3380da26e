//! Tasks, items and artifacts as clients read them.

use serde_json::{Map, Value, json};

use super::record::{ArtifactRecord, Item, Output, Record};
use crate::engine::Mode;

/// A task, with these result objects where they are not in the record.
pub(crate) fn record(record: &Record, output: Option<Vec<Value>>) -> Value {
    let mut view = json!({
        "taskId": record.task_id,
        "executionType": record.kind,
        "executionTime": record.execution_time(),
        "inputs": record.inputs,
        "servicePasscode": record.service_passcode,
        "timestamp": record.task_id.timestamp(),
        "status": record.status,
        "browserType": record.engine,
        "headless": record.mode == Mode::Headless,
        "keyId": record.owner,
    });
    if let Some(view) = view.as_object_mut() {
        let base = format!("/lam/tasks/{}", record.task_id);
        put_output(view, &record.output, output, &base);
        if !record.artifacts.is_empty() {
            view.insert("artifacts".to_owned(), artifacts(record, &record.artifacts));
        }
        let mut more = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                view.insert(name.to_owned(), value);
            }
        };
        more("name", record.name.clone().map(Value::from));
        more("title", record.title.clone().map(Value::from));
        more("page", record.page.clone().map(Value::from));
        more("sessionId", record.session_id.as_ref().map(|session| json!(session)));
        more("error", record.error.as_ref().map(|error| json!(error)));
        more("waiting", record.waiting.as_deref().map(|error| json!(error)));
        more("startedAt", record.started_ms.map(Value::from));
        more("endedAt", record.ended_ms.map(Value::from));
        more("items", record.items.as_ref().map(|items| json!(items)));
        more("retryOf", record.retry_of.map(|task| json!(task)));
    }
    view
}

/// An item of a fleet, with these result objects where they are not in it.
pub(crate) fn item(item: &Item, output: Option<Vec<Value>>) -> Value {
    let mut view = json!({
        "index": item.index,
        "status": item.status,
        "attempts": item.attempts,
        "executionTime": item.execution_time,
        "inputs": item.inputs,
    });
    if let Some(view) = view.as_object_mut() {
        put_output(view, &item.output, output, "");
        if let Some(session) = &item.session_id {
            view.insert("sessionId".to_owned(), json!(session));
        }
        if let Some(error) = &item.error {
            view.insert("error".to_owned(), json!(error));
        }
        if !item.artifacts.is_empty() {
            let names: Vec<&str> = item.artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
            view.insert("artifacts".to_owned(), json!(names));
        }
    }
    view
}

/// The artifacts of a task, or of one of its items.
pub(crate) fn artifacts(record: &Record, list: &[ArtifactRecord]) -> Value {
    let one = |artifact: &ArtifactRecord| {
        json!({
            "name": artifact.name,
            "mediaType": artifact.media_type,
            "bytes": artifact.bytes,
            "sha256": artifact.hash,
            "url": format!("/lam/tasks/{}/artifacts/{}", record.task_id, crate::engine::path_segment(&artifact.name)),
        })
    };
    list.iter().map(one).collect()
}

fn put_output(view: &mut Map<String, Value>, kept: &Output, output: Option<Vec<Value>>, base: &str) {
    let rows = match (kept, output) {
        (_, Some(rows)) => rows,
        (Output::Inline(rows), None) => rows.clone(),
        (Output::File { bytes, .. }, None) => {
            view.insert("outputBytes".to_owned(), json!(bytes));
            if !base.is_empty() {
                view.insert("outputUrl".to_owned(), json!(base));
            }
            Vec::new()
        }
    };
    view.insert("output".to_owned(), Value::Array(rows));
}
