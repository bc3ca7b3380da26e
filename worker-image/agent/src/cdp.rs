//! The agent's own DevTools connection to the browser.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_util::io::{ReaderStream, StreamReader};
use tokio_util::sync::{CancellationToken, DropGuard};
use warmpool_protocol::{OverlongMessages, with_whole_characters};

use crate::ports::LocalPort;

/// Commands that may wait to be written.
const COMMANDS: usize = 256;
/// Largest message taken from the browser, in bytes. A larger one is shortened ([`OverlongMessages`]), and an answer that stays
/// too long fails its call.
pub(crate) const MAX_MESSAGE: usize = 32 << 20;

/// Bytes to read from the browser at once.
const READ_BUFFER: usize = 32 << 10;

/// Why a command has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CdpError {
    /// The socket is closed, or the target the command was for is gone.
    #[error("the browser or its page is gone")]
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
pub(crate) struct CdpEvent {
    /// Name, such as `Target.attachedToTarget`.
    pub(crate) method: String,
    /// What it says.
    pub(crate) params: Value,
    /// The session that it is of; none for the browser's own.
    pub(crate) session: Option<String>,
}

type Reply = Result<Value, CdpError>;
/// `None` once the socket is closed, so that no command waits for ever.
type Pending = Arc<Mutex<Option<HashMap<u64, Waiting>>>>;

/// A call that waits for its reply.
struct Waiting {
    /// The session of the command.
    session: Option<String>,
    reply: oneshot::Sender<Reply>,
}

/// Forgets a call once nobody waits for it: also where its caller has left.
struct WaitingCall<'a> {
    pending: &'a Pending,
    id: u64,
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        if let Some(all) = self.pending.lock().as_mut() {
            all.remove(&self.id);
        }
    }
}

/// A browser-level DevTools connection with flat sessions. Clones share it.
#[derive(Clone)]
pub(crate) struct Cdp {
    commands: mpsc::Sender<String>,
    pending: Pending,
    next: Arc<AtomicU64>,
    closed: CancellationToken,
}

#[derive(Deserialize)]
struct Incoming {
    id: Option<u64>,
    method: Option<String>,
    #[serde(rename = "sessionId")]
    session: Option<String>,
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
        port: LocalPort,
        path: &str,
        handle: impl Fn(&Self, CdpEvent) + Send + 'static,
    ) -> Result<Self, CdpError> {
        let stream = port.connect().await.map_err(|e| CdpError::Connect(e.to_string()))?;
        Self::over(stream, &format!("ws://{}{path}", port.authority()), handle).await
    }

    /// The same over a stream that is open.
    pub(crate) async fn over(
        stream: UnixStream,
        url: &str,
        handle: impl Fn(&Self, CdpEvent) + Send + 'static,
    ) -> Result<Self, CdpError> {
        let config = WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
        let (from_browser, to_browser) = stream.into_split();
        let mut messages = OverlongMessages::new(MAX_MESSAGE);
        let cut =
            ReaderStream::with_capacity(from_browser, READ_BUFFER).map_ok(move |sent| Bytes::from(messages.cut(&sent)));
        let stream = tokio::io::join(StreamReader::new(cut), to_browser);
        let (socket, _) = tokio_tungstenite::client_async_with_config(url, stream, Some(config))
            .await
            .map_err(|e| CdpError::Connect(e.to_string()))?;
        let (mut sink, mut source) = socket.split();
        let (commands, mut outgoing) = mpsc::channel::<String>(COMMANDS);
        let pending: Pending = Arc::new(Mutex::new(Some(HashMap::new())));
        let cdp = Self { commands, pending, next: Arc::default(), closed: CancellationToken::new() };

        let write = async move {
            while let Some(text) = outgoing.recv().await {
                if sink.send(Message::text(text)).await.is_err() {
                    return;
                }
            }
        };
        let reader = cdp.clone();
        let read = async move {
            while let Some(Ok(message)) = source.next().await {
                let Message::Text(text) = message else { continue };
                let Ok(incoming) = serde_json::from_str::<Incoming>(&with_whole_characters(&text)) else { continue };
                if let Some(event) = settle(&reader.pending, incoming) {
                    handle(&reader, event);
                }
            }
        };
        let connection = cdp.clone();
        tokio::spawn(async move {
            // Whichever ends takes the other with it, and so the socket: the browser undoes what was set over a connection,
            // and lets go what waits for it, only when that is closed.
            tokio::select! {
                () = write => {}
                () = read => {}
                () = connection.closed.cancelled() => {}
            }
            // Dropping the senders ends every call that waits.
            connection.pending.lock().take();
            connection.closed.cancel();
        });
        Ok(cdp)
    }

    /// Ends the connection when the result is dropped, for every clone.
    #[must_use]
    pub(crate) fn close_on_drop(&self) -> DropGuard {
        self.closed.clone().drop_guard()
    }

    /// Waits until the connection has ended.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
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
            .as_mut()
            .ok_or(CdpError::Closed)?
            .insert(id, Waiting { session: session.map(str::to_owned), reply: sender });
        let _waiting = WaitingCall { pending: &self.pending, id };
        self.commands.send(command.to_string()).await.map_err(|_| CdpError::Closed)?;
        reply.await.unwrap_or(Err(CdpError::Closed))
    }
}

/// Hands a reply to its caller; returns an event.
fn settle(pending: &Pending, incoming: Incoming) -> Option<CdpEvent> {
    let Some(id) = incoming.id else {
        let method = incoming.method?;
        if method == "Target.detachedFromTarget" {
            abandon(pending, &incoming.params["sessionId"]);
        }
        return Some(CdpEvent { method, params: incoming.params, session: incoming.session });
    };
    let waiting = pending.lock().as_mut().and_then(|all| all.remove(&id))?;
    let reply = match incoming.error {
        Some(refusal) => Err(CdpError::Refused(refusal.message)),
        None => Ok(incoming.result),
    };
    let _ = waiting.reply.send(reply);
    None
}

/// Stops waiting for a session that has ended: the browser does not answer what it had open.
fn abandon(pending: &Pending, session: &Value) {
    if let Some(all) = pending.lock().as_mut() {
        all.retain(|_, waiting| waiting.session.is_none() || waiting.session.as_deref() != session.as_str());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;
    use tokio_tungstenite::WebSocketStream;

    use super::*;

    /// A connection, and the browser's end of it.
    async fn connected() -> (Cdp, WebSocketStream<UnixStream>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (cdp, browser) = tokio::join!(
            Cdp::over(ours, "ws://127.0.0.1/devtools", |_, _| {}),
            tokio_tungstenite::accept_async(theirs)
        );
        (cdp.unwrap(), browser.unwrap())
    }

    /// Reads until the socket is closed, which takes no time.
    async fn until_closed(mut browser: WebSocketStream<UnixStream>) {
        let closed = async { while let Some(Ok(_)) = browser.next().await {} };
        timeout(Duration::from_secs(60), closed).await.expect("the socket is closed");
    }

    #[tokio::test]
    async fn a_message_that_is_too_long_and_no_json_closes_the_socket() {
        let (cdp, mut browser) = connected().await;
        let long = browser.send(Message::binary(vec![0; MAX_MESSAGE + 1]));
        // It is cut off in the middle, or nobody answers it.
        let _ = timeout(Duration::from_secs(60), long).await.expect("nobody waits for the rest");
        until_closed(browser).await;
        cdp.closed().await;
        assert!(matches!(cdp.call(None, "Browser.getVersion", json!({})).await, Err(CdpError::Closed)));
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_fails_its_call_alone() {
        let (cdp, mut browser) = connected().await;
        let answered = async {
            let mut answer = async |result: Value| {
                let command = browser.next().await.unwrap().unwrap();
                let command: Value = serde_json::from_str(command.to_text().unwrap()).unwrap();
                browser.send(Message::text(json!({"id": command["id"], "result": result}).to_string())).await.unwrap();
            };
            let frame = json!({"frame": {"urlFragment": "x".repeat(60_000)}});
            answer(json!({"frameTree": {"childFrames": vec![frame; 600]}})).await;
            answer(json!({"product": "a"})).await;
        };
        let asked = async {
            let tree = cdp.call(Some("s"), "Page.getFrameTree", json!({})).await;
            assert!(matches!(&tree, Err(CdpError::Refused(reason)) if reason.contains("longer than")), "{tree:?}");
            assert_eq!(cdp.call(None, "Browser.getVersion", json!({})).await.unwrap()["product"], "a");
        };
        tokio::join!(answered, asked);
    }

    #[tokio::test]
    async fn a_request_of_a_page_that_is_too_long_to_tell_of_goes_on() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (heard, mut events) = mpsc::channel(1);
        let hear = move |_: &Cdp, event: CdpEvent| heard.try_send(event).unwrap();
        let (cdp, browser) =
            tokio::join!(Cdp::over(ours, "ws://127.0.0.1/devtools", hear), tokio_tungstenite::accept_async(theirs));
        let (_cdp, mut browser) = (cdp.unwrap(), browser.unwrap());
        let parts = vec![json!({"bytes": "x".repeat(60_000)}); 600];
        let params = json!({"requestId": "r", "request": {"postDataEntries": parts}, "frameId": "f"});
        let event = json!({"method": "Fetch.requestPaused", "params": params, "sessionId": "s"});
        browser.send(Message::text(event.to_string())).await.unwrap();
        let heard = events.recv().await.unwrap();
        assert_eq!((&heard.params["requestId"], heard.session.as_deref()), (&json!("r"), Some("s")));
    }

    #[tokio::test]
    async fn a_long_string_of_a_page_ends_no_connection() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (heard, mut events) = mpsc::channel(1);
        let hear = move |_: &Cdp, event: CdpEvent| heard.try_send(event).unwrap();
        let (cdp, browser) =
            tokio::join!(Cdp::over(ours, "ws://127.0.0.1/devtools", hear), tokio_tungstenite::accept_async(theirs));
        let (_cdp, mut browser) = (cdp.unwrap(), browser.unwrap());
        let params = json!({"guid": "g", "url": "x".repeat(MAX_MESSAGE), "suggestedFilename": "a.bin"});
        let event = json!({"method": "Browser.downloadWillBegin", "params": params});
        browser.send(Message::text(event.to_string())).await.unwrap();
        let heard = events.recv().await.unwrap();
        assert_eq!((&heard.params["guid"], &heard.params["suggestedFilename"]), (&json!("g"), &json!("a.bin")));
    }

    #[tokio::test]
    async fn a_connection_ends_with_its_guard() {
        let (cdp, browser) = connected().await;
        let guard = cdp.close_on_drop();
        let other = cdp.clone();
        let waits = tokio::spawn(async move { other.call(None, "Browser.getVersion", json!({})).await });
        drop(guard);
        until_closed(browser).await;
        assert!(matches!(waits.await.unwrap(), Err(CdpError::Closed)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_caller_has_left_is_forgotten() {
        let (cdp, _browser) = connected().await;
        let call = cdp.call(None, "Browser.getVersion", json!({}));
        assert!(timeout(Duration::from_secs(1), call).await.is_err(), "nobody answers");
        assert!(cdp.pending.lock().as_ref().unwrap().is_empty());
    }

    fn incoming(message: Value) -> Incoming {
        serde_json::from_value(message).unwrap()
    }

    fn wait(pending: &Pending, id: u64, session: Option<&str>) -> oneshot::Receiver<Reply> {
        let (reply, receiver) = oneshot::channel();
        let waiting = Waiting { session: session.map(str::to_owned), reply };
        pending.lock().as_mut().unwrap().insert(id, waiting);
        receiver
    }

    #[tokio::test]
    async fn replies_find_who_waits() {
        let pending: Pending = Arc::new(Mutex::new(Some(HashMap::new())));
        let (good, bad) = (wait(&pending, 1, None), wait(&pending, 2, Some("s")));
        assert!(settle(&pending, incoming(json!({"id": 2, "error": {"code": -1, "message": "no"}}))).is_none());
        assert!(settle(&pending, incoming(json!({"id": 1, "result": {"a": 1}}))).is_none());
        assert!(settle(&pending, incoming(json!({"id": 9, "result": {}}))).is_none());
        assert_eq!(good.await.unwrap().unwrap()["a"], 1);
        assert_eq!(bad.await.unwrap().unwrap_err().to_string(), "no");
    }

    #[tokio::test]
    async fn nobody_waits_for_a_page_that_is_gone() {
        let pending: Pending = Arc::new(Mutex::new(Some(HashMap::new())));
        let (gone, other, browser) =
            (wait(&pending, 1, Some("s")), wait(&pending, 2, Some("t")), wait(&pending, 3, None));
        let event = json!({"method": "Target.detachedFromTarget", "params": {"sessionId": "s"}});
        assert_eq!(settle(&pending, incoming(event)).unwrap().method, "Target.detachedFromTarget");
        assert!(gone.await.is_err());
        for id in [2, 3] {
            settle(&pending, incoming(json!({"id": id, "result": {}})));
        }
        assert!(other.await.unwrap().is_ok() && browser.await.unwrap().is_ok());
    }
}
