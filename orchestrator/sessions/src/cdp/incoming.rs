//! What the browser says, read only as far as somebody wants it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use warmpool_core::json::may_be_read;
use warmpool_protocol::text;

/// A message of the browser, of which only what somebody wants is read.
#[derive(Deserialize)]
pub(super) struct Incoming<'a> {
    pub(super) id: Option<u64>,
    #[serde(borrow)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "sessionId")]
    pub(super) session: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    pub(super) error: Option<Refusal>,
}

#[derive(Deserialize)]
pub(super) struct Refusal {
    #[serde(default, deserialize_with = "text::read")]
    pub(super) message: String,
}

/// Reads a part of a message; nothing where it would take much more memory than a message of `longest` bytes does.
pub(super) fn read(part: Option<&RawValue>, longest: usize) -> Option<Value> {
    let Some(part) = part else { return Some(Value::Null) };
    may_be_read(part.get().as_bytes(), longest).then(|| serde_json::from_str(part.get()).unwrap_or_default())
}
