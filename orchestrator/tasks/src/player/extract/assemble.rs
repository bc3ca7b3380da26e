//! Makes objects of the texts that a page's script returned.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::super::search::ends_in_time;
use super::Limit;
use super::convert::convert;
use crate::script::schema::{Builtin, Field, Shape};
use crate::script::{FailureCode, StepError};

type Members = Map<String, Value>;

/// No page's JSON-LD gives more objects.
const MOST_OBJECTS: usize = 10_000;
/// No table has more columns by name: as many as a table of exported results.
const MOST_COLUMNS: usize = 1_000;

/// What the results of one page may still take. Some of it stands in a result more often than in the page: the names of fields and
/// of a table's columns, and the context of JSON-LD. All of that counts before it is written, so that a small page makes no large result.
#[derive(Debug)]
pub(super) struct Room {
    bytes: u64,
    until: Instant,
}

impl Room {
    pub(super) const fn new(limit: Limit) -> Self {
        Self { bytes: limit.bytes, until: limit.until }
    }

    /// Takes so many bytes.
    /// Errors: `TooLarge`.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), StepError> {
        let left = self.bytes.checked_sub(bytes as u64);
        self.bytes = left.ok_or_else(|| StepError::new(FailureCode::TooLarge, "has more than the output may have"))?;
        Ok(())
    }

    /// Checks that there is time left: nothing else stops the work on a page's text.
    /// Errors: `Timeout`.
    pub(super) fn check_time(&self) -> Result<(), StepError> {
        if Instant::now() < self.until { Ok(()) } else { Err(too_late()) }
    }

    /// Checks that there is time for a search from `from` on: see [`ends_in_time`].
    /// Errors: `Timeout`.
    pub(super) fn check_search(
        &self,
        text: &str,
        from: usize,
        search: impl Fn(&str, usize) -> Option<usize>,
    ) -> Result<(), StepError> {
        if ends_in_time(text, from, self.until, search) { Ok(()) } else { Err(too_late()) }
    }
}

fn too_late() -> StepError {
    StepError::new(FailureCode::Timeout, "was not read in time: its pattern takes too long on this page")
}

/// One result.
/// Errors: `MissingField`, `TooLarge`, `Timeout`.
pub(super) fn object(fields: &[(String, Field)], read: &[Value], room: &mut Room) -> Result<Members, StepError> {
    let mut members = Map::new();
    for ((name, field), read) in fields.iter().zip(read) {
        room.take(name.len())?;
        members.insert(name.clone(), value(field, read, room).map_err(|error| within(name, error))?);
    }
    Ok(members)
}

fn within(name: &str, mut error: StepError) -> StepError {
    // The path grows from the innermost field outwards, in front of the message.
    error.message = match error.message.strip_prefix('`') {
        Some(rest) => format!("`{name}.{rest}"),
        None => format!("`{name}` {}", error.message),
    };
    error
}

fn value(field: &Field, read: &Value, room: &mut Room) -> Result<Value, StepError> {
    let found = match &field.shape {
        _ if read.is_null() && !is_boolean(field) => None,
        Shape::Value(_, how) => convert(how, read, room)?,
        Shape::List(item) => {
            let items = read.as_array().map(Vec::as_slice).unwrap_or_default();
            let items = items.iter().map(|read| value(item, read, room)).collect::<Result<Vec<_>, _>>()?;
            if items.is_empty() && field.required { None } else { Some(Value::Array(items)) }
        }
        Shape::Table { by_name } => Some(table(read, *by_name, room)?),
        Shape::Nested(fields) => {
            let read = read.as_array().map(Vec::as_slice).unwrap_or_default();
            Some(Value::Object(object(fields, read, room)?))
        }
        Shape::Builtin(builtin) => Some(builtin_value(*builtin, read, room)?),
    };
    match found {
        Some(Value::String(text)) if text.is_empty() && field.required => Err(missing(&Value::String(text))),
        Some(found) => Ok(found),
        None if field.required => Err(missing(read)),
        None => {
            room.take(length(&field.default))?;
            Ok(field.default.clone())
        }
    }
}

/// How long a value is as JSON, in bytes.
fn length(value: &Value) -> usize {
    if value.is_null() { 0 } else { value.to_string().len() }
}

/// Whether an absent value means false.
fn is_boolean(field: &Field) -> bool {
    matches!(field.shape, Shape::Value(_, crate::script::schema::Conversion::Boolean { .. })) && field.default.is_null()
}

fn missing(read: &Value) -> StepError {
    let missing = |why| StepError::passing(FailureCode::MissingField, why);
    match read {
        Value::Null => missing("is required, and its selector matches nothing"),
        Value::String(text) if !text.is_empty() => missing("is required, and cannot be made of").quoting(text),
        _ => missing("is required, and is empty"),
    }
}

fn table(read: &Value, by_name: bool, room: &mut Room) -> Result<Value, StepError> {
    let rows = read["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !by_name {
        let head = read["head"].as_array().map(|head| Value::Array(head.clone()));
        return Ok(Value::Array(head.into_iter().chain(rows.iter().cloned()).collect()));
    }
    let width = rows.iter().filter_map(Value::as_array).map(Vec::len).max().unwrap_or_default();
    let head = read["head"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = column_names(head, width.min(MOST_COLUMNS));
    let object = |row: &Value| {
        let cells = row.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut members = Map::new();
        for (name, cell) in names.iter().zip(cells) {
            room.take(name.len())?;
            members.insert(name.clone(), cell.clone());
        }
        Ok(Value::Object(members))
    };
    rows.iter().map(object).collect::<Result<_, _>>().map(Value::Array)
}

/// A name for each column: what its head says, with a number where that is taken.
fn column_names(head: &[Value], width: usize) -> Vec<String> {
    let mut names = Vec::with_capacity(width);
    let mut taken = HashSet::with_capacity(width);
    // The number that a name gets next. Counted from the first one again, many columns of one name would take very long.
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for column in 0..width {
        let name = head.get(column).and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = name.map_or_else(|| format!("column_{}", column + 1), str::to_owned);
        let mut free = name.clone();
        while taken.contains(&free) {
            let number = numbers.entry(name.clone()).or_insert(2);
            free = format!("{name}_{number}");
            *number += 1;
        }
        taken.insert(free.clone());
        names.push(free);
    }
    names
}

fn builtin_value(builtin: Builtin, read: &Value, room: &mut Room) -> Result<Value, StepError> {
    let list = read.as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(match builtin {
        Builtin::JsonLd => {
            let mut objects = Vec::new();
            for text in list.iter().filter_map(Value::as_str) {
                if let Ok(document) = serde_json::from_str(text.trim()) {
                    flatten(document, &mut objects, room)?;
                }
            }
            Value::Array(objects)
        }
        Builtin::OpenGraph | Builtin::Meta => Value::Object(pairs(list)),
        Builtin::Links | Builtin::Article => read.clone(),
        Builtin::Tables => {
            Value::Array(list.iter().map(|one| table(one, true, room)).collect::<Result<_, StepError>>()?)
        }
    })
}

/// JSON-LD puts many objects into a list, or into `@graph`, where all have its context.
fn flatten(document: Value, objects: &mut Vec<Value>, room: &mut Room) -> Result<(), StepError> {
    match document {
        _ if objects.len() >= MOST_OBJECTS => {}
        Value::Array(items) => {
            for item in items {
                flatten(item, objects, room)?;
            }
        }
        Value::Object(mut members) if members.get("@graph").is_some_and(Value::is_array) => {
            let context = members.remove("@context");
            let size = context.as_ref().map_or(0, length);
            let Some(Value::Array(graph)) = members.remove("@graph") else { return Ok(()) };
            for mut item in graph {
                if objects.len() >= MOST_OBJECTS {
                    break;
                }
                if let (Some(item), Some(context)) = (item.as_object_mut(), &context)
                    && !item.contains_key("@context")
                {
                    room.take(size)?;
                    item.insert("@context".to_owned(), context.clone());
                }
                flatten(item, objects, room)?;
            }
        }
        Value::Object(members) => objects.push(Value::Object(members)),
        _ => {}
    }
    Ok(())
}

/// Names with their values; a name that comes again has a list.
fn pairs(list: &[Value]) -> Members {
    let mut members = Map::new();
    for pair in list {
        let (Some(name), content) = (pair[0].as_str(), pair[1].clone()) else { continue };
        match members.get_mut(name) {
            None => drop(members.insert(name.to_owned(), content)),
            Some(Value::Array(contents)) => contents.push(content),
            Some(first) => *first = json!([first.take(), content]),
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::script::Allowance;
    use crate::script::schema;

    fn room(bytes: u64) -> Room {
        Room { bytes, until: Instant::now() + Duration::from_secs(600) }
    }

    fn assemble(plan: Value, read: Value) -> Result<Value, StepError> {
        assemble_within(plan, read, &mut room(1 << 20))
    }

    fn assemble_within(plan: Value, read: Value, room: &mut Room) -> Result<Value, StepError> {
        let plan = schema::parse("", &json!({"schema": plan}), &mut Allowance::default()).unwrap();
        object(&plan.fields, read.as_array().unwrap(), room).map(Value::Object)
    }

    #[test]
    fn fields_get_their_types() {
        let plan = json!({
            "name": "h1",
            "price": {"selector": ".p", "type": "number"},
            "stock": {"selector": ".s", "type": "boolean"},
            "gone": {"selector": ".g", "type": "boolean"},
            "none": {"selector": ".n", "default": "?"},
            "tags": {"type": "list", "selector": "li"},
            "parts": {"type": "nested_list", "selector": "tr", "fields": {"n": {"type": "number"}}},
        });
        // serde_json keeps the members of an object in the order of their names.
        let read = json!([null, "Tea", null, [["1"], ["x"]], "€ 3,50", "yes", ["a", "b"]]);
        assert_eq!(
            assemble(plan, read).unwrap(),
            json!({"name": "Tea", "price": 3.5, "stock": true, "gone": false, "none": "?", "tags": ["a", "b"],
                "parts": [{"n": 1}, {"n": null}]})
        );
    }

    #[test]
    fn missing_required_fields_are_named_by_their_paths() {
        let plan = json!({"a": {"type": "nested_list", "selector": "li", "fields":
            {"b": {"type": "number", "selector": "b", "required": true}}}});
        let error = assemble(plan.clone(), json!([[["1"], [null]]])).unwrap_err();
        assert_eq!((error.code, error.is_passing), (FailureCode::MissingField, true));
        assert_eq!(error.message, "`a.b` is required, and its selector matches nothing");
        assert_eq!(assemble(plan, json!([[["x"]]])).unwrap_err().text(), "`a.b` is required, and cannot be made of: x");
    }

    #[test]
    fn tables_have_a_name_for_each_column() {
        let read = json!({"head": ["Name", "", "Name"], "rows": [["a", "b", "c", "d"], ["e"]]});
        assert_eq!(
            table(&read, true, &mut room(1000)).unwrap(),
            json!([{"Name": "a", "column_2": "b", "Name_2": "c", "column_4": "d"}, {"Name": "e"}])
        );
        let lists = table(&read, false, &mut room(1000)).unwrap();
        assert_eq!(lists, json!([["Name", "", "Name"], ["a", "b", "c", "d"], ["e"]]));
    }

    #[test]
    fn names_of_columns_that_are_taken_are_counted_once() {
        // Counted from 2 again for each column, this would take minutes.
        let head: Vec<Value> =
            (2..20_000).map(|n| json!(format!("a_{n}"))).chain((0..20_000).map(|_| json!("a"))).collect();
        let names = column_names(&head, head.len());
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), head.len());
        let row: Vec<Value> = (0..2000).map(Value::from).collect();
        let wide = table(&json!({"head": null, "rows": [row]}), true, &mut room(1 << 20)).unwrap();
        assert_eq!(wide[0].as_object().unwrap().len(), MOST_COLUMNS);
    }

    #[test]
    fn what_a_result_has_more_often_than_the_page_counts() {
        let long = "x".repeat(1000);
        let rows: Vec<Value> = (0..100).map(|_| json!(["1"])).collect();
        let read = json!([{"head": [long], "rows": rows}]);
        let of_table = json!({"t": {"type": "table"}});
        let graph = |context: Value| {
            let items: Vec<Value> = (0..100).map(|number| json!({"n": number})).collect();
            json!([[json!({"@context": context, "@graph": items}).to_string()]])
        };
        let nested = json!({"@graph": [{"@context": long, "@graph": [{"@graph": vec![json!({}); 100]}]}]});
        let linked = json!({"ld": {"type": "json_ld"}});
        let names = json!({"l": {"type": "nested_list", "selector": "li", "fields": {(long.as_str()): "b"}}});
        let defaults = json!({"l": {"type": "list", "selector": "li", "item": {"type": "number", "default": long}}});
        let empty: Vec<Value> = vec![json!(["b"]); 100];
        let matches = json!({"m": {"type": "regex", "pattern": "", "all": true}});
        for (plan, read) in [
            (of_table, read),
            (linked.clone(), graph(json!(long))),
            (linked, json!([[nested.to_string()]])),
            (names, json!([empty])),
            (defaults, json!([vec![json!("none"); 100]])),
            (matches, json!(["y".repeat(100_000)])),
        ] {
            assert!(assemble_within(plan.clone(), read.clone(), &mut room(1 << 20)).is_ok(), "{plan}");
            let error = assemble_within(plan.clone(), read, &mut room(50_000)).unwrap_err();
            assert_eq!((error.code, error.is_passing), (FailureCode::TooLarge, false), "{plan}");
        }
    }

    #[test]
    fn a_pattern_that_takes_too_long_is_stopped() {
        // Each match is looked for to the end of the text.
        let plan = json!({"m": {"type": "regex", "pattern": ".*[^A-Z]|[A-Z]", "all": true}});
        let mut room = Room { bytes: u64::MAX, until: Instant::now() };
        let error = assemble_within(plan, json!(["A".repeat(4 << 20)]), &mut room).unwrap_err();
        assert_eq!((error.code, error.is_passing), (FailureCode::Timeout, false));
        assert!(error.message.starts_with("`m` was not read in time"), "{}", error.message);
        // Nothing is found before the end of the text, and the one search would take very long.
        for how in [json!({"type": "regex"}), json!({"type": "regex", "all": true}), json!({"type": "boolean"})] {
            let mut plan = how;
            plan["pattern"] = json!("a[ab]{300}[c-z]");
            let read = json!(["ab".repeat(1 << 20)]);
            let error = assemble_within(json!({"m": plan}), read, &mut room).unwrap_err();
            assert!(error.message.starts_with("`m` was not read in time"), "{}", error.message);
        }
    }

    #[test]
    fn linked_data_is_flattened_and_broken_data_skipped() {
        let read = json!([
            "{\"@type\": \"A\"}",
            "{",
            "[{\"@type\": \"B\"}, 3]",
            "{\"@context\": \"c\", \"@graph\": [{\"@type\": \"C\"}]}"
        ]);
        assert_eq!(
            builtin_value(Builtin::JsonLd, &read, &mut room(1000)).unwrap(),
            json!([{"@type": "A"}, {"@type": "B"}, {"@type": "C", "@context": "c"}])
        );
    }

    #[test]
    fn repeated_properties_become_lists() {
        let read = json!([["og:image", "a"], ["og:title", "t"], ["og:image", "b"], ["og:image", "c"]]);
        let shown = builtin_value(Builtin::OpenGraph, &read, &mut room(0)).unwrap();
        assert_eq!(shown, json!({"og:image": ["a", "b", "c"], "og:title": "t"}));
    }
}
