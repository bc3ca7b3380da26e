//! Backups: dumps in the store's own directory, made every hour, the old ones removed; and restoring one.

use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::backup_folder::{list, next_path, rotate};
use super::batch::Op;
use super::dump::{Restored, Writer, WrittenDump};
use super::folder::Folder;
use super::layout::create_private_dir;
use super::lock::DirLock;
use super::request::Request;
use super::{KeyRange, Row, Store, StoreError, Table, archive, build};
use crate::clock::unix_ms;

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

async fn write_dump(store: &Store, path: &Path, folders: &[Folder]) -> Result<WrittenDump, StoreError> {
    // A store in memory has no folders beside it.
    let with_files = store.directory().filter(|_| !folders.is_empty()).map(|data| (data.to_owned(), folders.to_vec()));
    let (path, in_archive) = (path.to_owned(), with_files.is_some());
    let mut writer =
        off_thread(move || if in_archive { archive::create(&path) } else { Writer::create(&path) }).await?;
    store.call(|reply| Request::StartCapture { reply }).await?;
    for table in Table::ALL {
        let mut range = KeyRange::all();
        loop {
            let rows = store.scan(table, range.clone(), PAGE).await?;
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

impl Store {
    /// Writes everything into a new file while commits go on: JSON lines with counts and a hash, in a tar with the files of
    /// `folders` if there are any. It holds the state at one moment between call and return, and the files a little later.
    /// Errors: those of reading; [`StoreError::Io`]; [`StoreError::DumpOverrun`] under an extreme rate of changes;
    /// [`StoreError::DiskNearlyFull`] where the files would fill the disk.
    pub(crate) async fn dump(&self, file: &Path, folders: &[Folder]) -> Result<WrittenDump, StoreError> {
        let _one = self.dumping().await;
        write_dump(self, file, folders).await
    }

    /// Dumps into the store's directory of backups and removes old ones.
    /// Errors: those of [`Store::dump`]; [`StoreError::NoDirectory`] in memory.
    pub(crate) async fn backup(&self) -> Result<WrittenDump, StoreError> {
        let dir = self.directory().ok_or(StoreError::NoDirectory)?.to_owned();
        let _one = self.dumping().await;
        let (within, context) = (dir.clone(), self.context());
        let path = off_thread(move || match context.disk_nearly_full(false) {
            Some(refusal) => Err(refusal),
            None => next_path(&within),
        })
        .await?;
        let dumped = write_dump(self, &path, &[]).await?;
        let options = self.options().clone();
        off_thread(move || {
            rotate(&dir, options.backup_interval, options.backups_kept);
            Ok(())
        })
        .await?;
        Ok(dumped)
    }
}

/// Makes a backup every `backup_interval` until `stop`. Logs failures and tries again sooner.
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
/// Errors: [`StoreError::Locked`] while a daemon runs, [`StoreError::Backup`] if the file is not whole, and then nothing has
/// changed; [`StoreError::Io`].
pub(crate) fn restore(dir: &Path, file: &Path, folders: &[Folder]) -> Result<Restored, StoreError> {
    create_private_dir(dir)?;
    let _lock = DirLock::take(dir)?;
    build::replace(dir, file, folders)
}
