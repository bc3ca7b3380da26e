//! Labels that clients put on their sessions and tasks.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::FieldError;

/// The field that has them.
const FIELD: &str = "metadata";
/// The most labels of one session or task.
pub const MAX_LABELS: usize = 16;
/// The longest key of a label, in bytes.
pub const MAX_KEY: usize = 64;
/// The longest value of a label, in bytes.
pub const MAX_VALUE: usize = 256;

/// Labels by their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Metadata(BTreeMap<String, String>);

impl Metadata {
    /// Checks what a client sends.
    /// Errors: too many labels, or the first wrong key or value.
    pub fn check(members: Map<String, Value>) -> Result<Self, FieldError> {
        if members.len() > MAX_LABELS {
            return Err(FieldError::invalid(FIELD, format!("may have {MAX_LABELS} members at most")));
        }
        let label = |(key, value): (String, Value)| {
            if !is_key(&key) {
                let shown: String = key.chars().take(MAX_KEY).collect();
                let problem = format!(
                    "has the key {shown:?}: a key must be 1 to {MAX_KEY} letters, digits, `-`, `_`, `.` or `/`"
                );
                return Err(FieldError::invalid(FIELD, problem));
            }
            match value {
                Value::String(value) if value.len() <= MAX_VALUE => Ok((key, value)),
                _ => {
                    let problem = format!("must be a string of {MAX_VALUE} bytes at most");
                    Err(FieldError::invalid(key, problem).within(FIELD))
                }
            }
        };
        members.into_iter().map(label).collect::<Result<_, _>>().map(Self)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this label is among them.
    #[must_use]
    pub fn has(&self, label: &Label) -> bool {
        self.0.get(&label.key) == Some(&label.value)
    }

    /// Each label.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

fn is_key(key: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    (1..=MAX_KEY).contains(&key.len()) && key.bytes().all(is_plain)
}

/// One label, as queries name it: its key, `=` and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", inline)]
pub struct Label {
    key: String,
    value: String,
}

impl Label {
    /// What is wrong with a text that is none, to be read after its field's name.
    pub const PROBLEM: &str = "must be the key of a label, `=` and its value, such as team=search";

    /// Its key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl TryFrom<String> for Label {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let parts = text.split_once('=').filter(|(key, value)| is_key(key) && value.len() <= MAX_VALUE);
        parts.map(|(key, value)| Self { key: key.to_owned(), value: value.to_owned() }).ok_or(Self::PROBLEM)
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.to_string()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::Fault as _;

    fn check(value: Value) -> Result<Metadata, FieldError> {
        Metadata::check(serde_json::from_value(value).unwrap())
    }

    fn label(text: &str) -> Result<Label, &'static str> {
        Label::try_from(text.to_owned())
    }

    #[test]
    fn labels_are_found_by_key_and_value() {
        let metadata = check(json!({"team": "search", "a.b/c-d_1": "x=y", "empty": ""})).unwrap();
        for text in ["team=search", "a.b/c-d_1=x=y", "empty="] {
            assert!(metadata.has(&label(text).unwrap()), "{text}");
            assert_eq!(String::from(label(text).unwrap()), text);
        }
        for text in ["team=sales", "teams=search", "empty=x"] {
            assert!(!metadata.has(&label(text).unwrap()), "{text}");
        }
        assert!(Metadata::check(Map::new()).unwrap().is_empty());
    }

    #[test]
    fn limits_are_named() {
        let (long_key, long_value) = ("k".repeat(MAX_KEY + 1), "v".repeat(MAX_VALUE + 1));
        let many: serde_json::Map<_, _> = (0..=MAX_LABELS).map(|at| (format!("k{at}"), json!("v"))).collect();
        for (wrong, field, words) in [
            (Value::Object(many), "metadata", "16 members"),
            (json!({long_key: "v"}), "metadata", "1 to 64"),
            (json!({"a b": "v"}), "metadata", "letters"),
            (json!({"": "v"}), "metadata", "letters"),
            (json!({"team": 1}), "metadata.team", "must be a string"),
            (json!({"team": long_value}), "metadata.team", "256 bytes"),
        ] {
            let error = check(wrong).unwrap_err();
            assert_eq!(error.field(), Some(field), "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
        for wrong in ["", "team", "=x", "a b=c"] {
            assert!(label(wrong).is_err(), "{wrong}");
        }
    }
}
