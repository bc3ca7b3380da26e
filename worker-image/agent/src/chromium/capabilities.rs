//! The capabilities that the driver gets in place of a client's.

use std::path::Path;

use serde_json::{Map, Value, json};
use warmpool_protocol::switches::{Class, Switch};
use warmpool_protocol::{Allowed, preferences as prefs};

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

/// The preference that has what visitors have allowed sites.
const EXCEPTIONS: &str = "profile.content_settings.exceptions";

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
    /// A directory that does not exist yet, or one whose browser has ended.
    pub(super) profile: &'a Path,
    /// Where downloads go.
    pub(super) downloads: &'a Path,
    /// What the operator lets clients set beyond the tables.
    pub(super) allowed: &'a Allowed,
    /// What the profile's visitors have allowed sites, where it is not a new one.
    pub(super) allowed_by_visitors: Value,
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
        let mut args = switches::merge(how.switches, &wanted, &how.allowed.switches);
        args.push(format!("--user-data-dir={}", how.profile.display()));
        options.insert("args".into(), json!(args));
        options.insert("binary".into(), json!(how.binary));
        if let Some(Value::Array(names)) = options.get_mut("excludeSwitches") {
            names.retain(|name| name.as_str().is_some_and(may_be_excluded));
        }
        for member in ["prefs", "localState"] {
            let wanted = options.remove(member);
            let wanted = wanted.as_ref().and_then(Value::as_object);
            let mut taken = wanted.map(|wanted| prefs::judge(wanted, &how.allowed.prefs).taken).unwrap_or_default();
            if member == "prefs" {
                for (name, value) in preferences(how.downloads) {
                    taken.entry(name).or_insert(value);
                }
                // The driver would write a file without them.
                if how.allowed_by_visitors.is_object() {
                    taken.insert(EXCEPTIONS.to_owned(), how.allowed_by_visitors.clone());
                }
            }
            if !taken.is_empty() {
                options.insert(member.to_owned(), Value::Object(taken));
            }
        }
    })?;
    Ok(capabilities)
}

/// Whether the driver may leave this switch of its own out.
fn may_be_excluded(name: &str) -> bool {
    Switch::read(name).is_ok_and(|it| matches!(it.class(), Class::Harmless | Class::Fulfilled | Class::Free))
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
    use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

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
            allowed: &Allowed { switches: vec!["b".to_owned()], prefs: vec!["own".to_owned()] },
            allowed_by_visitors: Value::Null,
        };
        let clients = json!({"alwaysMatch": {OPTIONS: {
            "args": ["b=2", "no-sandbox", "utility-cmd-prefix=x", "--Remote-Debugging-Port=1", "--no-sandbox "],
            "binary": "/evil", "debuggerAddress": "10.0.0.1:1", "minidumpPath": "/x", "logPath": "/x",
            "excludeSwitches": ["enable-automation", "proxy-server", "no-sandbox", "unheard-of"],
            "prefs": {
                "download": {"prompt_for_download": true, "default_directory": "/home/worker/profile-0/NativeMessagingHosts"},
                "proxy": {"mode": "direct"}, "own.a": 1, "unheard": 1,
            },
            "localState": {"browser.enabled_labs_experiments": ["x@1"]},
        }}});
        let told = cold(clients, &how).unwrap();
        let options = &told["alwaysMatch"][OPTIONS];
        assert_eq!(options["args"], json!(["--a", "--b=2", "--user-data-dir=/profile"]));
        assert_eq!(options["binary"], "/agent");
        for name in ["debuggerAddress", "minidumpPath", "logPath", "localState"] {
            assert_eq!(options.get(name), None, "{name}");
        }
        assert_eq!(options["excludeSwitches"], json!(["enable-automation"]));
        let given = &options["prefs"];
        assert_eq!((&given["download.prompt_for_download"], &given["own.a"]), (&json!(true), &json!(1)));
        for name in ["download.default_directory", "savefile.default_directory"] {
            assert_eq!(given[name], "/downloads", "{name}");
        }
        for name in ["proxy", "download", "unheard"] {
            assert_eq!(given.get(name), None, "{name}");
        }
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

    /// What the browser reads in an argument: without blanks at both ends, after two dashes or one, up to the equals sign.
    fn name_read(argument: &str) -> &str {
        let argument = argument.trim();
        let bare = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')).unwrap_or(argument);
        bare.split_once('=').map_or(bare, |(name, _)| name)
    }

    fn spelled() -> impl Strategy<Value = String> {
        let around = || prop::sample::select(vec!["", " ", "\t", "\n", "\0", "\u{a0}", "=", "=x", " --", "\u{2011}"]);
        let dashes = prop::sample::select(vec!["", "-", "--", "---", "\u{2013}", "\u{2014}", "--\t"]);
        let names = [
            "no-sandbox",
            "single-process",
            "no-proxy-server",
            "zygote-cmd-prefix=/bin/sh",
            "log-net-log=/x",
            "in-process-gpu",
            "remote-debugging-port=1",
            "enable-blink-features=MojoJS",
            "unheard-of",
            "lang=de",
            "disable-gpu",
        ];
        let name = prop::sample::select(names.to_vec());
        (around(), dashes, name, any::<bool>(), around()).prop_map(|(before, dashes, name, is_upper, after)| {
            let name = if is_upper { name.to_uppercase() } else { name.to_owned() };
            format!("{before}{dashes}{name}{after}")
        })
    }

    proptest! {
        /// Whatever the daemon has let pass.
        #[test]
        fn no_spelling_brings_a_refused_or_unknown_switch_to_the_command_line(
            args in prop::collection::vec(prop_oneof![spelled(), ".{0,20}"], 0..6),
        ) {
            let ours = ["--proxy-server=x".to_owned(), "--disable-features=A".to_owned()];
            let how = ColdStart {
                binary: Path::new("/agent"),
                switches: &ours,
                profile: Path::new("/profile"),
                downloads: Path::new("/downloads"),
                allowed: &Allowed::default(),
                allowed_by_visitors: Value::Null,
            };
            let told = cold(json!({"alwaysMatch": {OPTIONS: {"args": args}}}), &how).unwrap();
            let told = told["alwaysMatch"][OPTIONS]["args"].as_array().unwrap().clone();
            let of_agent = ["--proxy-server=x", "--user-data-dir=/profile"];
            for argument in told.iter().filter_map(Value::as_str).filter(|it| !of_agent.contains(it)) {
                let class = Switch::read(argument).unwrap().class();
                prop_assert!(matches!(class, Class::Harmless | Class::Free), "{args:?} brought {argument:?}");
                let name = name_read(argument);
                prop_assert!(!["no-sandbox", "single-process", "no-proxy-server"].contains(&name), "{argument:?}");
                prop_assert!(!argument.chars().any(char::is_control) && !argument.to_lowercase().contains("mojo"));
            }
            let count = told.iter().filter_map(Value::as_str).filter(|it| of_agent.contains(it)).count();
            prop_assert_eq!(count, of_agent.len());
        }
    }
}
