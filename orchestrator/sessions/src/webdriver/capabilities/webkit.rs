//! `webkitgtk:browserOptions`, and what else a WebKit worker has to look at.
//!
//! Everything that can be honoured is honoured by the warm browser: its driver tells it of certificates when a session
//! starts.

use serde_json::{Map, Value};
use warmpool_protocol::DriverMode;

use super::warnings::Warnings;
use super::{OWN_BROWSER, Rejection, refused};

/// The options of this engine.
const OPTIONS: &str = "webkitgtk:browserOptions";
/// Arguments that people carry from project to project. The worker has done the right thing already.
const HABITS: [&str; 3] = ["automation", "headless", "no-sandbox"];

/// Checks one alternative for WebKit, takes out what is true already, and says which browser it needs.
pub(super) fn check(caps: &mut Map<String, Value>, warnings: &mut Warnings) -> Result<DriverMode, Rejection> {
    match caps.remove("webSocketUrl") {
        None | Some(Value::Null | Value::Bool(false)) => {}
        Some(_) => {
            return Err(refused(
                "webSocketUrl",
                "WebKitGTK's driver does not speak WebDriver BiDi: leave it out, or use Chromium or Firefox",
            ));
        }
    }
    match caps.remove(OPTIONS) {
        None | Some(Value::Null) => Ok(DriverMode::Warm),
        Some(Value::Object(options)) => check_options(&options, warnings).map(|()| DriverMode::Warm),
        Some(_) => Err(refused(OPTIONS, "must be an object")),
    }
}

fn check_options(options: &Map<String, Value>, warnings: &mut Warnings) -> Result<(), Rejection> {
    for (name, value) in options {
        let path = || format!("{OPTIONS}.{name}");
        match (name.as_str(), value) {
            ("args", Value::Array(args)) => {
                for arg in args {
                    let Value::String(arg) = arg else { return Err(refused(path(), "must be an array of strings")) };
                    if !HABITS.contains(&arg.trim_start_matches('-')) {
                        return Err(refused(arg, "is no argument of this browser, which runs already: leave it out"));
                    }
                }
            }
            ("args", _) => return Err(refused(path(), "must be an array of strings")),
            // What its scroll bars are like already.
            ("useOverlayScrollbars", Value::Bool(true)) | ("certificates", Value::Null) => {}
            ("certificates", Value::Array(none)) if none.is_empty() => {}
            ("useOverlayScrollbars", _) => {
                return Err(refused(path(), "can only be true: the browser runs already"));
            }
            ("certificates", _) => {
                return Err(refused(path(), "cannot be honoured: use acceptInsecureCerts for hosts under test"));
            }
            ("binary", binary) => {
                if binary.as_str().is_some_and(|binary| !binary.is_empty()) {
                    warnings.idle(&path(), OWN_BROWSER);
                }
            }
            _ => return Err(refused(path(), "is not an option of this browser: leave it out")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use serde_json::json;

    fn ask(caps: Value) -> Result<Value, String> {
        let Value::Object(mut caps) = caps else { panic!("an object") };
        match check(&mut caps, &mut Warnings::default()) {
            Ok(mode) => {
                assert_eq!(mode, DriverMode::Warm);
                Ok(Value::Object(caps))
            }
            Err(Rejection::Refused(Error::Capability { capability, .. })) => Err(capability),
            Err(_) => panic!("another fault"),
        }
    }

    #[test]
    fn what_is_true_already_is_taken_out_and_the_rest_is_the_drivers() {
        let requested = json!({
            "acceptInsecureCerts": true, "webSocketUrl": false,
            OPTIONS: {"args": ["--automation", "--headless"], "binary": "/usr/bin/MiniBrowser", "useOverlayScrollbars": true, "certificates": []},
        });
        assert_eq!(ask(requested), Ok(json!({"acceptInsecureCerts": true})));
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_by_name() {
        for (requested, name) in [
            (json!({"webSocketUrl": true}), "webSocketUrl"),
            (json!({OPTIONS: 1}), OPTIONS),
            (json!({OPTIONS: {"args": ["--proxy=http://p"]}}), "--proxy=http://p"),
            (json!({OPTIONS: {"args": "x"}}), "webkitgtk:browserOptions.args"),
            (json!({OPTIONS: {"certificates": [{"host": "h"}]}}), "webkitgtk:browserOptions.certificates"),
            (json!({OPTIONS: {"unheardOf": 1}}), "webkitgtk:browserOptions.unheardOf"),
        ] {
            assert_eq!(ask(requested.clone()), Err(name.to_owned()), "{requested}");
        }
    }
}
