//! Building databases: empty, or from a dump. One gets its real name only when it is complete.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::backend::{Backend, BackendError};
use super::batch::Op;
use super::dump::{self, Restored};
use super::health::unix_ms;
use super::recover::DATABASE;
use super::schema::{self, SCHEMA_VERSION};
use super::sled::SledBackend;
use super::trouble::Trouble;
use super::{StoreError, record};

/// A database that is being built.
const UNFINISHED: &str = "db.new";

/// Replaces a sound database by a dump.
pub(super) fn replace(dir: &Path, file: &Path) -> Result<Restored, StoreError> {
    let database = dir.join(DATABASE);
    let unfinished = dir.join(UNFINISHED);
    let restored = fill(&unfinished, Some(file))?;
    if database.exists() {
        let replaced = dir.join(format!("{DATABASE}.replaced-{}", unix_ms()));
        fs::rename(&database, replaced).map_err(StoreError::io("rename", &database))?;
    }
    fs::rename(&unfinished, &database).map_err(StoreError::io("rename", &unfinished))?;
    sync_parent(&database)?;
    // Whatever was wrong with the old database is not wrong with this one.
    Trouble::of(dir).clear()?;
    restored.ok_or_else(|| StoreError::Backup { path: file.to_owned(), reason: "nothing was read".into() })
}

/// Builds a database from a dump, or an empty one, and gives it its name once it is complete.
pub(super) fn build(dir: &Path, file: Option<&Path>) -> Result<Option<Restored>, StoreError> {
    let database = dir.join(DATABASE);
    let unfinished = dir.join(UNFINISHED);
    let restored = fill(&unfinished, file)?;
    if database.exists() {
        // Left by a start that died between the last two steps, and built from the same backups.
        fs::remove_dir_all(&database).map_err(StoreError::io("remove", &database))?;
    }
    fs::rename(&unfinished, &database).map_err(StoreError::io("rename", &unfinished))?;
    sync_parent(&database)?;
    Ok(restored)
}

/// A new database at `path` with the content of a dump, durable and closed again.
fn fill(path: &Path, file: Option<&Path>) -> Result<Option<Restored>, StoreError> {
    if path.exists() {
        fs::remove_dir_all(path).map_err(StoreError::io("remove", path))?;
    }
    create_private_dir(path)?;
    let mut backend = SledBackend::open(path).map_err(writing)?;
    schema::begin(&mut backend, SCHEMA_VERSION).map_err(writing)?;
    let restored = match file {
        Some(file) => {
            let restored = dump::read(file, |ops| {
                let sealed: Vec<Op> = ops
                    .into_iter()
                    .map(|op| Op { value: op.value.map(|value| record::seal(op.table, &op.key, &value)), ..op })
                    .collect();
                backend.apply(&sealed).map_err(writing)
            })?;
            Some(restored)
        }
        None => None,
    };
    backend.flush().map_err(writing)?;
    backend.barrier().and_then(|mut barrier| barrier.wait()).map_err(writing)?;
    Ok(restored)
}

pub(super) fn writing(error: BackendError) -> StoreError {
    StoreError::Io {
        doing: "write the database".to_owned(),
        source: match error {
            BackendError::Io(source) => source,
            BackendError::Damaged(reason) => io::Error::other(reason),
        },
    }
}

/// Creates a directory that only this user may enter, with its parents.
pub(super) fn create_private_dir(path: &Path) -> Result<(), StoreError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(StoreError::io("create", path))
}

/// Makes a rename or a new name survive loss of power.
pub(super) fn sync_parent(path: &Path) -> Result<(), StoreError> {
    let parent = path.parent().unwrap_or(Path::new("."));
    File::open(parent).and_then(|dir| dir.sync_all()).map_err(StoreError::io("sync", parent))
}
