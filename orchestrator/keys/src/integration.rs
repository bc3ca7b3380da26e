//! Integration keys: who may ask for worlds, in the name of a service key. A key reads `wk_live_` or `wk_test_` and 256 random
//! bits.

use serde::{Deserialize, Serialize};

use crate::record::{NewKey, Record, SecretHash, is_name};
use crate::registry::{Change, KeyKind, Registry};
use crate::{Error, KeyError, Keys};
pub use warmpool_api::integration::IntegrationKind;
use warmpool_core::clock::{Now, unix_ms};
use warmpool_core::error::FieldFault as _;
use warmpool_core::ids::{IntegrationKeyId, KeyId, random_text};
use warmpool_core::secret::Secret;
use warmpool_store::{Batch, StoreError, Table};

/// Characters of a secret that lists and logs show, at either end.
const SHOWN: usize = 4;

/// All integration keys.
pub type IntegrationKeys = Registry<Integration>;
/// The record of an integration key.
pub type IntegrationKey = Record<Integration>;

/// What the keys of a kind begin with.
const fn prefix(kind: IntegrationKind) -> &'static str {
    match kind {
        IntegrationKind::Live => "wk_live_",
        IntegrationKind::Test => "wk_test_",
    }
}

/// What only integration keys have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Integration {
    /// The service key under which it was made; it alone sees the integration key's worlds and requests.
    pub owner: KeyId,
    /// What it is for.
    pub kind: IntegrationKind,
    /// Both ends of the secret, as lists and logs show them.
    pub shown: String,
    /// How many worlds it made.
    pub worlds: u64,
}

impl KeyKind for Integration {
    type Id = IntegrationKeyId;
    type Error = Error;
    const TABLE: Table = Table::IntegrationKeys;
    const OLD_SECRETS: &'static str = "old secrets of integration keys";

    fn unknown(id: &IntegrationKeyId) -> Error {
        Error::UnknownIntegrationKey { id: id.to_string() }
    }

    fn revoked(id: &IntegrationKeyId) -> Error {
        Error::Conflict { message: format!("integration key {id} was revoked: create another") }
    }

    fn new_secret(&mut self, _: &IntegrationKeyId) -> (Secret, SecretHash) {
        let text = format!("{}{}", prefix(self.kind), random_text::<32>());
        self.shown = shorten(&text).unwrap_or_default();
        let hash = SecretHash::new(&text);
        (Secret::new(text), hash)
    }
}

impl IntegrationKeys {
    /// Makes a key. One that was revoked stays, because its worlds do, and so counts towards the `limit` of its owner. `works` says
    /// whether the owner is still active, at a moment after which its revocation finds the new key.
    /// Errors: `InvalidField` for its name; `IntegrationKeyLimit`; `InvalidKey` when the owner was revoked meanwhile; when the store
    /// refuses.
    pub async fn create(
        &self,
        owner: &KeyId,
        name: &str,
        kind: IntegrationKind,
        limit: usize,
        works: impl FnOnce(&KeyId) -> bool,
    ) -> Result<NewKey<Integration>, Error> {
        if !is_name(name) {
            return Err(Error::invalid("name", format!("is refused: {}", KeyError::InvalidName)));
        }
        let details = Integration { owner: owner.clone(), kind, shown: String::new(), worlds: 0 };
        let NewKey { record, secret } = NewKey::new(IntegrationKeyId::random(), name, details);
        let change = self.change().await;
        if !works(owner) {
            return Err(Error::InvalidKey);
        }
        if self.list_of(owner).len() >= limit {
            return Err(Error::IntegrationKeyLimit { limit });
        }
        Ok(NewKey { record: change.put(record).await?, secret })
    }

    /// Ends the keys whose service keys were revoked or removed while nobody ended theirs, as by an earlier release or a process that
    /// was killed. Returns them.
    /// Errors: when the store refuses: then they are revoked only until the daemon restarts.
    pub async fn end_orphans(&self, keys: &Keys) -> Result<Vec<IntegrationKey>, StoreError> {
        self.revoke_all(|key| key.is_active() && !keys.is_active(&key.details.owner)).await
    }

    /// Every key of one service key, also revoked ones, by time of making.
    #[must_use]
    pub fn list_of(&self, owner: &KeyId) -> Vec<IntegrationKey> {
        let mut keys = self.list();
        keys.retain(|key| key.details.owner == *owner);
        keys
    }

    /// The key whose secret this text is, working or revoked: a revoked one is logged by its name.
    #[must_use]
    pub fn find(&self, secret: &str) -> Option<IntegrationKey> {
        self.find_at(secret, &Now::read())
    }

    pub(crate) fn find_at(&self, secret: &str, now: &Now) -> Option<IntegrationKey> {
        self.look_by_secret(SecretHash::new(secret), now, |entry| entry.record())
    }

    /// The key whose secret this text is, if it works.
    /// Errors: `InvalidApiKey`.
    pub fn verify(&self, secret: &str) -> Result<IntegrationKey, Error> {
        self.find(secret).filter(Record::is_active).ok_or(Error::InvalidApiKey)
    }

    /// As [`IntegrationKeys::verify`], with the hash of the secret, of which [`Registry::holds`] says later whether the key still
    /// works by it.
    /// Errors: `InvalidApiKey`.
    pub fn verify_secret(&self, secret: &str) -> Result<(IntegrationKey, SecretHash), Error> {
        Ok((self.verify(secret)?, SecretHash::new(secret)))
    }

    /// Counts one more world of a key in a batch, and keeps other changes of keys away until the caller has committed it.
    /// Errors: when the record cannot be written as JSON.
    pub async fn count_world(&self, id: &IntegrationKeyId, batch: &mut Batch) -> Result<CountedWorld, StoreError> {
        let _alone = self.change().await;
        let mut record = self.get(id);
        if let Some(record) = &mut record {
            record.details.worlds += 1;
            record.last_used_ms = Some(unix_ms());
            batch.put_json(Table::IntegrationKeys, id.as_str(), record)?;
        }
        Ok(CountedWorld { keys: self.clone(), record, _alone })
    }
}

/// A world that a batch counts. Dropped before [`CountedWorld::committed`], it was not made.
pub struct CountedWorld {
    keys: IntegrationKeys,
    record: Option<IntegrationKey>,
    _alone: Change<Integration>,
}

impl CountedWorld {
    /// Lets the count take effect, now that the batch is in the store.
    pub fn committed(self) {
        if let Some(record) = self.record {
            self.keys.insert(record);
        }
    }
}

/// Returns a key's secret as logs may show it: its first and last characters. None for a text without the form of a key.
#[must_use]
pub fn shorten(text: &str) -> Option<String> {
    let kind =
        [IntegrationKind::Live, IntegrationKind::Test].into_iter().find(|kind| text.starts_with(prefix(*kind)))?;
    let secret = &text[prefix(kind).len()..];
    let plain =
        secret.len() >= 4 * SHOWN && secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    plain.then(|| format!("{}{}…{}", prefix(kind), &secret[..SHOWN], &secret[secret.len() - SHOWN..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyRole;
    use std::time::Duration;
    use warmpool_store::fault::Faults;
    use warmpool_store::{Durability, Store, StoreOptions};

    fn owner() -> KeyId {
        "0123456789ab".parse().unwrap()
    }

    #[tokio::test]
    async fn a_key_works_until_it_is_rotated_or_revoked_also_after_a_restart() {
        let store = Store::memory();
        let keys = IntegrationKeys::load(store.clone()).await.unwrap();
        let made = keys.create(&owner(), "Ward 3", IntegrationKind::Live, 9, |_| true).await.unwrap();
        let secret = made.secret.expose().to_owned();
        assert!(secret.starts_with("wk_live_") && secret.len() == 8 + 43, "{secret}");
        assert_eq!(made.record.details.shown, format!("wk_live_{}…{}", &secret[8..12], &secret[47..]));
        assert_eq!(keys.find(&secret).unwrap().id, made.record.id);
        assert!(keys.find("wk_live_wrong").is_none());

        let rotated = keys.rotate(&made.record.id, Duration::from_secs(600)).await.unwrap();
        assert!(keys.find(&secret).is_some(), "the old secret still works");
        let again = keys.rotate(&made.record.id, Duration::ZERO).await.unwrap();
        assert!(keys.find(&secret).is_none() && keys.find(rotated.secret.expose()).is_none());
        let mut batch = Batch::new();
        let counted = keys.count_world(&made.record.id, &mut batch).await.unwrap();
        store.commit(batch, Durability::Process).await.unwrap();
        counted.committed();

        let restarted = IntegrationKeys::load(store.clone()).await.unwrap();
        for keys in [&keys, &restarted] {
            let found = keys.verify(again.secret.expose()).unwrap();
            assert_eq!((found.details.worlds, found.last_used_ms.is_some()), (1, true));
        }
        let revoked = restarted.revoke(&made.record.id).await.unwrap();
        assert!(!revoked.is_active());
        assert!(matches!(restarted.rotate(&revoked.id, Duration::ZERO).await, Err(Error::Conflict { .. })));
        assert!(matches!(restarted.verify(again.secret.expose()), Err(Error::InvalidApiKey)));
        let found = restarted.find(again.secret.expose()).unwrap();
        assert!(!found.is_active(), "a revoked key is found, so that the log can name it");
    }

    #[tokio::test]
    async fn the_key_beyond_the_limit_is_refused_by_name() {
        let keys = IntegrationKeys::load(Store::memory()).await.unwrap();
        let create = async |owner: &KeyId| keys.create(owner, "Ward", IntegrationKind::Test, 2, |_| true).await;
        let first = create(&owner()).await.unwrap();
        create(&owner()).await.unwrap();
        // Its worlds stay, and so does it.
        keys.revoke(&first.record.id).await.unwrap();
        let refused = create(&owner()).await.unwrap_err();
        assert!(matches!(refused, Error::IntegrationKeyLimit { limit: 2 }), "{refused}");
        assert!(refused.to_string().contains("world.max_keys"), "{refused}");
        create(&"ba9876543210".parse().unwrap()).await.unwrap();
        assert_eq!(keys.list().len(), 3);
    }

    #[tokio::test]
    async fn an_old_secret_ends_in_time_however_the_clock_is_set_at_a_start() {
        let hour = Duration::from_secs(3600);
        let store = Store::memory();
        let keys = IntegrationKeys::load(store.clone()).await.unwrap();
        let made = keys.create(&owner(), "Ward 3", IntegrationKind::Live, 9, |_| true).await.unwrap();
        keys.rotate(&made.record.id, hour).await.unwrap();
        // Another boot, whose clock is wrong until something sets it.
        let booted = Now::at(unix_ms(), "another", 10);
        let keys = IntegrationKeys::load_at(store.clone(), &booted).await.unwrap();
        assert!(keys.find_at(made.secret.expose(), &booted).is_some());
        // The daemon starts again on that boot, an hour later and with the clock set back.
        let later = booted.later(hour).jumped(-86_400_000);
        let keys = IntegrationKeys::load_at(store, &later).await.unwrap();
        assert!(keys.find_at(made.secret.expose(), &later).is_none(), "the hour is over by the clock of this boot");
    }

    #[tokio::test]
    async fn a_key_of_an_earlier_release_keeps_both_secrets() {
        let store = Store::memory();
        let hash = |secret| String::from(SecretHash::new(secret));
        let until =
            serde_json::json!({"unix_ms": 9_000, "span_ms": 4_000, "since_boot": {"boot": "a boot", "ms": 6_000}});
        let row = serde_json::json!({
            "id": "wki_abcdefghijkl", "owner": "0123456789ab", "name": "Ward 3", "kind": "test", "shown": "wk_test_abcd…wxyz",
            "created_ms": 1_000, "last_used_ms": 2_000, "worlds": 7, "state": {"kind": "active"},
            "hash": hash("new"), "replaced": {"hash": hash("old"), "until": until},
        });
        let mut batch = Batch::new();
        batch.put_json(Table::IntegrationKeys, "wki_abcdefghijkl", &row).unwrap();
        store.commit(batch, Durability::Process).await.unwrap();
        let now = Now::at(8_000, "a boot", 5_000);
        let keys = IntegrationKeys::load_at(store, &now).await.unwrap();
        let key = keys.find_at("new", &now).unwrap();
        assert_eq!((key.details.worlds, key.details.kind, key.last_used_ms), (7, IntegrationKind::Test, Some(2_000)));
        assert!(keys.find_at("old", &now).is_some());
        assert!(keys.find_at("old", &now.later(Duration::from_secs(1))).is_none());
    }

    #[tokio::test]
    async fn a_revoked_key_and_an_old_secret_stay_away_after_damage() {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { min_free_bytes: 0, ..StoreOptions::default() };
        let store = Store::open(dir.path(), options.clone()).unwrap().store;
        let keys = IntegrationKeys::load(store.clone()).await.unwrap();
        let revoked = keys.create(&owner(), "Ward 3", IntegrationKind::Live, 9, |_| true).await.unwrap();
        let rotated = keys.create(&owner(), "Ward 4", IntegrationKind::Live, 9, |_| true).await.unwrap();
        store.backup().await.unwrap();
        keys.revoke(&revoked.record.id).await.unwrap();
        let new = keys.rotate(&rotated.record.id, Duration::ZERO).await.unwrap();
        store.close().await.unwrap();
        warmpool_store::fault::damage(dir.path());
        let opened = Store::open(dir.path(), options).unwrap();
        assert!(opened.recovery.is_some());
        let keys = IntegrationKeys::load(opened.store.clone()).await.unwrap();
        assert!(!keys.find(revoked.secret.expose()).unwrap().is_active());
        assert!(keys.find(rotated.secret.expose()).is_none());
        assert!(keys.find(new.secret.expose()).is_some());
        opened.store.close().await.unwrap();
    }

    #[tokio::test]
    async fn an_integration_key_ends_with_its_service_key() {
        let store = Store::memory();
        let service = Keys::load(store.clone()).await.unwrap();
        let keys = IntegrationKeys::load(store.clone()).await.unwrap();
        let owner = service.create("clinic", KeyRole::Client).await.unwrap().record.id;
        let other = service.create("other", KeyRole::Client).await.unwrap().record.id;
        let create = async |owner: &KeyId| {
            keys.create(owner, "Ward", IntegrationKind::Live, 9, |id| service.is_active(id)).await
        };
        let (mine, theirs) = (create(&owner).await.unwrap(), create(&other).await.unwrap());
        let mut changes = keys.changes();
        changes.mark_unchanged();
        let (revoked, ended) = service.revoke_with(&keys, &owner).await.unwrap();
        assert!(!revoked.is_active() && ended.iter().map(|key| &key.id).eq([&mine.record.id]));
        assert!(changes.has_changed().unwrap(), "who follows the keys ends its worlds");
        assert!(matches!(create(&owner).await, Err(Error::InvalidKey)), "it makes no further one");
        let restarted = IntegrationKeys::load(store.clone()).await.unwrap();
        for keys in [&keys, &restarted] {
            assert!(matches!(keys.verify(mine.secret.expose()), Err(Error::InvalidApiKey)));
            assert!(keys.verify(theirs.secret.expose()).is_ok(), "that of another goes on");
        }
        let (_, ended) = service.revoke_with(&keys, &owner).await.unwrap();
        assert_eq!(ended, [], "again changes nothing");

        // As an earlier release left it.
        service.revoke(&other).await.unwrap();
        assert_eq!(restarted.end_orphans(&service).await.unwrap()[0].id, theirs.record.id);
        let again = IntegrationKeys::load(store).await.unwrap();
        assert!(!again.is_active(&theirs.record.id));
        assert_eq!(again.end_orphans(&service).await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_store_that_refuses_lets_no_integration_key_work_on() {
        let faults = Faults::default();
        let store = Store::faulty(&faults, StoreOptions { min_free_bytes: 1000, ..StoreOptions::default() });
        let service = Keys::load(store.clone()).await.unwrap();
        let keys = IntegrationKeys::load(store.clone()).await.unwrap();
        let owner = service.create("clinic", KeyRole::Client).await.unwrap().record.id;
        let made = keys.create(&owner, "Ward", IntegrationKind::Live, 9, |_| true).await.unwrap();
        faults.set_free_bytes(0);
        assert!(matches!(service.revoke_with(&keys, &owner).await, Err(KeyError::Store(_))));
        assert!(keys.verify(made.secret.expose()).is_err());
        faults.set_free_bytes(1 << 40);
        service.revoke_with(&keys, &owner).await.unwrap();
        let restarted = IntegrationKeys::load(store).await.unwrap();
        assert!(!restarted.is_active(&made.record.id), "what was not recorded is when it is tried again");
    }

    #[test]
    fn only_what_has_the_form_of_a_key_is_shown_at_all() {
        assert_eq!(shorten("wk_test_abcdefghijklmnopqrst").as_deref(), Some("wk_test_abcd…qrst"));
        for text in ["", "wk_live_", "wk_live_short", "password", "wk_live_<script>alert(1)</script>"] {
            assert_eq!(shorten(text), None, "{text}");
        }
    }
}
