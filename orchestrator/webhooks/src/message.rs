//! A message as the store keeps it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use warmpool_keys::KeyId;

/// The longest message, in bytes of a JSON string: as one it stands in a value of the store, in one batch with what it tells of.
pub(super) const MAX_BODY: usize = 56 << 10;

/// What a message tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A session ended.
    SessionEnded,
    /// A challenge in a session's page waits for a person.
    SessionWaiting,
    /// A task ended.
    TaskEnded,
    /// A challenge in a task's page waits for a person.
    TaskWaiting,
}

impl EventKind {
    /// The name in messages and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SessionEnded => "session.ended",
            Self::SessionWaiting => "session.waiting",
            Self::TaskEnded => "task.ended",
            Self::TaskWaiting => "task.waiting",
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// What.
    pub kind: EventKind,
    /// The id of what it happened to; with the kind it names the event.
    pub subject: &'a str,
    /// The key that the subject belongs to.
    pub owner: &'a KeyId,
    /// Where the client wants to hear of it.
    pub address: Option<&'a str>,
    /// What there is to tell.
    pub data: &'a Value,
    /// What is told instead if that is too long.
    pub brief: &'a Value,
}

impl Event<'_> {
    /// The id of the message, by which receivers know it again. It has no full stop, since the signature is over texts that are
    /// joined by these.
    pub(super) fn message_id(&self) -> String {
        format!("msg_{}_{}", self.subject, self.kind.as_str()).replace('.', "_")
    }

    /// The body of the message.
    pub(super) fn body(&self) -> String {
        let timestamp = jiff::Timestamp::now().to_string();
        let of = |data: &Value| json!({"type": self.kind.as_str(), "timestamp": timestamp, "data": data}).to_string();
        let whole = of(self.data);
        if json!(whole).to_string().len() > MAX_BODY { of(self.brief) } else { whole }
    }
}

/// Where a message goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Receiver {
    /// `webhooks.url`.
    Operator,
    /// An address that a client named.
    Client {
        /// The client's key.
        key: KeyId,
    },
}

/// A message that has not arrived yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Message {
    /// Its id, which stays the same however often it is sent.
    pub id: String,
    /// What it tells, by the name in metrics.
    pub event: String,
    /// Whom it is for.
    pub receiver: Receiver,
    /// The client's address; the operator's is in the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The text that is sent.
    pub body: String,
    /// When it was made, in Unix milliseconds.
    pub created_ms: u64,
}

impl Message {
    /// The key in the store.
    pub(super) fn store_key(&self) -> Vec<u8> {
        let kind = match self.receiver {
            Receiver::Operator => "operator",
            Receiver::Client { .. } => "client",
        };
        format!("{kind}/{}", self.id).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_brief() {
        let (data, brief) = (json!({"a": "x".repeat(MAX_BODY)}), json!({"task_id": "t"}));
        let owner = "0123456789ab".parse().unwrap();
        let event = Event {
            kind: EventKind::TaskEnded,
            subject: "t",
            owner: &owner,
            address: None,
            data: &data,
            brief: &brief,
        };
        assert_eq!(event.message_id(), "msg_t_task_ended");
        let body: Value = serde_json::from_str(&event.body()).unwrap();
        assert_eq!((&body["type"], &body["data"]), (&json!("task.ended"), &brief));
        // In a text within JSON, each of these takes four bytes.
        let quotes = json!({"a": "\"".repeat(MAX_BODY / 4)});
        let body: Value = serde_json::from_str(&Event { data: &quotes, ..event }.body()).unwrap();
        assert_eq!(body["data"], brief);
        let body: Value = serde_json::from_str(&Event { data: &brief, ..event }.body()).unwrap();
        assert_eq!(body["data"], brief);
    }
}
