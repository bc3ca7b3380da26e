//! Opens a database and looks at all of it: whether each record is what was written, and whether all of them are there.
//!
//! sled may panic or spin on a damaged database, so this is done in a thread of its own. One that takes too long says nothing about the
//! database: sled reads all of its log that is newer than its last snapshot, which a slow disk takes minutes for. Such a thread also
//! writes when it comes to its end, by the database's path. So the process ends with it, and replaces nothing meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::backend::{Backend, BackendError};
use super::kept_log::KeptLog;
use super::ledger::{Ledger, Tally};
use super::logged::LoggedBackend;
use super::recovery_file::RecoveryCause;
use super::schema::{self, SCHEMA_VERSION};
use super::sled::SledBackend;
use super::wal::Wal;
use super::{KeyRange, StoreError, StoreOptions, Table, record};
use warmpool_core::panics::caught;

/// Rows checked between two signs of progress.
const PAGE: usize = 256;
/// Time between two looks for progress.
const LOOK: Duration = Duration::from_millis(100);
/// After how long without progress the operator is told what the start waits for.
const TOLD_AFTER: Duration = Duration::from_secs(10);

/// The tables of an open store.
pub(super) type Database = LoggedBackend<SledBackend>;
/// A database that opened, and what its last commit left in it.
pub(super) type Sound = (Database, Ledger);

/// Why a database did not open.
#[derive(Debug)]
pub(super) enum OpenError {
    GiveUp(RecoveryCause),
    Error(StoreError),
    /// There was no progress for `open_timeout`. The database is still being opened.
    TimedOut,
    /// The process is to end. The database is still being opened.
    Cancelled,
}

/// Opens a database in a thread of its own. One that has as many commits as `needed`, where that is asked for, goes on with its log.
pub(super) fn open_and_verify(
    database: &Path,
    options: &StoreOptions,
    needed: Option<u64>,
) -> Result<Sound, OpenError> {
    let progress = Arc::new(AtomicU64::new(0));
    let (done, outcome) = mpsc::sync_channel(1);
    let spawned = std::thread::Builder::new().name("store-open".into()).spawn({
        let progress = Arc::clone(&progress);
        let database = database.to_owned();
        let kept = KeptLog::beside(&database, options);
        move || {
            let outcome = caught(|| {
                let (wal, commits) = Wal::open(&database).map_err(OpenError::Error)?;
                let mut backend = LoggedBackend::new(SledBackend::open(&database)?, wal, kept);
                let unknown = backend.inner().unknown_table().map_err(OpenError::from);
                let sound = unknown.and_then(|unknown| match unknown {
                    Some(table) => Err(OpenError::Error(StoreError::NewerTable { table })),
                    None => {
                        backend.replay(commits)?;
                        let ledger = inspect(&backend, &progress)?;
                        // The log of one that is given up has what its replacement lacks.
                        if needed.is_some_and(|needed| ledger.commits() >= needed) {
                            backend.begin()?;
                        }
                        Ok(ledger)
                    }
                });
                match sound {
                    Ok(ledger) => Ok((backend, ledger)),
                    Err(OpenError::GiveUp(cause)) => {
                        // Closing a damaged database may write to it, hang or panic.
                        std::mem::forget(backend);
                        Err(OpenError::GiveUp(cause))
                    }
                    Err(error) => Err(error),
                }
            })
            .unwrap_or_else(|panicked| Err(OpenError::GiveUp(RecoveryCause::Damaged { reason: panicked.to_string() })));
            let _ = done.send(outcome);
        }
    });
    spawned.map_err(|error| OpenError::Error(StoreError::during("start a thread")(error)))?;
    let (mut seen, mut since, mut is_told) = (0, Instant::now(), false);
    loop {
        match outcome.recv_timeout(LOOK.min(options.open_timeout)) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) if options.cancelled.is_cancelled() => return Err(OpenError::Cancelled),
            Err(RecvTimeoutError::Timeout) => {
                let now = progress.load(Ordering::Relaxed);
                if now != seen {
                    (seen, since) = (now, Instant::now());
                } else if since.elapsed() >= options.open_timeout {
                    return Err(OpenError::TimedOut);
                } else if since.elapsed() >= TOLD_AFTER && !std::mem::replace(&mut is_told, true) {
                    let limit = options.open_timeout.as_secs();
                    tracing::warn!(
                        limit,
                        "opening the database takes long; store.open_timeout, in seconds, limits that"
                    );
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                let reason = "the opening thread died".to_owned();
                return Err(OpenError::GiveUp(RecoveryCause::Damaged { reason }));
            }
        }
    }
}

/// Checks the version, then every record and their tally, so that damage shows now and not while sessions run.
fn inspect(backend: &dyn Backend, progress: &AtomicU64) -> Result<Ledger, OpenError> {
    let damaged = |reason: String| OpenError::GiveUp(RecoveryCause::Damaged { reason });
    let version = match schema::version(backend)? {
        Some(found) if found > SCHEMA_VERSION => {
            return Err(OpenError::Error(StoreError::NewerSchema { found, supported: SCHEMA_VERSION }));
        }
        Some(version) => version,
        // A database gets its name only after its version: this one has lost it.
        None => return Err(damaged("the schema version is missing".into())),
    };
    let mut tally = Tally::default();
    for table in Table::ALL {
        let mut range = KeyRange::all();
        loop {
            let rows = backend.scan(table, &range, PAGE)?;
            let Some((last, _)) = rows.last() else { break };
            range = range.after(last);
            for (key, sealed) in &rows {
                record::open(table, key, sealed).map_err(|error| damaged(format!("table {table}: {error}")))?;
                tally.add(table, key, sealed);
            }
            progress.fetch_add(1, Ordering::Relaxed);
        }
    }
    match Ledger::read(backend)? {
        Some(ledger) if ledger.matches(tally) => Ok(ledger),
        Some(_) => Err(damaged("records are missing, or are older ones".into())),
        None if version < schema::KEYS_APART => Ok(Ledger::from_tally(tally)),
        None => Err(damaged("the ledger is missing".into())),
    }
}

impl From<BackendError> for OpenError {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Io(source) => OpenError::Error(StoreError::during("open the database")(source)),
            BackendError::Damaged(reason) => OpenError::GiveUp(RecoveryCause::Damaged { reason }),
        }
    }
}
