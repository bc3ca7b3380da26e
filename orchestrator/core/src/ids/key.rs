//! Identifiers of keys.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const CHARS: usize = 12;

/// Names a key: twelve hexadecimal digits. Not secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline)]
pub struct KeyId(Arc<str>);

impl KeyId {
    /// What is wrong with a text that is none, to be read after its field's name.
    pub const PROBLEM: &str = "must be a key's id: twelve hexadecimal digits in lower case";

    /// The id of callers without a key.
    #[must_use]
    pub fn nobody() -> Self {
        Self("0".repeat(CHARS).into())
    }

    /// The id of these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; CHARS / 2]) -> Self {
        Self(hex::encode(bytes).into())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is not twelve hexadecimal digits in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key id is twelve hexadecimal digits in lower case")]
pub struct InvalidKeyId;

impl std::str::FromStr for KeyId {
    type Err = InvalidKeyId;

    fn from_str(text: &str) -> Result<Self, InvalidKeyId> {
        let hex_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() == CHARS && text.bytes().all(hex_digit) { Ok(Self(text.into())) } else { Err(InvalidKeyId) }
    }
}

impl TryFrom<String> for KeyId {
    type Error = InvalidKeyId;

    fn try_from(text: String) -> Result<Self, InvalidKeyId> {
        text.parse()
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> String {
        id.0.as_ref().to_owned()
    }
}
