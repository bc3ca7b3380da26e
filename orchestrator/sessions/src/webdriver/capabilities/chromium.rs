//! `goog:chromeOptions`, and what else a Chromium worker has to look at.

use serde_json::{Map, Value, json};
use warmpool_protocol::switches::{self, Class, Switch, SwitchVerdict};
use warmpool_protocol::{Allowed, DriverMode, preferences};

use super::warnings::Warnings;
use super::{OWN_BROWSER, Rejection, refused};

/// Members of `goog:chromeOptions` that the driver serves on any browser.
const DRIVER_OPTIONS: [&str; 5] = ["perfLoggingPrefs", "windowTypes", "enableExtensionTargets", "detach", "w3c"];

/// Members of `goog:chromeOptions` that take effect when a browser starts.
const START_OPTIONS: [&str; 2] = ["extensions", "mobileEmulation"];

/// The vendor capability.
const OPTIONS: &str = "goog:chromeOptions";

/// Why a switch or a preference that nobody has judged has no effect, and what would let it through.
const UNJUDGED_SWITCH: &str = "it is not among the switches that are known to be safe here; the operator allows it by naming it in `worker.chromium_switches`";
const UNJUDGED_PREFERENCE: &str = "it is not among the preferences that are known to be safe here; the operator allows it by naming it in `worker.chromium_prefs`";
/// What a client reads of one that is known to be unsafe.
const WEAKENING: &str = "would reach around the worker's isolation: leave it out";

/// What checking one alternative takes.
struct Check<'a> {
    /// The warm browser's switches.
    warm_args: &'a [String],
    /// What the operator allows.
    allowed: &'a Allowed,
    warnings: &'a mut Warnings,
}

/// Checks one alternative for Chromium, takes out what is true already, and says which browser it needs.
pub(super) fn check(
    caps: &mut Map<String, Value>,
    warm_args: &[String],
    allowed: &Allowed,
    warnings: &mut Warnings,
) -> Result<DriverMode, Rejection> {
    match caps.get_mut(OPTIONS) {
        None => Ok(DriverMode::Warm),
        Some(Value::Object(options)) => Check { warm_args, allowed, warnings }.options(options),
        Some(_) => Err(refused(OPTIONS, "must be an object")),
    }
}

impl Check<'_> {
    fn options(&mut self, options: &mut Map<String, Value>) -> Result<DriverMode, Rejection> {
        let mut mode = DriverMode::Warm;
        for name in options.keys().cloned().collect::<Vec<_>>() {
            let value = &options[&name];
            let path = format!("{OPTIONS}.{name}");
            let is_empty = match value {
                Value::Null => true,
                Value::Array(list) => list.is_empty(),
                Value::Object(map) => map.is_empty(),
                _ => false,
            };
            let left = match (name.as_str(), value) {
                ("args", Value::Array(args)) => as_array(self.args(&path, args)?),
                ("args", _) => return Err(refused(path, "must be an array of strings")),
                ("excludeSwitches", _) => {
                    let wanted_away = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                    as_array(self.excluded(&path, wanted_away)?)
                }
                ("prefs" | "localState", Value::Object(prefs)) => self.preferences(&path, prefs)?.map(Value::Object),
                ("prefs" | "localState", _) if !is_empty => return Err(refused(path, "must be an object")),
                // An extension that no Chromium has had for years.
                ("useAutomationExtension" | "prefs" | "localState", _) => None,
                ("binary", _) => {
                    if value.as_str().is_some_and(|binary| !binary.is_empty()) {
                        self.warnings.idle(&path, OWN_BROWSER);
                    }
                    None
                }
                ("debuggerAddress" | "minidumpPath" | "browserStartupTimeout", _) => {
                    return Err(refused(path, "is the worker's own affair: leave it out"));
                }
                (name, _) if START_OPTIONS.contains(&name) => (!is_empty).then(|| value.clone()),
                (name, _) if DRIVER_OPTIONS.contains(&name) => continue,
                _ => return Err(refused(path, "is not an option that can be honoured here: leave it out")),
            };
            match left {
                Some(left) => {
                    mode = DriverMode::Cold;
                    options.insert(name, left);
                }
                None => {
                    options.remove(&name);
                }
            }
        }
        Ok(mode)
    }

    /// The switches that a browser has to be started for, in the form that was judged.
    fn args(&mut self, path: &str, args: &[Value]) -> Result<Vec<String>, Rejection> {
        let mut left = Vec::new();
        for arg in args {
            let Value::String(arg) = arg else { return Err(refused(path, "must be an array of strings")) };
            let (taken, left_out) = match switches::judge(arg, &self.allowed.switches) {
                SwitchVerdict::Taken(taken, left_out) => (Some(taken), left_out),
                SwitchVerdict::LeftOut(left_out) => (None, left_out),
                SwitchVerdict::Fulfilled => (None, Vec::new()),
                SwitchVerdict::Refused => return Err(refused(arg, WEAKENING)),
                SwitchVerdict::Misspelled(problem) => {
                    return Err(refused(arg.escape_debug().to_string(), &problem.to_string()));
                }
            };
            for name in left_out {
                self.warnings.idle(&format!("{path}: {name}"), UNJUDGED_SWITCH);
            }
            left.extend(taken.filter(|taken| !self.warm_args.contains(taken)));
        }
        Ok(left)
    }

    /// Switches that the driver would add to a browser of its own; those alone that the warm one has.
    fn excluded<'s>(&mut self, path: &str, names: impl Iterator<Item = &'s str>) -> Result<Vec<String>, Rejection> {
        let mut left = Vec::new();
        for name in names {
            let switch = Switch::read(name);
            let switch = switch.map_err(|problem| refused(name.escape_debug().to_string(), &problem.to_string()))?;
            match switch.class() {
                Class::Harmless | Class::Fulfilled | Class::Free => left.push(switch.name),
                Class::Refused | Class::Ours => return Err(refused(format!("{path}: {}", switch.name), WEAKENING)),
                Class::Unknown => self.warnings.idle(&format!("{path}: {}", switch.name), "no browser here has it"),
            }
        }
        let is_warm =
            |name: &str| self.warm_args.iter().any(|warm| Switch::read(warm).is_ok_and(|warm| warm.name == name));
        Ok(if left.iter().any(|name| is_warm(name)) { left } else { Vec::new() })
    }

    fn preferences(&mut self, path: &str, prefs: &Map<String, Value>) -> Result<Option<Map<String, Value>>, Rejection> {
        let preferences::JudgedPreferences { taken, left_out, refused: unsafe_ones } =
            preferences::judge(prefs, &self.allowed.prefs);
        if let Some(name) = unsafe_ones.first() {
            return Err(refused(format!("{path}.{name}"), WEAKENING));
        }
        for name in left_out {
            self.warnings.idle(&format!("{path}.{name}"), UNJUDGED_PREFERENCE);
        }
        Ok(Some(taken).filter(|taken| !taken.is_empty()))
    }
}

fn as_array(list: Vec<String>) -> Option<Value> {
    (!list.is_empty()).then(|| json!(list))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop, prop_assert, prop_oneof, proptest};

    use super::super::{Plan, plan};
    use super::*;
    use crate::Error;
    use warmpool_core::browser::Engine;

    fn ask(options: &Value, allowed: &Allowed) -> Result<Plan, Error> {
        let allowed = super::super::Allowed { chromium: allowed.clone(), ..Default::default() };
        let warm = ["--no-first-run", "--password-store=basic", "--disable-features=A"].map(str::to_owned);
        plan(&json!({"capabilities": {"alwaysMatch": {OPTIONS: options}}}), Engine::Chromium, &warm, &allowed)
    }

    /// What a browser would be started with, and what the client is told.
    fn planned(options: &Value, allowed: &Allowed) -> (DriverMode, Value, String) {
        let Plan { mode, capabilities, warnings, .. } = ask(options, allowed).unwrap();
        (mode, capabilities["firstMatch"][0][OPTIONS].clone(), warnings.join("; "))
    }

    #[test]
    fn what_is_known_takes_effect_as_it_was_judged() {
        let args = json!(["-LANG=de ", "--no-sandbox", "--no-first-run", "password-store=basic", "--disable-gpu=1"]);
        let wanted = json!({"args": ["--lang=de", "--disable-gpu"]});
        assert_eq!(planned(&json!({"args": args}), &Allowed::default()), (DriverMode::Cold, wanted, String::new()));
    }

    #[test]
    fn what_nobody_has_judged_is_left_out_and_named_with_the_setting() {
        let asked = json!({
            "args": ["--unheard-of=1", "--enable-features=WebMCP"], "localState": {"browser.enabled_labs_experiments": ["x@1"]},
            "prefs": {"custom_handlers": {"enabled": true}}, "excludeSwitches": ["unheard-of"],
        });
        let (mode, left, said) = planned(&asked, &Allowed::default());
        assert_eq!((mode, left), (DriverMode::Warm, json!({})));
        for part in [
            "args: unheard-of` has no effect",
            "args: enable-features=WebMCP`",
            "`worker.chromium_switches`",
            "localState.browser.enabled_labs_experiments`",
            "prefs.custom_handlers.enabled`",
            "`worker.chromium_prefs`",
            "excludeSwitches: unheard-of`",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let allowed = Allowed {
            switches: ["unheard-of", "enable-features=WebMCP"].map(str::to_owned).to_vec(),
            prefs: vec!["custom_handlers".to_owned()],
        };
        let (mode, left, said) = planned(&asked, &allowed);
        let wanted = json!({
            "args": ["--unheard-of=1", "--enable-features=WebMCP"], "prefs": {"custom_handlers": {"enabled": true}},
        });
        assert_eq!((mode, left), (DriverMode::Cold, wanted));
        assert!(!said.contains("args:") && !said.contains("custom_handlers"), "{said}");
    }

    #[test]
    fn what_weakens_the_fence_is_refused_by_name() {
        for (options, name) in [
            (json!({"args": ["--no-sandbox "]}), "--no-sandbox "),
            (json!({"args": ["--single-process\t"]}), "--single-process\\t"),
            (json!({"args": ["--zygote-cmd-prefix=/bin/sh"]}), "--zygote-cmd-prefix=/bin/sh"),
            (json!({"args": ["--enable-blink-features=A,MojoJS"]}), "--enable-blink-features=A,MojoJS"),
            (json!({"excludeSwitches": ["proxy-server"]}), "goog:chromeOptions.excludeSwitches: proxy-server"),
            (json!({"prefs": {"proxy": {"mode": "direct"}}}), "goog:chromeOptions.prefs.proxy"),
            (json!({"prefs": {"extensions.settings": {}}}), "goog:chromeOptions.prefs.extensions.settings"),
            (json!({"localState": {"proxy.mode": "direct"}}), "goog:chromeOptions.localState.proxy.mode"),
            (json!({"prefs": 1}), "goog:chromeOptions.prefs"),
            (json!({"minidumpPath": "/x"}), "goog:chromeOptions.minidumpPath"),
            (json!({"androidPackage": "x"}), "goog:chromeOptions.androidPackage"),
        ] {
            match ask(&options, &Allowed::default()) {
                Err(Error::Capability { capability, .. }) => assert_eq!(capability, name),
                other => panic!("{options}: {other:?}"),
            }
        }
    }

    #[test]
    fn downloads_stay_where_the_daemon_finds_them() {
        let prefs = json!({"download": {"default_directory": "/x", "prompt_for_download": false}});
        let wanted = json!({"prefs": {"download.prompt_for_download": false}});
        assert_eq!(planned(&json!({"prefs": prefs}), &Allowed::default()), (DriverMode::Cold, wanted, String::new()));
    }

    fn spelled() -> impl Strategy<Value = String> {
        let around =
            || prop::sample::select(vec!["", "", " ", "\t", "\n", "\0", "\u{a0}", "=", "=x", " --", "\u{2011}"]);
        let dashes = prop::sample::select(vec!["", "-", "--", "--", "---", "\u{2013}", "\u{2014}", "--\t"]);
        let name = prop::sample::select(vec![
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
        ]);
        (around(), dashes, name, any::<bool>(), around()).prop_map(|(before, dashes, name, is_upper, after)| {
            let name = if is_upper { name.to_uppercase() } else { name.to_owned() };
            format!("{before}{dashes}{name}{after}")
        })
    }

    proptest! {
        #[test]
        fn no_spelling_brings_a_refused_or_unknown_switch_to_the_agent(
            args in prop::collection::vec(prop_oneof![spelled(), ".{0,20}"], 1..4),
        ) {
            let Ok(plan) = ask(&json!({"args": args}), &Allowed::default()) else { return Ok(()) };
            let left = plan.capabilities["firstMatch"][0][OPTIONS]["args"].as_array().cloned().unwrap_or_default();
            for argument in left.iter().filter_map(Value::as_str) {
                let class = Switch::read(argument).unwrap().class();
                prop_assert!(matches!(class, Class::Harmless | Class::Free), "{args:?} brought {argument:?}");
                prop_assert!(argument.starts_with("--") && argument.trim() == argument, "{argument:?}");
                prop_assert!(!argument.chars().any(char::is_control) && !argument.to_lowercase().contains("mojo"));
            }
        }
    }
}
