//! What Browserbase's clients send and read.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::super::public_url::PublicUrl;
use super::super::{changed, time};
use warmpool_api::profile::ProfileView;
use warmpool_api::session::{SessionView, Status};
use warmpool_core::ids::SessionId;
use warmpool_core::metadata::Metadata;
use warmpool_sessions::session::Session;

/// Whether a session lives, in Browserbase's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(rename = "BrowserbaseStatus")]
pub(super) enum SessionState {
    Pending,
    Running,
    Error,
    TimedOut,
    Completed,
}

/// A session, as Browserbase's clients read it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BrowserbaseSession")]
pub(super) struct SessionReply {
    pub(super) id: SessionId,
    pub(super) status: SessionState,
    pub(super) created_at: String,
    pub(super) started_at: String,
    pub(super) updated_at: String,
    /// When its hard cap is over.
    pub(super) expires_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended_at: Option<String>,
    pub(super) keep_alive: bool,
    /// The id of the key that made it.
    pub(super) project_id: String,
    /// The bytes that its browser sent and got.
    pub(super) proxy_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) context_id: Option<String>,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    pub(super) user_metadata: Metadata,
    /// The websocket for Playwright and Puppeteer, while it lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) connect_url: Option<String>,
    /// Empty while it lives: Selenium takes the address of a grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) selenium_remote_url: Option<&'static str>,
    /// Empty, for the same reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signing_key: Option<&'static str>,
    /// Says nothing: there is one place, and the service's clients read one of its own.
    pub(super) region: &'static str,
    /// What the client has to know of the session it got.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
}

/// What changes a session.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "BrowserbaseUpdateSession")]
pub(super) struct UpdateSession {
    /// What is wanted: its end.
    pub(super) status: RequestedStatus,
    /// Has no effect.
    #[serde(default)]
    #[expect(dead_code, reason = "it is accepted")]
    pub(super) project_id: Option<String>,
}

/// What is wanted of a session.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(rename = "BrowserbaseRequestedStatus")]
pub(super) enum RequestedStatus {
    RequestRelease,
}

/// Which sessions to list.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ListQuery {
    /// One label: `user_metadata['key']:'value'`.
    pub(super) q: Option<String>,
    /// Only sessions in this state.
    pub(super) status: Option<SessionState>,
}

/// How long the live view may be opened.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct DebugQuery {
    /// Not served: the addresses end with the session.
    #[serde(rename = "expiresIn")]
    pub(super) expires_in: Option<u64>,
}

/// Where a session can be seen.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BrowserbaseLiveUrls")]
pub(super) struct LiveUrls {
    pub(super) debugger_url: String,
    pub(super) debugger_fullscreen_url: String,
    pub(super) ws_url: String,
    pub(super) pages: Vec<LivePage>,
}

/// A page of a session.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BrowserbaseLivePage")]
pub(super) struct LivePage {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) url: String,
    pub(super) favicon_url: String,
    pub(super) debugger_url: String,
    pub(super) debugger_fullscreen_url: String,
}

/// The recording of a session.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BrowserbaseRecordingDownloads")]
pub(super) struct RecordingDownloads {
    pub(super) downloads: Vec<RecordingDownload>,
}

/// A part of a recording: WebM of a display, Matroska of a headless browser.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BrowserbaseRecordingDownload")]
pub(super) struct RecordingDownload {
    /// The part's name.
    pub(super) page_id: String,
    #[schemars(extend("enum" = ["PENDING", "COMPLETED"]))]
    pub(super) status: &'static str,
    /// Where it is. Whoever holds the address can fetch it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) download_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) completed_at: Option<String>,
}

/// A file that was sent.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BrowserbaseUpload")]
pub(super) struct Upload {
    pub(super) message: String,
    /// Where a page's file chooser finds it, inside the container.
    pub(super) path: String,
}

/// A context that is wanted.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
#[schemars(rename = "BrowserbaseCreateContext")]
pub(super) struct CreateContext {
    /// The profile's name, which is the context's id as well; a new one where it is left out.
    pub(super) name: Option<String>,
    /// Has no effect.
    pub(super) project_id: Option<String>,
}

/// A context: a profile of the key.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BrowserbaseContext")]
pub(super) struct ContextReply {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) project_id: String,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    /// Empty: nothing can be uploaded into a context.
    pub(super) upload_url: String,
    /// Empty.
    pub(super) public_key: String,
    /// Of the context's own encryption, which the daemon does.
    pub(super) cipher_algorithm: String,
    pub(super) initialization_vector_size: u64,
}

/// A session in Browserbase's words.
pub(super) fn reply(base: &PublicUrl, view: SessionView, live: Option<&Arc<Session>>) -> SessionReply {
    let status = state(&view);
    let live = live.filter(|session| session.check_open().is_ok());
    let created = time(view.timestamp);
    SessionReply {
        status,
        started_at: created.clone(),
        updated_at: view.ended_at.map_or_else(|| created.clone(), time),
        created_at: created,
        expires_at: time(view.timestamp.saturating_add(view.session_timeout.saturating_mul(1000))),
        ended_at: view.ended_at.map(time),
        keep_alive: view.keep_alive,
        project_id: view.key_id.to_string(),
        proxy_bytes: view.egress.map_or(0, |egress| egress.bytes_in + egress.bytes_out),
        context_id: view.profile.map(|profile| profile.name),
        user_metadata: view.metadata,
        connect_url: live.map(|session| base.websocket_url(session)),
        selenium_remote_url: live.map(|_| ""),
        signing_key: live.map(|_| ""),
        region: "us-west-2",
        warnings: live.map(|session| session.warnings.clone()).unwrap_or_default(),
        id: view.session_id,
    }
}

pub(super) fn state(view: &SessionView) -> SessionState {
    match view.status {
        Status::Starting => SessionState::Pending,
        Status::Running | Status::Unknown => SessionState::Running,
        Status::Failure => SessionState::Error,
        Status::Terminated if view.reason.as_deref().is_some_and(|reason| reason.ends_with("_timeout")) => {
            SessionState::TimedOut
        }
        Status::Terminated | Status::Completed | Status::Success => SessionState::Completed,
    }
}

pub(super) fn context_reply(profile: ProfileView) -> ContextReply {
    ContextReply {
        id: profile.name.clone(),
        project_id: profile.key_id.to_string(),
        created_at: time(profile.created),
        updated_at: time(changed(&profile)),
        name: profile.name,
        upload_url: String::new(),
        public_key: String::new(),
        cipher_algorithm: "AES-256-CBC".to_owned(),
        initialization_vector_size: 16,
    }
}
