//! Files of rows: each row that has some owns a folder of them, below a [`Folder`] of the data directory.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use super::folder::Folder;
use warmpool_core::blocking::blocking;
use warmpool_core::error::ServiceError;

/// The owners' folders.
#[derive(Clone, Debug)]
pub struct OwnerFolders {
    root: PathBuf,
}

impl OwnerFolders {
    /// Those of a folder below this data directory.
    #[must_use]
    pub fn below(data_dir: &Path, folder: &Folder) -> Self {
        Self { root: data_dir.join(folder.name) }
    }

    /// Where the files of this owner lie.
    #[must_use]
    pub fn of(&self, owner: &str) -> PathBuf {
        self.root.join(owner)
    }

    /// Those that have a folder.
    /// Errors: `Internal`.
    pub async fn owners(&self) -> Result<Vec<String>, ServiceError> {
        let root = self.root.clone();
        let names =
            move || Ok(entries(&root)?.iter().filter_map(|owner| owner.file_name().into_string().ok()).collect());
        blocking(names).await
    }

    /// Removes an owner's folder with all its files, if it is there.
    /// Errors: `Internal`.
    pub async fn remove(&self, owner: &str) -> Result<(), ServiceError> {
        let folder = self.of(owner);
        blocking(move || {
            loop {
                match fs::remove_dir_all(&folder) {
                    // A file that was being written came in between. There is no further one once the folder is gone.
                    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                    removed => return removed,
                }
            }
        })
        .await
    }

    /// Removes what no row names: whole folders, and single files. `files` says which files of an owner stay.
    /// Errors: `Internal`.
    pub async fn keep_only(
        &self,
        files: impl Fn(&str) -> Option<Vec<String>> + Send + 'static,
    ) -> Result<(), ServiceError> {
        let root = self.root.clone();
        blocking(move || {
            for owner in entries(&root)? {
                let Some(kept) = files(&owner.file_name().to_string_lossy()) else {
                    fs::remove_dir_all(owner.path())?;
                    continue;
                };
                for file in entries(&owner.path())? {
                    if !kept.iter().any(|kept| *kept == *file.file_name().to_string_lossy()) {
                        fs::remove_file(file.path())?;
                    }
                }
            }
            Ok(())
        })
        .await
    }
}

/// The entries of a directory; none when there is no such directory.
fn entries(path: &Path) -> io::Result<Vec<DirEntry>> {
    match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_no_row_names_goes() {
        let data = tempfile::tempdir().unwrap();
        let folders = OwnerFolders::below(data.path(), &Folder { name: "things", has: |_| true });
        folders.keep_only(|_| None).await.unwrap();
        assert!(folders.owners().await.unwrap().is_empty(), "there is no folder yet");
        for (owner, file) in [("a", "kept"), ("a", "half written"), ("b", "whole")] {
            fs::create_dir_all(folders.of(owner)).unwrap();
            fs::write(folders.of(owner).join(file), "").unwrap();
        }
        folders.keep_only(|owner| (owner == "a").then(|| vec!["kept".to_owned()])).await.unwrap();
        assert_eq!(folders.owners().await.unwrap(), ["a"]);
        let left = entries(&folders.of("a")).unwrap();
        assert_eq!(left.iter().map(DirEntry::file_name).collect::<Vec<_>>(), ["kept"]);
        folders.remove("a").await.unwrap();
        folders.remove("a").await.unwrap();
        assert!(folders.owners().await.unwrap().is_empty());
    }
}
