//! The JSON messages between a viewer and the daemon. Pictures, and a viewer's RFB on a display, are binary messages
//! beside these.

use serde::{Deserialize, Serialize};

use super::input::Input;
use warmpool_api::captcha::WaitingCaptcha;
use warmpool_core::browser::{Engine, Mode};
use warmpool_workers::captcha::Verdict;

/// The kind of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Picture {
    /// The X display, over RFB.
    Display,
    /// JPEG pictures of one tab.
    Frames,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Tab {
    /// The browser's own id of it.
    pub(super) id: String,
    pub(super) title: String,
    /// Its address.
    pub(super) url: String,
}

/// The state that all viewers of a session share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct ViewState {
    /// The number of viewers.
    pub(super) viewers: usize,
    /// The viewer who has control.
    pub(super) holder: Option<u64>,
    /// Whether the client is paused.
    pub(super) paused: bool,
    /// The tabs, the front one first. Empty until the browser has answered.
    pub(super) tabs: Vec<Tab>,
}

/// From the daemon to a viewer.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Notice<'a> {
    /// The first message.
    Hello {
        /// This viewer's number.
        viewer: u64,
        /// Whether it may take control.
        may_act: bool,
        /// The kind of a picture.
        picture: Picture,
        /// Whether the browser accepts text without keys.
        text: bool,
        browser_type: Engine,
        mode: Mode,
        /// Whether the picture has the browser's own tabs and address bar.
        bars: bool,
        /// After this many milliseconds of silence the connection counts as dead.
        silence: u64,
    },
    /// The state: at each change, and at intervals.
    State {
        #[serde(flatten)]
        state: &'a ViewState,
        /// The session's status.
        status: &'a str,
        /// Its remaining time, in milliseconds.
        time_left: u64,
        /// The challenge that waits to be solved.
        captcha: Option<Challenge<'a>>,
    },
    /// Text that was copied in the browser.
    Clipboard { text: &'a str },
    /// A request failed.
    Refused { message: &'a str },
    /// The session ended; this is the last message. `recording` says whether this viewer may fetch one.
    Ended { status: &'a str, reason: &'a str, message: &'a str, recording: bool },
    /// This viewer's link ended; this is the last message.
    Unshared,
}

impl Notice<'_> {
    /// The message as JSON.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A challenge, as a viewer knows it.
#[derive(Debug, Serialize)]
pub(super) struct Challenge<'a> {
    #[serde(flatten)]
    pub(super) captcha: &'a WaitingCaptcha,
    pub(super) tab: Option<&'a str>,
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
    /// A verdict on the challenge that waits for a person.
    Captcha(Verdict),
    /// Send the text that is selected in the page.
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
