//! What a WebDriver client may ask of its browser, and what that takes.
//!
//! `request` reads the body as the W3C standard says: `standard` checks each capability, and each alternative is merged
//! with what the client always wants; `legacy` understands the form before the standard. Then each alternative is
//! matched here.
//!
//! There are four outcomes for a capability: the warm browser has it already, or the driver can set it there; it needs a
//! browser started for it, inside the same container; it has no effect, and `warnings` say so; or it would weaken the
//! container's isolation, and is refused by name.

mod chromium;
mod firefox;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod legacy;
mod proxy;
mod request;
mod standard;
mod warnings;
mod webkit;

use serde_json::{Map, Value, json};
use warmpool_protocol::{Allowed as AllowedInChromium, DriverMode, firefox::Allowed as AllowedInFirefox};

use crate::Error;
use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_workers::egress::ClientProxy;

pub use request::candidates;
use warnings::Warnings;

/// Our own capability: of a grid's clients, an object with the fields of a create call; in answers, what we have to say.
pub const WARMPOOL_OPTIONS: &str = "warmpool:options";

/// The platform of every browser here.
const PLATFORM: &str = "linux";

/// Prefixes of the capabilities that every driver may take, beside those of its own vendor.
const SHARED: [&str; 2] = ["fedcm:", "webauthn:"];

/// Prefix of notes for a grid's console. They have no effect, and clients add them by themselves.
const NOTES: &str = "se:";

/// Why a path to a browser has no effect.
const OWN_BROWSER: &str = "a session has its worker's own browser";

/// Options by the engine whose they are.
const OPTIONS: [(Option<Engine>, &[&str]); 4] = [
    (Some(Engine::Chromium), &["goog:chromeOptions"]),
    (Some(Engine::Firefox), &["moz:firefoxOptions"]),
    (Some(Engine::Webkit), &["webkitgtk:browserOptions"]),
    (None, &["ms:edgeOptions", "safari:options"]),
];

/// What to ask of the driver.
#[derive(Debug)]
pub(super) struct Plan {
    /// On which browser.
    pub(super) mode: DriverMode,
    /// The capabilities, with all that the warm browser fulfils taken out.
    pub(super) capabilities: Value,
    /// The proxy of the alternative that comes first.
    pub(super) proxy: Option<ClientProxy>,
    /// What the client asks for that has no effect, in words.
    pub(super) warnings: Vec<String>,
}

/// What the operator allows clients to set beyond what the tables of the protocol know.
#[derive(Debug, Default)]
pub(crate) struct Allowed {
    /// In Chromium.
    pub chromium: AllowedInChromium,
    /// In Firefox.
    pub firefox: AllowedInFirefox,
}

impl Allowed {
    pub(super) fn from_config(config: &Config) -> Self {
        Self { chromium: config.chromium_allowed(), firefox: config.firefox_allowed() }
    }
}

/// Checks a new session's body and decides. `warm_args` are the warm browser's switches.
pub(super) fn plan(body: &Value, engine: Engine, warm_args: &[String], allowed: &Allowed) -> Result<Plan, Error> {
    let mut mode = DriverMode::Warm;
    let mut accepted = Vec::new();
    let mut proxies = Vec::new();
    let mut mismatch = None;
    let mut warnings = Warnings::default();
    for mut candidate in candidates(body)? {
        let mut idle = Warnings::default();
        let proxy = proxy::take(&mut candidate);
        match proxy.and_then(|proxy| Ok((check(&mut candidate, engine, warm_args, allowed, &mut idle)?, proxy))) {
            Ok((needs, proxy)) => {
                proxies.push(proxy);
                warnings.extend(idle);
                if needs == DriverMode::Cold {
                    mode = DriverMode::Cold;
                }
                accepted.push(Value::Object(candidate));
            }
            // One of several alternatives may be for another browser.
            Err(Rejection::OtherBrowser(error)) => mismatch = Some(error),
            Err(Rejection::Refused(error)) => return Err(error),
        }
    }
    match mismatch {
        Some(error) if accepted.is_empty() => Err(error),
        _ => {
            let capabilities = json!({"alwaysMatch": {}, "firstMatch": accepted});
            let proxy = proxies.into_iter().next().flatten();
            Ok(Plan { mode, capabilities, proxy, warnings: warnings.into_texts() })
        }
    }
}

enum Rejection {
    /// This alternative does not match.
    OtherBrowser(Error),
    /// No alternative may say this.
    Refused(Error),
}

fn refused(capability: impl Into<String>, message: &str) -> Rejection {
    Rejection::Refused(Error::Capability { capability: capability.into(), message: message.to_owned() })
}

/// Whether the standard has a capability of this name, or it is an extension's.
pub fn is_known(name: &str) -> bool {
    standard::has(name) || standard::is_extension(name)
}

/// Checks that an alternative has no options of other browsers than this engine's.
/// Errors: `Capability`, which names them.
pub fn match_options(caps: &Map<String, Value>, engine: Engine) -> Result<(), Error> {
    let others = OPTIONS.iter().filter(|(owner, _)| *owner != Some(engine)).flat_map(|(_, names)| names.iter());
    match others.into_iter().find(|name| caps.get(**name).is_some_and(|value| !is_default(name, value))) {
        None => Ok(()),
        Some(other) => {
            let message = format!("belongs to another browser than {engine}: create a session of that browser_type");
            Err(Error::Capability { capability: (*other).to_owned(), message })
        }
    }
}

/// Whether a capability is a note for a grid's console, or what some clients say to every browser.
fn is_default(name: &str, value: &Value) -> bool {
    name.starts_with(NOTES) || (name == "goog:chromeOptions" && *value == json!({"w3c": true}))
}

/// Checks one alternative, takes out what is true already or has no effect, and says which browser it needs.
fn check(
    caps: &mut Map<String, Value>,
    engine: Engine,
    warm_args: &[String],
    allowed: &Allowed,
    warnings: &mut Warnings,
) -> Result<DriverMode, Rejection> {
    let mismatch = |capability: &str, message: String| {
        Rejection::OtherBrowser(Error::Capability { capability: capability.to_owned(), message })
    };
    if let Some(name) = caps.get("browserName").and_then(Value::as_str) {
        if !engine.is_browser_name(name) {
            let name = standard::shown(name);
            let message = format!("this session has a {engine}, not a `{name}`: create a session of that browser_type");
            return Err(mismatch("browserName", message));
        }
        match driver_name(engine) {
            Some(name) => caps.insert("browserName".to_owned(), json!(name)),
            None => caps.remove("browserName"),
        };
    }
    if let Some(name) = caps.get("platformName").and_then(Value::as_str)
        && name != PLATFORM
    {
        let message =
            format!("there is no browser on `{}` here: leave it out, or ask for linux", standard::shown(name));
        return Err(mismatch("platformName", message));
    }
    match_options(caps, engine).map_err(Rejection::OtherBrowser)?;
    if let Some(unknown) = caps.keys().find(|name| !is_known(name)) {
        return Err(refused(standard::shown(unknown), "is no capability of the W3C standard: leave it out"));
    }
    caps.retain(|name, value| {
        let stays = is_drivers(name, engine);
        if !stays && !is_default(name, value) {
            warnings.idle(name, "no browser of this session knows it");
        }
        stays
    });
    match engine {
        Engine::Chromium => chromium::check(caps, warm_args, &allowed.chromium, warnings),
        Engine::Firefox => firefox::check(caps, warm_args, &allowed.firefox, warnings),
        Engine::Webkit => webkit::check(caps, warnings),
    }
}

/// Whether the engine's driver may know a capability: the standard's, and extensions of its vendor's or of every
/// browser's.
fn is_drivers(name: &str, engine: Engine) -> bool {
    let vendor = match engine {
        Engine::Chromium => "goog:",
        Engine::Firefox => "moz:",
        Engine::Webkit => "webkitgtk:",
    };
    standard::has(name) || name.starts_with(vendor) || SHARED.iter().any(|prefix| name.starts_with(prefix))
}

/// The `browserName` that the engine's driver answers to, if it answers to one.
fn driver_name(engine: Engine) -> Option<&'static str> {
    match engine {
        // What chromedriver calls both Chrome and Chromium.
        Engine::Chromium | Engine::Firefox => Some(engine.browser_name()),
        Engine::Webkit => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warm() -> Vec<String> {
        vec!["--no-first-run".to_owned(), "--window-size=1280,800".to_owned()]
    }

    fn ask(body: Value) -> Result<Plan, Error> {
        plan(&body, Engine::Chromium, &warm(), &Allowed::default())
    }

    fn options(options: Value) -> Result<Plan, Error> {
        ask(json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}))
    }

    #[test]
    fn what_is_true_already_keeps_the_browser_warm() {
        let plan = ask(json!({"capabilities": {
            "alwaysMatch": {
                "browserName": "chromium",
                "acceptInsecureCerts": true,
                "goog:chromeOptions": {
                    "args": ["--headless=new", "no-sandbox", "--disable-dev-shm-usage", "--no-first-run"],
                    "extensions": [],
                    "excludeSwitches": ["enable-automation"],
                    "prefs": {},
                },
            },
        }}))
        .unwrap();
        assert_eq!(plan.mode, DriverMode::Warm);
        let expected = json!({"browserName": "chrome", "acceptInsecureCerts": true, "goog:chromeOptions": {}});
        assert_eq!(plan.capabilities["firstMatch"], json!([expected]));
    }

    #[test]
    fn what_a_running_browser_cannot_take_needs_one_of_its_own() {
        for requested in [
            json!({"args": ["--lang=fr"]}),
            json!({"prefs": {"download.prompt_for_download": false}}),
            json!({"extensions": ["AAAA"]}),
            json!({"mobileEmulation": {"deviceName": "Pixel 2"}}),
            json!({"args": ["--window-size=800,600"]}),
        ] {
            assert_eq!(options(requested.clone()).unwrap().mode, DriverMode::Cold, "{requested}");
        }
    }

    #[test]
    fn a_proxy_is_the_daemons_affair() {
        let ask = |proxy: Value| ask(json!({"capabilities": {"alwaysMatch": {"proxy": proxy}}}));
        let plan = ask(json!({"proxyType": "manual", "httpProxy": "p:1"})).unwrap();
        assert_eq!(plan.mode, DriverMode::Warm);
        assert!(plan.proxy.is_some() && plan.capabilities["firstMatch"] == json!([{}]), "{:?}", plan.capabilities);
        assert!(ask(json!({"proxyType": "direct"})).unwrap().proxy.is_none());
        for (proxy, name) in [
            (json!({"proxyType": "pac", "proxyAutoconfigUrl": "http://p"}), "proxy.proxyType"),
            (json!({"proxyType": "manual", "socksProxy": "p:1", "socksVersion": 4}), "proxy.socksVersion"),
        ] {
            match ask(proxy.clone()) {
                Err(Error::Capability { capability, .. }) => assert_eq!(capability, name),
                other => panic!("{proxy}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_weakens_isolation_is_refused_by_name() {
        for (requested, name) in [
            (json!({"debuggerAddress": "127.0.0.1:1"}), "goog:chromeOptions.debuggerAddress"),
            (json!({"args": ["--remote-debugging-port=1"]}), "--remote-debugging-port=1"),
            (json!({"args": ["Remote-Allow-Origins=*"]}), "Remote-Allow-Origins=*"),
            (json!({"args": ["--user-data-dir=/x"]}), "--user-data-dir=/x"),
            (json!({"args": ["--disable-seccomp-filter-sandbox"]}), "--disable-seccomp-filter-sandbox"),
            (json!({"unheardOf": 1}), "goog:chromeOptions.unheardOf"),
        ] {
            match options(requested.clone()) {
                Err(Error::Capability { capability, .. }) => assert_eq!(capability, name),
                other => panic!("{requested}: {other:?}"),
            }
        }
    }

    #[test]
    fn alternatives_for_other_browsers_are_passed_over() {
        let both = json!({"capabilities": {"firstMatch": [{"browserName": "firefox"}, {"browserName": "chrome"}]}});
        assert_eq!(ask(both).unwrap().capabilities["firstMatch"], json!([{"browserName": "chrome"}]));
        let none = json!({"capabilities": {"firstMatch": [{"browserName": "firefox"}]}});
        assert!(matches!(ask(none), Err(Error::Capability { .. })));
        let options = json!({"capabilities": {"alwaysMatch": {"moz:firefoxOptions": {}}}});
        assert!(matches!(ask(options), Err(Error::Capability { .. })));
    }

    #[test]
    fn names_match_as_they_are_written() {
        for (always, name) in [
            (json!({"browserName": "Chrome"}), "browserName"),
            (json!({"browserName": ""}), "browserName"),
            (json!({"platformName": "LINUX"}), "platformName"),
            (json!({"platformName": "windows"}), "platformName"),
        ] {
            match ask(json!({"capabilities": {"alwaysMatch": always}})) {
                Err(Error::Capability { capability, .. }) => assert_eq!(capability, name),
                other => panic!("{always}: {other:?}"),
            }
        }
        let first = json!([
            {"platformName": "LINUX", "pageLoadStrategy": "none"},
            {"platformName": "linux", "pageLoadStrategy": "eager"},
        ]);
        let plan = ask(json!({"capabilities": {"firstMatch": first}})).unwrap();
        assert_eq!(plan.capabilities["firstMatch"], json!([first[1]]));
    }

    #[test]
    fn what_no_browser_here_knows_is_left_out_and_said() {
        let always = json!({
            "cloud:options": {"user": "x"}, "wdio:enforceWebDriverClassic": true, "test:extension": [], "se:name": "shop",
            "moz:webdriverClick": true, "browserName": "chrome",
        });
        let plan = ask(json!({"capabilities": {"alwaysMatch": always}})).unwrap();
        assert_eq!(plan.capabilities["firstMatch"], json!([{"browserName": "chrome"}]));
        let said = plan.warnings.join(" ");
        for name in ["cloud:options", "wdio:enforceWebDriverClassic", "test:extension", "moz:webdriverClick"] {
            assert!(said.contains(name), "{name}: {said}");
        }
        assert_eq!(plan.warnings.len(), 4, "{said}");
        // Nothing is said of alternatives that are not taken.
        let first = json!([{"browserName": "firefox", "a:b": 1}, {"browserName": "chrome"}]);
        assert!(ask(json!({"capabilities": {"firstMatch": first}})).unwrap().warnings.is_empty());
    }

    #[test]
    fn a_path_to_a_browser_has_no_effect() {
        let plan = options(json!({"binary": "/usr/bin/google-chrome"})).unwrap();
        assert_eq!(plan.mode, DriverMode::Warm);
        assert_eq!(plan.capabilities["firstMatch"], json!([{"goog:chromeOptions": {}}]));
        assert!(plan.warnings[0].contains("goog:chromeOptions.binary"), "{:?}", plan.warnings);
        assert!(options(json!({"binary": ""})).unwrap().warnings.is_empty());
    }

    #[test]
    fn the_form_of_old_clients_is_understood() {
        let plan =
            ask(json!({"desiredCapabilities": {"browserName": "chrome", "chromeOptions": {"args": ["--mute-audio"]}}}));
        let plan = plan.unwrap();
        assert_eq!(plan.mode, DriverMode::Cold);
        assert_eq!(plan.capabilities["firstMatch"][0]["goog:chromeOptions"]["args"], json!(["--mute-audio"]));
        let unknown = ask(json!({"desiredCapabilities": {"colour": "red"}}));
        assert!(matches!(unknown, Err(Error::Capability { .. })), "{unknown:?}");
    }
}
