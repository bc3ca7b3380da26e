//! Integration keys, and the log of the requests that they sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmpool_core::ids::{IntegrationKeyId, WorldId};

use crate::list::PageMeta;
use crate::world::{Environment, Status};

/// What a key's worlds are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IntegrationKind {
    /// Real use.
    Live,
    /// Trying out: small scenes with a watermark.
    Test,
}

/// Whether a key works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(rename = "IntegrationKeyState")]
pub enum KeyState {
    /// It does.
    Active,
    /// It never will again.
    Revoked,
}

/// A key as the console shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "IntegrationKey")]
pub struct KeyView {
    /// Its id, which is no secret.
    pub key_id: IntegrationKeyId,
    /// What its maker called it.
    pub name: String,
    /// Whether it works.
    pub state: KeyState,
    /// What its worlds are for.
    pub kind: IntegrationKind,
    /// Both ends of the secret.
    pub key: String,
    /// In Unix milliseconds.
    pub created_at: u64,
    /// When a call last came with it, in Unix milliseconds.
    pub last_used_at: Option<u64>,
    /// The same for people, as in `2 minutes ago`.
    pub last_used: String,
    /// How many worlds it made.
    pub worlds_generated: u64,
    /// The whole key. Only the answer that makes it has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// The keys that the caller made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "IntegrationKeyList")]
pub struct KeyList {
    /// The keys.
    pub keys: Vec<KeyView>,
}

/// One request, with the patient's name joined in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorldRequest")]
pub struct RequestView {
    /// When it came, in Unix milliseconds.
    pub timestamp: u64,
    /// The patient it was for; null once the patient is forgotten, and where the request was refused.
    pub patient_id: Option<String>,
    /// Which kind of scene it asked for.
    pub environment_type: Option<Environment>,
    /// What it brought, for people; `not read` where its body could not be read.
    pub payload: String,
    /// The id of the key that it came with.
    pub key_id: Option<IntegrationKeyId>,
    /// Both ends of that key.
    pub key: Option<String>,
    /// The status of the answer, with its name.
    pub status: String,
    /// How long the answer took, for people.
    pub latency: String,
    /// How long the answer took, in milliseconds.
    pub latency_ms: u64,
    /// The world that it got.
    pub world_id: Option<WorldId>,
    /// How far that world is now; null where it was deleted, and in streams of requests.
    pub world_status: Option<Status>,
}

/// One page of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorldRequestPage")]
pub struct RequestPage {
    /// The requests, newest first.
    pub requests: Vec<RequestView>,
    /// Where in the log they are.
    pub meta: PageMeta,
}
