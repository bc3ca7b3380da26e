//! The inputs of a fleet's items, read from a table with commas or from lines of JSON.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use std::path::Path;

use serde_json::{Map, Value};

use super::arguments::scalar;
use super::error::ClientError;

/// Reads a file by its extension.
pub(super) fn read(path: &Path) -> Result<Vec<Value>, ClientError> {
    let shown = path.display();
    let wrong = |why: &dyn std::fmt::Display| ClientError::Usage(format!("--inputs {shown}: {why}"));
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_lowercase();
    let parse = match extension.as_str() {
        "csv" => table,
        "ndjson" | "jsonl" => lines,
        _ => return Err(wrong(&"its name must end in .csv, .ndjson or .jsonl")),
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    // Spreadsheets write a byte order mark.
    let items = parse(text.trim_start_matches('\u{feff}')).map_err(|why| wrong(&why))?;
    if items.is_empty() { Err(wrong(&"there are no items in it")) } else { Ok(items) }
}

/// A row is an item, and the first one has the names. An empty cell is an empty text.
fn table(text: &str) -> Result<Vec<Value>, String> {
    if let Some(line) = unclosed_quote(text) {
        return Err(format!(
            "line {line}: the quote that begins there is not closed; inside a quoted cell, write \"\" for one"
        ));
    }
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers().map_err(|error| error.to_string())?.clone();
    let item = |row: Result<csv::StringRecord, csv::Error>| {
        let row = row.map_err(|error| error.to_string())?;
        let pairs = names.iter().zip(row.iter()).map(|(name, cell)| (name.trim().to_owned(), scalar(cell)));
        Ok(Value::Object(pairs.collect::<Map<_, _>>()))
    };
    reader.records().map(item).collect()
}

/// The line of a quote that nothing closes. The reader of the table would take all the rest for one cell.
fn unclosed_quote(text: &str) -> Option<usize> {
    let (mut line, mut start) = (1, 1);
    // Inside quotes; right behind a quote that closes, or is the first of two; where a cell begins.
    let (mut is_quoted, mut has_closed, mut begins_cell) = (false, false, true);
    for character in text.chars() {
        let was_closed = std::mem::take(&mut has_closed);
        match character {
            '"' if is_quoted => (is_quoted, has_closed) = (false, true),
            '"' if was_closed => is_quoted = true,
            '"' if begins_cell => (is_quoted, start) = (true, line),
            _ => {}
        }
        begins_cell = !is_quoted && matches!(character, ',' | '\n' | '\r');
        line += usize::from(character == '\n');
    }
    is_quoted.then_some(start)
}

fn lines(text: &str) -> Result<Vec<Value>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let item = |(index, line): (usize, &str)| match serde_json::from_str(line) {
        Ok(Value::Object(item)) => Ok(Value::Object(item)),
        Ok(_) => Err(format!("line {} is not a JSON object", index + 1)),
        Err(error) => Err(format!("line {}: {error}", index + 1)),
    };
    lines.map(item).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_and_lines_become_items() {
        let items = [json!({"q": "green, tea", "n": 3}), json!({"q": "", "n": true})];
        assert_eq!(table("q, n\r\n\"green, tea\",3\r\n,true\r\n").unwrap(), items);
        assert_eq!(lines("{\"q\": \"green, tea\", \"n\": 3}\n\n{\"q\":\"\",\"n\":true}").unwrap(), items);
        assert_eq!(lines("{}\n[]").unwrap_err(), "line 2 is not a JSON object");
        let unclosed = table("a,b\n1,\"x \"\"y\"\" z\"\n\"2\n,3\n").unwrap_err();
        assert!(unclosed.starts_with("line 3: the quote"), "{unclosed}");
        assert_eq!(
            table("a\n5\" pipe\n\"\"\n\"\"\"\"\n").unwrap(),
            [json!({"a": "5\" pipe"}), json!({"a": ""}), json!({"a": "\""})]
        );
        assert!(table("a,b\n1\n").unwrap_err().contains("line: 2"));
    }
}
