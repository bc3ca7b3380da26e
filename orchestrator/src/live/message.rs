//! The JSON messages between a viewer and the daemon. Pictures, and a viewer's RFB on a display, are binary messages
//! beside these.

use serde::{Deserialize, Serialize};

use super::input::Input;
use crate::engine::{Engine, Mode};

/// How the picture comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Picture {
    /// The X display, over RFB.
    Display,
    /// JPEG pictures of one tab.
    Frames,
}

/// One tab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Tab {
    /// The browser's own id of it.
    pub(super) id: String,
    pub(super) title: String,
    /// Its address.
    pub(super) url: String,
}

/// What every viewer of a session knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct ViewState {
    /// How many watch.
    pub(super) viewers: usize,
    /// Which of them has the control.
    pub(super) holder: Option<u64>,
    /// Whether the client's commands are held.
    pub(super) paused: bool,
    /// The tabs, the one in front first. Empty before the browser was asked.
    pub(super) tabs: Vec<Tab>,
}

/// From the daemon to a viewer.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Notice<'a> {
    /// Once, at first.
    Hello {
        /// This viewer's number.
        viewer: u64,
        /// Whether it may take the control.
        may_act: bool,
        /// How the picture comes.
        picture: Picture,
        /// Whether the browser takes text that no key makes.
        text: bool,
        browser_type: Engine,
        mode: Mode,
        /// After this many milliseconds of silence the connection counts as dead.
        silence: u64,
    },
    /// At each change, and now and then.
    State {
        #[serde(flatten)]
        state: &'a ViewState,
        /// The session's status.
        status: &'a str,
        /// What is left of its time, in milliseconds.
        time_left: u64,
    },
    /// What was copied in the browser.
    Clipboard { text: &'a str },
    /// A request failed.
    Refused { message: &'a str },
    /// The session ended: nothing follows. `recording` says whether this viewer may fetch one.
    Ended { status: &'a str, reason: &'a str, message: &'a str, recording: bool },
    /// This viewer's link ended: nothing follows.
    Unshared,
}

impl Notice<'_> {
    /// As a viewer gets it.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// From a viewer to the daemon.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Request {
    /// Take control, or give it back.
    Control { take: bool },
    /// Hold the client's commands, or release them.
    Pause { on: bool },
    /// One more picture is on the viewer's screen.
    Ack,
    /// Watch this tab; without one, whichever is in front. On a display: bring this tab to the front.
    Tab { id: Option<String> },
    /// Back, forward or reload.
    Go { to: HistoryStep },
    /// Open an address.
    Open { url: String },
    /// What is selected in the page.
    Copy,
    /// The longer side of the viewer's picture, in pixels of their screen.
    View { side: u32 },
    /// Keys, pointer, text.
    Input(Input),
}

/// A step in a tab's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum HistoryStep {
    /// One page back.
    Back,
    /// One page forward.
    Forward,
    /// The same page again.
    Reload,
}
