//! Results for other programs: one JSON object a line, or a table with commas.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, Stream, StreamExt as _, TryStreamExt as _};
use serde_json::{Map, Value, json};

use super::record::{Item, Record};
use super::tasks::Tasks;
use super::view;
use crate::Error;
use warmpool_api::task::Status;
use warmpool_core::error::ServiceFault as _;
use warmpool_core::ids::TaskId;

/// The most columns of a table. Pages are hostile, and may name as many fields as they like.
const MAX_COLUMNS: usize = 1000;

/// What a table of a fleet begins with.
const ITEM_COLUMNS: [&str; 4] = ["item", "item.status", "item.error", "item.message"];

/// The form of exported results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// One JSON object a line.
    Ndjson,
    /// A table with commas, its columns' names in the first line.
    Csv,
}

/// The lines of an export. The first error ends it.
pub type Lines = BoxStream<'static, Result<Bytes, Error>>;

impl Tasks {
    /// The result objects of a task; of a fleet those of all items, each with its item's number, status, error and inputs.
    /// An item without results has a row with these alone.
    /// Fails when the store or a file cannot be read.
    pub async fn export(&self, record: &Record, format: ExportFormat) -> Result<Lines, Error> {
        let rows = self.rows(record);
        if format == ExportFormat::Ndjson {
            return Ok(rows.map(|row| json_line(&row?)).boxed());
        }
        // A table's columns are known only when every row was seen.
        let of_items = if record.items.is_some() { &ITEM_COLUMNS[..] } else { &[] };
        let mut columns: Vec<String> = of_items.iter().map(|name| (*name).to_owned()).collect();
        let mut all = self.rows(record);
        while let Some(row) = all.try_next().await? {
            add_columns(&mut columns, &row);
        }
        Ok(stream::iter([head_line(&columns)]).chain(rows.map(move |row| table_line(&row?, &columns))).boxed())
    }

    /// The items of a fleet with all of their output, one a line; only those of `status` if there is one.
    pub fn export_items(&self, task: TaskId, status: Option<Status>) -> Lines {
        let tasks = self.clone();
        let lines = self.items_after(task, None).try_filter_map(move |item| {
            let tasks = tasks.clone();
            async move {
                if status.is_some_and(|status| item.status != status) {
                    return Ok(None);
                }
                let output = tasks.output(task, &item.output).await?;
                json_line(&json!(view::item(&item, Some(output)))).map(Some)
            }
        });
        lines.boxed()
    }

    /// The items of a fleet from the one after `after` on, in their order.
    /// Fails when the store cannot be read.
    pub fn items_after(&self, task: TaskId, after: Option<u32>) -> impl Stream<Item = Result<Item, Error>> + use<> {
        let tasks = self.clone();
        let pages = stream::try_unfold(after, move |after| {
            let tasks = tasks.clone();
            async move {
                let page = tasks.inner.storage.items(task, after).await?;
                let last = page.last().map(|item| item.index);
                Ok::<_, Error>(last.map(|last| (stream::iter(page.into_iter().map(Ok)), Some(last))))
            }
        });
        pages.try_flatten()
    }

    /// The result objects of a task, one after another.
    fn rows(&self, record: &Record) -> BoxStream<'static, Result<Value, Error>> {
        let (tasks, task) = (self.clone(), record.task_id);
        let parts = if record.items.is_some() {
            let of_item = move |item: Item| {
                let tasks = tasks.clone();
                async move { Ok(item_rows(&item, tasks.output(task, &item.output).await?)) }
            };
            self.items_after(task, None).and_then(of_item).boxed()
        } else {
            let output = record.output.clone();
            stream::once(async move { tasks.output(task, &output).await }).boxed()
        };
        parts.map_ok(|rows| stream::iter(rows.into_iter().map(Ok))).try_flatten().boxed()
    }
}

/// The rows of an item, so that they can be joined with what was sent.
fn item_rows(item: &Item, output: Vec<Value>) -> Vec<Value> {
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
    if output.is_empty() { vec![Value::Object(about)] } else { output.into_iter().map(row).collect() }
}

/// Adds the columns of a row that the table does not have yet.
fn add_columns(columns: &mut Vec<String>, row: &Value) {
    let mut add = |name: &str| {
        if columns.len() < MAX_COLUMNS && !columns.iter().any(|column| column == name) {
            columns.push(name.to_owned());
        }
    };
    match row {
        Value::Object(row) => row.keys().for_each(|name| add(name)),
        _ => add("value"),
    }
}

fn json_line(row: &Value) -> Result<Bytes, Error> {
    let mut line = serde_json::to_vec(row).map_err(Error::internal)?;
    line.push(b'\n');
    Ok(line.into())
}

/// The names of the columns, which pages may have chosen.
fn head_line(columns: &[String]) -> Result<Bytes, Error> {
    csv_line(columns.iter().map(|name| plain(name)))
}

fn table_line(row: &Value, columns: &[String]) -> Result<Bytes, Error> {
    csv_line(columns.iter().map(|name| match row {
        Value::Object(row) => row.get(name).map_or_else(String::new, cell),
        other if name == "value" => cell(other),
        _ => String::new(),
    }))
}

fn csv_line(cells: impl Iterator<Item = impl AsRef<[u8]>>) -> Result<Bytes, Error> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(cells).map_err(Error::internal)?;
    writer.into_inner().map(Bytes::from).map_err(|error| Error::internal(error.to_string()))
}

/// What begins a formula in one spreadsheet or another, also in its full-width form, and what they skip in front of it.
const FORMULA: [char; 11] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}', '\t', '\r', '\n'];

/// A text as a cell or the name of a column. One that a spreadsheet would take for a formula gets an apostrophe: pages are hostile.
fn plain(text: &str) -> String {
    let formula = text.starts_with(FORMULA) && text.parse::<f64>().is_err();
    if formula { format!("'{text}") } else { text.to_owned() }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => plain(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::record::Output;
    use warmpool_api::task::TaskError;

    #[test]
    fn a_table_has_every_field_and_no_formulas() {
        let rows = [json!({"a": 1, "b": "x, \"y\"\nz"}), json!({"b": "=cmd()", "c": [1, {"d": null}]}), json!("bare")];
        let mut columns = Vec::new();
        rows.iter().for_each(|row| add_columns(&mut columns, row));
        assert_eq!(columns, ["a", "b", "c", "value"]);
        let table: Vec<Bytes> = rows.iter().map(|row| table_line(row, &columns).unwrap()).collect();
        assert_eq!(table.concat(), b"1,\"x, \"\"y\"\"\nz\",,\r\n,'=cmd(),\"[1,{\"\"d\"\":null}]\",\r\n,,,bare\r\n");
        assert_eq!(cell(&json!("-12.5")), "-12.5");
        assert_eq!(head_line(&["a".to_owned(), "=1+1".to_owned()]).unwrap(), b"a,'=1+1\r\n"[..]);
        for formula in ["=1+1", "+1+1", "-1+1", "@SUM(1)", "\u{ff1d}1", "\n=1", "\t=1"] {
            assert_eq!(cell(&json!(formula)), format!("'{formula}"));
        }
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
        assert_eq!(
            item_rows(&done, vec![json!({"a": 1}), json!("x")]),
            [with("a", json!(1)), with("value", json!("x"))]
        );
        assert_eq!(item_rows(&done, Vec::new()), [about]);
        let failed = item_rows(&item(Status::Failure, Some(TaskError::new("no_match", "no such element"))), Vec::new());
        assert_eq!((&failed[0]["item.error"], &failed[0]["input.q"]), (&json!("no_match"), &json!("tea")));
    }
}
