//! How large a JSON Schema is once each reference stands for what it refers to. A check of it takes as long: thirty definitions, each
//! of which names the next one twice, are a thousand million parts.

use std::collections::HashMap;

use serde_json::Value;

use super::super::super::allowance::MAX_SCHEMA_PARTS;

/// The deepest chain of parts, which are followed by calls.
const DEEPEST: usize = 300;
/// The members that refer to another part.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// The members that give a part a name.
const NAMES: [&str; 2] = ["$anchor", "$dynamicAnchor"];
/// The members that make a document of a part, or make it one of another draft.
const OF_DOCUMENTS: [&str; 2] = ["$id", "$schema"];
/// Where the schemas of schemas are, which the library has.
const KNOWN: [&str; 2] = ["https://json-schema.org/", "http://json-schema.org/"];

const TOO_LARGE: &str = "is too large once its references are followed: refer to each part less often";
/// What is said of a reference that leads nowhere.
pub(super) const ELSEWHERE: &str = "refers to another document or to something that is not there: put all of it into this one, and \
    refer by `#/$defs/NAME`";
const NAMED_TWICE: &str = "gives two of its parts the same name";
const HAS_DOCUMENTS: &str =
    "has a part with an `$id` or a `$schema` of its own: leave that out, and refer to the part by `#/$defs/NAME`";

/// What a JSON Schema takes.
#[derive(Debug)]
pub(super) struct Size {
    /// Its parts. One that refers to itself counts once.
    pub(super) parts: u64,
    /// Its regular expressions, each of which is compiled once.
    pub(super) patterns: usize,
    /// The length of the longest of them, in bytes.
    pub(super) longest_pattern: usize,
    /// Whether a part may refer to itself.
    pub(super) refers_to_itself: bool,
}

/// Measures a schema.
/// Errors: why it cannot be followed.
pub(super) fn measure(schema: &Value) -> Result<Size, &'static str> {
    let size = Size { parts: 0, patterns: 0, longest_pattern: 0, refers_to_itself: false };
    // What newer drafts call `$id`.
    let draft = schema["$schema"].as_str().unwrap_or_default();
    let id = if ["draft-03", "draft-04"].iter().any(|old| draft.contains(old)) { "id" } else { "$id" };
    let mut expanded = Expanded { root: schema, id, names: HashMap::new(), known: HashMap::new(), size };
    expanded.read(schema)?;
    expanded.size.parts = expanded.parts(schema, 0)?;
    Ok(expanded.size)
}

struct Expanded<'a> {
    root: &'a Value,
    /// The member in which a schema says its own address: `$id`, or `id` in old drafts.
    id: &'static str,
    names: HashMap<&'a str, &'a Value>,
    /// How many parts a part has, by its address; none while they are being counted.
    known: HashMap<*const Value, Option<u64>>,
    size: Size,
}

impl<'a> Expanded<'a> {
    /// Looks at each part of the document once, for what it has wherever it is referred to.
    fn read(&mut self, part: &'a Value) -> Result<(), &'static str> {
        match part {
            Value::Object(members) => {
                // A document within the document has names of its own, and what a reference means depends on where it stands.
                let is_document = |name: &&str| members.get(*name).is_some_and(Value::is_string);
                if !std::ptr::eq(part, self.root) && OF_DOCUMENTS.iter().chain([&self.id]).any(is_document) {
                    return Err(HAS_DOCUMENTS);
                }
                for name in NAMES.iter().filter_map(|name| members.get(*name)?.as_str()) {
                    if self.names.insert(name, part).is_some() {
                        return Err(NAMED_TWICE);
                    }
                }
                let of_names = members.get("patternProperties").and_then(Value::as_object);
                let patterns = of_names.into_iter().flat_map(|members| members.keys().map(String::as_str));
                for pattern in patterns.chain(members.get("pattern").and_then(Value::as_str)) {
                    self.size.patterns += 1;
                    self.size.longest_pattern = self.size.longest_pattern.max(pattern.len());
                }
                members.values().try_for_each(|member| self.read(member))
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.read(item)),
            _ => Ok(()),
        }
    }

    /// The parts of a part.
    fn parts(&mut self, part: &'a Value, depth: usize) -> Result<u64, &'static str> {
        if depth > DEEPEST {
            return Err(TOO_LARGE);
        }
        match self.known.get(&std::ptr::from_ref(part)) {
            Some(Some(known)) => return Ok(*known),
            Some(None) => {
                self.size.refers_to_itself = true;
                return Ok(1);
            }
            None => {}
        }
        self.known.insert(part, None);
        let mut count: u64 = 1;
        let mut add = |more: u64| {
            count = count.saturating_add(more);
            if count > MAX_SCHEMA_PARTS { Err(TOO_LARGE) } else { Ok(()) }
        };
        match part {
            Value::Object(members) => {
                for (name, member) in members {
                    let reference = member.as_str().filter(|_| REFERENCES.contains(&name.as_str()));
                    // What a dynamic one means depends on the way to it.
                    self.size.refers_to_itself |= reference.is_some() && name != "$ref";
                    match reference {
                        None => add(self.parts(member, depth + 1)?)?,
                        Some(reference) => match self.target(reference)? {
                            Some(target) => add(self.parts(target, depth + 1)?)?,
                            None => self.size.refers_to_itself = true,
                        },
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    add(self.parts(item, depth + 1)?)?;
                }
            }
            _ => {}
        }
        self.known.insert(part, Some(count));
        Ok(count)
    }

    /// What a reference means; none for what the library has.
    fn target(&self, reference: &str) -> Result<Option<&'a Value>, &'static str> {
        let (before, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        if KNOWN.iter().any(|known| before.starts_with(known)) {
            return Ok(None);
        }
        let is_root = before.is_empty() || self.root[self.id] == before;
        if !is_root {
            return Err(ELSEWHERE);
        }
        if fragment.is_empty() {
            return Ok(Some(self.root));
        }
        let fragment = percent_encoding::percent_decode_str(fragment).decode_utf8().map_err(|_| ELSEWHERE)?;
        let found =
            if fragment.starts_with('/') { self.root.pointer(&fragment) } else { self.names.get(&*fragment).copied() };
        found.map(Some).ok_or(ELSEWHERE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A chain of definitions, each of which refers to the next one twice.
    fn chain(length: usize, reference: impl Fn(usize) -> String, named: bool) -> Value {
        let definitions = (0..=length).map(|at| {
            let next = json!({"$ref": reference(at + 1)});
            let mut part = if at == length { json!({"type": "string"}) } else { json!({"allOf": [next, next]}) };
            if named {
                part["$anchor"] = json!(format!("a{at}"));
            }
            (format!("a{at}"), part)
        });
        json!({"$ref": reference(0), "$defs": definitions.collect::<serde_json::Map<_, _>>()})
    }

    fn is_too_large(schema: &Value) -> bool {
        measure(schema).is_err_and(|problem| problem == TOO_LARGE)
    }

    #[test]
    fn what_references_multiply_is_counted() {
        let by_path = |at: usize| format!("#/$defs/a{at}");
        assert!(!is_too_large(&chain(10, by_path, false)));
        assert!(is_too_large(&chain(30, by_path, false)));
        assert!(is_too_large(&chain(30, |at| format!("#a{at}"), true)));
        assert!(is_too_large(&chain(30, |at| format!("#/%24defs/a{at}"), false)));
        let mut below = chain(30, by_path, false);
        below["properties"] = json!({"definitions": {"$ref": "#/$defs/a0"}});
        below["$ref"] = json!("#/$defs/a30");
        assert!(is_too_large(&below), "a property may have any name");
    }

    #[test]
    fn plain_and_recursive_schemas_are_small() {
        let tree = json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
        assert!(!is_too_large(&tree));
        let wide: serde_json::Map<_, _> = (0..5000).map(|at| (format!("m{at}"), json!({"type": "string"}))).collect();
        assert!(!is_too_large(&json!({"properties": wide})));
        assert!(measure(&tree).unwrap().refers_to_itself);
        assert!(!measure(&json!({"$ref": "#/$defs/a", "$defs": {"a": {}}})).unwrap().refers_to_itself);
        let of_schemas = json!({"$ref": "https://json-schema.org/draft/2020-12/schema"});
        assert!(measure(&of_schemas).unwrap().refers_to_itself);
    }

    #[test]
    fn a_reference_that_may_mean_something_else_is_refused() {
        for (schema, problem) in [
            (json!({"$ref": "https://elsewhere.example/schema"}), ELSEWHERE),
            (json!({"$ref": "#/$defs/none"}), ELSEWHERE),
            (json!({"$id": "https://a.example/a", "$ref": "b"}), ELSEWHERE),
            (json!({"$defs": {"a": {"$id": "b", "$ref": "#/$defs/c"}}}), HAS_DOCUMENTS),
            (json!({"allOf": [{"$anchor": "a"}, {"$dynamicAnchor": "a"}]}), NAMED_TWICE),
        ] {
            assert_eq!(measure(&schema).unwrap_err(), problem, "{schema}");
        }
        let named = json!({"$id": "https://a.example/a", "properties": {"id": {"$ref": "https://a.example/a#/$defs/b"}},
            "$defs": {"b": {"type": "string"}}});
        assert!(measure(&named).is_ok());
    }
}
