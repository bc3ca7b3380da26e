//! The write-ahead log since the newest backup. Where the database is damaged, the two have all that was answered.
//!
//! The log itself is emptied whenever the database has its commits. What it held is kept here before that, until a backup has it:
//!
//! ```text
//! db.log/<commit>.wal     commits up to the one of this number, as the log had them
//! db.log/<commit>.apart   their changes of rows that no backup has, until the file of these rows is written anew
//! ```
//!
//! The latter end with a checksum: nothing else tells that a part of them is missing. Each commit says whether it has changes there, so
//! that a whole file that is missing is noticed. The folder is there as long as the log goes on from the newest backup without a gap.
//! Where it is missing, a backup is due.
//!
//! The log is replayed to its end or not at all. A log with a gap could make a row again and lack the row's irrevocable deletion, of which
//! the journal has no line once no backup has the row.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::backend::{Backend, BackendError};
use super::batch::Op;
use super::layout::{KEPT_LOG, UNREAD_WAL, WAL, create_private_dir, numbered};
use super::ledger::{Ledger, is_ledger};
use super::wal::{LoggedCommit, read_commits, split_apart};
use super::whole_file::{is_whole, write_whole};
use super::{StoreError, StoreOptions, backup_folder, dump};

const SEGMENT: &str = ".wal";
/// What [`Table::is_kept_apart`](super::Table::is_kept_apart) says of.
const APART: &str = ".apart";

/// So many changes are made again in one transaction.
const AT_ONCE: usize = 1024;

/// Where an open database's log is kept.
#[derive(Debug)]
pub(super) struct KeptLog {
    folder: PathBuf,
    min_free: u64,
    /// It never grows beyond, bytes.
    most: u64,
}

impl KeptLog {
    /// The one beside a database; none where the settings keep none, or make no backup that it could go on from.
    pub(super) fn beside(database: &Path, options: &StoreOptions) -> Option<Self> {
        let dir = database.parent()?;
        // A backup is made once there is half of it.
        let most = options.kept_log_bytes.saturating_mul(2);
        options.keeps_log().then(|| Self { folder: dir.join(KEPT_LOG), min_free: options.min_free_bytes, most })
    }

    /// Keeps what a log holds up to a commit. The store does not need it: where there is no room, all that is kept is given up until the
    /// next backup. `has_apart`: whether there are changes of rows that are kept apart.
    pub(super) fn keep(&self, wal: &Path, last: u64, has_apart: bool) {
        if !self.folder.exists() {
            return;
        }
        if let Err(error) = self.try_keep(wal, last, has_apart) {
            tracing::warn!(%error, "no log is kept beside the database until the next backup");
            give_up(&self.folder);
        }
    }

    /// Gives up what is kept where it does not go on from the newest backup to this commit: the database is ahead of its log after a loss
    /// of power, or the process died in the backup that the log was begun for. `log`: after which commit the log begins and which is
    /// its last one, where it has any.
    pub(super) fn check(&self, log: Option<(u64, u64)>, commits: u64) {
        if self.folder.exists() && !self.goes_on(log, commits).unwrap_or(false) {
            tracing::warn!("the log beside the database lacks commits: none is kept until the next backup");
            give_up(&self.folder);
        }
    }

    /// Gives up what is kept, until the next backup.
    pub(super) fn give_up(&self) {
        give_up(&self.folder);
    }

    fn goes_on(&self, log: Option<(u64, u64)>, commits: u64) -> Result<bool, StoreError> {
        let newest = self.folder.parent().and_then(|dir| backup_folder::list(dir).into_iter().next());
        let Some(backed_up) = newest.and_then(|(_, path)| dump::moment_of(&path)) else { return Ok(false) };
        let segments = numbered(&self.folder, "", SEGMENT);
        let oldest = match segments.last() {
            Some((_, path)) => read_commits(path)?.first().map(|commit| commit.after),
            None => None,
        };
        let kept = segments.first().map_or(backed_up.commits, |(last, _)| (*last).max(backed_up.commits));
        let (begins, ends) = log.unwrap_or((kept, kept));
        Ok(oldest.is_none_or(|after| after <= backed_up.commits) && begins <= kept && ends.max(kept) >= commits)
    }

    fn try_keep(&self, wal: &Path, last: u64, has_apart: bool) -> Result<(), BackendError> {
        let mut segment = fs::read(wal)?;
        let mut apart = Vec::new();
        if has_apart {
            (segment, apart) = split_apart(&segment)?;
        }
        if bytes_of(&self.folder) + segment.len() as u64 > self.most {
            let reason =
                "it would have twice the size of store.kept_log: see why no backup was made, or raise the setting";
            return Err(io::Error::other(reason).into());
        }
        if !apart.is_empty() {
            write_whole(&self.folder.join(format!("{last}{APART}")), &with_sum(apart), self.min_free)?;
        }
        write_whole(&self.folder.join(format!("{last}{SEGMENT}")), &segment, self.min_free)?;
        Ok(())
    }
}

/// Lines with their checksum behind them.
fn with_sum(mut lines: Vec<u8>) -> Vec<u8> {
    let sum = sum_of(&lines);
    lines.extend(sum);
    lines
}

/// Whether a file of such lines is what was written.
fn has_its_sum(file: &[u8]) -> bool {
    file.split_last_chunk().is_some_and(|(lines, sum)| *sum == sum_of(lines))
}

/// Eight hexadecimal digits.
fn sum_of(lines: &[u8]) -> [u8; 8] {
    let sum = hex::encode(crc32fast::hash(lines).to_be_bytes()).into_bytes();
    std::array::from_fn(|at| sum.get(at).copied().unwrap_or_default())
}

/// Begins to keep the log for a backup that is about to be made. Returns whether none was kept before.
/// Errors: `Io`.
pub(super) fn begin(dir: &Path) -> Result<bool, StoreError> {
    let is_missing = is_missing(dir);
    create_private_dir(&dir.join(KEPT_LOG))?;
    Ok(is_missing)
}

/// Whether no log goes on from the newest backup.
pub(super) fn is_missing(dir: &Path) -> bool {
    !dir.join(KEPT_LOG).exists()
}

/// The last commit that is kept, if any is.
pub(super) fn newest(dir: &Path) -> Option<u64> {
    numbered(&dir.join(KEPT_LOG), "", SEGMENT).first().map(|(last, _)| *last)
}

/// Removes what a backup with so many commits has.
pub(super) fn forget(dir: &Path, commits: u64) {
    remove(&dir.join(KEPT_LOG), |name| number(name, SEGMENT).is_some_and(|last| last <= commits));
}

/// Removes what the file of rows that are kept apart has, which was written anew after so many commits.
pub(super) fn forget_apart(dir: &Path, commits: u64) {
    remove(&dir.join(KEPT_LOG), |name| number(name, APART).is_some_and(|last| last <= commits));
}

/// Removes all of it: it does not go on from the newest backup, or nothing else will go on from it.
pub(super) fn forget_all(dir: &Path) {
    give_up(&dir.join(KEPT_LOG));
}

fn give_up(folder: &Path) {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %folder.display(), %error, "cannot remove the log");
        }
        _ => {}
    }
}

/// Removes what an earlier process did not finish.
pub(super) fn remove_unfinished(dir: &Path) {
    remove(&dir.join(KEPT_LOG), |name| !is_whole(name));
}

/// How large it is, bytes.
pub(super) fn bytes(dir: &Path) -> u64 {
    bytes_of(&dir.join(KEPT_LOG))
}

fn bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum()
}

fn number(name: &str, kind: &str) -> Option<u64> {
    name.strip_suffix(kind)?.parse().ok()
}

/// Removes files of these names.
fn remove(folder: &Path, which: impl Fn(&str) -> bool) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for file in entries.filter(|entry| which(&entry.file_name().to_string_lossy())) {
        if let Err(error) = fs::remove_file(file.path()) {
            tracing::warn!(path = %file.path().display(), %error, "cannot remove a part of the log");
        }
    }
}

/// What a log makes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replayed {
    /// How many commits.
    pub(super) commits: u64,
    /// The number of the last.
    pub(super) last: u64,
}

/// The log beside a data directory's backups.
#[derive(Debug)]
pub(super) struct LogFiles {
    commits: Vec<PathBuf>,
    apart: Vec<PathBuf>,
    /// The last commit that it must have.
    needed: u64,
}

impl LogFiles {
    /// What was kept, and what the log of the database that is given up held. It must have the commit of the number `needed`.
    pub(super) fn find(dir: &Path, given_up: &Path, needed: u64) -> Self {
        let kept = |kind: &str| numbered(&dir.join(KEPT_LOG), "", kind).into_iter().rev().map(|(_, path)| path);
        let of_database = [UNREAD_WAL, WAL].map(|name| given_up.join(name));
        Self { commits: kept(SEGMENT).chain(of_database).collect(), apart: kept(APART).collect(), needed }
    }

    /// Passes on the commits after this one, for as long as none is missing. Returns the number of the last.
    fn each_after(
        &self,
        from: u64,
        mut each: impl FnMut(Vec<Op>) -> Result<(), StoreError>,
    ) -> Result<u64, StoreError> {
        let mut last = from;
        for path in &self.commits {
            for LoggedCommit { after, ops, .. } in read_commits(path)? {
                let Some(number) =
                    Ledger::written_by(&ops).map_err(BackendError::writing)?.map(|ledger| ledger.commits())
                else {
                    return Ok(last);
                };
                if number <= last {
                    continue;
                }
                if after != last {
                    return Ok(last);
                }
                each(ops)?;
                last = number;
            }
        }
        Ok(last)
    }

    /// What is missing of the rows that are kept apart, where their own file has so many commits.
    fn lacks_apart(&self, in_file: u64) -> Result<Option<String>, StoreError> {
        let mut split = BTreeSet::new();
        for path in &self.commits {
            let commits = read_commits(path)?.into_iter();
            split.extend(commits.filter(|commit| commit.is_split).map(|commit| commit.after));
        }
        // The file has all up to the commit of this number.
        let mut missing = split.split_off(&in_file);
        for path in &self.apart {
            // A bad sector is damage, too.
            if !fs::read(path).is_ok_and(|file| has_its_sum(&file)) {
                return Ok(Some(format!("{} is damaged", path.display())));
            }
            for commit in read_commits(path)? {
                missing.remove(&commit.after);
            }
        }
        Ok(missing.first().map(|after| format!("the keys of the commit after {after} are missing")))
    }

    /// Makes the commits after that of a backup again, where the file of rows that are kept apart has those up to another one. Nothing
    /// where it lacks one.
    /// Errors: `Io`; `NewerTable`.
    pub(super) fn replay(
        &self,
        from: u64,
        apart: u64,
        backend: &mut dyn Backend,
        ledger: &mut Ledger,
    ) -> Result<Option<Replayed>, StoreError> {
        let mut commits = 0;
        let last = self.each_after(from, |_| {
            commits += 1;
            Ok(())
        })?;
        if last < self.needed {
            tracing::warn!(
                from,
                last,
                needed = self.needed,
                "the log beside the backups lacks commits, and is not used"
            );
            return Ok(None);
        }
        if let Some(why) = self.lacks_apart(apart)? {
            tracing::warn!(why, "the log beside the backups is not used");
            return Ok(None);
        }
        let mut waiting = Vec::new();
        let mut make =
            |waiting: &mut Vec<Op>| ledger.apply(backend, std::mem::take(waiting)).map_err(BackendError::writing);
        let mut take = |ops: Vec<Op>| {
            // What is left out of backups lasts no longer than the database.
            waiting.extend(ops.into_iter().filter(|op| !is_ledger(op.table, &op.key) && !op.table.is_left_out()));
            if waiting.len() >= AT_ONCE { make(&mut waiting) } else { Ok(()) }
        };
        for path in &self.apart {
            // The file of these rows has the earlier ones, and lacks what was deleted since.
            for LoggedCommit { ops, .. } in
                read_commits(path)?.into_iter().filter(|it| (apart..last).contains(&it.after))
            {
                take(ops)?;
            }
        }
        self.each_after(from, take)?;
        make(&mut waiting)?;
        ledger.skip_to(last);
        Ok(Some(Replayed { commits, last }))
    }
}
