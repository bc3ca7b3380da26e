//! Results for other programs: one JSON object a line, or a table with commas.

use std::collections::VecDeque;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::App;
use super::headers::wants;
use crate::http::error::Error;
use warmpool_core::error::ServiceFault as _;
use warmpool_tasks::task::{Item, Record, Status, TaskId, item_view};

/// The most columns of a table. Pages are hostile, and may name as many fields as they like.
const MAX_COLUMNS: usize = 1000;

/// What a table of a fleet begins with.
const ITEM_COLUMNS: [&str; 4] = ["item", "item.status", "item.error", "item.message"];

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    Json,
    Ndjson,
    Csv,
}

impl Format {
    /// What the parameter `format` asks for, or else the header `Accept`.
    pub(super) fn of(headers: &HeaderMap, format: Option<Self>) -> Self {
        match format {
            Some(format) => format,
            None if wants(headers, "application/x-ndjson") => Self::Ndjson,
            None if wants(headers, "text/csv") => Self::Csv,
            None => Self::Json,
        }
    }

    const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8",
        }
    }
}

/// The result objects of a task; of a fleet those of all items, each with its item's number, status, error and inputs. An
/// item without results has a row with these alone.
pub(super) async fn results(app: &App, record: Record, format: Format) -> Result<Response, Error> {
    let columns = match format {
        Format::Csv => {
            let of_items = if record.items.is_some() { &ITEM_COLUMNS[..] } else { &[] };
            let mut columns: Vec<String> = of_items.iter().map(|name| (*name).to_owned()).collect();
            let mut rows = Rows::new(app.clone(), &record);
            while let Some(row) = rows.next().await? {
                note_columns(&mut columns, &row);
            }
            Some(columns)
        }
        Format::Json | Format::Ndjson => None,
    };
    let head = columns.as_ref().map(|columns| csv_line(columns.iter().map(String::as_str)));
    let rows = Rows::new(app.clone(), &record);
    let lines = stream::unfold((rows, columns, head), |(mut rows, columns, head)| async move {
        if let Some(head) = head {
            return Some((head.map(Bytes::from), (rows, columns, None)));
        }
        let line = match rows.next().await {
            Ok(row) => line(&row?, columns.as_deref()),
            Err(error) => Err(error),
        };
        Some((line.map(Bytes::from), (rows, columns, None)))
    });
    Ok(streamed(Body::from_stream(lines), format))
}

/// The items of a fleet with all of their output, one a line.
pub(super) fn items(app: &App, record: &Record, status: Option<Status>) -> Response {
    let rows = Items::new(app.clone(), record.task_id, None);
    let lines = stream::unfold(rows, move |mut rows| async move {
        loop {
            match rows.next().await {
                Ok(item) => {
                    let item = item?;
                    if status.is_none_or(|status| item.status == status) {
                        let line = rows
                            .output(&item)
                            .await
                            .and_then(|output| line(&json!(item_view(&item, Some(output))), None));
                        return Some((line.map(Bytes::from), rows));
                    }
                }
                Err(error) => {
                    rows.over = true;
                    return Some((Err(error), rows));
                }
            }
        }
    });
    streamed(Body::from_stream(lines), Format::Ndjson)
}

fn streamed(body: Body, format: Format) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The items of a fleet, one after another.
pub(super) struct Items {
    app: App,
    task: TaskId,
    after: Option<u32>,
    page: VecDeque<Item>,
    over: bool,
}

impl Items {
    pub(super) const fn new(app: App, task: TaskId, after: Option<u32>) -> Self {
        Self { app, task, after, page: VecDeque::new(), over: false }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Item>, Error> {
        if self.page.is_empty() && !self.over {
            self.page = self.app.tasks.items(self.task, self.after).await?.into();
            self.after = self.page.back().map(|item| item.index);
            self.over = self.page.is_empty();
        }
        Ok(self.page.pop_front())
    }

    async fn output(&self, item: &Item) -> Result<Vec<Value>, Error> {
        self.app.tasks.output(self.task, &item.output).await.map_err(Into::into)
    }
}

/// The result objects of a task, one after another.
struct Rows {
    ready: VecDeque<Value>,
    own: Option<Record>,
    items: Option<Items>,
}

impl Rows {
    fn new(app: App, record: &Record) -> Self {
        let items = Items { over: record.items.is_none(), ..Items::new(app, record.task_id, None) };
        Self { ready: VecDeque::new(), own: Some(record.clone()).filter(|own| own.items.is_none()), items: Some(items) }
    }

    async fn next(&mut self) -> Result<Option<Value>, Error> {
        while self.ready.is_empty() {
            let Some(items) = &mut self.items else { return Ok(None) };
            if let Some(own) = self.own.take() {
                self.ready = items.app.tasks.output(own.task_id, &own.output).await?.into();
            } else if let Some(item) = items.next().await? {
                let output = items.output(&item).await?;
                self.ready = rows_of(&item, output).into();
            } else {
                self.items = None;
            }
        }
        Ok(self.ready.pop_front())
    }
}

/// The rows of an item, so that they can be joined with what was sent.
fn rows_of(item: &Item, output: Vec<Value>) -> Vec<Value> {
    let error = item.error.as_ref();
    let values = [
        json!(item.index),
        json!(item.status),
        json!(error.map(|error| &error.code)),
        json!(error.map(|error| &error.message)),
    ];
    let mut about: Map<String, Value> = ITEM_COLUMNS.iter().map(|name| (*name).to_owned()).zip(values).collect();
    about.extend(item.inputs.iter().map(|(name, value)| (format!("input.{name}"), value.clone())));
    let row = |value: Value| {
        let mut row = about.clone();
        match value {
            Value::Object(fields) => row.extend(fields),
            value => row.extend([("value".to_owned(), value)]),
        }
        Value::Object(row)
    };
    if output.is_empty() { vec![row(Value::Object(Map::new()))] } else { output.into_iter().map(row).collect() }
}

fn note_columns(columns: &mut Vec<String>, row: &Value) {
    let mut note = |name: &str| {
        if columns.len() < MAX_COLUMNS && !columns.iter().any(|column| column == name) {
            columns.push(name.to_owned());
        }
    };
    match row {
        Value::Object(row) => row.keys().for_each(|name| note(name)),
        _ => note("value"),
    }
}

fn line(row: &Value, columns: Option<&[String]>) -> Result<Vec<u8>, Error> {
    let Some(columns) = columns else {
        let mut line = serde_json::to_vec(row).map_err(Error::internal)?;
        line.push(b'\n');
        return Ok(line);
    };
    let cells: Vec<String> = columns
        .iter()
        .map(|name| match row {
            Value::Object(row) => row.get(name).map_or_else(String::new, cell),
            other if name == "value" => cell(other),
            _ => String::new(),
        })
        .collect();
    csv_line(cells.iter().map(String::as_str))
}

fn csv_line<'a>(cells: impl Iterator<Item = &'a str>) -> Result<Vec<u8>, Error> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(cells).map_err(Error::internal)?;
    writer.into_inner().map_err(|error| Error::internal(error.to_string()))
}

/// A value as a cell. Text that a spreadsheet would take for a formula gets an apostrophe: pages are hostile.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => {
            let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
            if formula { format!("'{text}") } else { text.clone() }
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_tasks::task::{Output, TaskError};

    #[test]
    fn a_table_has_every_field_and_no_formulas() {
        let rows = [json!({"a": 1, "b": "x, \"y\"\nz"}), json!({"b": "=cmd()", "c": [1, {"d": null}]}), json!("bare")];
        let mut columns = Vec::new();
        rows.iter().for_each(|row| note_columns(&mut columns, row));
        assert_eq!(columns, ["a", "b", "c", "value"]);
        let table: String =
            rows.iter().map(|row| String::from_utf8(line(row, Some(&columns)).unwrap()).unwrap()).collect();
        assert_eq!(table, "1,\"x, \"\"y\"\"\nz\",,\r\n,'=cmd(),\"[1,{\"\"d\"\":null}]\",\r\n,,,bare\r\n");
        assert_eq!(cell(&json!("-12.5")), "-12.5");
    }

    #[test]
    fn every_item_has_a_row_that_says_how_it_went() {
        let item = |status, error: Option<TaskError>| Item {
            index: 3,
            status,
            attempts: 1,
            execution_time: 5,
            inputs: Map::from_iter([("q".to_owned(), json!("tea"))]),
            session_id: None,
            error,
            output: Output::default(),
            artifacts: Vec::new(),
        };
        let done = item(Status::Success, None);
        let about =
            json!({"item": 3, "item.status": "success", "item.error": null, "item.message": null, "input.q": "tea"});
        let with = |name: &str, value: Value| {
            let mut row = about.clone();
            row[name] = value;
            row
        };
        assert_eq!(rows_of(&done, vec![json!({"a": 1}), json!("x")]), [with("a", json!(1)), with("value", json!("x"))]);
        assert_eq!(rows_of(&done, Vec::new()), [about]);
        let failed = rows_of(&item(Status::Failure, Some(TaskError::new("no_match", "no such element"))), Vec::new());
        assert_eq!((&failed[0]["item.error"], &failed[0]["input.q"]), (&json!("no_match"), &json!("tea")));
    }
}
