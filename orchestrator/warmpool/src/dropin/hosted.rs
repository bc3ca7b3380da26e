//! Browsers as a service: what the SDKs of Browserbase, Steel and Kernel send, as bodies of create calls.
//!
//! Each of them says for every field what it does here. A field that changes what pages or scripts see and that has no
//! counterpart is refused by its name, unless its value asks for nothing; one that only says where or for whom a browser
//! runs has no effect.

pub(crate) mod browserbase;
pub(crate) mod kernel;
pub(crate) mod steel;

use http::HeaderMap;
use http::header::USER_AGENT;
use serde_json::{Map, Value, json};
use warmpool_core::error::{FieldError, FieldFault as _};
use warmpool_sessions::Error;

use super::CreateBody;

/// A service whose SDKs are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    Browserbase,
    Steel,
    Kernel,
}

/// The header in which Browserbase's clients send their key.
pub(crate) const BROWSERBASE_KEY: &str = "x-bb-api-key";
/// The header in which Steel's clients send their key.
pub(crate) const STEEL_KEY: &str = "steel-api-key";

impl Service {
    /// Its name, for people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Browserbase => "Browserbase",
            Self::Steel => "Steel",
            Self::Kernel => "Kernel",
        }
    }

    /// The path below which its calls are.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Browserbase => "/browserbase",
            Self::Steel => "/steel",
            Self::Kernel => "/kernel",
        }
    }

    /// The service whose client sends these headers to this path. Two of them have the same paths, and one has some of
    /// ours, so it is the header of the key, or the client's own name, that tells.
    fn of(headers: &HeaderMap, path: &str) -> Option<Self> {
        let by_key = [(BROWSERBASE_KEY, Self::Browserbase), (STEEL_KEY, Self::Steel)];
        let sent = by_key.into_iter().find(|(name, _)| headers.contains_key(*name));
        if let Some((_, service)) = sent {
            return path.starts_with("/v1/").then_some(service);
        }
        // Kernel's clients send the key as others do, and have a name of their own.
        let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_kernel = ["Kernel/", "AsyncKernel/"].iter().any(|name| agent.starts_with(name));
        let is_below =
            |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        ((is_kernel && !is_below("/kernel")) || is_below("/browsers")).then_some(Self::Kernel)
    }
}

/// Where the call of a service's client is served, if its path is that of the service itself.
pub(crate) fn served_path(headers: &HeaderMap, path: &str) -> Option<String> {
    Service::of(headers, path).map(|service| format!("{}{path}", service.prefix()))
}

/// Whether a value asks for nothing: it is off, or empty, or all of its members are.
fn asks_for_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(asks_for_nothing),
        Value::String(text) => text.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// Refuses those of the fields that ask for something; `problem` continues the field's name.
fn refuse<'a>(fields: impl IntoIterator<Item = (&'a str, &'a Option<Value>, &'a str)>) -> Result<(), Error> {
    for (name, value, problem) in fields {
        if value.as_ref().is_some_and(|value| !asks_for_nothing(value)) {
            return Err(Error::not_supported(name, problem));
        }
    }
    Ok(())
}

/// Labels from a client's own data: texts as they are, numbers and truth values as texts.
fn labels(create_body: &mut CreateBody, theirs: &str, members: Map<String, Value>) {
    let text = |value: Value| match value {
        Value::Number(_) | Value::Bool(_) => json!(value.to_string()),
        value => value,
    };
    let labels: Map<String, Value> = members.into_iter().map(|(key, value)| (key, text(value))).collect();
    create_body.set("metadata", theirs, Value::Object(labels));
}

/// A country, and perhaps a state and a city, as the services write them: in capitals, with spaces or underscores.
fn location(place: &str, geolocation: &Value) -> Result<Value, Error> {
    let Value::Object(members) = geolocation else { return Err(Error::invalid(place, "must be an object")) };
    let mut location = Map::new();
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        let at = || format!("{place}.{name}");
        let Value::String(text) = value else { return Err(Error::invalid(at(), "must be a string")) };
        if !matches!(name.as_str(), "country" | "state" | "city") {
            return Err(FieldError::none_of(at(), ["country", "state", "city"]).into());
        }
        let plain: String = text.chars().filter(|c| !matches!(c, ' ' | '_')).collect();
        location.insert(name.clone(), json!(plain.to_lowercase()));
    }
    Ok(Value::Object(location))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn the_header_of_the_key_tells_the_service() {
        let served = |name: &'static str, value: &'static str, path: &str| {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))]);
            served_path(&headers, path)
        };
        assert_eq!(served(BROWSERBASE_KEY, "k", "/v1/sessions").as_deref(), Some("/browserbase/v1/sessions"));
        assert_eq!(served(STEEL_KEY, "k", "/v1/sessions").as_deref(), Some("/steel/v1/sessions"));
        for agent in ["Kernel/JS 0.84.0", "AsyncKernel/Python 0.131.0"] {
            assert_eq!(served("user-agent", agent, "/profiles").as_deref(), Some("/kernel/profiles"));
            assert_eq!(served("user-agent", agent, "/kernel/profiles"), None);
        }
        assert_eq!(served("user-agent", "curl", "/browsers/x").as_deref(), Some("/kernel/browsers/x"));
        assert_eq!(served("user-agent", "curl", "/profiles"), None);
        for path in ["/sessions", "/browserbase/v1/sessions", "/v1", "/"] {
            assert_eq!(served(BROWSERBASE_KEY, "k", path), None, "{path}");
        }
        assert_eq!(served("service-secret-key", "k", "/v1/sessions"), None);
    }

    #[test]
    fn what_is_off_asks_for_nothing() {
        for nothing in [json!(null), json!({"a": {"b": false}, "c": []}), json!("")] {
            assert!(asks_for_nothing(&nothing), "{nothing}");
        }
        for something in [json!({"a": {"b": true}}), json!([{}]), json!(0), json!("x")] {
            assert!(!asks_for_nothing(&something), "{something}");
        }
    }

    #[test]
    fn places_are_written_as_here() {
        let place = json!({"country": "US", "state": "NY", "city": "NEW_YORK"});
        assert_eq!(location("p", &place).unwrap(), json!({"country": "us", "state": "ny", "city": "newyork"}));
        assert!(location("p", &json!({"planet": "MARS"})).is_err());
        assert!(location("p", &json!({"city": 1})).is_err());
    }
}
