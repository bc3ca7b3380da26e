//! The registry of all keys of one kind: in memory, found by id and by secret, and in the store.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use crate::record::{NewKey, PreviousSecret, Record, SecretHash};
use warmpool_core::clock::{Now, unix_ms};
use warmpool_core::secret::Secret;
use warmpool_store::{Batch, Durability, Store, StoreError, Table, carry_out};

/// Rows written at a time.
const PAGE: usize = 256;

/// A kind of key: what its records hold beside what those of every kind do, and how its secrets read.
pub trait KeyKind: Clone + fmt::Debug + Eq + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// What names a key of this kind.
    type Id: Clone + fmt::Debug + fmt::Display + Ord + Hash + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Why a key of this kind is not changed.
    type Error: From<StoreError>;
    /// The table of its records.
    const TABLE: Table;
    /// What the log calls secrets that were replaced.
    const OLD_SECRETS: &'static str;

    /// There is no key of this id.
    fn unknown(id: &Self::Id) -> Self::Error;

    /// The key was revoked, and so cannot be changed.
    fn revoked(id: &Self::Id) -> Self::Error;

    /// Makes a secret: the text that its holder gets, and the hash by which it is found.
    fn new_secret(&mut self, id: &Self::Id) -> (Secret, SecretHash);
}

/// A key in memory.
pub(crate) struct Entry<K: KeyKind> {
    pub(crate) record: Record<K>,
    /// Unix milliseconds, 0 if never. Newer than the record's between two saves.
    last_used_ms: AtomicU64,
}

impl<K: KeyKind> Entry<K> {
    pub(crate) fn record(&self) -> Record<K> {
        let ms = self.last_used_ms.load(Ordering::Relaxed);
        Record { last_used_ms: (ms != 0).then_some(ms), ..self.record.clone() }
    }

    pub(crate) fn touch(&self, at_ms: u64) {
        self.last_used_ms.fetch_max(at_ms, Ordering::Relaxed);
    }
}

struct Entries<K: KeyKind> {
    by_id: HashMap<K::Id, Entry<K>>,
    by_secret: HashMap<SecretHash, K::Id>,
}

impl<K: KeyKind> Entries<K> {
    /// Adds a record, or puts it in the place of the one of its id.
    fn insert(&mut self, record: Record<K>) {
        let last_used_ms = AtomicU64::new(record.last_used_ms.unwrap_or(0));
        if let Some(old) = self.remove(&record.id) {
            // It may have been used since the record was read.
            last_used_ms.fetch_max(old.last_used_ms.into_inner(), Ordering::Relaxed);
        }
        for hash in record.hashes() {
            self.by_secret.insert(hash, record.id.clone());
        }
        self.by_id.insert(record.id.clone(), Entry { record, last_used_ms });
    }

    fn remove(&mut self, id: &K::Id) -> Option<Entry<K>> {
        let entry = self.by_id.remove(id)?;
        for hash in entry.record.hashes() {
            self.by_secret.remove(&hash);
        }
        Some(entry)
    }
}

struct Shared<K: KeyKind> {
    store: Store,
    entries: RwLock<Entries<K>>,
    changes: watch::Sender<u64>,
    /// Held from reading a record to having written its successor.
    changing: Arc<Mutex<()>>,
}

/// The right to change records, which nobody else has meanwhile.
pub(crate) struct Change<K: KeyKind> {
    registry: Registry<K>,
    _alone: OwnedMutexGuard<()>,
}

/// All keys of one kind. Clones share them.
#[derive(Clone)]
pub struct Registry<K: KeyKind> {
    shared: Arc<Shared<K>>,
}

impl<K: KeyKind> fmt::Debug for Registry<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

impl<K: KeyKind> Registry<K> {
    /// Reads all keys from the store.
    /// Errors: when the store cannot be read.
    pub async fn load(store: Store) -> Result<Self, StoreError> {
        Self::load_at(store, &Now::read()).await
    }

    pub(crate) async fn load_at(store: Store, now: &Now) -> Result<Self, StoreError> {
        let mut entries = Entries { by_id: HashMap::new(), by_secret: HashMap::new() };
        let mut moved = Batch::new();
        let mut pages = store.pages(K::TABLE);
        while let Some(rows) = pages.next().await? {
            for row in &rows {
                let mut record: Record<K> = row.json(K::TABLE)?;
                if let Some(previous) = record.previous.as_ref().and_then(|previous| previous.anchored(now)) {
                    record.previous = Some(previous);
                    moved.put_json(K::TABLE, record.id.to_string(), &record)?;
                }
                entries.insert(record);
            }
        }
        // Where the disk is too full for that, the next start does it.
        if !moved.is_empty()
            && let Err(error) = store.commit(moved, Durability::Power).await
        {
            tracing::warn!(%error, "how long {} still work was not written", K::OLD_SECRETS);
        }
        let (entries, changes, changing) = (RwLock::new(entries), watch::Sender::default(), Arc::default());
        Ok(Self { shared: Arc::new(Shared { store, entries, changes, changing }) })
    }

    /// Every key, also revoked ones, by time of making.
    #[must_use]
    pub fn list(&self) -> Vec<Record<K>> {
        let mut records: Vec<_> = self.shared.entries.read().by_id.values().map(Entry::record).collect();
        records.sort_unstable_by(|a, b| (a.created_ms, &a.id).cmp(&(b.created_ms, &b.id)));
        records
    }

    /// The record of a key, also of a revoked one.
    #[must_use]
    pub fn get(&self, id: &K::Id) -> Option<Record<K>> {
        self.look(id, Entry::record)
    }

    /// Whether a key exists and is not revoked.
    #[must_use]
    pub fn is_active(&self, id: &K::Id) -> bool {
        self.look(id, |entry| entry.record.is_active()).unwrap_or(false)
    }

    /// Whether a key works by the secret of this hash: by its own, or by the one before for as long as that was to go on.
    #[must_use]
    pub fn holds(&self, id: &K::Id, secret: SecretHash, now: &Now) -> bool {
        self.look(id, |entry| entry.record.is_active() && entry.record.has_secret(secret, now)).unwrap_or(false)
    }

    /// Whether a secret of this hash was replaced and works for a while: the clock ends it, which no change announces.
    #[must_use]
    pub fn is_replaced(&self, id: &K::Id, secret: SecretHash) -> bool {
        self.look(id, |entry| entry.record.is_replaced(secret)).unwrap_or(false)
    }

    /// Changes each time a key is made, changed, revoked or removed: ask about every key that matters again. Code that begins to hold
    /// one subscribes before it asks for the first time.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Waits until a key is revoked. One that is revoked already takes no time.
    pub async fn revoked(&self, id: &K::Id) {
        // In this order, so that nothing falls between the two.
        let mut changes = self.changes();
        while self.is_active(id) && changes.changed().await.is_ok() {}
    }

    /// Gives a key another secret; the one it had works for `keep_old_for` longer. One before that stops at once.
    /// Errors: when the key is unknown or revoked; when the store refuses.
    pub async fn rotate(&self, id: &K::Id, keep_old_for: Duration) -> Result<NewKey<K>, K::Error> {
        self.rotate_telling(id, keep_old_for, |_| ()).await
    }

    /// As [`Registry::rotate`]. `tell` hears the hash of the new secret before that works, so that what is to outlast the old
    /// one knows both: at no moment does [`Registry::holds`] deny both of them.
    /// Errors: as [`Registry::rotate`].
    pub async fn rotate_telling(
        &self,
        id: &K::Id,
        keep_old_for: Duration,
        tell: impl FnOnce(SecretHash),
    ) -> Result<NewKey<K>, K::Error> {
        let change = self.change().await;
        let mut record = self.active(id)?;
        let (secret, hash) = record.details.new_secret(id);
        tell(hash);
        record.previous =
            (!keep_old_for.is_zero()).then(|| PreviousSecret::new(record.hash, keep_old_for, &Now::read()));
        record.hash = hash;
        Ok(NewKey { record: change.put(record).await?, secret })
    }

    /// Revokes a key for good. It stops working at once, even if the store then refuses to record it. Revoking a revoked key
    /// changes nothing, but is recorded if it was not.
    /// Errors: when the key is unknown; when the store refuses: then it is revoked only until the daemon restarts, so try
    /// again.
    pub async fn revoke(&self, id: &K::Id) -> Result<Record<K>, K::Error> {
        self.revoke_if(id, |_| Ok(())).await
    }

    /// As [`Registry::revoke`], where `check` allows it, which is asked while no other key changes.
    /// Errors: as [`Registry::revoke`]; those of `check`.
    pub(crate) async fn revoke_if(
        &self,
        id: &K::Id,
        check: impl FnOnce(&Record<K>) -> Result<(), K::Error>,
    ) -> Result<Record<K>, K::Error> {
        let change = self.change().await;
        let mut record = self.get(id).ok_or_else(|| K::unknown(id))?;
        check(&record)?;
        record.revoke();
        self.apply(record.clone());
        Ok(change.put(record).await?)
    }

    /// Revokes all these keys for good, as [`Registry::revoke`] does one, although the caller may leave. Returns those that worked until
    /// then.
    /// Errors: when the store refuses: then they are revoked only until the daemon restarts.
    pub(crate) async fn revoke_all(&self, which: impl Fn(&Record<K>) -> bool) -> Result<Vec<Record<K>>, StoreError> {
        let change = self.change().await;
        let mut records = self.list();
        records.retain(which);
        let worked = records.iter().filter(|record| record.is_active()).cloned().collect();
        for record in &mut records {
            record.revoke();
            self.apply(record.clone());
        }
        carry_out(async move {
            for records in records.chunks(PAGE) {
                let mut batch = Batch::new();
                for record in records {
                    batch.put_json(K::TABLE, record.id.to_string(), record)?;
                }
                batch.essential().irrevocable();
                change.registry.shared.store.commit(batch, Durability::Power).await?;
            }
            Ok(worked)
        })
        .await
    }

    /// Records in memory that a key was used now; [`Registry::save_last_used`] writes it.
    pub fn touch(&self, id: &K::Id) {
        self.look(id, |entry| entry.touch(unix_ms()));
    }

    /// Writes the times of last use that changed since the last time.
    /// Errors: when the store refuses.
    pub async fn save_last_used(&self) -> Result<(), StoreError> {
        let _changing = self.change().await;
        let changed: Vec<Record<K>> = {
            let entries = self.shared.entries.read();
            let records = entries.by_id.values().map(|entry| (entry.record(), entry.record.last_used_ms));
            records.filter(|(record, saved)| record.last_used_ms != *saved).map(|(record, _)| record).collect()
        };
        for records in changed.chunks(PAGE) {
            let mut batch = Batch::new();
            for record in records {
                batch.put_json(K::TABLE, record.id.to_string(), record)?;
            }
            self.shared.store.commit(batch, Durability::Process).await?;
            let mut entries = self.shared.entries.write();
            records.iter().for_each(|record| entries.insert(record.clone()));
        }
        Ok(())
    }

    /// Keeps all other changes of records away for as long as the value is held.
    pub(crate) async fn change(&self) -> Change<K> {
        let _alone = Arc::clone(&self.shared.changing).lock_owned().await;
        Change { registry: self.clone(), _alone }
    }

    /// Lets a record take effect, and says so to all who follow [`Registry::changes`].
    fn apply(&self, record: Record<K>) {
        self.insert(record);
        self.announce();
    }

    fn announce(&self) {
        self.shared.changes.send_modify(|count| *count += 1);
    }

    /// Lets a record take effect that opens nothing more and nothing less than the one before.
    pub(crate) fn insert(&self, record: Record<K>) {
        self.shared.entries.write().insert(record);
    }

    /// The record of a key that is not revoked.
    pub(crate) fn active(&self, id: &K::Id) -> Result<Record<K>, K::Error> {
        let record = self.get(id).ok_or_else(|| K::unknown(id))?;
        if record.is_active() { Ok(record) } else { Err(K::revoked(id)) }
    }

    /// Looks at a key.
    pub(crate) fn look<T>(&self, id: &K::Id, look: impl FnOnce(&Entry<K>) -> T) -> Option<T> {
        self.shared.entries.read().by_id.get(id).map(look)
    }

    /// Looks at the key, working or revoked, that has the secret of this hash or had it until lately.
    ///
    /// What is compared is a hash of 256 random bits, so the time that takes reveals nothing of the secret.
    pub(crate) fn look_by_secret<T>(
        &self,
        secret: SecretHash,
        now: &Now,
        look: impl FnOnce(&Entry<K>) -> T,
    ) -> Option<T> {
        let entries = self.shared.entries.read();
        let entry = entries.by_id.get(entries.by_secret.get(&secret)?)?;
        entry.record.has_secret(secret, now).then(|| look(entry))
    }
}

impl<K: KeyKind> Change<K> {
    /// Records a key, new or changed, then lets it take effect, although nobody may wait for that any more: a secret that was
    /// replaced must not work on. Returns the record.
    pub(crate) async fn put(self, record: Record<K>) -> Result<Record<K>, StoreError> {
        let mut batch = Batch::new();
        // An older backup must bring back neither a revoked key nor an old secret or rule, nor lose a new key.
        batch.put_json(K::TABLE, record.id.to_string(), &record)?.irrevocable();
        if !record.is_active() {
            batch.essential();
        }
        carry_out(async move {
            self.registry.shared.store.commit(batch, Durability::Power).await?;
            self.registry.apply(record.clone());
            Ok(record)
        })
        .await
    }

    /// Removes a key from the store, then from memory, in the same way.
    pub(crate) async fn delete(self, id: K::Id) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        batch.delete(K::TABLE, id.to_string()).irrevocable();
        carry_out(async move {
            self.registry.shared.store.commit(batch, Durability::Power).await?;
            self.registry.shared.entries.write().remove(&id);
            self.registry.announce();
            Ok(())
        })
        .await
    }
}
