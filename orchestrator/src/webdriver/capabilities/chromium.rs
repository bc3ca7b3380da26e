//! `goog:chromeOptions`, and what else a Chromium worker has to look at.

use serde_json::{Map, Value, json};
use warmpool_protocol::DriverMode;
use warmpool_protocol::switches::{self, Class};

use super::warnings::Warnings;
use super::{OWN_BROWSER, Rejection, refused};

/// Members of `goog:chromeOptions` that the driver serves on any browser.
const DRIVER_OPTIONS: [&str; 5] = ["perfLoggingPrefs", "windowTypes", "enableExtensionTargets", "detach", "w3c"];

/// Members of `goog:chromeOptions` that take effect when a browser starts.
const START_OPTIONS: [&str; 4] = ["prefs", "localState", "extensions", "mobileEmulation"];

/// The vendor capability.
const OPTIONS: &str = "goog:chromeOptions";

/// Checks one alternative for Chromium, takes out what is true already, and says which browser it needs.
pub(super) fn check(
    caps: &mut Map<String, Value>,
    warm_args: &[String],
    warnings: &mut Warnings,
) -> Result<DriverMode, Rejection> {
    match caps.get_mut(OPTIONS) {
        None => Ok(DriverMode::Warm),
        Some(Value::Object(options)) => check_options(options, warm_args, warnings),
        Some(_) => Err(refused(OPTIONS, "must be an object")),
    }
}

fn check_options(
    options: &mut Map<String, Value>,
    warm_args: &[String],
    warnings: &mut Warnings,
) -> Result<DriverMode, Rejection> {
    let mut mode = DriverMode::Warm;
    for name in options.keys().cloned().collect::<Vec<_>>() {
        let value = &options[&name];
        let path = || format!("{OPTIONS}.{name}");
        match name.as_str() {
            "args" => {
                let Value::Array(args) = value else { return Err(refused(path(), "must be an array of strings")) };
                let mut left = Vec::new();
                for arg in args {
                    let Value::String(arg) = arg else { return Err(refused(path(), "must be an array of strings")) };
                    if !is_fulfilled(arg, warm_args)? {
                        left.push(json!(arg));
                    }
                }
                if left.is_empty() {
                    options.remove(&name);
                } else {
                    mode = DriverMode::Cold;
                    options.insert(name, Value::Array(left));
                }
            }
            // Switches that the driver would add to a browser of its own, and that the warm one does not have.
            "excludeSwitches" => {
                let wanted_away = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                if wanted_away.into_iter().any(|switch| has_switch(warm_args, switch)) {
                    mode = DriverMode::Cold;
                } else {
                    options.remove(&name);
                }
            }
            // An extension that no Chromium has had for years.
            "useAutomationExtension" => {
                options.remove(&name);
            }
            "binary" => {
                if value.as_str().is_some_and(|binary| !binary.is_empty()) {
                    warnings.idle(&path(), OWN_BROWSER);
                }
                options.remove(&name);
            }
            "debuggerAddress" | "minidumpPath" | "browserStartupTimeout" => {
                return Err(refused(path(), "is the worker's own affair: leave it out"));
            }
            name if START_OPTIONS.contains(&name) => {
                let empty = match value {
                    Value::Null => true,
                    Value::Array(list) => list.is_empty(),
                    Value::Object(map) => map.is_empty(),
                    _ => false,
                };
                if empty {
                    options.remove(name);
                } else {
                    mode = DriverMode::Cold;
                }
            }
            name if DRIVER_OPTIONS.contains(&name) => {}
            _ => return Err(refused(path(), "is not an option that can be honoured here: leave it out")),
        }
    }
    Ok(mode)
}

/// Whether a switch asks for nothing that the warm browser is not.
fn is_fulfilled(arg: &str, warm_args: &[String]) -> Result<bool, Rejection> {
    if switches::parts(arg).0.is_empty() {
        return Err(refused(arg, "is no command-line switch"));
    }
    let class = switches::class(arg);
    if class == Class::Refused {
        return Err(refused(arg, "would reach around the worker's isolation: leave it out"));
    }
    let is_warm = || warm_args.iter().any(|warm| warm.trim_start_matches('-') == arg.trim_start_matches('-'));
    Ok(class.is_fulfilled() || is_warm())
}

fn has_switch(args: &[String], switch: &str) -> bool {
    let switch = switch.trim_start_matches('-');
    args.iter().any(|arg| switches::parts(arg).0 == switch)
}
