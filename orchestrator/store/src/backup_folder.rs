//! The directory of backups: their names, and which of them are kept.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::layout::{create_private_dir, numbered};
use super::ledger::CommitPoint;
use super::schema::KEYS_APART;
use super::{StoreError, Table, dump, unfinished};
use warmpool_core::clock::{millis, unix_ms};

/// Where backups are, below the data directory.
const DIRECTORY: &str = "backups";
const PREFIX: &str = "warmpool-";
const SUFFIX: &str = ".jsonl";
const APART: &str = "patient-keys.jsonl";
/// The newest backups are kept whenever they were made.
const KEEP_NEWEST: usize = 4;

/// A new name in the directory of backups, which is created if need be.
pub(super) fn next_path(dir: &Path) -> Result<PathBuf, StoreError> {
    let backups = dir.join(DIRECTORY);
    create_private_dir(&backups)?;
    // Two within a millisecond must not share a name.
    let newest = list(dir).first().map_or(0, |(ms, _)| *ms);
    let name = format!("{PREFIX}{}{SUFFIX}", unix_ms().max(newest + 1));
    Ok(backups.join(name))
}

/// The file of what is kept apart from the backups.
pub(super) fn apart(dir: &Path) -> PathBuf {
    dir.join(DIRECTORY).join(APART)
}

/// Where the file of what is kept apart is written; its directory is created if need be.
pub(super) fn apart_path(dir: &Path) -> Result<PathBuf, StoreError> {
    create_private_dir(&dir.join(DIRECTORY))?;
    Ok(apart(dir))
}

/// Removes dumps that an earlier process did not finish.
pub(super) fn remove_unfinished(dir: &Path) {
    let entries = fs::read_dir(dir.join(DIRECTORY)).into_iter().flatten().filter_map(Result::ok);
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if (name.starts_with(PREFIX) || name.starts_with(APART))
            && name.ends_with(unfinished::SUFFIX)
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "cannot remove an unfinished backup");
        }
    }
}

/// The backups of a data directory with their times, newest first.
pub(super) fn list(dir: &Path) -> Vec<(u64, PathBuf)> {
    numbered(&dir.join(DIRECTORY), PREFIX, SUFFIX)
}

/// How many commits the newest backup has, if it is of this data directory.
pub(super) fn newest_commits(dir: &Path, history: &str) -> Option<u64> {
    let (_, path) = list(dir).into_iter().next()?;
    dump::moment_of(&path).filter(|newest| newest.history == history).map(|newest| newest.commits)
}

/// Whether the newest backup has as many commits. The history that it names is not asked for: the journal, which names it as well, may be lost
/// together with the end of the database.
pub(super) fn newest_has(dir: &Path, commits: u64) -> bool {
    let newest = list(dir).into_iter().next().and_then(|(_, path)| dump::moment_of(&path));
    newest.is_some_and(|newest| newest.commits >= commits)
}

/// Whether the newest backup holds this state. Its file then gets the present time, so that whoever watches over the age of the newest
/// file sees that it is up to date. Its name keeps the time when it was made.
/// Errors: when the file system refuses.
pub(super) fn confirm_newest(dir: &Path, state: &CommitPoint) -> Result<bool, StoreError> {
    let newest = list(dir).into_iter().next().map(|(_, path)| path);
    let Some(path) = newest.filter(|path| dump::moment_of(path).as_ref() == Some(state)) else { return Ok(false) };
    let confirmed = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
    confirmed.map_err(StoreError::io("set the time of", &path))?;
    Ok(true)
}

/// Of backups at these times, newest first, whether each is kept: the newest few, and one an interval.
fn kept(times: &[u64], interval: Duration, keep: usize) -> Vec<bool> {
    let slot_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX).max(1);
    let mut slots: Vec<u64> = Vec::new();
    times
        .iter()
        .enumerate()
        .map(|(index, ms)| {
            let slot = ms / slot_ms;
            let first_of_slot = slots.last() != Some(&slot);
            if first_of_slot {
                slots.push(slot);
            }
            index < KEEP_NEWEST || (first_of_slot && slots.len() <= keep)
        })
        .collect()
}

/// When a backup was made, by its name. While the clock was ahead, one got a name of the future, and each later one has to have a greater
/// name: the time of the file tells of those.
fn made_ms(name_ms: u64, path: &Path, now_ms: u64) -> u64 {
    if name_ms <= now_ms {
        return name_ms;
    }
    let changed = path.metadata().and_then(|file| file.modified()).ok();
    changed.and_then(|changed| changed.duration_since(UNIX_EPOCH).ok()).map_or(name_ms, millis)
}

/// Removes backups past their time. What cannot be removed is tried again next time.
pub(super) fn rotate(dir: &Path, interval: Duration, keep: usize) {
    let (backups, now) = (list(dir), unix_ms());
    let times: Vec<u64> = backups.iter().map(|(ms, path)| made_ms(*ms, path, now)).collect();
    for ((_, path), keep) in backups.iter().zip(kept(&times, interval, keep)) {
        if !keep && let Err(error) = fs::remove_file(path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove an old backup");
        }
    }
}

/// Removes the backups of earlier releases that hold patients' keys, once there is a newer one.
pub(super) fn remove_with_keys(dir: &Path) {
    let backups = list(dir);
    let apart = |path: &Path| dump::schema_of(path).is_none_or(|schema| schema >= KEYS_APART);
    if !backups.first().is_some_and(|(_, newest)| apart(newest)) {
        return;
    }
    for (_, path) in backups.iter().filter(|(_, path)| !apart(path) && dump::has_rows(path, Table::Patients)) {
        match fs::remove_file(path) {
            Ok(()) => tracing::info!(path = %path.display(), "removed a backup that held patients' keys"),
            Err(error) => tracing::warn!(path = %path.display(), %error, "cannot remove a backup with patients' keys"),
        }
    }
}

/// Whether there are backups of earlier releases that hold patients' keys.
pub(super) fn any_with_keys(dir: &Path) -> bool {
    let held = |path: &Path| {
        dump::schema_of(path).is_some_and(|schema| schema < KEYS_APART) && dump::has_rows(path, Table::Patients)
    };
    list(dir).iter().any(|(_, path)| held(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_few_and_one_an_hour_are_kept() {
        let hour = 3_600_000;
        // Ten within the last hour, then one an hour for forty hours, newest first.
        let mut times: Vec<u64> = (0..10).map(|i| 100 * hour + 60_000 - i * 1000).collect();
        times.extend((1..=40).map(|i| (100 - i) * hour));
        let kept = kept(&times, Duration::from_secs(3600), 24);
        assert_eq!(kept[..10].iter().filter(|keep| **keep).count(), KEEP_NEWEST);
        assert!(kept[0]);
        assert_eq!(kept[10..].iter().filter(|keep| **keep).count(), 23);
        assert!(kept[10] && !kept[49]);
    }

    #[test]
    fn names_of_the_future_do_not_put_all_into_one_hour() {
        let dir = tempfile::tempdir().unwrap();
        create_private_dir(&dir.path().join(DIRECTORY)).unwrap();
        let (hour, now) = (Duration::from_secs(3600), SystemTime::now());
        let backup = |name_ms: u64, age: u32| {
            let path = dir.path().join(DIRECTORY).join(format!("{PREFIX}{name_ms}{SUFFIX}"));
            File::create(&path).unwrap().set_modified(now - hour * age).unwrap();
            path
        };
        let ahead = unix_ms() + 365 * 86_400_000;
        // Made while the clock was ahead, and so for its own clock a moment ago.
        let first = backup(ahead, 0);
        File::open(&first).unwrap().set_modified(now + hour * 24 * 365).unwrap();
        let since: Vec<PathBuf> = (1..=40).map(|number| backup(ahead + u64::from(number), 41 - number)).collect();
        let before = backup(unix_ms() - 60 * 3_600_000, 60);
        rotate(dir.path(), hour, 24);
        let left: Vec<PathBuf> = list(dir.path()).into_iter().map(|(_, path)| path).collect();
        let newest: Vec<PathBuf> = since.iter().rev().take(24).cloned().collect();
        assert_eq!(left, newest);
        assert!(!first.exists() && !before.exists());
    }
}
