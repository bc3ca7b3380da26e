//! The schemas of all types, under their names.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, ReplaceBoolSchemas};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Collects the schemas that operations refer to.
pub(super) struct Schemas {
    /// Of what clients send: whatever may be left out is optional.
    reading: SchemaGenerator,
    /// Of what they get: whatever is always there is required.
    writing: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let settings = || {
            let settings = SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            });
            // Makers of clients expect objects, and enumerations of names.
            let mut objects = ReplaceBoolSchemas::default();
            objects.skip_additional_properties = true;
            settings
                .with_transform(objects)
                .with_transform(RecursiveTransform(enumerate_names))
                .with_transform(RecursiveTransform(leave_out_defaults))
        };
        Self { reading: settings().into_generator(), writing: settings().for_serialize().into_generator() }
    }

    pub(super) fn read(&mut self, schema: fn(&mut SchemaGenerator) -> Schema) -> Value {
        schema(&mut self.reading).to_value()
    }

    pub(super) fn written(&mut self, schema: fn(&mut SchemaGenerator) -> Schema) -> Value {
        schema(&mut self.writing).to_value()
    }

    /// Whether an object of this schema cannot be empty.
    pub(super) fn requires_members(&self, schema: &Value) -> bool {
        let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        let found = name.and_then(|name| self.reading.definitions().get(name)).unwrap_or(schema);
        found["required"].as_array().is_some_and(|required| !required.is_empty())
    }

    /// All of them by name, and the names that stand for two different ones.
    pub(super) fn finish(mut self) -> (Map<String, Value>, Vec<String>) {
        let mut schemas = self.reading.take_definitions(true);
        let mut clashes = Vec::new();
        for (name, schema) in self.writing.take_definitions(true) {
            if schemas.get(&name).is_some_and(|known| *known != schema) {
                clashes.push(name.clone());
            }
            schemas.insert(name, schema);
        }
        (schemas, clashes)
    }
}

/// Removes the defaults of members that are always there: they stand for what a reader fills in.
fn leave_out_defaults(schema: &mut Schema) {
    let required: Vec<String> = schema
        .get("required")
        .and_then(Value::as_array)
        .map_or_else(Vec::new, |required| required.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    let Some(members) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for name in required {
        if let Some(member) = members.get_mut(&name).and_then(Value::as_object_mut) {
            member.remove("default");
        }
    }
}

/// Turns alternatives of which each is a name with a description into one enumeration that describes its names.
fn enumerate_names(schema: &mut Schema) {
    let Some(alternatives) = schema.get("oneOf").and_then(Value::as_array) else { return };
    let (mut names, mut lines) = (Vec::new(), Vec::new());
    for alternative in alternatives {
        let about = alternative["description"].as_str();
        let of_one = alternative.get("const").into_iter().chain(alternative["enum"].as_array().into_iter().flatten());
        let before = names.len();
        for name in of_one {
            let Some(name) = name.as_str() else { return };
            lines.extend(about.map(|about| format!("- `{name}`: {about}")));
            names.push(name.to_owned());
        }
        if names.len() == before {
            return;
        }
    }
    let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let about = format!("{about}\n\n{}", lines.join("\n"));
    schema.remove("oneOf");
    schema.insert("type".to_owned(), json!("string"));
    schema.insert("enum".to_owned(), json!(names));
    schema.insert("description".to_owned(), json!(about.trim()));
}
