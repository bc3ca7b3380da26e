//! The way from a live view to a worker's display.

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue};

use crate::cdp::refused;
use crate::session::Session;
use warmpool_workers::worker::{AgentError, AgentStream, Upgrade};

/// An RFB connection to the display, with the bytes that have arrived already.
pub(super) async fn display(session: &Session) -> Result<(AgentStream, Bytes), AgentError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("rfb"));
    match session.worker.agent.upgrade("/screen", headers).await? {
        Upgrade::Switched { stream, early, .. } => Ok((stream, early)),
        Upgrade::Declined(status) => Err(refused(status)),
    }
}
