//! Integration keys: who may ask for worlds. A key reads `wk_live_` or `wk_test_` and 256 random bits, which are shown
//! once and kept as SHA-256.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, MutexGuard, watch};

use crate::Error;
use warmpool_core::clock::{Deadline, Now, unix_ms};
use warmpool_core::error::FieldFault as _;
use warmpool_core::ids::random_text;
use warmpool_core::secret::Secret;
use warmpool_keys::{KeyId, SecretHash, check_name};
use warmpool_store::{Batch, Durability, KeyRange, Store, StoreError, Table};

pub(crate) use warmpool_core::ids::IntegrationKeyId;

/// Rows read at a time.
const PAGE: usize = 256;
/// Characters of a secret that lists and logs show, at either end.
const SHOWN: usize = 4;

/// What a key's worlds are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IntegrationKind {
    /// Real use.
    Live,
    /// Trying out: small scenes with a watermark.
    Test,
}

impl IntegrationKind {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Live => "wk_live_",
            Self::Test => "wk_test_",
        }
    }
}

/// Whether a key works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum IntegrationState {
    /// It does.
    Active,
    /// It never will again.
    Revoked {
        /// Since when, Unix milliseconds.
        at_ms: u64,
    },
}

/// A secret that was replaced and still works for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PreviousSecret {
    hash: SecretHash,
    until: Deadline,
}

/// A key's record, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntegrationKey {
    pub id: IntegrationKeyId,
    /// The service key under which it was made; it alone sees the integration key's worlds and requests.
    pub owner: KeyId,
    /// What its maker called it.
    pub name: String,
    /// What it is for.
    pub kind: IntegrationKind,
    /// Both ends of the secret, as lists and logs show them.
    pub shown: String,
    /// When it was made, Unix milliseconds.
    pub created_ms: u64,
    /// When it was last used, Unix milliseconds; up to a minute old after a restart.
    pub last_used_ms: Option<u64>,
    /// How many worlds it made.
    pub worlds: u64,
    /// Whether it works.
    pub state: IntegrationState,
    hash: SecretHash,
    replaced: Option<PreviousSecret>,
}

/// A key just made or rotated.
pub struct NewIntegrationKey {
    /// Its record.
    pub key: IntegrationKey,
    /// The whole key. This is the only time it can be seen.
    pub secret: Secret,
}

#[derive(Clone)]
pub struct IntegrationKeys {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    keys: RwLock<HashMap<IntegrationKeyId, IntegrationKey>>,
    /// Held from reading a record to having written its successor.
    changing: Mutex<()>,
    changes: watch::Sender<u64>,
}

impl IntegrationKeys {
    /// Reads all keys from the store.
    /// Errors: when the store cannot be read.
    pub async fn load(store: Store) -> Result<Self, StoreError> {
        Self::load_at(store, Now::read()).await
    }

    async fn load_at(store: Store, now: Now) -> Result<Self, StoreError> {
        let (mut keys, mut moved) = (HashMap::new(), Batch::new());
        let mut range = KeyRange::all();
        loop {
            let rows = store.scan(Table::IntegrationKeys, range.clone(), PAGE).await?;
            let Some(last) = rows.last() else { break };
            range = range.after(&last.key);
            for row in &rows {
                let mut key: IntegrationKey = row.json(Table::IntegrationKeys)?;
                if let Some(replaced) = &mut key.replaced
                    && let Some(until) = replaced.until.anchored(&now)
                {
                    replaced.until = until;
                    moved.put_json(Table::IntegrationKeys, key.id.as_str(), &key)?;
                }
                keys.insert(key.id.clone(), key);
            }
        }
        // Where the disk is too full for that, the next start does it.
        if !moved.is_empty()
            && let Err(error) = store.commit(moved, Durability::Power).await
        {
            tracing::warn!(%error, "how long old secrets of integration keys still work was not written");
        }
        let (keys, changing, changes) = (RwLock::new(keys), Mutex::default(), watch::Sender::default());
        Ok(Self { inner: Arc::new(Inner { store, keys, changing, changes }) })
    }

    /// Makes a key.
    /// Errors: `InvalidField` for its name; when the store refuses.
    pub async fn create(&self, owner: &KeyId, name: &str, kind: IntegrationKind) -> Result<NewIntegrationKey, Error> {
        check_name(name).map_err(|error| Error::invalid("name", format!("is refused: {error}")))?;
        let _changing = self.inner.changing.lock().await;
        let (secret, hash, shown) = new_secret(kind);
        let key = IntegrationKey {
            id: IntegrationKeyId::random(),
            owner: owner.clone(),
            name: name.to_owned(),
            kind,
            shown,
            created_ms: unix_ms(),
            last_used_ms: None,
            worlds: 0,
            state: IntegrationState::Active,
            hash,
            replaced: None,
        };
        self.put(key.clone()).await?;
        Ok(NewIntegrationKey { key, secret })
    }

    /// Gives a key another secret; the one it had works for `keep_old_for` longer.
    /// Errors: `UnknownIntegrationKey`; `Conflict` for a revoked key; when the store refuses.
    pub async fn rotate(&self, id: &IntegrationKeyId, keep_old_for: Duration) -> Result<NewIntegrationKey, Error> {
        let _changing = self.inner.changing.lock().await;
        let old = self.get(id).ok_or_else(|| unknown(id))?;
        if old.state != IntegrationState::Active {
            return Err(Error::Conflict { message: format!("integration key {id} was revoked: create another") });
        }
        let (secret, hash, shown) = new_secret(old.kind);
        let until = Deadline::after(keep_old_for, &Now::read());
        let replaced = (!keep_old_for.is_zero()).then_some(PreviousSecret { hash: old.hash, until });
        let key = IntegrationKey { hash, shown, replaced, ..old };
        self.put(key.clone()).await?;
        Ok(NewIntegrationKey { key, secret })
    }

    /// Revokes a key for good. It stops working at once, even if the store then refuses to record it.
    /// Errors: `UnknownIntegrationKey`; when the store refuses: then it works again after a restart, so try again.
    pub async fn revoke(&self, id: &IntegrationKeyId) -> Result<IntegrationKey, Error> {
        let _changing = self.inner.changing.lock().await;
        let mut key = self.get(id).ok_or_else(|| unknown(id))?;
        if key.state == IntegrationState::Active {
            key.state = IntegrationState::Revoked { at_ms: unix_ms() };
            key.replaced = None;
        }
        self.write(|keys| keys.insert(id.clone(), key.clone()));
        self.announce();
        self.put(key.clone()).await?;
        Ok(key)
    }

    /// The key whose secret this text is, working or revoked: a revoked one is logged by its name.
    #[must_use]
    pub fn find(&self, secret: &str) -> Option<IntegrationKey> {
        self.find_at(secret, &Now::read())
    }

    fn find_at(&self, secret: &str, now: &Now) -> Option<IntegrationKey> {
        let hash = SecretHash::of(secret);
        // What is compared is a hash of 256 random bits: the time that takes reveals nothing of the secret.
        let matches = |key: &IntegrationKey| {
            let replaced = key.replaced.as_ref().filter(|replaced| !replaced.until.is_over(now));
            key.hash == hash || replaced.is_some_and(|replaced| replaced.hash == hash)
        };
        self.read(|keys| keys.values().find(|key| matches(key)).cloned())
    }

    /// Whether a key exists and is not revoked.
    #[must_use]
    pub fn is_active(&self, id: &IntegrationKeyId) -> bool {
        self.read(|keys| keys.get(id).is_some_and(|key| key.state == IntegrationState::Active))
    }

    /// Changes each time a key is made, rotated or revoked.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    fn announce(&self) {
        self.inner.changes.send_modify(|count| *count += 1);
    }

    /// The key of this id.
    #[must_use]
    pub fn get(&self, id: &IntegrationKeyId) -> Option<IntegrationKey> {
        self.read(|keys| keys.get(id).cloned())
    }

    /// Every key of one owner, or of all, by time of making.
    #[must_use]
    pub fn list(&self, owner: Option<&KeyId>) -> Vec<IntegrationKey> {
        let mine = |key: &&IntegrationKey| owner.is_none_or(|owner| key.owner == *owner);
        let mut keys: Vec<IntegrationKey> = self.read(|keys| keys.values().filter(mine).cloned().collect());
        keys.sort_unstable_by(|a, b| (a.created_ms, &a.id).cmp(&(b.created_ms, &b.id)));
        keys
    }

    /// Notes a use, and a world that was made, in memory; [`IntegrationKeys::save`] writes it.
    pub(super) fn used(&self, id: &IntegrationKeyId, made_world: bool) {
        self.write(|keys| {
            if let Some(key) = keys.get_mut(id) {
                key.last_used_ms = Some(unix_ms());
                key.worlds += u64::from(made_world);
            }
        });
    }

    /// Adds a key's record with one more world to a batch. The caller holds the guard until the batch is committed, and
    /// then calls [`IntegrationKeys::used`].
    pub(super) async fn put_counted(
        &self,
        id: &IntegrationKeyId,
        batch: &mut Batch,
    ) -> Result<MutexGuard<'_, ()>, StoreError> {
        let changing = self.inner.changing.lock().await;
        if let Some(key) = self.get(id) {
            let key = IntegrationKey { worlds: key.worlds + 1, last_used_ms: Some(unix_ms()), ..key };
            batch.put_json(Table::IntegrationKeys, id.as_str(), &key)?;
        }
        Ok(changing)
    }

    /// Writes when keys were last used.
    pub(super) async fn save(&self) -> Result<(), Error> {
        let _changing = self.inner.changing.lock().await;
        for keys in self.list(None).chunks(PAGE) {
            let mut batch = Batch::new();
            for key in keys {
                batch.put_json(Table::IntegrationKeys, key.id.as_str(), key)?;
            }
            self.inner.store.commit(batch, Durability::Process).await?;
        }
        Ok(())
    }

    /// Records a key, then lets it take effect. The caller holds `changing`.
    async fn put(&self, key: IntegrationKey) -> Result<(), Error> {
        let mut batch = Batch::new();
        // An older backup must bring back neither a revoked key nor a secret that was replaced.
        batch.put_json(Table::IntegrationKeys, key.id.as_str(), &key)?.irrevocable();
        if key.state != IntegrationState::Active {
            batch.essential();
        }
        self.inner.store.commit(batch, Durability::Power).await?;
        self.write(|keys| keys.insert(key.id.clone(), key));
        self.announce();
        Ok(())
    }

    fn read<T>(&self, look: impl FnOnce(&HashMap<IntegrationKeyId, IntegrationKey>) -> T) -> T {
        look(&self.inner.keys.read())
    }

    fn write<T>(&self, change: impl FnOnce(&mut HashMap<IntegrationKeyId, IntegrationKey>) -> T) -> T {
        change(&mut self.inner.keys.write())
    }
}

/// A key's text as logs may show it: both ends of one that has the form of a key, and nothing of anything else.
pub fn shorten(text: &str) -> Option<String> {
    let kind =
        [IntegrationKind::Live, IntegrationKind::Test].into_iter().find(|kind| text.starts_with(kind.prefix()))?;
    let secret = &text[kind.prefix().len()..];
    let plain =
        secret.len() >= 4 * SHOWN && secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    plain.then(|| format!("{}{}…{}", kind.prefix(), &secret[..SHOWN], &secret[secret.len() - SHOWN..]))
}

fn unknown(id: &IntegrationKeyId) -> Error {
    Error::UnknownIntegrationKey { id: id.to_string() }
}

fn new_secret(kind: IntegrationKind) -> (Secret, SecretHash, String) {
    let text = format!("{}{}", kind.prefix(), random_text::<32>());
    let shown = shorten(&text).unwrap_or_default();
    (Secret::new(text.clone()), SecretHash::of(&text), shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_store::StoreOptions;

    fn owner() -> KeyId {
        "0123456789ab".parse().unwrap()
    }

    #[tokio::test]
    async fn a_key_works_until_it_is_rotated_or_revoked_also_after_a_restart() {
        let store = Store::memory();
        let keys = IntegrationKeys::load(store.clone()).await.unwrap();
        let made = keys.create(&owner(), "Ward 3", IntegrationKind::Live).await.unwrap();
        let secret = made.secret.expose().to_owned();
        assert!(secret.starts_with("wk_live_") && secret.len() == 8 + 43, "{secret}");
        assert_eq!(made.key.shown, format!("wk_live_{}…{}", &secret[8..12], &secret[47..]));
        assert_eq!(keys.find(&secret).unwrap().id, made.key.id);
        assert!(keys.find("wk_live_wrong").is_none());

        let rotated = keys.rotate(&made.key.id, Duration::from_secs(600)).await.unwrap();
        assert!(keys.find(&secret).is_some(), "the old secret still works");
        let again = keys.rotate(&made.key.id, Duration::ZERO).await.unwrap();
        assert!(keys.find(&secret).is_none() && keys.find(rotated.secret.expose()).is_none());
        keys.used(&made.key.id, true);
        keys.save().await.unwrap();

        let restarted = IntegrationKeys::load(store.clone()).await.unwrap();
        let found = restarted.find(again.secret.expose()).unwrap();
        assert_eq!((found.worlds, found.last_used_ms.is_some()), (1, true));
        let revoked = restarted.revoke(&found.id).await.unwrap();
        assert!(matches!(revoked.state, IntegrationState::Revoked { .. }));
        assert!(matches!(restarted.rotate(&found.id, Duration::ZERO).await, Err(Error::Conflict { .. })));
        let state = restarted.find(again.secret.expose()).unwrap().state;
        assert_ne!(state, IntegrationState::Active, "a revoked key is found, so that the log can name it");
    }

    #[tokio::test]
    async fn an_old_secret_ends_in_time_however_the_clock_is_set_at_a_start() {
        let hour = Duration::from_secs(3600);
        let store = Store::memory();
        let keys = IntegrationKeys::load(store.clone()).await.unwrap();
        let made = keys.create(&owner(), "Ward 3", IntegrationKind::Live).await.unwrap();
        keys.rotate(&made.key.id, hour).await.unwrap();
        // Another boot, whose clock is wrong until something sets it.
        let booted = Now::at(unix_ms(), "another", 10);
        let keys = IntegrationKeys::load_at(store.clone(), booted).await.unwrap();
        assert!(keys.find_at(made.secret.expose(), &booted).is_some());
        // The daemon starts again on that boot, an hour later and with the clock set back.
        let later = booted.later(hour).jumped(-86_400_000);
        let keys = IntegrationKeys::load_at(store, later).await.unwrap();
        assert!(keys.find_at(made.secret.expose(), &later).is_none(), "the hour is over by the clock of this boot");
    }

    #[tokio::test]
    async fn a_revoked_key_and_an_old_secret_stay_away_after_damage() {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { min_free_bytes: 0, ..StoreOptions::default() };
        let store = Store::open(dir.path(), options.clone()).unwrap().store;
        let keys = IntegrationKeys::load(store.clone()).await.unwrap();
        let revoked = keys.create(&owner(), "Ward 3", IntegrationKind::Live).await.unwrap();
        let rotated = keys.create(&owner(), "Ward 4", IntegrationKind::Live).await.unwrap();
        store.backup().await.unwrap();
        keys.revoke(&revoked.key.id).await.unwrap();
        let new = keys.rotate(&rotated.key.id, Duration::ZERO).await.unwrap();
        store.close().await.unwrap();
        std::fs::write(dir.path().join("db/db"), b"").unwrap();
        let opened = Store::open(dir.path(), options).unwrap();
        assert!(opened.recovery.is_some());
        let keys = IntegrationKeys::load(opened.store.clone()).await.unwrap();
        assert_ne!(keys.find(revoked.secret.expose()).unwrap().state, IntegrationState::Active);
        assert!(keys.find(rotated.secret.expose()).is_none());
        assert!(keys.find(new.secret.expose()).is_some());
        opened.store.close().await.unwrap();
    }

    #[test]
    fn only_what_has_the_form_of_a_key_is_shown_at_all() {
        assert_eq!(shorten("wk_test_abcdefghijklmnopqrst").as_deref(), Some("wk_test_abcd…qrst"));
        for text in ["", "wk_live_", "wk_live_short", "password", "wk_live_<script>alert(1)</script>"] {
            assert_eq!(shorten(text), None, "{text}");
        }
    }
}
