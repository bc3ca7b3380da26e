//! What Steel's clients send and read.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::super::super::public_url::PublicUrl;
use super::super::{acting_view, changed, time};
use warmpool_api::AnyObject;
use warmpool_api::profile::ProfileView;
use warmpool_api::session::{SessionView, Status, Viewport};
use warmpool_core::ids::SessionId;
use warmpool_sessions::session::Session;
use warmpool_workers::worker::PAGE;

/// Whether a session lives, in Steel's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "SteelStatus")]
pub(super) enum SessionState {
    Live,
    Released,
    Failed,
}

/// A session, as Steel's clients read it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SteelSession")]
pub(super) struct SessionReply {
    pub(super) id: SessionId,
    pub(super) created_at: String,
    pub(super) status: SessionState,
    /// How long it lasts, or lasted, in milliseconds.
    pub(super) duration: u64,
    /// The hard cap, in milliseconds.
    pub(super) timeout: u64,
    /// The websocket for Playwright and Puppeteer, while it lives; empty afterwards. The key may be added to it.
    pub(super) websocket_url: String,
    /// The live view, in which its holder may act.
    pub(super) debug_url: String,
    pub(super) session_viewer_url: String,
    pub(super) headless: bool,
    pub(super) is_selenium: bool,
    /// The bytes that its browser sent and got.
    pub(super) proxy_bytes_used: u64,
    pub(super) event_count: u64,
    pub(super) credits_used: u64,
    /// The size of its pages, in CSS pixels.
    pub(super) dimensions: Viewport,
    /// Empty: nothing is left out of pages.
    pub(super) optimize_bandwidth: AnyObject,
    /// `steel` of a live session whose pages take one of the operator's upstream proxies.
    pub(super) proxy_source: Option<&'static str>,
    /// The id of the key that made it.
    pub(super) project_id: String,
    /// The idle limit, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inactivity_timeout: Option<u64>,
    /// Why it ended, where the service has a word for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) release_reason: Option<ReleaseReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user_agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) profile_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) persist_profile: Option<bool>,
    /// What the client has to know of the session it got.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
}

/// Why a session ended, in Steel's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SteelReleaseReason")]
pub(super) enum ReleaseReason {
    UserRequested,
    Timeout,
    InactivityTimeout,
    BrowserClosed,
    BrowserCrashed,
}

/// Some of the sessions of a key.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SteelSessions")]
pub(super) struct SessionList {
    pub(super) sessions: Vec<SessionReply>,
    /// Where the next list begins, if there is one.
    pub(super) next_cursor: Option<String>,
    pub(super) total_count: u64,
}

/// Which sessions to list.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ListQuery {
    /// Only sessions in this state.
    pub(super) status: Option<SessionState>,
    /// Only sessions behind this one.
    #[serde(rename = "cursorId")]
    pub(super) cursor_id: Option<String>,
    /// How many; 50 where it is left out.
    #[schemars(range(min = 1, max = 100))]
    pub(super) limit: Option<u64>,
    /// Has no effect.
    #[serde(rename = "projectId")]
    pub(super) project_id: Option<String>,
}

/// Whose profiles or sessions.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ProjectQuery {
    /// Has no effect: they are the key's.
    #[serde(rename = "projectId")]
    pub(super) project_id: Option<String>,
}

/// Nothing.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SteelRelease")]
pub(super) struct Release {}

/// Whether it was done.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SteelReleased")]
pub(super) struct Released {
    pub(super) success: bool,
    pub(super) message: String,
}

/// Where a session can be seen.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SteelLiveDetails")]
pub(super) struct LiveDetails {
    pub(super) session_viewer_url: String,
    pub(super) session_viewer_fullscreen_url: String,
    pub(super) ws_url: String,
    pub(super) pages: Vec<LivePage>,
}

/// A page of a session.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SteelLivePage")]
pub(super) struct LivePage {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) url: String,
    pub(super) favicon: Option<String>,
    pub(super) session_viewer_url: String,
    pub(super) session_viewer_fullscreen_url: String,
}

/// A file of a session.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SteelFile")]
pub(super) struct FileReply {
    /// Its name; of one that was sent just now, where a page's file chooser finds it.
    pub(super) path: String,
    pub(super) size: u64,
    pub(super) last_modified: String,
}

/// The files of a session.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SteelFiles")]
pub(super) struct FileList {
    pub(super) data: Vec<FileReply>,
}

/// A profile.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SteelProfile")]
pub(super) struct ProfileReply {
    /// Its name.
    pub(super) id: String,
    pub(super) status: &'static str,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    /// The session that saved it last.
    pub(super) source_session_id: Option<SessionId>,
    /// The id of its key.
    pub(super) project_id: String,
    /// These are null: a profile has what its sites keep, and nothing else.
    pub(super) credentials_config: (),
    pub(super) dimensions: (),
    pub(super) extension_ids: (),
    pub(super) fingerprint: (),
    pub(super) use_proxy_config: (),
    pub(super) user_agent: (),
}

/// The profiles of a key.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SteelProfiles")]
pub(super) struct ProfileReplies {
    pub(super) count: usize,
    pub(super) profiles: Vec<ProfileReply>,
}

pub(super) const fn state(status: Status) -> SessionState {
    match status {
        Status::Starting | Status::Running | Status::Unknown => SessionState::Live,
        Status::Terminated | Status::Completed | Status::Success => SessionState::Released,
        Status::Failure => SessionState::Failed,
    }
}

/// Why a session ended; nothing where it lives, and where the service has no such reason.
fn release_reason(view: &SessionView) -> Option<ReleaseReason> {
    match (view.status, view.reason.as_deref()?) {
        (Status::Failure, _) => Some(ReleaseReason::BrowserCrashed),
        (_, "deleted") => Some(ReleaseReason::UserRequested),
        (_, "session_timeout") => Some(ReleaseReason::Timeout),
        (_, "idle_timeout") => Some(ReleaseReason::InactivityTimeout),
        (_, "browser_closed") => Some(ReleaseReason::BrowserClosed),
        _ => None,
    }
}

/// A session in Steel's words.
pub(super) fn reply(base: &PublicUrl, view: SessionView, live: Option<&Arc<Session>>) -> SessionReply {
    let live = live.filter(|session| session.check_open().is_ok());
    let settings = live.map(|session| &session.options.launch.settings);
    let viewer = live.map(|session| acting_view(base, session)).unwrap_or_default();
    SessionReply {
        created_at: time(view.timestamp),
        status: state(view.status),
        duration: view.execution_time,
        timeout: view.session_timeout.saturating_mul(1000),
        websocket_url: live.map(|session| base.websocket_url(session)).unwrap_or_default(),
        debug_url: viewer.clone(),
        session_viewer_url: viewer,
        headless: view.headless,
        is_selenium: false,
        proxy_bytes_used: view.egress.as_ref().map_or(0, |egress| egress.bytes_in + egress.bytes_out),
        event_count: 0,
        credits_used: 0,
        dimensions: view.viewport.unwrap_or(Viewport { width: PAGE.width, height: PAGE.height }),
        optimize_bandwidth: AnyObject(Map::new()),
        proxy_source: live.filter(|session| session.options.proxy.is_some()).map(|_| "steel"),
        project_id: view.key_id.to_string(),
        inactivity_timeout: view.idle_timeout.map(|seconds| seconds.saturating_mul(1000)),
        release_reason: release_reason(&view),
        user_agent: settings.and_then(|settings| settings.user_agent.clone()),
        persist_profile: view.profile.as_ref().map(|profile| profile.is_written),
        profile_id: view.profile.map(|profile| profile.name),
        warnings: live.map(|session| session.warnings.clone()).unwrap_or_default(),
        id: view.session_id,
    }
}

pub(super) fn profile_reply(profile: ProfileView) -> ProfileReply {
    ProfileReply {
        status: "READY",
        created_at: time(profile.created),
        updated_at: time(changed(&profile)),
        source_session_id: profile.versions.first().and_then(|version| version.session_id.clone()),
        project_id: profile.key_id.to_string(),
        credentials_config: (),
        dimensions: (),
        extension_ids: (),
        fingerprint: (),
        use_proxy_config: (),
        user_agent: (),
        id: profile.name,
    }
}
