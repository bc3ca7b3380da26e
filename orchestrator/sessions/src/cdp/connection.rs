//! How the daemon reaches a browser's DevTools: through the agent, by a websocket.

use http::header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::session::Session;
use warmpool_core::error::Cause;
use warmpool_protocol::ClientMessage;
use warmpool_workers::worker::{AgentError, AgentListener, BrowserSide, PortStream};

/// Bytes to read from the browser at once.
pub(super) const READ_BUFFER: usize = 32 << 10;

/// The headers by which the daemon opens a websocket. It asks for no extension.
/// Errors: never, as long as a key of a handshake is a header.
pub(crate) fn handshake() -> Result<HeaderMap, Cause> {
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::try_from(generate_key())?);
    Ok(headers)
}

/// A DevTools connection of the daemon's own, with what has been read of it, and what ends when it does.
pub(super) async fn open(session: &Session) -> Result<(PortStream, Vec<u8>, Option<Box<AgentListener>>), AgentError> {
    let headers = handshake().map_err(AgentError::Unreadable)?;
    let (stream, early, mut listener) = match session.worker.agent.attach("/devtools", headers).await? {
        BrowserSide::Open { stream, early, listener, .. } => (stream, early, listener),
        BrowserSide::Declined(status) => return Err(refused(status)),
    };
    if let Some(listener) = listener.as_mut().filter(|listener| listener.listen_rules().first_page) {
        listener.tell(&ClientMessage::default()).await?;
    }
    Ok((stream, early.to_vec(), listener))
}

/// A websocket over an open connection of which this has been read.
pub(super) async fn websocket<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    early: Vec<u8>,
    max_message: usize,
) -> WebSocketStream<S> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(max_message))
        .max_frame_size(Some(max_message))
        .read_buffer_size(READ_BUFFER);
    WebSocketStream::from_partially_read(stream, early, Role::Client, Some(config)).await
}

/// The agent declined an upgrade.
pub(crate) fn refused(status: StatusCode) -> AgentError {
    let is_missing = status == StatusCode::NOT_FOUND;
    let message = if is_missing { "there is no such thing in this worker" } else { "the upgrade was declined" };
    AgentError::Refused { status, message: message.to_owned() }
}
