//! The agent's own DevTools connection to the browser.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::upstream::dial;

/// Commands that may wait to be written.
const COMMANDS: usize = 256;
/// Largest message taken from the browser, in bytes; the agent asks for nothing big.
const MAX_MESSAGE: usize = 32 << 20;

/// Why a command has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CdpError {
    /// The socket is closed.
    #[error("the browser has closed its DevTools socket")]
    Closed,
    /// The browser refused the command.
    #[error("{0}")]
    Refused(String),
    /// The socket could not be opened.
    #[error("DevTools socket: {0}")]
    Connect(String),
}

/// An event, of the browser or of a session.
#[derive(Debug)]
pub(crate) struct Event {
    /// Name, such as `Target.attachedToTarget`.
    pub(crate) method: String,
    /// What it says.
    pub(crate) params: Value,
}

type Reply = Result<Value, CdpError>;
/// `None` once the socket is closed, so that no command waits for ever.
type Pending = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Reply>>>>>;

/// A browser-level DevTools connection with flat sessions. Clones share it.
#[derive(Clone)]
pub(crate) struct Cdp {
    commands: mpsc::Sender<String>,
    pending: Pending,
    next: Arc<AtomicU64>,
}

#[derive(Deserialize)]
struct Incoming {
    id: Option<u64>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    message: String,
}

impl Cdp {
    /// Connects. `handle` is called for each event before any later reply is given out; it must
    /// not wait for a reply itself.
    pub(crate) async fn connect(
        address: SocketAddr,
        path: &str,
        handle: impl Fn(&Self, Event) + Send + 'static,
    ) -> Result<Self, CdpError> {
        let connect = |e: &dyn std::fmt::Display| CdpError::Connect(e.to_string());
        let stream = dial(address).await.map_err(|e| connect(&e))?;
        let config = WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
        let url = format!("ws://{address}{path}");
        let (socket, _) =
            tokio_tungstenite::client_async_with_config(url, stream, Some(config)).await.map_err(|e| connect(&e))?;
        let (mut sink, mut source) = socket.split();
        let (commands, mut outgoing) = mpsc::channel::<String>(COMMANDS);
        let pending: Pending = Arc::new(Mutex::new(Some(HashMap::new())));

        tokio::spawn(async move {
            while let Some(text) = outgoing.recv().await {
                if sink.send(Message::text(text)).await.is_err() {
                    return;
                }
            }
            let _ = sink.close().await;
        });
        let cdp = Self { commands, pending, next: Arc::default() };
        let reader = cdp.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = source.next().await {
                let Message::Text(text) = message else { continue };
                let Ok(incoming) = serde_json::from_str::<Incoming>(&text) else { continue };
                if let Some(event) = settle(&reader.pending, incoming) {
                    handle(&reader, event);
                }
            }
            // Dropping the senders tells everyone who waits.
            reader.pending.lock().unwrap_or_else(PoisonError::into_inner).take();
        });
        Ok(cdp)
    }

    /// Sends a command to a session, or to the browser itself, and waits for its result.
    pub(crate) async fn call(&self, session: Option<&str>, method: &str, params: Value) -> Result<Value, CdpError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut command = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        let (sender, reply) = oneshot::channel();
        self.pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
            .ok_or(CdpError::Closed)?
            .insert(id, sender);
        self.commands.send(command.to_string()).await.map_err(|_| CdpError::Closed)?;
        reply.await.unwrap_or(Err(CdpError::Closed))
    }
}

/// Hands a reply to whoever waits for it; gives an event back.
fn settle(pending: &Pending, incoming: Incoming) -> Option<Event> {
    let Some(id) = incoming.id else {
        let method = incoming.method?;
        return Some(Event { method, params: incoming.params });
    };
    let sender =
        pending.lock().unwrap_or_else(PoisonError::into_inner).as_mut().and_then(|waiting| waiting.remove(&id))?;
    let reply = match incoming.error {
        Some(refusal) => Err(CdpError::Refused(refusal.message)),
        None => Ok(incoming.result),
    };
    let _ = sender.send(reply);
    None
}
