//! A field of a request that cannot be used: its path and the problem, apart from each other.
//!
//! Code that reads a part of a body names fields by their path within that part. Its caller puts the part's own path in
//! front, or the name that the client used. The message is composed at the end.

use std::fmt;

use serde::{Deserialize, Deserializer};
use warmpool_protocol::SettingError;
use warmpool_protocol::text::shortened;

use super::words::{closest, plain};
use super::{Code, Fault};

/// The longest path that is shown, in bytes: names are the client's, and may be as long as a body.
const MAX_PATH: usize = 500;

/// The longest problem, which may repeat a value of the client's, in bytes.
const MAX_PROBLEM: usize = 4000;

/// What is wrong with which field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    path: String,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    /// A wrong type or value. The text continues the field's name.
    Invalid(String),
    /// No field of this route; the text says where there is one.
    Unknown(String),
    /// No field of this route, which has these.
    NoneOf(Vec<String>),
    /// Part of the contract, and not served by this build or pool. The text continues the field's name.
    NotSupported(String),
}

impl FieldError {
    /// A wrong type or value: `problem` continues the field's name, as in "must be a string".
    pub fn invalid(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::new(path, Problem::Invalid(shortened(problem, MAX_PROBLEM)))
    }

    fn new(path: impl Into<String>, problem: Problem) -> Self {
        Self { path: shortened(path, MAX_PATH), problem }
    }

    /// Rewords an error of serde's for somebody who writes JSON. `path` is the one that serde reports.
    pub fn from_serde(path: &str, cause: &str) -> Self {
        let path = if path == "." { "" } else { path };
        if let Some(name) = cause.strip_prefix("duplicate field `").and_then(|rest| rest.strip_suffix('`')) {
            return Self::invalid(join(path, name), "is given twice: send one value");
        }
        let Some((name, expected)) = cause.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`')) else {
            return Self::invalid(path, plain(cause));
        };
        // Some versions report the field's own path, some its parent's.
        let is_own = path == name || path.strip_suffix(name).is_some_and(|parent| parent.ends_with('.'));
        let path = if is_own { path.to_owned() } else { join(path, name) };
        Self::none_of(path, expected.split('`').skip(1).step_by(2))
    }

    /// A field that the route does not have; `hint` says where there is one.
    pub fn unknown(path: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(path, Problem::Unknown(shortened(hint, MAX_PROBLEM)))
    }

    /// A field that the route does not have, which has those of `known`.
    pub fn none_of<S: Into<String>>(path: impl Into<String>, known: impl IntoIterator<Item = S>) -> Self {
        Self::new(path, Problem::NoneOf(known.into_iter().map(Into::into).collect()))
    }

    /// A field of the contract that this build, or this pool, does not serve; `problem` continues its name.
    pub fn not_supported(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::new(path, Problem::NotSupported(shortened(problem, MAX_PROBLEM)))
    }

    /// The same error; where it lists the fields that the route has, without this one.
    #[must_use]
    pub fn without_field(mut self, name: &str) -> Self {
        if let Problem::NoneOf(known) = &mut self.problem {
            known.retain(|known| known != name);
        }
        self
    }

    /// The field's path, such as `settings.locales[0]`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same problem of a part that stands at `parent`.
    pub fn within(self, parent: &str) -> Self {
        Self::new(join(parent, &self.path), self.problem)
    }

    /// The same problem under another name.
    pub fn renamed(self, name: impl FnOnce(&str) -> String) -> Self {
        Self::new(name(&self.path), self.problem)
    }
}

impl From<SettingError> for FieldError {
    fn from(error: SettingError) -> Self {
        Self::invalid(format!("{}{}", error.setting, error.place), error.reason)
    }
}

impl Fault for FieldError {
    fn inner(&self) -> Result<&dyn Fault, Code> {
        Err(match self.problem {
            Problem::Invalid(_) => Code::InvalidField,
            Problem::Unknown(_) | Problem::NoneOf(_) => Code::UnknownField,
            Problem::NotSupported(_) => Code::NotSupported,
        })
    }

    fn field(&self) -> Option<&str> {
        Some(&self.path)
    }
}

impl std::error::Error for FieldError {}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, problem } = self;
        match problem {
            Problem::Invalid(problem) | Problem::NotSupported(problem) => write!(f, "`{path}` {problem}"),
            Problem::Unknown(hint) => write!(f, "unknown field `{path}`: {hint}"),
            Problem::NoneOf(known) => {
                write!(f, "unknown field `{path}`: ")?;
                let name = path.rsplit('.').next().unwrap_or_default();
                let meant = closest(name, known.iter().map(String::as_str));
                let expected = match meant {
                    Some(meant) => {
                        write!(f, "did you mean `{meant}`? ")?;
                        "Expected"
                    }
                    None => "expected",
                };
                match known.as_slice() {
                    [] => f.write_str("there are no fields"),
                    [one] => write!(f, "{expected} `{one}`"),
                    [first @ .., last] => write!(f, "{expected} `{}` or `{last}`", first.join("`, `")),
                }
            }
        }
    }
}

/// Reads a JSON value; an error names the field by its path.
/// Errors: the field that is wrong.
pub fn read_json<'de, T, D>(from: D) -> Result<T, FieldError>
where
    T: Deserialize<'de>,
    D: Deserializer<'de, Error = serde_json::Error>,
{
    serde_path_to_error::deserialize(from).map_err(|error| {
        let path = error.path().to_string();
        let cause = error.into_inner();
        if cause.is_syntax() {
            return FieldError::invalid(path, "is of a wrong type");
        }
        let text = cause.to_string();
        // Of a text, serde also says where it stopped.
        let problem = if cause.line() == 0 { Some(text.as_str()) } else { text.split(" at line ").next() };
        FieldError::from_serde(&path, problem.unwrap_or_default())
    })
}

/// The path of the member `name` of the value at `at`. A name that begins with a bracket is an index.
pub fn join(at: &str, name: &str) -> String {
    match (at.is_empty(), name.is_empty()) {
        (true, _) => name.to_owned(),
        (_, true) => at.to_owned(),
        _ if name.starts_with('[') => format!("{at}{name}"),
        _ => format!("{at}.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_nested_and_renamed_without_its_problem() {
        let error = FieldError::invalid("[1]", "must be a string").within("locales").within("settings");
        assert_eq!(error.to_string(), "`settings.locales[1]` must be a string");
        let error = error.renamed(|path| path.replace("settings", "options"));
        assert_eq!(
            (error.path(), error.to_string().as_str()),
            ("options.locales[1]", "`options.locales[1]` must be a string")
        );
    }

    #[test]
    fn a_name_as_long_as_a_body_is_cut() {
        let name = "ä".repeat(1 << 20);
        let cause = format!("unknown field `{name}`, expected `headless`");
        let mismatch = format!("invalid type: string \"{name}\", expected u8");
        for error in [FieldError::from_serde(".", &cause), FieldError::from_serde(&name, &mismatch)] {
            let (error, path) = (error.clone().within("settings").to_string(), error.path().to_owned());
            assert!(path.starts_with("ää") && path.ends_with("ä…") && path.len() < 510, "{path}");
            assert!(error.len() < 5000, "{error}");
        }
        assert!(FieldError::from_serde(".", &cause).to_string().ends_with("…`: expected `headless`"));
    }

    #[test]
    fn complaints_of_serde_are_found_at_their_field() {
        for (path, cause, text) in [
            (".", "unknown field `x`, expected `a` or `b`", "unknown field `x`: expected `a` or `b`"),
            ("x", "unknown field `x`, expected one of `a`, `b`, `c`", "unknown field `x`: expected `a`, `b` or `c`"),
            ("in", "unknown field `x`, there are no fields", "unknown field `in.x`: there are no fields"),
            ("in.x", "unknown field `x`, expected `a`", "unknown field `in.x`: expected `a`"),
            (
                ".",
                "unknown field `headles`, expected `headless`",
                "unknown field `headles`: did you mean `headless`? Expected `headless`",
            ),
            ("in", "duplicate field `x`", "`in.x` is given twice: send one value"),
            ("in", "missing field `x`", "`in` needs `x`"),
        ] {
            assert_eq!(FieldError::from_serde(path, cause).to_string(), text);
        }
    }
}
