//! Finds challenges in WebKit's documents, by scripts that the shell adds to each of them.
//!
//! A script can send the shell a text and wait for its answer, and in frames nothing else is possible. So it asks for
//! orders, and each waits here until there is one.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use warmpool_protocol::{CaptchaSolver, with_whole_characters};

use crate::captchas::{Captchas, DOCUMENT_SCRIPT, Document, PAGE_SCRIPT};

use super::shell::{Commands, Message, ShellError};

const SCRIPT: &str = include_str!("captchas.js");
/// Documents at most; later ones are left alone.
const MAX_DOCUMENTS: usize = 1_000;
/// Orders that wait for a document.
const ORDERS: usize = 4;

/// What a script sends.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
enum DocumentMessage {
    #[serde(rename_all = "camelCase")]
    Begun {
        /// The document's address.
        begun: String,
        /// Whether it is a page's own and no frame's.
        is_top: bool,
    },
    Ready {
        ready: u64,
    },
    Answered {
        answered: u64,
        id: u64,
        value: Option<String>,
    },
    Gone {
        gone: u64,
    },
}

/// What a script is to do.
struct Order {
    method: &'static str,
    argument: Option<String>,
    answer: oneshot::Sender<String>,
}

/// A document as the script in it needs it.
struct Row {
    orders: Arc<tokio::sync::Mutex<mpsc::Receiver<Order>>>,
    answers: HashMap<u64, oneshot::Sender<String>>,
}

/// All documents in which the scripts run.
struct Documents {
    commands: Commands,
    captchas: Arc<Captchas>,
    rows: Mutex<HashMap<u64, Row>>,
    last: AtomicU64,
}

/// Looks for challenges in every document from now on, until the browser ends.
pub(super) async fn watch(
    commands: Commands,
    mut messages: mpsc::Receiver<Message>,
    captchas: Arc<Captchas>,
) -> Result<(), ShellError> {
    let by_person = captchas.solver == CaptchaSolver::Person;
    // No page can guess it.
    let event = json!(format!("{:x}", RandomState::new().build_hasher().finish()));
    let document = format!("({SCRIPT})(({DOCUMENT_SCRIPT})({by_person}), {event})");
    let page = format!("document.addEventListener({event}, ({{ detail }}) => ({PAGE_SCRIPT})(...JSON.parse(detail)))");
    commands.watch_captchas(&document, &page).await?;
    let documents = Arc::new(Documents { commands, captchas, rows: Mutex::default(), last: AtomicU64::new(0) });
    tokio::spawn(async move {
        while let Some(Message { number, text }) = messages.recv().await {
            let Ok(told) = serde_json::from_str(&with_whole_characters(&text)) else {
                tracing::debug!("a document sent something that is not understood");
                continue;
            };
            tokio::spawn(Arc::clone(&documents).hear(number, told));
        }
    });
    Ok(())
}

impl Documents {
    /// Answers a message. Where the answer is an order, it comes once there is one.
    async fn hear(self: Arc<Self>, message: u64, told: DocumentMessage) {
        let answer = match told {
            DocumentMessage::Begun { begun, is_top } => self.begin(begun, is_top).await,
            DocumentMessage::Ready { ready } => self.next_order(ready).await,
            DocumentMessage::Answered { answered, id, value } => {
                let asked = self.rows.lock().get_mut(&answered).and_then(|row| row.answers.remove(&id));
                if let (Some(asked), Some(value)) = (asked, value) {
                    let _ = asked.send(value);
                }
                Value::Null
            }
            DocumentMessage::Gone { gone } => {
                self.rows.lock().remove(&gone);
                Value::Null
            }
        };
        if let Err(error) = self.commands.reply(message, &answer.to_string()).await {
            tracing::debug!(%error, "a document got no answer");
        }
    }

    /// Gives a document its number, and looks for challenges in it.
    async fn begin(self: &Arc<Self>, url: String, is_top: bool) -> Value {
        // Nobody says which page a frame is in.
        let pages = if is_top { self.commands.pages().await.unwrap_or_default() } else { Vec::new() };
        let page = pages.into_iter().find(|page| page.url == url).map(|page| page.id);
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let (orders, receiver) = mpsc::channel(ORDERS);
        {
            let mut rows = self.rows.lock();
            if rows.len() < MAX_DOCUMENTS {
                let orders = Arc::new(tokio::sync::Mutex::new(receiver));
                rows.insert(number, Row { orders, answers: HashMap::new() });
            }
        }
        tokio::spawn(Arc::clone(&self.captchas).watch(Window { page, orders }));
        number.into()
    }

    /// Waits for an order to a document; null once nobody has any.
    async fn next_order(&self, document: u64) -> Value {
        let Some(orders) = self.rows.lock().get(&document).map(|row| Arc::clone(&row.orders)) else {
            return Value::Null;
        };
        let Some(Order { method, argument, answer }) = orders.lock().await.recv().await else { return Value::Null };
        let id = self.last.fetch_add(1, Ordering::Relaxed);
        if let Some(row) = self.rows.lock().get_mut(&document) {
            row.answers.insert(id, answer);
        }
        json!({"id": id, "method": method, "argument": argument})
    }
}

/// A document, for the one who looks into it.
struct Window {
    page: Option<String>,
    orders: mpsc::Sender<Order>,
}

impl Window {
    async fn order(&self, method: &'static str, argument: Option<String>) -> Option<String> {
        let (answer, answered) = oneshot::channel();
        self.orders.send(Order { method, argument, answer }).await.ok()?;
        answered.await.ok()
    }
}

impl Document for Window {
    fn page(&self) -> Option<String> {
        self.page.clone()
    }

    async fn call(&self, method: &'static str, argument: Option<&str>) -> Option<String> {
        self.order(method, argument.map(str::to_owned)).await
    }

    async fn tell_page(&self, arguments: [Value; 3]) {
        self.order("page", Some(Value::from(arguments.to_vec()).to_string())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_scripts_send_is_told_apart() {
        let read = |text: &str| serde_json::from_str::<DocumentMessage>(text).ok();
        let begun = DocumentMessage::Begun { begun: "http://a/".to_owned(), is_top: true };
        assert_eq!(read(r#"{"begun": "http://a/", "isTop": true}"#), Some(begun));
        assert_eq!(read(r#"{"ready": 3}"#), Some(DocumentMessage::Ready { ready: 3 }));
        let answered = DocumentMessage::Answered { answered: 3, id: 4, value: Some("true".to_owned()) };
        assert_eq!(read(r#"{"answered": 3, "id": 4, "value": "true"}"#), Some(answered));
        assert_eq!(read(r#"{"gone": 3}"#), Some(DocumentMessage::Gone { gone: 3 }));
        assert_eq!(read("null"), None);
    }
}
