//! Files of tasks: artifacts, and output too large for a record. Each task has a folder, each file is named by its hash.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::Error;
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
}

impl Files {
    pub(super) fn new(data_dir: &Path) -> Self {
        Self { data_dir: data_dir.to_owned(), folders: OwnerFolders::below(data_dir, &FOLDER) }
    }

    fn folder(&self, task: TaskId) -> PathBuf {
        self.folders.of(&task.to_string())
    }

    /// Where a file of a task lies. `hash` comes from a record, and is checked all the same.
    pub(super) fn path(&self, task: TaskId, hash: &str) -> Option<PathBuf> {
        is_hash(hash).then(|| self.folder(task).join(hash))
    }

    /// Writes a file so that it is whole or not there, also after loss of power; returns its hash.
    /// Errors: `DiskNearlyFull` where less than `min_free` bytes would stay free.
    pub(super) async fn put(&self, task: TaskId, bytes: Bytes, min_free: u64) -> Result<String, Error> {
        let (data_dir, folder) = (self.data_dir.clone(), self.folder(task));
        blocking(move || {
            let hash = hex::encode(Sha256::digest(&bytes));
            let path = folder.join(&hash);
            if path.exists() {
                return Ok(hash);
            }
            if free_bytes(&data_dir).is_some_and(|free| free < min_free.saturating_add(bytes.len() as u64)) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            fs::create_dir_all(&folder)?;
            let mut file = tempfile(&folder, &hash)?;
            let written = file.1.write_all(&bytes).and_then(|()| file.1.sync_all());
            if let Err(error) = written.and_then(|()| fs::rename(&file.0, &path)) {
                let _ = fs::remove_file(&file.0);
                return Err(error);
            }
            fs::File::open(&folder)?.sync_all()?;
            Ok(hash)
        })
        .await
        .map_err(Into::into)
    }

    /// Reads a whole file.
    pub(super) async fn get(&self, task: TaskId, hash: &str) -> Result<Vec<u8>, Error> {
        let Some(path) = self.path(task, hash) else { return Err(Error::internal("a file without a hash")) };
        blocking(move || fs::read(path)).await.map_err(Into::into)
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
    let file = fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
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
        let hash = files.put(task, Bytes::from_static(b"one"), 0).await.unwrap();
        assert_eq!(files.put(task, Bytes::from_static(b"one"), 0).await.unwrap(), hash);
        let full = files.put(task, Bytes::from_static(b"two"), u64::MAX).await;
        assert!(matches!(full, Err(Error::Service(warmpool_core::error::ServiceError::DiskNearlyFull))), "{full:?}");
        assert_eq!(files.get(task, &hash).await.unwrap(), b"one");
        assert_eq!(files.tasks().await.unwrap(), [task]);
        assert_eq!(files.path(task, "../../instance.json"), None);
        files.remove(task).await.unwrap();
        files.remove(task).await.unwrap();
        assert!(files.tasks().await.unwrap().is_empty());
    }
}
