//! What a key consists of: id, secret, hash, record.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::KeyError;
use warmpool_config::EgressRules;
use warmpool_core::clock::{Deadline, Now, millis, unix_ms};
use warmpool_core::ids::{KeyId, random_bytes, random_text};
use warmpool_core::secret::Secret;

const PREFIX: &str = "wp_";
const SECRET_CHARS: usize = 43;
const MAX_NAME_CHARS: usize = 64;

/// Whether a key opens anything.
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

/// What a key's holder may do in the console.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyRole {
    /// See and manage what this key made.
    #[default]
    Client,
    /// See and manage what every key made, and the keys themselves.
    Operator,
}

impl KeyRole {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Operator => "operator",
        }
    }
}

/// The SHA-256 of a key's secret part.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretHash(pub(super) [u8; 32]);

impl SecretHash {
    pub fn of(secret: &str) -> Self {
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
        URL_SAFE_NO_PAD
            .decode(text)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or("not a SHA-256 in base64url")
    }
}

/// A secret that was replaced and still works for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousSecret {
    pub hash: SecretHash,
    /// It works until then, Unix milliseconds, as the wall clock stood when it was replaced.
    pub until_ms: u64,
    /// The same end, whatever the wall clock does; none in records of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline: Option<Deadline>,
}

impl PreviousSecret {
    pub(super) fn new(hash: SecretHash, keep_for: Duration, now: &Now) -> Self {
        let until_ms = now.unix_ms().saturating_add(millis(keep_for));
        Self { hash, until_ms, deadline: Some(Deadline::after(keep_for, now)) }
    }

    /// Whether it still works.
    pub(super) fn works(&self, now: &Now) -> bool {
        match &self.deadline {
            Some(deadline) => !deadline.is_over(now),
            None => now.unix_ms() < self.until_ms,
        }
    }

    /// The same secret, counted by the clock of this boot; `None` where it is already.
    pub(super) fn anchored(&self, now: &Now) -> Option<Self> {
        let kept = self.deadline.clone().unwrap_or_else(|| {
            // Its term is unknown, so assume the longest.
            let left = Duration::from_millis(self.until_ms.saturating_sub(now.unix_ms()));
            Deadline::by_wall(self.until_ms, left)
        });
        kept.anchored(now).map(|deadline| Self { deadline: Some(deadline), ..self.clone() })
    }
}

/// What is known of a key. Holds nothing that opens anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    pub id: KeyId,
    /// What its maker called it.
    pub name: String,
    /// When it was made, Unix milliseconds.
    pub created_ms: u64,
    /// When it last opened something, Unix milliseconds; up to a minute old after a restart.
    pub last_used_ms: Option<u64>,
    /// Whether it works.
    pub state: KeyState,
    /// What its holder may do in the console; keys of earlier releases are clients'.
    #[serde(default)]
    pub role: KeyRole,
    /// The hash of its secret.
    pub hash: SecretHash,
    /// The secret before the last rotation.
    pub previous: Option<PreviousSecret>,
    /// What pages of its sessions may reach beside what the daemon's rules say.
    #[serde(default, skip_serializing_if = "EgressRules::is_empty")]
    pub egress: EgressRules,
}

/// A key just made or rotated.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub record: KeyRecord,
    /// The whole key, `wp_…`. This is the only time it can be seen.
    pub secret: Secret,
}

/// Hashed where the text holds no secret, so that this takes as long.
pub(super) const NO_SECRET: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// Compared with where there is no hash. It is no SHA-256 that anyone can find a secret for.
pub(super) const NO_HASH: SecretHash = SecretHash([0; 32]);

/// Splits a key into id and secret, if it has the form of one.
pub(super) fn parse(key: &str) -> Option<(KeyId, &str)> {
    let (id, secret) = key.strip_prefix(PREFIX)?.split_once('_')?;
    let base64url = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let whole = secret.len() == SECRET_CHARS && secret.bytes().all(base64url);
    whole.then_some(())?;
    Some((id.parse().ok()?, secret))
}

/// Checks what a key is to be called.
pub fn check_name(name: &str) -> Result<(), KeyError> {
    let chars = name.chars().count();
    let plain = (1..=MAX_NAME_CHARS).contains(&chars) && name.chars().all(printable) && name.trim() == name;
    if plain { Ok(()) } else { Err(KeyError::InvalidName) }
}

pub(super) fn new_key(name: &str, role: KeyRole) -> Result<NewKey, KeyError> {
    check_name(name)?;
    let id = KeyId::from_bytes(random_bytes());
    let (secret, hash) = new_secret(&id);
    let record = KeyRecord {
        id,
        name: name.to_owned(),
        created_ms: unix_ms(),
        last_used_ms: None,
        state: KeyState::Active,
        role,
        hash,
        previous: None,
        egress: EgressRules::default(),
    };
    Ok(NewKey { record, secret })
}

/// Neither control characters nor invisible ones that turn text around or join it.
fn printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

pub(super) fn new_secret(id: &KeyId) -> (Secret, SecretHash) {
    let secret = random_text::<32>();
    let hash = SecretHash::of(&secret);
    (Secret::new(format!("{PREFIX}{id}_{secret}")), hash)
}
