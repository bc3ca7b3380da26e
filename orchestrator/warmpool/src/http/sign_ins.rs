//! The console's sign-ins.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::attempts::Attempts;
use warmpool_core::clock::{Deadline, Now};
use warmpool_core::ids::random_text;
use warmpool_keys::KeyId;
use warmpool_store::{Batch, Durability, KeyRange, Store, StoreError, Table, carry_out};

/// Sign-ins at once; with more, the one that would end first does.
const MAX_SIGN_INS: usize = 1000;
/// Rows that are read at once.
const PAGE: usize = 256;

/// The console's sign-ins. Clones share them. The store has them, too, so that a restart signs nobody out.
#[derive(Clone)]
pub(crate) struct SignIns {
    store: Store,
    timeout: Duration,
    signed_in: Arc<Mutex<HashMap<TokenHash, SignIn>>>,
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
    /// When it ends unless it is used.
    ends: Deadline,
    /// When the store was last updated.
    #[serde(skip)]
    written: Option<Instant>,
}

impl SignIns {
    /// Reads the sign-ins of the last process.
    /// Errors: when the store cannot be read.
    pub(crate) async fn load(store: Store, timeout: Duration) -> Result<Self, StoreError> {
        let now = Now::read();
        let (mut signed_in, mut range, mut changed) = (HashMap::new(), KeyRange::all(), Vec::new());
        loop {
            let rows = store.scan(Table::SignIns, range.clone(), PAGE).await?;
            let Some(last) = rows.last() else { break };
            range = range.after(&last.key);
            for row in &rows {
                let Ok(hash) = <[u8; 32]>::try_from(row.key.as_slice()).map(TokenHash) else { continue };
                match row.json::<SignIn>(Table::SignIns) {
                    Ok(mut sign_in) if !sign_in.ends.is_over(&now) => {
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
        let sign_ins = Self { store, timeout, signed_in, writing: Arc::default(), attempts: Attempts::default() };
        sign_ins.write(changed);
        Ok(sign_ins)
    }

    /// Signs the holder of a key in. Returns the cookie's value.
    pub(super) fn add(&self, key: KeyId) -> String {
        let (token, now) = (random_text::<32>(), Now::read());
        let hash = TokenHash::of(&token);
        let mut changed = vec![hash];
        {
            let mut signed_in = self.signed_in.lock();
            changed.extend(signed_in.extract_if(|_, sign_in| sign_in.ends.is_over(&now)).map(|(hash, _)| hash));
            let first = signed_in.iter().min_by_key(|(_, sign_in)| sign_in.ends.left(&now)).map(|(hash, _)| *hash);
            if let Some(first) = first.filter(|_| signed_in.len() >= MAX_SIGN_INS) {
                signed_in.remove(&first);
                changed.push(first);
            }
            let ends = Deadline::after(self.timeout, &now);
            signed_in.insert(hash, SignIn { key, ends, written: Some(Instant::now()) });
        }
        self.write(changed);
        token
    }

    /// The key that somebody signed in with, whose use this is.
    pub(super) fn find(&self, token: &str) -> Option<KeyId> {
        let (hash, now) = (TokenHash::of(token), Now::read());
        let (key, is_stale) = {
            let mut signed_in = self.signed_in.lock();
            let sign_in = signed_in.get_mut(&hash).filter(|sign_in| !sign_in.ends.is_over(&now))?;
            sign_in.ends = Deadline::after(self.timeout, &now);
            // The store need not hear of each use.
            let is_stale = sign_in.written.is_none_or(|written| written.elapsed() > self.timeout / 10);
            if is_stale {
                sign_in.written = Some(Instant::now());
            }
            (sign_in.key.clone(), is_stale)
        };
        if is_stale {
            self.write(vec![hash]);
        }
        Some(key)
    }

    /// Whether a sign-in still lasts. To ask is no use of it.
    pub(super) fn lasts(&self, hash: TokenHash) -> bool {
        let now = Now::read();
        self.signed_in.lock().get(&hash).is_some_and(|sign_in| !sign_in.ends.is_over(&now))
    }

    /// How many there are, with those that are over and not forgotten yet.
    pub(super) fn len(&self) -> usize {
        self.signed_in.lock().len()
    }

    /// Signs out. Once this returns, the next process sees it as well.
    pub(super) async fn remove(&self, token: &str) {
        let hash = TokenHash::of(token);
        let removed = self.signed_in.lock().remove(&hash);
        if removed.is_some() {
            let sign_ins = self.clone();
            carry_out(async move { sign_ins.tell_store(vec![hash], Batch::irrevocable).await }).await;
        }
    }

    /// How long a sign-in lasts without use.
    pub(super) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Writes these sign-ins to the store in the background. At worst, somebody has to sign in again.
    fn write(&self, changed: Vec<TokenHash>) {
        if !changed.is_empty() {
            let sign_ins = self.clone();
            tokio::spawn(async move { sign_ins.tell_store(changed, |batch| batch).await });
        }
    }

    /// Writes these sign-ins to the store, as they are at that moment, in a batch that is marked so.
    async fn tell_store(&self, changed: Vec<TokenHash>, mark: fn(&mut Batch) -> &mut Batch) {
        // One after another, so that the last state wins.
        let _writing = self.writing.lock().await;
        if let Err(error) = self.commit(changed, mark).await {
            tracing::warn!(%error, "who is signed in to the console was not written");
        }
    }

    async fn commit(&self, changed: Vec<TokenHash>, mark: fn(&mut Batch) -> &mut Batch) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        for hash in changed {
            let now = self.signed_in.lock().get(&hash).cloned();
            match now {
                Some(sign_in) => batch.put_json(Table::SignIns, hash.0, &sign_in)?,
                None => batch.delete(Table::SignIns, hash.0).essential(),
            };
        }
        mark(&mut batch);
        self.store.commit(batch, Durability::Process).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_store::StoreOptions;

    fn key() -> KeyId {
        "000000000000".parse().unwrap()
    }

    #[tokio::test]
    async fn a_sign_in_outlives_the_process_and_ends_when_it_is_over() {
        let store = Store::memory();
        let sign_ins = SignIns::load(store.clone(), Duration::from_secs(60)).await.unwrap();
        let (stays, goes) = (sign_ins.add(key()), sign_ins.add(key()));
        sign_ins.remove(&goes).await;
        while store.scan(Table::SignIns, KeyRange::all(), 9).await.unwrap().len() != 1 {
            tokio::task::yield_now().await;
        }
        let next = SignIns::load(store.clone(), Duration::from_secs(60)).await.unwrap();
        assert_eq!((next.find(&stays), next.find(&goes), next.find("")), (Some(key()), None, None));
        let short = SignIns::load(store, Duration::ZERO).await.unwrap();
        assert!(short.find(&stays).is_some() && short.find(&stays).is_none());
        assert!(!short.lasts(TokenHash::of(&stays)));
    }

    #[tokio::test]
    async fn who_signed_out_stays_so_after_damage() {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { min_free_bytes: 0, ..StoreOptions::default() };
        let store = Store::open(dir.path(), options.clone()).unwrap().store;
        let sign_ins = SignIns::load(store.clone(), Duration::from_secs(60)).await.unwrap();
        let (stays, goes) = (sign_ins.add(key()), sign_ins.add(key()));
        while store.scan(Table::SignIns, KeyRange::all(), 9).await.unwrap().len() != 2 {
            tokio::task::yield_now().await;
        }
        store.backup().await.unwrap();
        sign_ins.remove(&goes).await;
        store.close().await.unwrap();
        std::fs::write(dir.path().join("db/db"), b"").unwrap();
        let store = Store::open(dir.path(), options).unwrap().store;
        let next = SignIns::load(store.clone(), Duration::from_secs(60)).await.unwrap();
        assert_eq!((next.find(&stays), next.find(&goes)), (Some(key()), None));
        store.close().await.unwrap();
    }
}
