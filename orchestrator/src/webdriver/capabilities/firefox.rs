//! `moz:firefoxOptions`, and what else a Firefox worker has to look at.

use serde_json::{Map, Value, json};
use warmpool_protocol::DriverMode;

use super::warnings::Warnings;
use super::{OWN_BROWSER, Rejection, refused};

/// The vendor capability.
const OPTIONS: &str = "moz:firefoxOptions";

/// Arguments that clients give out of habit: true already, or decided by the create call.
const HABITS: [&str; 5] = ["headless", "no-remote", "new-instance", "foreground", "no-sandbox"];

/// Arguments that take effect when a browser starts. All others could open the browser to somebody, or are its own.
const START_ARGS: [&str; 8] =
    ["width", "height", "window-size", "private", "private-window", "kiosk", "devtools", "jsconsole"];

/// Arguments of those that take a value, which clients may write as an argument of its own.
const WITH_VALUE: [&str; 3] = ["width", "height", "window-size"];

/// Variables that a client may set.
const VARIABLES: [&str; 1] = ["TZ"];

/// Variables that clients set out of habit.
const HABITUAL_VARIABLES: [&str; 3] = ["MOZ_HEADLESS", "MOZ_CRASHREPORTER_DISABLE", "MOZ_REMOTE_ALLOW_SYSTEM_ACCESS"];

/// Preferences that clients set out of habit.
const HABITUAL_PREFS: [&str; 1] = ["remote.active-protocols"];

/// Beginnings of the names of preferences that would open the browser to others, or let pages out of their processes.
const FORBIDDEN_PREFS: [&str; 12] = [
    "autoadmin.",
    "browser.tabs.remote.",
    "devtools.chrome.",
    "devtools.debugger.",
    "dom.ipc.",
    "fission.",
    "general.config.",
    "marionette.",
    "network.proxy.",
    "remote.",
    "security.sandbox.",
    "security.turn_off_all_security",
];

/// Beginnings of the names of preferences that Firefox heeds while it runs. With any other it starts anew.
const LIVE_PREFS: [&str; 15] = [
    "browser.download.",
    "browser.helperApps.",
    "dom.disable_open_during_load",
    "dom.max_script_run_time",
    "dom.popup_",
    "dom.webnotifications.",
    "general.useragent.override",
    "geo.",
    "intl.accept_languages",
    "javascript.enabled",
    "layout.css.prefers-color-scheme.",
    "network.cookie.",
    "network.http.referer.",
    "pdfjs.",
    "permissions.default.",
];

/// Checks one alternative for Firefox, takes out what is true already, and says which browser it needs.
pub(super) fn check(
    caps: &mut Map<String, Value>,
    warm_args: &[String],
    warnings: &mut Warnings,
) -> Result<DriverMode, Rejection> {
    // An address of Chromium's protocol, which Firefox has no more.
    if caps.get("moz:debuggerAddress").is_some_and(Value::is_boolean) {
        caps.remove("moz:debuggerAddress");
    }
    for (name, value) in caps.iter() {
        // What Firefox's driver never answers with, and what would reach beyond the page.
        if name.starts_with("moz:") && name != OPTIONS && !is_harmless(name) && !value.is_null() {
            return Err(refused(name, "is not an option that can be honoured here: leave it out"));
        }
    }
    let Some(options) = caps.get_mut(OPTIONS) else { return Ok(DriverMode::Warm) };
    let Value::Object(options) = options else { return Err(refused(OPTIONS, "must be an object")) };
    let mode = check_options(options, warm_args, warnings)?;
    if options.is_empty() {
        caps.remove(OPTIONS);
    }
    Ok(mode)
}

/// Capabilities of the driver's own that work with a browser it did not start.
fn is_harmless(name: &str) -> bool {
    ["moz:accessibilityChecks", "moz:webdriverClick"].contains(&name)
}

fn check_options(
    options: &mut Map<String, Value>,
    warm_args: &[String],
    warnings: &mut Warnings,
) -> Result<DriverMode, Rejection> {
    let mut mode = DriverMode::Warm;
    for name in options.keys().cloned().collect::<Vec<_>>() {
        let path = format!("{OPTIONS}.{name}");
        let value = options[&name].take();
        let left = match (name.as_str(), value) {
            (_, Value::Null) => None,
            ("args", Value::Array(args)) => check_args(&path, &args, warm_args)?.map(|left| {
                mode = DriverMode::Cold;
                json!(left)
            }),
            ("args", _) => return Err(refused(path, "must be an array of strings")),
            ("prefs", Value::Object(prefs)) => {
                let left = check_prefs(&path, prefs)?;
                if left.keys().any(|name| !LIVE_PREFS.iter().any(|live| name.starts_with(live))) {
                    mode = DriverMode::Cold;
                }
                (!left.is_empty()).then_some(Value::Object(left))
            }
            ("prefs", _) => return Err(refused(path, "must be an object")),
            ("env", Value::Object(variables)) => {
                let left = check_env(&path, variables)?;
                if !left.is_empty() {
                    mode = DriverMode::Cold;
                }
                (!left.is_empty()).then_some(Value::Object(left))
            }
            ("env", _) => return Err(refused(path, "must be an object")),
            ("profile", Value::String(profile)) => (!profile.is_empty()).then(|| {
                mode = DriverMode::Cold;
                Value::String(profile)
            }),
            ("profile", _) => return Err(refused(path, "must be a zip of a profile, in base64")),
            // How much the driver writes into a log that nobody reads.
            ("log", Value::Object(_)) => None,
            ("binary", binary) => {
                if binary.as_str().is_some_and(|binary| !binary.is_empty()) {
                    warnings.idle(&path, OWN_BROWSER);
                }
                None
            }
            (name, _) if name.starts_with("android") => {
                return Err(refused(path, "is for another machine than a worker: leave it out"));
            }
            _ => return Err(refused(path, "is not an option that can be honoured here: leave it out")),
        };
        match left {
            Some(left) => options.insert(name, left),
            None => options.remove(&name),
        };
    }
    Ok(mode)
}

/// The arguments that are not true already, if there are any.
fn check_args(path: &str, args: &[Value], warm_args: &[String]) -> Result<Option<Vec<String>>, Rejection> {
    let mut left = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let Value::String(arg) = arg else { return Err(refused(path, "must be an array of strings")) };
        if arg == "about:blank" {
            continue;
        }
        let bare = arg.trim_start_matches('-');
        let (name, value) = bare.split_once('=').map_or((bare, None), |(name, value)| (name, Some(value.to_owned())));
        let name = name.to_ascii_lowercase();
        if HABITS.contains(&name.as_str()) && arg.starts_with('-') {
            continue;
        }
        if !START_ARGS.contains(&name.as_str()) || !arg.starts_with('-') {
            return Err(refused(arg, "is not an argument that can be honoured here: leave it out"));
        }
        let mut written = format!("--{name}");
        if WITH_VALUE.contains(&name.as_str()) {
            let value = match value {
                Some(value) => Some(value),
                None => args.next().and_then(Value::as_str).map(str::to_owned),
            };
            let Some(value) = value.filter(|value| !value.is_empty() && !value.starts_with('-')) else {
                return Err(refused(arg, "needs a value"));
            };
            written = format!("{written}={value}");
        }
        if !warm_args.contains(&written) {
            left.push(written);
        }
    }
    Ok((!left.is_empty()).then_some(left))
}

/// The preferences that are more than a habit.
fn check_prefs(path: &str, prefs: Map<String, Value>) -> Result<Map<String, Value>, Rejection> {
    let mut left = Map::new();
    for (name, value) in prefs {
        let at = || format!("{path}.{name}");
        if HABITUAL_PREFS.contains(&name.as_str()) {
            continue;
        }
        if FORBIDDEN_PREFS.iter().any(|start| name.starts_with(start)) {
            return Err(refused(at(), "would reach around the worker's isolation: leave it out"));
        }
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(refused(at(), "is no name of a preference"));
        }
        let is_value = match &value {
            Value::Bool(_) => true,
            Value::String(text) => !text.contains('\0'),
            Value::Number(number) => number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
            _ => false,
        };
        if !is_value {
            return Err(refused(at(), "must be true, false, a text or a whole number of 32 bits"));
        }
        left.insert(name, value);
    }
    Ok(left)
}

/// The variables that are more than a habit.
fn check_env(path: &str, variables: Map<String, Value>) -> Result<Map<String, Value>, Rejection> {
    let mut left = Map::new();
    for (name, value) in variables {
        if HABITUAL_VARIABLES.contains(&name.as_str()) {
            continue;
        }
        let plain = value.as_str().is_some_and(|value| !value.contains('\0'));
        if !VARIABLES.contains(&name.as_str()) || !plain {
            return Err(refused(format!("{path}.{name}"), "could reach around the worker's isolation: leave it out"));
        }
        left.insert(name, value);
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::error::Error;
    use crate::webdriver::capabilities::{Plan, plan};

    fn options(options: Value) -> Result<Plan, Error> {
        let always = json!({"browserName": "firefox", "acceptInsecureCerts": true, OPTIONS: options});
        plan(
            &json!({"capabilities": {"alwaysMatch": always}}),
            Engine::Firefox,
            &["--width=1280".to_owned()],
            &Default::default(),
        )
    }

    #[test]
    fn what_is_true_already_keeps_the_browser_warm() {
        let plan = options(json!({
            "args": ["-headless", "--no-remote", "-width", "1280"],
            "prefs": {"remote.active-protocols": 3}, "env": {"MOZ_HEADLESS": "1"}, "log": {"level": "trace"},
            "binary": "", "profile": null,
        }));
        let plan = plan.unwrap();
        assert_eq!(plan.mode, DriverMode::Warm);
        assert_eq!(plan.capabilities["firstMatch"], json!([{"browserName": "firefox", "acceptInsecureCerts": true}]));
    }

    #[test]
    fn a_path_to_a_browser_has_no_effect() {
        let plan = options(json!({"binary": "/usr/bin/firefox"})).unwrap();
        assert_eq!(plan.mode, DriverMode::Warm);
        assert_eq!(plan.capabilities["firstMatch"], json!([{"browserName": "firefox", "acceptInsecureCerts": true}]));
        assert!(plan.warnings[0].contains("moz:firefoxOptions.binary"), "{:?}", plan.warnings);
    }

    #[test]
    fn what_clients_say_to_every_browser_is_no_obstacle() {
        let always = json!({"goog:chromeOptions": {"w3c": true}, "moz:debuggerAddress": true});
        let plan =
            plan(&json!({"capabilities": {"alwaysMatch": always}}), Engine::Firefox, &[], &Default::default()).unwrap();
        assert_eq!(plan.capabilities["firstMatch"], json!([{}]));
        assert!(plan.warnings.is_empty(), "{:?}", plan.warnings);
        let always = json!({"goog:chromeOptions": {"w3c": true, "args": ["--lang=fr"]}});
        assert!(
            super::super::plan(
                &json!({"capabilities": {"alwaysMatch": always}}),
                Engine::Firefox,
                &[],
                &Default::default()
            )
            .is_err()
        );
    }

    #[test]
    fn preferences_that_firefox_heeds_while_it_runs_keep_it_warm() {
        let prefs = json!({"prefs": {"network.cookie.lifetimePolicy": 1, "intl.accept_languages": "fr"}});
        let plan = options(prefs.clone()).unwrap();
        assert_eq!(plan.mode, DriverMode::Warm);
        assert_eq!(plan.capabilities["firstMatch"][0][OPTIONS], prefs);
    }

    #[test]
    fn what_a_running_browser_cannot_take_needs_one_of_its_own() {
        for requested in [
            json!({"args": ["-private"]}),
            json!({"args": ["--width", "800", "--height=600"]}),
            json!({"prefs": {"image.mem.decode_bytes_at_a_time": 4096}}),
            json!({"profile": "UEsFBg=="}),
            json!({"env": {"TZ": "Asia/Tokyo"}}),
        ] {
            assert_eq!(options(requested.clone()).unwrap().mode, DriverMode::Cold, "{requested}");
        }
        let sized = options(json!({"args": ["--width", "800", "--height=600"]})).unwrap();
        assert_eq!(sized.capabilities["firstMatch"][0][OPTIONS]["args"], json!(["--width=800", "--height=600"]));
    }

    #[test]
    fn what_weakens_isolation_is_refused_by_name() {
        for (requested, name) in [
            (json!({"androidPackage": "x"}), "moz:firefoxOptions.androidPackage"),
            (json!({"args": ["--remote-debugging-port=1"]}), "--remote-debugging-port=1"),
            (json!({"args": ["--remote-allow-system-access"]}), "--remote-allow-system-access"),
            (json!({"args": ["-profile", "/x"]}), "-profile"),
            (json!({"args": ["--width"]}), "--width"),
            (json!({"args": ["http://example.com"]}), "http://example.com"),
            (json!({"args": ["headless"]}), "headless"),
            (json!({"env": {"LD_PRELOAD": "/x.so"}}), "moz:firefoxOptions.env.LD_PRELOAD"),
            (
                json!({"prefs": {"security.sandbox.content.level": 0}}),
                "moz:firefoxOptions.prefs.security.sandbox.content.level",
            ),
            (json!({"prefs": {"a": 1.5}}), "moz:firefoxOptions.prefs.a"),
            (json!({"prefs": {"a": []}}), "moz:firefoxOptions.prefs.a"),
            (json!({"profile": 7}), "moz:firefoxOptions.profile"),
            (json!({"unheardOf": 1}), "moz:firefoxOptions.unheardOf"),
        ] {
            match options(requested.clone()) {
                Err(Error::Capability { capability, .. }) => assert_eq!(capability, name),
                other => panic!("{requested}: {other:?}"),
            }
        }
    }
}
