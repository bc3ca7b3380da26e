//! The daemon's own DevTools connection to a session's browser, through the same agent as the client's.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::upstream;
use crate::session::Session;
use warmpool_workers::worker::{AgentError, PortStream};

/// How long the browser may take to answer one command.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How many commands may wait to be sent; beyond that, callers wait.
const COMMANDS: usize = 64;
/// Events of one target waiting to be read.
const EVENTS: usize = 16;

/// Why a command got no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum CdpError {
    /// There is no connection.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The connection ended.
    #[error("the browser's DevTools connection ended")]
    Gone,
    /// The browser did not answer in time.
    #[error("the browser did not answer {0}")]
    Silent(&'static str),
    /// The browser refused.
    #[error("{0}")]
    Refused(String),
}

/// An event of one attached target.
#[derive(Debug)]
pub(super) struct CdpEvent {
    pub(super) method: String,
    pub(super) params: Value,
}

type Answer = Result<Value, CdpError>;

/// A connection. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Cdp {
    commands: mpsc::Sender<String>,
    shared: Arc<Shared>,
    last: AtomicU64,
    closed: CancellationToken,
    _end: DropGuard,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
    listeners: Mutex<HashMap<String, mpsc::Sender<CdpEvent>>>,
    /// Notifies when a tab was opened, closed or changed its title or address.
    targets: Notify,
}

impl Cdp {
    /// Connects to the browser as a whole.
    pub(super) async fn connect(session: &Session) -> Result<Self, CdpError> {
        let (socket, listener) = upstream::devtools(session).await?;
        let (commands, to_send) = mpsc::channel(COMMANDS);
        let (shared, closed, end) = (Arc::<Shared>::default(), CancellationToken::new(), CancellationToken::new());
        let work = run(socket, to_send, Arc::clone(&shared));
        let (ended, told) = (end.clone(), closed.clone());
        tokio::spawn(async move {
            let _listener = listener;
            tokio::select! {
                () = work => {}
                () = ended.cancelled() => {}
            }
            told.cancel();
        });
        Ok(Self { commands, shared, last: AtomicU64::new(0), closed, _end: end.drop_guard() })
    }

    /// Sends a command and waits for its result.
    pub(super) async fn call(&self, session: Option<&str>, method: &'static str, params: Value) -> Answer {
        let (sender, answer) = oneshot::channel();
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.waiting().insert(id, sender);
        let answered = async {
            self.send(id, session, method, &params).await?;
            answer.await.unwrap_or(Err(CdpError::Gone))
        };
        let result = tokio::select! {
            biased;
            result = timeout(ANSWER_TIMEOUT, answered) => result.unwrap_or(Err(CdpError::Silent(method))),
            () = self.closed.cancelled() => Err(CdpError::Gone),
        };
        self.waiting().remove(&id);
        result
    }

    /// Sends a command whose result nobody needs.
    pub(super) async fn notify(&self, session: &str, method: &'static str, params: Value) -> Result<(), CdpError> {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.send(id, Some(session), method, &params).await
    }

    async fn send(&self, id: u64, session: Option<&str>, method: &str, params: &Value) -> Result<(), CdpError> {
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        self.commands.send(message.to_string()).await.map_err(|_| CdpError::Gone)
    }

    /// Subscribes to the events of one attached target.
    pub(super) fn listen(&self, session: &str) -> mpsc::Receiver<CdpEvent> {
        let (sender, receiver) = mpsc::channel(EVENTS);
        let mut listeners = self.shared.listeners.lock();
        listeners.retain(|_, listener| !listener.is_closed());
        listeners.insert(session.to_owned(), sender);
        receiver
    }

    /// Waits until a tab is opened, closed or changed.
    pub(super) async fn targets_changed(&self) {
        self.shared.targets.notified().await;
    }

    /// Waits until the connection has ended.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Answer>>> {
        self.shared.waiting.lock()
    }
}

async fn run(socket: WebSocketStream<PortStream>, mut commands: mpsc::Receiver<String>, shared: Arc<Shared>) {
    let (mut to, mut from) = socket.split();
    let send = async {
        while let Some(command) = commands.recv().await {
            if to.send(Message::text(command)).await.is_err() {
                return;
            }
        }
    };
    let hear = async {
        while let Some(Ok(message)) = from.next().await {
            if let Message::Text(text) = message {
                shared.hear(&text);
            }
        }
    };
    tokio::select! {
        () = send => {}
        () = hear => {}
    }
}

impl Shared {
    fn hear(&self, text: &str) {
        let Ok(mut message) = serde_json::from_str::<Value>(text) else { return };
        if let Some(id) = message["id"].as_u64() {
            let waiting = self.waiting.lock().remove(&id);
            if let Some(waiting) = waiting {
                let _ = waiting.send(match message["error"]["message"].as_str() {
                    Some(error) => Err(CdpError::Refused(error.to_owned())),
                    None => Ok(message["result"].take()),
                });
            }
            return;
        }
        let Some(method) = message["method"].as_str() else { return };
        if method.starts_with("Target.target") {
            self.targets.notify_one();
            return;
        }
        let Some(session) = message["sessionId"].as_str() else { return };
        let (session, method) = (session.to_owned(), method.to_owned());
        let mut listeners = self.listeners.lock();
        if let Some(listener) = listeners.get(&session) {
            let event = CdpEvent { method, params: message["params"].take() };
            // A listener that does not keep up loses its target, not the events of others.
            if listener.try_send(event).is_err() {
                listeners.remove(&session);
            }
        }
    }
}
