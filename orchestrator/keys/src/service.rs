//! Service keys: who may use the daemon. A key reads `wp_<12 hexadecimal digits>_<43 characters>`: an id, which may be shown,
//! and 256 random bits.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::record::{NewKey, Record, SecretHash, is_name};
use crate::registry::{KeyKind, Registry};
use crate::{Error, IntegrationKey, IntegrationKeys, KeyError};
use warmpool_config::EgressRules;
use warmpool_core::clock::Now;
use warmpool_core::ids::{KeyId, random_bytes, random_text};
use warmpool_core::secret::Secret;
use warmpool_store::{Table, carry_out};

const PREFIX: &str = "wp_";
const SECRET_CHARS: usize = 43;
/// Hashed where the text holds no secret, so that this takes as long.
pub(crate) const NO_SECRET: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// Time between two times that the times of last use are written.
const SAVE_EVERY: Duration = Duration::from_secs(60);

/// All service keys.
pub type Keys = Registry<ServiceKey>;
/// The record of a service key.
pub type KeyRecord = Record<ServiceKey>;

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

/// What only service keys have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceKey {
    /// What its holder may do in the console; keys of earlier releases are clients'.
    #[serde(default)]
    pub role: KeyRole,
    /// What pages of its sessions may reach beside what the daemon's rules say.
    #[serde(default, skip_serializing_if = "EgressRules::is_empty")]
    pub egress: EgressRules,
}

impl KeyKind for ServiceKey {
    type Id = KeyId;
    type Error = KeyError;
    const TABLE: Table = Table::Keys;
    const OLD_SECRETS: &'static str = "old secrets";

    fn unknown(id: &KeyId) -> KeyError {
        KeyError::Unknown(id.clone())
    }

    fn revoked(id: &KeyId) -> KeyError {
        KeyError::Revoked(id.clone())
    }

    fn new_secret(&mut self, id: &KeyId) -> (Secret, SecretHash) {
        let secret = random_text::<32>();
        let hash = SecretHash::new(&secret);
        (Secret::new(format!("{PREFIX}{id}_{secret}")), hash)
    }
}

impl Keys {
    /// Makes a key without rules of its own. It works once this returns, and survives loss of power.
    /// Errors: [`KeyError::InvalidName`], [`KeyError::NameTaken`], [`KeyError::Store`].
    pub async fn create(&self, name: &str, role: KeyRole) -> Result<NewKey<ServiceKey>, KeyError> {
        self.create_with(name, role, EgressRules::default()).await
    }

    /// Makes a key whose sessions follow these rules first.
    /// Errors: as [`Keys::create`].
    pub async fn create_with(
        &self,
        name: &str,
        role: KeyRole,
        egress: EgressRules,
    ) -> Result<NewKey<ServiceKey>, KeyError> {
        let NewKey { record, secret } = new_key(name, ServiceKey { role, egress })?;
        let change = self.change().await;
        if let Some(other) = self.list().into_iter().find(|other| other.is_active() && other.name == name) {
            return Err(KeyError::NameTaken { id: other.id, name: other.name });
        }
        Ok(NewKey { record: change.put(record).await?, secret })
    }

    /// Gives a key other rules for what pages may reach; they hold for sessions that begin from now on.
    /// Errors: [`KeyError::Unknown`], [`KeyError::Revoked`], [`KeyError::Store`].
    pub async fn set_egress(&self, id: &KeyId, egress: EgressRules) -> Result<KeyRecord, KeyError> {
        let change = self.change().await;
        let mut record = self.active(id)?;
        record.details.egress = egress;
        Ok(change.put(record).await?)
    }

    /// The rules of a key for what pages may reach.
    #[must_use]
    pub fn egress(&self, id: &KeyId) -> EgressRules {
        self.look(id, |entry| entry.record.details.egress.clone()).unwrap_or_default()
    }

    /// Revokes a key for good, and with it its integration keys, which ask for worlds in its name; all of it, although the caller may
    /// leave. Returns those that worked until then.
    /// Errors: [`KeyError::Unknown`]; [`KeyError::Store`]: then they are revoked only until the daemon restarts, so try again.
    pub async fn revoke_with(
        &self,
        integrations: &IntegrationKeys,
        id: &KeyId,
    ) -> Result<(KeyRecord, Vec<IntegrationKey>), KeyError> {
        self.revoke_with_if(integrations, id, |_| Ok(())).await
    }

    /// As [`Keys::revoke_with`], unless this is the only key left that manages keys in the console.
    /// Errors: those of [`Keys::revoke_with`]; [`KeyError::LastOperator`].
    pub async fn revoke_unless_last(
        &self,
        integrations: &IntegrationKeys,
        id: &KeyId,
    ) -> Result<(KeyRecord, Vec<IntegrationKey>), KeyError> {
        let keys = self.clone();
        let check = move |record: &KeyRecord| {
            let operates = |key: &KeyRecord| key.details.role == KeyRole::Operator && key.is_active();
            let is_last = operates(record) && !keys.list().iter().any(|key| key.id != record.id && operates(key));
            if is_last { Err(KeyError::LastOperator) } else { Ok(()) }
        };
        self.revoke_with_if(integrations, id, check).await
    }

    async fn revoke_with_if(
        &self,
        integrations: &IntegrationKeys,
        id: &KeyId,
        check: impl FnOnce(&KeyRecord) -> Result<(), KeyError> + Send + 'static,
    ) -> Result<(KeyRecord, Vec<IntegrationKey>), KeyError> {
        let (keys, integrations, id) = (self.clone(), integrations.clone(), id.clone());
        carry_out(async move {
            let revoked = match keys.revoke_if(&id, check).await {
                Err(refused) if !matches!(refused, KeyError::Store(_)) => return Err(refused),
                revoked => revoked,
            };
            // Also where the store has refused: no key works on in memory.
            let ended = integrations.revoke_all(|key| key.details.owner == id).await;
            Ok((revoked?, ended?))
        })
        .await
    }

    /// Forgets a revoked key.
    /// Errors: [`KeyError::Unknown`], [`KeyError::Active`], [`KeyError::Store`].
    pub async fn remove(&self, id: &KeyId) -> Result<KeyRecord, KeyError> {
        let change = self.change().await;
        let record = self.get(id).ok_or_else(|| ServiceKey::unknown(id))?;
        if record.is_active() {
            return Err(KeyError::Active(id.clone()));
        }
        change.delete(id.clone()).await?;
        Ok(record)
    }

    /// Returns the id of the key with this secret, if the key works now, and counts that as a use of it. It hashes every text,
    /// whatever its form.
    #[must_use]
    pub fn verify(&self, key: &str) -> Option<KeyId> {
        self.verify_at(key, &Now::read())
    }

    pub(crate) fn verify_at(&self, key: &str, now: &Now) -> Option<KeyId> {
        self.verify_secret_at(key, now).map(|(id, _)| id)
    }

    /// As [`Keys::verify`], with the hash of the secret, of which [`Registry::holds`] says later whether the key still works by
    /// it. To ask that is no use of the key.
    #[must_use]
    pub fn verify_secret(&self, key: &str) -> Option<(KeyId, SecretHash)> {
        self.verify_secret_at(key, &Now::read())
    }

    fn verify_secret_at(&self, key: &str, now: &Now) -> Option<(KeyId, SecretHash)> {
        let parsed = parse(key);
        let secret = SecretHash::new(parsed.as_ref().map_or(NO_SECRET, |(_, secret)| secret));
        self.look_by_secret(secret, now, |entry| {
            let (id, _) = parsed.as_ref().filter(|(id, _)| *id == entry.record.id && entry.record.is_active())?;
            entry.touch(now.unix_ms());
            Some((id.clone(), secret))
        })?
    }

    /// Whether a key exists, is not revoked, and is an operator's.
    #[must_use]
    pub fn is_operator(&self, id: &KeyId) -> bool {
        let operates = |record: &KeyRecord| record.is_active() && record.details.role == KeyRole::Operator;
        self.look(id, |entry| operates(&entry.record)).unwrap_or(false)
    }

    /// Asks a key again before something is begun, or taken up again, in its name.
    /// Errors: `InvalidKey` when it was revoked meanwhile.
    pub fn require(&self, id: &KeyId) -> Result<(), Error> {
        if self.is_active(id) { Ok(()) } else { Err(Error::InvalidKey) }
    }

    /// Whether there is any key that works.
    #[must_use]
    pub fn any_active(&self) -> bool {
        self.list().iter().any(Record::is_active)
    }

    /// Writes the times of last use to the store once a minute, and a last time when told to stop.
    pub async fn run_last_used(&self, stop: CancellationToken) {
        loop {
            let stopping = tokio::select! {
                () = stop.cancelled() => true,
                () = tokio::time::sleep(SAVE_EVERY) => false,
            };
            if let Err(error) = self.save_last_used().await {
                tracing::warn!(%error, "cannot record when keys were last used");
            }
            if stopping {
                return;
            }
        }
    }
}

/// A key that is not in the registry yet.
/// Errors: [`KeyError::InvalidName`].
pub(crate) fn new_key(name: &str, details: ServiceKey) -> Result<NewKey<ServiceKey>, KeyError> {
    if !is_name(name) {
        return Err(KeyError::InvalidName);
    }
    Ok(NewKey::new(KeyId::from_bytes(random_bytes()), name, details))
}

/// Splits a key into id and secret, if it has the form of one.
fn parse(key: &str) -> Option<(KeyId, &str)> {
    let (id, secret) = key.strip_prefix(PREFIX)?.split_once('_')?;
    let base64url = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let whole = secret.len() == SECRET_CHARS && secret.bytes().all(base64url);
    whole.then_some(())?;
    Some((id.parse().ok()?, secret))
}
