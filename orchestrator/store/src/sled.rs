//! Tables in sled: the only file that knows sled.
//!
//! sled's own `flush` hands data to the kernel and the device but is no barrier against loss of power, so
//! a [`FileBarrier`] syncs the database file through a descriptor of its own.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ::sled::transaction::{ConflictableTransactionError, TransactionError, Transactional, TransactionalTree};

use super::backend::{Backend, BackendError, Barrier, FileBarrier, RawRow, ThreadCheck};
use super::batch::Op;
use super::{KeyRange, Table};

/// Pages sled may keep in memory, bytes. Its default of 1 GiB would dwarf the daemon.
const CACHE_BYTES: u64 = 8 * 1024 * 1024;

/// How often sled cleans: it moves what is left in segments that are half empty, so that they can be written again. While 0.9 MB
/// of rows came and went, the file stayed at 4 MiB with its cleaner, and crept to 14 without. It cleans for half of the interval where
/// there is so much to do, so that a longer one leaves no more behind. Each time it also syncs the file, whether anything was written or
/// not: no commit relies on that, and a disk that is idle is left alone for longer.
const CLEAN_EVERY: Duration = Duration::from_secs(10);

/// The thread in which sled cleans, as sled names it.
const CLEANER: &str = "log flusher";

/// The tree that sled makes in each database.
const SLEDS_OWN: &[u8] = b"__sled__default";

/// The names of sled's snapshots begin so, and that of one that it still writes ends so.
const SNAPSHOT: &str = "snap.";
const UNFINISHED_SNAPSHOT: &str = ".generating";

/// The folder in which sled keeps large pages, each under its place in sled's log.
const BLOBS: &str = "blobs";

/// How long another database at the same place may take to let go of it: its cleaner may be at work.
const LOCK_PATIENCE: Duration = CLEAN_EVERY;

/// One sled tree a table.
pub(super) struct SledBackend {
    db: ::sled::Db,
    trees: Vec<(Table, ::sled::Tree)>,
    file: File,
    /// The folder of large pages.
    blobs: PathBuf,
    /// The greatest number of those that survive loss of power.
    synced_blobs: Option<u64>,
}

impl SledBackend {
    /// Opens or creates the database in the directory `path`. May panic or hang on damaged files: call it from
    /// a thread that can be given up.
    pub(super) fn open(path: &Path) -> Result<Self, BackendError> {
        Self::open_and_clean(path, CLEAN_EVERY)
    }

    /// Opens or creates the database, and has sled clean it this often.
    fn open_and_clean(path: &Path, every: Duration) -> Result<Self, BackendError> {
        remove_unfinished_snapshots(path).map_err(BackendError::Io)?;
        let config = ::sled::Config::new()
            .path(path)
            .cache_capacity(CACHE_BYTES)
            // A checkpoint flushes. sled's timer flushes too, but it is the cleaner that counts here.
            .flush_every_ms(Some(u64::try_from(every.as_millis()).unwrap_or(u64::MAX)));
        let patience = Instant::now() + LOCK_PATIENCE;
        let db = loop {
            match config.open() {
                // The store has a lock of its own, so this is a database of this process that is being
                // closed: sled's background threads let go of it a little later.
                Err(::sled::Error::Io(error)) if is_lock_refusal(&error) && Instant::now() < patience => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                other => break other?,
            }
        };
        let trees = Table::ALL
            .into_iter()
            .map(|table| Ok((table, db.open_tree(table.name())?)))
            .collect::<Result<_, ::sled::Error>>()?;
        db.flush()?;
        let file = File::open(path.join("db"))?;
        // Names and configuration of a new database must survive loss of power as its content does.
        file.sync_all()?;
        File::open(path.join("conf"))?.sync_all()?;
        File::open(path)?.sync_all()?;
        Ok(Self { db, trees, file, blobs: path.join(BLOBS), synced_blobs: None })
    }

    /// A table with rows that this release does not have, if there is one: a newer release wrote it. The ledger counts its rows.
    pub(super) fn unknown_table(&self) -> Result<Option<String>, BackendError> {
        for name in self.db.tree_names() {
            let is_known = Table::ALL.iter().any(|table| table.name().as_bytes() == &*name) || &*name == SLEDS_OWN;
            if !is_known && !self.db.open_tree(&name)?.is_empty() {
                return Ok(Some(String::from_utf8_lossy(&name).into_owned()));
            }
        }
        Ok(None)
    }

    fn tree(&self, table: Table) -> Result<&::sled::Tree, BackendError> {
        self.trees
            .iter()
            .find(|(name, _)| *name == table)
            .map(|(_, tree)| tree)
            .ok_or_else(|| BackendError::Damaged(format!("table {table} is missing")))
    }
}

impl Backend for SledBackend {
    fn apply(&mut self, ops: &[Op]) -> Result<(), BackendError> {
        let mut tables: Vec<Table> = ops.iter().map(|op| op.table).collect();
        tables.sort_unstable();
        tables.dedup();
        if tables.is_empty() {
            return Ok(());
        }
        let trees: Vec<&::sled::Tree> = tables.iter().map(|table| self.tree(*table)).collect::<Result<_, _>>()?;
        trees
            .as_slice()
            .transaction(|views: &Vec<TransactionalTree>| {
                for op in ops {
                    let view = tables
                        .binary_search(&op.table)
                        .ok()
                        .and_then(|index| views.get(index))
                        .ok_or(ConflictableTransactionError::Abort(()))?;
                    match &op.value {
                        Some(value) => view.insert(op.key.as_slice(), value.as_slice())?,
                        None => view.remove(op.key.as_slice())?,
                    };
                }
                Ok(())
            })
            .map_err(|error| match error {
                TransactionError::Abort(()) => BackendError::Damaged("a table is missing from its transaction".into()),
                TransactionError::Storage(error) => error.into(),
            })
    }

    fn flush(&mut self) -> Result<(), BackendError> {
        self.db.flush()?;
        Ok(())
    }

    /// sled writes large pages to files of their own, which it never syncs.
    fn checkpoint(&mut self) -> Result<(), BackendError> {
        self.flush()?;
        self.synced_blobs = sync_blobs(&self.blobs, self.synced_blobs)?;
        self.barrier()?.wait()
    }

    fn barrier(&self) -> Result<Box<dyn Barrier>, BackendError> {
        Ok(Box::new(FileBarrier(self.file.try_clone()?)))
    }

    /// The thread that cleans ends when it cannot read or write something, and tells nobody: the file only grows from then on, and
    /// closing the database waits for the thread for ever if it has panicked.
    fn thread_check(&self) -> ThreadCheck {
        let mut cleaner: Option<PathBuf> = None;
        Box::new(move || {
            let has_ended = cleaner.as_ref().is_some_and(|thread| !thread.exists());
            if cleaner.is_some() && !has_ended {
                return Ok(());
            }
            // A process without a descriptor to spare learns nothing now.
            let Ok(found) = find_cleaner() else { return Ok(()) };
            cleaner = found;
            // What was seen may have been the thread of another database of this process.
            if has_ended && cleaner.is_none() {
                return Err(BackendError::Damaged("sled's cleaner has ended".into()));
            }
            Ok(())
        })
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, BackendError> {
        Ok(self.tree(table)?.get(key)?.map(|value| value.to_vec()))
    }

    fn scan(&self, table: Table, range: &KeyRange, limit: usize) -> Result<Vec<RawRow>, BackendError> {
        let found = self.tree(table)?.range::<&[u8], _>(range.bounds());
        let owned = |row: ::sled::Result<(::sled::IVec, ::sled::IVec)>| {
            let (key, value) = row?;
            Ok((key.to_vec(), value.to_vec()))
        };
        found.take(limit).map(owned).collect()
    }
}

/// Removes what a start left that died while it wrote a snapshot. sled takes the snapshot with the greatest name for its newest without
/// asking whether it was finished, and what is missing there for damage of the database, though all that it needs is still there.
fn remove_unfinished_snapshots(database: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(database) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(SNAPSHOT) && name.ends_with(UNFINISHED_SNAPSHOT) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Syncs the large pages that came after the one of this number. Returns the greatest number there is.
fn sync_blobs(folder: &Path, after: Option<u64>) -> io::Result<Option<u64>> {
    let mut newest = after;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if after.is_none_or(|after| number > after) {
            match File::open(entry.path()).and_then(|file| file.sync_data()) {
                // The cleaner has removed it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                synced => synced?,
            }
            newest = newest.max(Some(number));
        }
    }
    if newest != after {
        File::open(folder)?.sync_all()?;
    }
    Ok(newest)
}

/// The folder of the thread that cleans.
fn find_cleaner() -> io::Result<Option<PathBuf>> {
    for thread in fs::read_dir("/proc/self/task")? {
        let thread = thread?.path();
        match fs::read_to_string(thread.join("comm")) {
            Ok(name) if name.trim_end() == CLEANER => return Ok(Some(thread)),
            // It ended meanwhile.
            Err(error) if thread.exists() => return Err(error),
            _ => {}
        }
    }
    Ok(None)
}

impl From<::sled::Error> for BackendError {
    fn from(error: ::sled::Error) -> Self {
        match error {
            // A system call failed; without an errno sled made the error up itself from what it read.
            ::sled::Error::Io(source) if is_system_fault(&source) => BackendError::Io(source),
            other => BackendError::Damaged(other.to_string()),
        }
    }
}

/// sled has no error of its own for this.
fn is_lock_refusal(error: &io::Error) -> bool {
    error.raw_os_error().is_none() && error.to_string().contains("acquire lock")
}

/// Whether the system refused something, as opposed to the files holding something wrong. sled clones its
/// errors without their errno, so the kind has to do where it is telling.
fn is_system_fault(error: &io::Error) -> bool {
    const ENOENT: i32 = 2;
    const EIO: i32 = 5;
    const EINVAL: i32 = 22;
    match error.raw_os_error() {
        // A bad sector, a file that should be there, an offset that makes no sense.
        Some(EIO | ENOENT | EINVAL) => false,
        Some(_) => true,
        None if is_lock_refusal(error) => true,
        None => matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied
                | io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::FileTooLarge
                | io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::OutOfMemory
        ),
    }
}

#[cfg(test)]
impl SledBackend {
    /// Sets or removes a row of a table of any name.
    pub(super) fn change_any(&self, table: &str, key: &[u8], value: Option<&[u8]>) {
        let tree = self.db.open_tree(table).unwrap();
        value.map_or_else(|| tree.remove(key), |value| tree.insert(key, value)).unwrap();
        tree.flush().unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::seal;
    use super::*;

    const KEPT: u64 = 200;

    /// Writes records of sessions as the daemon does, each three times, and keeps the newest. Returns how many bytes
    /// the database's file has.
    fn file_size_after(sessions: u64) -> u64 {
        let dir = tempfile::tempdir().unwrap();
        // The work of hours takes seconds here, so the cleaner hurries, too.
        let mut backend = SledBackend::open_and_clean(dir.path(), Duration::from_millis(1)).unwrap();
        for session in 0..sessions {
            let put = |bytes: usize| {
                let key = session.to_be_bytes().to_vec();
                let value = seal(Table::Sessions, &key, &vec![b'a'; bytes]);
                Op { table: Table::Sessions, key, value: Some(value) }
            };
            let removed = session.checked_sub(KEPT).map(|old| Op {
                table: Table::Sessions,
                key: old.to_be_bytes().to_vec(),
                value: None,
            });
            for op in [800, 900, 1200].map(put).into_iter().chain(removed) {
                backend.apply(&[op]).unwrap();
                backend.flush().unwrap();
            }
        }
        fs::metadata(dir.path().join("db")).unwrap().len()
    }

    #[test]
    fn the_file_stays_small_while_rows_come_and_go() {
        let size = file_size_after(6000);
        // Without the cleaner there are 4.5 MiB, with it 2.5.
        assert!(size <= 7 * 512 * 1024, "{size} bytes for {KEPT} rows of 1,200");
    }

    #[test]
    fn each_large_page_is_synced_once() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::write(folder.path().join(name), b"page").unwrap();
        assert_eq!(sync_blobs(folder.path(), None).unwrap(), None);
        for name in ["3", "70", "no-number"] {
            make(name);
        }
        assert_eq!(sync_blobs(folder.path(), None).unwrap(), Some(70));
        make("200");
        assert_eq!(sync_blobs(folder.path(), Some(70)).unwrap(), Some(200));
        fs::remove_file(folder.path().join("200")).unwrap();
        assert_eq!(sync_blobs(folder.path(), Some(200)).unwrap(), Some(200));
    }

    #[test]
    fn rows_that_make_a_large_page_lie_where_pages_are_synced() {
        let dir = tempfile::tempdir().unwrap();
        let mut backend = SledBackend::open(dir.path()).unwrap();
        let row = |number: u8| {
            let key = vec![number];
            let value = seal(Table::TaskBodies, &key, &vec![b'a'; 60_000]);
            Op { table: Table::TaskBodies, key, value: Some(value) }
        };
        backend.apply(&(0..60).map(row).collect::<Vec<_>>()).unwrap();
        backend.checkpoint().unwrap();
        assert!(backend.synced_blobs.is_some());
    }

    #[test]
    fn the_thread_that_cleans_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let backend = SledBackend::open(dir.path()).unwrap();
        // It takes its name when it begins.
        while find_cleaner().unwrap().is_none() {
            std::thread::yield_now();
        }
        let mut check = backend.thread_check();
        assert!(check().is_ok() && check().is_ok());
    }
}
