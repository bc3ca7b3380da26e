//! API keys: who may use the daemon.
//!
//! A key reads `wp_<12 hexadecimal digits>_<43 characters>`: an id, which may be shown, and 256 random bits,
//! which are shown once and kept only as SHA-256.
//!
//! | module      | what it holds |
//! |-------------|---------------|
//! | `record`    | what a key consists of: id, secret, hash, role, record |
//! | `first`     | the key that the first start makes, in a file that its owner alone can read |
//! | `last_used` | when keys were last used, written down now and then |
//! | `error`     | why a key could not be created, changed or loaded |
//!
//! The crate may use `warmpool-store`, `-config` and `-core`, and knows no HTTP header.
//!
//! - *Keys are checked in memory*, without waiting for anything, and compared in constant time.
//! - *A revocation or a new secret is irrevocable*: it is durable against the loss of power before it is confirmed, and no
//!   backup brings back what it took away.
//! - *A revocation is announced* to those who subscribe: the key's sessions and tasks end, and so do answers that go on.

mod error;
mod first;
mod last_used;
mod record;
#[cfg(test)]
mod tests;

pub use error::Error;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, broadcast};

pub use record::{KeyRecord, KeyRole, KeyState};
pub use record::{NewKey, PreviousSecret, SecretHash, check_name};

use record::{NO_HASH, NO_SECRET, new_key, new_secret, parse};

use warmpool_config::EgressRules;
use warmpool_core::clock::{Now, unix_ms};
pub use warmpool_core::ids::KeyId;
use warmpool_core::secret;
use warmpool_store::{Batch, Durability, KeyRange, Store, StoreError, Table};

/// How many revocations a subscriber may be behind.
const REVOCATIONS: usize = 256;
const PAGE: usize = 256;

/// Why a key could not be created, changed or loaded.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The name is empty, too long, or has characters that cannot be printed.
    #[error("a key's name must have 1 to 64 printable characters")]
    InvalidName,
    /// An active key has this name, so `warmpool key revoke NAME` would no longer say which is meant.
    #[error("key {id} is called `{name}`: choose another name, or revoke that key first")]
    NameTaken {
        /// The key that has it.
        id: KeyId,
        name: String,
    },
    /// There is no key of that id.
    #[error("there is no key {0}")]
    Unknown(KeyId),
    /// The key was revoked, which is final.
    #[error("key {0} was revoked: create another")]
    Revoked(KeyId),
    /// Only revoked keys can be removed.
    #[error("key {0} is active: revoke it before you remove it")]
    Active(KeyId),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The first key could not be written to its file.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// A key in memory.
struct CachedKey {
    record: KeyRecord,
    /// Unix milliseconds, 0 if never. Newer than the record's between two saves.
    last_used_ms: AtomicU64,
}

impl CachedKey {
    fn new(record: KeyRecord) -> Self {
        let last_used_ms = AtomicU64::new(record.last_used_ms.unwrap_or(0));
        Self { record, last_used_ms }
    }

    fn record(&self) -> KeyRecord {
        let ms = self.last_used_ms.load(Ordering::Relaxed);
        KeyRecord { last_used_ms: (ms != 0).then_some(ms), ..self.record.clone() }
    }
}

/// All keys. Clones share them.
#[derive(Clone)]
pub struct Keys {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    entries: RwLock<HashMap<KeyId, CachedKey>>,
    revocations: broadcast::Sender<KeyId>,
    /// Held from reading a record to having written its successor.
    changing: Mutex<()>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl Keys {
    /// Reads all keys from the store.
    /// Errors: [`KeyError::Store`].
    pub async fn load(store: Store) -> Result<Self, KeyError> {
        Self::load_at(store, &Now::read()).await
    }

    async fn load_at(store: Store, now: &Now) -> Result<Self, KeyError> {
        let mut entries = HashMap::new();
        let mut moved = Batch::new();
        let mut range = KeyRange::all();
        loop {
            let rows = store.scan(Table::Keys, range.clone(), PAGE).await?;
            let Some(last) = rows.last() else { break };
            range = range.after(&last.key);
            for row in &rows {
                let mut record: KeyRecord = row.json(Table::Keys)?;
                if let Some(previous) = record.previous.as_ref().and_then(|previous| previous.anchored(now)) {
                    record.previous = Some(previous);
                    moved.put_json(Table::Keys, record.id.as_str(), &record)?;
                }
                entries.insert(record.id.clone(), CachedKey::new(record));
            }
        }
        // Where the disk is too full for that, the next start does it.
        if !moved.is_empty()
            && let Err(error) = store.commit(moved, Durability::Power).await
        {
            tracing::warn!(%error, "how long old secrets still work was not written");
        }
        let (revocations, _) = broadcast::channel(REVOCATIONS);
        Ok(Self {
            inner: Arc::new(Inner { store, entries: RwLock::new(entries), revocations, changing: Mutex::new(()) }),
        })
    }

    /// Makes a key without rules of its own. It works once this returns, and survives loss of power.
    /// Errors: [`KeyError::InvalidName`], [`KeyError::NameTaken`], [`KeyError::Store`].
    pub async fn create(&self, name: &str, role: KeyRole) -> Result<NewKey, KeyError> {
        self.create_with(name, role, EgressRules::default()).await
    }

    /// Makes a key whose sessions follow these rules first.
    /// Errors: as [`Keys::create`].
    pub async fn create_with(&self, name: &str, role: KeyRole, egress: EgressRules) -> Result<NewKey, KeyError> {
        let mut key = new_key(name, role)?;
        key.record.egress = egress;
        let _changing = self.inner.changing.lock().await;
        let same = |entry: &&CachedKey| entry.record.state == KeyState::Active && entry.record.name == name;
        if let Some(id) = self.read(|entries| entries.values().find(same).map(|entry| entry.record.id.clone())) {
            return Err(KeyError::NameTaken { id, name: name.to_owned() });
        }
        self.add(&key.record).await?;
        Ok(key)
    }

    /// Every key, also revoked ones, by time of making.
    #[must_use]
    pub fn list(&self) -> Vec<KeyRecord> {
        let mut records: Vec<KeyRecord> = self.read(|entries| entries.values().map(CachedKey::record).collect());
        records.sort_unstable_by(|a, b| (a.created_ms, &a.id).cmp(&(b.created_ms, &b.id)));
        records
    }

    /// Gives a key another secret; the one it had works for `keep_old_for` longer. One before that stops at
    /// once.
    /// Errors: [`KeyError::Unknown`], [`KeyError::Revoked`], [`KeyError::Store`].
    pub async fn rotate(&self, id: &KeyId, keep_old_for: Duration) -> Result<NewKey, KeyError> {
        let _changing = self.inner.changing.lock().await;
        let old = self.active(id)?;
        let (secret, hash) = new_secret(id);
        let kept = PreviousSecret::new(old.hash, keep_old_for, &Now::read());
        let record = KeyRecord { hash, previous: (!keep_old_for.is_zero()).then_some(kept), ..old };
        self.add(&record).await?;
        Ok(NewKey { record, secret })
    }

    /// Gives a key other rules for what pages may reach; they hold for sessions that begin from now on.
    /// Errors: [`KeyError::Unknown`], [`KeyError::Revoked`], [`KeyError::Store`].
    pub async fn set_egress(&self, id: &KeyId, egress: EgressRules) -> Result<KeyRecord, KeyError> {
        let _changing = self.inner.changing.lock().await;
        let record = KeyRecord { egress, ..self.active(id)? };
        self.add(&record).await?;
        Ok(record)
    }

    /// The rules of a key for what pages may reach.
    #[must_use]
    pub fn egress(&self, id: &KeyId) -> EgressRules {
        self.read(|entries| entries.get(id).map(|entry| entry.record.egress.clone())).unwrap_or_default()
    }

    /// Revokes a key for good and notifies the subscribers. It stops working at once, even if the store then
    /// refuses to record it. Revoking a revoked key changes nothing, but is recorded if it was not.
    /// Errors: [`KeyError::Unknown`]; [`KeyError::Store`] if it could not be recorded: then it is revoked only until the
    /// daemon restarts, so try again.
    pub async fn revoke(&self, id: &KeyId) -> Result<KeyRecord, KeyError> {
        let _changing = self.inner.changing.lock().await;
        let record = self
            .write(|entries| {
                let entry = entries.get_mut(id)?;
                if entry.record.state == KeyState::Active {
                    entry.record.state = KeyState::Revoked { at_ms: unix_ms() };
                    entry.record.previous = None;
                }
                Some(entry.record())
            })
            .ok_or_else(|| KeyError::Unknown(id.clone()))?;
        // Fails only if nobody listens.
        let _ = self.inner.revocations.send(id.clone());
        self.add(&record).await?;
        Ok(record)
    }

    /// Forgets a revoked key.
    /// Errors: [`KeyError::Unknown`], [`KeyError::Active`], [`KeyError::Store`].
    pub async fn remove(&self, id: &KeyId) -> Result<KeyRecord, KeyError> {
        let _changing = self.inner.changing.lock().await;
        let record =
            self.read(|entries| entries.get(id).map(CachedKey::record)).ok_or_else(|| KeyError::Unknown(id.clone()))?;
        if record.state == KeyState::Active {
            return Err(KeyError::Active(id.clone()));
        }
        let mut batch = Batch::new();
        batch.delete(Table::Keys, id.as_str()).irrevocable();
        self.inner.store.commit(batch, Durability::Power).await?;
        self.write(|entries| entries.remove(id));
        Ok(record)
    }

    /// The id of the key that this text is, if it may be used now. Does the same work whether the id is
    /// known, the secret wrong or the text no key at all.
    #[must_use]
    pub fn verify(&self, key: &str) -> Option<KeyId> {
        self.verify_at(key, &Now::read())
    }

    fn verify_at(&self, key: &str, now: &Now) -> Option<KeyId> {
        let parsed = parse(key);
        let hash = SecretHash::of(parsed.as_ref().map_or(NO_SECRET, |(_, secret)| secret));
        let id = parsed.map(|(id, _)| id);
        self.read(|entries| {
            let entry = id.as_ref().and_then(|id| entries.get(id));
            let record = entry.map(|entry| &entry.record);
            // Both comparisons are made whatever the other says, also where there is nothing to compare with.
            let current = record.map_or(&NO_HASH, |record| &record.hash);
            let previous = record.and_then(|record| record.previous.as_ref());
            let old = previous.map_or(&NO_HASH, |previous| &previous.hash);
            let old_counts = previous.is_some_and(|previous| previous.works(now));
            let active = record.is_some_and(|record| record.state == KeyState::Active);
            let matches = secret::equal(current.0, hash.0) | (secret::equal(old.0, hash.0) & old_counts);
            let entry = entry.filter(|_| matches & active);
            entry?.last_used_ms.fetch_max(now.unix_ms(), Ordering::Relaxed);
            id.clone()
        })
    }

    /// Whether a key exists and is not revoked.
    #[must_use]
    pub fn is_active(&self, id: &KeyId) -> bool {
        self.read(|entries| entries.get(id).is_some_and(|entry| entry.record.state == KeyState::Active))
    }

    /// Whether a key exists, is not revoked, and is an operator's.
    #[must_use]
    pub fn is_operator(&self, id: &KeyId) -> bool {
        let operates = |key: &CachedKey| key.record.state == KeyState::Active && key.record.role == KeyRole::Operator;
        self.read(|entries| entries.get(id).is_some_and(operates))
    }

    /// What is known of a key.
    #[must_use]
    pub fn get(&self, id: &KeyId) -> Option<KeyRecord> {
        self.read(|entries| entries.get(id).map(CachedKey::record))
    }

    /// Asks a key again before something is begun, or taken up again, in its name.
    /// Errors: `InvalidKey` when it was revoked meanwhile.
    pub fn require(&self, id: &KeyId) -> Result<(), Error> {
        if self.is_active(id) { Ok(()) } else { Err(Error::InvalidKey) }
    }

    /// Waits until a key is revoked. One that is revoked already takes no time.
    pub async fn revoked(&self, id: &KeyId) {
        // In this order, so that nothing falls between the two.
        let mut revocations = self.revocations();
        while self.is_active(id) {
            if let Err(RecvError::Closed) = revocations.recv().await {
                return std::future::pending().await;
            }
        }
    }

    /// Whether there is any key that works.
    #[must_use]
    pub fn any_active(&self) -> bool {
        self.read(|entries| entries.values().any(|entry| entry.record.state == KeyState::Active))
    }

    /// The ids of keys as they are revoked, to close what they opened. A receiver that falls behind gets an error and
    /// must ask [`Keys::is_active`] for every id it holds; so must code that begins to hold one after
    /// subscribing to nothing yet.
    #[must_use]
    pub fn revocations(&self) -> broadcast::Receiver<KeyId> {
        self.inner.revocations.subscribe()
    }

    /// Records a key, new or changed, then lets it take effect. The caller holds `changing`.
    async fn add(&self, record: &KeyRecord) -> Result<(), KeyError> {
        let mut batch = Batch::new();
        // An older backup must not bring a revoked key back to life, an old secret or a rule, nor lose a new key.
        batch.put_json(Table::Keys, record.id.as_str(), record)?.irrevocable();
        if record.state != KeyState::Active {
            batch.essential();
        }
        self.inner.store.commit(batch, Durability::Power).await?;
        self.write(|entries| {
            match entries.get_mut(&record.id) {
                // Keeps the time of last use, which may have moved on.
                Some(entry) => entry.record = record.clone(),
                None => {
                    entries.insert(record.id.clone(), CachedKey::new(record.clone()));
                }
            }
        });
        Ok(())
    }

    fn active(&self, id: &KeyId) -> Result<KeyRecord, KeyError> {
        let record =
            self.read(|entries| entries.get(id).map(CachedKey::record)).ok_or_else(|| KeyError::Unknown(id.clone()))?;
        match record.state {
            KeyState::Active => Ok(record),
            KeyState::Revoked { .. } => Err(KeyError::Revoked(id.clone())),
        }
    }

    fn read<T>(&self, look: impl FnOnce(&HashMap<KeyId, CachedKey>) -> T) -> T {
        // No step under the lock leaves the map half changed, so a poisoned one is as good.
        look(&self.inner.entries.read())
    }

    fn write<T>(&self, change: impl FnOnce(&mut HashMap<KeyId, CachedKey>) -> T) -> T {
        change(&mut self.inner.entries.write())
    }
}
