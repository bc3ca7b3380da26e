//! What a client of Playwright's own protocol says as it connects: `chromium.connect('ws://host/playwright/chromium?token=…')`.
//!
//! Its version stands in its User-Agent. Options of the launch come in the query or, from the test runner, in a header. As with
//! Playwright's own server, five of them count, and those that concern the client's machine mean nothing here. What would
//! reach around the worker's isolation is refused, which Playwright's server leaves out without a word.

use http::HeaderMap;
use http::header::USER_AGENT;
use serde_json::{Map, Value, json};
use url::{Url, form_urlencoded};

use super::{CreateBody, browserless, switches};
use crate::http::error::Error;
use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_core::error::FieldFault as _;
use warmpool_protocol::{PlaywrightLaunch, PlaywrightProxy, playwright_minor};
use warmpool_sessions::session::{Options, SessionKind};

/// The header by which a client names its browser.
pub(crate) const BROWSER: &str = "x-playwright-browser";
/// The header with the options of the launch, as JSON.
const LAUNCH_OPTIONS: &str = "x-playwright-launch-options";
/// The header of `exposeNetwork`, which the query calls `proxy`.
const EXPOSE: &str = "x-playwright-proxy";
/// The longest pause before an action, in milliseconds.
const MAX_SLOW_MO: f64 = 60_000.0;
/// The longest text of a proxy, in bytes.
const MAX_TEXT: usize = 4096;
/// Browsers that Chromium stands for.
const CHANNELS: [&str; 4] = ["", "chromium", "chromium-headless-shell", "chrome"];
/// Parameters of browserless about a browser that outlives its connection, or that others may join.
const SHARED: [&str; 5] = ["session", "sessionId", "keep_alive", "userDataDir", "profile"];
const ONE_CONNECTION: &str = "is not served on this path, where each connection has a browser of its own: leave it out";

/// What a client asks for.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct PlaywrightRequest {
    /// The key, where the URL has one.
    pub token: Option<String>,
    create_body: CreateBody,
    slow_mo: Option<u32>,
    proxy: Option<PlaywrightProxy>,
}

impl PlaywrightRequest {
    /// What is accepted and has no effect.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.create_body.warnings
    }

    /// The options of a session of this one connection, with Playwright's server of that version.
    /// Errors: those of [`CreateBody::options`].
    pub(crate) fn options(self, version: String, config: &Config) -> Result<Options, Error> {
        let options = self.create_body.options(SessionKind::DevTools, config)?;
        let playwright = Some(PlaywrightLaunch { version, slow_mo: self.slow_mo, proxy: self.proxy });
        Ok(Options { one_connection: true, playwright, ..options })
    }
}

/// The version for a client: that of its User-Agent, or the newest where it names none.
/// Errors: `PlaywrightVersion`, with those that there are; `Field` where there are none at all.
pub(crate) fn version(headers: &HeaderMap, versions: &[String]) -> Result<String, Error> {
    let newest = versions.iter().max_by_key(|version| numbers(version)).ok_or_else(not_served)?;
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let Some(client) = agent.strip_prefix("Playwright/") else { return Ok(newest.clone()) };
    let client = client.split([' ', '(']).next().unwrap_or_default();
    match playwright_minor(client) {
        Some(minor) if versions.iter().any(|version| version == minor) => Ok(minor.to_owned()),
        Some(minor) => Err(Error::PlaywrightVersion { client: minor.to_owned(), versions: listed(versions) }),
        None => Err(Error::invalid("User-Agent", "does not name a valid version of Playwright")),
    }
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').filter_map(|number| number.parse().ok()).collect()
}

fn listed(versions: &[String]) -> String {
    let mut versions: Vec<&String> = versions.iter().collect();
    versions.sort_by_key(|version| numbers(version));
    versions.into_iter().map(|version| format!("v{version}")).collect::<Vec<_>>().join(", ")
}

/// Why a path that leads to the protocol is not served at all.
pub(crate) fn not_served() -> Error {
    let remedy = "build the image with `scripts/images --playwright` and set `playwright.versions`, or use \
                  `chromium.connectOverCDP` on this host";
    Error::not_supported("path", format!("leads to Playwright's own protocol, which is not served: {remedy}"))
}

/// Reads what a client says in its query and its headers. `path` is the browser's name in the path, if it has one.
/// Errors: `Field`, with the parameter's or the option's name.
pub(crate) fn read(path: Option<&str>, query: &str, headers: &HeaderMap) -> Result<PlaywrightRequest, Error> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty());
    let (mut browser, mut launch, mut expose) = (None, None, None);
    let mut others = form_urlencoded::Serializer::new(String::new());
    let mut slow_mo = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match name.as_ref() {
            "browser" => browser = Some(value.into_owned()),
            "launch-options" => launch = Some(value.into_owned()),
            "proxy" => expose = Some(value.into_owned()),
            "slowMo" => slow_mo = Some(value.into_owned()),
            shared if SHARED.contains(&shared) => {
                return Err(Error::not_supported(shared, ONE_CONNECTION));
            }
            _ => {
                others.append_pair(&name, &value);
            }
        }
    }
    let browser = browser.or_else(|| header(BROWSER).map(str::to_owned));
    for name in path.into_iter().chain(browser.as_deref()) {
        check_browser(name)?;
    }
    if expose.as_deref().or_else(|| header(EXPOSE)).is_some_and(|pattern| !pattern.is_empty()) {
        return Err(Error::not_supported(
            "exposeNetwork",
            "would lead pages to the client's network, past this daemon's rules: leave it out, and allow the sites in \
             `egress.allow`",
        ));
    }
    let (query, options) = browserless::parameters(&others.finish(), Engine::Chromium)?;
    let browserless::Query { token, create_body, .. } = query;
    let mut wanted = PlaywrightRequest { token, create_body, ..PlaywrightRequest::default() };
    if let Some(millis) = slow_mo {
        wanted.slow_mo = Some(pause("slowMo", &json!(millis.parse::<f64>().ok()))?);
    }
    let place = if launch.is_some() { "launch-options" } else { LAUNCH_OPTIONS };
    if let Some(text) = launch.as_deref().or_else(|| header(LAUNCH_OPTIONS)).filter(|text| !text.is_empty()) {
        let Ok(Value::Object(options)) = serde_json::from_str(text) else {
            return Err(Error::invalid(place, "must be a JSON object"));
        };
        for (name, value) in options {
            option(&mut wanted, &name, &format!("{place}.{name}"), &value)?;
        }
    }
    wanted.create_body.take_options(options)?;
    // Playwright's pages are in contexts of their own, which neither logins of a profile or a state nor extensions reach.
    for field in ["profile", "state", "advanced.extension_ids", "keep_alive"] {
        if let Some(place) = wanted.create_body.given(field) {
            return Err(Error::not_supported(place, ONE_CONNECTION));
        }
    }
    Ok(wanted)
}

fn check_browser(name: &str) -> Result<(), Error> {
    let problem = match name {
        "chromium" | "chrome" | "edge" => return Ok(()),
        "firefox" => {
            "is `firefox`, which Playwright drives in a build of its own alone, and that is not here: connect to \
             `/playwright/chromium`, or drive Firefox by WebDriver or WebDriver BiDi"
        }
        "webkit" => {
            "is `webkit`, which Playwright drives in a build of its own alone, and that is not here: connect to \
             `/playwright/chromium`, or drive WebKit by WebDriver or `webkit.connectOverCDP`"
        }
        _ => "names a browser that Playwright's protocol does not serve here: connect to `/playwright/chromium`",
    };
    Err(Error::not_supported("browser", problem))
}

/// Reads one option of a launch. The list says what is taken; everything else is refused unless it is empty.
fn option(wanted: &mut PlaywrightRequest, name: &str, place: &str, value: &Value) -> Result<(), Error> {
    let empty = match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    };
    match (name, value) {
        ("channel", Value::String(channel)) if CHANNELS.contains(&channel.as_str()) => {}
        ("channel", Value::String(_)) => {
            return Err(Error::not_supported(
                place,
                "names a browser that is not here: leave it out, or write `chromium`",
            ));
        }
        ("headless", Value::Bool(headless)) => wanted.create_body.set("headless", place, json!(headless)),
        ("headless" | "channel", value) if !value.is_null() => {
            return Err(Error::invalid(place, "must be true or false, and a channel a text"));
        }
        ("slowMo", value) if !value.is_null() => wanted.slow_mo = Some(pause(place, value)?),
        ("timeout", value) if !value.is_null() => {
            if value.as_f64().is_none_or(|millis| millis < 0.0) {
                return Err(Error::invalid(place, "must be a number of milliseconds"));
            }
        }
        ("proxy", Value::Object(members)) => wanted.proxy = proxy(place, members)?,
        ("args", Value::Array(args)) => {
            for (index, arg) in args.iter().enumerate() {
                let place = format!("{place}[{index}]");
                let switch = arg.as_str().ok_or_else(|| Error::invalid(&place, "must be a string"))?;
                switches::read(&mut wanted.create_body, &place, switch)?;
            }
        }
        ("chromiumSandbox", Value::Bool(true)) => {}
        ("chromiumSandbox", Value::Bool(false)) => {
            return Err(Error::not_supported(place, "would turn the browser's sandbox off: leave it out"));
        }
        // What a client does by itself, and folders of its own machine.
        (
            "handleSIGINT" | "handleSIGTERM" | "handleSIGHUP" | "artifactsDir" | "tracesDir" | "downloadsPath"
            | "logger",
            _,
        ) => {}
        _ if empty => {}
        _ => {
            return Err(Error::not_supported(
                place,
                "is not an option that a browser which runs already can take: leave it out. channel, headless, proxy, slowMo \
                 and timeout count",
            ));
        }
    }
    Ok(())
}

fn pause(place: &str, value: &Value) -> Result<u32, Error> {
    match value.as_f64() {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within the range")]
        Some(millis) if (0.0..=MAX_SLOW_MO).contains(&millis) => Ok(millis.round() as u32),
        _ => Err(Error::invalid(place, format!("must be from 0 to {MAX_SLOW_MO} milliseconds"))),
    }
}

/// A proxy as Playwright has it; `None` where it says that each context has its own.
fn proxy(place: &str, members: &Map<String, Value>) -> Result<Option<PlaywrightProxy>, Error> {
    let mut texts = [const { None::<String> }; 4];
    const NAMES: [&str; 4] = ["server", "bypass", "username", "password"];
    for (name, value) in members {
        let place = format!("{place}.{name}");
        let Some(index) = NAMES.iter().position(|known| known == name) else {
            return Err(Error::none_of(place, NAMES));
        };
        texts[index] = match value {
            Value::Null => None,
            Value::String(text) if text.len() <= MAX_TEXT => Some(text.clone()),
            _ => return Err(Error::invalid(place, format!("must be a text of at most {MAX_TEXT} bytes"))),
        };
    }
    let [server, bypass, username, password] = texts;
    let server = server.unwrap_or_default();
    if matches!(server.as_str(), "per-context" | "http://per-context") {
        return Ok(None);
    }
    let server = address(&format!("{place}.server"), &server)?;
    // Chromium separates hosts by semicolons, and a domain begins with a star.
    let hosts = bypass.unwrap_or_default();
    let hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
    let hosts: Vec<String> =
        hosts.map(|host| if host.starts_with('.') { format!("*{host}") } else { host.to_owned() }).collect();
    Ok(Some(PlaywrightProxy { server, bypass: hosts.join(";"), username, password }))
}

/// The address of a proxy that takes connections in the clear, with its scheme.
fn address(place: &str, server: &str) -> Result<String, Error> {
    let with_scheme = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    let url = Url::parse(&with_scheme).ok().filter(|url| url.has_host());
    let url = url.ok_or_else(|| Error::invalid(place, "must be as in `http://proxy.example:3128`"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::invalid(place, "has a user name: write it as `username` and `password`"));
    }
    match url.scheme() {
        "http" | "socks5" => {
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            Ok(format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default()))
        }
        _ => Err(Error::not_supported(place, "has a scheme that is not served: use a proxy of `http` or `socks5`")),
    }
}

#[cfg(test)]
mod tests;
