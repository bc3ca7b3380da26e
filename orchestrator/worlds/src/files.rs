//! The files of worlds: what clients attached, and the pictures that were made of it. Each world has a folder, and each
//! file is encrypted with the key of the world's patient.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::record::UPLOADS;
use crate::Error;
use warmpool_core::blocking::blocking;
use warmpool_core::cipher::Cipher;
use warmpool_core::ids::WorldId;
use warmpool_store::{Folder, Kept, OwnerFolders, Unowned, is_whole, write_whole};

/// The folder of all worlds' files, within the data directory.
pub const FOLDER: Folder = Folder { name: "worlds", has: is_whole };

/// The pictures that a renderer makes, and the media type of each.
pub(crate) const PICTURES: [(&str, &str); 5] = [
    ("preview.jpg", "image/jpeg"),
    ("thumbnail.jpg", "image/jpeg"),
    ("panorama.jpg", "image/jpeg"),
    ("panorama.png", "image/png"),
    ("depth.png", "image/png"),
];

/// All worlds' files.
#[derive(Debug, Clone)]
pub(super) struct Files {
    folders: OwnerFolders,
    min_free: u64,
}

impl Files {
    pub(super) fn below(data_dir: &Path, min_free: u64) -> Self {
        Self { folders: OwnerFolders::below(data_dir, &FOLDER), min_free }
    }

    pub(super) fn path(&self, world: &WorldId, name: &str) -> PathBuf {
        self.folders.of(world.as_str()).join(name)
    }

    /// Makes the folder of a new world.
    /// Errors: `Internal`.
    pub(super) async fn create(&self, world: &WorldId) -> Result<(), Error> {
        let folder = self.folders.of(world.as_str());
        blocking(move || fs::create_dir_all(folder)).await.map_err(Into::into)
    }

    /// Writes a file so that it is whole or not there, also after loss of power. A world that was deleted has no folder,
    /// and so takes no more files.
    /// Errors: `DiskNearlyFull`; `Internal`.
    pub(super) async fn put(&self, cipher: &Cipher, world: &WorldId, name: &str, bytes: Bytes) -> Result<(), Error> {
        let (path, min_free) = (self.path(world, name), self.min_free);
        let cipher = cipher.clone();
        blocking(move || write_whole(&path, &cipher.seal(&bytes), min_free)).await.map_err(Into::into)
    }

    /// Reads a whole file.
    /// Errors: `Internal` when it is not there, or another key encrypted it.
    pub(super) async fn get(&self, cipher: &Cipher, world: &WorldId, name: &str) -> Result<Bytes, Error> {
        let (path, cipher) = (self.path(world, name), cipher.clone());
        blocking(move || read(&path, &cipher)).await.map(Bytes::from).map_err(Into::into)
    }

    /// Finds a file, if it is there.
    /// Errors: `Internal`.
    pub(super) async fn find(&self, cipher: &Cipher, world: &WorldId, name: &str) -> Result<Option<StoredFile>, Error> {
        let (path, cipher) = (self.path(world, name), cipher.clone());
        let find = move || {
            let size = found(fs::metadata(&path))?.map(|file| file.len());
            Ok(size.map(|size| StoredFile { path, cipher, size }))
        };
        blocking(find).await.map_err(Into::into)
    }

    /// Removes one file, if it is there.
    pub(super) async fn remove(&self, world: &WorldId, name: &str) -> Result<(), Error> {
        let path = self.path(world, name);
        blocking(move || found(fs::remove_file(path)).map(drop)).await.map_err(Into::into)
    }

    /// Removes what was attached to a world as it was sent.
    /// Errors: `Internal`.
    pub(super) async fn remove_uploads(&self, world: &WorldId) -> Result<(), Error> {
        let folder = self.folders.of(world.as_str());
        let remove = move || {
            let uploads = entries(&folder)?.into_iter();
            let mut uploads = uploads.filter(|file| file.file_name().to_string_lossy().starts_with(UPLOADS));
            uploads.try_for_each(|file| found(fs::remove_file(file.path())).map(drop))
        };
        blocking(remove).await.map_err(Into::into)
    }

    /// Returns how many bytes a world's files have.
    /// Errors: `Internal`.
    pub(super) async fn size(&self, world: &WorldId) -> Result<u64, Error> {
        let folder = self.folders.of(world.as_str());
        let measure = move || {
            let sizes = entries(&folder)?.into_iter().map(|file| found(file.metadata()));
            sizes.map(|file| Ok(file?.map_or(0, |file| file.len()))).sum()
        };
        blocking(measure).await.map_err(Into::into)
    }

    /// Removes a world's folder with all its files.
    /// Errors: `Internal`.
    pub(super) async fn remove_all(&self, world: &WorldId) -> Result<(), Error> {
        self.folders.remove(world.as_str()).await.map_err(Into::into)
    }

    /// Removes the folders of all but these worlds, or sets them aside.
    pub(super) async fn keep_only(&self, unowned: Unowned, worlds: HashSet<WorldId>) {
        let kept = move |world: &str| match worlds.contains(&WorldId::from(world)) {
            true => Kept::All,
            false => Kept::Nothing,
        };
        self.folders.keep_only(WorldId::PREFIX, unowned, kept).await;
    }

    /// The worlds that have files. Whatever else lies beside them, such as `lost+found`, is not the daemon's.
    /// Errors: `Internal`.
    pub(super) async fn worlds(&self) -> Result<Vec<WorldId>, Error> {
        let names = self.folders.owners().await?;
        Ok(names.iter().filter(|name| name.starts_with("wld_")).map(|name| WorldId::from(name.as_str())).collect())
    }
}

/// A file that was found, and is not in memory yet.
pub struct StoredFile {
    path: PathBuf,
    cipher: Cipher,
    /// Its length on the disk, in bytes: its content is not longer.
    pub size: u64,
}

impl StoredFile {
    /// Reads all of it; nothing where it has gone meanwhile.
    /// Errors: `Internal`.
    pub async fn read(self) -> Result<Option<Bytes>, Error> {
        let read = blocking(move || found(read(&self.path, &self.cipher))).await;
        read.map(|bytes| bytes.map(Bytes::from)).map_err(Into::into)
    }
}

/// What is in a folder; nothing where it is not there.
fn entries(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    found(fs::read_dir(folder))?.into_iter().flatten().collect()
}

pub(super) fn read(path: &Path, cipher: &Cipher) -> io::Result<Vec<u8>> {
    cipher.open(fs::read(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// None instead of the error that there is no such file.
pub(super) fn found<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        outcome => outcome.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_are_whole_and_go_with_their_world() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::below(dir.path(), 0);
        let world = WorldId::random();
        let cipher = Cipher::new(&[1; 32]);
        files.create(&world).await.unwrap();
        files.put(&cipher, &world, "preview.jpg", Bytes::from_static(b"picture")).await.unwrap();
        assert_eq!(files.get(&cipher, &world, "preview.jpg").await.unwrap(), "picture");
        assert!(files.get(&Cipher::new(&[2; 32]), &world, "preview.jpg").await.is_err());
        assert!(files.find(&cipher, &world, "depth.png").await.unwrap().is_none());
        let file = files.find(&cipher, &world, "preview.jpg").await.unwrap().unwrap();
        assert!(file.size >= 7);
        assert_eq!(file.read().await.unwrap().unwrap(), "picture");
        let written = fs::read(files.path(&world, "preview.jpg")).unwrap();
        assert!(!written.windows(7).any(|part| part == b"picture"), "files are encrypted");
        fs::create_dir(dir.path().join("worlds/lost+found")).unwrap();
        assert_eq!(files.worlds().await.unwrap(), std::slice::from_ref(&world));
        let full = Files::below(dir.path(), u64::MAX);
        let refused = full.put(&cipher, &world, "panorama.jpg", Bytes::from_static(b"x")).await;
        assert!(
            matches!(refused, Err(Error::Service(warmpool_core::error::ServiceError::DiskNearlyFull))),
            "{refused:?}"
        );
        let written = files.size(&world).await.unwrap();
        for name in ["upload-0", "upload-11"] {
            files.put(&cipher, &world, name, Bytes::from_static(b"as it was sent")).await.unwrap();
        }
        fs::write(files.path(&world, "upload-2.new"), "half").unwrap();
        assert!(files.size(&world).await.unwrap() > written);
        files.remove_uploads(&world).await.unwrap();
        assert_eq!(files.size(&world).await.unwrap(), written);
        files.remove(&world, "preview.jpg").await.unwrap();
        files.remove(&world, "preview.jpg").await.unwrap();
        assert_eq!(files.size(&world).await.unwrap(), 0);
        files.remove_all(&world).await.unwrap();
        files.remove_all(&world).await.unwrap();
        files.remove_uploads(&world).await.unwrap();
        let late = files.put(&cipher, &world, "depth.png", Bytes::from_static(b"x")).await;
        assert!(late.is_err(), "a deleted world takes no more files");
        assert!(files.worlds().await.unwrap().is_empty());
    }
}
