//! Templates in the strings of a task, `{{input.name}}` and `{{secret.name}}`, and hiding secrets in its results.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

mod redactor;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::fields::wrong;
use crate::Error;
pub(crate) use redactor::Redactor;

/// What the templates of a task are filled with. Secrets are never shown.
#[derive(Clone, Default)]
pub(crate) struct Values {
    /// `{{input.name}}`.
    pub(crate) inputs: Map<String, Value>,
    /// `{{secret.name}}`.
    pub(crate) secrets: Map<String, Value>,
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Values").finish_non_exhaustive()
    }
}

/// A place that a template fills.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Placeholder {
    kind: SlotKind,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SlotKind {
    Input,
    Secret,
}

impl std::fmt::Display for Placeholder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            SlotKind::Input => write!(f, "input.{}", self.name),
            SlotKind::Secret => write!(f, "secret.{}", self.name),
        }
    }
}

impl Placeholder {
    /// The member of the body that would fill it, such as `inputs.q`.
    pub(crate) fn field(&self) -> String {
        match self.kind {
            SlotKind::Input => format!("inputs.{}", self.name),
            SlotKind::Secret => format!("secrets.{}", self.name),
        }
    }

    /// Reads the text between braces; `None` where it is the page's own text.
    fn parse(inside: &str) -> Option<Self> {
        let (kind, name) = inside.trim().split_once('.')?;
        let kind = match kind {
            "input" | "inputs" => SlotKind::Input,
            "secret" | "secrets" => SlotKind::Secret,
            _ => return None,
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        (!name.is_empty() && name.bytes().all(plain)).then(|| Self { kind, name: name.to_owned() })
    }

    fn value(&self, values: &Values) -> Option<String> {
        let map = match self.kind {
            SlotKind::Input => &values.inputs,
            SlotKind::Secret => &values.secrets,
        };
        match find(map, &self.name)? {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

/// A member by its name, or by a path through objects.
fn find<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = map.get(name) {
        return Some(value);
    }
    let (first, rest) = name.split_once('.')?;
    find(map.get(first)?.as_object()?, rest)
}

/// Whether a text has a template, so that its final value is still unknown.
pub(crate) fn is_open(text: &str) -> bool {
    pieces(text).any(|piece| matches!(piece, Piece::Placeholder(_)))
}

enum Piece<'a> {
    Text(&'a str),
    Placeholder(Placeholder),
}

/// A text cut at its templates.
fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut from = 0;
        while let Some(at) = rest[from..].find("{{").map(|at| at + from) {
            // No slot has a brace inside, so no text is looked at twice.
            let inside = at + 2;
            let Some(end) = rest[inside..].find(['{', '}']).map(|end| end + inside) else { break };
            if let Some(slot) = Placeholder::parse(&rest[inside..end]).filter(|_| rest[end..].starts_with("}}")) {
                if at > 0 {
                    let text = &rest[..at];
                    rest = &rest[at..];
                    return Some(Piece::Text(text));
                }
                rest = &rest[end + 2..];
                return Some(Piece::Placeholder(slot));
            }
            from = inside;
        }
        Some(Piece::Text(std::mem::take(&mut rest)))
    })
}

/// What stands between braces in a value's strings. It is found once, for however many values are then tried.
#[derive(Debug, Default)]
pub(crate) struct Templates<'a> {
    /// How often each slot is there.
    slots: BTreeMap<Placeholder, u64>,
    /// Other words between braces.
    others: BTreeSet<&'a str>,
    /// The bytes beside the slots.
    length: u64,
}

/// Why the templates of a value cannot be filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FillError {
    /// A slot has no value.
    Missing(Placeholder),
    /// The strings would be longer than this many bytes.
    TooLong(u64),
}

impl<'a> Templates<'a> {
    pub(crate) fn of(value: &'a Value) -> Self {
        let mut found = Self::default();
        found.read(value);
        found
    }

    fn read(&mut self, value: &'a Value) {
        match value {
            Value::String(text) => {
                for piece in pieces(text) {
                    match piece {
                        Piece::Placeholder(slot) => *self.slots.entry(slot).or_default() += 1,
                        Piece::Text(text) => {
                            self.length += text.len() as u64;
                            let words =
                                text.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0.trim()));
                            self.others.extend(words);
                        }
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.read(item)),
            Value::Object(members) => members.values().for_each(|member| self.read(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Any slot.
    pub(crate) fn slot(&self) -> Option<&Placeholder> {
        self.slots.keys().next()
    }

    /// A pair of braces that holds the bare name of an input or a secret, with what it must be. Such text would reach the page as
    /// it is.
    fn bare_name(&self, values: &Values) -> Option<(String, String)> {
        [("input", &values.inputs), ("secret", &values.secrets)].into_iter().find_map(|(kind, map)| {
            let name = map.keys().find(|name| self.others.contains(name.as_str()))?;
            Some((format!("{{{{{name}}}}}"), format!("{{{{{kind}.{name}}}}}")))
        })
    }

    /// Whether these values fill all slots, with at most `most` bytes in all strings.
    pub(crate) fn fits(&self, values: &Values, most: u64) -> Result<(), FillError> {
        let mut length = self.length;
        for (slot, count) in &self.slots {
            let value = slot.value(values).ok_or_else(|| FillError::Missing(slot.clone()))?;
            length = length.saturating_add(count.saturating_mul(value.len() as u64));
        }
        if length > most { Err(FillError::TooLong(most)) } else { Ok(()) }
    }

    /// The same, for whoever sends the values.
    /// Errors: `Field`, which names the first value that is missing.
    pub(crate) fn check(&self, values: &Values, most: u64) -> Result<(), Error> {
        if let Some((bare, meant)) = self.bare_name(values) {
            let problem = format!("are filled in as `{meant}`, and this has `{bare}`: write `{meant}`");
            return Err(wrong(if meant.contains("secret") { "secrets" } else { "inputs" }, &problem));
        }
        self.fits(values, most).map_err(|error| match error {
            FillError::Missing(slot) => wrong(&slot.field(), &format!("is missing: `{{{{{slot}}}}}` needs a value")),
            FillError::TooLong(most) => wrong(
                "inputs",
                &format!(
                    "make the work longer than {most} bytes once they are filled in (`tasks.max_body`): shorten them"
                ),
            ),
        })
    }
}

/// A text with its inputs filled in and everything else left as it is, cut after about so many bytes.
pub(crate) fn with_inputs(text: &str, inputs: &Map<String, Value>, most: usize) -> String {
    let values = Values { inputs: inputs.clone(), secrets: Map::new() };
    let mut shown = String::new();
    for piece in pieces(text) {
        let left = most.saturating_sub(shown.len());
        match piece {
            Piece::Text(text) => shown.push_str(start(text, left)),
            Piece::Placeholder(slot) => match slot.value(&values) {
                Some(value) => shown.push_str(start(&value, left)),
                None => shown.push_str(&format!("{{{{{slot}}}}}")),
            },
        }
        if shown.len() >= most {
            break;
        }
    }
    shown
}

/// The characters of a text that begin within its first `most` bytes.
fn start(text: &str, most: usize) -> &str {
    let end = text.char_indices().map(|(at, _)| at).find(|at| *at >= most).unwrap_or(text.len());
    &text[..end]
}

/// The same value with every template filled. What is filled in is not read again, so a value may hold braces. It may become long:
/// [`Templates::fits`] says how long.
/// Errors: the first slot that has no value.
pub(crate) fn fill(value: &Value, values: &Values) -> Result<Value, Placeholder> {
    Ok(match value {
        Value::String(text) => {
            let mut filled = String::new();
            for piece in pieces(text) {
                match piece {
                    Piece::Text(text) => filled.push_str(text),
                    Piece::Placeholder(slot) => match slot.value(values) {
                        Some(text) => filled.push_str(&text),
                        None => return Err(slot),
                    },
                }
            }
            Value::String(filled)
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| fill(item, values)).collect::<Result<_, _>>()?),
        Value::Object(members) => {
            let filled = members.iter().map(|(name, member)| Ok((name.clone(), fill(member, values)?)));
            Value::Object(filled.collect::<Result<_, _>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn values(inputs: Value, secrets: Value) -> Values {
        let map = |value: Value| value.as_object().cloned().unwrap_or_default();
        Values { inputs: map(inputs), secrets: map(secrets) }
    }

    #[test]
    fn a_bare_name_is_noticed_where_it_is_that_of_an_input() {
        let values = values(json!({"q": "tea"}), json!({"pin": "1"}));
        let meant = |text: &str| {
            let value = json!({"steps": [{"value": text}]});
            Templates::of(&value).bare_name(&values).map(|(_, meant)| meant)
        };
        assert_eq!(meant("a {{q}}").as_deref(), Some("{{input.q}}"));
        assert_eq!(meant("{{x}} {{ pin }}").as_deref(), Some("{{secret.pin}}"));
        assert_eq!(meant("{{input.q}} {{other}} {{"), None);
    }

    #[test]
    fn templates_are_filled_wherever_a_string_stands() {
        let values = values(json!({"q": "tea", "n": 3, "user": {"name": "Ada"}}), json!({"pin": "{{input.q}}"}));
        let filled = fill(
            &json!({"a": "x {{input.q}} {{ inputs.n }}", "b": ["{{input.user.name}}"], "c": "{{secret.pin}}"}),
            &values,
        );
        assert_eq!(filled, Ok(json!({"a": "x tea 3", "b": ["Ada"], "c": "{{input.q}}"})));
    }

    #[test]
    fn other_braces_are_left_alone() {
        for text in ["{{ user }}", "{{", "}} {{x", "{{input.}}", "{{input.a b}}", "{ {input.a} }"] {
            assert_eq!(fill(&json!(text), &Values::default()), Ok(json!(text)));
            assert!(!is_open(text));
        }
        assert!(is_open("{{ {{input.a}}"));
    }

    #[test]
    fn missing_values_are_named() {
        let task = json!({"steps": [{"url": "{{input.a}}"}, {"value": "{{secret.b}}"}]});
        let templates = Templates::of(&task);
        let fits = |inputs: Value, secrets: Value| templates.fits(&values(inputs, secrets), 100);
        let Err(FillError::Missing(slot)) = fits(json!({"a": 1}), json!({})) else { panic!("the secret is missing") };
        assert_eq!((slot.to_string().as_str(), slot.field().as_str()), ("secret.b", "secrets.b"));
        assert!(fits(json!({"a": null}), json!({"b": ""})).is_err());
        assert_eq!(fits(json!({"a": 0}), json!({"b": ""})), Ok(()));
    }

    #[test]
    fn what_would_become_too_long_is_refused() {
        let task = json!({"steps": [{"value": "{{input.a}}".repeat(1000)}, {"value": "é"}]});
        let values = values(json!({"a": "x".repeat(1000)}), json!({}));
        let templates = Templates::of(&task);
        assert_eq!(templates.fits(&values, 1_000_002), Ok(()));
        assert_eq!(templates.fits(&values, 1_000_001), Err(FillError::TooLong(1_000_001)));
        assert!(templates.check(&values, 10).unwrap_err().to_string().contains("`tasks.max_body`"));
    }

    #[test]
    fn inputs_within_inputs_are_not_filled_in() {
        let chain: Map<String, Value> = ('a'..='h')
            .zip('b'..='i')
            .map(|(name, next)| (name.to_string(), json!(format!("{{{{input.{next}}}}}").repeat(16))))
            .collect();
        let shown = with_inputs("http://x/{{input.a}}{{secret.s}}", &chain, 8192);
        assert_eq!(shown, format!("http://x/{}{{{{secret.s}}}}", "{{input.b}}".repeat(16)));
        let long = Map::from_iter([("a".to_owned(), json!("é".repeat(5000)))]);
        assert!(with_inputs("{{input.a}}{{input.a}}", &long, 8192).len() <= 8193);
    }

    #[test]
    fn braces_without_end_are_read_once() {
        // Looked at from each brace to the end, this would take hours.
        let text = "{{".repeat(4 << 20) + "{{input.a}}";
        assert!(is_open(&text));
        let value = json!("{{a".repeat(1 << 20) + "}}");
        assert!(Templates::of(&value).slot().is_none());
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parser(text in r"(\{\{|\}\}|input\.|secret\.|[a-z. é])*") {
            let values = values(json!({"a": "1"}), json!({}));
            match fill(&json!(text), &values) {
                Ok(filled) => prop_assert!(is_open(&text) || filled == json!(text)),
                Err(_) => prop_assert!(is_open(&text)),
            }
        }
    }
}
