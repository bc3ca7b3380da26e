//! The right to write a profile.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::io::AsyncRead;
use warmpool_protocol::StorageState;

use crate::{Error, Profiles};
use warmpool_core::browser::Engine;
use warmpool_core::ids::SessionId;
use warmpool_keys::KeyId;
use warmpool_store::carry_out;

/// A profile by the key that owns it and its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct QualifiedName {
    pub(crate) owner: KeyId,
    pub(crate) name: String,
}

impl QualifiedName {
    pub(crate) fn new(owner: &KeyId, name: &str) -> Self {
        Self { owner: owner.clone(), name: name.to_owned() }
    }

    /// The key in the store of the profile's record.
    pub(crate) fn store_key(&self) -> Vec<u8> {
        format!("{}/{}", self.owner, self.name).into_bytes()
    }

    /// Whose record has this key in the store.
    pub(crate) fn from_store_key(key: &[u8]) -> Option<Self> {
        let (owner, name) = std::str::from_utf8(key).ok()?.split_once('/')?;
        Some(Self { owner: owner.parse().ok()?, name: name.to_owned() })
    }
}

/// Who writes which profile; none where its session is being made.
pub(crate) type Holders = Arc<Mutex<HashMap<QualifiedName, Option<SessionId>>>>;

/// The right to write one profile, which nobody else has; given back when dropped.
pub struct Writer {
    pub(crate) qualified_name: QualifiedName,
    holders: Holders,
    profiles: Profiles,
    session: OnceLock<SessionId>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("qualified_name", &self.qualified_name).finish_non_exhaustive()
    }
}

impl Writer {
    /// Takes the right, if nobody has it.
    /// Errors: `ProfileInUse`.
    pub(crate) fn take(profiles: &Profiles, qualified_name: QualifiedName) -> Result<Self, Error> {
        let holders = Arc::clone(profiles.holders());
        {
            let mut all = holders.lock();
            if let Some(holder) = all.get(&qualified_name) {
                return Err(Error::ProfileInUse { name: qualified_name.name, holder: named(holder.as_ref()) });
            }
            all.insert(qualified_name.clone(), None);
        }
        Ok(Self { qualified_name, holders, profiles: profiles.clone(), session: OnceLock::new() })
    }

    /// This session has the right.
    pub fn belongs_to(&self, session: &SessionId) {
        let _ = self.session.set(session.clone());
        self.holders.lock().insert(self.qualified_name.clone(), Some(session.clone()));
    }

    /// When what the same session saved last was saved, in Unix milliseconds; also by a daemon before this one.
    #[must_use]
    pub fn saved_ms(&self) -> Option<u64> {
        let entry = self.profiles.entry(&self.qualified_name).ok()?;
        let record = entry.record.lock();
        let newest = record.newest().filter(|version| version.session.as_ref() == self.session.get());
        newest.filter(|version| version.session.is_some()).map(|version| version.saved_ms)
    }

    /// What was saved last; empty of a profile that has no version yet.
    /// Errors: those of the files.
    pub async fn newest(&self) -> Result<StorageState, Error> {
        match self.profiles.state(&self.qualified_name.owner, &self.qualified_name.name, None).await {
            Err(Error::UnknownProfile { .. }) => Ok(StorageState::default()),
            state => state,
        }
    }

    /// Saves what a browser keeps, in place of what the same session saved before. Returns whether anything was new.
    /// Errors: `TooLarge`, `Deleted`, `ProfileLimit`, `DiskNearlyFull`, `StoreBusy`: the version before is still the newest.
    pub async fn save(&self, state: &StorageState) -> Result<bool, Error> {
        let (profiles, qualified_name, session) = self.parts();
        let text = profiles.text(state)?;
        carry_out(async move { profiles.save(&qualified_name, session.as_ref(), text).await }).await
    }

    /// Saves the folder of a browser that has ended, packed, in the same way. It is checked while it arrives.
    /// Errors: those of [`Writer::save`], and `Folder`, `FolderTooLarge`.
    pub async fn save_folder(
        &self,
        engine: Option<Engine>,
        from: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<bool, Error> {
        let (profiles, qualified_name, session) = self.parts();
        carry_out(async move { profiles.save_folder(&qualified_name, session.as_ref(), engine, from).await }).await
    }

    fn parts(&self) -> (Profiles, QualifiedName, Option<SessionId>) {
        (self.profiles.clone(), self.qualified_name.clone(), self.session.get().cloned())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.holders.lock().remove(&self.qualified_name);
    }
}

/// Who has the right, in words.
pub(crate) fn named(holder: Option<&SessionId>) -> String {
    holder.map_or_else(|| "a session that is being made".to_owned(), |session| format!("the session `{session}`"))
}
