//! The inputs of a fleet's items, read from a table with commas or from lines of JSON.

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
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers().map_err(|error| error.to_string())?.clone();
    let item = |row: Result<csv::StringRecord, csv::Error>| {
        let row = row.map_err(|error| error.to_string())?;
        let pairs = names.iter().zip(row.iter()).map(|(name, cell)| (name.trim().to_owned(), scalar(cell)));
        Ok(Value::Object(pairs.collect::<Map<_, _>>()))
    };
    reader.records().map(item).collect()
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
        assert!(table("a,b\n1\n").unwrap_err().contains("line: 2"));
    }
}
