//! What an export reads: the output of a task, or one item of a fleet after another.

use serde_json::value::RawValue;

use super::Memory;
use super::item;
use super::output::{OutputText, Outputs};
use super::pages::ItemPages;
use super::rows::each_field;
use super::table::Columns;
use crate::Error;
use crate::task::record::{Output, Record};
use crate::task::tasks::Tasks;
use warmpool_core::error::ServiceFault as _;

/// The parts of an export, in their order.
pub(super) struct Parts<M> {
    outputs: Outputs<M>,
    source: Source,
    /// Whether it waits for memory that others hold.
    pub(super) waits: bool,
}

enum Source {
    Task(Option<Output>),
    Items(ItemPages),
}

/// One output.
pub(super) struct Part<P> {
    pub(super) text: OutputText<P>,
    /// The members of the item whose it is.
    item: Option<Vec<(String, String)>>,
    /// Whether it has had no row yet.
    is_bare: bool,
}

/// One row of it.
pub(super) struct Row<'a> {
    item: Option<&'a [(String, String)]>,
    result: Option<&'a RawValue>,
}

impl<M: Memory> Parts<M> {
    pub(super) fn new(tasks: &Tasks, record: &Record, memory: &M) -> Self {
        let task = record.task_id;
        let source = match record.items {
            Some(_) => Source::Items(ItemPages::new(tasks, task, None)),
            None => Source::Task(Some(record.output.clone())),
        };
        Self { outputs: Outputs::new(tasks, task, memory.clone()), source, waits: false }
    }

    /// The next one.
    /// Errors: those of [`Outputs::read`]. Fails when the store cannot be read.
    pub(super) async fn next(&mut self) -> Result<Option<Part<M::Part>>, M::Error> {
        let (output, item) = match &mut self.source {
            Source::Task(output) => (output.take(), None),
            Source::Items(items) => match items.next().await? {
                Some(item) => {
                    let members = item::members(&item);
                    (Some(item.output), Some(members))
                }
                None => (None, None),
            },
        };
        let Some(output) = output else { return Ok(None) };
        let text = self.outputs.read(&output, self.waits).await?;
        Ok(Some(Part { text, item, is_bare: true }))
    }

    /// The columns of a table of all rows.
    /// Errors: those of [`Parts::next`].
    pub(super) async fn columns(mut self) -> Result<Columns, M::Error> {
        let mut columns = Columns::default();
        if matches!(self.source, Source::Items(_)) {
            item::COLUMNS.iter().for_each(|name| columns.add(name));
        }
        while let Some(mut part) = self.next().await? {
            while let Some(row) = part.next_row()? {
                row.each_cell(|name, _| columns.add(name))?;
            }
        }
        Ok(columns)
    }
}

impl<P> Part<P> {
    /// The next row. An item without results has one that says so.
    /// Fails when the output cannot be read.
    pub(super) fn next_row(&mut self) -> Result<Option<Row<'_>>, Error> {
        let is_bare = std::mem::take(&mut self.is_bare);
        let item = self.item.as_deref();
        let result = self.text.rows.next()?;
        let is_row = result.is_some() || (is_bare && item.is_some());
        Ok(is_row.then_some(Row { item, result }))
    }
}

impl<'a> Row<'a> {
    /// Calls `each` with the names of its members, and their values as JSON text.
    /// Fails when a name cannot be read.
    pub(super) fn each_cell(&self, mut each: impl FnMut(&str, &'a str)) -> Result<(), Error> {
        let Some(item) = self.item else { return self.each_field(each) };
        item.iter().for_each(|(name, value)| each(name, value));
        self.each_field(|name, value| each(&item::field_name(name), value))
    }

    fn each_field(&self, each: impl FnMut(&str, &'a str)) -> Result<(), Error> {
        self.result.map_or(Ok(()), |result| each_field(result, each))
    }

    /// Writes it as JSON.
    /// Fails when a name cannot be read.
    pub(super) fn write_json(&self, text: &mut Vec<u8>) -> Result<(), Error> {
        if let (None, Some(result)) = (self.item, self.result) {
            text.extend_from_slice(result.get().as_bytes());
            return Ok(());
        }
        let (mut before, mut written) = (b'{', Ok(()));
        self.each_cell(|name, value| {
            text.push(before);
            written = std::mem::replace(&mut written, Ok(())).and_then(|()| serde_json::to_writer(&mut *text, name));
            text.push(b':');
            text.extend_from_slice(value.as_bytes());
            before = b',';
        })?;
        text.push(b'}');
        written.map_err(Error::internal)
    }
}
