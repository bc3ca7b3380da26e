//! The tool for tasks: work that Warmpool does by itself, in browsers of its own.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ContentBlock;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::{Reply, ToolError};
use crate::mcp_session::McpSession;
use warmpool_api::Members;
use warmpool_core::error::FieldError;
use warmpool_tasks::task::{Status, SubmitOptions, SubmitRequest, Task, TaskId, TaskKind, record_view};

/// How long a task is waited for where nothing else is said: less than clients wait for a tool.
const WAIT: Duration = Duration::from_secs(30);

/// A new task, or one to wait for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RunTask {
    /// What a new task does.
    kind: Option<TaskKind>,
    /// What a new task is to do: the body of POST /lam/run, /lam/extract or /lam/fleet, such as
    /// `{"url": "https://example.com/", "schema": {"title": "h1"}}` for `extract`.
    #[schemars(with = "Option<Map<String, Value>>")]
    order: Option<Members>,
    /// In place of both, a task that has not ended yet.
    task_id: Option<String>,
    /// How long to wait for the task's end, in seconds: 30 where it is left out.
    wait: Option<u64>,
}

pub(super) async fn run(mcp: &Arc<McpSession>, given: RunTask) -> Reply {
    let RunTask { kind, order, task_id, wait } = given;
    let (tasks, config) = (&mcp.inner.tasks, &mcp.inner.config);
    let longest = config.tasks.max_wait;
    let wait = wait.map_or(WAIT.min(longest), Duration::from_secs);
    if wait > longest {
        let problem = format!("must be at most {} seconds (`tasks.max_wait`)", longest.as_secs());
        return Err(FieldError::invalid("wait", problem).into());
    }
    let task = match (kind, order, task_id) {
        (Some(kind), Some(order), None) => {
            let (spec, secrets) = SubmitRequest::read(kind, order)?.check(config)?;
            let options = SubmitOptions { secrets, idempotency: None, request: String::new(), retry_of: None };
            tasks.accept(mcp.key.clone(), spec, options).await?
        }
        (None, None, Some(id)) => {
            let unknown = |_| FieldError::invalid("taskId", "is no task's: `run_task` names it when a task is begun");
            tasks.find(id.parse::<TaskId>().map_err(unknown)?, &mcp.key).await?
        }
        _ => {
            let problem = "and `order` are both needed for a new task, and neither beside `taskId`";
            return Err(FieldError::invalid("kind", problem).into());
        }
    };
    if let Task::Active(active) = &task {
        // The MCP session's end ends the wait; the task goes on.
        tokio::select! {
            _ = timeout(wait, active.ended()) => {}
            () = mcp.ended() => {}
        }
    }
    let record = task.into_record();
    let id = record.task_id;
    if !record.status.is_end() {
        let told = format!("The task {id} is {}: call run_task with this `taskId` to wait for its end.", record.status);
        return Ok(vec![ContentBlock::text(told)]);
    }
    let output = tasks.output(id, &record.output).await?;
    let view = record_view(&record, Some(output));
    let text = serde_json::to_string_pretty(&view).map_err(|error| ToolError::failed(error.to_string()))?;
    let most = config.mcp.max_answer.bytes();
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > most {
        let told =
            format!("the task {id} has more output than {most} bytes (`mcp.max_answer`): GET /lam/tasks/{id} has it");
        return Err(ToolError::failed(told));
    }
    match record.status {
        Status::Success => Ok(vec![ContentBlock::text(text)]),
        _ => Err(ToolError::failed(text)),
    }
}
