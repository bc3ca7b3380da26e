//! Versions that are a browser's whole folder: packed, checked while they arrive, and never in memory as a whole.

use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncRead;
use tokio_util::io::SyncIoBridge;
use warmpool_protocol::folder::{FolderEngine, FolderError, FolderManifest, read_folder};

use crate::files::Files;
use crate::record::{Content, FolderVersion, Version, check_name};
use crate::table::Entry;
use crate::writer::{QualifiedName, Writer};
use crate::{Error, ProfileKind, Profiles};
use warmpool_api::profile::ProfileView;
use warmpool_core::blocking::blocking;
use warmpool_core::browser::Engine;
use warmpool_core::cipher::{Cipher, SealedFile, SealingWriter};
use warmpool_core::error::ServiceError;
use warmpool_core::ids::{ProfileId, SessionId};
use warmpool_keys::KeyId;
use warmpool_store::{UnfinishedFile, write_whole_with};

/// How much longer an archive may be than the files in it.
const SLACK: u64 = 1 << 20;

/// What a version holds, and where it came from.
pub(crate) struct StoredFolder {
    pub(crate) manifest: FolderManifest,
    /// Bytes of the archive.
    pub(crate) size: u64,
    pub(crate) hash: String,
}

/// A folder to begin with. It stays readable when a later save takes its place.
#[derive(Clone)]
pub struct OpenedFolder {
    file: SealedFile,
    manifest: FolderManifest,
}

impl std::fmt::Debug for OpenedFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenedFolder").field("manifest", &self.manifest).finish_non_exhaustive()
    }
}

impl OpenedFolder {
    /// Whose it is.
    #[must_use]
    pub const fn manifest(&self) -> &FolderManifest {
        &self.manifest
    }

    /// The archive, from its beginning. A file that is damaged ends with an error.
    pub fn stream(&self) -> impl Stream<Item = io::Result<Bytes>> + Send + Unpin + 'static {
        self.file.stream()
    }
}

/// Keeps what is read, encrypted, and its hash.
struct Keeping<'a, R> {
    from: R,
    to: SealingWriter<&'a mut UnfinishedFile>,
    hash: Sha256,
    size: u64,
    limit: u64,
}

impl<R: Read> Read for Keeping<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.size += count as u64;
        if self.size > self.limit.saturating_add(SLACK) {
            return Err(io::Error::other(FolderError::TooLarge { limit: self.limit }));
        }
        self.hash.update(&buffer[..count]);
        self.to.write_all(&buffer[..count])?;
        Ok(count)
    }
}

impl Files {
    /// Checks a packed folder while it arrives, and writes it so that it is whole or not there.
    /// Errors: `Folder` when it is not what it should be, `FolderTooLarge`; those of the disk.
    pub(crate) async fn put_folder(
        &self,
        cipher: &Cipher,
        profile: &ProfileId,
        name: &str,
        wanted: Option<FolderEngine>,
        from: impl AsyncRead + Send + Unpin + 'static,
        limit: u64,
    ) -> Result<StoredFolder, Error> {
        let (folder, min_free, cipher) = (self.folder(profile), self.min_free(), cipher.clone());
        let (name, from) = (name.to_owned(), SyncIoBridge::new(from));
        let stored = blocking(move || {
            fs::create_dir_all(&folder)?;
            let mut refused = None;
            let written = write_whole_with(&folder.join(name), min_free, |file| {
                let to = cipher.seal_to(file)?;
                let mut keeping = Keeping { from, to, hash: Sha256::new(), size: 0, limit };
                let read = read_folder(wanted, limit, &mut keeping, |_, content| {
                    io::copy(content, &mut io::sink()).map_err(FolderError::Archive)?;
                    Ok::<_, FolderError>(())
                });
                let Keeping { to, hash, size, .. } = keeping;
                match read {
                    Ok(manifest) => {
                        to.finish()?;
                        Ok(StoredFolder { manifest, size, hash: hex::encode(hash.finalize()) })
                    }
                    Err(error) => {
                        refused = Some(error);
                        Err(io::ErrorKind::InvalidData.into())
                    }
                }
            });
            match (written, refused) {
                (_, Some(refused)) => Ok(Err(refused)),
                (written, None) => written.map(Ok),
            }
        });
        stored.await?.map_err(|error| refused(error, limit))
    }

    /// Opens a version that is a folder.
    /// Errors: `Internal` when it is not there.
    pub(crate) async fn open_folder(
        &self,
        cipher: &Cipher,
        profile: &ProfileId,
        version: &Version,
        folder: &FolderVersion,
    ) -> Result<OpenedFolder, ServiceError> {
        let path = self.folder(profile).join(&version.file);
        let cipher = cipher.clone();
        let file = blocking(move || SealedFile::open(&path, cipher)).await?;
        let manifest = FolderManifest { engine: folder.engine.into(), browser: folder.browser.clone() };
        Ok(OpenedFolder { file, manifest })
    }

    /// What a file without a record is, if it is a whole folder.
    pub(crate) async fn identify(&self, cipher: &Cipher, profile: &ProfileId, name: &str) -> Option<StoredFolder> {
        let (path, cipher) = (self.folder(profile).join(name), cipher.clone());
        let read = blocking(move || {
            let mut reader = cipher.open_from(File::open(path)?)?;
            let mut hashing = Hashing { from: &mut reader, hash: Sha256::new(), size: 0 };
            let skip = |_: &str, content: &mut dyn Read| {
                io::copy(content, &mut io::sink()).map(drop).map_err(FolderError::Archive)
            };
            let manifest = read_folder(None, u64::MAX / 2, &mut hashing, skip).map_err(io::Error::other)?;
            let (hash, size) = (hex::encode(hashing.hash.finalize()), hashing.size);
            Ok(StoredFolder { manifest, size, hash })
        });
        read.await.ok()
    }

    /// Makes a version that has the same file.
    /// Errors: `Internal`.
    pub(crate) async fn link(&self, profile: &ProfileId, from: &str, to: &str) -> Result<(), ServiceError> {
        let folder = self.folder(profile);
        let (from, to) = (folder.join(from), folder.join(to));
        blocking(move || fs::hard_link(from, to).and_then(|()| File::open(folder)?.sync_all())).await
    }
}

struct Hashing<R> {
    from: R,
    hash: Sha256,
    size: u64,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.size += count as u64;
        Ok(count)
    }
}

fn refused(error: FolderError, limit: u64) -> Error {
    let is_full = |error: &io::Error| error.kind() == io::ErrorKind::StorageFull;
    match error {
        FolderError::TooLarge { .. } => Error::FolderTooLarge { limit },
        FolderError::Archive(error) if error.kind() == io::ErrorKind::TimedOut => Error::FolderTimeout,
        FolderError::Archive(error) if is_full(&error) => Error::Service(ServiceError::DiskNearlyFull),
        FolderError::Archive(error) if error.get_ref().is_some_and(|inner| inner.is::<FolderError>()) => {
            Error::FolderTooLarge { limit }
        }
        error => Error::Folder { reason: error.to_string() },
    }
}

impl Profiles {
    /// Saves a packed folder as the newest version, while it arrives.
    pub(crate) async fn save_folder(
        &self,
        qualified_name: &QualifiedName,
        session: Option<&SessionId>,
        wanted: Option<Engine>,
        from: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<bool, Error> {
        let entry = self.patiently(session, || self.make(qualified_name, ProfileKind::Folder)).await?;
        let limit = self.0.limits.max_folder.bytes();
        // Outside of the lock: it may take its client a while.
        let (id, kind, engine) = {
            let record = entry.record.lock();
            (record.id.clone(), record.kind, record.folder_engine())
        };
        if kind != ProfileKind::Folder {
            return Err(Error::WrongKind { name: qualified_name.name.clone(), kind });
        }
        let wanted = wanted.or(engine).map(FolderEngine::from);
        let file = ProfileId::random().to_string();
        let stored = self.0.files.put_folder(&entry.cipher, &id, &file, wanted, from, limit).await?;
        let content = Content::from(stored);
        let add = || self.add_version(qualified_name, &entry, session, file.clone(), content.clone());
        let saved = self.patiently(session, add).await;
        if !matches!(saved, Ok(true)) {
            self.0.files.remove(&id, &file).await;
        }
        saved
    }

    /// The packed folder of a version, or of the newest one.
    /// Errors: `UnknownProfile`, `UnknownVersion`; `Field` where it is a state.
    pub async fn folder(&self, owner: &KeyId, name: &str, version: Option<u64>) -> Result<OpenedFolder, Error> {
        let entry = self.entry(&QualifiedName::new(owner, name))?;
        let opened = self.open_newest(&entry, version).await?;
        opened.ok_or_else(|| Error::UnknownVersion { name: name.to_owned(), version: version.unwrap_or(1) })
    }

    pub(crate) async fn open_newest(&self, entry: &Entry, number: Option<u64>) -> Result<Option<OpenedFolder>, Error> {
        // No save may remove the file before it is open.
        let _turn = entry.change.lock().await;
        let (id, version) = Self::find(entry, number, ProfileKind::Folder)?;
        let Some((version, folder)) = version.and_then(|version| Some((version.clone(), version.folder?))) else {
            return Ok(None);
        };
        Ok(Some(self.0.files.open_folder(&entry.cipher, &id, &version, &folder).await?))
    }

    /// Adds a version with this packed folder, which is checked while it arrives. A profile that is not there is made, and is
    /// not left behind when the folder is refused.
    /// Errors: those of [`Profiles::put`], and `Folder`, `FolderTooLarge`, `ImportTimeout`.
    pub async fn put_folder(
        &self,
        owner: &KeyId,
        name: &str,
        from: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<ProfileView, Error> {
        check_name("name", name)?;
        let writer = Writer::take(self, QualifiedName::new(owner, name))?;
        let profiles = self.clone();
        // On its own, so that a client who leaves ends the body and not the tidying up.
        let imported = tokio::spawn(async move { profiles.import_folder(&writer, from).await });
        imported.await.map_err(ServiceError::internal)?
    }

    async fn import_folder(
        &self,
        writer: &Writer,
        from: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<ProfileView, Error> {
        let limits = &self.0.limits;
        let import = self.0.imports.begin(&writer.qualified_name.owner, limits).await?;
        let before = self.entry(&writer.qualified_name);
        if let Ok(entry) = &before {
            Self::find(entry, None, ProfileKind::Folder)?;
        }
        let saved = writer.save_folder(None, import.timed(from)).await;
        let saved = if before.is_ok() { saved } else { self.removed_unless(saved, writer).await };
        saved.map_err(|refused| match refused {
            Error::FolderTimeout => Error::ImportTimeout { after: limits.import_timeout },
            refused => refused,
        })?;
        Ok(self.view(&*self.entry(&writer.qualified_name)?))
    }

    pub(crate) async fn roll_back_folder(
        &self,
        entry: &Arc<Entry>,
        owner: &KeyId,
        name: &str,
        version: u64,
    ) -> Result<ProfileView, Error> {
        let qualified_name = QualifiedName::new(owner, name);
        let _writer = Writer::take(self, qualified_name.clone())?;
        let (id, found) = Self::find(entry, Some(version), ProfileKind::Folder)?;
        let Some(Version { file: old, size, hash, folder, .. }) = found else { return Ok(self.view(entry)) };
        let file = ProfileId::random().to_string();
        self.0.files.link(&id, &old, &file).await?;
        let added = self.add_version(&qualified_name, entry, None, file.clone(), Content { size, hash, folder }).await;
        if !matches!(added, Ok(true)) {
            self.0.files.remove(&id, &file).await;
        }
        added?;
        Ok(self.view(entry))
    }
}
