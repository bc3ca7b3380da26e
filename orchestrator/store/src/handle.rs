//! The handle to the store, and its calls.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use super::backend::{Backend, BackendError};
use super::batch::{Batch, Durability, KeyRange, Row, Table};
use super::carry_out::carry_out;
use super::commit::Commit;
use super::disk;
use super::health::{StoreHealth, StoreState};
use super::journal::{FileJournal, Journal};
use super::ledger::{CommitPoint, Ledger};
use super::lock::DirLock;
use super::options::StoreOptions;
use super::recover::{self, Recovery};
use super::request::{Context, Request};
use super::ticket::Ticket;
use super::{StoreError, kept_log, layout, thread};
use warmpool_core::error::ServiceError;

/// An open store, and what had to be done to open it.
#[derive(Debug)]
pub struct Opened {
    /// The store.
    pub store: Store,
    /// Set if the data was damaged and has been replaced. Show it to the operator.
    pub recovery: Option<Recovery>,
}

/// A handle to the store. Clones share it; the last one dropped, or [`Store::close`], closes it.
#[derive(Clone)]
pub struct Store {
    thread: mpsc::Sender<Request>,
    shared: Arc<Shared>,
}

struct Shared {
    options: StoreOptions,
    dir: PathBuf,
    context: Context,
    /// Names the data directory in its dumps.
    history: String,
    /// One dump at a time.
    dumping: tokio::sync::Mutex<()>,
    /// Held while the file of what is kept apart is written.
    writing_apart: tokio::sync::Mutex<()>,
    /// Dropped with the store, which ends the thread that measures the disk.
    _gauge: std::sync::mpsc::Sender<()>,
}

/// Where the files of a store lie.
pub(super) struct StoreLocation {
    pub(super) dir: PathBuf,
    /// Names the data directory.
    pub(super) history: String,
    pub(super) lock: DirLock,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("dir", &self.shared.dir).finish_non_exhaustive()
    }
}

/// How long the storage thread may be busy with one thing. Only a lost disk takes longer, and then the process ends.
const MAX_BUSY: Duration = Duration::from_secs(60);

/// Time between two attempts at what must be written.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

impl Store {
    /// Whether there is a store in `dir`, sound or not.
    #[must_use]
    pub fn exists(dir: &Path) -> bool {
        recover::exists(dir)
    }

    /// Opens the store in the directory `dir`, which is created if need be. Blocks, for up to the open timeout
    /// and the restoring of a backup: call it at the start, or where blocking is allowed.
    /// Errors: [`StoreError::Locked`] if another process has it, [`StoreError::NewerSchema`] and [`StoreError::NewerTable`] if a
    /// newer release wrote it, [`StoreError::Io`] if the file system refuses; [`StoreError::OpenTimedOut`] and
    /// [`StoreError::Cancelled`], after which the process must end. Damage is no error: see [`Recovery`].
    pub fn open(dir: &Path, options: StoreOptions) -> Result<Opened, StoreError> {
        let (prepared, lock) = recover::open(dir, &options)?;
        if !options.keeps_log() {
            // It ends here, and would have a gap later.
            kept_log::forget_all(dir);
        }
        let mut journal = FileJournal::open(dir)?;
        if options.backups_kept == 0 {
            journal = journal.without_backups(prepared.backend.found());
        }
        journal.compact().map_err(BackendError::writing)?;
        let place = StoreLocation { dir: dir.to_owned(), history: journal.history().to_owned(), lock };
        let context = Context::new(&place, prepared.ledger.commits(), &options)?;
        let backend = (Box::new(prepared.backend) as Box<dyn Backend>, prepared.ledger);
        let store = Self::start(backend, Box::new(journal), context, options, place)?;
        Ok(Opened { store, recovery: prepared.recovery })
    }

    /// Starts the threads of a store whose files lie in a directory.
    pub(super) fn start(
        backend: (Box<dyn Backend>, Ledger),
        journal: Box<dyn Journal>,
        context: Context,
        options: StoreOptions,
        StoreLocation { dir, history, lock }: StoreLocation,
    ) -> Result<Self, StoreError> {
        let mut check = backend.0.thread_check();
        let thread = thread::spawn(backend, journal, lock, context.clone(), options.queue)?;
        let database = dir.join(layout::DATABASE);
        let (waiting, seen) = (thread.downgrade(), context.clone());
        let look = move || {
            // What is put off after a commit is done also where no other commit comes, though not where the disk is nearly full.
            if seen.monitor.state(seen.min_free_bytes) == StoreState::Ok
                && let Some(thread) = waiting.upgrade()
            {
                let _ = thread.try_send(Request::Tidy);
            }
            check()
        };
        let _gauge = disk::watch(&context, move || disk::directory_bytes(&database), Box::new(look))?;
        let (dumping, writing_apart) = Default::default();
        let shared = Shared { options, dir, context, history, dumping, writing_apart, _gauge };
        Ok(Self { thread, shared: Arc::new(shared) })
    }

    /// Makes all changes of the batch, or none. What is queued when the call timeout is over is withdrawn; what the disk
    /// is at by then is waited for until it is known. Dropping the future does not undo it: where something in memory follows from the commit,
    /// both belong into [`carry_out`].
    /// Errors: [`StoreError::Timeout`], sizes, a disk nearly full, or a store that is closed: nothing was or will be
    /// written. After [`StoreError::Failed`] the next start decides.
    pub async fn commit(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        if !batch.shreds() {
            return self.begin(batch, durability).await?.known().await;
        }
        let store = self.clone();
        carry_out(async move {
            store.forget_unread_log().await;
            store.begin(batch, durability).await?.known().await?;
            if let Err(error) = store.write_apart().await {
                // The journal keeps it deleted; the next backup writes the file anew, too.
                tracing::warn!(%error, "the file of patients' keys still holds a deleted one");
            }
            Ok(())
        })
        .await
    }

    /// Hands a commit over, for a caller who cannot wait until its outcome is known, however long that takes.
    /// Errors: as [`Store::commit`]: nothing was or will be written.
    pub async fn begin(&self, batch: Batch, durability: Durability) -> Result<Commit, StoreError> {
        batch.check()?;
        let limit = self.options().call_timeout;
        let until = Instant::now() + limit;
        let (reply, answer) = oneshot::channel();
        let ticket = Ticket::default();
        self.send(Request::Commit { batch, durability, ticket: ticket.clone(), reply }, limit, until).await?;
        Ok(Commit::new(self.clone(), ticket, answer, until))
    }

    /// Makes changes that must not be lost: retries until the store has taken them, and calls `held` with each error. Use it
    /// with a batch that may use the reserve ([`Batch::essential`]).
    /// Errors: those of [`Store::commit`] that do not pass: sizes, or a store that has failed or is closed.
    pub async fn commit_with_retry(
        &self,
        batch: Batch,
        durability: Durability,
        mut held: impl FnMut(&StoreError),
    ) -> Result<(), StoreError> {
        loop {
            match self.commit(batch.clone(), durability).await {
                Err(error) if error.is_shortage() => held(&error),
                outcome => return outcome,
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    /// The value of a key.
    /// Errors: [`StoreError::Timeout`], or that the store has failed or is closed.
    pub async fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.get_many(table, vec![key.to_vec()]).await?.pop().flatten())
    }

    /// The values of some keys, in their order, read at one moment.
    /// Errors: [`StoreError::Timeout`], or that the store has failed or is closed.
    pub async fn get_many(&self, table: Table, keys: Vec<Vec<u8>>) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        self.call(|reply| Request::Get { table, keys, reply }).await
    }

    /// Up to `limit` rows of a range, in the order of their keys. [`Store::pages_of`] reads all of a range, page by page.
    /// Errors: [`StoreError::Timeout`], or that the store has failed or is closed.
    pub async fn scan(&self, table: Table, range: KeyRange, limit: usize) -> Result<Vec<Row>, StoreError> {
        self.call(|reply| Request::Scan { table, range, limit, reply }).await
    }

    /// How the store is doing. Waits for nothing: neither for a thread nor for the disk, which was measured within the last
    /// second, or is stalled.
    #[must_use]
    pub fn health(&self) -> StoreHealth {
        self.shared.context.monitor.health(self.shared.context.min_free_bytes)
    }

    /// Why the store takes no new work, if it is known not to: `DiskNearlyFull`, or `StoreBusy`. It costs a few reads of memory, so
    /// callers ask before they spend something dear on work that could not be written down.
    #[must_use]
    pub fn shortage(&self) -> Option<ServiceError> {
        self.shared.context.monitor.state(self.shared.context.min_free_bytes).shortage()
    }

    /// Makes everything durable, closes the files and ends the threads. Later calls get
    /// [`StoreError::Closed`]. That may be much to write, and so takes longer than any other call may.
    /// Errors: [`StoreError::Timeout`] after a minute, [`StoreError::Closed`] if it was closed before.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.call_within(MAX_BUSY, |reply| Request::Close { reply }).await
    }

    pub(super) fn options(&self) -> &StoreOptions {
        &self.shared.options
    }

    /// The data directory.
    pub(super) fn directory(&self) -> &Path {
        &self.shared.dir
    }

    /// The disk monitor, for callers that may block.
    pub(super) fn context(&self) -> Context {
        self.shared.context.clone()
    }

    pub(super) async fn call<T>(
        &self,
        make: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Request,
    ) -> Result<T, StoreError> {
        self.call_within(self.options().call_timeout, make).await
    }

    async fn call_within<T>(
        &self,
        limit: Duration,
        make: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Request,
    ) -> Result<T, StoreError> {
        let until = Instant::now() + limit;
        let (reply, answer) = oneshot::channel();
        self.send(make(reply), limit, until).await?;
        match timeout_at(until, answer).await {
            Ok(answered) => answered.map_err(|_| self.gone())?,
            Err(_) => Err(self.timed_out(limit)),
        }
    }

    /// Hands a request to the storage thread; after an error it has not got it.
    async fn send(&self, request: Request, limit: Duration, until: Instant) -> Result<(), StoreError> {
        match timeout_at(until, self.thread.send(request)).await {
            Ok(sent) => sent.map_err(|_| self.gone()),
            Err(_) => Err(self.timed_out(limit)),
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.shared.context.monitor.failed()
    }

    /// The state of this store after so many commits.
    pub(super) fn commit_point(&self, commits: u64) -> CommitPoint {
        CommitPoint { history: self.shared.history.clone(), commits }
    }

    /// Keeps two writers of the file of what is kept apart from each other.
    pub(super) async fn writing_apart(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.shared.writing_apart.lock().await
    }

    /// Keeps two dumps apart.
    pub(super) async fn dumping(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.shared.dumping.lock().await
    }

    pub(super) fn gone(&self) -> StoreError {
        // The threads say so before they close; otherwise they are failing just now.
        if self.shared.context.monitor.closed() { StoreError::Closed } else { StoreError::Failed }
    }

    /// A thread that hangs, as sled does after a full disk, never comes back by itself.
    pub(super) fn timed_out(&self, waited: Duration) -> StoreError {
        if self.shared.context.monitor.busy_for() > MAX_BUSY {
            let stuck = std::io::Error::other("the storage thread hangs");
            self.shared.context.fatal(&BackendError::Io(stuck));
        }
        StoreError::Timeout { waited }
    }
}
