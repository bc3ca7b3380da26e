//! All profiles: made, listed, read, rolled back, deleted.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use warmpool_protocol::StorageState;

use crate::files::Files;
use crate::imports::Imports;
use crate::left_out::LeftOut;
use crate::record::{Record, Version, check_name};
use crate::room::Reservations;
use crate::writer::{Holders, QualifiedName, Writer};
use crate::{Error, contents};
use warmpool_api::profile::{ProfileDetail, ProfileKind, ProfileView};
use warmpool_config::ProfileSettings;
use warmpool_core::cipher::Cipher;
use warmpool_core::clock::millis;
use warmpool_core::error::{FieldFault as _, ServiceFault as _};
use warmpool_core::ids::ProfileId;
use warmpool_keys::KeyId;
use warmpool_store::{Batch, Durability, Store, Table, carry_out};

/// The most characters of an unknown name that its refusal repeats: a body may have sent it.
const MAX_SHOWN: usize = 100;

/// All profiles. Clones share them.
#[derive(Clone)]
pub struct Profiles(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) limits: ProfileSettings,
    pub(crate) store: Store,
    pub(crate) files: Files,
    /// Encrypts the profiles' own keys.
    pub(crate) instance: Cipher,
    pub(crate) entries: Mutex<HashMap<QualifiedName, Arc<Entry>>>,
    pub(crate) left_out: LeftOut,
    holders: Holders,
    pub(crate) promised: Reservations,
    pub(crate) imports: Imports,
    /// Held while a profile is made, so that no key has more than it may.
    pub(crate) making: tokio::sync::Mutex<()>,
}

/// A profile that is there.
pub(crate) struct Entry {
    pub(crate) cipher: Cipher,
    pub(crate) record: Mutex<Record>,
    /// Held by each change, so that one comes after another.
    pub(crate) change: tokio::sync::Mutex<Presence>,
}

/// Whether a profile is there still: it may be deleted while a change of it waits.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    #[default]
    There,
    Deleted,
}

impl Profiles {
    /// Reads all profiles, and puts in order what an earlier process has left.
    /// Errors: when the store or the files cannot be read.
    pub async fn open(
        limits: ProfileSettings,
        data_dir: &Path,
        min_free: u64,
        instance: [u8; 32],
        store: Store,
    ) -> Result<Self, Error> {
        let profiles = Self::unread(limits, data_dir, min_free, instance, store);
        profiles.load().await?;
        Ok(profiles)
    }

    /// Without what is on the disk.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn none(limits: ProfileSettings, data_dir: &Path, store: Store) -> Self {
        Self::unread(limits, data_dir, 0, [0; 32], store)
    }

    fn unread(limits: ProfileSettings, data_dir: &Path, min_free: u64, instance: [u8; 32], store: Store) -> Self {
        let files = Files::below(data_dir, min_free);
        let shared = Shared {
            imports: Imports::new(&limits),
            limits,
            store,
            files,
            instance: Cipher::new(&instance),
            entries: Mutex::default(),
            left_out: LeftOut::default(),
            holders: Holders::default(),
            promised: Reservations::default(),
            making: tokio::sync::Mutex::default(),
        };
        Self(Arc::new(shared))
    }

    pub(crate) fn holders(&self) -> &Holders {
        &self.0.holders
    }

    fn writer_of(&self, qualified_name: &QualifiedName) -> Option<String> {
        let holders = self.0.holders.lock();
        holders
            .get(qualified_name)
            .map(|session| session.as_ref().map_or_else(|| "starting".to_owned(), ToString::to_string))
    }

    pub(crate) fn entry(&self, qualified_name: &QualifiedName) -> Result<Arc<Entry>, Error> {
        let entry = self.0.entries.lock().get(qualified_name).cloned();
        if entry.is_none() {
            self.check_readable(qualified_name)?;
        }
        entry.ok_or_else(|| Error::UnknownProfile { name: qualified_name.name.chars().take(MAX_SHOWN).collect() })
    }

    pub(crate) fn view(&self, entry: &Entry) -> ProfileView {
        let record = entry.record.lock().clone();
        let writer = self.writer_of(&QualifiedName::new(&record.owner, &record.name));
        record.view(writer)
    }

    /// The profiles of those keys that `owns` says, by their names.
    pub fn list(&self, owns: impl Fn(&KeyId) -> bool) -> Vec<ProfileView> {
        let entries: Vec<Arc<Entry>> = {
            let all = self.0.entries.lock();
            all.iter().filter(|(profile, _)| owns(&profile.owner)).map(|(_, entry)| Arc::clone(entry)).collect()
        };
        let mut views: Vec<ProfileView> = entries.iter().map(|entry| self.view(entry)).collect();
        views.sort_by(|a, b| (&a.name, &a.key_id).cmp(&(&b.name, &b.key_id)));
        views
    }

    /// A profile of a key.
    /// Errors: `UnknownProfile`, `Unreadable`.
    pub fn get(&self, owner: &KeyId, name: &str) -> Result<ProfileView, Error> {
        let entry = self.entry(&QualifiedName::new(owner, name))?;
        Ok(self.view(&entry))
    }

    /// A profile, and what its newest version holds.
    /// Errors: `UnknownProfile`, `Unreadable`.
    pub async fn detail(&self, owner: &KeyId, name: &str) -> Result<ProfileDetail, Error> {
        let entry = self.entry(&QualifiedName::new(owner, name))?;
        let kind = entry.record.lock().kind;
        let state = match kind {
            ProfileKind::State => self.read(&entry, None).await?.unwrap_or_default(),
            // No other program reads it.
            ProfileKind::Folder => StorageState::default(),
        };
        let (cookies, origins) = (contents::cookies(&state), contents::origins(&state));
        Ok(ProfileDetail { profile: self.view(&entry), cookies, origins })
    }

    /// The state of a version, or of the newest one; empty where there is none yet.
    /// Errors: `UnknownProfile`, `UnknownVersion`.
    pub async fn state(&self, owner: &KeyId, name: &str, version: Option<u64>) -> Result<StorageState, Error> {
        let entry = self.entry(&QualifiedName::new(owner, name))?;
        Ok(self.read(&entry, version).await?.unwrap_or_default())
    }

    /// A version of a profile that keeps this, or the newest one.
    pub(crate) fn find(
        entry: &Entry,
        number: Option<u64>,
        kind: ProfileKind,
    ) -> Result<(ProfileId, Option<Version>), Error> {
        let record = entry.record.lock();
        if record.kind != kind {
            return Err(Error::WrongKind { name: record.name.clone(), kind: record.kind });
        }
        let version = match number {
            None => record.newest().cloned(),
            Some(number) => {
                let found = record.versions.iter().find(|version| version.number == number).cloned();
                let unknown = || Error::UnknownVersion { name: record.name.clone(), version: number };
                Some(found.ok_or_else(unknown)?)
            }
        };
        Ok((record.id.clone(), version))
    }

    pub(crate) async fn read(&self, entry: &Entry, number: Option<u64>) -> Result<Option<StorageState>, Error> {
        // No save may replace the file meanwhile.
        let _turn = entry.change.lock().await;
        let (id, version) = Self::find(entry, number, ProfileKind::State)?;
        let Some(version) = version else { return Ok(None) };
        let text = self.0.files.get(&entry.cipher, &id, &version.file).await?;
        let state = serde_json::from_slice(&text);
        state.map(Some).map_err(|error| Error::internal(format!("profile {id}: {error}")))
    }

    /// Makes a profile, with a state or empty.
    /// Errors: `Field`, `ProfileExists`, `ProfileLimit`, `TooLarge`, and those of the store.
    pub async fn create(
        &self,
        owner: &KeyId,
        name: &str,
        kind: ProfileKind,
        state: Option<&StorageState>,
    ) -> Result<ProfileView, Error> {
        check_name("name", name)?;
        if kind == ProfileKind::Folder && state.is_some() {
            return Err(Error::invalid("state", "must be left out where `kind` is `folder`"));
        }
        let qualified_name = QualifiedName::new(owner, name);
        let exists = || {
            self.entry(&qualified_name)
                .map_or(Ok(()), |_| Err(Error::ProfileExists { name: qualified_name.name.clone() }))
        };
        exists()?;
        let writer = Writer::take(self, qualified_name.clone())?;
        // Another call may have made it meanwhile; from here on none can.
        exists()?;
        let (profiles, text) = (self.clone(), state.map(|state| self.text(state)).transpose()?);
        carry_out(async move {
            let entry = profiles.make(&writer.qualified_name, kind).await?;
            if let Some(text) = text {
                let saved = profiles.save(&writer.qualified_name, None, text).await;
                profiles.removed_unless(saved, &writer).await?;
            }
            drop(writer);
            Ok(profiles.view(&entry))
        })
        .await
    }

    /// Adds a version with this state. A profile that is not there is made.
    /// Errors: `Field`, `ProfileInUse`, `ProfileLimit`, `TooLarge`, and those of the store.
    pub async fn put(&self, owner: &KeyId, name: &str, state: &StorageState) -> Result<ProfileView, Error> {
        check_name("name", name)?;
        let writer = Writer::take(self, QualifiedName::new(owner, name))?;
        let (profiles, text) = (self.clone(), self.text(state)?);
        carry_out(async move {
            let was_there = profiles.entry(&writer.qualified_name).is_ok();
            let saved = profiles.save(&writer.qualified_name, None, text).await;
            if was_there { saved } else { profiles.removed_unless(saved, &writer).await }?;
            let entry = profiles.entry(&writer.qualified_name)?;
            drop(writer);
            Ok(profiles.view(&entry))
        })
        .await
    }

    /// Adds a version that is as an earlier one was.
    /// Errors: `UnknownProfile`, `UnknownVersion`, `ProfileInUse`, and those of the store.
    pub async fn roll_back(&self, owner: &KeyId, name: &str, version: u64) -> Result<ProfileView, Error> {
        let entry = self.entry(&QualifiedName::new(owner, name))?;
        let kind = entry.record.lock().kind;
        if kind == ProfileKind::Folder {
            let (profiles, owner, name) = (self.clone(), owner.clone(), name.to_owned());
            return carry_out(async move { profiles.roll_back_folder(&entry, &owner, &name, version).await }).await;
        }
        let state = self.state(owner, name, Some(version)).await?;
        self.put(owner, name, &state).await
    }

    /// Deletes a profile for good: no backup brings it back.
    /// Errors: `UnknownProfile`, `ProfileInUse`, and those of the store.
    pub async fn delete(&self, owner: &KeyId, name: &str) -> Result<(), Error> {
        let qualified_name = QualifiedName::new(owner, name);
        match self.entry(&qualified_name) {
            Err(Error::Unreadable { .. }) => return self.delete_left_out(qualified_name).await,
            entry => entry?,
        };
        let (profiles, writer) = (self.clone(), Writer::take(self, qualified_name)?);
        carry_out(async move { profiles.remove(&writer).await }).await
    }

    /// Deletes the profile that nobody else writes meanwhile. The caller carries it out.
    pub(crate) async fn remove(&self, Writer { qualified_name, .. }: &Writer) -> Result<(), Error> {
        let entry = self.entry(qualified_name)?;
        let mut presence = entry.change.lock().await;
        if *presence == Presence::Deleted {
            return Err(Error::UnknownProfile { name: qualified_name.name.clone() });
        }
        let (id, key) = {
            let record = entry.record.lock();
            (record.id.clone(), record.store_key())
        };
        let mut batch = Batch::new();
        batch.delete(Table::Profiles, key).delete(Table::ProfileKeys, id.as_str());
        batch.essential().irrevocable();
        self.0.store.commit(batch, Durability::Power).await?;
        *presence = Presence::Deleted;
        self.0.entries.lock().remove(qualified_name);
        // What is left of it cannot be read any more, and the next start would remove it.
        if let Err(error) = self.0.files.remove_all(&id).await {
            tracing::warn!(%error, profile = qualified_name.name, "the files of a deleted profile were not removed");
        }
        Ok(())
    }

    /// Removes a profile that was made for a save, unless that was done.
    pub(crate) async fn removed_unless<T>(&self, saved: Result<T, Error>, writer: &Writer) -> Result<T, Error> {
        if saved.is_err() {
            match self.remove(writer).await {
                Ok(()) | Err(Error::UnknownProfile { .. } | Error::Unreadable { .. }) => {}
                Err(error) => {
                    tracing::warn!(%error, profile = writer.qualified_name.name, "an empty profile was not removed")
                }
            }
        }
        saved
    }

    /// Checks that a key may have this profile as well. Those that sessions will make count, since each was promised to one.
    /// Errors: `ProfileLimit`, `Unreadable`.
    pub(crate) fn check_room(&self, qualified_name: &QualifiedName) -> Result<(), Error> {
        self.check_readable(qualified_name)?;
        let limit = self.0.limits.max_per_key;
        let is_another = |other: &&QualifiedName| other.owner == qualified_name.owner && *other != qualified_name;
        let promised: Vec<QualifiedName> = self.holders().lock().keys().filter(is_another).cloned().collect();
        let entries = self.0.entries.lock();
        let promised = promised.iter().filter(|qualified_name| !entries.contains_key(*qualified_name)).count();
        let count = entries.keys().filter(is_another).count() + promised;
        if count >= limit { Err(Error::ProfileLimit { limit }) } else { Ok(()) }
    }

    /// Deletes the profiles that nobody has used for longer than they are kept; `now_ms` are Unix milliseconds.
    pub async fn forget_unused(&self, now_ms: u64) {
        let Some(keep_for) = self.0.limits.keep_for else { return };
        let oldest = now_ms.saturating_sub(millis(keep_for));
        let unused: Vec<QualifiedName> = {
            let all = self.0.entries.lock();
            all.iter()
                .filter(|(_, entry)| entry.record.lock().used_ms < oldest)
                .map(|(qualified_name, _)| qualified_name.clone())
                .collect()
        };
        for QualifiedName { owner, name } in unused {
            match self.delete(&owner, &name).await {
                Ok(()) => {
                    tracing::info!(profile = name, key = %owner, "a profile was not used for profiles.keep_for, and is deleted")
                }
                Err(Error::ProfileInUse { .. } | Error::UnknownProfile { .. }) => {}
                Err(error) => tracing::warn!(profile = name, %error, "an unused profile was not deleted"),
            }
        }
    }
}
