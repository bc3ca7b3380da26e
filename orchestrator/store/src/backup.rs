//! Backups: dumps in the store's own directory, made every hour, the old ones removed; and restoring one.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backup_folder::{list, next_path, rotate};
use super::batch::Op;
use super::dump::{Restored, Writer, WrittenDump};
use super::folder::Folder;
use super::layout::create_private_dir;
use super::ledger::is_ledger;
use super::lock::DirLock;
use super::request::Request;
use super::unfinished::Room;
use super::{Row, SCHEMA_VERSION, Store, StoreError, Table, archive, backup_folder, build, dump, kept_log, wal};
use warmpool_core::clock::unix_ms;

/// Time between two looks at how long the log is.
const LOOK_AT_LOG: Duration = Duration::from_secs(60);

/// Runs blocking file work off the async threads.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(StoreError::during("write a dump"))?
}

async fn write_dump(store: &Store, path: &Path, folders: &[Folder]) -> Result<WrittenDump, StoreError> {
    let with_files = (!folders.is_empty()).then(|| (store.directory().to_owned(), folders.to_vec()));
    let (path, in_archive) = (path.to_owned(), with_files.is_some());
    let (dir, min_free, context) = (store.directory().to_owned(), store.options().min_free_bytes, store.context());
    let writer = off_thread(move || {
        let newest = list(&dir).first().and_then(|(_, newest)| newest.metadata().ok());
        let expected = newest.map_or_else(|| context.monitor.size_bytes(), |newest| newest.len());
        let room = Room { min_free, expected };
        if in_archive { archive::create(&path, room) } else { Writer::create(&path, SCHEMA_VERSION, room) }
    })
    .await?;
    store.call(|reply| Request::StartCapture { reply }).await?;
    let written = write_tables(store, writer, Table::is_backed_up).await;
    // Also where the rows could not be written: nothing must gather for a dump that is over.
    let captured = store.call(|reply| Request::EndCapture { reply }).await;
    let mut writer = written?;
    let (changes, commits) = captured?;
    let commit_point = store.commit_point(commits);
    let dumped = off_thread(move || {
        for Op { table, key, value } in changes.iter().filter(|op| op.table.is_backed_up()) {
            writer.change(*table, key, value.as_deref())?;
        }
        match with_files {
            Some((data, folders)) => archive::finish(writer, commit_point, &data, &folders),
            None => writer.finish(commit_point),
        }
    })
    .await?;
    // After it, so that it has the keys of every patient whom the dump has.
    store.write_apart().await?;
    Ok(dumped)
}

async fn write_tables(
    store: &Store,
    mut writer: Writer,
    which: impl Fn(Table) -> bool + Send,
) -> Result<Writer, StoreError> {
    for table in Table::ALL.into_iter().filter(|table| which(*table)) {
        writer = write_table(store, writer, table).await?;
    }
    Ok(writer)
}

async fn write_table(store: &Store, mut writer: Writer, table: Table) -> Result<Writer, StoreError> {
    let mut pages = store.pages(table);
    while let Some(rows) = pages.next().await? {
        writer = off_thread(move || {
            for Row { key, value } in rows.iter().filter(|row| !is_ledger(table, &row.key)) {
                writer.change(table, key, Some(value))?;
            }
            Ok(writer)
        })
        .await?;
    }
    Ok(writer)
}

impl Store {
    /// Writes everything into a new file while commits go on: JSON lines with counts and a hash, in a tar with the files of
    /// `folders` if there are any. It holds the state at one moment between call and return, and the files a little later.
    /// Errors: those of reading; [`StoreError::Io`]; [`StoreError::DumpOverrun`] under an extreme rate of changes;
    /// [`StoreError::DiskNearlyFull`] where it would fill the disk.
    pub async fn dump(&self, file: &Path, folders: &[Folder]) -> Result<WrittenDump, StoreError> {
        let _one = self.dumping().await;
        write_dump(self, file, folders).await
    }

    /// Writes the file of what is kept apart anew: with what there is now, and nothing that was deleted before.
    /// Errors: those of reading; [`StoreError::Io`]; [`StoreError::DiskNearlyFull`] where even essential commits are refused.
    pub(super) async fn write_apart(&self) -> Result<(), StoreError> {
        let dir = self.directory().to_owned();
        let _one = self.writing_apart().await;
        let room = Room::essential(self.options().min_free_bytes);
        // It has these at least: the log that goes on from it may have some of its changes, too.
        let commits = self.context().mark.last_flushed();
        let within = dir.clone();
        let create = move || Writer::create(&backup_folder::apart_path(&within)?, SCHEMA_VERSION, room);
        let writer = write_tables(self, off_thread(create).await?, Table::is_kept_apart).await?;
        let commit_point = self.commit_point(commits);
        off_thread(move || {
            writer.finish(commit_point)?;
            kept_log::forget_apart(&dir, commits);
            Ok(())
        })
        .await
    }

    /// Removes the log that was set aside, if there is one: it may hold what is about to be deleted from all files.
    pub(super) async fn forget_unread_log(&self) {
        let dir = self.directory().to_owned();
        if let Err(error) = off_thread(move || wal::forget_unread(&dir)).await {
            tracing::warn!(%error, "a log that was set aside may hold keys that are deleted");
        }
    }

    /// Dumps into the store's directory of backups and removes old ones.
    /// Errors: those of [`Store::dump`].
    pub async fn backup(&self) -> Result<WrittenDump, StoreError> {
        self.with_log(self.backup_now()).await
    }

    /// Keeps the log from before a backup on: not a commit may be in neither.
    async fn with_log<T>(&self, backup: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if !self.options().keeps_log() {
            return backup.await;
        }
        let dir = self.directory().to_owned();
        let begins = off_thread(move || kept_log::begin(&dir)).await?;
        let outcome = backup.await;
        if begins && outcome.is_err() {
            let dir = self.directory().to_owned();
            off_thread(move || {
                kept_log::forget_all(&dir);
                Ok(())
            })
            .await?;
        }
        outcome
    }

    async fn backup_now(&self) -> Result<WrittenDump, StoreError> {
        let dir = self.directory().to_owned();
        let _one = self.dumping().await;
        let (within, context) = (dir.clone(), self.context());
        let path = off_thread(move || match context.disk_nearly_full(false) {
            Some(refusal) => Err(refusal),
            None => next_path(&within),
        })
        .await?;
        let dumped = write_dump(self, &path, &[]).await?;
        let (options, path) = (self.options().clone(), dumped.path.clone());
        off_thread(move || {
            if let Some(moment) = dump::moment_of(&path) {
                kept_log::forget(&dir, moment.commits);
            }
            rotate(&dir, options.backup_interval, options.backups_kept);
            backup_folder::remove_with_keys(&dir);
            Ok(())
        })
        .await?;
        Ok(dumped)
    }

    /// Makes a backup, unless the newest one has all that was committed. What is kept apart is small and written anew in any case, since
    /// the attempt that wrote the newest backup may have failed at that.
    /// Errors: those of [`Store::backup`].
    pub(super) async fn backup_if_changed(&self) -> Result<Option<WrittenDump>, StoreError> {
        self.with_log(async {
            let (dir, state) = (self.directory().to_owned(), self.commit_point(self.context().mark.last_flushed()));
            if !off_thread(move || backup_folder::confirm_newest(&dir, &state)).await? {
                return self.backup_now().await.map(Some);
            }
            self.write_apart().await?;
            Ok(None)
        })
        .await
    }
}

/// Whether the log does not go on from the newest backup, or is as long as it may be.
async fn log_wants_backup(store: &Store) -> bool {
    let (dir, options) = (store.directory().to_owned(), store.options());
    let most = options.kept_log_bytes;
    let look = move || Ok(kept_log::is_missing(&dir) || kept_log::bytes(&dir) >= most);
    options.keeps_log() && off_thread(look).await.unwrap_or(false)
}

/// Makes a backup every `backup_interval` in which something was committed, and one for the log where that wants it, until `stop`. Logs
/// failures and tries again sooner.
pub async fn run_backups(store: Store, stop: CancellationToken) {
    let dir = store.directory().to_owned();
    let every = store.options().backup_interval;
    let within = dir.clone();
    // A new one takes their place.
    if off_thread(move || Ok(backup_folder::any_with_keys(&within))).await.unwrap_or(false)
        && let Err(error) = store.backup().await
    {
        tracing::error!(%error, "backups of an earlier release still hold patients' keys");
    }
    let within = dir.clone();
    // A process that died amid a deletion has left the key there.
    if off_thread(move || Ok(backup_folder::apart(&within).exists())).await.unwrap_or(false)
        && let Err(error) = store.write_apart().await
    {
        tracing::warn!(%error, "the file of patients' keys may still hold deleted ones");
    }
    if store.options().backups_kept == 0 {
        return;
    }
    let mut due = {
        let within = dir.clone();
        let newest = off_thread(move || Ok(list(&within).first().map_or(0, |(ms, _)| *ms))).await.unwrap_or(0);
        let age = Duration::from_millis(unix_ms().saturating_sub(newest));
        Instant::now() + every.saturating_sub(age)
    };
    let mut look = Instant::now();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep_until(due.min(look)) => {}
        }
        look = Instant::now() + LOOK_AT_LOG;
        if Instant::now() < due && !log_wants_backup(&store).await {
            continue;
        }
        let wait = match store.backup_if_changed().await {
            Ok(Some(dumped)) => {
                tracing::info!(path = %dumped.path.display(), lines = dumped.lines, bytes = dumped.bytes, "backup written");
                every
            }
            Ok(None) => every,
            Err(StoreError::Closed | StoreError::Failed) => return,
            Err(error) => {
                tracing::error!(%error, "backup failed");
                look = Instant::now() + every / 12;
                every / 12
            }
        };
        due = Instant::now() + wait;
    }
}

/// Replaces the store in `dir`, which no process may be using, by the contents of a dump, and those of `folders`
/// that the dump holds. What was there is kept beside it as `db.replaced-<unix ms>`, and so on. Blocks.
/// Errors: [`StoreError::Locked`] while a daemon runs, [`StoreError::Backup`] if the file is not whole, and then nothing has
/// changed; [`StoreError::Io`].
pub fn restore(dir: &Path, file: &Path, folders: &[Folder]) -> Result<Restored, StoreError> {
    create_private_dir(dir)?;
    let _lock = DirLock::take(dir)?;
    build::replace(dir, file, folders)
}
