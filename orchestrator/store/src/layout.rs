//! The data directory: what lies where in it.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::StoreError;

pub(super) const DATABASE: &str = "db";
/// In the directory of the database: the commits that its own files may not have yet.
pub(super) const WAL: &str = "wal";
/// Such a log that could not be read to its end, or not be made again.
pub(super) const UNREAD_WAL: &str = "wal.unread";
/// What the log held since the newest backup.
pub(super) const KEPT_LOG: &str = "db.log";
/// A database that does not open, where the guide has the operator put it.
pub(super) const ASIDE: &str = "db.aside";
/// How many commits the database must have.
pub(super) const MARK: &str = "db.mark";
/// Changes that hold whatever becomes of the database.
pub(super) const JOURNAL: &str = "db.irrevocable";
/// A journal that is being compacted.
pub(super) const UNFINISHED_JOURNAL: &str = "db.irrevocable.new";
/// A database that is being built.
pub(super) const UNFINISHED: &str = "db.new";
/// Where files of a backup lie until all of them are there.
pub(super) const STAGING: &str = "files.new";

/// Creates a directory that only this user may enter, with its parents.
pub fn create_private_dir(path: &Path) -> Result<(), StoreError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(StoreError::io("create", path))
}

/// Makes a rename or a new name survive loss of power.
pub(super) fn sync_parent(path: &Path) -> Result<(), StoreError> {
    let parent = path.parent().unwrap_or(Path::new("."));
    File::open(parent).and_then(|dir| dir.sync_all()).map_err(StoreError::io("sync", parent))
}

/// What lies in a directory under a name with a number between `prefix` and `suffix`, the greatest number first.
pub(super) fn numbered(dir: &Path, prefix: &str, suffix: &str) -> Vec<(u64, PathBuf)> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_prefix(prefix)?.strip_suffix(suffix)?.parse().ok()?;
            Some((number, entry.path()))
        })
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}
