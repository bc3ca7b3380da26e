//! Opening the database, and what to do when it is damaged: put it aside, restore the newest backup, say so.
//!
//! Every step can be cut off by the death of the process and is then taken up by the next start:
//! `db.trouble` says what the last one was doing.

use std::fmt;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use serde::Serialize;

use super::backend::{Backend, BackendError};
use super::build::{build, writing};
use super::dump::{self, Restored};
use super::layout::{DATABASE, STAGING, UNFINISHED, create_private_dir, sync_parent};
use super::lock::DirLock;
use super::recovery_file::{RecoveryCause, RecoveryFile, RecoveryNotes};
use super::schema::{self, MIGRATIONS, SCHEMA_VERSION};
use super::sled::SledBackend;
use super::{KeyRange, StoreError, StoreOptions, Table, backup_folder, record, thread};
use crate::clock::unix_ms;

/// How many starts may crash while opening before the database counts as the reason.
const MAX_UNFINISHED_OPENS: u32 = 3;
/// Damaged databases that are kept for inspection.
const KEEP_CORRUPT: usize = 5;
/// Rows checked between two signs of progress.
const PAGE: usize = 256;

/// A database was given up and replaced. Its `Display` is the sentence for the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Recovery {
    /// Why.
    pub cause: RecoveryCause,
    /// Where the old database is now; none if it was gone.
    pub quarantined: Option<PathBuf>,
    /// The backup it was replaced with; none if there was none, and then everything is gone.
    pub restored: Option<Restored>,
    /// Newer backups that were not usable, and why.
    pub unusable: Vec<String>,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the database was given up because {}; ", self.cause)?;
        if let Some(quarantined) = &self.quarantined {
            write!(f, "it is kept as {}; ", quarantined.display())?;
        }
        match &self.restored {
            Some(restored) => write!(
                f,
                "it was replaced by the backup {} from Unix time {} s: later changes are lost",
                restored.path.display(),
                restored.created_ms / 1000
            )?,
            None => f.write_str("there was no usable backup: the store starts empty")?,
        }
        for reason in &self.unusable {
            write!(f, "; not usable: {reason}")?;
        }
        Ok(())
    }
}

/// An open database, and what had to be recovered.
pub(super) struct OpenedDatabase {
    pub(super) backend: SledBackend,
    pub(super) recovery: Option<Recovery>,
}

/// Why a database did not open.
#[derive(Debug)]
enum OpenError {
    GiveUp(RecoveryCause),
    Error(StoreError),
}

/// Opens the store's database, or its replacement.
pub(super) fn open(dir: &Path, options: &StoreOptions) -> Result<(OpenedDatabase, DirLock), StoreError> {
    create_private_dir(dir)?;
    let lock = DirLock::take(dir)?;
    remove_unfinished(dir);
    let recovery_file = RecoveryFile::of(dir);
    let mut notes = recovery_file.read();
    let database = dir.join(DATABASE);
    if notes.replacing.is_none() && !exists(dir) {
        build(dir, None)?;
    }
    let (cause, quarantined) = match notes.replacing.take() {
        Some(pending) => pending,
        None => match try_open(dir, &recovery_file, &mut notes, options) {
            Ok(backend) => {
                recovery_file.clear()?;
                let recovery = None;
                return Ok((OpenedDatabase { backend, recovery }, lock));
            }
            Err(OpenError::Error(error)) => {
                // The data is not to blame, so this start does not count. What earlier ones noted stays.
                notes.unfinished_opens = 0;
                recovery_file.write(&notes)?;
                return Err(error);
            }
            Err(OpenError::GiveUp(cause)) => {
                let name = format!("{DATABASE}.corrupt-{}", unix_ms());
                (cause, dir.join(name))
            }
        },
    };
    notes.replacing = Some((cause.clone(), quarantined.clone()));
    recovery_file.write(&notes)?;
    let recovery = replace_damaged(dir, cause, quarantined)?;
    tracing::error!(%recovery, "the store was damaged");
    let mut backend = match open_and_verify(&database, options.open_timeout) {
        Ok(backend) => backend,
        Err(OpenError::Error(error)) => return Err(error),
        Err(OpenError::GiveUp(cause)) => {
            let source = io::Error::other(cause.to_string());
            return Err(StoreError::io("open the restored", &database)(source));
        }
    };
    migrate(dir, &mut backend)?;
    recovery_file.clear()?;
    let recovery = Some(recovery);
    Ok((OpenedDatabase { backend, recovery }, lock))
}

/// Removes what an earlier process was making when it was killed: it may be as large as the data, and is of no use.
fn remove_unfinished(dir: &Path) {
    backup_folder::remove_unfinished(dir);
    for path in [dir.join(UNFINISHED), dir.join(STAGING)] {
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "cannot remove what was never finished");
            }
            _ => {}
        }
    }
}

/// Opens the database that is there, unless it is known or found to be bad.
fn try_open(
    dir: &Path,
    recovery_file: &RecoveryFile,
    notes: &mut RecoveryNotes,
    options: &StoreOptions,
) -> Result<SledBackend, OpenError> {
    if !dir.join(DATABASE).exists() {
        return Err(OpenError::GiveUp(RecoveryCause::Missing));
    }
    if notes.unfinished_opens >= MAX_UNFINISHED_OPENS {
        return Err(OpenError::GiveUp(RecoveryCause::NeverOpened));
    }
    notes.unfinished_opens += 1;
    recovery_file.write(notes).map_err(OpenError::Error)?;
    let mut backend = open_and_verify(&dir.join(DATABASE), options.open_timeout)?;
    if let Some(reason) = notes.failed.clone() {
        // It reads well now, but it has failed before: move its content to a fresh one.
        backup_folder::next_path(dir).and_then(|path| dump::dump_backend(&backend, &path)).map_err(OpenError::Error)?;
        std::mem::forget(backend);
        return Err(OpenError::GiveUp(RecoveryCause::FailedWhileRunning { reason }));
    }
    migrate(dir, &mut backend).map_err(OpenError::Error)?;
    Ok(backend)
}

/// Opens a database in a thread of its own, which is abandoned if it panics or makes no progress.
fn open_and_verify(database: &Path, timeout: Duration) -> Result<SledBackend, OpenError> {
    let progress = Arc::new(AtomicU64::new(0));
    let (done, outcome) = mpsc::sync_channel(1);
    let spawned = std::thread::Builder::new().name("store-open".into()).spawn({
        let progress = Arc::clone(&progress);
        let database = database.to_owned();
        move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let backend = SledBackend::open(&database)?;
                match inspect(&backend, &progress) {
                    Ok(()) => Ok(backend),
                    Err(OpenError::GiveUp(cause)) => {
                        // Closing a damaged database may write to it, hang or panic.
                        std::mem::forget(backend);
                        Err(OpenError::GiveUp(cause))
                    }
                    Err(error) => Err(error),
                }
            }))
            .unwrap_or_else(|panic| {
                let reason = thread::panic_text(panic.as_ref());
                Err(OpenError::GiveUp(RecoveryCause::Damaged { reason }))
            });
            let _ = done.send(outcome);
        }
    });
    if let Err(source) = spawned {
        let doing = "start a thread".to_owned();
        return Err(OpenError::Error(StoreError::Io { doing, source }));
    }
    let mut seen = 0;
    loop {
        match outcome.recv_timeout(timeout) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) if progress.load(Ordering::Relaxed) != seen => {
                seen = progress.load(Ordering::Relaxed);
            }
            Err(RecvTimeoutError::Timeout) => return Err(OpenError::GiveUp(RecoveryCause::TimedOut)),
            Err(RecvTimeoutError::Disconnected) => {
                let reason = "the opening thread died".to_owned();
                return Err(OpenError::GiveUp(RecoveryCause::Damaged { reason }));
            }
        }
    }
}

/// Checks the version, then every record, so that damage shows now and not while sessions run.
fn inspect(backend: &dyn Backend, progress: &AtomicU64) -> Result<(), OpenError> {
    let damaged = |reason: String| OpenError::GiveUp(RecoveryCause::Damaged { reason });
    match schema::version(backend)? {
        Some(found) if found > SCHEMA_VERSION => {
            return Err(OpenError::Error(StoreError::NewerSchema { found, supported: SCHEMA_VERSION }));
        }
        Some(_) => {}
        // A database gets its name only after its version: this one has lost it.
        None => return Err(damaged("the schema version is missing".into())),
    }
    for table in Table::ALL {
        let mut range = KeyRange::all();
        loop {
            let rows = backend.scan(table, &range, PAGE)?;
            let Some((last, _)) = rows.last() else { break };
            range = range.after(last);
            for (key, sealed) in &rows {
                record::open(table, key, sealed).map_err(|error| damaged(format!("table {table}: {error}")))?;
            }
            progress.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

impl From<BackendError> for OpenError {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Io(source) => {
                OpenError::Error(StoreError::Io { doing: "open the database".to_owned(), source })
            }
            BackendError::Damaged(reason) => OpenError::GiveUp(RecoveryCause::Damaged { reason }),
        }
    }
}

/// Brings the data up to this release; the state before is kept as a backup.
fn migrate(dir: &Path, backend: &mut SledBackend) -> Result<(), StoreError> {
    let before = schema::version(backend).map_err(writing)?;
    if before.is_some_and(|version| version < SCHEMA_VERSION) {
        dump::dump_backend(backend, &backup_folder::next_path(dir)?)?;
    }
    schema::migrate(backend, MIGRATIONS).map_err(writing)
}

/// Puts the damaged database aside, if that is not done yet, and builds another from the newest good backup.
fn replace_damaged(dir: &Path, cause: RecoveryCause, quarantined: PathBuf) -> Result<Recovery, StoreError> {
    let database = dir.join(DATABASE);
    if !quarantined.exists() && database.exists() {
        fs::rename(&database, &quarantined).map_err(StoreError::io("rename", &database))?;
        sync_parent(&database)?;
        forget_oldest_corrupt(dir);
    }
    let mut unusable = Vec::new();
    let mut restored = None;
    for (_, file) in backup_folder::list(dir) {
        match build(dir, Some(&file)) {
            Ok(found) => {
                restored = found;
                break;
            }
            Err(error @ (StoreError::Backup { .. } | StoreError::NewerSchema { .. })) => {
                unusable.push(error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    if restored.is_none() {
        build(dir, None)?;
    }
    let quarantined = quarantined.exists().then_some(quarantined);
    Ok(Recovery { cause, quarantined, restored, unusable })
}

/// Whether a database is here, or was.
pub(super) fn exists(dir: &Path) -> bool {
    dir.join(DATABASE).exists() || had_database(dir)
}

/// Whether there is a backup or an earlier database: then one that is missing must not silently begin anew.
fn had_database(dir: &Path) -> bool {
    let earlier = format!("{DATABASE}.");
    let kept = |name: &str| ["corrupt-", "replaced-"].iter().any(|kind| name.starts_with(&format!("{earlier}{kind}")));
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    !backup_folder::list(dir).is_empty() || entries.into_iter().any(|entry| kept(&entry.file_name().to_string_lossy()))
}

/// Keeps the newest few; each may be as large as the database was.
fn forget_oldest_corrupt(dir: &Path) {
    let prefix = format!("{DATABASE}.corrupt-");
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let ms = path.file_name()?.to_str()?.strip_prefix(&prefix)?.parse().ok()?;
            Some((ms, path))
        })
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    for (_, path) in found.iter().skip(KEEP_CORRUPT) {
        if let Err(error) = fs::remove_dir_all(path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove an old damaged database");
        }
    }
}
