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

    #[test]
    fn every_operation_is_whole() {
        let description = description();
        let mut ids = std::collections::BTreeSet::new();
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
