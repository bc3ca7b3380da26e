//! The capabilities that the driver gets in place of a client's.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::error::ApiError;

use super::profile::preferences;
use super::switches;

/// The vendor capability of Chromium.
const OPTIONS: &str = "goog:chromeOptions";
/// Options the driver takes together with the address of a running browser; any other makes it
/// refuse the session.
const ATTACHABLE: [&str; 3] = ["mobileEmulation", "perfLoggingPrefs", "windowTypes"];

/// Options that a session with a browser of the driver's own may have. Any other could name a program, a path or a port.
const STARTABLE: [&str; 10] = [
    "args",
    "detach",
    "enableExtensionTargets",
    "excludeSwitches",
    "extensions",
    "localState",
    "mobileEmulation",
    "perfLoggingPrefs",
    "prefs",
    "windowTypes",
];

/// Capabilities for a session with the browser that listens at `address`.
/// Fails when the options are not where the driver would look for them.
pub(super) fn warm(mut capabilities: Value, address: &str) -> Result<Value, ApiError> {
    each_options(&mut capabilities, |options| {
        options.retain(|name, _| ATTACHABLE.contains(&name.as_str()));
        options.insert("debuggerAddress".into(), address.into());
    })?;
    Ok(capabilities)
}

/// How the driver is to start a browser of its own.
pub(super) struct ColdStart<'a> {
    /// The program to start.
    pub(super) binary: &'a Path,
    pub(super) switches: &'a [String],
    /// A directory that does not exist yet.
    pub(super) profile: &'a Path,
    /// Where downloads go.
    pub(super) downloads: &'a Path,
}

/// Capabilities for a session with a browser that the driver starts.
/// Fails when the options are not where the driver would look for them.
pub(super) fn cold(mut capabilities: Value, how: &ColdStart<'_>) -> Result<Value, ApiError> {
    each_options(&mut capabilities, |options| {
        options.retain(|name, _| STARTABLE.contains(&name.as_str()));
        let wanted: Vec<String> = options
            .get("args")
            .and_then(Value::as_array)
            .map(|args| args.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default();
        let mut args = switches::merge(how.switches, &wanted);
        args.push(format!("--user-data-dir={}", how.profile.display()));
        options.insert("args".into(), json!(args));
        options.insert("binary".into(), json!(how.binary));
        let prefs = options.entry("prefs").or_insert_with(|| json!({}));
        if let Some(prefs) = prefs.as_object_mut() {
            for (name, value) in preferences(how.downloads) {
                prefs.entry(name).or_insert(value);
            }
        }
    })?;
    Ok(capabilities)
}

/// Whether a client says with its switches where the window is, or how large.
pub(super) fn places_window(capabilities: &Value) -> bool {
    let first = capabilities["firstMatch"].as_array().into_iter().flatten();
    let arguments = first.chain([&capabilities["alwaysMatch"]]).filter_map(|entry| entry[OPTIONS]["args"].as_array());
    switches::places_window(arguments.flatten().filter_map(Value::as_str))
}

/// Changes the options of every alternative. W3C forbids the same capability in `alwaysMatch` and
/// in an entry of `firstMatch`, so they are changed where the client has them.
/// Fails when a client has them in both: the driver would use the unchanged ones.
fn each_options(capabilities: &mut Value, change: impl Fn(&mut Map<String, Value>)) -> Result<(), ApiError> {
    let in_first = capabilities["firstMatch"]
        .as_array()
        .is_some_and(|first| first.iter().any(|entry| entry.get(OPTIONS).is_some()));
    if in_first && capabilities["alwaysMatch"].get(OPTIONS).is_some() {
        return Err(ApiError::bad_request(format!("{OPTIONS}: in alwaysMatch or in firstMatch, not in both")));
    }
    let entries: Vec<&mut Value> = if in_first {
        capabilities["firstMatch"].as_array_mut().into_iter().flatten().collect()
    } else {
        vec![&mut capabilities["alwaysMatch"]]
    };
    for entry in entries {
        if entry.is_null() {
            *entry = json!({});
        }
        let Some(entry) = entry.as_object_mut() else { continue };
        match entry.entry(OPTIONS).or_insert_with(|| json!({})) {
            Value::Object(options) => change(options),
            _ => return Err(ApiError::bad_request(format!("{OPTIONS}: an object wanted"))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_browser_is_named_where_the_options_are() {
        let address = "127.0.0.1:9222";
        let wanted = json!({"alwaysMatch": {OPTIONS: {"debuggerAddress": address}}});
        for empty in [json!({}), json!({"alwaysMatch": null})] {
            assert_eq!(warm(empty, address).unwrap(), wanted);
        }
        let first = json!({
            "alwaysMatch": {"acceptInsecureCerts": true},
            "firstMatch": [{OPTIONS: {"args": ["--no-sandbox"], "mobileEmulation": {"deviceName": "x"}}}, {}],
        });
        let told = warm(first, address).unwrap();
        assert_eq!(told["alwaysMatch"], json!({"acceptInsecureCerts": true}));
        assert_eq!(
            told["firstMatch"],
            json!([
                {OPTIONS: {"mobileEmulation": {"deviceName": "x"}, "debuggerAddress": address}},
                {OPTIONS: {"debuggerAddress": address}},
            ])
        );
    }

    #[test]
    fn a_browser_of_the_drivers_own_gets_both_sides_switches() {
        let how = ColdStart {
            binary: Path::new("/agent"),
            switches: &["--a".to_owned(), "--b=1".to_owned()],
            profile: Path::new("/profile"),
            downloads: Path::new("/downloads"),
        };
        let clients = json!({"alwaysMatch": {OPTIONS: {
            "args": ["b=2", "no-sandbox", "utility-cmd-prefix=x", "--Remote-Debugging-Port=1"],
            "binary": "/evil", "debuggerAddress": "10.0.0.1:1", "minidumpPath": "/x", "logPath": "/x",
            "excludeSwitches": ["enable-automation"],
            "prefs": {"download.prompt_for_download": true},
        }}});
        let told = cold(clients, &how).unwrap();
        let options = &told["alwaysMatch"][OPTIONS];
        assert_eq!(options["args"], json!(["--a", "--b=2", "--user-data-dir=/profile"]));
        assert_eq!(options["binary"], "/agent");
        for name in ["debuggerAddress", "minidumpPath", "logPath"] {
            assert_eq!(options.get(name), None, "{name}");
        }
        assert_eq!(options["excludeSwitches"], json!(["enable-automation"]));
        assert_eq!(options["prefs"]["download.prompt_for_download"], true);
        assert_eq!(options["prefs"]["download.default_directory"], "/downloads");
    }

    #[test]
    fn options_that_the_driver_would_take_from_elsewhere_are_refused() {
        let evil = json!({"binary": "/bin/sh"});
        let both = json!({"alwaysMatch": {OPTIONS: evil}, "firstMatch": [{OPTIONS: {}}]});
        assert!(warm(both.clone(), "127.0.0.1:9222").is_err());
        for odd in [json!([]), json!("x"), json!(1), json!(null)] {
            assert!(warm(json!({"alwaysMatch": {OPTIONS: odd}}), "127.0.0.1:9222").is_err(), "{odd}");
        }
    }
}
