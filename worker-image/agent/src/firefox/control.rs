//! The agent's own channel into Firefox, which the image's autoconfig opens from inside.
//!
//! It uses no remote protocol, so it occupies no session that a client could want, and clients do not see it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use warmpool_protocol::{CaptchaSolver, LogLine};

use crate::ads::AdBlocker;
use crate::captchas::{Captchas, DOCUMENT_SCRIPT, PAGE_SCRIPT};
use crate::lines::{Line, Lines};
use crate::log;
use crate::worker::Worker;

use super::ads::{self, Question};
use super::captchas::Window;

/// Commands that may wait to be written.
const COMMANDS: usize = 64;
/// The longest line that the agent accepts from the browser, in bytes: the longest list of pages, each with a long title
/// and address. The browser knows it as well, and says that an answer is longer.
const MAX_LINE: usize = 1 << 20;

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

/// How a browser introduces itself when it connects.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Hello {
    pub(super) version: String,
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

/// The socket to which one browser connects.
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

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the browser to connect, and accepts nothing else.
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
    ad_blocker: Arc<OnceLock<Arc<AdBlocker>>>,
    captchas: Arc<OnceLock<Arc<Captchas>>>,
}

impl Control {
    async fn over(stream: UnixStream, worker: Arc<Worker>) -> Result<(Self, Hello), ControlError> {
        let (from_browser, mut to_browser) = stream.into_split();
        let mut lines = Lines::new(from_browser, MAX_LINE);
        let Some(Line::Text(hello)) = lines.next().await else { return Err(ControlError::Closed) };
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
        let control =
            Self { commands, pending, next: Arc::default(), ad_blocker: Arc::default(), captchas: Arc::default() };
        let reader = control.clone();
        tokio::spawn(async move {
            while let Some(line) = lines.next().await {
                let Line::Text(line) = line else {
                    tracing::debug!("the browser sent a line that is too long");
                    continue;
                };
                let Ok(incoming) = serde_json::from_str::<Incoming>(&line) else {
                    tracing::debug!("the browser sent something unreadable");
                    continue;
                };
                match (incoming.id, incoming.event.as_deref()) {
                    (Some(id), _) => settle(&reader.pending, id, incoming),
                    (None, Some("captchas")) => reader.watch_document(incoming.details),
                    (None, Some("ads")) => reader.answer_ads(incoming.details),
                    (None, Some("log")) => write_down(&worker, &incoming.details),
                    (None, Some("download")) => download(&worker, &incoming.details),
                    _ => {}
                }
            }
            // Dropping the senders ends every call that waits.
            reader.pending.lock().take();
        });
        Ok((control, hello))
    }

    /// Blocks ads until the browser ends.
    pub(super) async fn block_ads(&self, blocker: Arc<AdBlocker>) -> Result<(), ControlError> {
        let _ = self.ad_blocker.set(blocker);
        self.call("blockAds", Value::Null).await.map(drop)
    }

    /// Looks for challenges in every document from now on, until the browser ends.
    pub(super) async fn watch_captchas(&self, captchas: Arc<Captchas>) -> Result<(), ControlError> {
        let by_person = captchas.solver == CaptchaSolver::Person;
        let _ = self.captchas.set(captchas);
        let scripts = json!({"documentScript": DOCUMENT_SCRIPT, "pageScript": PAGE_SCRIPT, "byPerson": by_person});
        self.call("watchCaptchas", scripts).await.map(drop)
    }

    fn watch_document(&self, begun: Value) {
        let (Some(captchas), Ok(begun)) = (self.captchas.get(), serde_json::from_value(begun)) else {
            return tracing::debug!("the browser told of a document that is not understood");
        };
        tokio::spawn(Arc::clone(captchas).watch(Window::new(self.clone(), begun)));
    }

    fn answer_ads(&self, question: Value) {
        let (Some(blocker), Ok(question)) = (self.ad_blocker.get(), serde_json::from_value::<Question>(question))
        else {
            return tracing::debug!("the browser asked something of ads that is not understood");
        };
        let params = json!({"question": question.question, "answer": ads::answer(blocker, question)});
        let control = self.clone();
        tokio::spawn(async move { control.call("answerAds", params).await });
    }

    /// Sends a command and waits for its result.
    pub(super) async fn call(&self, method: &str, params: Value) -> Reply {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = oneshot::channel();
        self.pending.lock().as_mut().ok_or(ControlError::Closed)?.insert(id, sender);
        let line = format!("{}\n", json!({"id": id, "method": method, "params": params}));
        self.commands.send(line).await.map_err(|_| ControlError::Closed)?;
        reply.await.unwrap_or(Err(ControlError::Closed))
    }
}

fn settle(pending: &Pending, id: u64, incoming: Incoming) {
    let waiting = pending.lock().as_mut().and_then(|all| all.remove(&id));
    if let Some(waiting) = waiting {
        let _ = waiting.send(match incoming.error {
            Some(message) => Err(ControlError::Refused(message)),
            None => Ok(incoming.result),
        });
    }
}

/// Notes what the browser reports of a download.
fn download(worker: &Worker, details: &Value) {
    let text = |field: &str| details[field].as_str().unwrap_or_default();
    let (id, path) = (text("download"), text("path"));
    match text("state") {
        "began" => {
            worker.files.download_began(id, path);
            let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
            worker.log.write(&LogLine::Download { time: log::now(), name, url: Some(text("url").to_owned()) });
        }
        "completed" => worker.files.download_completed(id, Some(PathBuf::from(path))),
        "canceled" => worker.files.download_canceled(id),
        _ => {}
    }
}

/// Writes down what the browser reports of its pages.
fn write_down(worker: &Worker, details: &Value) {
    match LogLine::deserialize(&details["line"]) {
        Ok(line) => worker.log.write(&line),
        Err(error) => tracing::debug!(%error, "the browser told something for the log that is not understood"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(home: &Path) -> Arc<Worker> {
        let claim = json!({
            "secret": "ab".repeat(32), "headless": true, "sandbox": true, "freeze": false, "rehearse": false,
            "display": {"width": 1280, "height": 800}, "orphan_timeout_ms": 1000,
            "unresponsive_timeout_ms": 1000, "file_limit": 10,
        });
        Arc::new(Worker {
            claim: serde_json::from_value(claim).unwrap(),
            status: Arc::new(crate::status::Status::new()),
            processes: crate::process::Processes::default(),
            files: crate::files::Files::new(home.join("files")).unwrap(),
            log: Arc::default(),
            home: home.to_owned(),
            upstream: crate::upstream::Upstream::new(),
            egress: Arc::new(crate::egress::Egress::new()),
            driver: parking_lot::Mutex::default(),
        })
    }

    /// A browser that says hello, answers one command, and goes.
    async fn browser(path: PathBuf, file: PathBuf) {
        let stream = UnixStream::connect(path).await.unwrap();
        let (reader, mut writer) = stream.into_split();
        let mut lines = Lines::new(reader, MAX_LINE);
        let hello = json!({"event": "hello", "version": "1", "userAgent": "B/1", "sandboxed": true});
        writer.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
        for state in ["began", "completed"] {
            let told = json!({"event": "download", "download": "0", "state": state, "path": file});
            writer.write_all(format!("{told}\n").as_bytes()).await.unwrap();
        }
        for answer in [json!({"result": 7}), json!({"error": "no"})] {
            let Some(Line::Text(command)) = lines.next().await else { panic!("no command") };
            let command: Value = serde_json::from_str(&command).unwrap();
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
        assert_eq!(worker.files.list().await.unwrap()[0].name, "far.txt", "the download's events came first");
        assert_eq!(control.call("b", json!({})).await.unwrap_err().to_string(), "no");
        assert!(control.call("c", json!({})).await.is_err(), "it is gone");
    }
}
