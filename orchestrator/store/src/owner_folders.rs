//! Files of rows: each row that has some owns a folder of them, below a [`Folder`] of the data directory.
//!
//! Where the data went back to an older state, folders of which no row tells are set aside in a folder beside them,
//! `lost-<unix ms>`. No backup has what lies there.

use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::folder::Folder;
use super::layout::numbered;
use warmpool_core::blocking::blocking;
use warmpool_core::clock::{Now, millis};
use warmpool_core::error::ServiceError;

/// The name of a folder for what is set aside ends with when that was, in Unix milliseconds.
const LOST: &str = "lost-";
/// The first start after so long removes it.
const KEEP_LOST: Duration = Duration::from_secs(30 * 24 * 3600);

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

/// What becomes of the folder of an owner whom no row names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unowned {
    /// It is removed.
    Removed,
    /// It is set aside, since the row may be lost.
    SetAside {
        /// The owners who were deleted for good: their folders are removed.
        deleted: HashSet<Vec<u8>>,
    },
}

impl Unowned {
    /// Whether the row of an owner whom no row names may be lost.
    fn is_lost(&self, owner: &str) -> bool {
        match self {
            Self::Removed => false,
            Self::SetAside { deleted } => !deleted.contains(owner.as_bytes()),
        }
    }
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

    /// Removes what no row names: single files, and whole folders unless they are set aside; and what was set aside long ago. Only folders
    /// whose names begin with `prefix`, as the owners' ids do, are looked at: whatever else lies beside them, such as `lost+found`, is not
    /// the daemon's. What cannot be removed is logged, and stays until the next start.
    pub async fn keep_only(
        &self,
        prefix: &'static str,
        unowned: Unowned,
        kept: impl Fn(&str) -> Kept + Send + 'static,
    ) {
        let root = self.root.clone();
        let tidy = move || {
            let now = Now::read();
            forget_lost(&root, now.unix_ms_for_ages());
            let lost = root.join(format!("{LOST}{}", now.unix_ms()));
            for folder in entries(&root)? {
                let name = folder.file_name().to_string_lossy().into_owned();
                if name.starts_with(prefix) && folder.file_type()?.is_dir() {
                    let set_aside = unowned.is_lost(&name).then_some(lost.as_path());
                    tidy(&folder.path(), &kept(&name), set_aside);
                }
            }
            Ok(())
        };
        if let Err(error) = blocking(tidy).await {
            tracing::error!(folder = %self.root.display(), %error, "what no row names could not be looked for");
        }
    }
}

/// Removes from an owner's folder all but what is kept. Where no row names the owner, the folder is moved to `lost`, if there is one.
fn tidy(folder: &Path, kept: &Kept, lost: Option<&Path>) {
    let removed = match (kept, lost) {
        (Kept::All, _) => Ok(()),
        (Kept::Files(names), _) => remove_others(folder, names),
        (Kept::Nothing, None) => fs::remove_dir_all(folder),
        (Kept::Nothing, Some(lost)) => set_aside(folder, lost),
    };
    if let Err(error) = removed {
        tracing::error!(folder = %folder.display(), %error, "what no row names could not be removed");
    }
}

fn set_aside(folder: &Path, lost: &Path) -> io::Result<()> {
    fs::create_dir_all(lost)?;
    let to = lost.join(folder.file_name().unwrap_or_default());
    fs::rename(folder, &to)?;
    tracing::warn!(folder = %to.display(), "no row names it since the data went back to an older state; it is kept there for a time");
    Ok(())
}

/// Removes what was set aside long before this time, in Unix milliseconds.
fn forget_lost(root: &Path, now_ms: u64) {
    let oldest = now_ms.saturating_sub(millis(KEEP_LOST));
    for (_, lost) in numbered(root, LOST, "").into_iter().filter(|(set_aside, _)| *set_aside < oldest) {
        if let Err(error) = fs::remove_dir_all(&lost) {
            tracing::error!(folder = %lost.display(), %error, "what was set aside long ago could not be removed");
        }
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
        folders.keep_only("thg_", Unowned::Removed, |_| Kept::Nothing).await;
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
        folders.keep_only("thg_", Unowned::Removed, kept).await;
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
        folders.keep_only("thg_", Unowned::Removed, kept).await;
        for stays in ["notes.txt", "thg_file", "lost+found/block", "thg_a"] {
            assert!(folders.of(stays).exists(), "{stays}");
        }
        assert!(!folders.of("thg_b").exists(), "what comes after a failure is removed all the same");
    }

    #[tokio::test]
    async fn what_may_be_lost_is_set_aside_for_a_time() {
        let data = tempfile::tempdir().unwrap();
        let folders = OwnerFolders::below(data.path(), &Folder { name: "things", has: |_| true });
        for folder in ["thg_kept", "thg_lost", "thg_deleted"] {
            fs::create_dir_all(folders.of(folder)).unwrap();
            fs::write(folders.of(folder).join("file"), "content").unwrap();
        }
        let kept = |owner: &str| if owner == "thg_kept" { Kept::All } else { Kept::Nothing };
        let unowned = Unowned::SetAside { deleted: HashSet::from([b"thg_deleted".to_vec()]) };
        for _ in 0..2 {
            folders.keep_only("thg_", unowned.clone(), kept).await;
            let mut left = folders.owners().await.unwrap();
            left.sort_unstable();
            assert!(left.len() == 2 && left[1] == "thg_kept", "{left:?}");
            let lost = folders.of(&left[0]);
            assert_eq!(fs::read_to_string(lost.join("thg_lost/file")).unwrap(), "content");
            assert_eq!(entries(&lost).unwrap().len(), 1, "what was deleted for good is not kept");
        }
        let now = Now::read().unix_ms();
        for (days, left) in [(29, 2), (31, 1)] {
            forget_lost(&folders.root, now + days * 24 * 3_600_000);
            assert_eq!(folders.owners().await.unwrap().len(), left, "after {days} days");
        }
    }
}
