//! Building databases: empty, or from a dump. One gets its real name only when it is complete.

use std::fs;
use std::io::Read;
use std::path::Path;

use super::archive;
use super::backend::{Backend, BackendError};
use super::batch::Op;
use super::dump::{DumpTarget, Restored};
use super::folder::{DataPath, Folder, Staging, put_in_place};
use super::journal::FileJournal;
use super::kept_log::{self, LogFiles, Replayed};
use super::layout::{DATABASE, UNFINISHED, create_private_dir, sync_parent};
use super::ledger::{CommitPoint, Ledger};
use super::mark::Reached;
use super::recovery_file::{RecoveryFile, RecoveryNotes};
use super::schema::{self, KEYS_APART, SCHEMA_VERSION};
use super::sled::SledBackend;
use super::{StoreError, backup_folder, dump, provenance, record};
use warmpool_core::clock::unix_ms;

/// What a database was built from.
#[derive(Debug, Default)]
pub(super) struct Built {
    pub(super) restored: Option<Restored>,
    /// What the log since the dump made again, if it has all of it.
    pub(super) from_log: Option<Replayed>,
    /// How many irrevocable batches were made again.
    pub(super) replayed: u64,
    /// Why the file of what is kept apart is not usable.
    pub(super) unusable: Option<String>,
}

/// Replaces a sound database, and those of the folders that a dump holds, by the dump.
pub(super) fn replace(dir: &Path, file: &Path, folders: &[Folder]) -> Result<Restored, StoreError> {
    // What one that was killed had ready would be removed, and it may have begun to put that in place.
    finish_replacing(dir)?;
    let mut staging = Staging::new(dir, folders)?;
    let built = fill(dir, Some(file), None, Some(&mut staging))?;
    if let Some(reason) = built.unusable {
        return Err(StoreError::Backup { path: backup_folder::apart(dir), reason });
    }
    let nothing = || StoreError::Backup { path: file.to_owned(), reason: "nothing was read".into() };
    let restored = built.restored.ok_or_else(nothing)?;
    // It goes on from backups of the old one.
    kept_log::forget_all(dir);
    staging.leave()?;
    let recovery_file = RecoveryFile::in_dir(dir);
    let notes = RecoveryNotes { restoring: true, ..recovery_file.read() };
    recovery_file.write(&notes)?;
    if let Err(error) = finish_replacing(dir) {
        // No start is to meet what the system refuses again and again.
        recovery_file.write(&RecoveryNotes { restoring: false, ..notes })?;
        return Err(error);
    }
    Ok(restored)
}

/// Puts a backup that was read by hand in place, if one is ready. A process that is killed meanwhile leaves the rest to the next start.
pub(super) fn finish_replacing(dir: &Path) -> Result<(), StoreError> {
    let recovery_file = RecoveryFile::in_dir(dir);
    if !recovery_file.read().restoring {
        return Ok(());
    }
    // Files first: with the old rows they are merely too many, new rows without them would be wrong.
    put_in_place(dir)?;
    let (database, unfinished) = (dir.join(DATABASE), dir.join(UNFINISHED));
    if unfinished.exists() {
        if database.exists() {
            let replaced = dir.join(format!("{DATABASE}.replaced-{}", unix_ms()));
            fs::rename(&database, replaced).map_err(StoreError::io("rename", &database))?;
        }
        fs::rename(&unfinished, &database).map_err(StoreError::io("rename", &unfinished))?;
        sync_parent(&database)?;
    }
    // Whatever was wrong with the old database is not wrong with this one.
    recovery_file.clear()
}

/// Builds a database from the rows of a dump and the log since then, or an empty one, and gives it its name once it is complete. Files
/// stay as they are: only the database was damaged.
pub(super) fn build(dir: &Path, file: Option<&Path>, log: Option<&LogFiles>) -> Result<Built, StoreError> {
    let database = dir.join(DATABASE);
    let unfinished = dir.join(UNFINISHED);
    let built = fill(dir, file, log, None)?;
    if database.exists() {
        // Left by a start that died between the last two steps, and built from the same backups.
        fs::remove_dir_all(&database).map_err(StoreError::io("remove", &database))?;
    }
    fs::rename(&unfinished, &database).map_err(StoreError::io("rename", &unfinished))?;
    sync_parent(&database)?;
    Ok(built)
}

/// What a dump fills.
struct Build<'s, 'a> {
    backend: SledBackend,
    ledger: Ledger,
    staging: Option<&'s mut Staging<'a>>,
}

impl DumpTarget for Build<'_, '_> {
    fn folders(&mut self, names: &[String]) -> Result<(), StoreError> {
        self.staging.as_mut().map_or(Ok(()), |staging| staging.begin(names))
    }

    fn rows(&mut self, mut ops: Vec<Op>) -> Result<(), StoreError> {
        ops.retain(|op| !op.table.is_left_out());
        self.ledger.apply(&mut self.backend, record::sealed(&ops)).map_err(BackendError::writing)
    }

    fn file(&mut self, place: &DataPath, content: &mut dyn Read) -> Result<(), StoreError> {
        self.staging.as_ref().map_or(Ok(()), |staging| staging.add(place, content))
    }
}

/// A new database with the content of a dump, of the log since then and all that is irrevocable, durable and closed again; its files go to the
/// staging, where the dump is restored by hand.
fn fill(
    dir: &Path,
    file: Option<&Path>,
    log: Option<&LogFiles>,
    staging: Option<&mut Staging<'_>>,
) -> Result<Built, StoreError> {
    let path = dir.join(UNFINISHED);
    if path.exists() {
        fs::remove_dir_all(&path).map_err(StoreError::io("remove", &path))?;
    }
    create_private_dir(&path)?;
    let mut backend = SledBackend::open(&path).map_err(BackendError::writing)?;
    let ledger = schema::begin(&mut backend, SCHEMA_VERSION).map_err(BackendError::writing)?;
    let by_hand = staging.is_some();
    let mut filling = Build { backend, ledger, staging };
    let (mut built, mut apart) = (Built::default(), None);
    if let Some(file) = file {
        built.restored = Some(archive::read(file, &mut filling)?);
    }
    // Also without a backup: the file is written anew from this database, and a backup that is restored later needs the keys.
    let path = backup_folder::apart(dir);
    match archive::read(&path, &mut filling) {
        Ok(read) => apart = read.commit_point,
        // One that comes from elsewhere may come without it, and earlier releases had none.
        Err(_) if matches!(path.try_exists(), Ok(false)) => {
            let schema = file.filter(|_| !by_hand).and_then(dump::schema_of);
            let is_missing = schema.is_some_and(|schema| schema >= KEYS_APART);
            built.unusable = is_missing.then(|| "it is missing".to_owned());
        }
        Err(StoreError::Backup { reason, .. }) => built.unusable = Some(reason),
        Err(error) => return Err(error),
    }
    let Build { mut backend, mut ledger, staging } = filling;
    let mut journal = FileJournal::open(dir)?;
    let mut commit_point = built.restored.as_ref().and_then(|restored| restored.commit_point.clone());
    let is_ours = |point: &CommitPoint| point.history == journal.history();
    if let (Some(log), Some(point)) = (log, commit_point.as_mut().filter(|point| is_ours(point))) {
        let apart = apart.filter(is_ours).map_or(0, |point| point.commits);
        built.from_log = log.replay(point.commits, apart, &mut backend, &mut ledger)?;
        point.commits = built.from_log.map_or(point.commits, |replayed| replayed.last);
    }
    built.replayed = journal.replay(commit_point.as_ref(), &mut backend, &mut ledger)?;
    // No later commit may get the number of one that is lost.
    let known = [commit_point.map(|point| point.commits), Reached::read(dir).map(|reached| reached.highest())];
    ledger.skip_to(known.into_iter().flatten().max().unwrap_or(0));
    let ops = staging.map_or_else(Vec::new, |staging| provenance::restored(&staging.names()));
    ledger.apply(&mut backend, ops).map_err(BackendError::writing)?;
    backend.checkpoint().map_err(BackendError::writing)?;
    Ok(built)
}
