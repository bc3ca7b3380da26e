//! The capabilities of the W3C standard: which there are, and what their values may be.
//!
//! <https://w3c.github.io/webdriver/#dfn-validate-capabilities>, with two concessions to what clients send and drivers
//! take: a proxy's host may have a scheme, and a proxy may have the members that older editions and Selenium give it.

use serde_json::{Map, Value, json};
use url::Url;

use crate::Error;
use warmpool_core::error::FieldFault as _;

/// The capabilities with a plain name that a client may ask for.
const NAMES: [&str; 10] = [
    "acceptInsecureCerts",
    "browserName",
    "browserVersion",
    "pageLoadStrategy",
    "platformName",
    "proxy",
    "strictFileInteractability",
    "timeouts",
    "unhandledPromptBehavior",
    "webSocketUrl",
];

/// When a navigation is over.
const STRATEGIES: [&str; 3] = ["none", "eager", "normal"];

/// What may become of a dialogue that nobody has answered.
const HANDLERS: [&str; 5] = ["accept", "accept and notify", "dismiss", "dismiss and notify", "ignore"];

/// Kinds of dialogue, and what holds for all others.
const PROMPTS: [&str; 6] = ["alert", "beforeUnload", "confirm", "default", "file", "prompt"];

/// Kinds of proxy.
const PROXIES: [&str; 5] = ["autodetect", "direct", "manual", "pac", "system"];

/// The largest whole number that every JSON parser can hold: 2^53 - 1.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// How much of a client's name for something is repeated to it.
const SHOWN: usize = 100;

/// Whether the standard has a capability of this name.
pub(super) fn has(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Whether a name is an extension's: a vendor's prefix, a colon, and a name of the vendor's.
pub(super) fn is_extension(name: &str) -> bool {
    name.contains(':')
}

/// A client's name for something, as far as it is repeated.
pub(super) fn shown(name: &str) -> String {
    name.chars().take(SHOWN).collect()
}

/// Refuses names that the standard does not have and values that it does not allow. `null` asks for nothing. An extension's
/// values are its owner's to check.
/// Errors: `Field`, which names the capability.
pub(super) fn validate(capabilities: &Map<String, Value>) -> Result<(), Error> {
    let mut wishes = capabilities.iter().filter(|(_, value)| !value.is_null());
    wishes.try_for_each(|(name, value)| match has(name) {
        true => validate_value(name, value),
        false if is_extension(name) => Ok(()),
        false => Err(Error::invalid(shown(name), "is not a capability of the W3C standard: leave it out")),
    })
}

/// Refuses a value that the standard does not allow. A name that it does not have passes.
/// Errors: `Field`, which names the capability.
pub(super) fn validate_value(name: &str, value: &Value) -> Result<(), Error> {
    match name {
        "acceptInsecureCerts" | "strictFileInteractability" | "webSocketUrl" => {
            must(value.is_boolean(), name, "must be true or false")
        }
        "browserName" | "browserVersion" | "platformName" => must(value.is_string(), name, "must be a string"),
        "pageLoadStrategy" => one_of(name, value, &STRATEGIES),
        "proxy" => proxy(value),
        "timeouts" => timeouts(value),
        "unhandledPromptBehavior" => prompt_behavior(value),
        _ => Ok(()),
    }
}

/// Writes whole numbers as such: `2.0` is one by the standard, and not to every driver.
pub(super) fn normalize(capabilities: &mut Map<String, Value>) {
    for (name, members) in [("timeouts", ["implicit", "pageLoad", "script"].as_slice()), ("proxy", &["socksVersion"])] {
        for member in members {
            if let Some(number) = capabilities.get_mut(name).and_then(|object| object.get_mut(*member))
                && let Some(whole) = whole(number)
            {
                *number = json!(whole);
            }
        }
    }
}

fn must(holds: bool, name: &str, message: &str) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::invalid(name, message)) }
}

fn one_of(name: &str, value: &Value, allowed: &[&str]) -> Result<(), Error> {
    let known = value.as_str().is_some_and(|value| allowed.contains(&value));
    must(known, name, &format!("must be one of: {}", allowed.join(", ")))
}

/// A whole number from 0 to 2^53 - 1.
fn whole(value: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "in range"
    )]
    let of_float = |number: f64| {
        let fits = number.fract() == 0.0 && (0.0..=MAX_SAFE_INTEGER as f64).contains(&number);
        fits.then_some(number as u64)
    };
    value.as_u64().or_else(|| of_float(value.as_f64()?)).filter(|number| *number <= MAX_SAFE_INTEGER)
}

fn timeouts(value: &Value) -> Result<(), Error> {
    let Value::Object(timeouts) = value else { return Err(Error::invalid("timeouts", "must be an object")) };
    for (kind, value) in timeouts {
        let name = format!("timeouts.{}", shown(kind));
        match kind.as_str() {
            // A script may take as long as it likes.
            "script" if value.is_null() => {}
            "script" | "pageLoad" | "implicit" => {
                must(whole(value).is_some(), &name, "must be a whole number of milliseconds, from 0 to 2^53 - 1")?;
            }
            _ => return Err(Error::invalid(&name, "is unknown: there are script, pageLoad and implicit")),
        }
    }
    Ok(())
}

fn prompt_behavior(value: &Value) -> Result<(), Error> {
    const NAME: &str = "unhandledPromptBehavior";
    let Value::Object(handlers) = value else { return one_of(NAME, value, &HANDLERS) };
    for (prompt, handler) in handlers {
        let name = format!("{NAME}.{}", shown(prompt));
        must(PROMPTS.contains(&prompt.as_str()), &name, &format!("is unknown: there are {}", PROMPTS.join(", ")))?;
        one_of(&name, handler, &HANDLERS)?;
    }
    Ok(())
}

fn proxy(value: &Value) -> Result<(), Error> {
    let Value::Object(proxy) = value else { return Err(Error::invalid("proxy", "must be an object")) };
    for (member, value) in proxy {
        let name = format!("proxy.{}", shown(member));
        match member.as_str() {
            "proxyType" => one_of(&name, value, &PROXIES)?,
            "proxyAutoconfigUrl" => {
                let is_url = value.as_str().is_some_and(|text| Url::parse(text).is_ok());
                must(is_url, &name, "must be a URL")?;
            }
            "ftpProxy" | "httpProxy" | "sslProxy" | "socksProxy" => {
                must(value.as_str().is_some_and(is_host), &name, "must be a host, with a port where it has one")?;
            }
            "noProxy" => {
                let are_texts = value.as_array().is_some_and(|hosts| hosts.iter().all(Value::is_string));
                must(are_texts, &name, "must be an array of strings")?;
            }
            "socksVersion" => {
                let fits = whole(value).is_some_and(|version| version <= u64::from(u8::MAX));
                must(fits, &name, "must be a whole number from 0 to 255")?;
            }
            "socksUsername" | "socksPassword" => must(value.is_string(), &name, "must be a string")?,
            "autodetect" => must(value.is_boolean(), &name, "must be true or false")?,
            _ => return Err(Error::invalid(&name, "is not a member of a proxy: leave it out")),
        }
    }
    Ok(())
}

/// `host`, `host:port`, or the same with credentials or a scheme before it.
fn is_host(text: &str) -> bool {
    let host = text.split_once("://").map_or(text, |(_, host)| host).trim_end_matches('/');
    let url = Url::parse(&format!("http://{host}"));
    url.is_ok_and(|url| url.path() == "/" && url.query().is_none() && url.fragment().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_valid(name: &str, value: Value) -> bool {
        let caps = Map::from_iter([(name.to_owned(), value)]);
        match validate(&caps) {
            Ok(()) => true,
            Err(Error::Field(error)) => {
                assert!(error.to_string().starts_with(&format!("`{name}")), "{caps:?}: {error}");
                false
            }
            Err(other) => panic!("{caps:?}: {other:?}"),
        }
    }

    #[test]
    fn values_that_the_standard_allows_pass() {
        for (name, values) in [
            ("acceptInsecureCerts", json!([true, false, null])),
            ("browserName", json!(["chrome", "", null])),
            ("browserVersion", json!(["1", null])),
            ("platformName", json!(["linux", null])),
            ("pageLoadStrategy", json!(["none", "eager", "normal", null])),
            ("strictFileInteractability", json!([true, false, null])),
            ("webSocketUrl", json!([true, false, null])),
            ("setWindowRect", json!([null])),
            ("unheardOf", json!([null])),
            (
                "proxy",
                json!([
                    null, {}, {"proxyType": "direct"}, {"proxyType": "system"}, {"proxyType": "autodetect"},
                    {"proxyType": "autodetect", "autodetect": true},
                    {"proxyType": "pac", "proxyAutoconfigUrl": "http://p/x.pac"},
                    {"proxyType": "manual", "httpProxy": "p:1", "sslProxy": "10.0.0.1", "noProxy": ["a", ".b"]},
                    {"proxyType": "manual", "httpProxy": "http://p:1", "sslProxy": "user:word@[::1]:1"},
                    {"proxyType": "manual", "socksProxy": "p:1", "socksVersion": 5, "socksUsername": "a"},
                    {"proxyType": "manual", "socksProxy": "p:1", "socksVersion": 5.0},
                ]),
            ),
            (
                "timeouts",
                json!([
                    null, {}, {"script": null}, {"script": 0, "pageLoad": 2.0, "implicit": MAX_SAFE_INTEGER},
                    {"script": 50, "pageLoad": 25}, {"script": -0.0},
                ]),
            ),
            (
                "unhandledPromptBehavior",
                json!([
                    null, "accept", "accept and notify", "dismiss", "dismiss and notify", "ignore", {},
                    {"alert": "accept", "beforeUnload": "ignore", "confirm": "dismiss", "default": "ignore",
                     "file": "dismiss", "prompt": "accept and notify"},
                ]),
            ),
            ("test:extension", json!([null, false, "abc", 123, [], {"key": "value"}])),
        ] {
            for value in values.as_array().unwrap() {
                assert!(is_valid(name, value.clone()), "{name}: {value}");
            }
        }
    }

    #[test]
    fn values_that_the_standard_does_not_allow_are_refused_by_name() {
        for (name, values) in [
            ("acceptInsecureCerts", json!([1, [], {}, "false"])),
            ("browserName", json!([1, [], {}, false])),
            ("browserVersion", json!([1, [], {}, false])),
            ("platformName", json!([1, [], {}, false])),
            (
                "pageLoadStrategy",
                json!([1, [], {}, false, "invalid", "NONE", "Eager", "eagerblah", "interactive", " eager", "eager "]),
            ),
            ("strictFileInteractability", json!([1, [], {}, "false"])),
            ("webSocketUrl", json!([1, [], {}, "true"])),
            ("setWindowRect", json!([true, false, 1, [], {}, "false"])),
            ("userAgent", json!(["x"])),
            (
                "proxy",
                json!([
                    1, [], "{}", {"proxyType": "SYSTEM"}, {"proxyType": "systemSomething"}, {"proxy type": "pac"},
                    {"proxytype": "system"}, {" proxyType": "system"}, {"proxyType": null}, {"proxyType": 1},
                    {"proxyType": []}, {"proxyType": {"value": "system"}}, {"proxyType": "system "},
                    {"proxyAutoconfigUrl": "nowhere"}, {"httpProxy": ""}, {"httpProxy": "p:1/path"},
                    {"httpProxy": "p:99999"}, {"httpProxy": 1}, {"httpProxy": "p?x"}, {"noProxy": "a,b"},
                    {"noProxy": [1]}, {"socksVersion": "5"}, {"socksVersion": 256}, {"socksVersion": -1},
                    {"socksUsername": 1}, {"autodetect": "yes"},
                ]),
            ),
            (
                "timeouts",
                json!([
                    1, [], "{}", false, {"invalid": 10}, {"PAGELOAD": 10}, {" pageLoad": 10}, {"pageLoad": null},
                    {"implicit": null}, {"pageLoad": false}, {"pageLoad": []}, {"pageLoad": "10"}, {"pageLoad": 2.5},
                    {"pageLoad": -1}, {"script": -1}, {"pageLoad": MAX_SAFE_INTEGER + 1}, {"pageLoad": u64::MAX},
                    {"pageLoad": 1e300}, {"pageLoad": {"value": 10}}, {"pageLoad": 10, "invalid": 10},
                ]),
            ),
            (
                "unhandledPromptBehavior",
                json!([
                    1, [], false, "DISMISS", "dismissABC", "Accept", " dismiss", "dismiss ", {"alert": 1},
                    {"alert": "Accept"}, {"alert": null}, {"ALERT": "accept"}, {"alert": {"prompt": "accept"}},
                ]),
            ),
        ] {
            for value in values.as_array().unwrap() {
                assert!(!is_valid(name, value.clone()), "{name}: {value}");
            }
        }
    }

    #[test]
    fn plain_names_are_the_standards() {
        for name in
            ["automaticInspection", "chromeOptions", "firefox", "javascriptEnabled", "platform", "safari.options"]
        {
            assert!(!is_valid(name, json!({})), "{name}");
        }
        assert!(!is_valid("", json!(1)) && !is_valid("BrowserName", json!("chrome")));
        let long = "x".repeat(10_000);
        let Err(error) = validate(&Map::from_iter([(long, json!(1))])) else { panic!("it passed") };
        assert!(error.to_string().len() < 300, "{error}");
    }

    #[test]
    fn whole_numbers_are_written_as_such() {
        let Value::Object(mut caps) = json!({
            "timeouts": {"script": null, "pageLoad": 2.0, "implicit": 3},
            "proxy": {"proxyType": "manual", "socksVersion": 5.0},
        }) else {
            panic!("an object")
        };
        normalize(&mut caps);
        assert_eq!(caps["timeouts"].to_string(), json!({"script": null, "pageLoad": 2, "implicit": 3}).to_string());
        assert_eq!(caps["proxy"]["socksVersion"].to_string(), "5");
    }
}
