//! Results for other programs: one JSON object a line, or a table with commas.
//!
//! A reader may take its time. So an export holds one `output` at a time, as text that counts as [`Memory`], and reads one row of it
//! at a time (`rows`). `parts` are the outputs that it has: that of a task, or those of a fleet's items, which are read in `pages`.
//! `item` says what the rows of a fleet have beside their fields, and a `table` has a line for each row.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

mod item;
mod output;
mod pages;
mod parts;
mod rows;
mod table;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, Stream, StreamExt as _};
use serde_json::json;

use super::record::{Item, Record};
use super::tasks::Tasks;
use super::view;
use crate::Error;
use output::{OutputText, Outputs};
use pages::ItemPages;
use parts::{Part, Parts, Row};
use table::Columns;
use warmpool_api::task::Status;
use warmpool_core::error::ServiceFault as _;
use warmpool_core::ids::TaskId;

/// Lines are sent together from so many bytes on.
const CHUNK: usize = 16 << 10;

/// The form of exported results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// One JSON object a line.
    Ndjson,
    /// A table with commas, its columns' names in the first line.
    Csv,
}

/// Memory for what an export holds until its reader has it. Clones share it.
pub trait Memory: Clone + Send + Sync + 'static {
    /// A part of it, given back when it is dropped.
    type Part: Send + Sync + 'static;
    /// Why there is none, or why an export ends.
    type Error: From<Error> + Send + 'static;

    /// Takes so many bytes.
    /// Errors: when there are not as many now.
    fn take(&self, bytes: u64) -> Result<Self::Part, Self::Error>;

    /// How many bytes there are when nothing is taken.
    fn most(&self) -> u64;
}

/// The lines of an export. The first error ends it.
pub type Lines<E> = BoxStream<'static, Result<Bytes, E>>;

impl Tasks {
    /// The result objects of a task; of a fleet those of all items, each with its item's number, status, error and inputs.
    /// An item without results has a row with these alone.
    /// Errors: those of [`Memory::take`], where there is none to begin with; from then on it waits for what it needs.
    /// Fails when the store or a file cannot be read.
    pub async fn export<M: Memory>(
        &self,
        record: &Record,
        format: ExportFormat,
        memory: M,
    ) -> Result<Lines<M::Error>, M::Error> {
        let mut parts = Parts::new(self, record, &memory);
        let mut head = Vec::new();
        let form = match format {
            ExportFormat::Ndjson => Form::Ndjson,
            ExportFormat::Csv => {
                let columns = Parts::new(self, record, &memory).columns().await?;
                head = columns.head()?;
                Form::Csv(columns)
            }
        };
        let part = parts.next().await?;
        parts.waits = true;
        let export = Export { parts, part, form };
        let lines =
            stream::try_unfold(export, async |mut export| Ok(export.next().await?.map(|lines| (lines, export))));
        let head = (!head.is_empty()).then(|| Ok(head.into()));
        Ok(stream::iter(head).chain(lines).boxed())
    }

    /// The items of a fleet with all of their output, one a line; only those of `status` if there is one. It waits for the memory that
    /// it needs.
    pub fn export_items<M: Memory>(&self, task: TaskId, status: Option<Status>, memory: M) -> Lines<M::Error> {
        let outputs = Outputs::new(self, task, memory);
        let read: (ItemPages, Outputs<M>) = (ItemPages::new(self, task, None), outputs);
        let lines = stream::try_unfold(read, move |(mut items, outputs)| async move {
            loop {
                let Some(item) = items.next().await? else { return Ok(None) };
                if status.is_none_or(|status| item.status == status) {
                    let line = item_line(task, &item, &outputs.read(&item.output, true).await?)?;
                    return Ok(Some((line, (items, outputs))));
                }
            }
        });
        lines.boxed()
    }

    /// The items of a fleet from the one after `after` on, in their order.
    /// Fails when the store cannot be read.
    pub fn items_after(&self, task: TaskId, after: Option<u32>) -> impl Stream<Item = Result<Item, Error>> + use<> {
        let items = ItemPages::new(self, task, after);
        stream::try_unfold(items, async |mut items| Ok(items.next().await?.map(|item| (item, items))))
    }
}

/// A stream of lines.
struct Export<M: Memory> {
    parts: Parts<M>,
    /// What is being read.
    part: Option<Part<M::Part>>,
    form: Form,
}

enum Form {
    Ndjson,
    Csv(Columns),
}

impl<M: Memory> Export<M> {
    /// The next lines; none at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, M::Error> {
        loop {
            let Some(part) = &mut self.part else {
                return Ok(None);
            };
            let mut lines = Vec::new();
            while lines.len() < CHUNK
                && let Some(row) = part.next_row()?
            {
                self.form.write(&row, &mut lines)?;
            }
            if !lines.is_empty() {
                return Ok(Some(part.text.counted(lines)));
            }
            // What it takes is given back before the next one takes any.
            self.part = None;
            self.part = self.parts.next().await?;
        }
    }
}

impl Form {
    /// Adds the line of a row.
    fn write(&self, row: &Row<'_>, lines: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Ndjson => {
                row.write_json(lines)?;
                lines.push(b'\n');
            }
            Self::Csv(columns) => {
                let mut line = columns.line();
                row.each_cell(|name, value| line.set(name, value))?;
                line.write(lines)?;
            }
        }
        Ok(())
    }
}

/// An item of the fleet `task` with all of its output.
fn item_line<P: Send + Sync + 'static>(task: TaskId, item: &Item, output: &OutputText<P>) -> Result<Bytes, Error> {
    let mut view = json!(view::item(task, item, Some(Vec::new())));
    if let Some(members) = view.as_object_mut() {
        members.remove("output");
    }
    let mut line = serde_json::to_vec(&view).map_err(Error::internal)?;
    // It has an index at least.
    line.pop();
    line.extend_from_slice(b",\"output\":");
    line.extend_from_slice(output.rows.text());
    line.extend_from_slice(b"}\n");
    Ok(output.counted(line))
}
