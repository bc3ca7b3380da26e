//! Records of sessions: their form in the store and in lists, and the queries of lists.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmpool_protocol::text::shortened;
use warmpool_protocol::{Launch, PlaywrightLaunch, Size};

use super::profile::{self, Saved};
use super::state::GivenState;
use super::{Ending, Share};
use crate::Error;
use warmpool_api::captcha::CaptchaRecord;
use warmpool_api::session::{EgressSummary, SessionKind, SessionView, Status, Viewport};
use warmpool_config::Trust;
use warmpool_core::browser::{Engine, Mode, PoolKey};
use warmpool_core::clock::{Deadline, millis};
use warmpool_core::ids::{ExtensionId, SessionId, TaskId, WorkerId};
use warmpool_core::metadata::{Label, Metadata};
use warmpool_core::sort::SortOrder;
use warmpool_keys::KeyId;
use warmpool_profiles::ProfileChoice;
use warmpool_workers::egress::Location;
use warmpool_workers::pool::WorkerRequest;

/// A text that a record has room for in any case, in bytes.
const SHORT_TEXT: usize = 100;

/// What a session was asked to be, checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// By which endpoint.
    pub kind: SessionKind,
    /// Its browser's engine.
    pub engine: Engine,
    /// Headed or headless.
    pub mode: Mode,
    /// The page to open and the settings to apply.
    pub launch: Launch,
    /// The hard cap, in seconds from creation.
    pub session_timeout: u64,
    /// How long the client may do nothing, in seconds.
    pub idle_timeout: Option<u64>,
    /// Whether a closed socket leaves the session alone until `session_timeout`.
    #[serde(default)]
    pub keep_alive: bool,
    /// Whether it is one connection, made by it and ended with it.
    #[serde(default)]
    pub one_connection: bool,
    /// Whether an open connection or live view is use by itself, so that `idle_timeout` begins once there is none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub connection_is_use: bool,
    /// The name by which further connections of its key find it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The size of its window when it is as large as can be, where the client has named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<Size>,
    /// Whether it is recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recording: bool,
    /// Whether what happens in it is written down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub logs: bool,
    /// Where its requests come from, if through an upstream proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Location>,
    /// The end user on whose behalf the session was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_passcode: Option<String>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// The app it runs for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_name: Option<String>,
    /// The profile that its browser begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileChoice>,
    /// The extensions that its browser loads, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<ExtensionId>,
    /// Where its client wants to hear of its end, and of what waits for a person. No answer shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
    /// The task that it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// What its browser begins with. It is nowhere on the disk.
    #[serde(skip)]
    pub state: Option<GivenState>,
    /// Playwright's own server for its client. It may hold a proxy's password, and is nowhere on the disk.
    #[serde(skip)]
    pub playwright: Option<PlaywrightLaunch>,
    /// How long its client waits for a worker; `session.queue_wait` where it is unset.
    #[serde(skip)]
    pub queue_wait: Option<Duration>,
}

impl Options {
    /// The kind of worker that it needs, but for settings.
    pub const fn pool_key(&self) -> PoolKey {
        PoolKey::plain(self.engine, self.mode)
    }

    /// The worker that it needs, whose browser trusts these authorities.
    pub fn wanted<'a>(&'a self, trust: &'a Trust) -> WorkerRequest<'a> {
        let settings = &self.launch.settings;
        let (extensions, queue_wait) = (&self.extensions, self.queue_wait);
        WorkerRequest { plain: self.pool_key(), settings, extensions, trust, queue_wait }
    }

    /// A status in the words of these sessions' clients.
    pub(super) fn shown_status(&self, status: Status) -> Status {
        if self.kind == SessionKind::WebDriver { status.of_webdriver() } else { status }
    }

    pub(super) fn idle_timeout(&self) -> Option<Duration> {
        self.idle_timeout.map(Duration::from_secs)
    }
}

/// How and when a session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// The final status.
    pub(crate) status: Status,
    /// The short name of the reason.
    pub(crate) reason: String,
    /// The reason in a sentence.
    pub(crate) message: String,
    /// When, in Unix milliseconds.
    pub(crate) at_ms: u64,
}

impl Ended {
    pub(super) fn new(ending: &Ending, at_ms: u64) -> Self {
        Self { status: ending.status(), reason: ending.code().to_owned(), message: ending.message(), at_ms }
    }
}

/// A session as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Its id.
    pub(crate) session_id: SessionId,
    /// The key that made it.
    pub(crate) owner: KeyId,
    /// What it was asked to be.
    pub(crate) options: Options,
    /// When it was made, in Unix milliseconds.
    pub(crate) created_ms: u64,
    /// When `session_timeout` is over; none once it ended, and in records of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deadline: Option<Deadline>,
    /// The worker it owns, or owned.
    pub(crate) worker: WorkerId,
    /// The driver's id of its WebDriver session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) driver_session: Option<String>,
    /// The proxy that its WebDriver client named, encrypted: its connections never go another way. None once it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_proxy: Option<String>,
    /// Whether it ever had a socket.
    #[serde(default)]
    pub(crate) attached: bool,
    /// The links of its live view.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) shares: Vec<Share>,
    /// What went through its way out; a live session's is as of its last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) egress: Option<EgressSummary>,
    /// The challenges of its pages that are over; a live session's are as of its last change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) captchas: Vec<CaptchaRecord>,
    /// How many those were, with those that are listed no more: `captcha.max_per_session` bounds them across restarts. Records of
    /// earlier releases have 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) captcha_count: usize,
    /// Why its first page did not load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) page_error: Option<String>,
    /// How many processes of its browser the kernel ended because memory ran out; a live session's is as of its last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) oom_kills: Option<u64>,
    /// When its profile was saved last, in Unix milliseconds; a live session's is as of its last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) profile_saved_ms: Option<u64>,
    /// Why the last save of its profile failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) profile_error: Option<String>,
    /// Its end, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<Ended>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde wants")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Record {
    /// When `session_timeout` is over.
    pub(super) fn deadline(&self) -> Deadline {
        self.deadline.clone().unwrap_or_else(|| {
            let span = Duration::from_secs(self.options.session_timeout);
            Deadline::by_wall(self.created_ms.saturating_add(millis(span)), span)
        })
    }

    /// Takes out some of what its pages have added, the oldest first, once it has ended its links too, and at last half of the longest
    /// text that came from its worker. Returns whether there was anything.
    pub(super) fn shorten(&mut self) -> bool {
        let refused = self.egress.as_mut().map(|egress| &mut egress.refused).filter(|refused| !refused.is_empty());
        if !self.captchas.is_empty() {
            self.captchas.drain(..self.captchas.len().div_ceil(2));
        } else if let Some(refused) = refused {
            refused.truncate(refused.len() / 2);
        } else if self.ended.is_some() && !self.shares.is_empty() {
            self.shares.clear();
        } else {
            return self.halve_longest_text();
        }
        true
    }

    /// Returns whether there was a long one.
    fn halve_longest_text(&mut self) -> bool {
        let message = self.ended.as_mut().map(|ended| &mut ended.message);
        let texts = [self.page_error.as_mut(), self.profile_error.as_mut(), message];
        let longest = texts.into_iter().flatten().max_by_key(|text| text.len()).filter(|text| text.len() > SHORT_TEXT);
        let Some(longest) = longest else { return false };
        *longest = shortened(longest.as_str(), longest.len() / 2);
        true
    }

    /// The error for requests to it once it has ended.
    pub(super) fn past_error(&self) -> Option<Error> {
        let ended = self.ended.as_ref()?;
        let (id, reason) = (self.session_id.to_string(), ended.message.clone());
        Some(Error::SessionEnded { id, status: ended.status.as_str(), reason })
    }

    /// The status of one that does not live, or is not found again yet.
    pub(super) fn past_status(&self) -> Status {
        self.ended.as_ref().map_or(Status::Unknown, |ended| ended.status)
    }

    /// The key in the store: ordered by time, then by id.
    pub(crate) fn store_key(&self) -> Vec<u8> {
        let mut key = self.created_ms.to_be_bytes().to_vec();
        key.extend_from_slice(self.session_id.as_str().as_bytes());
        key
    }

    /// What its owner reads of it when its status is `status` at the time `now_ms`.
    pub(super) fn view(&self, status: Status, now_ms: u64) -> SessionView {
        let options = &self.options;
        let status = options.shown_status(status);
        let ended = self.ended.as_ref();
        SessionView {
            session_id: self.session_id.clone(),
            status,
            key_id: self.owner.clone(),
            reason: ended.map(|ended| ended.reason.clone()),
            message: ended.map(|ended| ended.message.clone()),
            kind: options.kind,
            browser_type: options.engine,
            headless: options.mode == Mode::Headless,
            url: options.launch.url.clone(),
            page_error: self.page_error.clone(),
            oom_kills: self.oom_kills,
            timestamp: self.created_ms,
            ended_at: ended.map(|ended| ended.at_ms),
            execution_time: ended.map_or(now_ms, |ended| ended.at_ms).saturating_sub(self.created_ms),
            session_timeout: options.session_timeout,
            idle_timeout: options.idle_timeout,
            keep_alive: options.keep_alive,
            recording: options.recording,
            logs: options.logs,
            egress: self.egress.clone(),
            ads: None,
            captcha: None,
            captchas: self.captchas.clone(),
            service_passcode: options.service_passcode.clone(),
            metadata: options.metadata.clone(),
            app_name: options.app_name.clone(),
            name: options.name.clone(),
            profile: options.profile.as_ref().map(|choice| {
                let saved = Saved::past(self.profile_saved_ms, self.profile_error.clone());
                profile::view(choice, &saved)
            }),
            extension_ids: options.extensions.clone(),
            viewport: options.launch.settings.viewport.map(|size| Viewport { width: size.width, height: size.height }),
        }
    }
}

/// What a list may be sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SortKey {
    /// When it was made.
    #[default]
    Timestamp,
    /// How long it lasted.
    #[serde(alias = "execution_time")]
    ExecutionTime,
    /// Its id.
    #[serde(alias = "session_id")]
    SessionId,
    /// Its status, by name.
    Status,
}

/// A question to the list of sessions: the query of `GET /sessions`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SessionQuery {
    /// Only what was made after this moment, in Unix milliseconds.
    pub start_time: Option<u64>,
    /// Only what was made before this moment, in Unix milliseconds.
    pub end_time: Option<u64>,
    /// Only the session of this id.
    pub session_id: Option<String>,
    /// Only what this key made. In the console an operator may name any; a key in a header sees its own alone.
    #[schemars(extend("x-problem" = KeyId::PROBLEM))]
    pub key_id: Option<KeyId>,
    /// Only those of this end user.
    #[serde(alias = "raccoon_passcode")]
    #[schemars(extend("x-alias" = "raccoon_passcode"))]
    pub service_passcode: Option<String>,
    /// Only those made for this app, or that their clients gave this name: `se:name` on a grid, `trackingId` elsewhere.
    pub app_name: Option<String>,
    /// Only those that connections find by this name, which is `session` in their addresses.
    pub name: Option<String>,
    /// Only those with all of these labels.
    #[schemars(length(max = 16), extend("x-name" = "metadata[]", "x-problem" = Label::PROBLEM))]
    pub metadata: Vec<Label>,
    /// Only sessions with one of these.
    #[serde(rename = "status")]
    pub statuses: Vec<Status>,
    /// Only sessions with one of these.
    #[serde(rename = "browser_type")]
    pub engines: Vec<Engine>,
    /// Which page.
    #[schemars(range(min = 1))]
    pub page: u64,
    /// How many entries a page holds.
    #[schemars(range(min = 1, max = 100))]
    pub limit: u64,
    /// Sort key.
    pub sort_by: SortKey,
    /// In which order.
    pub sort_order: SortOrder,
}

impl Default for SessionQuery {
    fn default() -> Self {
        Self {
            start_time: None,
            end_time: None,
            session_id: None,
            key_id: None,
            service_passcode: None,
            app_name: None,
            name: None,
            metadata: Vec::new(),
            statuses: Vec::new(),
            engines: Vec::new(),
            page: 1,
            limit: 10,
            sort_by: SortKey::default(),
            sort_order: SortOrder::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use warmpool_core::clock::Now;

    /// A record of a session of five minutes as an earlier release kept it, without its deadline.
    fn earlier(created_ms: u64) -> Record {
        serde_json::from_value(json!({
            "session_id": "ses_a",
            "owner": "000000000000",
            "options": {
                "kind": "devtools", "engine": "chromium", "mode": "headless", "launch": {"url": null},
                "session_timeout": 300, "idle_timeout": null,
            },
            "created_ms": created_ms,
            "worker": "a",
        }))
        .unwrap()
    }

    #[test]
    fn an_earlier_releases_session_has_at_most_its_whole_time_left() {
        let now = Now::at(1_790_000_000_000, "a", 1000);
        let left = |created_ms| earlier(created_ms).deadline().left(&now).as_secs();
        assert_eq!(left(now.unix_ms()), 300);
        assert_eq!(left(now.unix_ms() - 100_000), 200);
        assert_eq!(left(now.unix_ms() - 300_000), 0);
        assert_eq!(left(now.unix_ms() + 86_400_000), 300, "the clock was turned back");
    }

    #[test]
    fn the_deadline_is_kept_with_the_record() {
        let now = Now::at(1_790_000_000_000, "a", 1000);
        let deadline = Deadline::after(Duration::from_secs(300), &now);
        let record = Record { deadline: Some(deadline.clone()), ..earlier(now.unix_ms()) };
        let kept: Record = serde_json::from_slice(&serde_json::to_vec(&record).unwrap()).unwrap();
        assert_eq!(kept.deadline(), deadline);
        let later = now.later(Duration::from_secs(100)).jumped(86_400_000);
        assert_eq!(kept.deadline().left(&later).as_secs(), 200, "the clock was set ahead");
    }
}
