//! The two ways from a live view into a worker: DevTools, and the display.

use bytes::Bytes;
use http::header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::session::Session;
use warmpool_protocol::ClientSaid;
use warmpool_workers::worker::{AgentError, AgentListener, AgentStream, Attachment, PortStream, Upgrade};

/// The longest message a browser may send here: a picture of a large page, in bytes.
const MAX_MESSAGE: usize = 64 << 20;
/// Bytes to read from the browser at once.
const READ_BUFFER: usize = 32 << 10;

/// A DevTools connection of the daemon's own, with what ends when it does.
pub(super) async fn devtools(
    session: &Session,
) -> Result<(WebSocketStream<PortStream>, Option<Box<AgentListener>>), AgentError> {
    let key = HeaderValue::try_from(generate_key()).map_err(|error| AgentError::Unreadable(error.into()))?;
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(SEC_WEBSOCKET_KEY, key);
    let (stream, early, mut listener) = match session.worker.agent.attach("/devtools", headers).await? {
        Attachment::Open { stream, early, listener, .. } => (stream, early, listener),
        Attachment::Declined(status) => return Err(refused(status)),
    };
    if let Some(listener) = listener.as_mut().filter(|listener| listener.heeds().first_page) {
        listener.tell(&ClientSaid::default()).await?;
    }
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
        .read_buffer_size(READ_BUFFER);
    Ok((WebSocketStream::from_partially_read(stream, early.to_vec(), Role::Client, Some(config)).await, listener))
}

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

fn refused(status: StatusCode) -> AgentError {
    let is_missing = status == StatusCode::NOT_FOUND;
    let message = if is_missing { "there is no such thing in this worker" } else { "the upgrade was declined" };
    AgentError::Refused { status, message: message.to_owned() }
}
