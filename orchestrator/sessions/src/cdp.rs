//! The daemon's own DevTools connection to a session's browser, through the same agent as the client's.

mod backlog;
mod connection;
mod incoming;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _, TryStreamExt as _};
use parking_lot::{Mutex, MutexGuard};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, join, split};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::io::{ReaderStream, StreamReader};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::session::Session;
use backlog::{Backlog, Queued};
use connection::{READ_BUFFER, open, websocket};
pub(crate) use connection::{handshake, refused};
use incoming::{Incoming, read};
use warmpool_protocol::{OverlongMessages, with_whole_characters};
use warmpool_workers::worker::{AgentError, AgentListener};

/// How long the browser may take to answer one command.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How many commands may wait to be sent; beyond that, callers wait.
const COMMANDS: usize = 64;
/// Events of one target waiting to be read.
const EVENTS: usize = 16;
/// The longest message a browser may send here: a picture of a large page, in bytes.
const MAX_MESSAGE: usize = 64 << 20;
/// Bytes of messages for listeners to one target that wait to be read: one of the longest.
const MAX_BACKLOG: usize = MAX_MESSAGE;
/// The same for a listener to all targets.
const MAX_GENERAL_BACKLOG: usize = 8 << 20;

/// Why a command got no result.
#[derive(Debug, thiserror::Error)]
pub enum CdpError {
    /// There is no connection.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The connection ended.
    #[error("the browser's DevTools connection ended")]
    Gone,
    /// The browser did not answer in time.
    #[error("the browser did not answer {0}")]
    Silent(&'static str),
    /// Read, the answer would take too much memory. A page may choose what its scripts answer.
    #[error("the browser's answer takes too much memory")]
    TooLarge,
    /// The browser refused.
    #[error("{0}")]
    Refused(String),
}

/// An event of one attached target.
#[derive(Debug)]
pub struct CdpEvent {
    /// Its name, such as `Page.lifecycleEvent`.
    pub method: String,
    /// Its parameters.
    pub params: Value,
    _queued: Queued,
}

type Answer = Result<Value, CdpError>;

/// A connection. Dropping it ends it.
#[derive(Debug)]
pub struct Cdp {
    commands: mpsc::Sender<String>,
    shared: Arc<Shared>,
    last: AtomicU64,
    closed: CancellationToken,
    _end: DropGuard,
}

/// Whether somebody wants an event of this name with these parameters.
pub type EventFilter = dyn Fn(&str, &Value) -> bool + Send + Sync;

/// Somebody who reads the events of one attached target.
struct Listener {
    events: mpsc::Sender<CdpEvent>,
    wanted: Box<EventFilter>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

/// Somebody who reads events of all targets, and of the browser itself.
#[derive(Debug)]
struct GeneralListener {
    events: mpsc::Sender<UnreadEvent>,
    wanted: fn(&str) -> bool,
    missed: Arc<AtomicU64>,
    backlog: Backlog,
}

/// An event that waits. Read, it may take many times as much memory.
#[derive(Debug)]
struct UnreadEvent {
    target: String,
    method: String,
    params: Option<Box<RawValue>>,
    queued: Queued,
}

/// Events of all targets. The target of what the browser itself says is empty.
#[derive(Debug)]
pub(crate) struct GeneralEvents {
    events: mpsc::Receiver<UnreadEvent>,
    missed: Arc<AtomicU64>,
    longest: usize,
    closed: CancellationToken,
}

impl GeneralEvents {
    /// The next event; none once the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<(String, CdpEvent)> {
        loop {
            let UnreadEvent { target, method, params, queued } = tokio::select! {
                biased;
                event = self.events.recv() => event?,
                () = self.closed.cancelled() => return None,
            };
            match read(params.as_deref(), self.longest) {
                Some(params) => return Some((target, CdpEvent { method, params, _queued: queued })),
                None => self.missed.fetch_add(1, Ordering::Relaxed),
            };
        }
    }

    /// How many events came too fast, or were too large, since the last call.
    pub(crate) fn take_missed(&self) -> u64 {
        self.missed.swap(0, Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Shared {
    /// Bytes of the longest message.
    longest: usize,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
    listeners: Mutex<HashMap<String, Listener>>,
    general: Mutex<Option<GeneralListener>>,
    backlog: Backlog,
    /// Notifies when a tab was opened, closed or changed its title or address.
    targets: Notify,
}

impl Cdp {
    /// Connects to the browser as a whole.
    /// Errors: `Agent`.
    pub async fn connect(session: &Session) -> Result<Self, CdpError> {
        Self::connect_within(session, MAX_MESSAGE).await
    }

    /// The same, where the browser's messages may have this many bytes. A longer one ends the connection.
    /// Errors: `Agent`.
    pub async fn connect_within(session: &Session, max_message: usize) -> Result<Self, CdpError> {
        let (stream, early, listener) = open(session).await?;
        let socket = websocket(stream, early, max_message).await;
        Ok(Self::over(socket, listener, max_message))
    }

    /// The same, but a longer message is shortened ([`OverlongMessages`]) and ends no connection.
    /// Errors: `Agent`.
    pub(crate) async fn connect_cutting(session: &Session, max_message: usize) -> Result<Self, CdpError> {
        let (stream, early, listener) = open(session).await?;
        let mut messages = OverlongMessages::of_open(max_message);
        let early = messages.cut(&early);
        let (from_browser, to_browser) = split(stream);
        let cut =
            ReaderStream::with_capacity(from_browser, READ_BUFFER).map_ok(move |sent| Bytes::from(messages.cut(&sent)));
        let socket = websocket(join(StreamReader::new(cut), to_browser), early, max_message).await;
        Ok(Self::over(socket, listener, max_message))
    }

    fn over(
        socket: WebSocketStream<impl AsyncRead + AsyncWrite + Unpin + Send + 'static>,
        listener: Option<Box<AgentListener>>,
        max_message: usize,
    ) -> Self {
        let (commands, to_send) = mpsc::channel(COMMANDS);
        let (shared, closed, end) =
            (Arc::new(Shared::new(max_message)), CancellationToken::new(), CancellationToken::new());
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
        Self { commands, shared, last: AtomicU64::new(0), closed, _end: end.drop_guard() }
    }

    /// Sends a command and waits for its result.
    /// Errors: those of [`CdpError`].
    pub async fn call(&self, session: Option<&str>, method: &'static str, params: Value) -> Answer {
        self.call_within(ANSWER_TIMEOUT, session, method, params).await
    }

    /// Sends a command and waits so long for its result.
    /// Errors: those of [`CdpError`].
    pub async fn call_within(
        &self,
        limit: Duration,
        session: Option<&str>,
        method: &'static str,
        params: Value,
    ) -> Answer {
        let (sender, answer) = oneshot::channel();
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.waiting().insert(id, sender);
        let answered = async {
            self.send(id, session, method, &params).await?;
            answer.await.unwrap_or(Err(CdpError::Gone))
        };
        let result = tokio::select! {
            biased;
            result = timeout(limit, answered) => result.unwrap_or(Err(CdpError::Silent(method))),
            () = self.closed.cancelled() => Err(CdpError::Gone),
        };
        self.waiting().remove(&id);
        result
    }

    /// Sends a command whose result nobody needs.
    /// Errors: `Gone`.
    pub async fn notify(&self, session: &str, method: &'static str, params: Value) -> Result<(), CdpError> {
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
    pub(crate) fn listen(&self, session: &str) -> mpsc::Receiver<CdpEvent> {
        self.listen_for(session, EVENTS, |_, _| true)
    }

    /// Subscribes to some of the events of one attached target, of which `most` may wait to be read. Who falls further
    /// behind, or is sent one that takes too much memory, gets no more of them: the receiver ends.
    pub fn listen_for(
        &self,
        session: &str,
        most: usize,
        wanted: impl Fn(&str, &Value) -> bool + Send + Sync + 'static,
    ) -> mpsc::Receiver<CdpEvent> {
        let (events, receiver) = mpsc::channel(most);
        let mut listeners = self.shared.listeners.lock();
        listeners.retain(|_, listener| !listener.events.is_closed());
        listeners.insert(session.to_owned(), Listener { events, wanted: Box::new(wanted) });
        receiver
    }

    /// Subscribes to some of the events of all targets, of which `most` may wait to be read; further ones are counted.
    pub(crate) fn listen_to_all(&self, most: usize, wanted: fn(&str) -> bool) -> GeneralEvents {
        let (events, receiver) = mpsc::channel(most);
        let missed = Arc::<AtomicU64>::default();
        *self.shared.general.lock() =
            Some(GeneralListener { events, wanted, missed: Arc::clone(&missed), backlog: Backlog::default() });
        GeneralEvents { events: receiver, missed, longest: self.shared.longest, closed: self.closed.clone() }
    }

    /// Waits until a tab is opened, closed or changed.
    pub(crate) async fn targets_changed(&self) {
        self.shared.targets.notified().await;
    }

    /// Waits until the connection has ended.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Answer>>> {
        self.shared.waiting.lock()
    }
}

async fn run(
    socket: WebSocketStream<impl AsyncRead + AsyncWrite + Unpin>,
    mut commands: mpsc::Receiver<String>,
    shared: Arc<Shared>,
) {
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
    fn new(longest: usize) -> Self {
        Self {
            longest,
            waiting: Mutex::default(),
            listeners: Mutex::default(),
            general: Mutex::default(),
            backlog: Backlog::default(),
            targets: Notify::new(),
        }
    }

    fn hear(&self, text: &str) {
        let text = with_whole_characters(text);
        let Ok(message) = serde_json::from_str::<Incoming<'_>>(&text) else { return };
        if let Some(id) = message.id {
            let waiting = self.waiting.lock().remove(&id);
            if let Some(waiting) = waiting {
                let _ = waiting.send(match message.error {
                    Some(error) => Err(CdpError::Refused(error.message)),
                    None => read(message.result, self.longest).ok_or(CdpError::TooLarge),
                });
            }
            return;
        }
        let Some(method) = message.method.as_deref() else { return };
        if method.starts_with("Target.target") {
            self.targets.notify_one();
            return;
        }
        if let Some(listener) = self.general.lock().as_ref().filter(|listener| (listener.wanted)(method)) {
            let queued = listener.backlog.add(text.len(), MAX_GENERAL_BACKLOG);
            let event = queued.map(|queued| UnreadEvent {
                target: message.session.as_deref().unwrap_or_default().to_owned(),
                method: method.to_owned(),
                params: message.params.map(ToOwned::to_owned),
                queued,
            });
            if event.is_none_or(|event| listener.events.try_send(event).is_err()) {
                listener.missed.fetch_add(1, Ordering::Relaxed);
            }
            return;
        }
        let Some(session) = message.session.as_deref() else { return };
        let mut listeners = self.listeners.lock();
        let Some(listener) = listeners.get(session) else { return };
        let Some(params) = read(message.params, self.longest) else {
            listeners.remove(session);
            return;
        };
        if (listener.wanted)(method, &params) {
            let queued = self.backlog.add(text.len(), MAX_BACKLOG);
            let event = queued.map(|queued| CdpEvent { method: method.to_owned(), params, _queued: queued });
            // A listener that does not keep up loses its target, not the events of others.
            if event.is_none_or(|event| listener.events.try_send(event).is_err()) {
                listeners.remove(session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn events_that_nobody_reads_take_a_limited_memory() {
        let shared = Shared::new(MAX_MESSAGE);
        let (events, receiver) = mpsc::channel(4096);
        let missed = Arc::<AtomicU64>::default();
        let wanted = |method: &str| method == "Runtime.consoleAPICalled";
        let general = GeneralListener { events, wanted, missed: Arc::clone(&missed), backlog: Backlog::default() };
        *shared.general.lock() = Some(general);
        let longest = shared.longest;
        let mut events = GeneralEvents { events: receiver, missed, longest, closed: CancellationToken::new() };
        let params = json!({"args": vec![0; 500_000]});
        let event = json!({"method": "Runtime.consoleAPICalled", "sessionId": "s", "params": params}).to_string();
        for _ in 0..20 {
            shared.hear(&event);
        }
        let kept = MAX_GENERAL_BACKLOG / event.len();
        assert_eq!(events.take_missed(), 20 - kept as u64);
        for _ in 0..kept {
            let (target, read) = events.next().await.unwrap();
            assert_eq!((target.as_str(), &read.params), ("s", &params));
        }
        shared.hear(&event);
        assert_eq!(events.take_missed(), 0, "what was read makes room");
    }

    #[tokio::test]
    async fn answers_and_events_find_who_waits_for_them() {
        let shared = Shared::new(MAX_MESSAGE);
        let (sender, answer) = oneshot::channel();
        shared.waiting.lock().insert(7, sender);
        shared.hear(r#"{"id":7,"result":{"value":1},"sessionId":"s"}"#);
        assert_eq!(answer.await.unwrap().unwrap(), json!({"value": 1}));
        let (sender, answer) = oneshot::channel();
        shared.waiting.lock().insert(8, sender);
        shared.hear(r#"{"id":8,"error":{"code":-32000,"message":"no \"such\" \ud800"}}"#);
        assert_eq!(answer.await.unwrap().unwrap_err().to_string(), "no \"such\" \u{fffd}");
        let (events, mut receiver) = mpsc::channel(2);
        let wanted = |method: &str, params: &Value| method == "Page.x" && params["a"] == 1;
        shared.listeners.lock().insert("s".to_owned(), Listener { events, wanted: Box::new(wanted) });
        for event in [
            r#"{"method":"Page.x","params":{"a":2},"sessionId":"s"}"#,
            r#"{"method":"Page.x","params":{"a":1},"sessionId":"s"}"#,
            r#"{"method":"Page.x","params":{"a":1},"sessionId":"t"}"#,
            "[1]",
        ] {
            shared.hear(event);
        }
        assert_eq!(receiver.recv().await.unwrap().params, json!({"a": 1}));
        assert!(receiver.try_recv().is_err());
    }

    #[tokio::test]
    async fn messages_that_take_much_memory_once_read_are_refused() {
        let shared = Shared::new(1 << 20);
        let (sender, answer) = oneshot::channel();
        shared.waiting.lock().insert(1, sender);
        let short_values = "[],".repeat(300_000);
        shared.hear(&format!(r#"{{"id":1,"result":[{short_values}0]}}"#));
        assert!(matches!(answer.await.unwrap(), Err(CdpError::TooLarge)));
        let (events, mut receiver) = mpsc::channel(2);
        shared.listeners.lock().insert("s".to_owned(), Listener { events, wanted: Box::new(|_, _| true) });
        shared.hear(&format!(r#"{{"method":"Page.x","params":[{short_values}0],"sessionId":"s"}}"#));
        assert!(receiver.recv().await.is_none());
    }
}
