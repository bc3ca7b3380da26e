//! All extensions: uploaded, listed, opened for a session, deleted.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use warmpool_protocol::extension::ExtensionLimits;

use crate::Error;
use crate::files::{FOLDER, Files};
use crate::record::Record;
use crate::upload::Upload;
use warmpool_api::extension::ExtensionView;
use warmpool_config::ExtensionSettings;
use warmpool_core::cipher::{Cipher, SealedFile};
use warmpool_core::error::ServiceError;
use warmpool_core::ids::{ExtensionId, random_bytes};
use warmpool_keys::KeyId;
use warmpool_store::{Batch, Durability, Store, Table, carry_out};

/// The longest id that an error repeats, in characters.
const MAX_SHOWN: usize = 64;
/// So many uploads are checked at once, so that the rest of the daemon keeps its memory and its processors. The others wait.
const CHECKS: usize = 2;

/// All extensions. Clones share them.
#[derive(Clone)]
pub struct Extensions(Arc<Shared>);

struct Shared {
    limits: ExtensionSettings,
    store: Store,
    files: Files,
    /// Encrypts the extensions' own keys.
    instance: Cipher,
    entries: Mutex<HashMap<ExtensionId, Entry>>,
    /// Held while one is made, so that no key has more than it may.
    making: tokio::sync::Mutex<()>,
    /// Places for uploads that are checked.
    checks: Arc<Semaphore>,
}

/// An extension that is there.
#[derive(Clone)]
struct Entry {
    cipher: Cipher,
    record: Arc<Record>,
}

/// An extension that a session is to have.
#[derive(Clone)]
pub struct OpenedExtension {
    /// Which.
    pub id: ExtensionId,
    /// Its archive.
    pub archive: SealedFile,
    /// How much that holds, whatever the settings allow by now.
    pub holds: ExtensionLimits,
}

impl Extensions {
    /// Reads all extensions, and removes files that belong to none.
    /// Errors: when the store or the files cannot be read.
    pub async fn open(
        limits: ExtensionSettings,
        data_dir: &Path,
        min_free: u64,
        instance: [u8; 32],
        store: Store,
    ) -> Result<Self, Error> {
        let extensions = Self::unread(limits, data_dir, min_free, instance, store);
        extensions.load().await?;
        Ok(extensions)
    }

    /// Without what is on the disk.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn none(limits: ExtensionSettings, data_dir: &Path, store: Store) -> Self {
        Self::unread(limits, data_dir, 0, [0; 32], store)
    }

    fn unread(limits: ExtensionSettings, data_dir: &Path, min_free: u64, instance: [u8; 32], store: Store) -> Self {
        Self(Arc::new(Shared {
            limits,
            store,
            files: Files::below(data_dir, min_free),
            instance: Cipher::new(&instance),
            entries: Mutex::default(),
            making: tokio::sync::Mutex::default(),
            checks: Arc::new(Semaphore::new(CHECKS)),
        }))
    }

    #[cfg(test)]
    pub(crate) fn checks(&self) -> &Semaphore {
        &self.0.checks
    }

    async fn load(&self) -> Result<(), Error> {
        let Shared { store, files, instance, .. } = &*self.0;
        let (mut kept, mut are_all_readable) = (Vec::new(), true);
        let mut pages = store.pages(Table::Extensions);
        while let Some(rows) = pages.next().await? {
            for row in &rows {
                let record: Record = match serde_json::from_slice(&row.value) {
                    Ok(record) => record,
                    Err(error) => {
                        let id = String::from_utf8_lossy(&row.key);
                        tracing::error!(extension = %id, %error, "the record of an extension cannot be read; it is left out");
                        are_all_readable = false;
                        continue;
                    }
                };
                // Also of one that is left out: its key may come back.
                kept.push(record.id.clone());
                let key = store.get(Table::ExtensionKeys, record.id.as_str().as_bytes()).await?;
                let own = key.and_then(|key| instance.open(key).ok()?.try_into().ok());
                // A backup that was restored without the file of keys, or without its files, has extensions that nobody can read.
                let Some(own) = own.filter(|_| files.has(&record.id)) else {
                    tracing::warn!(extension = %record.id, key = %record.owner, "the key or the archive of an extension is gone; it is left out");
                    continue;
                };
                let entry = Entry { cipher: Cipher::new(&own), record: Arc::new(record) };
                self.0.entries.lock().insert(entry.record.id.clone(), entry);
            }
        }
        if are_all_readable {
            files.keep_only(store.unowned(&FOLDER, Table::ExtensionKeys).await?, kept).await;
        } else {
            tracing::warn!("no files of extensions are removed while a record cannot be read");
        }
        Ok(())
    }

    /// How much one archive may hold.
    fn archive_limits(&self) -> ExtensionLimits {
        let limits = &self.0.limits;
        ExtensionLimits { unpacked: limits.max_unpacked.bytes(), files: limits.max_files }
    }

    /// Checks an upload and keeps it.
    /// Errors: `Invalid`, `TooLarge`, `CountLimit`, `SizeLimit`, and those of the store.
    pub async fn create(&self, owner: &KeyId, file: Bytes) -> Result<ExtensionView, Error> {
        self.create_as(owner, file, None).await
    }

    /// The same for one that its uploader calls by a name of their own.
    /// Errors: those of [`Extensions::create`], and `AliasTaken`.
    pub async fn create_as(&self, owner: &KeyId, file: Bytes, alias: Option<String>) -> Result<ExtensionView, Error> {
        self.check_alias(owner, alias.as_deref())?;
        self.check_room(owner, file.len() as u64)?;
        let limits = self.archive_limits();
        let place = Arc::clone(&self.0.checks).acquire_owned().await.map_err(ServiceError::internal)?;
        let checked = tokio::task::spawn_blocking(move || {
            // Whoever sent it may be gone; it is checked to its end all the same.
            let _place = place;
            let upload = Upload::read(&file, limits)?;
            let hash = hex::encode(Sha256::digest(&upload.archive));
            Ok::<_, Error>((upload, hash))
        });
        let (upload, hash) = checked.await.map_err(ServiceError::internal)??;
        let (extensions, owner) = (self.clone(), owner.clone());
        carry_out(async move { extensions.keep(owner, &upload, hash, alias).await }).await
    }

    async fn keep(
        &self,
        owner: KeyId,
        upload: &Upload,
        hash: String,
        alias: Option<String>,
    ) -> Result<ExtensionView, Error> {
        let _turn = self.0.making.lock().await;
        self.check_alias(&owner, alias.as_deref())?;
        self.check_room(&owner, upload.archive.len() as u64)?;
        let own = random_bytes::<32>();
        let (record, cipher) = (Record::new(owner, upload, hash, alias), Cipher::new(&own));
        // The file first: one that no record names is removed at the next start.
        self.0.files.put(&cipher, &record.id, upload.archive.clone()).await?;
        let mut batch = Batch::new();
        batch.put(Table::ExtensionKeys, record.id.as_str(), self.0.instance.seal(&own));
        batch.put_json(Table::Extensions, record.id.as_str(), &record)?;
        if let Err(error) = self.0.store.commit(batch, Durability::Power).await {
            self.tidy(&record.id).await;
            return Err(error.into());
        }
        let view = record.view();
        let entry = Entry { cipher, record: Arc::new(record) };
        self.0.entries.lock().insert(entry.record.id.clone(), entry);
        Ok(view)
    }

    fn check_alias(&self, owner: &KeyId, alias: Option<&str>) -> Result<(), Error> {
        let Some(alias) = alias else { return Ok(()) };
        let entries = self.0.entries.lock();
        let mut mine = entries.values().filter(|entry| entry.record.owner == *owner);
        match mine.find(|entry| entry.record.alias.as_deref() == Some(alias)) {
            Some(entry) => Err(Error::AliasTaken { id: entry.record.id.clone() }),
            None => Ok(()),
        }
    }

    fn check_room(&self, owner: &KeyId, more: u64) -> Result<(), Error> {
        let (limit, most) = (self.0.limits.max_per_key, self.0.limits.max_total.bytes());
        let entries = self.0.entries.lock();
        let sizes: Vec<u64> =
            entries.values().filter(|entry| entry.record.owner == *owner).map(|entry| entry.record.size).collect();
        if sizes.len() >= limit {
            return Err(Error::CountLimit { limit });
        }
        let size = sizes.iter().sum::<u64>().saturating_add(more);
        if size > most { Err(Error::SizeLimit { size, limit: most }) } else { Ok(()) }
    }

    /// The extensions of those keys that `owns` says, the newest first.
    pub fn list(&self, owns: impl Fn(&KeyId) -> bool) -> Vec<ExtensionView> {
        let entries = self.0.entries.lock();
        let mut views: Vec<ExtensionView> =
            entries.values().filter(|entry| owns(&entry.record.owner)).map(|entry| entry.record.view()).collect();
        views.sort_by(|a, b| (b.created, &b.extension_id).cmp(&(a.created, &a.extension_id)));
        views
    }

    /// An extension of one of those keys.
    /// Errors: `UnknownExtension`.
    pub fn get(&self, id: &str, owns: impl Fn(&KeyId) -> bool) -> Result<ExtensionView, Error> {
        Ok(self.find(id, owns)?.record.view())
    }

    fn find(&self, id: &str, owns: impl Fn(&KeyId) -> bool) -> Result<Entry, Error> {
        let entry = self.0.entries.lock().get(&ExtensionId::from(id)).cloned();
        let entry = entry.filter(|entry| owns(&entry.record.owner));
        entry.ok_or_else(|| Error::UnknownExtension { id: id.chars().take(MAX_SHOWN).collect() })
    }

    /// The extensions with which a session of this key is to begin, in this order.
    /// Errors: `UnknownExtension`; `Internal` when an archive is not there.
    pub async fn begin(&self, owner: &KeyId, ids: &[ExtensionId]) -> Result<Vec<OpenedExtension>, Error> {
        self.opened(ids, |key| key == owner).await
    }

    /// Those with which workers of a preset wait. Only a session of the key whose they are can ask for such a worker.
    /// Errors: those of [`Extensions::begin`].
    pub async fn of_preset(&self, ids: &[ExtensionId]) -> Result<Vec<OpenedExtension>, Error> {
        self.opened(ids, |_| true).await
    }

    async fn opened(&self, ids: &[ExtensionId], owns: impl Fn(&KeyId) -> bool) -> Result<Vec<OpenedExtension>, Error> {
        let mut opened = Vec::new();
        for id in ids {
            let entry = self.find(id.as_str(), &owns)?;
            let archive = self.0.files.open(&entry.cipher, id).await?;
            let holds = ExtensionLimits { unpacked: entry.record.unpacked, files: entry.record.entries };
            opened.push(OpenedExtension { id: id.clone(), archive, holds });
        }
        Ok(opened)
    }

    /// Deletes an extension of one of those keys for good: no backup brings it back. Browsers that have loaded it keep it.
    /// Errors: `UnknownExtension`, and those of the store.
    pub async fn delete(&self, id: &str, owns: impl Fn(&KeyId) -> bool) -> Result<(), Error> {
        let id = self.find(id, owns)?.record.id.clone();
        let mut batch = Batch::new();
        batch.delete(Table::Extensions, id.as_str()).delete(Table::ExtensionKeys, id.as_str());
        batch.essential().irrevocable();
        let extensions = self.clone();
        carry_out(async move {
            extensions.0.store.commit(batch, Durability::Power).await?;
            extensions.0.entries.lock().remove(&id);
            extensions.tidy(&id).await;
            Ok(())
        })
        .await
    }

    /// Removes the file of an extension that is gone. What is left of it nobody can read, and the next start would remove it.
    async fn tidy(&self, id: &ExtensionId) {
        if let Err(error) = self.0.files.remove(id).await {
            tracing::warn!(%error, extension = %id, "the archive of a deleted extension was not removed");
        }
    }
}
