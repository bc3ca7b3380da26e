//! Saves states as versions of profiles.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep};
use warmpool_api::profile::ProfileKind;
use warmpool_protocol::StorageState;

use crate::record::{Content, Record, Version};
use crate::table::{Entry, Presence};
use crate::writer::QualifiedName;
use crate::{Error, Profiles};
use warmpool_core::cipher::Cipher;
use warmpool_core::clock::unix_ms;
use warmpool_core::error::{ServiceError, ServiceFault as _};
use warmpool_core::ids::{ProfileId, SessionId, random_bytes};
use warmpool_store::{Batch, Durability, Table};

/// Time between two tries to write what a session saves.
const RETRY: Duration = Duration::from_millis(500);

impl Profiles {
    /// Does what a store that answers late may refuse for now. Where a session saves, it is tried again for `profiles.save_timeout`:
    /// nobody can read an ended browser again. Anybody else hears of it, and can come again.
    pub(crate) async fn patiently<T, F>(
        &self,
        session: Option<&SessionId>,
        mut work: impl FnMut() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let until = Instant::now() + self.0.limits.save_timeout;
        loop {
            match work().await {
                Err(Error::Service(ServiceError::StoreBusy)) if session.is_some() && Instant::now() < until => {
                    sleep(RETRY).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Makes the record and the key of a profile that is not there, and is to keep this. The caller carries it out.
    pub(crate) async fn make(&self, qualified_name: &QualifiedName, kind: ProfileKind) -> Result<Arc<Entry>, Error> {
        let _turn = self.0.making.lock().await;
        if let Ok(entry) = self.entry(qualified_name) {
            return Ok(entry);
        }
        self.check_room(qualified_name)?;
        let own = random_bytes::<32>();
        let now = unix_ms();
        let record = Record {
            id: ProfileId::random(),
            owner: qualified_name.owner.clone(),
            name: qualified_name.name.clone(),
            kind,
            created_ms: now,
            used_ms: now,
            versions: Vec::new(),
            next: 1,
        };
        let mut batch = Batch::new();
        batch.put(Table::ProfileKeys, record.id.as_str(), self.0.instance.seal(&own));
        batch.put_json(Table::Profiles, record.store_key(), &record)?;
        self.0.store.commit(batch, Durability::Power).await?;
        let change = tokio::sync::Mutex::default();
        let entry = Arc::new(Entry { cipher: Cipher::new(&own), record: Mutex::new(record), change });
        self.0.entries.lock().insert(qualified_name.clone(), Arc::clone(&entry));
        Ok(entry)
    }

    /// A state as a version has it.
    /// Errors: `TooLarge`.
    pub(crate) fn text(&self, state: &StorageState) -> Result<Vec<u8>, Error> {
        let text = state.lasting_json().map_err(Error::internal)?;
        let (size, limit) = (text.len() as u64, self.0.limits.max_size.bytes());
        if size > limit { Err(Error::TooLarge { size, limit }) } else { Ok(text) }
    }

    /// Saves the text of a state as the newest version. Returns whether it differs from the one before. The caller carries it out.
    pub(crate) async fn save(
        &self,
        qualified_name: &QualifiedName,
        session: Option<&SessionId>,
        text: Vec<u8>,
    ) -> Result<bool, Error> {
        let size = text.len() as u64;
        let hash = hash(&text);
        let entry = self.patiently(session, || self.make(qualified_name, ProfileKind::State)).await?;
        let (id, kind) = {
            let record = entry.record.lock();
            if record.newest().is_some_and(|version| version.hash == hash) {
                return Ok(false);
            }
            (record.id.clone(), record.kind)
        };
        if kind != ProfileKind::State {
            return Err(Error::WrongKind { name: qualified_name.name.clone(), kind });
        }
        let file = ProfileId::random().to_string();
        self.0.files.put(&entry.cipher, &id, &file, text).await?;
        let content = Content { size, hash, folder: None };
        let add = || self.add_version(qualified_name, &entry, session, file.clone(), content.clone());
        let saved = self.patiently(session, add).await;
        if !matches!(saved, Ok(true)) {
            self.0.files.remove(&id, &file).await;
        }
        saved
    }

    /// Makes a version of a file that is there, in place of the one that the same session has saved before. False where nothing is
    /// new; then, and with an error, the file is left to the caller.
    pub(crate) async fn add_version(
        &self,
        qualified_name: &QualifiedName,
        entry: &Entry,
        session: Option<&SessionId>,
        file: String,
        content: Content,
    ) -> Result<bool, Error> {
        let Content { size, hash, folder } = content;
        let presence = entry.change.lock().await;
        if *presence == Presence::Deleted {
            return Err(Error::Deleted { name: qualified_name.name.clone() });
        }
        let mut record = entry.record.lock().clone();
        if record.newest().is_some_and(|version| version.hash == hash) {
            return Ok(false);
        }
        let mut left = Vec::new();
        let is_its_own = |version: &Version| session.is_some() && version.session.as_ref() == session;
        let number = match record.versions.pop_if(|version| is_its_own(version)) {
            Some(version) => {
                left.push(version.file);
                version.number
            }
            None => record.next,
        };
        record.next = record.next.max(number + 1);
        let saved_ms = unix_ms();
        record.versions.push(Version { number, saved_ms, session: session.cloned(), size, file, hash, folder });
        let spare = record.versions.len().saturating_sub(self.0.limits.keep_versions);
        left.extend(record.versions.drain(..spare).map(|version| version.file));
        record.used_ms = saved_ms;
        let _room = self.make_room(&mut record, &mut left)?;
        let mut batch = Batch::new();
        batch.put_json(Table::Profiles, record.store_key(), &record)?;
        self.0.store.commit(batch, Durability::Power).await?;
        let id = record.id.clone();
        *entry.record.lock() = record;
        for file in left {
            self.0.files.remove(&id, &file).await;
        }
        Ok(true)
    }

    /// Where a backup was restored, a record may be older than the files: what was saved since then is a version as well. A file that
    /// is older than the newest version and in no record was replaced by it.
    pub(crate) async fn match_files(&self, entry: &Entry) -> Result<(), Error> {
        let mut record = entry.record.lock().clone();
        let files = self.0.files.list(&record.id).await?;
        let before = record.clone();
        let newest_ms = record.newest().map_or(0, |version| version.saved_ms).saturating_sub(CLOCK_STEP_MS);
        record.versions.retain(|version| files.iter().any(|file| file.name == version.file));
        for file in files {
            let is_known = record.versions.iter().any(|version| version.file == file.name);
            let content = match record.kind {
                _ if is_known || file.modified_ms < newest_ms => None,
                ProfileKind::State => {
                    let text = self.0.files.get(&entry.cipher, &record.id, &file.name).await.ok();
                    text.map(|text| Content { size: text.len() as u64, hash: hash(&text), folder: None })
                }
                ProfileKind::Folder => {
                    self.0.files.identify(&entry.cipher, &record.id, &file.name).await.map(Content::from)
                }
            };
            if let Some(Content { size, hash, folder }) = content {
                let (number, saved_ms) = (record.next, file.modified_ms);
                record.versions.push(Version { number, saved_ms, session: None, size, file: file.name, hash, folder });
                record.next += 1;
            }
        }
        if record == before {
            return Ok(());
        }
        tracing::warn!(profile = %record.name, key = %record.owner, "a profile was put together from its files");
        let mut batch = Batch::new();
        // The files are there: what names them must not wait for room, and is known even where the store does not take it now.
        batch.put_json(Table::Profiles, record.store_key(), &record)?.essential();
        let written = self.0.store.commit(batch, Durability::Power).await;
        *entry.record.lock() = record;
        Ok(written?)
    }
}

/// How much a file's time may lag behind the clock, in milliseconds: the kernel's own steps.
const CLOCK_STEP_MS: u64 = 20;

/// SHA-256 of a state, in hexadecimal.
fn hash(text: &[u8]) -> String {
    hex::encode(Sha256::digest(text))
}
