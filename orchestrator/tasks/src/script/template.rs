//! Templates in the strings of a task, `{{input.name}}` and `{{secret.name}}`, and hiding secrets in its results.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// What stands in an output where a secret would.
const HIDDEN: &str = "[secret]";

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
            let Some(end) = rest[at..].find("}}").map(|end| end + at) else { break };
            if let Some(slot) = Placeholder::parse(&rest[at + 2..end]) {
                if at > 0 {
                    let text = &rest[..at];
                    rest = &rest[at..];
                    return Some(Piece::Text(text));
                }
                rest = &rest[end + 2..];
                return Some(Piece::Placeholder(slot));
            }
            from = at + 2;
        }
        Some(Piece::Text(std::mem::take(&mut rest)))
    })
}

/// Every slot in a JSON value's strings.
pub(crate) fn slots(value: &Value, found: &mut BTreeSet<Placeholder>) {
    match value {
        Value::String(text) => {
            found.extend(pieces(text).filter_map(|piece| match piece {
                Piece::Placeholder(slot) => Some(slot),
                Piece::Text(_) => None,
            }));
        }
        Value::Array(items) => items.iter().for_each(|item| slots(item, found)),
        Value::Object(members) => members.values().for_each(|member| slots(member, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The first pair of braces that holds the bare name of an input or a secret, with what it must be. Such text would reach
/// the page as it is.
pub(crate) fn bare_name(value: &Value, values: &Values) -> Option<(String, String)> {
    match value {
        Value::String(text) => text.split("{{").skip(1).find_map(|rest| {
            let name = rest.split_once("}}")?.0.trim();
            let kinds = [("input", &values.inputs), ("secret", &values.secrets)];
            let (kind, _) = kinds.into_iter().find(|(_, map)| map.contains_key(name))?;
            Some((format!("{{{{{name}}}}}"), format!("{{{{{kind}.{name}}}}}")))
        }),
        Value::Array(items) => items.iter().find_map(|item| bare_name(item, values)),
        Value::Object(members) => members.values().find_map(|member| bare_name(member, values)),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// The first slot that has no value.
pub(crate) fn missing(value: &Value, values: &Values) -> Option<Placeholder> {
    let mut found = BTreeSet::new();
    slots(value, &mut found);
    found.into_iter().find(|slot| slot.value(values).is_none())
}

/// The same value with every template filled. What is filled in is not read again, so a value may hold braces.
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

/// Takes secrets out of whatever leaves a task.
pub(crate) struct Redactor {
    /// The longest first, so that a secret within another leaves no rest of it.
    secrets: Vec<String>,
}

impl Redactor {
    /// Hides every secret of `values`, also within objects and lists.
    pub(crate) fn new(values: &Values) -> Self {
        fn collect(value: &Value, secrets: &mut BTreeSet<String>) {
            match value {
                Value::Null | Value::Bool(_) => {}
                Value::Number(number) => drop(secrets.insert(number.to_string())),
                Value::String(text) => drop(secrets.insert(text.clone())),
                Value::Array(items) => items.iter().for_each(|item| collect(item, secrets)),
                Value::Object(members) => members.values().for_each(|member| collect(member, secrets)),
            }
        }
        let mut secrets = BTreeSet::new();
        values.secrets.values().for_each(|value| collect(value, &mut secrets));
        // In URLs and in reports about them a secret is encoded.
        let encoded: Vec<String> = secrets
            .iter()
            .flat_map(|secret| {
                let form = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect::<String>();
                [form.replace('+', "%20"), form]
            })
            .collect();
        secrets.extend(encoded);
        let mut secrets: Vec<String> = secrets.into_iter().filter(|secret| !secret.trim().is_empty()).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { secrets }
    }

    /// A text without secrets.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut shown = text.to_owned();
        for secret in &self.secrets {
            if shown.contains(secret.as_str()) {
                shown = shown.replace(secret.as_str(), HIDDEN);
            }
        }
        shown
    }

    /// A value without secrets, also in the names of its members.
    pub(crate) fn value(&self, value: Value) -> Value {
        if self.secrets.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Number(number) => {
                let text = number.to_string();
                if self.secrets.contains(&text) { Value::String(HIDDEN.to_owned()) } else { Value::Number(number) }
            }
            Value::Array(items) => Value::Array(items.into_iter().map(|item| self.value(item)).collect()),
            Value::Object(members) => {
                let shown = members.into_iter().map(|(name, member)| (self.text(&name), self.value(member)));
                Value::Object(shown.collect())
            }
            Value::Null | Value::Bool(_) => value,
        }
    }
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
        let meant = |text: &str| bare_name(&json!({"steps": [{"value": text}]}), &values).map(|(_, meant)| meant);
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
        let slot = missing(&task, &values(json!({"a": 1}), json!({}))).unwrap();
        assert_eq!((slot.to_string().as_str(), slot.field().as_str()), ("secret.b", "secrets.b"));
        assert!(missing(&task, &values(json!({"a": null}), json!({"b": ""}))).is_some());
        assert_eq!(missing(&task, &values(json!({"a": 0}), json!({"b": ""}))), None);
    }

    #[test]
    fn secrets_are_removed_from_results() {
        let values = values(json!({}), json!({"a": "hunter2", "b": "hunter2 & more", "c": 4711, "d": " "}));
        let redactor = Redactor::new(&values);
        let shown = redactor.value(json!({"x hunter2": ["is hunter2 & more.", 4711, 47, "hunter2+%26+more", "a b"]}));
        assert_eq!(shown, json!({"x [secret]": ["is [secret].", "[secret]", 47, "[secret]", "a b"]}));
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

        #[test]
        fn no_secret_survives(secret in "[a-zA-Z0-9 &%/+é]{4,12}", before in "[a-z ]{0,9}", after in "[a-z ]{0,9}") {
            prop_assume!(!secret.trim().is_empty() && !HIDDEN.contains(&secret));
            let values = values(json!({}), json!({"s": secret.clone()}));
            let shown = Redactor::new(&values).text(&format!("{before}{secret}{after}"));
            prop_assert!(!shown.contains(&secret), "{}", shown);
        }
    }
}
