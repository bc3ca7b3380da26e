//! New sessions in the way of Selenium Grid, Selenoid and Moon.
//!
//! Of the alternatives that a client offers the first that fits is taken, as a grid does. What concerns the service and
//! not the browser is taken out, because drivers refuse it.

mod vendor;

use serde_json::{Map, Value, json};

use super::{Wish, switches};
use crate::engine::Engine;
use crate::error::Error;
use crate::look::Viewport;

/// Our own capability: an object with the fields of a create call.
pub const OWN: &str = "warmpool:options";

/// The capabilities with a plain name that the W3C standard has.
const STANDARD: [&str; 12] = [
    "acceptInsecureCerts",
    "browserName",
    "browserVersion",
    "pageLoadStrategy",
    "platformName",
    "proxy",
    "setWindowRect",
    "strictFileInteractability",
    "timeouts",
    "unhandledPromptBehavior",
    "webSocketUrl",
    "userAgent",
];

/// A new session that a grid client wants.
#[derive(Debug, PartialEq)]
pub struct NewSession {
    /// Of the session: its fields of a create call.
    pub wish: Wish,
    /// The engine that fits.
    pub engine: Engine,
    /// The browser's version, where the client insists on one.
    pub version: Option<String>,
    /// Whether the client wants to fetch downloads.
    pub downloads: bool,
    /// The size that its window is to have.
    pub screen: Option<Viewport>,
    /// Of the driver: the body of its new session.
    pub body: Value,
}

/// Reads a new-session body. `known` says which version an engine has, where that is known.
///
/// # Errors
/// `InvalidBody` and `InvalidField` for a body of a wrong form, `Capability` when nothing fits, or for what is refused.
pub fn read(body: &Value, known: impl Fn(Engine) -> Option<String>) -> Result<NewSession, Error> {
    let mut mismatch = None;
    for candidate in crate::webdriver::candidates(body)? {
        match read_one(candidate, &known) {
            Ok(session) => return Ok(session),
            Err(Fault::Mismatch(error)) => mismatch = mismatch.or(Some(error)),
            Err(Fault::Refused(error)) => return Err(error),
        }
    }
    Err(mismatch.unwrap_or_else(|| Error::InvalidBody { message: "a new session needs `capabilities`".to_owned() }))
}

/// Whether a browser of version `has` is what a client who asks for `wants` means.
#[must_use]
pub fn version_fits(wants: &str, has: &str) -> bool {
    has == wants || has.strip_prefix(wants).is_some_and(|rest| rest.starts_with('.'))
}

/// The error for a version that is not here.
#[must_use]
pub fn other_version(wants: &str, engine: Engine, has: &str) -> Error {
    let message = format!("there is no {engine} of version `{wants}` here, but {has}: leave it out, or ask for that");
    Error::Capability { capability: "browserVersion".to_owned(), message }
}

/// Why an alternative is not taken.
enum Fault {
    /// It does not fit; another may.
    Mismatch(Error),
    /// No alternative may say this.
    Refused(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

fn refused(capability: impl Into<String>, message: impl Into<String>) -> Error {
    Error::Capability { capability: capability.into(), message: message.into() }
}

fn read_one(mut caps: Map<String, Value>, known: impl Fn(Engine) -> Option<String>) -> Result<NewSession, Fault> {
    caps.retain(|_, value| !value.is_null());
    old_names(&mut caps);
    let engine = engine(&caps)?;
    platform(&mut caps)?;
    let version = version(&mut caps)?;
    if let Some(wants) = &version
        && let Some(has) = known(engine)
        && !version_fits(wants, &has)
    {
        return Err(Fault::Mismatch(other_version(wants, engine, &has)));
    }
    let mut wish = Wish::default();
    own(&mut wish, &mut caps, engine)?;
    let asked = vendor::read(&mut wish, &mut caps)?;
    if headless(&mut caps) {
        wish.set_default("headless", json!(true));
    }
    if engine == Engine::Chromium {
        drop_any_port(&mut caps);
    }
    wish.set_default("browser_type", json!(engine));
    wish.set_default("url", json!("about:blank"));
    let body = json!({"capabilities": {"alwaysMatch": caps}});
    Ok(NewSession { wish, engine, version, downloads: asked.downloads, screen: asked.screen, body })
}

/// What clients sent before the W3C standard: names that have another one now, and wishes that every browser fulfils.
fn old_names(caps: &mut Map<String, Value>) {
    for (old, new) in [("version", "browserVersion"), ("platform", "platformName")] {
        if let Some(value) = caps.remove(old) {
            caps.entry(new).or_insert(value);
        }
    }
    for name in [
        "acceptSslCerts",
        "applicationCacheEnabled",
        "cssSelectorsEnabled",
        "databaseEnabled",
        "handlesAlerts",
        "javascriptEnabled",
        "locationContextEnabled",
        "nativeEvents",
        "rotatable",
        "takesScreenshot",
        "webStorageEnabled",
    ] {
        caps.remove(name);
    }
}

/// The engine by the browser's name, else by whose options there are, else Chromium.
fn engine(caps: &Map<String, Value>) -> Result<Engine, Fault> {
    match caps.get("browserName") {
        Some(Value::String(name)) if !name.is_empty() => {
            let found = Engine::ALL.into_iter().find(|engine| engine.is_browser_name(name));
            found.ok_or_else(|| {
                let message = format!(
                    "there is no `{name}` here: ask for chrome, chromium, firefox, webkit, MiniBrowser or safari"
                );
                Fault::Mismatch(refused("browserName", message))
            })
        }
        None | Some(Value::String(_)) => Ok(if caps.contains_key("moz:firefoxOptions") {
            Engine::Firefox
        } else if caps.contains_key("webkitgtk:browserOptions") {
            Engine::Webkit
        } else {
            Engine::Chromium
        }),
        Some(_) => Err(refused("browserName", "must be a string").into()),
    }
}

/// Every browser here runs on Linux.
fn platform(caps: &mut Map<String, Value>) -> Result<(), Fault> {
    match caps.remove("platformName") {
        None => Ok(()),
        Some(Value::String(name))
            if matches!(name.to_ascii_lowercase().as_str(), "" | "*" | "any" | "linux" | "unix") =>
        {
            Ok(())
        }
        Some(Value::String(name)) => {
            let message = format!("there is no browser on `{name}` here: leave it out, or ask for linux");
            Err(Fault::Mismatch(refused("platformName", message)))
        }
        Some(_) => Err(refused("platformName", "must be a string").into()),
    }
}

fn version(caps: &mut Map<String, Value>) -> Result<Option<String>, Fault> {
    match caps.remove("browserVersion") {
        None => Ok(None),
        Some(Value::String(version)) => {
            let any = matches!(version.to_ascii_lowercase().as_str(), "" | "*" | "any" | "stable" | "latest");
            Ok((!any).then_some(version))
        }
        Some(_) => Err(refused("browserVersion", "must be a string").into()),
    }
}

/// `warmpool:options`: the fields of a create call, as they are.
fn own(wish: &mut Wish, caps: &mut Map<String, Value>, engine: Engine) -> Result<(), Fault> {
    let fields = match caps.remove(OWN) {
        None => return Ok(()),
        Some(Value::Object(fields)) => fields,
        Some(_) => return Err(refused(OWN, "must be an object").into()),
    };
    if fields.get("browser_type").is_some_and(|named| !named.is_null() && *named != json!(engine)) {
        let message = format!("names another browser than `browserName`, which is {engine}");
        return Err(refused(format!("{OWN}.browser_type"), message).into());
    }
    wish.fields.extend(fields);
    Ok(())
}

/// Takes the wish for a browser without a display out of the browser's own options, and tells it.
fn headless(caps: &mut Map<String, Value>) -> bool {
    let mut wanted = false;
    for name in ["goog:chromeOptions", "chromeOptions", "moz:firefoxOptions", "webkitgtk:browserOptions"] {
        let Some(Value::Object(options)) = caps.get_mut(name) else { continue };
        if let Some(Value::Array(args)) = options.get_mut("args") {
            args.retain(|arg| {
                let said = switches::headless(arg);
                wanted = said.unwrap_or(wanted);
                said.is_none()
            });
            if args.is_empty() {
                options.remove("args");
            }
        }
        if options.is_empty() {
            caps.remove(name);
        }
    }
    wanted
}

/// Playwright asks the driver for a debugging port of its choice. There is one always.
fn drop_any_port(caps: &mut Map<String, Value>) {
    if let Some(Value::Array(args)) = caps.get_mut("goog:chromeOptions").and_then(|options| options.get_mut("args")) {
        args.retain(|arg| arg != "--remote-debugging-port=0");
    }
}

#[cfg(test)]
mod tests;
