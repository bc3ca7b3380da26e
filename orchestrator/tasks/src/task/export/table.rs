//! Results as a table with commas.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Error;
use warmpool_core::error::ServiceFault as _;

/// The most columns of a table. Pages are hostile, and may name as many fields as they like.
const MAX_COLUMNS: usize = 1000;
/// The most bytes of the names of all columns. A reader may hold them for long.
const MAX_NAMES: usize = 64 << 10;

/// What begins a formula in one spreadsheet or another, also in its full-width form, and what they skip in front of it.
const FORMULA: [char; 11] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}', '\t', '\r', '\n'];

/// The columns of a table, which are known only when every row was seen.
#[derive(Debug, Default)]
pub(super) struct Columns {
    names: Vec<Arc<str>>,
    places: HashMap<Arc<str>, usize>,
    bytes: usize,
}

impl Columns {
    /// Adds a column that the table does not have yet, if it may have another.
    pub(super) fn add(&mut self, name: &str) {
        let has_room = self.names.len() < MAX_COLUMNS && self.bytes.saturating_add(name.len()) <= MAX_NAMES;
        if has_room && !self.places.contains_key(name) {
            self.bytes += name.len();
            let name: Arc<str> = name.into();
            self.places.insert(Arc::clone(&name), self.names.len());
            self.names.push(name);
        }
    }

    /// The line of their names, which pages may have chosen.
    pub(super) fn head(&self) -> Result<Vec<u8>, Error> {
        let mut text = Vec::new();
        write(self.names.iter().map(|name| Ok(plain(name))), &mut text)?;
        Ok(text)
    }

    /// A line whose cells are empty yet.
    pub(super) fn line<'a>(&'a self) -> Line<'a> {
        Line { columns: self, values: vec![None; self.names.len()] }
    }
}

/// A line of a table.
pub(super) struct Line<'a> {
    columns: &'a Columns,
    values: Vec<Option<&'a str>>,
}

impl<'a> Line<'a> {
    /// Sets the cell in the column of this name, if there is one, to a value that is JSON text.
    pub(super) fn set(&mut self, name: &str, value: &'a str) {
        if let Some(cell) = self.columns.places.get(name).and_then(|place| self.values.get_mut(*place)) {
            *cell = Some(value);
        }
    }

    /// Writes the line.
    /// Fails where a value cannot be read.
    pub(super) fn write(self, text: &mut Vec<u8>) -> Result<(), Error> {
        // One cell after another, because one may be as large as all of them.
        write(self.values.into_iter().map(|value| value.map_or_else(|| Ok(String::new()), cell)), text)
    }
}

fn write(cells: impl Iterator<Item = Result<String, Error>>, text: &mut Vec<u8>) -> Result<(), Error> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(text);
    for cell in cells {
        writer.write_field(cell?).map_err(Error::internal)?;
    }
    writer.write_record(None::<&[u8]>).map_err(Error::internal)?;
    writer.flush().map_err(Error::internal)
}

/// A text as a cell or the name of a column. One that a spreadsheet would take for a formula gets an apostrophe: pages are hostile.
fn plain(text: &str) -> String {
    let formula = text.starts_with(FORMULA) && text.parse::<f64>().is_err();
    if formula { format!("'{text}") } else { text.to_owned() }
}

/// The cell of a value, which is JSON text.
fn cell(value: &str) -> Result<String, Error> {
    Ok(match value {
        "null" => String::new(),
        text if text.starts_with('"') => plain(&serde_json::from_str::<String>(text).map_err(Error::internal)?),
        other => other.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_every_field_and_no_formulas() {
        let rows = [
            [("a", "1"), ("b", "\"x, \\\"y\\\"\\nz\"")].as_slice(),
            &[("b", "\"=cmd()\""), ("c", "[1,{\"d\":null}]")],
            &[("value", "\"bare\"")],
        ];
        let mut columns = Columns::default();
        rows.iter().for_each(|row| row.iter().for_each(|(name, _)| columns.add(name)));
        assert_eq!(columns.head().unwrap(), b"a,b,c,value\r\n");
        let mut table = Vec::new();
        for row in rows {
            let mut line = columns.line();
            row.iter().for_each(|(name, value)| line.set(name, value));
            line.write(&mut table).unwrap();
        }
        assert_eq!(table, b"1,\"x, \"\"y\"\"\nz\",,\r\n,'=cmd(),\"[1,{\"\"d\"\":null}]\",\r\n,,,bare\r\n");
        assert_eq!(cell("\"-12.5\"").unwrap(), "-12.5");
        columns.add("=1+1");
        assert_eq!(columns.head().unwrap(), b"a,b,c,value,'=1+1\r\n");
        for formula in ["=1+1", "+1+1", "-1+1", "@SUM(1)", "\u{ff1d}1", "\n=1", "\t=1"] {
            assert_eq!(cell(&serde_json::json!(formula).to_string()).unwrap(), format!("'{formula}"));
        }
    }

    #[test]
    fn columns_take_no_more_than_they_may() {
        let mut columns = Columns::default();
        (0..2 * MAX_COLUMNS).for_each(|number| columns.add(&number.to_string()));
        assert_eq!(columns.names.len(), MAX_COLUMNS);
        let mut columns = Columns::default();
        (0..10).for_each(|number| columns.add(&format!("{number}{}", "x".repeat(MAX_NAMES / 4))));
        columns.add("short");
        assert_eq!(columns.names.len(), 4, "a name that is too long leaves room for others");
    }
}
