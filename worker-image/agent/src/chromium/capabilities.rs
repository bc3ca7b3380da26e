//! What the driver is told to make of a client's capabilities.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::profile::preferences;
use super::switches;

/// The vendor capability of Chromium.
const OPTIONS: &str = "goog:chromeOptions";
/// Options the driver takes together with the address of a running browser; any other makes it
/// refuse the session.
const ATTACHABLE: [&str; 3] = ["mobileEmulation", "perfLoggingPrefs", "windowTypes"];

/// Capabilities for a session with the browser that listens at `address`.
pub(super) fn warm(mut capabilities: Value, address: &str) -> Value {
    each_options(&mut capabilities, |options| {
        options.retain(|name, _| ATTACHABLE.contains(&name.as_str()));
        options.insert("debuggerAddress".into(), address.into());
    });
    capabilities
}

/// How the driver is to start a browser of its own.
pub(super) struct Cold<'a> {
    /// The program to start.
    pub(super) binary: &'a Path,
    /// Our own switches.
    pub(super) switches: &'a [String],
    /// A directory that does not exist yet.
    pub(super) profile: &'a Path,
    /// Where downloads go.
    pub(super) downloads: &'a Path,
}

/// Capabilities for a session with a browser that the driver starts.
pub(super) fn cold(mut capabilities: Value, how: &Cold<'_>) -> Value {
    each_options(&mut capabilities, |options| {
        let wanted: Vec<String> = options
            .get("args")
            .and_then(Value::as_array)
            .map(|args| args.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default();
        let mut args = switches::merge(how.switches, &wanted);
        args.push(format!("--user-data-dir={}", how.profile.display()));
        options.insert("args".into(), json!(args));
        options.insert("binary".into(), json!(how.binary));
        options.remove("debuggerAddress");
        let prefs = options.entry("prefs").or_insert_with(|| json!({}));
        if let Some(prefs) = prefs.as_object_mut() {
            for (name, value) in preferences(how.downloads) {
                prefs.entry(name).or_insert(value);
            }
        }
    });
    capabilities
}

/// Changes the options of every alternative. W3C forbids the same capability in `alwaysMatch` and
/// in an entry of `firstMatch`, so they are changed where the client has them.
fn each_options(capabilities: &mut Value, change: impl Fn(&mut Map<String, Value>)) {
    if !capabilities.is_object() {
        *capabilities = json!({});
    }
    let in_first = capabilities["firstMatch"]
        .as_array()
        .is_some_and(|first| first.iter().any(|entry| entry.get(OPTIONS).is_some()));
    let entries: Vec<&mut Value> = if in_first {
        capabilities["firstMatch"].as_array_mut().into_iter().flatten().collect()
    } else {
        vec![&mut capabilities["alwaysMatch"]]
    };
    for entry in entries {
        if entry.is_null() {
            *entry = json!({});
        }
        // What is no object is the driver's to refuse.
        let Some(entry) = entry.as_object_mut() else { continue };
        let options = entry.entry(OPTIONS).or_insert_with(|| json!({}));
        if let Some(options) = options.as_object_mut() {
            change(options);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_browser_is_named_where_the_options_are() {
        let address = "127.0.0.1:9222";
        let wanted = json!({"alwaysMatch": {OPTIONS: {"debuggerAddress": address}}});
        for empty in [json!({}), json!(null), json!({"alwaysMatch": null})] {
            assert_eq!(warm(empty, address), wanted);
        }
        let first = json!({
            "alwaysMatch": {"acceptInsecureCerts": true},
            "firstMatch": [{OPTIONS: {"args": ["--no-sandbox"], "mobileEmulation": {"deviceName": "x"}}}, {}],
        });
        let told = warm(first, address);
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
        let how = Cold {
            binary: Path::new("/agent"),
            switches: &["--a".to_owned(), "--b=1".to_owned()],
            profile: Path::new("/profile"),
            downloads: Path::new("/downloads"),
        };
        let clients = json!({"alwaysMatch": {OPTIONS: {
            "args": ["b=2", "no-sandbox"], "binary": "/evil", "excludeSwitches": ["enable-automation"],
            "prefs": {"download.prompt_for_download": true},
        }}});
        let told = cold(clients, &how);
        let options = &told["alwaysMatch"][OPTIONS];
        assert_eq!(options["args"], json!(["--a", "--b=2", "--user-data-dir=/profile"]));
        assert_eq!(options["binary"], "/agent");
        assert_eq!(options["excludeSwitches"], json!(["enable-automation"]));
        assert_eq!(options["prefs"]["download.prompt_for_download"], true);
        assert_eq!(options["prefs"]["download.default_directory"], "/downloads");
    }
}
