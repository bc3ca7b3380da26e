//! Tables and lines of inputs for the fuzzer: each row is an item, and a table that was written by a program is read as
//! what was written.

use serde_json::Value;

use super::{lines, table};

/// Tables, and lines of JSON.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "q, n\r\n\"green, tea\",3\r\n,true\r\n",
        "a\n5\" pipe\n\"\"\n\"\"\"\"\n",
        "a,b\n1,\"x \"\"y\"\" z\"\n\"2\n,3\n",
        "{\"q\":\"a\"}\n\n{}",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Panics when an item is no object, or a table is read as another one.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for read in [table(text), lines(text)].into_iter().flatten() {
        assert!(read.len() <= text.len() && read.iter().all(Value::is_object));
    }
    // The same text as the cells of a table.
    let cells: Vec<&str> = text.split('|').collect();
    let mut writer = csv::WriterBuilder::new().quote_style(csv::QuoteStyle::Always).from_writer(Vec::new());
    for cell in ["name"].iter().chain(&cells) {
        if writer.write_record([cell]).is_err() {
            return;
        }
    }
    let written = writer.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let read = table(&written);
    assert_eq!(read.as_ref().map(Vec::len), Ok(cells.len()), "{written:?}");
    for (item, cell) in read.unwrap_or_default().iter().zip(cells) {
        assert_eq!(item["name"], super::scalar(cell));
    }
}
