//! The rows of an output, read from its text one at a time: parsed as a whole, many short rows take a hundred times as much memory.

use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::Deserializer;
use serde_json::value::RawValue;

use crate::Error;
use warmpool_core::error::ServiceFault as _;

/// What a row that is no object has in place of its fields.
const VALUE: &str = "value";

/// The text of an output, and how far it is read.
#[derive(Debug)]
pub(super) struct Rows {
    text: Vec<u8>,
    at: usize,
}

impl Rows {
    /// The rows of a text, which is a JSON array.
    pub(super) const fn new(text: Vec<u8>) -> Self {
        Self { text, at: 0 }
    }

    /// The text as a whole.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The next row.
    /// Fails where the text is no JSON array.
    pub(super) fn next(&mut self) -> Result<Option<&RawValue>, Error> {
        let before = self.text[self.at..].trim_ascii_start();
        let rest = match before {
            [b'[', rest @ ..] if self.at == 0 && rest.trim_ascii_start().starts_with(b"]") => return Ok(None),
            [b'[', rest @ ..] if self.at == 0 => rest,
            [b',', rest @ ..] if self.at > 0 => rest,
            [b']', ..] if self.at > 0 => return Ok(None),
            _ => return Err(Error::internal("an output is no list of results")),
        };
        let mut rows = Deserializer::from_slice(rest).into_iter::<&RawValue>();
        let row = rows.next().transpose().map_err(Error::internal)?;
        let read = rows.byte_offset();
        self.at = self.text.len() - rest.len() + read;
        row.ok_or_else(|| Error::internal("an output ends in the middle")).map(Some)
    }
}

/// Calls `each` with every field of a row, its value as JSON text, in their order.
/// Fails where a name cannot be read.
pub(super) fn each_field<'a>(row: &'a RawValue, mut each: impl FnMut(&str, &'a str)) -> Result<(), Error> {
    if !row.get().starts_with('{') {
        each(VALUE, row.get());
        return Ok(());
    }
    Deserializer::from_str(row.get()).deserialize_map(Fields(each)).map_err(Error::internal)
}

struct Fields<F>(F);

impl<'de, F: FnMut(&str, &'de str)> Visitor<'de> for Fields<F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        while let Some((name, value)) = fields.next_entry::<String, &RawValue>()? {
            self.0(&name, value.get());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    /// The rows of a text, field by field.
    fn read(text: &str) -> Result<Vec<Value>, Error> {
        let mut rows = Rows::new(text.as_bytes().to_vec());
        let mut read = Vec::new();
        while let Some(row) = rows.next()? {
            let mut fields = Map::new();
            each_field(row, |name, value| drop(fields.insert(name.to_owned(), serde_json::from_str(value).unwrap())))?;
            read.push(Value::Object(fields));
        }
        assert_eq!(rows.next()?.map(RawValue::get), None, "the end stays the end");
        Ok(read)
    }

    #[test]
    fn a_row_is_read_after_the_other() {
        let rows = json!([{"a": [1, {"]": ","}], "é\"": null}, {}, {"value": "x, [y"}, {"value": 2}]);
        assert_eq!(json!(read(r#"[{"a":[1,{"]":","}],"é\"":null},{},"x, [y",2]"#).unwrap()), rows);
        assert_eq!(json!(read(" [ { \"a\" : 1 } ,\n {} ] ").unwrap()), json!([{"a": 1}, {}]));
        assert!(read("[]").unwrap().is_empty() && read(" [ ] ").unwrap().is_empty());
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        for text in ["", "{}", "1", "[1", "[1,", "[1 2]", "[,1]", "[{\"a\"}]", "[{\"\\ud800\":1}]"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_row_is_lost(rows in proptest::collection::vec(r#"[\[\]{}",:\\a-cé0-9 ]{0,12}"#, 0..6)) {
            let rows: Vec<Value> = rows.into_iter().map(|text| json!({"k": text, (text.clone()): [text]})).collect();
            prop_assert_eq!(read(&json!(rows).to_string()).unwrap(), rows);
        }

        #[test]
        fn no_text_breaks_it(text in r#"[\[\]{}",:\\a0 ]{0,20}"#) {
            let _ = read(&text);
        }
    }
}
