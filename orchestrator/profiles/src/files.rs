//! The versions of profiles: each profile has a folder, and each version is a file there, encrypted with the profile's key.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use warmpool_core::blocking::blocking;
use warmpool_core::cipher::Cipher;
use warmpool_core::clock::millis;
use warmpool_core::error::ServiceError;
use warmpool_core::ids::ProfileId;
use warmpool_store::{Folder, Kept, OwnerFolders, Unowned, is_whole, write_whole};

/// The folder of all profiles, within the data directory.
pub const FOLDER: Folder = Folder { name: "profiles", has: is_whole };

/// A file that is there.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListedFile {
    /// When it was written, in Unix milliseconds.
    pub(crate) modified_ms: u64,
    pub(crate) name: String,
}

/// All profiles' files.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    folders: OwnerFolders,
    min_free: u64,
}

impl Files {
    pub(crate) fn below(data_dir: &Path, min_free: u64) -> Self {
        Self { folders: OwnerFolders::below(data_dir, &FOLDER), min_free }
    }

    pub(crate) fn folder(&self, profile: &ProfileId) -> PathBuf {
        self.folders.of(profile.as_str())
    }

    pub(crate) const fn min_free(&self) -> u64 {
        self.min_free
    }

    /// Writes a file so that it is whole or not there.
    /// Errors: `DiskNearlyFull`; `Internal`.
    pub(crate) async fn put(
        &self,
        cipher: &Cipher,
        profile: &ProfileId,
        name: &str,
        bytes: Vec<u8>,
    ) -> Result<(), ServiceError> {
        let (folder, min_free, cipher, name) = (self.folder(profile), self.min_free, cipher.clone(), name.to_owned());
        blocking(move || {
            fs::create_dir_all(&folder)?;
            write_whole(&folder.join(name), &cipher.seal(&bytes), min_free)
        })
        .await
    }

    /// Reads a file.
    /// Errors: `Internal` when it is not there, or is damaged.
    pub(crate) async fn get(&self, cipher: &Cipher, profile: &ProfileId, name: &str) -> Result<Vec<u8>, ServiceError> {
        let (path, cipher) = (self.folder(profile).join(name), cipher.clone());
        blocking(move || {
            cipher.open(fs::read(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
        })
        .await
    }

    /// The files of a profile, the oldest first.
    /// Errors: `Internal`.
    pub(crate) async fn list(&self, profile: &ProfileId) -> Result<Vec<ListedFile>, ServiceError> {
        let folder = self.folder(profile);
        blocking(move || {
            let mut files = Vec::new();
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
                entries => entries?,
            };
            for file in entries {
                let file = file?;
                let name = file.file_name().to_string_lossy().into_owned();
                let modified = file.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
                if is_whole(&name) {
                    files.push(ListedFile { modified_ms: millis(modified), name });
                }
            }
            files.sort();
            Ok(files)
        })
        .await
    }

    /// Removes a file, if it is there.
    pub(crate) async fn remove(&self, profile: &ProfileId, name: &str) {
        let path = self.folder(profile).join(name);
        let removed = blocking(move || match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        });
        if let Err(error) = removed.await {
            tracing::warn!(%error, "an old version of a profile was not removed");
        }
    }

    /// Removes what no record names: single files, and whole folders unless they are set aside. `kept` says which files of a profile stay.
    pub(crate) async fn keep_only(&self, unowned: Unowned, kept: impl Fn(&str) -> Kept + Send + 'static) {
        self.folders.keep_only(ProfileId::PREFIX, unowned, kept).await;
    }

    /// Removes a profile's folder.
    /// Errors: `Internal`.
    pub(crate) async fn remove_all(&self, profile: &ProfileId) -> Result<(), ServiceError> {
        self.folders.remove(profile.as_str()).await
    }
}
