//! The agent's own channel into Firefox, which the image's autoconfig opens from inside.
//!
//! It is no remote protocol's session, so it takes none away from clients and shows them nothing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

use crate::worker::Worker;

/// Commands that may wait to be written.
const COMMANDS: usize = 64;
/// Longest line taken from the browser, in bytes: the list of as many pages as are told of, each with a long title and
/// a long address.
const MAX_LINE: u64 = 1 << 20;

/// Why a command has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum ControlError {
    /// The browser is gone.
    #[error("the browser is gone")]
    Closed,
    /// The browser could not do it.
    #[error("{0}")]
    Refused(String),
    /// The browser did not connect.
    #[error("the browser's channel: {0}")]
    Connect(String),
}

/// What a browser tells of itself when it connects.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Hello {
    /// Its version.
    pub(super) version: String,
    /// Its own user agent.
    pub(super) user_agent: String,
    /// Whether the kernel lets it put pages into namespaces and filter their calls.
    pub(super) sandboxed: bool,
}

#[derive(Deserialize)]
struct Incoming {
    id: Option<u64>,
    event: Option<String>,
    #[serde(default)]
    result: Value,
    error: Option<String>,
    #[serde(flatten)]
    details: Value,
}

type Reply = Result<Value, ControlError>;
/// `None` once the channel is closed, so that no command waits for ever.
type Pending = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Reply>>>>>;

/// A place where one browser will connect.
pub(super) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Listens at `path`.
    pub(super) fn open(path: PathBuf) -> std::io::Result<Self> {
        let _ = std::fs::remove_file(&path);
        Ok(Self { listener: UnixListener::bind(&path)?, path })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the browser, and shuts the door behind it.
    pub(super) async fn enter(self, worker: Arc<Worker>) -> Result<(Control, Hello), ControlError> {
        let connect = |e: &dyn std::fmt::Display| ControlError::Connect(e.to_string());
        let (stream, _) = self.listener.accept().await.map_err(|e| connect(&e))?;
        let _ = std::fs::remove_file(&self.path);
        Control::over(stream, worker).await
    }
}

/// A channel to a running browser. Clones share it.
#[derive(Clone)]
pub(super) struct Control {
    commands: mpsc::Sender<String>,
    pending: Pending,
    next: Arc<AtomicU64>,
}

impl Control {
    async fn over(stream: UnixStream, worker: Arc<Worker>) -> Result<(Self, Hello), ControlError> {
        let (from_browser, mut to_browser) = stream.into_split();
        let mut lines = Lines(BufReader::new(from_browser));
        let hello = lines.next().await.ok_or(ControlError::Closed)?;
        let hello = serde_json::from_str(&hello).map_err(|e| ControlError::Connect(e.to_string()))?;
        let (commands, mut outgoing) = mpsc::channel::<String>(COMMANDS);
        tokio::spawn(async move {
            while let Some(line) = outgoing.recv().await {
                if to_browser.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let pending: Pending = Arc::new(Mutex::new(Some(HashMap::new())));
        let settled = Arc::clone(&pending);
        tokio::spawn(async move {
            while let Some(line) = lines.next().await {
                let Ok(incoming) = serde_json::from_str::<Incoming>(&line) else {
                    tracing::debug!("the browser told something that is not understood");
                    continue;
                };
                match (incoming.id, incoming.event.as_deref()) {
                    (Some(id), _) => settle(&settled, id, incoming),
                    (None, Some("download")) => download(&worker, &incoming.details),
                    _ => {}
                }
            }
            // Dropping the senders tells everyone who waits.
            settled.lock().unwrap_or_else(PoisonError::into_inner).take();
        });
        Ok((Self { commands, pending, next: Arc::default() }, hello))
    }

    /// Has the browser do something, and waits for what comes of it.
    pub(super) async fn call(&self, method: &str, params: Value) -> Reply {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = oneshot::channel();
        self.pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
            .ok_or(ControlError::Closed)?
            .insert(id, sender);
        let line = format!("{}\n", json!({"id": id, "method": method, "params": params}));
        self.commands.send(line).await.map_err(|_| ControlError::Closed)?;
        reply.await.unwrap_or(Err(ControlError::Closed))
    }
}

/// Lines of bounded length.
struct Lines(BufReader<OwnedReadHalf>);

impl Lines {
    async fn next(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = (&mut self.0).take(MAX_LINE).read_line(&mut line).await.ok()?;
        (count > 0).then_some(line)
    }
}

fn settle(pending: &Pending, id: u64, incoming: Incoming) {
    let waiting = pending.lock().unwrap_or_else(PoisonError::into_inner).as_mut().and_then(|all| all.remove(&id));
    if let Some(waiting) = waiting {
        let _ = waiting.send(match incoming.error {
            Some(message) => Err(ControlError::Refused(message)),
            None => Ok(incoming.result),
        });
    }
}

/// What the browser tells of a download.
fn download(worker: &Worker, details: &Value) {
    let text = |field: &str| details[field].as_str().unwrap_or_default();
    let (id, path) = (text("download"), text("path"));
    match text("state") {
        "began" => worker.files.download_began(id, path),
        "completed" => worker.files.download_completed(id, Some(PathBuf::from(path))),
        "canceled" => worker.files.download_canceled(id),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(home: &Path) -> Arc<Worker> {
        let claim = json!({
            "secret": "ab".repeat(32), "headless": true, "sandbox": true, "freeze": false,
            "display": {"width": 1280, "height": 800}, "orphan_timeout_ms": 1000,
            "unresponsive_timeout_ms": 1000, "file_limit": 10,
        });
        Arc::new(Worker {
            claim: serde_json::from_value(claim).unwrap(),
            board: Arc::new(crate::board::Board::new()),
            processes: crate::process::Processes::default(),
            files: crate::files::Files::new(home.join("files")).unwrap(),
            home: home.to_owned(),
            upstream: crate::upstream::Upstream::new(),
            egress: crate::egress::Egress::unused(),
        })
    }

    /// A browser that says hello, answers one command, and goes.
    async fn browser(path: PathBuf, file: PathBuf) {
        let stream = UnixStream::connect(path).await.unwrap();
        let (reader, mut writer) = stream.into_split();
        let mut lines = Lines(BufReader::new(reader));
        let hello = json!({"event": "hello", "version": "1", "userAgent": "B/1", "sandboxed": true});
        writer.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
        for state in ["began", "completed"] {
            let told = json!({"event": "download", "download": "0", "state": state, "path": file});
            writer.write_all(format!("{told}\n").as_bytes()).await.unwrap();
        }
        for answer in [json!({"result": 7}), json!({"error": "no"})] {
            let command: Value = serde_json::from_str(&lines.next().await.unwrap()).unwrap();
            let mut answer = answer;
            answer["id"] = command["id"].clone();
            writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        }
        lines.next().await;
    }

    #[tokio::test]
    async fn commands_are_answered_until_the_browser_goes() {
        let home = tempfile::tempdir().unwrap();
        let door = ControlSocket::open(home.path().join("door")).unwrap();
        let file = home.path().join("far.txt");
        std::fs::write(&file, "far").unwrap();
        tokio::spawn(browser(door.path().to_owned(), file));
        let worker = worker(home.path());
        let (control, hello) = door.enter(Arc::clone(&worker)).await.unwrap();
        assert_eq!((hello.version.as_str(), hello.user_agent.as_str(), hello.sandboxed), ("1", "B/1", true));
        assert_eq!(control.call("a", json!({})).await.unwrap(), 7);
        assert_eq!(worker.files.list().await.unwrap()[0].name, "far.txt", "it told of a download before");
        assert_eq!(control.call("b", json!({})).await.unwrap_err().to_string(), "no");
        assert!(control.call("c", json!({})).await.is_err(), "it is gone");
    }
}
