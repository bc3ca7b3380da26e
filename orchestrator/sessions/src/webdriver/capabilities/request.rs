//! What the body of a new session offers: alternatives, each merged with what the client always wants.
//!
//! <https://w3c.github.io/webdriver/#dfn-capabilities-processing>, up to the matching.

use serde_json::{Map, Value};

use super::{legacy, standard};
use crate::Error;

/// The most alternatives of one request. Each holds a copy of what is always wanted, a whole profile perhaps, and is looked through.
const MOST_ALTERNATIVES: usize = 32;

/// The alternatives that the client offers, each merged with what it always wants. All of them are valid; what is `null`
/// is left out.
/// Errors: `InvalidBody`, and `Field` for a capability that the standard does not allow.
pub fn candidates(body: &Value) -> Result<Vec<Map<String, Value>>, Error> {
    let wrong = |message: &str| Error::InvalidBody { message: message.to_owned() };
    let Some(capabilities) = body.get("capabilities") else {
        return match body.get("desiredCapabilities") {
            Some(Value::Object(desired)) => Ok(vec![legacy::modern(desired)?]),
            Some(_) => Err(wrong("`desiredCapabilities` must be an object")),
            None => Err(wrong("a new session needs `capabilities`")),
        };
    };
    let Value::Object(capabilities) = capabilities else {
        return Err(wrong("`capabilities` must be an object"));
    };
    let nothing = Map::new();
    let always = match capabilities.get("alwaysMatch") {
        None => &nothing,
        Some(Value::Object(always)) => always,
        Some(_) => return Err(wrong("`capabilities.alwaysMatch` must be an object")),
    };
    standard::validate(always)?;
    let first = match capabilities.get("firstMatch") {
        None => return Ok(vec![merged(always, &nothing)]),
        Some(Value::Array(first)) if !first.is_empty() => first,
        Some(_) => return Err(wrong("`capabilities.firstMatch` must be an array with at least one object")),
    };
    if first.len() > MOST_ALTERNATIVES {
        return Err(wrong(&format!("`capabilities.firstMatch` may have {MOST_ALTERNATIVES} alternatives at most")));
    }
    // All are looked at before one is merged.
    for (index, alternative) in first.iter().enumerate() {
        let Value::Object(alternative) = alternative else {
            return Err(wrong(&format!("`capabilities.firstMatch[{index}]` must be an object")));
        };
        standard::validate(alternative)?;
        let twice = |name: &&String| always.get(*name).is_some_and(|value| !value.is_null());
        let mut wishes = alternative.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name);
        if let Some(name) = wishes.find(twice) {
            let name = standard::shown(name);
            return Err(wrong(&format!("`{name}` stands in both alwaysMatch and firstMatch[{index}]")));
        }
    }
    Ok(first.iter().filter_map(Value::as_object).map(|alternative| merged(always, alternative)).collect())
}

fn merged(always: &Map<String, Value>, alternative: &Map<String, Value>) -> Map<String, Value> {
    let wishes = always.iter().chain(alternative).filter(|(_, value)| !value.is_null());
    let mut merged = wishes.map(|(name, value)| (name.clone(), value.clone())).collect();
    standard::normalize(&mut merged);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ask(capabilities: Value) -> Result<Value, Error> {
        let found = candidates(&json!({"capabilities": capabilities}))?;
        Ok(Value::Array(found.into_iter().map(Value::Object).collect()))
    }

    #[test]
    fn each_alternative_is_merged_with_what_is_always_wanted() {
        assert_eq!(ask(json!({})).unwrap(), json!([{}]));
        assert_eq!(ask(json!({"alwaysMatch": {"a:b": 1}})).unwrap(), json!([{"a:b": 1}]));
        let both = json!({
            "alwaysMatch": {"pageLoadStrategy": "eager", "browserName": null, "a:b": null},
            "firstMatch": [{}, {"browserName": "chrome", "pageLoadStrategy": null}, {"a:b": {}}],
        });
        let merged = json!([
            {"pageLoadStrategy": "eager"},
            {"pageLoadStrategy": "eager", "browserName": "chrome"},
            {"pageLoadStrategy": "eager", "a:b": {}},
        ]);
        assert_eq!(ask(both).unwrap(), merged);
    }

    #[test]
    fn malformed_bodies_say_what_is_wrong() {
        for body in [
            json!({}),
            json!([]),
            json!(null),
            json!({"desiredCapabilities": 1}),
            json!({"capabilities": []}),
            json!({"capabilities": null}),
            json!({"capabilities": {"alwaysMatch": 1}}),
            json!({"capabilities": {"alwaysMatch": null}}),
            json!({"capabilities": {"firstMatch": null}}),
            json!({"capabilities": {"firstMatch": {}}}),
            json!({"capabilities": {"firstMatch": []}}),
            json!({"capabilities": {"firstMatch": [{}, 1]}}),
            json!({"capabilities": {"firstMatch": [null]}}),
            json!({"capabilities": {"firstMatch": vec![json!({}); MOST_ALTERNATIVES + 1]}}),
            json!({"capabilities": {"alwaysMatch": {"a:b": 1}, "firstMatch": [{"a:b": 2}]}}),
            json!({"capabilities": {"alwaysMatch": {"timeouts": {}}, "firstMatch": [{}, {"timeouts": {}}]}}),
        ] {
            assert!(matches!(candidates(&body), Err(Error::InvalidBody { .. })), "{body}");
        }
    }

    #[test]
    fn every_alternative_is_checked_also_when_another_would_do() {
        for capabilities in [
            json!({"alwaysMatch": {"browserName": 1}}),
            json!({"firstMatch": [{}, {"browserName": 1}]}),
            json!({"alwaysMatch": {"platform": "ANY"}, "firstMatch": [{}]}),
            json!({"firstMatch": [{}, {"firefoxOptions": {}}]}),
        ] {
            assert!(matches!(ask(capabilities.clone()), Err(Error::Field(_))), "{capabilities}");
        }
    }
}
