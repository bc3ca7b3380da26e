//! `/openapi.json`: the description of the interface for programs, in OpenAPI 3.1. It comes from the routes themselves
//! (`routes`), the types that handlers read and write (`schemas`), and this daemon's own limits (`limits`).

mod access;
mod limits;
mod operation;
mod routes;
mod schemas;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};

pub(super) use access::Access;
pub(super) use operation::{EVENTS, Operation};
pub(super) use routes::Routes;

use super::App;
use super::public_url::PublicUrl;
use super::reply::json_reply;
use schemas::Schemas;
pub(super) use warmpool_api::AnyObject;
use warmpool_config::Config;

/// The headings, in the order of the guides.
const TAGS: [(&str, &str); 19] = [
    ("Sessions", "One client's use of one browser, from its creation to its one end."),
    ("Websockets", "What clients of a session connect to. Their client libraries do the rest."),
    ("WebDriver", "The WebDriver address of a session. Errors have the form of the W3C standard."),
    ("Live view", "A session's picture, the links by which others may watch, and recordings."),
    ("Files", "What a browser downloaded, and what its pages may upload."),
    ("Pages", "A page as a picture, a document, HTML or elements, by one request."),
    ("MCP", "The Model Context Protocol, by which agents drive browsers."),
    ("Tasks", "Recordings to play and pages to read, once or for many inputs, and their history."),
    ("Profiles", "What browsers keep for sites, under a name, from one session to the next."),
    ("Extensions", "Browser extensions, for sessions that are to have them."),
    ("Webhooks", "Messages to your own servers: what ended, and what waits for a person."),
    ("Worlds", "360-degree scenes for patients, and the keys that ask for them."),
    (
        "Selenium Grid",
        "The URLs that clients of Selenium Grid and Selenoid know. Errors have the form of the W3C standard.",
    ),
    ("Playwright", "Playwright's own protocol, for its `connect` and its test runner."),
    ("browserless", "The URLs that clients of browserless and of debugging ports know."),
    (
        "Browserbase",
        "The calls of Browserbase's SDKs. They are also served without `/browserbase` in front, where the header of the key is theirs.",
    ),
    (
        "Steel",
        "The calls of Steel's SDKs. They are also served without `/steel` in front, where the header of the key is theirs.",
    ),
    ("Kernel", "The calls of Kernel's SDKs. They are also served without `/kernel` in front, to these SDKs."),
    ("Operations", "How the daemon is."),
];

const ABOUT: &str = "Warmpool hands each client a fresh browser from a warm pool of containers.\n\n\
    Every call needs a key in the header `service-secret-key`, or as `Authorization: Bearer KEY`, unless it says otherwise. \
    Bodies are JSON. Points in time are Unix milliseconds, and durations are milliseconds unless a field says otherwise. \
    Members of a body may be left out or null unless they are required; unknown members are refused. Answers may get further \
    members in later releases.\n\n\
    A failed call has a `code` for programs, a `message` that says what to do, and the id under which the daemon's log has \
    the cause.";

/// The description, without the address under which a client sees the service.
#[derive(Debug)]
pub(crate) struct Description {
    members: Map<String, Value>,
}

impl Description {
    /// Describes these routes of a daemon with these settings.
    pub(super) fn new(routes: &Routes, config: &Config) -> Self {
        let mut schemas = Schemas::new();
        let mut paths = Map::new();
        for (method, path, tag, operation) in routes.described() {
            let item = paths.entry(path.clone()).or_insert_with(|| json!({}));
            item[method.as_str().to_ascii_lowercase()] = operation.document(&path, tag, &mut schemas);
        }
        let (mut schemas, clashes) = schemas.finish();
        debug_assert!(clashes.is_empty(), "names of two schemas: {clashes:?}");
        limits::apply(&mut schemas, config);
        let tags: Vec<Value> = TAGS.iter().map(|(name, about)| json!({"name": name, "description": about})).collect();
        let document = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Warmpool",
                "version": env!("CARGO_PKG_VERSION"),
                "description": ABOUT,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "tags": tags,
            "paths": paths,
            "components": {
                "schemas": schemas,
                "securitySchemes": access::schemes(),
                "headers": {
                    "RequestId": {
                        "description": "The request's id, as in the daemon's log.",
                        "schema": {"type": "string"},
                    },
                    "RetryAfter": {
                        "description": "The same request is worth another try after this many seconds.",
                        "schema": {"type": "integer", "minimum": 0},
                    },
                },
            },
        });
        let Value::Object(members) = document else { unreachable!("it was written as an object") };
        Self { members }
    }

    /// The description for clients who see the service at `url`.
    pub(super) fn at(&self, url: &str) -> DescriptionAt<'_> {
        DescriptionAt { servers: [json!({"url": url})], members: &self.members }
    }
}

/// The description for clients who see the service at `servers`.
#[derive(Serialize)]
pub(super) struct DescriptionAt<'a> {
    servers: [Value; 1],
    #[serde(flatten)]
    members: &'a Map<String, Value>,
}

/// `GET /openapi.json`
pub(super) async fn serve(State(app): State<App>, base: PublicUrl) -> Response {
    json_reply(StatusCode::OK, &app.description.at(&base.http()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use warmpool_config::{Flags, Host};

    fn description() -> Value {
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Config::resolve(None, Vec::new(), &Flags::default(), &host).unwrap();
        Value::Object(Description::new(&super::super::routes(), &config).members)
    }

    /// Every `$ref` in a document.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|member| references(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let description = description();
        let mut found = Vec::new();
        references(&description, &mut found);
        assert!(found.len() > 200);
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(description.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn what_is_always_there_has_no_default() {
        fn check(place: &str, value: &Value) {
            for name in value["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                assert!(value["properties"][name].get("default").is_none(), "{place} {name}");
            }
            match value {
                Value::Object(members) => {
                    members.iter().for_each(|(name, value)| check(&format!("{place}/{name}"), value))
                }
                Value::Array(values) => values.iter().for_each(|value| check(place, value)),
                _ => {}
            }
        }
        check("", &description());
    }

    /// Where a reference leads.
    fn target<'a>(description: &'a Value, reference: &str) -> &'a Value {
        description.pointer(reference.trim_start_matches('#')).unwrap()
    }

    fn takes_null(description: &Value, schema: &Value) -> bool {
        if let Some(reference) = schema["$ref"].as_str() {
            return takes_null(description, target(description, reference));
        }
        if let Some(parts) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
            return parts.iter().any(|part| takes_null(description, part));
        }
        if let Some(names) = schema["enum"].as_array() {
            return names.contains(&Value::Null);
        }
        match &schema["type"] {
            // It may be anything.
            Value::Null => true,
            Value::Array(types) => types.contains(&json!("null")),
            one => one == "null",
        }
    }

    /// The members of a body that may be left out, and that may not be null.
    fn strict_members(description: &Value, place: &str, schema: &Value, seen: &mut BTreeSet<String>) -> Vec<String> {
        if let Some(reference) = schema["$ref"].as_str() {
            return match seen.insert(reference.to_owned()) {
                true => strict_members(description, reference, target(description, reference), seen),
                false => Vec::new(),
            };
        }
        if !schema.is_object() {
            return Vec::new();
        }
        let mut found = Vec::new();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            let place = format!("{place}/{name}");
            if !required.contains(&name.as_str()) && !takes_null(description, member) {
                found.push(place.clone());
            }
            found.extend(strict_members(description, &place, member, seen));
        }
        for part in ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|keyword| schema[keyword].as_array()).flatten() {
            found.extend(strict_members(description, place, part, seen));
        }
        for keyword in ["items", "additionalProperties"] {
            found.extend(strict_members(description, place, &schema[keyword], seen));
        }
        found
    }

    /// As the description itself says at its beginning.
    #[test]
    fn members_of_bodies_may_be_null_unless_they_are_required() {
        let description = description();
        let mut seen = BTreeSet::new();
        let items = description["paths"].as_object().unwrap().values();
        let operations = items.flat_map(|item| item.as_object().unwrap().values());
        let contents = operations.filter_map(|operation| operation["requestBody"]["content"].as_object());
        let strict: Vec<String> = contents
            .flat_map(|content| content.values())
            .flat_map(|content| strict_members(&description, "", &content["schema"], &mut seen))
            .collect();
        assert!(seen.len() > 30, "{seen:?}");
        assert!(strict.is_empty(), "{strict:?}");
    }

    #[test]
    fn the_create_calls_differ_as_what_they_take_and_answer_does() {
        let description = description();
        let schemas = &description["components"]["schemas"];
        let advanced = |body: &str| schemas[body]["properties"]["advanced"]["anyOf"][0]["$ref"].clone();
        assert_eq!(advanced("CreateSession"), "#/components/schemas/Advanced");
        assert_eq!(advanced("CreateWebDriverSession"), "#/components/schemas/WebDriverAdvanced");
        let [plain, by_driver] =
            ["Advanced", "WebDriverAdvanced"].map(|name| schemas[name]["properties"].as_object().unwrap());
        assert_eq!(by_driver["proxy"]["type"], json!(["boolean", "null"]));
        assert_ne!(plain["proxy"], by_driver["proxy"]);
        assert!(plain.keys().eq(by_driver.keys()), "{plain:?}");
        let status = &schemas["CreatedWebDriverSession"]["properties"]["status"];
        assert_eq!(status["enum"], json!(["running", "terminated", "unknown"]));
        let [plain, by_driver] = ["CreateSession", "CreateWebDriverSession"]
            .map(|name| schemas[name]["properties"].as_object().unwrap().contains_key("app_name"));
        assert!(!plain && by_driver);
    }

    #[test]
    fn calls_that_may_name_a_profile_say_how_that_fails() {
        let description = description();
        for (path, method) in [
            ("/sessions/create", "post"),
            ("/sessions/webdriver/create", "post"),
            ("/kernel/browsers", "post"),
            ("/steel/v1/sessions", "post"),
            ("/browserbase/v1/sessions", "post"),
            ("/chromium", "get"),
            ("/content", "post"),
            ("/performance", "post"),
            ("/function", "post"),
        ] {
            let responses = &description["paths"][path][method]["responses"];
            let says = |status: &str, code: &str| {
                let about = responses[status]["description"].as_str().unwrap_or_default();
                assert!(about.contains(&format!("`{code}`")), "{method} {path} {status}: {about}");
            };
            says("404", "unknown_profile");
            for code in ["profile_in_use", "profile_limit", "conflict"] {
                says("409", code);
            }
            assert!(responses["409"]["headers"]["retry-after"].is_object(), "{path}");
        }
        let in_w3c_form = &description["paths"]["/session"]["post"]["responses"]["500"]["description"];
        assert!(in_w3c_form.as_str().unwrap().contains("`profile_in_use`"), "{in_w3c_form}");
        let of_a_look = &description["paths"]["/sessions/{id}"]["get"]["responses"]["404"];
        assert!(of_a_look["headers"].get("retry-after").is_none(), "{of_a_look}");
    }

    #[test]
    fn every_operation_is_whole() {
        let description = description();
        let mut ids = BTreeSet::new();
        for (path, item) in description["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let at = format!("{method} {path}");
                let id = operation["operationId"].as_str().unwrap();
                assert!(ids.insert(id.to_owned()), "{at}: {id} names two");
                let tag = operation["tags"][0].as_str().unwrap();
                assert!(TAGS.iter().any(|(name, _)| *name == tag), "{at}: {tag}");
                let responses = operation["responses"].as_object().unwrap();
                assert!(responses.keys().any(|status| status.starts_with(['1', '2'])), "{at} never succeeds");
                let in_path = operation["parameters"].as_array().unwrap().iter().filter(|it| it["in"] == "path");
                assert_eq!(in_path.count(), path.matches('{').count(), "{at}");
            }
        }
    }

    #[test]
    fn settings_are_the_limits() {
        let schemas = &description()["components"]["schemas"];
        let timeout = &schemas["CreateSession"]["properties"]["session_timeout"];
        assert_eq!((&timeout["maximum"], &timeout["default"]), (&json!(86_400), &json!(300)));
        assert_eq!(schemas["CreateSession"]["properties"]["url"]["default"], "https://www.google.com/");
        assert_eq!(schemas["CreateSession"]["additionalProperties"], false);
        for advanced in ["Advanced", "WebDriverAdvanced"] {
            assert_eq!(schemas[advanced]["properties"]["extension_ids"]["maxItems"], 8);
        }
    }

    #[test]
    fn limits_of_places_and_scenes_are_there() {
        let schemas = &description()["components"]["schemas"];
        let place = &schemas["ProxyLocation"]["properties"];
        assert_eq!(place["country"]["pattern"], "^[a-z0-9]{2}$");
        assert_eq!((&place["city"]["maxLength"], &place["zip"]["maximum"]), (&json!(100), &json!(999_999_999)));
        let texts = schemas["Variation"]["anyOf"].as_array().unwrap();
        assert!(texts.iter().any(|text| text["maxLength"] == 64), "{texts:?}");
    }

    #[test]
    fn a_task_has_objects_as_results_and_no_member_that_is_null_for_nothing() {
        let schemas = &description()["components"]["schemas"];
        for name in ["Task", "TaskItem"] {
            let result = &schemas[name]["properties"]["output"]["items"];
            assert_eq!(result["$ref"], "#/components/schemas/AnyObject", "{name}");
        }
        assert_eq!(schemas["AnyObject"]["type"], "object");
        let required = schemas["Task"]["required"].as_array().unwrap();
        assert!(required.contains(&json!("output")) && !required.contains(&json!("servicePasscode")), "{required:?}");
    }

    /// The guide and the description list the same calls.
    #[test]
    fn the_guides_name_every_path() {
        let guides = [
            include_str!("../../../docs/api.md"),
            include_str!("../../../docs/extensions.md"),
            include_str!("../../../docs/logins.md"),
            include_str!("../../../docs/mcp.md"),
            include_str!("../../../docs/pages.md"),
            include_str!("../../../docs/tasks.md"),
            include_str!("../../../docs/webhooks.md"),
            include_str!("../../../docs/worlds.md"),
            include_str!("../../../docs/live-view.md"),
            include_str!("../../../docs/migrating.md"),
            include_str!("../../../docs/operations.md"),
        ]
        .concat();
        for path in description()["paths"].as_object().unwrap().keys() {
            let first: Vec<&str> = path.split('/').take_while(|part| !part.starts_with('{')).collect();
            let first = first.join("/");
            assert!(first.is_empty() || guides.contains(&first), "no guide has {path}");
        }
    }
}
