//! A browser that a test plays: the other end of the agent's own connection.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::browser::Browser;
use super::switches::DEBUGGING_PORT;
use super::targets::Targets;
use crate::cdp::{Cdp, CdpEvent};
use crate::process::{Exit, Process};
use crate::worker::Worker;

/// A test that waits longer for a command has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// No process has this number.
const NO_PROCESS: i32 = i32::MAX;

/// What a test plays the browser with. It runs until this is dropped.
pub(super) struct FakeBrowser {
    socket: WebSocketStream<UnixStream>,
    _exit: watch::Sender<Option<Exit>>,
}

/// A connection, and the browser's end of it.
pub(super) async fn connection(handle: impl Fn(&Cdp, CdpEvent) + Send + 'static) -> (Cdp, WebSocketStream<UnixStream>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let accept = tokio_tungstenite::accept_async(theirs);
    let (cdp, browser) = tokio::join!(Cdp::over(ours, "ws://127.0.0.1/devtools", handle), accept);
    (cdp.unwrap(), browser.unwrap())
}

impl FakeBrowser {
    pub(super) async fn started(worker: &Arc<Worker>) -> (Browser, Self) {
        let targets = Targets::new(Arc::clone(worker));
        let handler = Arc::clone(&targets);
        let (cdp, socket) = connection(move |cdp, event| handler.handle(cdp, event)).await;
        let (exit, exited) = watch::channel(None);
        let process = Process::reported(NO_PROCESS, exited);
        let listens = (DEBUGGING_PORT, "/devtools/browser/b".to_owned());
        (Browser::new(worker, process, listens, cdp, targets), Self { socket, _exit: exit })
    }

    /// The next command, which is this one.
    pub(super) async fn hear(&mut self, method: &str) -> Value {
        let said = timeout(PATIENCE, self.socket.next()).await.expect("a command comes").unwrap().unwrap();
        let command: Value = serde_json::from_str(said.to_text().unwrap()).unwrap();
        assert_eq!(command["method"], method, "{command}");
        command
    }

    pub(super) async fn say(&mut self, message: &Value) {
        self.socket.send(Message::text(message.to_string())).await.unwrap();
    }

    /// Answers the next command, which is this one.
    pub(super) async fn answer(&mut self, method: &str, result: Value) -> Value {
        let command = self.hear(method).await;
        self.say(&json!({"id": command["id"], "result": result})).await;
        command
    }
}
