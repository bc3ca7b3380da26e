//! How large a JSON Schema is once each reference stands for what it refers to. A check of it takes as long: thirty definitions, each
//! of which names the next one twice, are a thousand million parts.

use std::collections::HashMap;

use serde_json::Value;

/// The most parts.
const MOST: u64 = 100_000;
/// The deepest chain of parts, which are followed by calls.
const DEEPEST: usize = 300;
/// The members that refer to another part.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// The members that give a part a name.
const NAMES: [&str; 3] = ["$id", "$anchor", "$dynamicAnchor"];

/// Whether a schema has more parts than are checked. A part that refers to itself counts once.
pub(super) fn is_too_large(schema: &Value) -> bool {
    let mut expanded = Expanded { root: schema, names: HashMap::new(), known: HashMap::new() };
    expanded.find_names(schema);
    expanded.parts(schema, 0).is_none()
}

struct Expanded<'a> {
    root: &'a Value,
    names: HashMap<&'a str, &'a Value>,
    /// What is known of a part, by its address. Where it is being counted, this is 1.
    known: HashMap<*const Value, u64>,
}

impl<'a> Expanded<'a> {
    fn find_names(&mut self, part: &'a Value) {
        match part {
            Value::Object(members) => {
                let names = NAMES.iter().filter_map(|name| members.get(*name)?.as_str());
                self.names.extend(names.map(|name| (name, part)));
                members.values().for_each(|member| self.find_names(member));
            }
            Value::Array(items) => items.iter().for_each(|item| self.find_names(item)),
            _ => {}
        }
    }

    /// The parts of a part; none where there are too many.
    fn parts(&mut self, part: &'a Value, depth: usize) -> Option<u64> {
        if depth > DEEPEST {
            return None;
        }
        if let Some(known) = self.known.get(&std::ptr::from_ref(part)) {
            return Some(*known);
        }
        self.known.insert(part, 1);
        let mut count: u64 = 1;
        let mut add = |more: u64| {
            count = count.saturating_add(more);
            (count <= MOST).then_some(())
        };
        match part {
            Value::Object(members) => {
                for (name, member) in members {
                    let target = member.as_str().filter(|_| REFERENCES.contains(&name.as_str()));
                    // Definitions count where they are referred to.
                    let is_apart = matches!(name.as_str(), "$defs" | "definitions");
                    if let Some(target) = target.and_then(|target| self.target(target)) {
                        add(self.parts(target, depth + 1)?)?;
                    } else if !is_apart {
                        add(self.parts(member, depth + 1)?)?;
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
        self.known.insert(part, count);
        Some(count)
    }

    /// What a reference means, if that is in this document.
    fn target(&self, reference: &str) -> Option<&'a Value> {
        let (before, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let document = if before.is_empty() { self.root } else { self.names.get(before)? };
        if fragment.is_empty() {
            return Some(document);
        }
        let fragment = percent_encoding::percent_decode_str(fragment).decode_utf8().ok()?;
        if fragment.starts_with('/') { document.pointer(&fragment) } else { self.names.get(&*fragment).copied() }
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

    #[test]
    fn what_references_multiply_is_counted() {
        let by_path = |at: usize| format!("#/$defs/a{at}");
        assert!(!is_too_large(&chain(10, by_path, false)));
        assert!(is_too_large(&chain(30, by_path, false)));
        assert!(is_too_large(&chain(30, |at| format!("#a{at}"), true)));
        assert!(is_too_large(&chain(30, |at| format!("#/%24defs/a{at}"), false)));
    }

    #[test]
    fn plain_and_recursive_schemas_are_small() {
        let tree = json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
        assert!(!is_too_large(&tree));
        let wide: serde_json::Map<_, _> = (0..5000).map(|at| (format!("m{at}"), json!({"type": "string"}))).collect();
        assert!(!is_too_large(&json!({"properties": wide})));
        assert!(!is_too_large(&json!({"$ref": "https://elsewhere.example/schema"})), "the library refuses it");
    }
}
