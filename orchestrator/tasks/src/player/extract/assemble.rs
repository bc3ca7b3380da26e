//! Makes objects of the texts that a page's script returned.

use serde_json::{Map, Value, json};

use super::convert::convert;
use crate::script::schema::{Builtin, Field, Shape};
use crate::script::{FailureCode, StepError};

type Members = Map<String, Value>;

/// No page's JSON-LD gives more objects.
const MOST_OBJECTS: usize = 10_000;

/// One result.
/// Errors: `MissingField`.
pub(super) fn object(fields: &[(String, Field)], read: &[Value]) -> Result<Members, StepError> {
    fields
        .iter()
        .zip(read)
        .map(|((name, field), read)| Ok((name.clone(), value(field, read).map_err(|error| within(name, error))?)))
        .collect()
}

fn within(name: &str, mut error: StepError) -> StepError {
    // The path grows from the innermost field outwards, in front of the message.
    error.message = match error.message.strip_prefix('`') {
        Some(rest) => format!("`{name}.{rest}"),
        None => format!("`{name}` {}", error.message),
    };
    error
}

fn value(field: &Field, read: &Value) -> Result<Value, StepError> {
    let found = match &field.shape {
        _ if read.is_null() && !is_boolean(field) => None,
        Shape::Value(_, how) => convert(how, read),
        Shape::List(item) => {
            let items = read.as_array().map(Vec::as_slice).unwrap_or_default();
            let items = items.iter().map(|read| value(item, read)).collect::<Result<Vec<_>, _>>()?;
            if items.is_empty() && field.required { None } else { Some(Value::Array(items)) }
        }
        Shape::Table { by_name } => Some(table(read, *by_name)),
        Shape::Nested(fields) => {
            let read = read.as_array().map(Vec::as_slice).unwrap_or_default();
            Some(Value::Object(object(fields, read)?))
        }
        Shape::Builtin(builtin) => Some(builtin_value(*builtin, read)),
    };
    match found {
        Some(Value::String(text)) if text.is_empty() && field.required => Err(missing(&Value::String(text))),
        Some(found) => Ok(found),
        None if field.required => Err(missing(read)),
        None => Ok(field.default.clone()),
    }
}

/// Whether an absent value means false.
fn is_boolean(field: &Field) -> bool {
    matches!(field.shape, Shape::Value(_, crate::script::schema::Conversion::Boolean { .. })) && field.default.is_null()
}

fn missing(read: &Value) -> StepError {
    let why = match read {
        Value::Null => "is required, and its selector matches nothing".to_owned(),
        Value::String(text) => {
            format!("is required, and cannot be made of `{}`", text.chars().take(100).collect::<String>())
        }
        _ => "is required, and is empty".to_owned(),
    };
    StepError::passing(FailureCode::MissingField, why)
}

fn table(read: &Value, by_name: bool) -> Value {
    let rows = read["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !by_name {
        let head = read["head"].as_array().map(|head| Value::Array(head.clone()));
        return Value::Array(head.into_iter().chain(rows.iter().cloned()).collect());
    }
    let width = rows.iter().filter_map(Value::as_array).map(Vec::len).max().unwrap_or_default();
    let head = read["head"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut names: Vec<String> = Vec::with_capacity(width);
    for column in 0..width {
        let name = head.get(column).and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = name.map_or_else(|| format!("column_{}", column + 1), str::to_owned);
        let same = names.iter().filter(|other| **other == name).count();
        let mut free = name.clone();
        let mut number = same + 1;
        while names.contains(&free) {
            free = format!("{name}_{number}");
            number += 1;
        }
        names.push(free);
    }
    let object = |row: &Value| {
        let cells = row.as_array().map(Vec::as_slice).unwrap_or_default();
        Value::Object(names.iter().cloned().zip(cells.iter().cloned()).collect())
    };
    Value::Array(rows.iter().map(object).collect())
}

fn builtin_value(builtin: Builtin, read: &Value) -> Value {
    let list = read.as_array().map(Vec::as_slice).unwrap_or_default();
    match builtin {
        Builtin::JsonLd => {
            let mut objects = Vec::new();
            let documents = list.iter().filter_map(Value::as_str);
            documents
                .filter_map(|text| serde_json::from_str(text.trim()).ok())
                .for_each(|one| flatten(one, &mut objects));
            Value::Array(objects)
        }
        Builtin::OpenGraph | Builtin::Meta => Value::Object(pairs(list)),
        Builtin::Links | Builtin::Article => read.clone(),
        Builtin::Tables => Value::Array(list.iter().map(|one| table(one, true)).collect()),
    }
}

/// JSON-LD puts many objects into a list, or into `@graph`.
fn flatten(document: Value, objects: &mut Vec<Value>) {
    match document {
        Value::Array(items) => items.into_iter().for_each(|item| flatten(item, objects)),
        Value::Object(mut members) if members.get("@graph").is_some_and(Value::is_array) => {
            let context = members.remove("@context");
            let Some(Value::Array(graph)) = members.remove("@graph") else { return };
            for mut item in graph {
                if let (Some(item), Some(context)) = (item.as_object_mut(), &context) {
                    item.entry("@context").or_insert_with(|| context.clone());
                }
                flatten(item, objects);
            }
        }
        Value::Object(members) if objects.len() < MOST_OBJECTS => objects.push(Value::Object(members)),
        _ => {}
    }
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
    use super::*;
    use crate::script::schema;

    fn assemble(plan: Value, read: Value) -> Result<Value, StepError> {
        let plan = schema::parse("", &json!({"schema": plan})).unwrap();
        object(&plan.fields, read.as_array().unwrap()).map(Value::Object)
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
        assert_eq!(
            assemble(plan, json!([[["x"]]])).unwrap_err().message,
            "`a.b` is required, and cannot be made of `x`"
        );
    }

    #[test]
    fn tables_have_a_name_for_each_column() {
        let read = json!({"head": ["Name", "", "Name"], "rows": [["a", "b", "c", "d"], ["e"]]});
        assert_eq!(
            table(&read, true),
            json!([{"Name": "a", "column_2": "b", "Name_2": "c", "column_4": "d"}, {"Name": "e"}])
        );
        assert_eq!(table(&read, false), json!([["Name", "", "Name"], ["a", "b", "c", "d"], ["e"]]));
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
            builtin_value(Builtin::JsonLd, &read),
            json!([{"@type": "A"}, {"@type": "B"}, {"@type": "C", "@context": "c"}])
        );
    }

    #[test]
    fn repeated_properties_become_lists() {
        let read = json!([["og:image", "a"], ["og:title", "t"], ["og:image", "b"], ["og:image", "c"]]);
        assert_eq!(builtin_value(Builtin::OpenGraph, &read), json!({"og:image": ["a", "b", "c"], "og:title": "t"}));
    }
}
