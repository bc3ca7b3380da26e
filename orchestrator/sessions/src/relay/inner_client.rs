//! A client in the daemon itself, which gets what any client gets: limits, the agent's ear, and what is put into messages.
//!
//! The code of a call drives its browser by it. `cdp` is for the daemon's own commands, which pass beside all of that.

use std::sync::Arc;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::io::DuplexStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tracing::Instrument as _;

use crate::Error;
use crate::cdp::handshake;
use crate::relay;
use crate::session::Session;
use warmpool_config::Config;
use warmpool_core::error::ServiceFault as _;

/// Bytes in either direction that nobody has read yet; beyond that, senders wait.
const BUFFER: usize = 64 << 10;

/// Why there are no more messages.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Closed(String);

/// Sends messages to the browser.
pub struct InnerSender(SplitSink<WebSocketStream<DuplexStream>, Message>);

/// Reads messages of the browser.
pub struct InnerReceiver {
    socket: SplitStream<WebSocketStream<DuplexStream>>,
    /// Why it has ended, once it has.
    end: Option<String>,
}

/// Connects to the browser of a session as a client does. A message of the browser's with more than `longest` bytes ends the
/// connection, as dropping both ends does.
/// Errors: those of [`relay::open`].
pub async fn connect(
    session: &Arc<Session>,
    config: &Config,
    longest: usize,
) -> Result<(InnerSender, InnerReceiver), Error> {
    let headers = handshake().map_err(Error::internal)?;
    let (_, relay) = relay::open(session, config, "/devtools", &headers).await?;
    let (ours, theirs) = tokio::io::duplex(BUFFER);
    let span = tracing::info_span!("relay", session = %session.id);
    tokio::spawn(async move { relay.run(theirs).await }.instrument(span));
    let config = WebSocketConfig::default().max_message_size(Some(longest)).max_frame_size(Some(longest));
    let socket = WebSocketStream::from_raw_socket(ours, Role::Client, Some(config)).await;
    let (sender, receiver) = socket.split();
    Ok((InnerSender(sender), InnerReceiver { socket: receiver, end: None }))
}

impl InnerSender {
    /// Sends a message, and waits while the browser does not read.
    /// Errors: when the connection has ended.
    pub async fn send(&mut self, message: String) -> Result<(), Closed> {
        self.0.send(Message::text(message)).await.map_err(|error| Closed(error.to_string()))
    }
}

impl InnerReceiver {
    /// Waits for a message; returns it with others that are there already, until they are `most` bytes.
    /// Errors: when the connection has ended, with the reason that a client would see.
    pub async fn next(&mut self, most: usize) -> Result<Vec<String>, Closed> {
        let (mut messages, mut bytes) = (Vec::new(), 0);
        while bytes < most && self.end.is_none() {
            let message = match messages.is_empty() {
                true => self.socket.next().await,
                false => match self.socket.next().now_or_never() {
                    Some(message) => message,
                    None => break,
                },
            };
            match message {
                Some(Ok(Message::Text(text))) => {
                    bytes += text.len();
                    messages.push(text.as_str().to_owned());
                }
                Some(Ok(Message::Close(frame))) => {
                    self.end = Some(frame.map_or_else(String::new, |frame| frame.reason.as_str().to_owned()));
                }
                Some(Err(error)) => self.end = Some(error.to_string()),
                None => self.end = Some(String::new()),
                Some(Ok(_)) => {}
            }
        }
        match &self.end {
            Some(end) if messages.is_empty() => Err(Closed(match end.as_str() {
                "" => "the connection was closed".to_owned(),
                reason => reason.to_owned(),
            })),
            _ => Ok(messages),
        }
    }
}
