//! Opening the database, and what to do when it is damaged: put it aside, restore the newest backup, replay the log since then, say so.
//!
//! Every step can be cut off by the death of the process and is then taken up by the next start:
//! `db.trouble` says what the last one was doing.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::backend::{Backend as _, BackendError};
use super::build::{Built, build, finish_replacing};
use super::dump::{self, DiscardTarget, Restored};
use super::journal::FileJournal;
use super::kept_log::{self, LogFiles};
use super::layout::{
    ASIDE, DATABASE, MARK, STAGING, UNFINISHED, UNFINISHED_JOURNAL, create_private_dir, numbered, sync_parent,
};
use super::ledger::{CommitPoint, Ledger};
use super::lock::DirLock;
use super::mark::Reached;
use super::recovery_file::{RecoveryCause, RecoveryFile, RecoveryNotes};
use super::schema::{self, MIGRATIONS, SCHEMA_VERSION};
use super::verify::{Database, OpenError, Sound, open_and_verify};
use super::{StoreError, StoreOptions, Table, archive, backup_folder, provenance};
use warmpool_core::clock::unix_ms;

/// How many starts may crash while opening before the database counts as the reason.
const MAX_UNFINISHED_OPENS: u32 = 3;
/// Damaged databases that are kept for inspection.
const KEEP_CORRUPT: usize = 5;

/// A database was given up and replaced. Its `Display` is the sentence for the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recovery {
    /// Why.
    pub cause: RecoveryCause,
    /// Where the old database is now; none if it was gone.
    pub quarantined: Option<PathBuf>,
    /// The backup it was replaced with; none if there was none, and then everything is gone.
    pub restored: Option<Restored>,
    /// Newer backups, and the file of the keys that no backup has, where they were not usable, and why.
    pub unusable: Vec<String>,
    /// How many commits after the backup were made again from the log.
    pub from_log: u64,
    /// How many irrevocable batches were made again since they came after that.
    pub replayed: u64,
    /// How many other commits came after the backup, or at all where there was none, and are lost; none where that is not known.
    pub lost: Option<u64>,
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
                "it was replaced by the backup {} from Unix time {} s: {}",
                restored.path.display(),
                restored.created_ms / 1000,
                match self.lost {
                    Some(0) if self.unusable.is_empty() => "nothing is lost".to_owned(),
                    Some(0) => "no later change is lost".to_owned(),
                    Some(lost) => format!("later changes are lost: {lost} commits"),
                    None => "later changes are lost".to_owned(),
                }
            )?,
            None => {
                f.write_str("there was no usable backup: the store starts empty")?;
                if let Some(lost) = self.lost {
                    write!(f, ", and {lost} commits are lost")?;
                }
            }
        }
        if self.from_log > 0 {
            write!(f, "; {} commits after it were made again from the log", self.from_log)?;
        }
        if self.replayed > 0 {
            write!(
                f,
                "; {} irrevocable changes after it, such as revocations and deletions, were made again",
                self.replayed
            )?;
        }
        for reason in &self.unusable {
            write!(f, "; not usable: {reason}")?;
        }
        Ok(())
    }
}

/// An open database, and what had to be recovered.
pub(super) struct OpenedDatabase {
    pub(super) backend: Database,
    pub(super) ledger: Ledger,
    pub(super) recovery: Option<Recovery>,
}

/// Opens the store's database, or its replacement.
pub(super) fn open(dir: &Path, options: &StoreOptions) -> Result<(OpenedDatabase, DirLock), StoreError> {
    create_private_dir(dir)?;
    let lock = DirLock::take(dir)?;
    finish_replacing(dir)?;
    remove_unfinished(dir);
    let recovery_file = RecoveryFile::in_dir(dir);
    let mut notes = recovery_file.read();
    let database = dir.join(DATABASE);
    if notes.replacing.is_none() && !exists(dir) {
        // It would be of another history.
        kept_log::forget_all(dir);
        build(dir, None, None)?;
    }
    let (cause, quarantined) = match notes.replacing.take() {
        Some(pending) => pending,
        None => match try_open(dir, &recovery_file, &mut notes, options) {
            Ok((mut backend, mut ledger)) => {
                make_irrevocable(dir, &mut backend, &mut ledger)?;
                recovery_file.clear()?;
                return Ok((OpenedDatabase { backend, ledger, recovery: None }, lock));
            }
            Err(OpenError::GiveUp(cause)) => {
                let name = format!("{DATABASE}.corrupt-{}", unix_ms());
                (cause, dir.join(name))
            }
            Err(error) => return Err(refuse(dir, error, notes, options, lock)),
        },
    };
    notes.replacing = Some((cause.clone(), quarantined.clone()));
    recovery_file.write(&notes)?;
    let recovery = replace_damaged(dir, cause, quarantined)?;
    tracing::error!(%recovery, "the store was damaged");
    let (mut backend, mut ledger) = match open_and_verify(&database, options, None) {
        Ok(sound) => sound,
        Err(error) => return Err(refuse(dir, error, notes, options, lock)),
    };
    migrate(dir, &mut backend, &mut ledger)?;
    if recovery.lost != Some(0) {
        ledger.apply(&mut backend, provenance::went_back()).map_err(BackendError::writing)?;
        make_durable(&mut backend)?;
    }
    if options.keeps_log()
        && let Err(error) = begin_log(dir, &backend, &ledger)
    {
        tracing::warn!(%error, "the recovered database has no backup yet");
        kept_log::forget_all(dir);
    }
    if recovery.unusable.is_empty() {
        // A daemon whose database is damaged again and again must not fill the disk before its next hourly backup.
        backup_folder::rotate(dir, options.backup_interval, options.backups_kept);
    }
    recovery_file.clear()?;
    let recovery = Some(recovery);
    Ok((OpenedDatabase { backend, ledger, recovery }, lock))
}

/// Backs up a database that was recovered: its log has to go on from a backup.
fn begin_log(dir: &Path, backend: &Database, ledger: &Ledger) -> Result<(), StoreError> {
    let history = FileJournal::open(dir)?.history().to_owned();
    let commits = ledger.commits();
    kept_log::begin(dir)?;
    dump_all(dir, backend, CommitPoint { history, commits })?;
    // Also what has greater numbers: where nobody knew how far the lost database had come, they are given once more.
    kept_log::forget(dir, u64::MAX);
    kept_log::forget_apart(dir, u64::MAX);
    Ok(())
}

/// Writes down why a start opened no database, and says it. Where the database is still being opened, nobody opens it again in this
/// process, which is to end.
fn refuse(dir: &Path, error: OpenError, mut notes: RecoveryNotes, options: &StoreOptions, lock: DirLock) -> StoreError {
    if matches!(error, OpenError::TimedOut | OpenError::Cancelled) {
        std::mem::forget(lock);
    }
    // The data is not known to be to blame, so this start does not count. What earlier ones noted stays.
    notes.unfinished_opens = 0;
    notes.timed_out_opens += u32::from(matches!(error, OpenError::TimedOut));
    if let Err(error) = RecoveryFile::in_dir(dir).write(&notes) {
        return error;
    }
    let database = dir.join(DATABASE);
    match error {
        OpenError::Error(error) => error,
        OpenError::GiveUp(cause) => StoreError::io("open the restored", &database)(io::Error::other(cause.to_string())),
        OpenError::TimedOut => {
            StoreError::OpenTimedOut { database, limit: options.open_timeout, times: notes.timed_out_opens }
        }
        OpenError::Cancelled => StoreError::Cancelled,
    }
}

/// Makes all that was applied to a database durable.
fn make_durable(backend: &mut Database) -> Result<(), StoreError> {
    backend.flush().and_then(|()| backend.barrier()?.wait()).map_err(BackendError::writing)
}

/// Makes what is irrevocable again where a database that was put here by hand lacks it, and lets no later commit have the number of
/// one that was lost with the power: a backup may hold that one, and would then count as newer than what is irrevocable.
fn make_irrevocable(dir: &Path, backend: &mut Database, ledger: &mut Ledger) -> Result<(), StoreError> {
    let mut journal = FileJournal::open(dir)?;
    let commit_point = CommitPoint { history: journal.history().to_owned(), commits: ledger.commits() };
    let replayed = journal.replay(Some(&commit_point), backend, ledger)?;
    if replayed > 0 {
        tracing::warn!(replayed, "irrevocable changes were made again that the database lacked");
    }
    let reached = Reached::read(dir).map(|reached| reached.highest());
    let given = reached.into_iter().chain(backup_folder::newest_commits(dir, journal.history())).max().unwrap_or(0);
    let is_behind = ledger.commits() < given;
    if is_behind {
        // Written now, since the mark will say so.
        ledger.skip_to(given);
        ledger.apply(backend, Vec::new()).map_err(BackendError::writing)?;
    }
    if replayed > 0 || is_behind {
        make_durable(backend)?;
    }
    Ok(())
}

/// Removes what an earlier process was making when it was killed: it may be as large as the data, and is of no use.
fn remove_unfinished(dir: &Path) {
    backup_folder::remove_unfinished(dir);
    kept_log::remove_unfinished(dir);
    for path in [dir.join(UNFINISHED), dir.join(STAGING)] {
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "cannot remove what was never finished");
            }
            _ => {}
        }
    }
    // Without it the journal itself is whole.
    let _ = fs::remove_file(dir.join(UNFINISHED_JOURNAL));
}

/// Opens the database that is there, unless it is known or found to be bad.
fn try_open(
    dir: &Path,
    recovery_file: &RecoveryFile,
    notes: &mut RecoveryNotes,
    options: &StoreOptions,
) -> Result<Sound, OpenError> {
    if !dir.join(DATABASE).exists() {
        return Err(OpenError::GiveUp(RecoveryCause::Missing));
    }
    if notes.unfinished_opens >= MAX_UNFINISHED_OPENS {
        return Err(OpenError::GiveUp(RecoveryCause::NeverOpened));
    }
    notes.unfinished_opens += 1;
    recovery_file.write(notes).map_err(OpenError::Error)?;
    let marked = Reached::read(dir).map_or(0, |reached| reached.expected());
    // What is kept of the log was on the medium before.
    let expected = marked.max(kept_log::newest(dir).unwrap_or(0));
    let (mut backend, mut ledger) = open_and_verify(&dir.join(DATABASE), options, Some(expected))?;
    let found = ledger.commits();
    let cause = match notes.failed.clone() {
        _ if found < expected => RecoveryCause::Behind { found, expected },
        // It reads well now, but it has failed before: move its content to a fresh one.
        Some(reason) => RecoveryCause::FailedWhileRunning { reason },
        None => {
            migrate(dir, &mut backend, &mut ledger).map_err(OpenError::Error)?;
            return Ok((backend, ledger));
        }
    };
    carry_over(dir, &backend, found).map_err(OpenError::Error)?;
    std::mem::forget(backend);
    Err(OpenError::GiveUp(cause))
}

/// Dumps a database that is given up though what it has is whole, unless the newest backup has as much. A newer file of what is kept apart
/// stays: it lacks what was deleted since, and the log goes on from it.
fn carry_over(dir: &Path, backend: &Database, commits: u64) -> Result<(), StoreError> {
    if backup_folder::newest_has(dir, commits) {
        return Ok(());
    }
    let history = FileJournal::open(dir)?.history().to_owned();
    let apart = archive::read(&backup_folder::apart(dir), &mut DiscardTarget).ok().and_then(|read| read.commit_point);
    let is_newer = apart.is_some_and(|apart| apart.history == history && apart.commits >= commits);
    let commit_point = CommitPoint { history, commits };
    if is_newer { dump_rows(dir, backend, commit_point) } else { dump_all(dir, backend, commit_point) }
}

/// Dumps a database into the directory of backups, and what is kept apart into its file.
fn dump_all(dir: &Path, backend: &Database, commit_point: CommitPoint) -> Result<(), StoreError> {
    let apart = backup_folder::apart_path(dir)?;
    dump::dump_backend(backend, &apart, commit_point.clone(), Table::is_kept_apart)?;
    dump_rows(dir, backend, commit_point)
}

/// Dumps a database into the directory of backups.
fn dump_rows(dir: &Path, backend: &Database, commit_point: CommitPoint) -> Result<(), StoreError> {
    dump::dump_backend(backend, &backup_folder::next_path(dir)?, commit_point, Table::is_backed_up).map(drop)
}

/// Brings the data up to this release; the state before is kept as a backup.
fn migrate(dir: &Path, backend: &mut Database, ledger: &mut Ledger) -> Result<(), StoreError> {
    let before = schema::version(backend).map_err(BackendError::writing)?;
    if before.is_some_and(|version| version < SCHEMA_VERSION) {
        let history = FileJournal::open(dir)?.history().to_owned();
        dump_all(dir, backend, CommitPoint { history, commits: ledger.commits() })?;
    }
    schema::migrate(backend, ledger, MIGRATIONS).map_err(BackendError::writing)
}

/// Puts the damaged database aside, if that is not done yet, and builds another from the newest good backup.
fn replace_damaged(dir: &Path, cause: RecoveryCause, quarantined: PathBuf) -> Result<Recovery, StoreError> {
    // An operator puts one aside that does not open. Its log is needed all the same.
    let given_up = [DATABASE, ASIDE].map(|name| dir.join(name)).into_iter().find(|path| path.exists());
    if let Some(given_up) = given_up.filter(|_| !quarantined.exists()) {
        fs::rename(&given_up, &quarantined).map_err(StoreError::io("rename", &given_up))?;
        sync_parent(&given_up)?;
        forget_oldest_corrupt(dir);
    }
    let log = match Reached::read(dir) {
        Some(reached) => {
            let needed = reached.expected().max(FileJournal::open(dir)?.last()?);
            Some(LogFiles::find(dir, &quarantined, needed))
        }
        // Nobody knows where it ends.
        None => None,
    };
    let mut unusable = Vec::new();
    let mut built = None;
    for (_, file) in backup_folder::list(dir) {
        match build(dir, Some(&file), log.as_ref()) {
            Ok(found) => {
                built = Some(found);
                break;
            }
            Err(
                error @ (StoreError::Backup { .. } | StoreError::NewerSchema { .. } | StoreError::NewerTable { .. }),
            ) => {
                unusable.push(error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    let Built { restored, from_log, replayed, unusable: apart } = match built {
        Some(built) => built,
        None => build(dir, None, None)?,
    };
    unusable.extend(apart.map(|reason| format!("{}: {reason}", backup_folder::apart(dir).display())));
    let commit_point = restored.as_ref().and_then(|restored| restored.commit_point.as_ref());
    let reached = Reached::read(dir).map(|reached| reached.highest());
    let backed_up = if restored.is_some() { commit_point.map(|point| point.commits) } else { Some(0) };
    let kept = from_log.map(|replayed| replayed.last).or(backed_up);
    let after = reached.zip(kept).map(|(reached, kept)| reached.saturating_sub(kept));
    let lost = after.map(|after| after.saturating_sub(replayed));
    let quarantined = quarantined.exists().then_some(quarantined);
    let from_log = from_log.map_or(0, |replayed| replayed.commits);
    Ok(Recovery { cause, quarantined, restored, unusable, from_log, replayed, lost })
}

/// Whether a database is here, or was.
pub(super) fn exists(dir: &Path) -> bool {
    dir.join(DATABASE).exists() || had_database(dir)
}

/// Whether there is a backup or an earlier database: then one that is missing must not silently begin anew.
fn had_database(dir: &Path) -> bool {
    let earlier = format!("{DATABASE}.");
    let kinds = ["corrupt-", "replaced-", "aside"];
    let kept = |name: &str| kinds.iter().any(|kind| name.starts_with(&format!("{earlier}{kind}")));
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    dir.join(MARK).exists()
        || !backup_folder::list(dir).is_empty()
        || entries.into_iter().any(|entry| kept(&entry.file_name().to_string_lossy()))
}

/// Keeps the newest few; each may be as large as the database was.
fn forget_oldest_corrupt(dir: &Path) {
    let found = numbered(dir, &format!("{DATABASE}.corrupt-"), "");
    for (_, path) in found.iter().skip(KEEP_CORRUPT) {
        if let Err(error) = fs::remove_dir_all(path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove an old damaged database");
        }
    }
}
