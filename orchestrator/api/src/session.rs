//! Sessions as their owners read them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use warmpool_core::browser::Engine;
use warmpool_core::ids::{ExtensionId, KeyId, SessionId};
use warmpool_core::metadata::Metadata;

use crate::AnyObject;
use crate::captcha::{CaptchaRecord, WaitingCaptcha};
use crate::list::PageMeta;

/// A session's status, as the contract names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "SessionStatus")]
pub enum Status {
    /// Being prepared.
    Starting,
    /// Ready for its client.
    Running,
    /// Ended by request, by time-out or by the daemon.
    Terminated,
    /// Ended by its client.
    Completed,
    /// The container runtime cannot be asked at the moment.
    Unknown,
    /// The task that owned it succeeded.
    Success,
    /// Its worker or browser died.
    Failure,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 7] =
        [Self::Starting, Self::Running, Self::Terminated, Self::Completed, Self::Unknown, Self::Success, Self::Failure];

    /// The name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Terminated => "terminated",
            Self::Completed => "completed",
            Self::Unknown => "unknown",
            Self::Success => "success",
            Self::Failure => "failure",
        }
    }

    /// The status, mapped to the three of WebDriver sessions.
    #[must_use]
    pub const fn of_webdriver(self) -> Self {
        match self {
            Self::Starting | Self::Running => Self::Running,
            Self::Unknown => Self::Unknown,
            Self::Terminated | Self::Completed | Self::Success | Self::Failure => Self::Terminated,
        }
    }
}

/// What made a session: one of the two create endpoints, or a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionKind {
    /// `POST /sessions/create`.
    DevTools,
    /// `POST /sessions/webdriver/create`.
    WebDriver,
    /// A task made it for itself.
    Task,
}

impl SessionKind {
    /// The name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DevTools => "devtools",
            Self::WebDriver => "webdriver",
            Self::Task => "task",
        }
    }
}

/// A session, and how to connect to it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CreatedSession {
    /// Its id: `ses_` and 128 random bits.
    pub session_id: SessionId,
    /// The websocket for Puppeteer, Playwright and their like.
    pub websocket_url: String,
    /// The page that shows the session. Anyone holding this URL has full control of the session (`enable_actions=true`), and can
    /// watch its recording later. `POST /sessions/{id}/share` makes a link that can do less.
    pub livestream_url: String,
    /// Its status now.
    pub status: Status,
    /// What the websocket speaks.
    #[schemars(extend("enum" = ["cdp", "webdriver-bidi", "webkit-inspector"]))]
    pub protocol: String,
    /// What Playwright must send with each request; only of WebKit sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_headers: Option<ConnectHeaders>,
    /// What the client has to know of the session it got.
    #[serde(flatten)]
    pub notes: CreateNotes,
}

/// A session, and where its driver is.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CreatedWebDriverSession {
    /// Its id: `ses_` and 128 random bits.
    pub session_id: SessionId,
    /// `running`, `terminated` or `unknown`.
    #[schemars(with = "String", extend("enum" = ["running", "terminated", "unknown"]))]
    pub status: Status,
    /// The address of the remote WebDriver.
    pub connect_url: String,
    /// What the client has to know of the session it got.
    #[serde(flatten)]
    pub notes: CreateNotes,
}

/// Notes for the client on the session it got.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CreateNotes {
    /// Each setting that the engine can apply only in part. Absent when there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The upstream proxy that pages go through.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AnyObject>")]
    pub proxy: Option<Value>,
}

/// The headers that Playwright must send to a WebKit session.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ConnectHeaders {
    /// `Bearer`, and the id and the token of the session.
    #[serde(rename = "Authorization")]
    pub authorization: String,
}

/// Ad blocking as listings show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ads {
    /// Requests that were blocked.
    pub blocked: u64,
}

/// What a session's browser sent and got, and what it was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Egress")]
pub struct EgressSummary {
    /// Bytes that the browser got.
    pub bytes_in: u64,
    /// Bytes that the browser sent.
    pub bytes_out: u64,
    /// Connections that were refused or failed for a reason of Warmpool's own.
    pub refused_count: u64,
    /// The first few kinds of them.
    pub refused: Vec<RefusedCount>,
}

/// Refusals of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedCount {
    /// The host that the browser asked for.
    pub host: String,
    /// The port there.
    pub port: u16,
    /// The short name of the reason.
    pub reason: String,
    /// How many there were.
    pub count: u64,
}

/// A session as lists and look-ups show it, without its secrets.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Session")]
pub struct SessionView {
    /// Its id: `ses_` and 128 random bits.
    pub session_id: SessionId,
    /// Its status now.
    pub status: Status,
    /// The id of the key that made it.
    pub key_id: KeyId,
    /// The short name of the reason for its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What made it: `devtools`, `webdriver` or `task`.
    pub kind: SessionKind,
    /// Its browser's engine.
    pub browser_type: Engine,
    /// Whether its browser has no display.
    pub headless: bool,
    /// The page that was opened.
    pub url: Option<String>,
    /// Why that page did not load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_error: Option<String>,
    /// How many of its pages' processes, or others of its browser, the kernel ended because memory ran out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// When it was made, in Unix milliseconds.
    pub timestamp: u64,
    /// When it ended, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// How long it lasted, or lasts so far, in milliseconds.
    pub execution_time: u64,
    /// The hard cap, in seconds.
    pub session_timeout: u64,
    /// The idle limit, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<u64>,
    /// Whether it stays when its client disconnects.
    pub keep_alive: bool,
    /// Whether it is recorded.
    pub recording: bool,
    /// Whether what happens in it is written down.
    #[serde(default)]
    pub logs: bool,
    /// What its browser sent, got and was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<EgressSummary>,
    /// The ads that it has blocked so far, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ads: Option<Ads>,
    /// The challenge of a page that waits to be solved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub captcha: Option<WaitingCaptcha>,
    /// Those that are over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub captchas: Vec<CaptchaRecord>,
    /// The end user it was made for: an id or a name, and no secret. Lists, the console, webhooks and backups show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_passcode: Option<String>,
    /// Its labels. Absent when it has none.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// The app it was made for, or the name that a client of another service gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_name: Option<String>,
    /// The name by which further connections of its key find it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The profile that it began with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<SessionProfile>,
    /// The extensions that its browser has loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extension_ids: Vec<ExtensionId>,
    /// The size of its pages in CSS pixels, where its client has named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub viewport: Option<Viewport>,
}

/// The size of a page, in CSS pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PageSize")]
pub struct Viewport {
    /// From left to right.
    pub width: u32,
    /// From top to bottom.
    pub height: u32,
}

/// The profile that a session began with, and how its saves went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionProfile {
    /// The profile's name.
    pub name: String,
    /// Whether the session saves it.
    pub is_written: bool,
    /// When it was saved last, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved_at: Option<u64>,
    /// Why the last save failed, or what it left out. What was saved before is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A session as its owner sees it, with the URLs that open it while it lives.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SessionDetail {
    /// The session as lists show it.
    #[serde(flatten)]
    pub session: SessionView,
    /// What its client speaks: at `connect_url` where it is `webdriver`, and at `websocket_url` otherwise. The websocket of a
    /// WebDriver session speaks what those of its engine do: `cdp` of Chromium, `webdriver-bidi` of Firefox, `webkit-inspector` of
    /// WebKit.
    #[schemars(extend("enum" = ["cdp", "webdriver-bidi", "webkit-inspector", "webdriver"]))]
    pub protocol: String,
    /// The websocket for Puppeteer, Playwright and their like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub websocket_url: Option<String>,
    /// What Playwright must send with each request; only of WebKit sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_headers: Option<ConnectHeaders>,
    /// The address of the remote WebDriver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_url: Option<String>,
    /// The page that shows the session. Anyone holding this URL has full control of the session (`enable_actions=true`), and can
    /// watch its recording later. `POST /sessions/{id}/share` makes a link that can do less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub livestream_url: Option<String>,
    /// Until `session_timeout` is over, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_left: Option<u64>,
}

/// One page of the list of sessions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SessionPage {
    /// The sessions, in the order that was asked for.
    pub sessions: Vec<SessionView>,
    /// Where in the list they are.
    pub meta: PageMeta,
}
