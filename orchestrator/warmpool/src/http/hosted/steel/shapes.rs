//! What Steel's clients send and read.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::super::public_url::PublicUrl;
use super::super::{acting_view, changed, time};
use warmpool_api::profile::ProfileView;
use warmpool_api::session::{SessionView, Status};
use warmpool_core::ids::SessionId;
use warmpool_sessions::session::Session;

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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dimensions: Option<Dimensions>,
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

/// The size of a page, in CSS pixels.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SteelDimensions")]
pub(super) struct Dimensions {
    pub(super) width: u32,
    pub(super) height: u32,
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
    /// How many.
    #[schemars(range(min = 1, max = 100))]
    pub(super) limit: Option<u64>,
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
        proxy_bytes_used: view.egress.map_or(0, |egress| egress.bytes_in + egress.bytes_out),
        event_count: 0,
        credits_used: 0,
        dimensions: settings
            .and_then(|settings| settings.viewport)
            .map(|size| Dimensions { width: size.width, height: size.height }),
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
        id: profile.name,
    }
}
