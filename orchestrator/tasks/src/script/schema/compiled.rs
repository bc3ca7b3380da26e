//! What of a schema is compiled before its task runs: regular expressions, and a JSON Schema.

mod expanded;

use std::fmt;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::super::fields::wrong;
use super::super::template;
use crate::Error;

/// Memory of one compiled regular expression, in bytes.
const REGEX_SIZE: usize = 1 << 20;

/// A compiled JSON Schema.
#[derive(Clone)]
pub(crate) struct Check {
    /// Describes what is wrong.
    pub(crate) validator: Arc<Validator>,
    /// Whether it describes the list of all results, not each of them.
    pub(crate) whole: bool,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("whole", &self.whole).finish_non_exhaustive()
    }
}

/// Compiles a regular expression of a kind that is searched in linear time; `None` while its template is not filled.
/// Errors: `Field`, also when it would take too much memory.
pub(crate) fn regex(field: &str, pattern: &str) -> Result<Option<Regex>, Error> {
    if template::is_open(pattern) {
        return Ok(None);
    }
    let built = RegexBuilder::new(pattern).size_limit(REGEX_SIZE).dfa_size_limit(REGEX_SIZE).nest_limit(50).build();
    built.map(Some).map_err(|error| {
        let reason = match error {
            regex::Error::CompiledTooBig(_) => "takes too much memory: make it shorter".to_owned(),
            other => {
                let words = other.to_string();
                let last = words.lines().last().unwrap_or_default();
                format!("cannot be read: {}", last.trim_start_matches("error: "))
            }
        };
        wrong(field, &reason)
    })
}

pub(super) fn check(field: &str, schema: &Value) -> Result<Check, Error> {
    if !schema.is_object() {
        return Err(wrong(field, "must be a JSON Schema: an object"));
    }
    if expanded::is_too_large(schema) {
        return Err(wrong(field, "is too large once its references are followed: refer to each part less often"));
    }
    let patterns = PatternOptions::regex().size_limit(REGEX_SIZE).dfa_size_limit(REGEX_SIZE);
    let validator = jsonschema::options().with_pattern_options(patterns).should_validate_formats(true).build(schema);
    let validator = validator.map_err(|error| match error.kind() {
        ValidationErrorKind::Referencing(_) => {
            wrong(field, "refers to another document or to something that is not there: put all of it into this one")
        }
        _ => wrong(field, &format!("is not a JSON Schema: {error} (at `{}`)", error.instance_path())),
    })?;
    Ok(Check { validator: Arc::new(validator), whole: schema["type"] == "array" })
}
