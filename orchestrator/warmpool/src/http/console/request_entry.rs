//! One line of the log of requests.

use serde::Serialize;

use super::super::reply::AuthMethod;
use warmpool_core::ids::RequestId;
use warmpool_keys::KeyId;
use warmpool_tasks::task::TaskId;

/// One request.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RequestEntry {
    /// When it came, in Unix milliseconds.
    pub(super) at: u64,
    pub(super) id: RequestId,
    pub(super) method: String,
    /// The route's path, which names no token.
    pub(super) route: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<TaskId>,
    /// The key that it was sent with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key_id: Option<KeyId>,
    /// How it was authenticated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<AuthMethod>,
    pub(super) status: u16,
    /// The code of its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<&'static str>,
    /// Until its answer began, in microseconds.
    pub(super) micros: u64,
}
