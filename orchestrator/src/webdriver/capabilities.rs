//! What a WebDriver client may ask of its browser, and what that takes.
//!
//! Three things can become of a wish: it is true of the warm browser already, or the driver can make it true there;
//! it needs a browser started for it, inside the same container; or it would weaken the container's isolation, and is
//! refused by name.

mod chromium;
mod firefox;
mod webkit;

use serde_json::{Map, Value, json};

use crate::engine::Engine;
use crate::error::Error;
use crate::worker::DriverMode;

/// Options by the engine whose they are.
const OPTIONS: [(Option<Engine>, &[&str]); 4] = [
    (Some(Engine::Chromium), &["goog:chromeOptions", "chromeOptions"]),
    (Some(Engine::Firefox), &["moz:firefoxOptions"]),
    (Some(Engine::Webkit), &["webkitgtk:browserOptions"]),
    (None, &["ms:edgeOptions", "safari:options"]),
];

/// What to ask of the driver.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    /// On which browser.
    pub(super) mode: DriverMode,
    /// The capabilities, with all that the warm browser fulfils taken out.
    pub(super) capabilities: Value,
}

/// Checks a new session's body and decides. `warm_args` are the warm browser's switches.
pub(super) fn plan(body: &Value, engine: Engine, warm_args: &[String]) -> Result<Plan, Error> {
    let mut mode = DriverMode::Warm;
    let mut accepted = Vec::new();
    let mut mismatch = None;
    for mut candidate in candidates(body)? {
        match check(&mut candidate, engine, warm_args) {
            Ok(needs) => {
                if needs == DriverMode::Cold {
                    mode = DriverMode::Cold;
                }
                accepted.push(Value::Object(candidate));
            }
            // One of several alternatives may be for another browser.
            Err(Fault::OtherBrowser(error)) => mismatch = Some(error),
            Err(Fault::Refused(error)) => return Err(error),
        }
    }
    match mismatch {
        Some(error) if accepted.is_empty() => Err(error),
        _ => Ok(Plan { mode, capabilities: json!({"alwaysMatch": {}, "firstMatch": accepted}) }),
    }
}

enum Fault {
    /// This alternative does not match.
    OtherBrowser(Error),
    /// No alternative may say this.
    Refused(Error),
}

fn refused(capability: impl Into<String>, message: &str) -> Fault {
    Fault::Refused(Error::Capability { capability: capability.into(), message: message.to_owned() })
}

/// The alternatives that the client offers, each merged with what it always wants.
///
/// # Errors
/// `InvalidBody`.
pub fn candidates(body: &Value) -> Result<Vec<Map<String, Value>>, Error> {
    let wrong = |message: &str| Error::InvalidBody { message: message.to_owned() };
    let Some(capabilities) = body.get("capabilities") else {
        // The form that clients sent before the W3C standard.
        return match body.get("desiredCapabilities") {
            Some(Value::Object(desired)) => Ok(vec![desired.clone()]),
            Some(_) => Err(wrong("`desiredCapabilities` must be an object")),
            None => Err(wrong("a new session needs `capabilities`")),
        };
    };
    let Value::Object(capabilities) = capabilities else {
        return Err(wrong("`capabilities` must be an object"));
    };
    let always = match capabilities.get("alwaysMatch") {
        None => Map::new(),
        Some(Value::Object(always)) => always.clone(),
        Some(_) => return Err(wrong("`capabilities.alwaysMatch` must be an object")),
    };
    let first = match capabilities.get("firstMatch") {
        None => return Ok(vec![always]),
        Some(Value::Array(first)) if !first.is_empty() => first,
        Some(_) => return Err(wrong("`capabilities.firstMatch` must be an array with at least one object")),
    };
    let mut merged = Vec::new();
    for (index, alternative) in first.iter().enumerate() {
        let Value::Object(alternative) = alternative else {
            return Err(wrong(&format!("`capabilities.firstMatch[{index}]` must be an object")));
        };
        let mut candidate = always.clone();
        for (name, value) in alternative {
            if candidate.insert(name.clone(), value.clone()).is_some() {
                return Err(wrong(&format!("`{name}` stands in both alwaysMatch and firstMatch[{index}]")));
            }
        }
        merged.push(candidate);
    }
    Ok(merged)
}

/// Checks one alternative, takes out what is true already, and says which browser it needs.
fn check(caps: &mut Map<String, Value>, engine: Engine, warm_args: &[String]) -> Result<DriverMode, Fault> {
    match caps.get("browserName") {
        None | Some(Value::Null) => {}
        Some(Value::String(name)) if engine.is_browser_name(name) => {
            match driver_name(engine) {
                Some(name) => caps.insert("browserName".to_owned(), json!(name)),
                None => caps.remove("browserName"),
            };
        }
        Some(Value::String(name)) => {
            let message = format!("this session has a {engine}, not a `{name}`: create a session of that browser_type");
            return Err(Fault::OtherBrowser(Error::Capability { capability: "browserName".to_owned(), message }));
        }
        Some(_) => return Err(refused("browserName", "must be a string")),
    }
    // What some clients say to every browser, and what says nothing of this one.
    if engine != Engine::Chromium && caps.get("goog:chromeOptions") == Some(&json!({"w3c": true})) {
        caps.remove("goog:chromeOptions");
    }
    let others = OPTIONS.iter().filter(|(owner, _)| *owner != Some(engine)).flat_map(|(_, names)| names.iter());
    if let Some(other) = others.into_iter().find(|name| caps.get(**name).is_some_and(|value| !value.is_null())) {
        let message = format!("belongs to another browser than {engine}: create a session of that browser_type");
        return Err(Fault::OtherBrowser(Error::Capability { capability: (*other).to_owned(), message }));
    }
    match engine {
        Engine::Chromium => chromium::check(caps, warm_args),
        Engine::Firefox => firefox::check(caps, warm_args),
        Engine::Webkit => webkit::check(caps, warm_args),
    }
}

/// The `browserName` that the engine's driver answers to, if it answers to one.
fn driver_name(engine: Engine) -> Option<&'static str> {
    match engine {
        // What chromedriver calls both Chrome and Chromium.
        Engine::Chromium => Some("chrome"),
        Engine::Firefox => Some("firefox"),
        Engine::Webkit => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warm() -> Vec<String> {
        vec!["--no-first-run".to_owned(), "--window-size=1280,800".to_owned()]
    }

    fn ask(body: Value) -> Result<Plan, Error> {
        plan(&body, Engine::Chromium, &warm())
    }

    fn options(options: Value) -> Result<Plan, Error> {
        ask(json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}))
    }

    #[test]
    fn what_is_true_already_keeps_the_browser_warm() {
        let plan = ask(json!({"capabilities": {
            "alwaysMatch": {
                "browserName": "chromium",
                "acceptInsecureCerts": true,
                "goog:chromeOptions": {
                    "args": ["--headless=new", "no-sandbox", "--disable-dev-shm-usage", "--no-first-run"],
                    "extensions": [],
                    "excludeSwitches": ["enable-automation"],
                    "prefs": {},
                },
            },
        }}))
        .unwrap();
        assert_eq!(plan.mode, DriverMode::Warm);
        let expected = json!({"browserName": "chrome", "acceptInsecureCerts": true, "goog:chromeOptions": {}});
        assert_eq!(plan.capabilities["firstMatch"], json!([expected]));
    }

    #[test]
    fn what_a_running_browser_cannot_take_needs_one_of_its_own() {
        for wish in [
            json!({"args": ["--lang=fr"]}),
            json!({"prefs": {"download.prompt_for_download": false}}),
            json!({"extensions": ["AAAA"]}),
            json!({"mobileEmulation": {"deviceName": "Pixel 2"}}),
            json!({"args": ["--window-size=800,600"]}),
        ] {
            assert_eq!(options(wish.clone()).unwrap().mode, DriverMode::Cold, "{wish}");
        }
        let proxied = ask(json!({"capabilities": {"alwaysMatch": {"proxy": {"proxyType": "manual"}}}}));
        assert_eq!(proxied.unwrap().mode, DriverMode::Cold);
    }

    #[test]
    fn what_weakens_isolation_is_refused_by_name() {
        for (wish, name) in [
            (json!({"binary": "/bin/sh"}), "goog:chromeOptions.binary"),
            (json!({"debuggerAddress": "127.0.0.1:1"}), "goog:chromeOptions.debuggerAddress"),
            (json!({"args": ["--remote-debugging-port=1"]}), "--remote-debugging-port=1"),
            (json!({"args": ["Remote-Allow-Origins=*"]}), "Remote-Allow-Origins=*"),
            (json!({"args": ["--user-data-dir=/x"]}), "--user-data-dir=/x"),
            (json!({"args": ["--disable-seccomp-filter-sandbox"]}), "--disable-seccomp-filter-sandbox"),
            (json!({"unheardOf": 1}), "goog:chromeOptions.unheardOf"),
        ] {
            match options(wish.clone()) {
                Err(Error::Capability { capability, .. }) => assert_eq!(capability, name),
                other => panic!("{wish}: {other:?}"),
            }
        }
    }

    #[test]
    fn alternatives_for_other_browsers_are_passed_over() {
        let both = json!({"capabilities": {"firstMatch": [{"browserName": "firefox"}, {"browserName": "chrome"}]}});
        assert_eq!(ask(both).unwrap().capabilities["firstMatch"], json!([{"browserName": "chrome"}]));
        let none = json!({"capabilities": {"firstMatch": [{"browserName": "firefox"}]}});
        assert!(matches!(ask(none), Err(Error::Capability { .. })));
        let options = json!({"capabilities": {"alwaysMatch": {"moz:firefoxOptions": {}}}});
        assert!(matches!(ask(options), Err(Error::Capability { .. })));
    }

    #[test]
    fn malformed_bodies_say_what_is_wrong() {
        for body in [
            json!({}),
            json!({"capabilities": []}),
            json!({"capabilities": {"alwaysMatch": 1}}),
            json!({"capabilities": {"firstMatch": []}}),
            json!({"capabilities": {"alwaysMatch": {"a:b": 1}, "firstMatch": [{"a:b": 2}]}}),
        ] {
            assert!(matches!(ask(body.clone()), Err(Error::InvalidBody { .. })), "{body}");
        }
    }

    #[test]
    fn the_form_of_old_clients_is_understood() {
        let plan =
            ask(json!({"desiredCapabilities": {"browserName": "chrome", "chromeOptions": {"args": ["--mute-audio"]}}}));
        let plan = plan.unwrap();
        assert_eq!(plan.mode, DriverMode::Cold);
        assert_eq!(plan.capabilities["firstMatch"][0]["goog:chromeOptions"]["args"], json!(["--mute-audio"]));
    }
}
