use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which browser a WebDriver session drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverMode {
    /// The one that is warm.
    Warm,
    /// One that is started with the client's options, in the place of the warm one.
    Cold,
}

/// Body of `POST /driver/session`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewDriverSession {
    /// Which browser.
    pub mode: DriverMode,
    /// A W3C capabilities object.
    pub capabilities: Value,
}

/// Answer to `POST /context` and `POST /context/window`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Window {
    /// The window's WebDriver handle.
    pub window: String,
}
