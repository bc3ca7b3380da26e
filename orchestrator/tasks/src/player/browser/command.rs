//! WebDriver commands that fantoccini has no method for, or wraps in others.

use fantoccini::wd::WebDriverCompatibleCommand;
use http::Method;
use serde_json::{Value, json};
use url::{ParseError, Url};

/// A command by its path below the driver's session.
#[derive(Debug)]
pub(crate) struct DriverCommand {
    method: Method,
    path: &'static str,
    body: Option<Value>,
}

impl DriverCommand {
    /// A command that sends `body`.
    pub(crate) const fn post(path: &'static str, body: Value) -> Self {
        Self { method: Method::POST, path, body: Some(body) }
    }

    /// A command that only asks.
    pub(crate) const fn get(path: &'static str) -> Self {
        Self { method: Method::GET, path, body: None }
    }

    /// A command that takes something back.
    pub(crate) const fn delete(path: &'static str) -> Self {
        Self { method: Method::DELETE, path, body: None }
    }

    /// Goes to an address as it is; `Client::goto` asks for the present one first.
    pub(crate) fn navigate(url: &str) -> Self {
        Self::post("url", json!({"url": url}))
    }

    /// Leaves all frames.
    pub(crate) fn top_frame() -> Self {
        Self::post("frame", json!({"id": null}))
    }

    /// Sets how long the driver waits.
    pub(crate) const fn timeouts(body: Value) -> Self {
        Self::post("timeouts", body)
    }

    /// A DevTools command through Chromium's driver.
    pub(crate) fn devtools(command: &str, parameters: Value) -> Self {
        Self::post("goog/cdp/execute", json!({"cmd": command, "params": parameters}))
    }

    /// The speed of the network, through Chromium's driver.
    pub(crate) const fn network(body: Value) -> Self {
        Self::post("chromium/network_conditions", body)
    }
}

impl WebDriverCompatibleCommand for DriverCommand {
    fn endpoint(&self, base_url: &Url, session_id: Option<&str>) -> Result<Url, ParseError> {
        base_url.join(&format!("session/{}/{}", session_id.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (self.method.clone(), self.body.as_ref().map(Value::to_string))
    }
}
