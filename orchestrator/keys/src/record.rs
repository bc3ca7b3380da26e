//! What the keys of every kind consist of: id, name, state, and the hashes of their secrets.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::registry::KeyKind;
use warmpool_core::clock::{Deadline, Now, millis, unix_ms};
use warmpool_core::secret::Secret;

const MAX_NAME_CHARS: usize = 64;

/// Whether a key works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum KeyState {
    /// It does.
    Active,
    /// It never will again.
    Revoked {
        /// Since when, Unix milliseconds.
        at_ms: u64,
    },
}

impl KeyState {
    /// Its name, as lists show it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Revoked { .. } => "revoked",
        }
    }
}

/// The SHA-256 of a key's secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    pub(crate) fn new(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash")
    }
}

impl From<SecretHash> for String {
    fn from(hash: SecretHash) -> String {
        URL_SAFE_NO_PAD.encode(hash.0)
    }
}

impl TryFrom<String> for SecretHash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or("not a SHA-256 in base64url")
    }
}

/// A secret that was replaced and still works for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PreviousSecret {
    hash: SecretHash,
    /// It works until then, Unix milliseconds, as the wall clock stood when it was replaced. Integration keys of earlier
    /// releases do not have it.
    #[serde(default)]
    until_ms: u64,
    /// The same end, whatever the wall clock does; none in service keys of earlier releases, and `until` in their integration
    /// keys.
    #[serde(default, alias = "until", skip_serializing_if = "Option::is_none")]
    deadline: Option<Deadline>,
}

impl PreviousSecret {
    pub(crate) fn new(hash: SecretHash, keep_for: Duration, now: &Now) -> Self {
        let until_ms = now.unix_ms().saturating_add(millis(keep_for));
        Self { hash, until_ms, deadline: Some(Deadline::after(keep_for, now)) }
    }

    /// Whether it still works.
    fn works(&self, now: &Now) -> bool {
        match &self.deadline {
            Some(deadline) => !deadline.is_over(now),
            None => now.unix_ms() < self.until_ms,
        }
    }

    /// The same secret, counted by the clock of this boot; `None` where it is already.
    pub(crate) fn anchored(&self, now: &Now) -> Option<Self> {
        let kept = self.deadline.clone().unwrap_or_else(|| {
            // Its term is unknown, so assume the longest.
            let left = Duration::from_millis(self.until_ms.saturating_sub(now.unix_ms()));
            Deadline::by_wall(self.until_ms, left)
        });
        kept.anchored(now).map(|deadline| Self { deadline: Some(deadline), ..self.clone() })
    }
}

/// The record of a key. It holds nothing that opens anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Record<K: KeyKind> {
    /// What names the key. Not secret.
    pub id: K::Id,
    /// What its maker called it.
    pub name: String,
    /// When it was made, Unix milliseconds.
    pub created_ms: u64,
    /// When it was last used, Unix milliseconds; up to a minute old after a restart.
    pub last_used_ms: Option<u64>,
    /// Whether it works.
    pub state: KeyState,
    pub(crate) hash: SecretHash,
    /// The secret before the last rotation; `replaced` in integration keys of earlier releases.
    #[serde(alias = "replaced")]
    pub(crate) previous: Option<PreviousSecret>,
    /// What only keys of this kind have.
    #[serde(flatten)]
    pub details: K,
}

impl<K: KeyKind> Record<K> {
    /// Whether the key works.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        matches!(self.state, KeyState::Active)
    }

    /// Ends the key, if it works.
    pub(crate) fn revoke(&mut self) {
        if self.is_active() {
            self.state = KeyState::Revoked { at_ms: unix_ms() };
            self.previous = None;
        }
    }

    /// Until when the secret before the last rotation works, Unix milliseconds by the wall clock at that rotation; none where
    /// it stopped at once.
    #[must_use]
    pub fn old_secret_until_ms(&self) -> Option<u64> {
        self.previous.as_ref().map(|previous| previous.until_ms)
    }

    pub(crate) fn hashes(&self) -> impl Iterator<Item = SecretHash> + use<K> {
        [Some(self.hash), self.previous.as_ref().map(|previous| previous.hash)].into_iter().flatten()
    }

    /// Whether this is the secret before the last rotation.
    pub(crate) fn is_replaced(&self, hash: SecretHash) -> bool {
        self.previous.as_ref().is_some_and(|previous| previous.hash == hash)
    }

    pub(crate) fn has_secret(&self, hash: SecretHash, now: &Now) -> bool {
        self.hash == hash || self.previous.as_ref().is_some_and(|previous| previous.hash == hash && previous.works(now))
    }
}

/// A key just made or rotated.
#[derive(Clone, Debug)]
pub struct NewKey<K: KeyKind> {
    /// Its record.
    pub record: Record<K>,
    /// The whole key. This is the only time it can be seen.
    pub secret: Secret,
}

impl<K: KeyKind> NewKey<K> {
    pub(crate) fn new(id: K::Id, name: &str, mut details: K) -> Self {
        let (secret, hash) = details.new_secret(&id);
        let record = Record {
            id,
            name: name.to_owned(),
            created_ms: unix_ms(),
            last_used_ms: None,
            state: KeyState::Active,
            hash,
            previous: None,
            details,
        };
        Self { record, secret }
    }
}

/// Whether a key may be called this.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_CHARS).contains(&name.chars().count()) && name.chars().all(is_printable) && name.trim() == name
}

/// Neither control characters nor invisible ones that turn text around or join it.
fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
