//! What of a schema is compiled before its task runs: regular expressions, and a JSON Schema.

mod expanded;

use std::fmt;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::super::allowance::Allowance;
use super::super::failure::kept;
use super::super::fields::wrong;
use super::super::template;
use crate::Error;

/// Memory of one compiled regular expression, in bytes. It counts as the least of these that is enough.
const REGEX_SIZES: [usize; 4] = [16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// The longest regular expression, in bytes: reading one takes a hundred times as much memory.
const LONGEST_REGEX: usize = 10_000;

/// The most groups of one regular expression: a search for what they match keeps places for all of them, on each way to a match.
const MOST_GROUPS: usize = 50;

/// A compiled JSON Schema.
#[derive(Clone)]
pub(crate) struct Check {
    /// Describes what is wrong.
    pub(crate) validator: Arc<Validator>,
    /// Whether it describes the list of all results, not each of them.
    pub(crate) whole: bool,
    /// Whether a part of it refers to itself.
    pub(crate) refers_to_itself: bool,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("whole", &self.whole).finish_non_exhaustive()
    }
}

/// Compiles a regular expression of a kind that is searched in linear time; `None` while its template is not filled.
/// Errors: `Field`, also when it would take too much memory.
pub(crate) fn regex(field: &str, pattern: &str, allowance: &mut Allowance) -> Result<Option<Regex>, Error> {
    check_length(field, pattern.len())?;
    if template::is_open(pattern) {
        return Ok(None);
    }
    for size in REGEX_SIZES {
        allowance.take_pattern_bytes(field, size)?;
        match RegexBuilder::new(pattern).size_limit(size).dfa_size_limit(2 * size).nest_limit(50).build() {
            // The first of them is the whole.
            Ok(built) if built.captures_len() > MOST_GROUPS + 1 => {
                let problem = format!("has more than {MOST_GROUPS} groups: write those as (?:…) that are not read");
                return Err(wrong(field, &problem));
            }
            Ok(built) => return Ok(Some(built)),
            Err(regex::Error::CompiledTooBig(_)) => allowance.return_pattern_bytes(size),
            Err(other) => {
                let words = other.to_string();
                let last = words.lines().last().unwrap_or_default();
                return Err(wrong(field, &format!("cannot be read: {}", last.trim_start_matches("error: "))));
            }
        }
    }
    let [.., most] = REGEX_SIZES;
    Err(wrong(field, &format!("takes more than {most} bytes of memory: make it shorter")))
}

fn check_length(field: &str, bytes: usize) -> Result<(), Error> {
    if bytes > LONGEST_REGEX {
        let problem = format!("has a regular expression of more than {LONGEST_REGEX} bytes: make it shorter");
        return Err(wrong(field, &problem));
    }
    Ok(())
}

pub(super) fn check(field: &str, schema: &Value, allowance: &mut Allowance) -> Result<Check, Error> {
    if !schema.is_object() {
        return Err(wrong(field, "must be a JSON Schema: an object"));
    }
    let measured = expanded::measure(schema).map_err(|problem| wrong(field, problem))?;
    check_length(field, measured.longest_pattern)?;
    allowance.take_schema_parts(field, measured.parts)?;
    let mut refused = None;
    for size in REGEX_SIZES {
        let bytes = size.saturating_mul(measured.patterns);
        if let Err(error) = allowance.take_pattern_bytes(field, bytes) {
            return Err(refused.unwrap_or(error));
        }
        let patterns = PatternOptions::regex().size_limit(size).dfa_size_limit(2 * size);
        let options = jsonschema::options().with_pattern_options(patterns).should_validate_formats(true);
        let error = match options.build(schema) {
            Ok(validator) => {
                let (whole, refers_to_itself) = (schema["type"] == "array", measured.refers_to_itself);
                return Ok(Check { validator: Arc::new(validator), whole, refers_to_itself });
            }
            Err(error) => error,
        };
        // It says the same of an expression that takes too much and of one that is none.
        let is_of_a_pattern = matches!(error.kind(), ValidationErrorKind::Format { .. });
        let problem = match error.kind() {
            ValidationErrorKind::Referencing(_) => expanded::ELSEWHERE.to_owned(),
            _ => {
                // It may quote a secret, which is hidden before the failure of a task is cut.
                let reason = error.to_string();
                let why =
                    if is_of_a_pattern { "cannot be read, or takes too much memory" } else { "is not a JSON Schema" };
                format!("{why}: {} (at `{}`)", kept(&reason), error.instance_path())
            }
        };
        let error = wrong(field, &problem);
        if !is_of_a_pattern {
            return Err(error);
        }
        allowance.return_pattern_bytes(bytes);
        refused = Some(error);
    }
    Err(refused.unwrap_or_else(|| wrong(field, "is not a JSON Schema")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use warmpool_core::error::Fault as _;

    use super::*;

    #[test]
    fn the_regular_expressions_of_a_body_are_bounded_together() {
        let mut allowance = Allowance::default();
        let count = (0..1000).take_while(|_| regex("p", r"\w+", &mut allowance).is_ok()).count();
        assert_eq!(count, 128);
        let error = regex("p", "a", &mut allowance).unwrap_err();
        assert_eq!(error.field(), Some("p"));
        assert!(error.to_string().contains("8388608 bytes together"), "{error}");
        let mut allowance = Allowance::default();
        assert_eq!((0..1000).take_while(|_| regex("p", "a", &mut allowance).is_ok()).count(), 512);
        let mut allowance = Allowance::default();
        assert!(regex("p", r"\b\w{2,20}\b", &mut allowance).is_ok(), "one of them may be large");
        assert!(regex("p", r"(a{900}){900}", &mut allowance).unwrap_err().to_string().contains("1048576 bytes"));
        assert!(regex("p", &"a".repeat(10_001), &mut allowance).is_err());
        assert!(regex("p", &"(a)".repeat(50), &mut allowance).is_ok());
        assert!(regex("p", &"(a)".repeat(51), &mut allowance).unwrap_err().to_string().contains("50 groups"));
        assert!(regex("p", "(", &mut allowance).unwrap_err().to_string().contains("cannot be read"));
    }

    #[test]
    fn those_of_a_json_schema_count() {
        let schema = |count: usize| {
            let parts: Vec<Value> = (0..count)
                .map(|at| json!({"patternProperties": {format!("^a{at}$"): {"pattern": format!("b{at}")}}}))
                .collect();
            json!({"allOf": parts})
        };
        let mut allowance = Allowance::default();
        assert!(check("v", &schema(200), &mut allowance).is_ok());
        let error = check("v", &schema(200), &mut allowance).unwrap_err();
        assert!(error.to_string().contains("regular expressions of a body"), "{error}");
        let mut allowance = Allowance::default();
        assert!(check("v", &json!({"pattern": "a".repeat(10_001)}), &mut allowance).is_err());
        assert!(
            check("v", &json!({"pattern": "("}), &mut allowance).unwrap_err().to_string().contains("cannot be read")
        );
        assert!(check("v", &schema(200), &mut allowance).is_ok(), "what was refused takes nothing");
    }

    #[test]
    fn the_parts_of_all_json_schemas_count() {
        let parts = vec![json!({}); 40_000];
        let mut allowance = Allowance::default();
        let checked: Vec<bool> = (0..3).map(|_| check("v", &json!({"allOf": parts}), &mut allowance).is_ok()).collect();
        assert_eq!(checked, [true, true, false]);
    }
}
