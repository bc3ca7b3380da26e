//! Files of tasks: artifacts, and output too large for a record. Each task has a folder, each file is named by its hash.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::Error;
use crate::task::sizes::on_disk;
use warmpool_core::blocking::blocking;
use warmpool_core::error::ServiceFault as _;
use warmpool_core::ids::TaskId;
use warmpool_store::{Folder, OwnerFolders, free_bytes};

/// The folder of all tasks' files, within the data directory.
pub const FOLDER: Folder = Folder { name: "tasks", has: is_hash };

/// All tasks' files.
#[derive(Debug, Clone)]
pub(super) struct Files {
    data_dir: PathBuf,
    folders: OwnerFolders,
    /// Held while a whole file gets its name, so that of two equal ones only one is new.
    naming: Arc<Mutex<()>>,
}

/// A file that is to be written.
#[derive(Debug, Clone)]
pub(in crate::task) struct NewFile {
    bytes: Bytes,
    /// SHA-256 of its content, which is its name.
    pub(in crate::task) hash: String,
}

impl NewFile {
    /// Fails when there are no threads to hash it.
    pub(in crate::task) async fn new(bytes: Vec<u8>) -> Result<Self, Error> {
        let bytes = Bytes::from(bytes);
        let hashed = bytes.clone();
        let hash = blocking(move || Ok(hex::encode(Sha256::digest(&hashed)))).await?;
        Ok(Self { bytes, hash })
    }

    /// How much of the disk it takes, in bytes.
    pub(in crate::task) fn on_disk(&self) -> u64 {
        on_disk(self.bytes.len() as u64)
    }
}

impl Files {
    pub(super) fn new(data_dir: &Path) -> Self {
        let folders = OwnerFolders::below(data_dir, &FOLDER);
        // Earlier releases made it as the process' umask had it, and no file may be there yet.
        let _ = fs::set_permissions(data_dir.join(FOLDER.name), fs::Permissions::from_mode(0o700));
        Self { data_dir: data_dir.to_owned(), folders, naming: Arc::default() }
    }

    fn folder(&self, task: TaskId) -> PathBuf {
        self.folders.of(&task.to_string())
    }

    /// Where a file of a task lies. `hash` comes from a record, and is checked all the same.
    pub(super) fn path(&self, task: TaskId, hash: &str) -> Option<PathBuf> {
        is_hash(hash).then(|| self.folder(task).join(hash))
    }

    /// Whether a task has this file.
    pub(super) async fn has(&self, task: TaskId, file: &NewFile) -> Result<bool, Error> {
        let path = self.folder(task).join(&file.hash);
        blocking(move || Ok(path.exists())).await.map_err(Into::into)
    }

    /// Writes a file so that it is whole or not there, also after loss of power; returns whether the task did not have it.
    /// Errors: `DiskNearlyFull` where less than `min_free` bytes would stay free.
    pub(super) async fn put(&self, task: TaskId, file: NewFile, min_free: u64) -> Result<bool, Error> {
        let (data_dir, folder, naming) = (self.data_dir.clone(), self.folder(task), Arc::clone(&self.naming));
        let NewFile { bytes, hash } = file;
        blocking(move || {
            let path = folder.join(&hash);
            if path.exists() {
                return Ok(false);
            }
            if free_bytes(&data_dir).is_some_and(|free| free < min_free.saturating_add(bytes.len() as u64)) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            let mut file = tempfile(&folder, &hash)?;
            let written = file.1.write_all(&bytes).and_then(|()| file.1.sync_all());
            let named = written.and_then(|()| {
                let _naming = naming.lock();
                let is_new = !path.exists();
                fs::rename(&file.0, &path).map(|()| is_new)
            });
            let is_new = named.inspect_err(|_| drop(fs::remove_file(&file.0)))?;
            fs::File::open(&folder)?.sync_all()?;
            Ok(is_new)
        })
        .await
        .map_err(Into::into)
    }

    /// Reads a whole file.
    pub(super) async fn get(&self, task: TaskId, hash: &str) -> Result<Vec<u8>, Error> {
        let Some(path) = self.path(task, hash) else { return Err(Error::internal("a file without a hash")) };
        blocking(move || fs::read(path)).await.map_err(Into::into)
    }

    /// How much of the disk the files of a task take, in bytes.
    pub(super) async fn on_disk(&self, task: TaskId) -> Result<u64, Error> {
        let folder = self.folder(task);
        let measure = move || {
            let entries = match fs::read_dir(folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
                entries => entries?,
            };
            let taken = |entry: fs::DirEntry| match entry.metadata() {
                // It has got its name meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
                metadata => Ok(on_disk(metadata?.len())),
            };
            entries.map(|entry| taken(entry?)).sum()
        };
        blocking(measure).await.map_err(Into::into)
    }

    /// Removes all files of a task.
    pub(super) async fn remove(&self, task: TaskId) -> Result<(), Error> {
        self.folders.remove(&task.to_string()).await.map_err(Into::into)
    }

    /// The tasks that have files.
    pub(super) async fn tasks(&self) -> Result<Vec<TaskId>, Error> {
        Ok(self.folders.owners().await?.iter().filter_map(|name| name.parse().ok()).collect())
    }
}

fn is_hash(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn tempfile(folder: &Path, hash: &str) -> io::Result<(PathBuf, fs::File)> {
    let path = folder.join(format!("{hash}.{}", warmpool_core::ids::random_text::<6>()));
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    Ok((path, file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_core::ids::TaskIds;

    #[tokio::test]
    async fn files_are_named_by_their_content_and_go_with_their_task() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::new(dir.path());
        let task = TaskIds::default().next(7);
        let one = NewFile::new(b"one".to_vec()).await.unwrap();
        assert!(!files.has(task, &one).await.unwrap());
        let (first, second) = tokio::join!(files.put(task, one.clone(), 0), files.put(task, one.clone(), 0));
        assert!(first.unwrap() != second.unwrap(), "of two equal ones one is new");
        assert!(files.has(task, &one).await.unwrap() && !files.put(task, one.clone(), 0).await.unwrap());
        let full = files.put(task, NewFile::new(b"two".to_vec()).await.unwrap(), u64::MAX).await;
        assert!(matches!(full, Err(Error::Service(warmpool_core::error::ServiceError::DiskNearlyFull))), "{full:?}");
        assert_eq!(files.get(task, &one.hash).await.unwrap(), b"one");
        assert_eq!((files.on_disk(task).await.unwrap(), one.on_disk()), (4096, 4096));
        assert_eq!(files.tasks().await.unwrap(), [task]);
        assert_eq!(files.path(task, "../../instance.json"), None);
        files.remove(task).await.unwrap();
        files.remove(task).await.unwrap();
        assert_eq!(files.on_disk(task).await.unwrap(), 0);
        assert!(files.tasks().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn no_other_user_of_the_host_reads_them() {
        let dir = tempfile::tempdir().unwrap();
        let (task, root) = (TaskIds::default().next(7), dir.path().join(FOLDER.name));
        let one = NewFile::new(b"one".to_vec()).await.unwrap();
        let files = Files::new(dir.path());
        files.put(task, one.clone(), 0).await.unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&root), mode(&files.folder(task))], [0o700; 2]);
        assert_eq!(mode(&files.path(task, &one.hash).unwrap()), 0o600);
        // As an earlier release made it.
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        Files::new(dir.path());
        assert_eq!(mode(&root), 0o700);
    }
}
