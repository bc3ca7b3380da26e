//! Files of rows: each row that has some owns a folder of them, below a [`Folder`] of the data directory.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use super::folder::Folder;
use warmpool_core::blocking::blocking;
use warmpool_core::error::ServiceError;

/// What stays of an owner's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// All of it: a row names the owner, and cannot tell which files are its.
    All,
    /// These files.
    Files(Vec<String>),
    /// Nothing: no row names the owner.
    Nothing,
}

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

    /// Removes what no row names: whole folders, and single files. Only folders whose names begin with `prefix`, as the owners' ids do,
    /// are looked at: whatever else lies beside them, such as `lost+found`, is not the daemon's. What cannot be removed is logged, and
    /// stays until the next start.
    pub async fn keep_only(&self, prefix: &'static str, kept: impl Fn(&str) -> Kept + Send + 'static) {
        let root = self.root.clone();
        let tidy = move || {
            for folder in entries(&root)? {
                let name = folder.file_name().to_string_lossy().into_owned();
                if name.starts_with(prefix) && folder.file_type()?.is_dir() {
                    tidy(&folder.path(), &kept(&name));
                }
            }
            Ok(())
        };
        if let Err(error) = blocking(tidy).await {
            tracing::error!(folder = %self.root.display(), %error, "what no row names could not be looked for");
        }
    }
}

/// Removes from an owner's folder all but what is kept.
fn tidy(folder: &Path, kept: &Kept) {
    let removed = match kept {
        Kept::All => Ok(()),
        Kept::Nothing => fs::remove_dir_all(folder),
        Kept::Files(names) => remove_others(folder, names),
    };
    if let Err(error) = removed {
        tracing::error!(folder = %folder.display(), %error, "what no row names could not be removed");
    }
}

fn remove_others(folder: &Path, kept: &[String]) -> io::Result<()> {
    for file in entries(folder)? {
        if !kept.iter().any(|kept| *kept == *file.file_name().to_string_lossy()) {
            fs::remove_file(file.path())?;
        }
    }
    Ok(())
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
        folders.keep_only("thg_", |_| Kept::Nothing).await;
        assert!(folders.owners().await.unwrap().is_empty(), "there is no folder yet");
        for (owner, file) in [("thg_a", "kept"), ("thg_a", "half written"), ("thg_b", "whole"), ("thg_c", "unknown")] {
            fs::create_dir_all(folders.of(owner)).unwrap();
            fs::write(folders.of(owner).join(file), "").unwrap();
        }
        let kept = |owner: &str| match owner {
            "thg_a" => Kept::Files(vec!["kept".to_owned()]),
            "thg_c" => Kept::All,
            _ => Kept::Nothing,
        };
        folders.keep_only("thg_", kept).await;
        let mut owners = folders.owners().await.unwrap();
        owners.sort_unstable();
        assert_eq!(owners, ["thg_a", "thg_c"]);
        for (owner, file) in [("thg_a", "kept"), ("thg_c", "unknown")] {
            let left = entries(&folders.of(owner)).unwrap();
            assert_eq!(left.iter().map(DirEntry::file_name).collect::<Vec<_>>(), [file]);
        }
        folders.remove("thg_a").await.unwrap();
        folders.remove("thg_a").await.unwrap();
        assert_eq!(folders.owners().await.unwrap(), ["thg_c"]);
    }

    #[tokio::test]
    async fn what_is_not_the_daemons_is_left_alone_and_holds_nothing_up() {
        let data = tempfile::tempdir().unwrap();
        let folders = OwnerFolders::below(data.path(), &Folder { name: "things", has: |_| true });
        // A folder in a file's place stands for whatever cannot be removed.
        for folder in ["lost+found", "thg_a/cannot be removed as a file", "thg_b"] {
            fs::create_dir_all(folders.of(folder)).unwrap();
        }
        for file in ["notes.txt", "thg_file", "lost+found/block"] {
            fs::write(folders.of(file), "").unwrap();
        }
        let kept = |owner: &str| if owner == "thg_a" { Kept::Files(Vec::new()) } else { Kept::Nothing };
        folders.keep_only("thg_", kept).await;
        for stays in ["notes.txt", "thg_file", "lost+found/block", "thg_a"] {
            assert!(folders.of(stays).exists(), "{stays}");
        }
        assert!(!folders.of("thg_b").exists(), "what comes after a failure is removed all the same");
    }
}
