//! Exports for the fuzzer: whatever a page said, the table that is written has the rows and columns that it should have,
//! and no cell is a formula.

use serde_json::Value;

use super::rows::{Rows, each_field};
use super::table::Columns;

/// Rows as JSON, one to a line.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "{\"a\":1,\"b\":\"x, \\\"y\\\"\\nz\"}\n{\"b\":\"=cmd()\",\"c\":[1,{\"d\":null}]}\n\"bare\"",
        "{\"\":\"\\r\\n\"}\n{\"=a\":\"-1.5\"}",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Panics when a spreadsheet would read another table.
pub fn check(bytes: &[u8]) {
    let rows: Vec<Value> =
        bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let count = rows.len();
    let text = Value::Array(rows).to_string().into_bytes();
    let (mut columns, mut is_empty) = (Columns::default(), true);
    each_row(&text, |fields| {
        is_empty &= fields.is_empty();
        fields.iter().for_each(|(name, _)| columns.add(name));
    });
    if is_empty {
        return;
    }
    let mut table = columns.head().unwrap_or_default();
    each_row(&text, |fields| {
        let mut line = columns.line();
        fields.iter().for_each(|(name, value)| line.set(name, value));
        let written = line.write(&mut table);
        assert!(written.is_ok(), "{written:?}");
    });
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(&table[..]);
    let read: Vec<_> = reader.records().map_while(Result::ok).collect();
    assert_eq!(read.len(), count + 1, "{table:?}");
    for (at, record) in read.iter().enumerate() {
        assert_eq!(record.len(), read.first().map_or(0, csv::StringRecord::len));
        for cell in record.iter().filter(|_| at > 0) {
            let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err();
            assert!(!formula, "{cell:?} is a formula");
        }
    }
}

/// Calls `each` with the fields of every row.
fn each_row(text: &[u8], mut each: impl FnMut(&[(String, &str)])) {
    let mut rows = Rows::new(text.to_vec());
    loop {
        let row = rows.next();
        assert!(row.is_ok(), "{row:?}");
        let Ok(Some(row)) = row else { return };
        let mut fields = Vec::new();
        let read = each_field(row, |name, value| fields.push((name.to_owned(), value)));
        assert!(read.is_ok(), "{read:?}");
        each(&fields);
    }
}
