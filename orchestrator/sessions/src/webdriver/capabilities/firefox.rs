//! `moz:firefoxOptions`, and what else a Firefox worker has to look at.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use warmpool_protocol::DriverMode;
use warmpool_protocol::firefox::profile::Profile;
use warmpool_protocol::firefox::{Allowed, arguments, prefs};

use super::standard::shown;
use super::warnings::Warnings;
use super::{OWN_BROWSER, Rejection, refused};

/// The vendor capability.
const OPTIONS: &str = "moz:firefoxOptions";

/// Variables that a client may set.
const VARIABLES: [&str; 1] = ["TZ"];

/// Variables that clients set out of habit.
const HABITUAL_VARIABLES: [&str; 3] = ["MOZ_HEADLESS", "MOZ_CRASHREPORTER_DISABLE", "MOZ_REMOTE_ALLOW_SYSTEM_ACCESS"];

/// Why something has no effect that only the operator may allow.
const UNKNOWN_PREF: &str =
    "Warmpool does not know this preference; the operator's setting worker.firefox_prefs allows it";
/// The same.
const UNKNOWN_ARG: &str = "Warmpool does not know this argument; the operator's setting worker.firefox_args allows it";
/// Why files of a profile have no effect.
const UNKNOWN_FILE: &str = "a browser gets only those files of a profile that are known to be data";
/// Why something is refused.
const WEAKENS: &str = "would reach around the worker's isolation: leave it out";
/// How many names of one kind in a profile are told.
const MOST_TOLD: usize = 6;

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
    allowed: &Allowed,
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
    let mode = check_options(options, warm_args, allowed, warnings)?;
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
    allowed: &Allowed,
    warnings: &mut Warnings,
) -> Result<DriverMode, Rejection> {
    let mut mode = DriverMode::Warm;
    for name in options.keys().cloned().collect::<Vec<_>>() {
        let path = format!("{OPTIONS}.{name}");
        let value = options[&name].take();
        let left = match (name.as_str(), value) {
            (_, Value::Null) => None,
            ("args", Value::Array(args)) => check_args(&path, &args, warm_args, allowed, warnings)?.map(|left| {
                mode = DriverMode::Cold;
                json!(left)
            }),
            ("args", _) => return Err(refused(path, "must be an array of strings")),
            ("prefs", Value::Object(prefs)) => {
                let left = check_prefs(&path, prefs, allowed, warnings)?;
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
            ("profile", Value::String(profile)) if profile.is_empty() => None,
            ("profile", Value::String(profile)) => {
                check_profile(&path, &profile, allowed, warnings)?;
                mode = DriverMode::Cold;
                Some(Value::String(profile))
            }
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
fn check_args(
    path: &str,
    args: &[Value],
    warm_args: &[String],
    allowed: &Allowed,
    warnings: &mut Warnings,
) -> Result<Option<Vec<String>>, Rejection> {
    let mut left = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let Value::String(arg) = arg else { return Err(refused(path, "must be an array of strings")) };
        if arg == "about:blank" {
            continue;
        }
        let Some((name, value)) = arguments::parts(arg) else {
            return Err(refused(shown(arg), "is not an argument that can be honoured here: leave it out"));
        };
        let written = match arguments::class(&name, &allowed.args) {
            arguments::Class::Idle => continue,
            arguments::Class::Refused => return Err(refused(shown(arg), WEAKENS)),
            arguments::Class::Unknown => {
                warnings.idle(&format!("{path}: {arg}"), UNKNOWN_ARG);
                continue;
            }
            arguments::Class::Free => format!("--{name}"),
            arguments::Class::Valued => {
                // Clients may write the value as an argument of its own.
                let value = value.or_else(|| args.next().and_then(Value::as_str));
                let Some(value) = value.filter(|value| !value.is_empty() && !value.starts_with('-')) else {
                    return Err(refused(shown(arg), "needs a value"));
                };
                format!("--{name}={value}")
            }
        };
        if !warm_args.contains(&written) {
            left.push(written);
        }
    }
    Ok((!left.is_empty()).then_some(left))
}

/// The preferences that are more than a habit.
fn check_prefs(
    path: &str,
    prefs: Map<String, Value>,
    allowed: &Allowed,
    warnings: &mut Warnings,
) -> Result<Map<String, Value>, Rejection> {
    let mut left = Map::new();
    for (name, value) in prefs {
        let at = format!("{path}.{}", shown(&name));
        match judge(&at, &name, &value, allowed)? {
            prefs::Class::Free => drop(left.insert(name, value)),
            prefs::Class::Unknown => warnings.idle(&at, UNKNOWN_PREF),
            prefs::Class::Idle | prefs::Class::Refused => {}
        }
    }
    Ok(left)
}

/// The class of a preference, which is not [`prefs::Class::Refused`].
fn judge(at: &str, name: &str, value: &Value, allowed: &Allowed) -> Result<prefs::Class, Rejection> {
    if !prefs::is_name(name) {
        return Err(refused(at, "is not a name of a preference"));
    }
    match prefs::class(name, &allowed.prefs) {
        prefs::Class::Refused => Err(refused(at, WEAKENS)),
        class if class == prefs::Class::Idle || prefs::is_value(value) => Ok(class),
        _ => Err(refused(at, "must be true, false, a text or a whole number of 32 bits")),
    }
}

/// Looks through a profile, which goes to the worker as it is: the agent leaves out the same.
fn check_profile(path: &str, profile: &str, allowed: &Allowed, warnings: &mut Warnings) -> Result<(), Rejection> {
    let profile = Profile::open(profile).map_err(|e| refused(path, &e.to_string()))?;
    // A set: a profile may have a hundred thousand of them.
    let mut unknown = BTreeSet::new();
    for (file, name, value) in &profile.prefs {
        let at = format!("{path}: {file}: {}", shown(name));
        if judge(&at, name, value, allowed)? == prefs::Class::Unknown {
            unknown.insert(at);
        }
    }
    let files = profile.left_out.iter().map(|file| format!("{path}: {file}")).collect::<BTreeSet<_>>();
    for (names, reason) in [(files, UNKNOWN_FILE), (unknown, UNKNOWN_PREF)] {
        names.iter().take(MOST_TOLD).for_each(|name| warnings.idle(name, reason));
        if names.len() > MOST_TOLD {
            warnings.idle(&format!("{path}: {} more", names.len() - MOST_TOLD), reason);
        }
    }
    Ok(())
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
    use std::io::{Cursor, Write as _};

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::*;
    use crate::Error;
    use crate::webdriver::capabilities::{Plan, plan};
    use warmpool_core::browser::Engine;

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
            json!({"profile": profile(&[("user.js", "user_pref('dom.battery.enabled', false);")])}),
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
            (json!({"args": ["--profile "]}), "--profile "),
            (json!({"args": ["\u{2013}profile"]}), "\u{2013}profile"),
            (json!({"args": ["--width"]}), "--width"),
            (json!({"args": ["http://example.com"]}), "http://example.com"),
            (json!({"args": ["headless"]}), "headless"),
            (json!({"env": {"LD_PRELOAD": "/x.so"}}), "moz:firefoxOptions.env.LD_PRELOAD"),
            (
                json!({"prefs": {"security.sandbox.content.level": 0}}),
                "moz:firefoxOptions.prefs.security.sandbox.content.level",
            ),
            (
                json!({"prefs": {"extensions.experiments.enabled": true}}),
                "moz:firefoxOptions.prefs.extensions.experiments.enabled",
            ),
            (
                json!({"prefs": {"security.sandbox.content.level ": 0}}),
                "moz:firefoxOptions.prefs.security.sandbox.content.level ",
            ),
            (
                json!({"prefs": {"\u{173}ecurity.sandbox.content.level": 0}}),
                "moz:firefoxOptions.prefs.\u{173}ecurity.sandbox.content.level",
            ),
            (json!({"prefs": {"dom.a": 1.5}}), "moz:firefoxOptions.prefs.dom.a"),
            (json!({"prefs": {"dom.a": []}}), "moz:firefoxOptions.prefs.dom.a"),
            (json!({"profile": 7}), "moz:firefoxOptions.profile"),
            (json!({"profile": "UEsFBg=="}), "moz:firefoxOptions.profile"),
            (
                json!({"profile": profile(&[("user.js", "pref( 'security.sandbox\\x2econtent.level',\n0);")])}),
                "moz:firefoxOptions.profile: user.js: security.sandbox.content.level",
            ),
            (
                json!({"profile": profile(&[("prefs.js", "user_pref('extensions.experiments.enabled', true);")])}),
                "moz:firefoxOptions.profile: prefs.js: extensions.experiments.enabled",
            ),
            (json!({"profile": profile(&[("user.js", "lockPref('dom.a', 1);")])}), "moz:firefoxOptions.profile"),
            (json!({"profile": profile(&[("../user.js", "")])}), "moz:firefoxOptions.profile"),
            (json!({"unheardOf": 1}), "moz:firefoxOptions.unheardOf"),
        ] {
            match options(requested.clone()) {
                Err(Error::Capability { capability, .. }) => assert_eq!(capability, name),
                other => panic!("{requested}: {other:?}"),
            }
        }
    }

    fn profile(files: &[(&str, &str)]) -> String {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(text.as_bytes()).unwrap();
        }
        STANDARD.encode(writer.finish().unwrap().into_inner())
    }

    #[test]
    fn a_profile_with_seventy_thousand_unknown_preferences_is_looked_through_at_once() {
        let prefs: String = (0..35_000).map(|number| format!("user_pref('q{number}', 0);")).collect();
        let made = options(json!({"profile": profile(&[("prefs.js", &prefs), ("user.js", &prefs)])})).unwrap();
        let said = made.warnings.join(" ");
        assert!(said.contains("more` has no effect"), "{said}");
    }

    #[test]
    fn what_nobody_has_judged_is_left_out_and_said() {
        let requested = json!({
            "args": ["--unheard-of", "-private"], "prefs": {"shop.colour": "red", "dom.a": 1, "app.update.enabled": false},
            "profile": profile(&[("handlers.json", "{}"), ("user.js", "user_pref('shop.size', 2);"), ("times.json", "{}")]),
        });
        let made = options(requested.clone()).unwrap();
        let left = &made.capabilities["firstMatch"][0][OPTIONS];
        assert_eq!((&left["args"], &left["prefs"]), (&json!(["--private"]), &json!({"dom.a": 1})));
        let said = made.warnings.join(" ");
        for name in ["--unheard-of", "firefoxOptions.prefs.shop.colour", "handlers.json", "user.js: shop.size"] {
            assert!(said.contains(name), "{name}: {said}");
        }
        assert!(said.contains("worker.firefox_prefs") && said.contains("worker.firefox_args"), "{said}");
        assert_eq!(made.warnings.len(), 4, "{said}");

        // The operator may allow it, and nothing that is refused.
        let mut allowed = super::super::Allowed::default();
        allowed.firefox.prefs = vec!["shop".to_owned(), "security".to_owned()];
        allowed.firefox.args = vec!["unheard-of".to_owned(), "profile".to_owned()];
        let ask = |options: Value| {
            let body = json!({"capabilities": {"alwaysMatch": {OPTIONS: options}}});
            plan(&body, Engine::Firefox, &[], &allowed)
        };
        let made = ask(requested).unwrap();
        let left = &made.capabilities["firstMatch"][0][OPTIONS];
        assert_eq!(left["args"], json!(["--unheard-of", "--private"]));
        assert_eq!(left["prefs"], json!({"shop.colour": "red", "dom.a": 1}));
        assert_eq!(made.warnings.len(), 1, "{:?}", made.warnings);
        assert!(ask(json!({"prefs": {"security.sandbox.content.level": 0}})).is_err());
        assert!(ask(json!({"args": ["--profile"]})).is_err());
    }

    #[test]
    fn a_profile_of_many_files_fills_no_answer() {
        let names: Vec<_> = (0..100).map(|number| format!("{number}.bin")).collect();
        let files: Vec<_> = names.iter().map(|name| (name.as_str(), "x")).collect();
        let warnings = options(json!({"profile": profile(&files)})).unwrap().warnings;
        assert_eq!(warnings.len(), MOST_TOLD + 1);
        assert!(warnings[MOST_TOLD].contains("94 more"), "{warnings:?}");
    }
}
