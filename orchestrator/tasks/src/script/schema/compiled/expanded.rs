//! How large a JSON Schema is once each reference stands for what it refers to. A check of it takes as long: thirty definitions, each
//! of which names the next one twice, are a thousand million parts.

use std::collections::HashMap;

use serde_json::Value;

use super::super::super::allowance::MAX_SCHEMA_PARTS;

/// The deepest chain of parts, which are followed by calls.
const DEEPEST: usize = 300;
/// The most parts that are looked at for the counts, those that are looked at again included: a fraction of a second.
const MAX_VISITS: u64 = 20 * MAX_SCHEMA_PARTS;
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
    /// Its parts, as often as they are referred to. Where one refers to itself, it counts once on each way to it.
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
    let mut expanded = Expanded {
        root: schema,
        id,
        names: HashMap::new(),
        targets: HashMap::new(),
        known: HashMap::new(),
        cyclic: HashMap::new(),
        visits: 0,
        size,
    };
    expanded.read(schema)?;
    expanded.size.parts = expanded.parts(schema, 0)?.parts;
    // A check may come to a cycle by any of its parts, and one that was entered by another part is larger than it seemed there.
    let cyclic = std::mem::take(&mut expanded.cyclic);
    for part in cyclic.into_values() {
        expanded.size.parts = expanded.size.parts.max(expanded.parts(part, 0)?.parts);
    }
    Ok(expanded.size)
}

struct Expanded<'a> {
    root: &'a Value,
    /// The member in which a schema says its own address: `$id`, or `id` in old drafts.
    id: &'static str,
    names: HashMap<&'a str, &'a Value>,
    /// What references mean, by their addresses: to look one up may take long, and is done once.
    targets: HashMap<*const Value, Option<&'a Value>>,
    /// How many parts a part has, by its address; none while they are being counted. Those of a cycle are not kept.
    known: HashMap<*const Value, Option<u64>>,
    /// The parts that are referred to and lead back into a cycle, by their addresses.
    cyclic: HashMap<*const Value, &'a Value>,
    visits: u64,
    size: Size,
}

/// The parts of a part.
#[derive(Clone, Copy)]
struct Count {
    parts: u64,
    /// Whether one of them was being counted already, so that the same part may have more of them on another way to it.
    is_cyclic: bool,
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
    fn parts(&mut self, part: &'a Value, depth: usize) -> Result<Count, &'static str> {
        self.visits += 1;
        if depth > DEEPEST || self.visits > MAX_VISITS {
            return Err(TOO_LARGE);
        }
        match self.known.get(&std::ptr::from_ref(part)) {
            Some(Some(known)) => return Ok(Count { parts: *known, is_cyclic: false }),
            Some(None) => {
                self.size.refers_to_itself = true;
                return Ok(Count { parts: 1, is_cyclic: true });
            }
            None => {}
        }
        self.known.insert(part, None);
        let mut count = Count { parts: 1, is_cyclic: false };
        let mut add = |more: Count| {
            count.parts = count.parts.saturating_add(more.parts);
            count.is_cyclic |= more.is_cyclic;
            if count.parts > MAX_SCHEMA_PARTS { Err(TOO_LARGE) } else { Ok(()) }
        };
        match part {
            Value::Object(members) => {
                for (name, member) in members {
                    let reference = member.as_str().filter(|_| REFERENCES.contains(&name.as_str()));
                    // What a dynamic one means depends on the way to it.
                    self.size.refers_to_itself |= reference.is_some() && name != "$ref";
                    match reference {
                        None => add(self.parts(member, depth + 1)?)?,
                        Some(reference) => match self.target_of(member, reference)? {
                            Some(target) => {
                                let more = self.parts(target, depth + 1)?;
                                if more.is_cyclic {
                                    self.cyclic.insert(target, target);
                                }
                                add(more)?;
                            }
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
        if count.is_cyclic {
            self.known.remove(&std::ptr::from_ref(part));
        } else {
            self.known.insert(part, Some(count.parts));
        }
        Ok(count)
    }

    /// What the reference in a member means; none for what the library has.
    fn target_of(&mut self, member: &'a Value, reference: &str) -> Result<Option<&'a Value>, &'static str> {
        if let Some(known) = self.targets.get(&std::ptr::from_ref(member)) {
            return Ok(*known);
        }
        let target = self.target(reference)?;
        self.targets.insert(member, target);
        Ok(target)
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
    fn a_cycle_counts_wherever_it_is_entered() {
        let wide = |part: &Value, count: usize| vec![part.clone(); count];
        let refer = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
        let large = |first: Value| {
            let parts = [vec![first], wide(&json!({}), 5000)].concat();
            json!({"allOf": parts})
        };
        // Whoever comes from `a` to `b` is through `a` already; whoever begins at `b` is not.
        let cycle = |more: Value| {
            let a = large(json!({"properties": {"x": refer("b")}}));
            json!({"$defs": {"a": a, "b": refer("a")}, "allOf": more})
        };
        assert!(!is_too_large(&cycle(json!(wide(&refer("b"), 1)))));
        assert!(is_too_large(&cycle(json!(wide(&refer("b"), 100)))));
        // The same where the root is a part of the cycle.
        let root = |count: usize| {
            let mut root = large(json!({"properties": {"x": refer("a")}}));
            root["$defs"] = json!({"a": {"allOf": wide(&json!({"$ref": "#"}), count)}});
            root
        };
        assert!(!is_too_large(&root(1)));
        assert!(is_too_large(&root(100)));
        // Each refers to all: there are more ways through them than anybody can follow.
        let all: Vec<Value> = (0..20).map(|at| refer(&format!("d{at}"))).collect();
        let all = (0..20).map(|at| (format!("d{at}"), json!({"anyOf": all})));
        assert!(is_too_large(&json!({"$defs": all.collect::<serde_json::Map<_, _>>()})));
    }

    #[test]
    fn a_grammar_is_small() {
        let refer = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
        let kinds = |name: &str| json!({"anyOf": (0..20).map(|at| refer(&format!("{name}{at}"))).collect::<Vec<_>>()});
        let mut parts = serde_json::Map::from_iter([("s".to_owned(), kinds("s")), ("e".to_owned(), kinds("e"))]);
        for at in 0..20 {
            let expression = json!({"properties": {"left": refer("e"), "right": refer("e")}});
            parts.insert(format!("e{at}"), if at == 0 { refer("s") } else { expression });
            parts.insert(format!("s{at}"), json!({"properties": {"test": refer("e"), "then": refer("s")}}));
        }
        assert!(!is_too_large(&json!({"items": refer("s"), "$defs": parts})));
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
