//! Opens a database and looks at all of it: whether each record is what was written, and whether all of them are there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::backend::{Backend, BackendError};
use super::ledger::{Ledger, Tally};
use super::recovery_file::RecoveryCause;
use super::schema::{self, SCHEMA_VERSION};
use super::sled::SledBackend;
use super::{KeyRange, StoreError, Table, record};
use warmpool_core::panics;

/// Rows checked between two signs of progress.
const PAGE: usize = 256;

/// A database that opened, and what its last commit left in it.
pub(super) type Sound = (SledBackend, Ledger);

/// Why a database did not open.
#[derive(Debug)]
pub(super) enum OpenError {
    GiveUp(RecoveryCause),
    Error(StoreError),
}

/// Opens a database in a thread of its own, which is abandoned if it panics or makes no progress.
pub(super) fn open_and_verify(database: &Path, timeout: Duration) -> Result<Sound, OpenError> {
    let progress = Arc::new(AtomicU64::new(0));
    let (done, outcome) = mpsc::sync_channel(1);
    let spawned = std::thread::Builder::new().name("store-open".into()).spawn({
        let progress = Arc::clone(&progress);
        let database = database.to_owned();
        move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let backend = SledBackend::open(&database)?;
                let unknown = backend.unknown_table().map_err(OpenError::from);
                let sound = unknown.and_then(|unknown| match unknown {
                    Some(table) => Err(OpenError::Error(StoreError::NewerTable { table })),
                    None => inspect(&backend, &progress),
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
            }))
            .unwrap_or_else(|panic| {
                let reason = format!("panic: {}", panics::said(panic.as_ref()));
                Err(OpenError::GiveUp(RecoveryCause::Damaged { reason }))
            });
            let _ = done.send(outcome);
        }
    });
    spawned.map_err(|error| OpenError::Error(StoreError::during("start a thread")(error)))?;
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
