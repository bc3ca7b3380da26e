//! New sessions in the way of Selenium Grid, Selenoid and Moon.
//!
//! Of the alternatives that a client offers the first that matches by the W3C standard is taken; where none does, the first
//! that fits as on a grid, which cares little for upper and lower case. What concerns the service and not the browser is
//! taken out, because drivers refuse it. Clients from before the standard send `desiredCapabilities` beside the alternatives,
//! with the service's options in their plain form, and those count as well.

mod vendor;

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use warmpool_protocol::Size;

use super::{CreateBody, switches};
use vendor::VendorOptions;
use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_sessions::Error;
use warmpool_sessions::session::{Ending, Options, Session, SessionKind};
use warmpool_sessions::webdriver::{WARMPOOL_OPTIONS, candidates, match_options};

/// A new session that a grid client wants.
#[derive(Debug, PartialEq)]
pub(crate) struct NewSession {
    /// Of the session: its fields of a create call.
    pub create_body: CreateBody,
    /// The engine that fits.
    pub engine: Engine,
    /// The browser's version, where the client insists on one.
    pub version: Option<String>,
    /// Whether the client wants to fetch downloads.
    pub downloads: bool,
    /// The size that its window is to have.
    pub screen: Option<Size>,
    /// Of the driver: the body of its new session.
    pub body: Value,
}

impl NewSession {
    /// The options of the session that the client wants.
    /// Errors: those of [`CreateBody::options`].
    pub(crate) fn options(&self, config: &Config) -> Result<Options, Error> {
        let (limits, longest) = (&config.webdriver, config.session.max_timeout);
        let mut create_body = self.create_body.clone();
        create_body.set_default("session_timeout", json!(limits.grid_timeout.min(longest).as_secs()));
        create_body.set_default("idle_timeout", json!(limits.grid_idle_timeout.min(longest).as_secs()));
        let options = create_body.options(SessionKind::WebDriver, config)?;
        Ok(Options { screen: self.screen, queue_wait: Some(limits.grid_queue_wait), ..options })
    }

    /// Ends a session whose browser turns out to be of another version than the client insists on.
    /// Errors: `Capability`.
    pub(crate) fn check_version(&self, session: &Session) -> Result<(), Error> {
        let snapshot = session.worker.snapshot.borrow();
        match (&self.version, snapshot.version()) {
            (Some(wants), Some(has)) if !version_fits(wants, has) => {
                session.end(Ending::DriverRefused);
                Err(other_version(wants, self.engine, has))
            }
            _ => Ok(()),
        }
    }

    /// Words the driver's answer for the client, which knows the session by its grid id. `bidi_url` is where that id leads to
    /// WebDriver BiDi.
    pub(crate) fn complete(&self, reply: &mut Value, session: &Session, bidi_url: &str, livestream_url: &str) {
        reply["value"]["sessionId"] = json!(session.grid_id());
        let Some(found) = reply["value"]["capabilities"].as_object_mut() else { return };
        if found.contains_key("webSocketUrl") {
            found.insert("webSocketUrl".to_owned(), json!(bidi_url));
        }
        let mut warnings: Vec<Value> =
            session.warnings.iter().chain(&self.create_body.warnings).map(|it| json!(it)).collect();
        if let Some(Value::Array(others)) = found.get_mut(WARMPOOL_OPTIONS).and_then(|own| own.get_mut("warnings")) {
            warnings.append(others);
        }
        found.insert("se:downloadsEnabled".to_owned(), json!(self.downloads));
        let own = json!({"session_id": session.id, "livestream_url": livestream_url, "warnings": warnings});
        found.insert(WARMPOOL_OPTIONS.to_owned(), own);
    }
}

/// How strictly an alternative has to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matching {
    /// Exactly, as the W3C standard requires.
    Standard,
    /// As on a grid: in upper or lower case, and by words for anything.
    Grid,
}

/// Reads a new-session body. `known` says which version an engine has, where that is known.
/// Errors: `InvalidBody` and `Field` for a body of a wrong form, `Capability` when nothing fits, or for what is
/// refused.
pub(crate) fn read(body: &Value, known: impl Fn(Engine) -> Option<String>) -> Result<NewSession, Error> {
    let mut candidates = candidates(body)?;
    let desired = body.get("capabilities").and(body.get("desiredCapabilities")).and_then(Value::as_object);
    // Asked once for each engine, however many alternatives there are.
    let mut versions = HashMap::new();
    let mut version_of = |engine| -> Option<String> { versions.entry(engine).or_insert_with(|| known(engine)).clone() };
    let mut mismatch = None;
    for matching in [Matching::Standard, Matching::Grid] {
        mismatch = None;
        for index in 0..candidates.len() {
            match fits(&candidates[index], matching, &mut version_of) {
                Ok(engine) => return translate(candidates.swap_remove(index), engine, desired),
                Err(error) => mismatch = mismatch.or(Some(error)),
            }
        }
    }
    Err(mismatch.unwrap_or_else(|| Error::InvalidBody { message: "a new session needs `capabilities`".to_owned() }))
}

/// Whether a browser of version `has` satisfies a client that asks for `wants`.
fn version_fits(wants: &str, has: &str) -> bool {
    has == wants || has.strip_prefix(wants).is_some_and(|rest| rest.starts_with('.'))
}

/// The error for a version that is not here.
fn other_version(wants: &str, engine: Engine, has: &str) -> Error {
    let message = format!("there is no {engine} of version `{wants}` here, but {has}: leave it out, or ask for that");
    Error::Capability { capability: "browserVersion".to_owned(), message }
}

fn refused(capability: impl Into<String>, message: impl Into<String>) -> Error {
    Error::Capability { capability: capability.into(), message: message.into() }
}

/// The engine that an alternative matches.
/// Errors: `Capability` when it matches none.
fn fits(
    caps: &Map<String, Value>,
    matching: Matching,
    known: &mut impl FnMut(Engine) -> Option<String>,
) -> Result<Engine, Error> {
    let engine = engine(caps, matching)?;
    platform(caps, matching)?;
    match_options(caps, engine)?;
    if let Some(wants) = version(caps)
        && let Some(has) = known(engine)
        && !version_fits(wants, &has)
    {
        return Err(other_version(wants, engine, &has));
    }
    Ok(engine)
}

/// The alternative that is taken, in the words of this service. `desired` is what a client wrote for a grid of earlier days.
fn translate(
    mut caps: Map<String, Value>,
    engine: Engine,
    desired: Option<&Map<String, Value>>,
) -> Result<NewSession, Error> {
    let version = version(&caps).map(str::to_owned);
    caps.remove("browserVersion");
    caps.remove("platformName");
    if caps.remove("browserName").is_some() {
        caps.insert("browserName".to_owned(), json!(engine.browser_name()));
    }
    let mut create_body = CreateBody::default();
    own(&mut create_body, &mut caps, engine)?;
    let mut asked = VendorOptions::default();
    if let Some(desired) = desired {
        vendor::read_desired(&mut create_body, &mut asked, desired)?;
    }
    vendor::read(&mut create_body, &mut asked, &mut caps)?;
    if headless(&mut caps) {
        create_body.set_default("headless", json!(true));
    }
    if engine == Engine::Chromium {
        drop_any_port(&mut caps);
    }
    create_body.set_default("browser_type", json!(engine));
    create_body.set_default("url", json!("about:blank"));
    let body = json!({"capabilities": {"alwaysMatch": caps}});
    Ok(NewSession { create_body, engine, version, downloads: asked.downloads, screen: asked.screen, body })
}

/// The engine by the browser's name, otherwise by its vendor options, otherwise Chromium.
fn engine(caps: &Map<String, Value>, matching: Matching) -> Result<Engine, Error> {
    let is_it = |engine: &Engine, name: &str| match matching {
        Matching::Standard => engine.is_browser_name(name),
        Matching::Grid => engine.resembles_browser_name(name),
    };
    match caps.get("browserName").and_then(Value::as_str) {
        Some(name) if matching == Matching::Standard || !name.is_empty() => {
            Engine::ALL.into_iter().find(|engine| is_it(engine, name)).ok_or_else(|| {
                let name: String = name.chars().take(100).collect();
                let message = format!(
                    "there is no `{name}` here: ask for chrome, chromium, firefox, webkit, MiniBrowser or safari"
                );
                refused("browserName", message)
            })
        }
        _ => Ok(if caps.contains_key("moz:firefoxOptions") {
            Engine::Firefox
        } else if caps.contains_key("webkitgtk:browserOptions") {
            Engine::Webkit
        } else {
            Engine::Chromium
        }),
    }
}

/// Every browser here runs on Linux.
fn platform(caps: &Map<String, Value>, matching: Matching) -> Result<(), Error> {
    let Some(name) = caps.get("platformName").and_then(Value::as_str) else { return Ok(()) };
    let fits = match matching {
        Matching::Standard => name == "linux",
        Matching::Grid => matches!(name.to_ascii_lowercase().as_str(), "" | "*" | "any" | "linux" | "unix"),
    };
    if fits {
        return Ok(());
    }
    let name: String = name.chars().take(100).collect();
    let message = format!("there is no browser on `{name}` here: leave it out, or ask for linux");
    Err(refused("platformName", message))
}

/// The version that the client insists on. Versions compare in the same way by the standard, which leaves that open.
fn version(caps: &Map<String, Value>) -> Option<&str> {
    let version = caps.get("browserVersion").and_then(Value::as_str)?;
    let any = matches!(version.to_ascii_lowercase().as_str(), "" | "*" | "any" | "stable" | "latest");
    (!any).then_some(version)
}

/// `warmpool:options`: the fields of a create call, as they are.
fn own(create_body: &mut CreateBody, caps: &mut Map<String, Value>, engine: Engine) -> Result<(), Error> {
    let mut fields = match caps.remove(WARMPOOL_OPTIONS) {
        None => return Ok(()),
        Some(Value::Object(fields)) => fields,
        Some(_) => return Err(refused(WARMPOOL_OPTIONS, "must be an object")),
    };
    // A create call takes null for a field that is left out, so it must not stand in the way of a default.
    fields.retain(|_, value| !value.is_null());
    if fields.get("browser_type").is_some_and(|named| *named != json!(engine)) {
        let message = format!("names another browser than `browserName`, which is {engine}");
        return Err(refused(format!("{WARMPOOL_OPTIONS}.browser_type"), message));
    }
    create_body.fields.extend(fields);
    Ok(())
}

/// Takes the request for a browser without a display out of the browser's own options. Returns whether there was one.
fn headless(caps: &mut Map<String, Value>) -> bool {
    let mut wanted = false;
    for name in ["goog:chromeOptions", "moz:firefoxOptions", "webkitgtk:browserOptions"] {
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
