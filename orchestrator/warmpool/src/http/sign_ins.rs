//! The console's sign-ins.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::attempts::Attempts;
use warmpool_core::clock::{Deadline, Now};
use warmpool_core::ids::random_text;
use warmpool_keys::{Error, KeyId, Keys, SecretHash};
use warmpool_store::{Batch, Durability, Store, StoreError, Table, carry_out};

/// Sign-ins at once; with more, one of the key that has most ends.
const MAX_SIGN_INS: usize = 1000;

/// The console's sign-ins. Clones share them. The store has them, too, so that a restart signs nobody out.
#[derive(Clone)]
pub(crate) struct SignIns {
    store: Store,
    keys: Keys,
    timeout: Duration,
    max_per_key: usize,
    signed_in: Arc<Mutex<HashMap<TokenHash, SignIn>>>,
    /// Those that somebody signed out of, until the store has forgotten them. Locked after `signed_in`.
    ending: Arc<Mutex<HashSet<TokenHash>>>,
    writing: Arc<tokio::sync::Mutex<()>>,
    pub(super) attempts: Attempts,
}

/// The SHA-256 of a cookie's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TokenHash([u8; 32]);

impl TokenHash {
    pub(super) fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SignIn {
    key: KeyId,
    /// The secret that it was made with, and those that it gave the key since: it lasts while the key works by one of them. A
    /// sign-in of an earlier release has none, and ends: nobody knows whether its secret was replaced.
    #[serde(default)]
    secrets: Vec<SecretHash>,
    /// When it ends unless it is used.
    ends: Deadline,
    /// When the store was last updated.
    #[serde(skip)]
    written: Option<Instant>,
}

impl SignIn {
    /// Whether its key still works by a secret of it.
    fn is_backed(&self, keys: &Keys, now: &Now) -> bool {
        self.secrets.iter().any(|secret| keys.holds(&self.key, *secret, now))
    }

    fn lasts(&self, keys: &Keys, now: &Now) -> bool {
        !self.ends.is_over(now) && self.is_backed(keys, now)
    }
}

impl SignIns {
    /// Reads the sign-ins of the last process.
    /// Errors: when the store cannot be read.
    pub(crate) async fn load(
        store: Store,
        keys: Keys,
        timeout: Duration,
        max_per_key: usize,
    ) -> Result<Self, StoreError> {
        let now = Now::read();
        let (mut signed_in, mut changed) = (HashMap::new(), Vec::new());
        let mut pages = store.pages(Table::SignIns);
        while let Some(rows) = pages.next().await? {
            for row in &rows {
                let Ok(hash) = <[u8; 32]>::try_from(row.key.as_slice()).map(TokenHash) else { continue };
                match row.json::<SignIn>(Table::SignIns) {
                    Ok(mut sign_in) if sign_in.lasts(&keys, &now) => {
                        if let Some(ends) = sign_in.ends.anchored(&now) {
                            sign_in.ends = ends;
                            changed.push(hash);
                        }
                        signed_in.insert(hash, sign_in);
                    }
                    _ => changed.push(hash),
                }
            }
        }
        let signed_in = Arc::new(Mutex::new(signed_in));
        let (ending, writing, attempts) = Default::default();
        let sign_ins = Self { store, keys, timeout, max_per_key, signed_in, ending, writing, attempts };
        sign_ins.write(changed);
        Ok(sign_ins)
    }

    /// Signs the holder of a key in, by this secret of it. Returns the cookie's value.
    pub(super) fn add(&self, key: KeyId, secret: SecretHash) -> String {
        let (token, now) = (random_text::<32>(), Now::read());
        let hash = TokenHash::of(&token);
        let mut changed = vec![hash];
        {
            let mut signed_in = self.signed_in.lock();
            changed.extend(signed_in.extract_if(|_, sign_in| !sign_in.lasts(&self.keys, &now)).map(|(hash, _)| hash));
            changed.extend(make_room(&mut signed_in, &key, self.max_per_key, &now));
            let ends = Deadline::after(self.timeout, &now);
            signed_in.insert(hash, SignIn { key, secrets: vec![secret], ends, written: Some(Instant::now()) });
        }
        self.write(changed);
        token
    }

    /// The key that somebody signed in with. A use of the sign-in puts its end off.
    /// Errors: `InvalidKey` when the key was revoked, or its secret replaced.
    pub(super) fn find(&self, token: &str, is_use: bool) -> Result<Option<KeyId>, Error> {
        let (hash, now) = (TokenHash::of(token), Now::read());
        let (key, is_stale) = {
            let mut signed_in = self.signed_in.lock();
            let Some(sign_in) = signed_in.get_mut(&hash).filter(|sign_in| !sign_in.ends.is_over(&now)) else {
                return Ok(None);
            };
            if !sign_in.is_backed(&self.keys, &now) {
                return Err(Error::InvalidKey);
            }
            if is_use {
                sign_in.ends = Deadline::after(self.timeout, &now);
            }
            // The store need not hear of each use.
            let is_stale = is_use && sign_in.written.is_none_or(|written| written.elapsed() > self.timeout / 10);
            if is_stale {
                sign_in.written = Some(Instant::now());
            }
            (sign_in.key.clone(), is_stale)
        };
        if is_stale {
            self.write(vec![hash]);
        }
        Ok(Some(key))
    }

    /// Whether a sign-in still lasts. To ask is no use of it.
    pub(super) fn lasts(&self, hash: TokenHash) -> bool {
        let now = Now::read();
        self.signed_in.lock().get(&hash).is_some_and(|sign_in| sign_in.lasts(&self.keys, &now))
    }

    /// Lets a sign-in by which its key gets a new secret last by that one as well.
    pub(super) fn goes_on_by(&self, hash: TokenHash, secret: SecretHash) {
        let now = Now::read();
        if let Some(sign_in) = self.signed_in.lock().get_mut(&hash) {
            sign_in.secrets.retain(|secret| self.keys.holds(&sign_in.key, *secret, &now));
            sign_in.secrets.push(secret);
        }
        self.write(vec![hash]);
    }

    /// How many there are, with those that are over and not forgotten yet.
    pub(super) fn len(&self) -> usize {
        self.signed_in.lock().len()
    }

    /// Signs out, at once. When what it returns is over, the next process sees it as well: it tries until the store has taken it.
    /// Errors: the store is gone, so that the sign-in may work again.
    pub(super) fn remove(&self, token: &str) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let (sign_ins, hash) = (self.clone(), TokenHash::of(token));
        let ends = {
            let (mut signed_in, mut ending) = (self.signed_in.lock(), self.ending.lock());
            // Whoever signs out again meanwhile waits for the store, too.
            signed_in.remove(&hash).is_some_and(|_| ending.insert(hash)) || ending.contains(&hash)
        };
        async move { if ends { carry_out(async move { sign_ins.forget(hash).await }).await } else { Ok(()) } }
    }

    async fn forget(&self, hash: TokenHash) -> Result<(), StoreError> {
        let _writing = self.writing.lock().await;
        let mut batch = Batch::new();
        batch.delete(Table::SignIns, hash.0);
        let held = |error: &StoreError| tracing::warn!(%error, "the end of a sign-in to the console waits");
        self.store.commit_with_retry(batch, Durability::Power, held).await?;
        self.ending.lock().remove(&hash);
        Ok(())
    }

    /// How long a sign-in lasts without use.
    pub(super) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Writes these sign-ins to the store in the background. At worst, somebody has to sign in again.
    fn write(&self, changed: Vec<TokenHash>) {
        if !changed.is_empty() {
            let sign_ins = self.clone();
            tokio::spawn(async move { sign_ins.tell_store(changed).await });
        }
    }

    /// Writes these sign-ins to the store, as they are at that moment.
    async fn tell_store(&self, changed: Vec<TokenHash>) {
        // One after another, so that the last state wins.
        let _writing = self.writing.lock().await;
        if let Err(error) = self.commit(changed).await {
            tracing::warn!(%error, "who is signed in to the console was not written");
        }
    }

    async fn commit(&self, changed: Vec<TokenHash>) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        for hash in changed {
            let now = self.signed_in.lock().get(&hash).cloned();
            match now {
                Some(sign_in) => batch.put_json(Table::SignIns, hash.0, &sign_in)?,
                None => batch.delete(Table::SignIns, hash.0).essential(),
            };
        }
        self.store.commit(batch, Durability::Process).await
    }
}

/// Ends what there would be too many of with one more of this key: its own, so that nobody signs out others, and beyond the limit
/// of all keys together one of the key that has most. The one that would end first does. Returns those that ended.
fn make_room(signed_in: &mut HashMap<TokenHash, SignIn>, key: &KeyId, max_per_key: usize, now: &Now) -> Vec<TokenHash> {
    let mut ended = Vec::new();
    loop {
        let mut counts = HashMap::<&KeyId, usize>::new();
        for sign_in in signed_in.values() {
            *counts.entry(&sign_in.key).or_default() += 1;
        }
        let has_most = if counts.get(key).is_some_and(|own| *own >= max_per_key) {
            Some(key)
        } else {
            let most = counts.into_iter().max_by_key(|(of, count)| (*count, *of == key));
            most.map(|(of, _)| of).filter(|_| signed_in.len() >= MAX_SIGN_INS)
        };
        let of_it = signed_in.iter().filter(|(_, sign_in)| Some(&sign_in.key) == has_most);
        let Some(first) = of_it.min_by_key(|(_, sign_in)| sign_in.ends.left(now)).map(|(hash, _)| *hash) else {
            return ended;
        };
        signed_in.remove(&first);
        ended.push(first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_keys::KeyRole;
    use warmpool_store::fault::Faults;
    use warmpool_store::{KeyRange, StoreOptions};

    const MINUTE: Duration = Duration::from_secs(60);

    /// A registry of keys, and one of them with its secret.
    async fn keys(store: &Store) -> (Keys, KeyId, SecretHash) {
        let keys = Keys::load(store.clone()).await.unwrap();
        let (key, secret) = make(&keys, "a").await;
        (keys, key, secret)
    }

    async fn make(keys: &Keys, name: &str) -> (KeyId, SecretHash) {
        let made = keys.create(name, KeyRole::Client).await.unwrap();
        keys.verify_secret(made.secret.expose()).unwrap()
    }

    async fn load(store: &Store, keys: &Keys) -> SignIns {
        SignIns::load(store.clone(), keys.clone(), MINUTE, 20).await.unwrap()
    }

    /// Waits until the store has this many.
    async fn written(store: &Store, count: usize) {
        while store.scan(Table::SignIns, KeyRange::all(), 9).await.unwrap().len() != count {
            tokio::task::yield_now().await;
        }
    }

    impl SignIns {
        fn used(&self, token: &str) -> Option<KeyId> {
            self.find(token, true).unwrap()
        }
    }

    #[tokio::test]
    async fn a_sign_in_outlives_the_process_and_ends_when_it_is_over() {
        let store = Store::memory();
        let (keys, key, secret) = keys(&store).await;
        let sign_ins = load(&store, &keys).await;
        let (stays, goes) = (sign_ins.add(key.clone(), secret), sign_ins.add(key.clone(), secret));
        sign_ins.remove(&goes).await.unwrap();
        written(&store, 1).await;
        let next = load(&store, &keys).await;
        assert_eq!((next.used(&stays), next.used(&goes), next.used("")), (Some(key.clone()), None, None));
        let short = SignIns::load(store, keys, Duration::ZERO, 20).await.unwrap();
        // A call that is no use leaves the end as it is; a use puts it to no time from now.
        for _ in 0..2 {
            assert!(short.find(&stays, false).unwrap().is_some());
        }
        assert!(short.used(&stays).is_some() && short.used(&stays).is_none());
        assert!(!short.lasts(TokenHash::of(&stays)));
    }

    #[tokio::test]
    async fn a_sign_in_ends_with_the_secret_that_it_was_made_with() {
        let store = Store::memory();
        let (keys, key, secret) = keys(&store).await;
        let sign_ins = load(&store, &keys).await;
        let (stays, goes) = (sign_ins.add(key.clone(), secret), sign_ins.add(key.clone(), secret));
        keys.rotate(&key, MINUTE).await.unwrap();
        assert!(sign_ins.used(&goes).is_some(), "the old secret goes on for a while");

        // The sign-in by which a key gets its secret goes on, at every moment.
        let hash = TokenHash::of(&stays);
        for _ in 0..3 {
            let tell = |secret| {
                sign_ins.goes_on_by(hash, secret);
                assert!(sign_ins.lasts(hash));
            };
            keys.rotate_telling(&key, Duration::ZERO, tell).await.unwrap();
            assert!(sign_ins.lasts(hash) && sign_ins.used(&stays).is_some());
        }
        assert!(!sign_ins.lasts(TokenHash::of(&goes)));
        assert!(matches!(sign_ins.find(&goes, true), Err(Error::InvalidKey)));

        // The next process sees the same, and forgets what is over.
        sign_ins.tell_store(vec![hash]).await;
        let next = load(&store, &keys).await;
        assert_eq!((next.used(&stays), next.used(&goes), next.len()), (Some(key.clone()), None, 1));
        written(&store, 1).await;
        keys.revoke(&key).await.unwrap();
        assert!(!next.lasts(hash) && next.find(&stays, true).is_err());
    }

    #[tokio::test]
    async fn a_sign_in_of_an_earlier_release_ends() {
        let store = Store::memory();
        let (keys, key, _) = keys(&store).await;
        let row = serde_json::json!({"key": key, "ends": Deadline::after(MINUTE, &Now::read())});
        let mut batch = Batch::new();
        batch.put_json(Table::SignIns, TokenHash::of("token").0, &row).unwrap();
        store.commit(batch, Durability::Process).await.unwrap();
        assert_eq!(load(&store, &keys).await.used("token"), None);
        written(&store, 0).await;
    }

    #[tokio::test]
    async fn one_key_signs_nobody_else_out() {
        let store = Store::memory();
        let (keys, key, secret) = keys(&store).await;
        let (other, others) = make(&keys, "b").await;
        let sign_ins = load(&store, &keys).await;
        let stays = sign_ins.add(other, others);
        let mut last = String::new();
        for _ in 0..30 {
            last = sign_ins.add(key.clone(), secret);
        }
        assert!(sign_ins.used(&stays).is_some() && sign_ins.used(&last).is_some());
        assert_eq!(sign_ins.len(), 21);
    }

    #[tokio::test]
    async fn where_there_are_too_many_the_key_that_has_most_has_one_less() {
        let store = Store::memory();
        let (keys, key, secret) = keys(&store).await;
        let sign_ins = load(&store, &keys).await;
        let ((few, of_few), (new, of_new)) = (make(&keys, "b").await, make(&keys, "c").await);
        let stays = sign_ins.add(few, of_few);
        let ends = Deadline::after(2 * MINUTE, &Now::read());
        let sign_in = SignIn { key, secrets: vec![secret], ends, written: None };
        let others = (sign_ins.len()..MAX_SIGN_INS).map(|at| (TokenHash::of(&at.to_string()), sign_in.clone()));
        sign_ins.signed_in.lock().extend(others);
        let new = sign_ins.add(new, of_new);
        assert!(sign_ins.used(&stays).is_some() && sign_ins.used(&new).is_some());
        assert_eq!(sign_ins.len(), MAX_SIGN_INS);
    }

    #[tokio::test]
    async fn signing_out_is_answered_once_the_store_has_it() {
        let faults = Faults::default();
        let store = Store::faulty(&faults, StoreOptions { min_free_bytes: 1000, ..StoreOptions::default() });
        let (keys, key, secret) = keys(&store).await;
        let sign_ins = load(&store, &keys).await;
        let goes = sign_ins.add(key, secret);
        written(&store, 1).await;
        faults.set_free_bytes(0);
        let first = tokio::spawn(sign_ins.remove(&goes));
        assert_eq!(sign_ins.used(&goes), None, "it opens nothing any more");
        let again = tokio::spawn(sign_ins.remove(&goes));
        // One that never was waits for nothing.
        sign_ins.remove("unknown").await.unwrap();
        // The store answers in turn, so that it has refused the first by the second time.
        for _ in 0..3 {
            assert_eq!(store.scan(Table::SignIns, KeyRange::all(), 9).await.unwrap().len(), 1);
        }
        assert!(!first.is_finished() && !again.is_finished(), "an answer before the store had it");
        faults.set_free_bytes(1000);
        for answered in [first, again] {
            answered.await.unwrap().unwrap();
        }
        written(&store, 0).await;
        assert!(sign_ins.ending.lock().is_empty());

        let goes = sign_ins.add(make(&keys, "b").await.0, secret);
        store.close().await.unwrap();
        assert!(matches!(sign_ins.remove(&goes).await, Err(StoreError::Closed)));
    }

    #[tokio::test]
    async fn no_backup_signs_anybody_in() {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { min_free_bytes: 0, ..StoreOptions::default() };
        let store = Store::open(dir.path(), options.clone()).unwrap().store;
        let (keys, key, secret) = keys(&store).await;
        let sign_ins = load(&store, &keys).await;
        let (stays, goes) = (sign_ins.add(key.clone(), secret), sign_ins.add(key.clone(), secret));
        written(&store, 2).await;
        store.backup().await.unwrap();
        sign_ins.remove(&goes).await.unwrap();
        store.close().await.unwrap();
        warmpool_store::fault::damage(dir.path());
        let store = Store::open(dir.path(), options).unwrap().store;
        let keys = Keys::load(store.clone()).await.unwrap();
        let next = load(&store, &keys).await;
        assert_eq!((next.used(&stays), next.used(&goes)), (None, None));
        assert!(keys.get(&key).is_some(), "the key signs in again");
        store.close().await.unwrap();
    }
}
