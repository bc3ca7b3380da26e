//! Capabilities for the fuzzer: what is planned for a driver passes the same checks again, and no switch that the fence
//! refuses is among it.

use serde_json::Value;
use warmpool_protocol::switches::{Class, Switch};

use super::{Allowed, Plan, plan};
use crate::Error;
use warmpool_core::browser::Engine;
use warmpool_core::error::{Code, Fault as _};

/// Bodies for each engine. The first byte of an input sets which.
pub fn seeds() -> Vec<Vec<u8>> {
    let bodies: [(u8, &str); 5] = [
        (
            0,
            r#"{"capabilities":{"alwaysMatch":{"browserName":"chrome","pageLoadStrategy":"eager","timeouts":{"script":1000,"pageLoad":null},"acceptInsecureCerts":true,"goog:chromeOptions":{"args":["--lang=de","headless=new","--enable-features=A,B","--js-flags=--expose-gc"],"prefs":{"download.default_directory":"/tmp"},"mobileEmulation":{"deviceName":"Pixel 7"},"excludeSwitches":["enable-automation"],"extensions":[]},"goog:loggingPrefs":{"browser":"ALL"}},"firstMatch":[{},{"platformName":"linux"}]}}"#,
        ),
        (
            1,
            r#"{"capabilities":{"alwaysMatch":{"moz:firefoxOptions":{"args":["-headless","-width=800"],"prefs":{"a.b":true,"intl.accept_languages":"de"},"log":{"level":"trace"},"env":{"MOZ_LOG":"x"}},"webSocketUrl":true,"unhandledPromptBehavior":{"alert":"accept"}}}}"#,
        ),
        (
            2,
            r#"{"capabilities":{"firstMatch":[{"browserName":"MiniBrowser","webkitgtk:browserOptions":{"binary":"/x","args":["--automation"]}}]}}"#,
        ),
        (
            0,
            r#"{"desiredCapabilities":{"browserName":"chrome","version":"","platform":"ANY","chromeOptions":{"args":["--disable-gpu"]}}}"#,
        ),
        (
            0,
            r#"{"capabilities":{"alwaysMatch":{"proxy":{"proxyType":"manual","httpProxy":"a.test:1","sslProxy":"a.test:1","noProxy":["b.test"]},"se:name":"x","webauthn:virtualAuthenticators":true}}}"#,
        ),
    ];
    bodies.map(|(engine, body)| [&[engine], body.as_bytes()].concat()).into()
}

/// Panics when a driver would get something that was not judged.
pub fn check(bytes: &[u8]) {
    let [engine, body @ ..] = bytes else { return };
    let engine = Engine::ALL[usize::from(*engine) % Engine::ALL.len()];
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return };
    let planned = match planned(&body, engine) {
        Ok(planned) => planned,
        Err(error) => return assert_ne!(error.code(), Code::Internal, "{error:?} is our fault"),
    };
    let again = planned_again(&planned, engine);
    let told = again.as_ref().map(|again| (&again.capabilities, again.mode));
    assert_eq!(told.ok(), Some((&planned.capabilities, planned.mode)), "{again:?}");
    for candidate in planned.capabilities["firstMatch"].as_array().into_iter().flatten() {
        for argument in candidate["goog:chromeOptions"]["args"].as_array().into_iter().flatten() {
            let switch = argument.as_str().and_then(|text| Switch::read(text).ok());
            let class = switch.map(|switch| switch.class());
            assert!(!matches!(class, None | Some(Class::Refused | Class::Ours)), "{argument} reaches a browser");
        }
    }
}

fn planned(body: &Value, engine: Engine) -> Result<Plan, Error> {
    plan(body, engine, &["--headless=new".to_owned()], &Allowed::default())
}

/// The plan for what a plan asks of the driver.
fn planned_again(planned: &Plan, engine: Engine) -> Result<Plan, Error> {
    self::planned(&serde_json::json!({"capabilities": planned.capabilities}), engine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_seeds_make_a_plan() {
        let planned = seeds().into_iter().map(|seed| {
            let body: Value = serde_json::from_slice(&seed[1..]).unwrap();
            planned(&body, Engine::ALL[usize::from(seed[0])])
        });
        let refused: Vec<String> = planned.filter_map(Result::err).map(|error| error.to_string()).collect();
        // The environment of a Firefox is the worker's.
        assert!(refused.len() <= 2, "{refused:#?}");
    }
}
