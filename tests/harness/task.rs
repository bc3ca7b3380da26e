//! Tasks as a caller orders them.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde::Deserialize as _;
use serde_json::{Value, json};
use warmpool_api::task::TaskView;

use crate::api::Api;

/// Every engine by its name, or those that `WARMPOOL_TEST_ENGINES` lists: where not all images are built.
#[must_use]
pub fn engines() -> Vec<String> {
    let listed = std::env::var("WARMPOOL_TEST_ENGINES").unwrap_or_else(|_| "chromium,firefox,webkit".to_owned());
    listed.split(',').map(str::to_owned).collect()
}

/// A file of `examples/tasks`.
#[must_use]
pub fn example_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/tasks").join(name)
}

/// A file of `examples/tasks`, as JSON.
pub fn example(name: &str) -> Result<Value> {
    let path = example_path(name);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// Orders a task and waits for its end, whatever that is; returns the task.
pub async fn ended(api: &Api, path: &str, body: &Value) -> Result<Value> {
    let mut body = body.clone();
    body["wait"] = json!(150);
    let reply = api.post(path, &body).await?;
    ensure!(reply.status == 200, "{reply}");
    reply.json()
}

/// Orders a task that must succeed; returns the task.
pub async fn succeeds(api: &Api, path: &str, body: &Value) -> Result<Value> {
    let task = ended(api, path, body).await?;
    ensure!(task["status"] == "success", "{}: {task:#}", body["browser_type"]);
    Ok(task)
}

/// Orders a task that must fail with this code; returns its error.
pub async fn fails(api: &Api, path: &str, body: &Value, code: &str) -> Result<Value> {
    let task = ended(api, path, body).await?;
    ensure!(task["status"] == "failure" && task["error"]["code"] == code, "not {code}: {task:#}");
    Ok(task)
}

/// An artifact's bytes.
pub async fn artifact(api: &Api, task: &Value, name: &str) -> Result<bytes::Bytes> {
    let artifacts = TaskView::deserialize(task)?.artifacts;
    let artifact = artifacts.iter().find(|artifact| artifact.name == name);
    let reply = api.get(&artifact.with_context(|| format!("{name} in {task:#}"))?.url).await?;
    ensure!(reply.status == 200, "{reply}");
    Ok(reply.body)
}
