//! Building databases: empty, or from a dump. One gets its real name only when it is complete.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use super::archive;
use super::backend::{Backend, BackendError};
use super::batch::Op;
use super::dump::{DumpTarget, Restored};
use super::folder::{DataPath, Folder, Staging};
use super::layout::{DATABASE, UNFINISHED, create_private_dir, sync_parent};
use super::recovery_file::RecoveryFile;
use super::schema::{self, SCHEMA_VERSION};
use super::sled::SledBackend;
use super::{StoreError, record};
use crate::clock::unix_ms;

/// Replaces a sound database, and those of the folders that a dump holds, by the dump.
pub(super) fn replace(dir: &Path, file: &Path, folders: &[Folder]) -> Result<Restored, StoreError> {
    let database = dir.join(DATABASE);
    let unfinished = dir.join(UNFINISHED);
    let mut staging = Staging::new(dir, folders)?;
    let restored = fill(&unfinished, Some(file), Some(&mut staging))?;
    // Files first: with the old rows they are merely too many, new rows without them would be wrong.
    staging.put_in_place()?;
    if database.exists() {
        let replaced = dir.join(format!("{DATABASE}.replaced-{}", unix_ms()));
        fs::rename(&database, replaced).map_err(StoreError::io("rename", &database))?;
    }
    fs::rename(&unfinished, &database).map_err(StoreError::io("rename", &unfinished))?;
    sync_parent(&database)?;
    // Whatever was wrong with the old database is not wrong with this one.
    RecoveryFile::of(dir).clear()?;
    restored.ok_or_else(|| StoreError::Backup { path: file.to_owned(), reason: "nothing was read".into() })
}

/// Builds a database from the rows of a dump, or an empty one, and gives it its name once it is complete. Files stay as
/// they are: only the database was damaged.
pub(super) fn build(dir: &Path, file: Option<&Path>) -> Result<Option<Restored>, StoreError> {
    let database = dir.join(DATABASE);
    let unfinished = dir.join(UNFINISHED);
    let restored = fill(&unfinished, file, None)?;
    if database.exists() {
        // Left by a start that died between the last two steps, and built from the same backups.
        fs::remove_dir_all(&database).map_err(StoreError::io("remove", &database))?;
    }
    fs::rename(&unfinished, &database).map_err(StoreError::io("rename", &unfinished))?;
    sync_parent(&database)?;
    Ok(restored)
}

/// What a dump fills.
struct Build<'s, 'a> {
    backend: SledBackend,
    staging: Option<&'s mut Staging<'a>>,
}

impl DumpTarget for Build<'_, '_> {
    fn folders(&mut self, names: &[String]) -> Result<(), StoreError> {
        self.staging.as_mut().map_or(Ok(()), |staging| staging.begin(names))
    }

    fn rows(&mut self, ops: Vec<Op>) -> Result<(), StoreError> {
        let seal = |op: Op| Op { value: op.value.map(|value| record::seal(op.table, &op.key, &value)), ..op };
        let sealed: Vec<Op> = ops.into_iter().map(seal).collect();
        self.backend.apply(&sealed).map_err(writing)
    }

    fn file(&mut self, place: &DataPath, content: &mut dyn Read) -> Result<(), StoreError> {
        self.staging.as_ref().map_or(Ok(()), |staging| staging.add(place, content))
    }
}

/// A new database at `path` with the content of a dump, durable and closed again; its files go to the staging.
fn fill(path: &Path, file: Option<&Path>, staging: Option<&mut Staging<'_>>) -> Result<Option<Restored>, StoreError> {
    if path.exists() {
        fs::remove_dir_all(path).map_err(StoreError::io("remove", path))?;
    }
    create_private_dir(path)?;
    let mut backend = SledBackend::open(path).map_err(writing)?;
    schema::begin(&mut backend, SCHEMA_VERSION).map_err(writing)?;
    let mut filling = Build { backend, staging };
    let restored = file.map(|file| archive::read(file, &mut filling)).transpose()?;
    let Build { mut backend, .. } = filling;
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
