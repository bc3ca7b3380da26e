//! Exports for the fuzzer: whatever a page said, the table that is written has the rows and columns that it should have,
//! and no cell is a formula.

use serde_json::Value;

use super::{add_columns, csv_line, table_line};

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
    let mut columns = Vec::new();
    rows.iter().for_each(|row| add_columns(&mut columns, row));
    if columns.is_empty() {
        return;
    }
    let lines = rows.iter().map(|row| table_line(row, &columns));
    let table = [csv_line(columns.iter())].into_iter().chain(lines).collect::<Result<Vec<_>, _>>();
    assert!(table.is_ok(), "{table:?}");
    let table = table.unwrap_or_default().concat();
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(&table[..]);
    let read: Vec<_> = reader.records().map_while(Result::ok).collect();
    assert_eq!(read.len(), rows.len() + 1, "{table:?}");
    for (at, record) in read.iter().enumerate() {
        assert_eq!(record.len(), columns.len());
        for cell in record.iter().filter(|_| at > 0) {
            let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err();
            assert!(!formula, "{cell:?} is a formula");
        }
    }
}
