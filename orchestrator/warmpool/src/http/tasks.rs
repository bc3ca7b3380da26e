//! `/lam/tasks`: the history, one task, its items, its files, its end.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use futures_util::{StreamExt as _, TryStreamExt as _, future};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::fs::File;
use tokio_util::io::ReaderStream;

use super::App;
use super::answer::AnswerParts;
use super::auth::{Caller, Scope};
use super::export::{self, Format};
use super::files::FILE;
use super::headers::wants;
use super::openapi::{Access, EVENTS, Operation, Routes};
use super::query::Query;
use super::reply::{download, json_reply};
use super::route::{Names, Policy, Segment};
use super::task_reply::{events, stream_of, whole};
use crate::http::error::Error;
use warmpool_api::list::PageMeta;
use warmpool_api::task::{ArtifactList, ItemPage, ItemView, OrderView, TaskPage, TaskView};
use warmpool_core::error::{Code, FieldFault as _};
use warmpool_tasks::task::{ExportFormat, Status, Task, TaskId, TaskQuery, artifacts_view, item_view, record_view};

/// Media types that a browser shows and does not run.
const HARMLESS: [&str; 4] = ["image/png", "image/jpeg", "application/pdf", "text/plain"];

/// The form of one task's answer.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct TaskForm {
    /// The form of the answer; the header `Accept` may ask for it, too.
    #[schemars(extend("default" = "json"))]
    format: Option<Format>,
}

/// How a task is taken away.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct RemovalForm {
    /// Removes a task that has ended, with its items and files, instead of cancelling one that runs.
    forget: bool,
}

/// Which items of a fleet are wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ItemQuery {
    /// Only items of this status.
    status: Option<Status>,
    /// Only items behind this number: `next` of the page before.
    #[schemars(range(max = 4294967295u32))]
    after: Option<u32>,
    /// How many items the answer holds.
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
    /// The form of the answer; the header `Accept` may ask for it, too.
    #[schemars(extend("default" = "json"))]
    format: Option<ItemFormat>,
}

/// The form of an answer with items, which are no rows of a table.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ItemFormat {
    Json,
    Ndjson,
}

impl ItemFormat {
    /// The form that the parameter `format` asks for, or else the header `Accept`.
    /// Errors: `Field` where that asks for a table.
    fn of(headers: &HeaderMap, format: Option<Self>) -> Result<Self, Error> {
        match (format, Format::export(headers, None)) {
            (Some(format), _) => Ok(format),
            (None, None) => Ok(Self::Json),
            (None, Some(ExportFormat::Ndjson)) => Ok(Self::Ndjson),
            (None, Some(ExportFormat::Csv)) => Err(Error::invalid(
                "format",
                "must be json or ndjson, and `Accept` asks for csv: `/lam/tasks/<id>?format=csv` has the results as a table",
            )),
        }
    }
}

impl Default for ItemQuery {
    fn default() -> Self {
        Self { status: None, after: None, limit: 100, format: None }
    }
}

/// A task's id in a path.
pub(super) const ID: Segment = Segment { name: "id", about: "The task's id.", names: Names::Task };
/// Calls about one task.
const OF_TASK: Policy = Policy::rest(Access::Key, &[ID, FILE]);

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get(
            "/lam/tasks",
            list,
            Operation::new("list_tasks", "List tasks", OF_TASK.takes::<TaskQuery>().suggested()).writes::<TaskPage>("One page of the history."),
        )
        .get(
            "/lam/tasks/{id}",
            show,
            Operation::new("get_task", "Look at a task", OF_TASK.takes::<TaskForm>())
                .about(
                    "As JSON with its output; an item of a fleet that has more than 16 KiB of it says by `outputUrl` where that is. As \
                     events until its end with `Accept: text/event-stream`; or its results alone, one a line, with `format`.",
                )
                .writes::<TaskView>("The task.")
                .writes_text(EVENTS, "Events until the end.")
                .writes_text("application/x-ndjson", "The result objects, one a line.")
                .writes_text("text/csv", "The result objects as a table.")
                .fails(&[Code::UnknownTask]),
        )
        .delete(
            "/lam/tasks/{id}",
            cancel,
            Operation::new("cancel_task", "Cancel a task, or remove one that has ended", OF_TASK.takes::<RemovalForm>())
                .about("Cancels a task that has not ended. With `forget=true`, removes one that has, with its items and files.")
                .writes::<TaskView>("The task, or what it was; `alreadyEnded` says that it had ended before.")
                .fails(&[Code::UnknownTask, Code::Conflict, Code::StoreBusy, Code::TaskStopping, Code::DiskNearlyFull]),
        )
        .get(
            "/lam/tasks/{id}/order",
            order,
            Operation::new("get_order", "Look at the work of a task as it was sent", OF_TASK)
                .writes::<OrderView>("The work, without its secrets.")
                .fails(&[Code::UnknownTask, Code::StoreBusy]),
        )
        .get(
            "/lam/tasks/{id}/items",
            items,
            Operation::new("list_items", "List the items of a fleet", OF_TASK.takes::<ItemQuery>())
                .writes::<ItemPage>("Some of the items.")
                .writes_text("application/x-ndjson", "All items with their output, one a line.")
                .fails(&[Code::UnknownTask]),
        )
        .get(
            "/lam/tasks/{id}/artifacts",
            artifacts,
            Operation::new("list_artifacts", "List the files that a task made", OF_TASK)
                .writes::<ArtifactList>("Screenshots, documents and downloads.")
                .fails(&[Code::UnknownTask]),
        )
        .get(
            "/lam/tasks/{id}/artifacts/{name}",
            artifact,
            Operation::new("get_artifact", "Fetch a file that a task made", OF_TASK)
                .writes_bytes("*/*", "The file. Its media type is the artifact's where a browser can only show it.")
                .fails(&[Code::UnknownTask, Code::UnknownArtifact]),
        )
}

/// The id in a path. What is no id names no task.
pub(super) fn task_id(text: &str) -> Result<TaskId, Error> {
    Ok(text.parse().map_err(|_| warmpool_tasks::Error::UnknownTask { id: text.chars().take(64).collect() })?)
}

/// `GET /lam/tasks`
pub(super) async fn list(
    State(app): State<App>,
    scope: Scope,
    Query(query): Query<TaskQuery>,
) -> Result<Response, Error> {
    let (records, total) = match scope.narrowed(query.key_id.as_ref()) {
        Some(Scope::Own(key)) => app.tasks.list(&query, Some(&key)).await?,
        Some(Scope::All) => app.tasks.list(&query, None).await?,
        None => (Vec::new(), 0),
    };
    let tasks = records.iter().map(|record| record_view(record, None)).collect();
    let meta = PageMeta::new(total, query.limit, query.page);
    Ok(json_reply(StatusCode::OK, &TaskPage { tasks, meta }))
}

/// `GET /lam/tasks/<id>`: as JSON, as server-sent events until its end, or its results as NDJSON or CSV.
pub(super) async fn show(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
    query: Result<Query<TaskForm>, Error>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let found = app.tasks.find(task_id(&id)?, &key).await?;
    if let Some(format) = Format::export(&headers, query?.0.format) {
        let lines = app.tasks.export(&found.into_record(), format, AnswerParts::of_request()).await?;
        return Ok(export::respond(lines, format));
    }
    if wants(&headers, "text/event-stream") {
        return Ok(match found {
            Task::Active(live) => events(live),
            Task::Ended(record) => stream_of(record.into()),
        });
    }
    Ok(json_reply(StatusCode::OK, &whole(&app, &found.into_record()).await?))
}

/// `GET /lam/tasks/<id>/order`: the work as it was sent, with its templates unfilled, and so without its secrets.
pub(super) async fn order(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let record = app.tasks.find(task_id(&id)?, &key).await?.into_record();
    let spec = app.tasks.spec(&record).await?;
    let order = OrderView {
        kind: spec.kind,
        work_kind: spec.work_kind,
        work: spec.work,
        timeout: spec.timeout_ms,
        safe_to_repeat: spec.safe_to_repeat,
    };
    Ok(json_reply(StatusCode::OK, &order))
}

/// `DELETE /lam/tasks/<id>`: cancels it, or with `forget=true` removes it.
pub(super) async fn cancel(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
    Query(RemovalForm { forget }): Query<RemovalForm>,
) -> Result<Response, Error> {
    let (record, had_ended) = match forget {
        true => (app.tasks.forget(task_id(&id)?, &key).await?, true),
        false => app.tasks.cancel(task_id(&id)?, &key).await?,
    };
    let mut view = record_view(&record, None);
    view.already_ended = had_ended;
    Ok(json_reply(StatusCode::OK, &view))
}

/// `GET /lam/tasks/<id>/items`
pub(super) async fn items(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
    query: Result<Query<ItemQuery>, Error>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let record = app.tasks.find(task_id(&id)?, &key).await?.into_record();
    let Query(ItemQuery { status, after, limit, format }) = query?;
    if let ItemFormat::Ndjson = ItemFormat::of(&headers, format)? {
        let lines = app.tasks.export_items(record.task_id, status, AnswerParts::of_request());
        return Ok(export::respond(lines, ExportFormat::Ndjson));
    }
    let items = app.tasks.items_after(record.task_id, after);
    let wanted = items.try_filter(|item| future::ready(status.is_none_or(|status| item.status == status)));
    let found: Vec<ItemView> =
        wanted.map_ok(|item| item_view(record.task_id, &item, None)).take(limit).try_collect().await?;
    let next = found.last().map(|item| item.index).filter(|_| found.len() == limit);
    Ok(json_reply(StatusCode::OK, &ItemPage { items: found, next, counts: record.items }))
}

/// `GET /lam/tasks/<id>/artifacts`
pub(super) async fn artifacts(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let record = app.tasks.find(task_id(&id)?, &key).await?.into_record();
    Ok(json_reply(StatusCode::OK, &ArtifactList { artifacts: artifacts_view(&record, &record.artifacts) }))
}

/// `GET /lam/tasks/<id>/artifacts/<name>`
pub(super) async fn artifact(
    State(app): State<App>,
    Caller(key): Caller,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, Error> {
    let record = app.tasks.find(task_id(&id)?, &key).await?.into_record();
    let (artifact, path) = app.tasks.artifact(&record, &name).await?;
    let file = File::open(path).await.map_err(|_| warmpool_tasks::Error::unknown_artifact(&name))?;
    let shown = HARMLESS.iter().find(|kind| **kind == artifact.media_type).unwrap_or(&"application/octet-stream");
    let mut response = download(Body::from_stream(ReaderStream::new(file)), shown);
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(artifact.bytes));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use http::header::ACCEPT;
    use warmpool_core::error::Fault as _;

    use super::*;

    #[test]
    fn items_are_no_table() {
        let asked = |accept: &'static str, format: Option<ItemFormat>| {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            ItemFormat::of(&headers, format).map(|form| matches!(form, ItemFormat::Ndjson))
        };
        assert_eq!(asked("text/csv", None).unwrap_err().field(), Some("format"));
        assert!(!asked("text/csv", Some(ItemFormat::Json)).unwrap());
        assert!(asked("application/x-ndjson", None).unwrap() && !asked("*/*", None).unwrap());
        assert!(serde_json::from_str::<ItemFormat>("\"csv\"").is_err());
    }
}
