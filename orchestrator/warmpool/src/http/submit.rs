//! `POST /lam/run`, `/lam/extract`, `/lam/fleet`, and another try of what failed.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::App;
use super::auth::Caller;
use super::body;
use super::headers::{MAX_IDEMPOTENCY_KEY, idempotency_key};
use super::openapi::{Access, EVENTS, Operation, Routes};
use super::route::{Policy, Traffic};
use super::task_reply::{Delivery, answer};
use super::tasks::ID as TASK_ID;
use crate::http::error::Error;
use warmpool_api::task::TaskView;
use warmpool_core::error::Code;
use warmpool_keys::KeyId;
use warmpool_tasks::task::{
    RetryRequest, SubmitExtract, SubmitFleet, SubmitOptions, SubmitRequest, SubmitRun, TaskKind,
};

const POLICY: Policy = Policy::rest(Access::Key, &[TASK_ID]).of(Traffic::Work).suggested();

fn operation<T: JsonSchema>(id: &'static str, summary: &'static str, example: Value) -> Operation {
    Operation::new(id, summary, POLICY)
        .about(
            "The task is on the disk before the answer comes. The answer is the task at once (202), the task at its end (200) \
             where the call waits for it, or server-sent events until its end with `Accept: text/event-stream`: `task`, \
             `progress`, `item` and `end`.",
        )
        .reads::<T>(example)
        .header(
            "Idempotency-Key",
            "All calls with the same value make one task.",
            json!({"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY}),
        )
        .header("Prefer", "`wait=N`: wait up to N seconds for the task's end.", json!({"type": "string"}))
        .writes::<TaskView>("The task at its end, or events until then.")
        .writes_text(EVENTS, "Events until the end.")
        .writes_at::<TaskView>(202, "The accepted task.")
        .fails(&[
            Code::NotSupported,
            Code::IdempotencyKeyReused,
            Code::TaskQueueFull,
            Code::TaskLimit,
            Code::EngineNotInstalled,
            Code::ProxyUnavailable,
            Code::Draining,
            Code::StoreBusy,
            Code::OutcomeUnknown,
            Code::DiskNearlyFull,
        ])
}

pub(super) fn routes(routes: Routes) -> Routes {
    let steps = json!([{"type": "navigate", "url": "{{input.url}}"}]);
    let inputs = json!({"url": "https://example.com/"});
    let run_example = json!({"steps": steps, "inputs": inputs});
    let extract_example = json!({"url": "{{input.url}}", "schema": {"title": "h1"}, "inputs": inputs});
    let fleet_example =
        json!({"extract": {"url": "{{input.url}}", "schema": {"title": "h1"}}, "urls": ["https://example.com/"]});
    routes
        .post("/lam/run", run, operation::<SubmitRun>("submit_run", "Play a recording", run_example))
        .post(
            "/lam/extract",
            extract,
            operation::<SubmitExtract>("submit_extract", "Read a page by a schema", extract_example),
        )
        .post("/lam/fleet", fleet, operation::<SubmitFleet>("submit_fleet", "Do either for many inputs", fleet_example))
        .post(
            "/lam/tasks/{id}/retry",
            retry,
            operation::<RetryRequest>("retry_task", "Make a new task of all that has not succeeded", json!({}))
                .fails(&[Code::UnknownTask, Code::Conflict]),
        )
}

/// `POST /lam/run`
pub(super) async fn run(
    State(app): State<App>,
    Caller(key): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    submit(&app, key, TaskKind::Run, &headers, body).await
}

/// `POST /lam/extract`
pub(super) async fn extract(
    State(app): State<App>,
    Caller(key): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    submit(&app, key, TaskKind::Extract, &headers, body).await
}

/// `POST /lam/fleet`
pub(super) async fn fleet(
    State(app): State<App>,
    Caller(key): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    submit(&app, key, TaskKind::Fleet, &headers, body).await
}

async fn submit(app: &App, key: KeyId, kind: TaskKind, headers: &HeaderMap, body: Body) -> Result<Response, Error> {
    let mut text = body::json_text(app, headers, body, app.config.tasks.max_body.bytes(), "tasks.max_body").await?;
    let (delivery, spec, options) = text.off_reactor(|text| {
        let request = SubmitRequest::read(kind, text.parse()?)?;
        let delivery = Delivery::of(headers, request.wait(), &app.config)?;
        let (spec, secrets) = request.check(&app.config)?;
        let request = format!("{kind} {}", String::from_utf8_lossy(text));
        let options = SubmitOptions { secrets, idempotency: idempotency_key(headers)?, request, retry_of: None };
        Ok::<_, Error>((delivery, spec, options))
    })?;
    let accepted = app.tasks.accept(key, spec, options).await?;
    // Free the body before waiting for the task.
    drop(text);
    answer(app, accepted, delivery).await
}

/// `POST /lam/tasks/<id>/retry`: a new task of what did not succeed.
pub(super) async fn retry(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let mut text = body::json_text(&app, &headers, body, app.config.tasks.max_body.bytes(), "tasks.max_body").await?;
    let again: RetryRequest = text.parse()?;
    let delivery = Delivery::of(&headers, again.wait, &app.config)?;
    let task = super::tasks::task_id(&id)?;
    let spec = app.tasks.retry_spec(task, &key).await?;
    let options = SubmitOptions {
        secrets: again.secrets()?,
        idempotency: idempotency_key(&headers)?,
        request: format!("retry {id} {}", String::from_utf8_lossy(&text)),
        retry_of: Some(task),
    };
    let accepted = app.tasks.accept(key, spec, options).await?;
    drop(text);
    answer(&app, accepted, delivery).await
}
