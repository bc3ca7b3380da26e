//! Backups: dumps in the store's own directory, made every hour, the old ones removed; and restoring one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::batch::Op;
use super::dump::{Dumped, Restored, Writer};
use super::folder::Folder;
use super::layout::create_private_dir;
use super::lock::DirLock;
use super::request::Request;
use super::{Direction, KeyRange, Row, Store, StoreError, Table, archive, build, unfinished};
use crate::clock::unix_ms;

/// Where backups are, below the data directory.
const DIRECTORY: &str = "backups";
const PREFIX: &str = "warmpool-";
const SUFFIX: &str = ".jsonl";
/// The newest backups are kept whenever they were made.
const KEEP_NEWEST: usize = 4;
/// Rows read at a time.
const PAGE: usize = 256;

/// Runs blocking file work off the async threads.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(StoreError::Io { doing: "write a dump".to_owned(), source: std::io::Error::other(error) }),
    }
}

pub(super) async fn write_dump(store: &Store, path: &Path, folders: &[Folder]) -> Result<Dumped, StoreError> {
    // A store in memory has no folders beside it.
    let with_files = store.directory().filter(|_| !folders.is_empty()).map(|data| (data.to_owned(), folders.to_vec()));
    let (path, in_archive) = (path.to_owned(), with_files.is_some());
    let mut writer =
        off_thread(move || if in_archive { archive::create(&path) } else { Writer::create(&path) }).await?;
    store.call(|reply| Request::StartCapture { reply }).await?;
    for table in Table::ALL {
        let mut range = KeyRange::all();
        loop {
            let rows = store.scan(table, range.clone(), PAGE, Direction::Ascending).await?;
            let Some(last) = rows.last() else { break };
            range = range.after(&last.key);
            writer = off_thread(move || {
                for Row { key, value } in &rows {
                    writer.change(table, key, Some(value))?;
                }
                Ok(writer)
            })
            .await?;
        }
    }
    let changes = store.call(|reply| Request::EndCapture { reply }).await?;
    let min_free = store.options().min_free_bytes;
    off_thread(move || {
        for Op { table, key, value } in &changes {
            writer.change(*table, key, value.as_deref())?;
        }
        match with_files {
            Some((data, folders)) => archive::finish(writer, &data, &folders, min_free),
            None => writer.finish(),
        }
    })
    .await
}

/// A new name in the directory of backups, which is created if need be.
pub(super) fn next_path(dir: &Path) -> Result<PathBuf, StoreError> {
    let backups = dir.join(DIRECTORY);
    create_private_dir(&backups)?;
    // Two within a millisecond must not share a name.
    let newest = list(dir).first().map_or(0, |(ms, _)| *ms);
    let name = format!("{PREFIX}{}{SUFFIX}", unix_ms().max(newest + 1));
    Ok(backups.join(name))
}

pub(super) async fn backup(store: &Store, dir: &Path) -> Result<Dumped, StoreError> {
    let dir = dir.to_owned();
    let (within, context) = (dir.clone(), store.context());
    let path = off_thread(move || match context.disk_nearly_full(false) {
        Some(refusal) => Err(refusal),
        None => next_path(&within),
    })
    .await?;
    let dumped = write_dump(store, &path, &[]).await?;
    let options = store.options().clone();
    off_thread(move || {
        rotate(&dir, options.backup_interval, options.backups_kept);
        Ok(())
    })
    .await?;
    Ok(dumped)
}

/// Removes dumps that an earlier process did not finish.
pub(super) fn remove_unfinished(dir: &Path) {
    let entries = fs::read_dir(dir.join(DIRECTORY)).into_iter().flatten().filter_map(Result::ok);
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(PREFIX)
            && name.ends_with(unfinished::SUFFIX)
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "cannot remove an unfinished backup");
        }
    }
}

/// The backups of a data directory with their times, newest first.
pub(super) fn list(dir: &Path) -> Vec<(u64, PathBuf)> {
    let Ok(entries) = fs::read_dir(dir.join(DIRECTORY)) else {
        return Vec::new();
    };
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_name()?.to_str()?;
            let ms = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok()?;
            Some((ms, path))
        })
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
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

/// Removes backups past their time. What cannot be removed is tried again next time.
fn rotate(dir: &Path, interval: Duration, keep: usize) {
    let backups = list(dir);
    let times: Vec<u64> = backups.iter().map(|(ms, _)| *ms).collect();
    for ((_, path), keep) in backups.iter().zip(kept(&times, interval, keep)) {
        if !keep && let Err(error) = fs::remove_file(path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove an old backup");
        }
    }
}

/// Makes a backup every `backup_interval` until told to stop. Failures are logged and tried again sooner.
pub(crate) async fn run_backups(store: Store, stop: CancellationToken) {
    let Some(dir) = store.directory().map(Path::to_owned) else {
        return;
    };
    let every = store.options().backup_interval;
    if store.options().backups_kept == 0 {
        return;
    }
    let mut wait = {
        let newest = off_thread(move || Ok(list(&dir).first().map_or(0, |(ms, _)| *ms))).await.unwrap_or(0);
        let age = Duration::from_millis(unix_ms().saturating_sub(newest));
        every.saturating_sub(age)
    };
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        wait = match store.backup().await {
            Ok(dumped) => {
                tracing::info!(path = %dumped.path.display(), lines = dumped.lines, bytes = dumped.bytes, "backup written");
                every
            }
            Err(StoreError::Closed | StoreError::Failed) => return,
            Err(error) => {
                tracing::error!(%error, "backup failed");
                every / 12
            }
        };
    }
}

/// Replaces the store in `dir`, which no process may be using, by the contents of a dump, and those of `folders`
/// that the dump holds. What was there is kept beside it as `db.replaced-<unix ms>`, and so on. Blocks.
///
/// # Errors
/// [`StoreError::Locked`] while a daemon runs, [`StoreError::Backup`] if the file is not whole, and then
/// nothing has changed; [`StoreError::Io`].
pub fn restore(dir: &Path, file: &Path, folders: &[Folder]) -> Result<Restored, StoreError> {
    create_private_dir(dir)?;
    let _lock = DirLock::take(dir)?;
    build::replace(dir, file, folders)
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
}
