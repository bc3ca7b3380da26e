//! The archives: each extension has a folder, and in it one file, encrypted with the extension's key.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use warmpool_core::blocking::blocking;
use warmpool_core::cipher::{Cipher, SealedFile};
use warmpool_core::error::ServiceError;
use warmpool_core::ids::ExtensionId;
use warmpool_store::{Folder, Kept, OwnerFolders, Unowned, is_whole, write_whole_with};

/// The folder of all extensions, within the data directory.
pub const FOLDER: Folder = Folder { name: "extensions", has: is_whole };
/// The name of an archive in its extension's folder.
const ARCHIVE: &str = "archive";

/// All extensions' files.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    folders: OwnerFolders,
    min_free: u64,
}

impl Files {
    pub(crate) fn below(data_dir: &Path, min_free: u64) -> Self {
        Self { folders: OwnerFolders::below(data_dir, &FOLDER), min_free }
    }

    fn folder(&self, extension: &ExtensionId) -> PathBuf {
        self.folders.of(extension.as_str())
    }

    /// Writes an archive so that it is whole or not there.
    /// Errors: `DiskNearlyFull`; `Internal`.
    pub(crate) async fn put(&self, cipher: &Cipher, id: &ExtensionId, archive: Bytes) -> Result<(), ServiceError> {
        let (folder, cipher) = (self.folder(id), cipher.clone());
        let min_free = self.min_free.saturating_add(archive.len() as u64);
        blocking(move || {
            fs::create_dir_all(&folder)?;
            write_whole_with(&folder.join(ARCHIVE), min_free, |file| {
                let mut sealing = cipher.seal_to(file)?;
                sealing.write_all(&archive)?;
                sealing.finish().map(drop)
            })
        })
        .await
    }

    /// Opens an archive, which stays readable when it is deleted.
    /// Errors: `Internal` when it is not there.
    pub(crate) async fn open(&self, cipher: &Cipher, id: &ExtensionId) -> Result<SealedFile, ServiceError> {
        let (path, cipher) = (self.folder(id).join(ARCHIVE), cipher.clone());
        blocking(move || SealedFile::open(&path, cipher)).await
    }

    /// Whether an extension's archive is there.
    pub(crate) fn has(&self, id: &ExtensionId) -> bool {
        self.folder(id).join(ARCHIVE).is_file()
    }

    /// Removes an extension's folder.
    /// Errors: `Internal`.
    pub(crate) async fn remove(&self, id: &ExtensionId) -> Result<(), ServiceError> {
        self.folders.remove(id.as_str()).await
    }

    /// Removes all but the archives of these extensions, and what is set aside.
    pub(crate) async fn keep_only(&self, unowned: Unowned, kept: Vec<ExtensionId>) {
        let archive = move |owner: &str| match kept.iter().any(|id| id.as_str() == owner) {
            true => Kept::Files(vec![ARCHIVE.to_owned()]),
            false => Kept::Nothing,
        };
        self.folders.keep_only(ExtensionId::PREFIX, unowned, archive).await;
    }
}
