//! What daemon and agent say to each other, in JSON.

use serde::{Deserialize, Serialize};

use crate::look::{Look, Viewport};

/// What the agent is told once, before it starts anything.
#[derive(Debug, Serialize)]
pub(crate) struct Claim {
    /// Whether the browser runs without a display.
    pub headless: bool,
    /// Whether Chromium's own sandbox is on.
    pub sandbox: bool,
    /// Whether the agent stops its processes while the worker waits.
    pub freeze: bool,
    /// The size of the display, in pixels.
    pub display: Viewport,
    /// How long the worker outlives its daemon, in milliseconds.
    pub orphan_timeout_ms: u64,
    /// How long a browser may stay silent, in milliseconds.
    pub unresponsive_timeout_ms: u64,
    /// The largest file that may be put into the session, in bytes.
    pub file_limit: u64,
    /// The settings that hold already while the worker waits.
    #[serde(skip_serializing_if = "Look::is_plain")]
    pub preset: Look,
}

/// The display of a headed worker.
pub(crate) const DISPLAY: Viewport = Viewport { width: 1280, height: 800 };

/// What a session wants of its browser.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// The page to open in the first tab.
    pub url: Option<String>,
    /// Locale tags, the preferred one first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locales: Option<Vec<String>>,
    /// The user agent that pages see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// The size of the page's viewport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub viewport: Option<Viewport>,
}

impl Launch {
    /// How the browser is to look to pages.
    #[must_use]
    pub(crate) fn look(&self) -> Look {
        Look { locales: self.locales.clone(), user_agent: self.user_agent.clone(), viewport: self.viewport }
    }
}

/// Where the agent is in its life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    /// Starting the browser.
    #[default]
    Starting,
    /// Ready, never used.
    Warm,
    /// Handed to a session.
    Active,
    /// The browser ended.
    Ended,
    /// The browser never started.
    Failed,
}

/// What the agent says of itself.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Snapshot {
    /// Where it is in its life.
    pub state: Phase,
    /// The browser's name and version, once it runs.
    #[serde(default)]
    pub browser: Option<String>,
    /// The user agent that it has by itself.
    #[serde(default)]
    pub user_agent: Option<String>,
    /// The warm browser's command-line switches.
    #[serde(default)]
    pub args: Vec<String>,
}

impl Snapshot {
    /// The browser's version alone, such as `156.0.7950.2`.
    #[must_use]
    pub(crate) fn version(&self) -> Option<&str> {
        self.browser
            .as_ref()?
            .rsplit(['/', ' '])
            .next()
            .filter(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    }
}

/// One line of the agent's event stream.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event {
    State(Snapshot),
    Beat,
    Exited {
        clean: bool,
        code: Option<i64>,
        signal: Option<i64>,
        oom: bool,
    },
    Unresponsive,
    DriverExited,
    Failed {
        reason: String,
    },
    #[serde(other)]
    Other,
}

/// Which browser a WebDriver session drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DriverMode {
    /// The one that is warm.
    Warm,
    /// One that the driver starts, with the client's own options.
    Cold,
}

/// A page of a browser, as the agent tells of it: a tab, or a window where the engine has no tabs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Page {
    /// Names it for as long as it is open.
    pub(crate) id: String,
    /// Its title.
    pub(crate) title: String,
    /// Its address.
    pub(crate) url: String,
}

/// What can be done to such a page.
#[derive(Debug, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Act<'a> {
    /// Bring it to the front.
    Show,
    /// One step back in its history.
    Back,
    /// One step forward.
    Forward,
    /// Load it again.
    Reload,
    /// Send it to an address that [`crate::session::page_address`] lets through.
    Open {
        /// The address.
        url: &'a str,
    },
}
