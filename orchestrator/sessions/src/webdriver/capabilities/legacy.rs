//! `desiredCapabilities`, which clients sent before the W3C standard, in the standard's words.

use serde_json::{Map, Value};

use super::standard;
use crate::Error;

/// Names that have another one now.
const RENAMED: [(&str, &str); 3] =
    [("version", "browserVersion"), ("platform", "platformName"), ("chromeOptions", "goog:chromeOptions")];

/// Wishes that every browser fulfils, or that say nothing of the browser.
const IDLE: [&str; 13] = [
    "acceptSslCerts",
    "applicationCacheEnabled",
    "cssSelectorsEnabled",
    "databaseEnabled",
    "handlesAlerts",
    "javascriptEnabled",
    "locationContextEnabled",
    "nativeEvents",
    "rotatable",
    "setWindowRect",
    "takesScreenshot",
    "userAgent",
    "webStorageEnabled",
];

/// What old clients write where any version or platform will do.
const ANY: [&str; 3] = ["", "*", "any"];

/// The client's capabilities in the standard's form. Unknown names stay.
/// Errors: `Field` for a value that the standard does not allow.
pub(super) fn modern(desired: &Map<String, Value>) -> Result<Map<String, Value>, Error> {
    let wishes = desired.iter().filter(|(name, value)| !value.is_null() && !IDLE.contains(&name.as_str()));
    let mut caps: Map<String, Value> = wishes.map(|(name, value)| (name.clone(), value.clone())).collect();
    for (old, new) in RENAMED {
        if let Some(value) = caps.remove(old) {
            caps.entry(new).or_insert(value);
        }
    }
    for name in ["browserVersion", "platformName"] {
        let Some(Value::String(text)) = caps.get(name) else { continue };
        let text = text.to_ascii_lowercase();
        if ANY.contains(&text.as_str()) {
            caps.remove(name);
        } else if name == "platformName" {
            caps.insert(name.to_owned(), Value::String(text));
        }
    }
    if let Some(Value::String(kind)) = caps.get_mut("proxy").and_then(|proxy| proxy.get_mut("proxyType")) {
        kind.make_ascii_lowercase();
    }
    for (name, value) in &caps {
        standard::validate_value(name, value)?;
    }
    Ok(caps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ask(desired: Value) -> Result<Value, Error> {
        let Value::Object(desired) = desired else { panic!("an object") };
        modern(&desired).map(Value::Object)
    }

    #[test]
    fn old_words_become_the_standards() {
        let desired = json!({
            "browserName": "chrome", "version": "", "platform": "ANY", "javascriptEnabled": true, "cssSelectorsEnabled": 1,
            "chromeOptions": {"args": []}, "proxy": {"proxyType": "DIRECT"}, "enableVNC": true, "name": null,
        });
        let modern = json!({
            "browserName": "chrome", "goog:chromeOptions": {"args": []}, "proxy": {"proxyType": "direct"}, "enableVNC": true,
        });
        assert_eq!(ask(desired).unwrap(), modern);
        let desired = json!({"platform": "LINUX", "version": "12", "browserVersion": "13"});
        assert_eq!(ask(desired).unwrap(), json!({"platformName": "linux", "browserVersion": "13"}));
    }

    #[test]
    fn values_are_the_standards() {
        for desired in [json!({"browserName": 1}), json!({"platform": {}}), json!({"timeouts": {"x": 1}})] {
            assert!(matches!(ask(desired.clone()), Err(Error::Field(_))), "{desired}");
        }
    }
}
