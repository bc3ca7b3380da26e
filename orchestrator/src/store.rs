//! What the daemon remembers: keys, sessions, tasks, and facts about itself.
//!
//! A [`Store`] is a handle; one thread of its own does the work, another waits for the disk. Every call has a
//! deadline. A commit that has not begun by then is withdrawn, so that it is certain that nothing was written; one that
//! the disk is at stays open until the disk answers, and its outcome is never guessed: see [`Commit`]. A failure of the
//! storage ends the process, because sled cannot go on after one: a fresh process recovers everything that was answered.
//! Damage found at the start is put aside and the newest backup restored; see [`Recovery`].
//!
//! The directory:
//!
//! ```text
//! db/                    the database; only `store/sled.rs` knows what is in it
//! db.lock                held while a process uses the store
//! db.trouble             what the next start must know about the last one, if anything
//! db.corrupt-<unix ms>/  a damaged database, kept for a human
//! backups/               hourly dumps, `warmpool-<unix ms>.jsonl`
//! ```
//!
//! | file         | what it holds |
//! |--------------|---------------|
//! | `batch.rs`   | tables, batches, ranges, rows |
//! | `commit.rs`  | a commit on its way |
//! | `options.rs` | how the store behaves |
//! | `error.rs`   | what can go wrong |
//! | `health.rs`  | what `/status` shows, and what happens on failure |
//! | `request.rs` | what the storage thread is asked to do |
//! | `thread.rs`  | the storage thread and the barrier thread; `worker.rs` is the former's work |
//! | `backend.rs` | what a place for rows must do; `sled.rs`, `memory.rs`, `fault.rs` do it |
//! | `record.rs`  | version and checksum of each value |
//! | `schema.rs`  | the version of the data and its migrations |
//! | `disk.rs`    | how much of the disk is used and free |
//! | `dump.rs`    | everything as JSON lines, with counts and a hash |
//! | `archive.rs` | a dump and files as a tar; `unfinished.rs` is a backup that is being written |
//! | `folder.rs`  | folders whose files go with the rows |
//! | `backup.rs`  | hourly dumps, and restoring one |
//! | `layout.rs`  | what lies where in the directory |
//! | `recover.rs` | opening: deadline, quarantine, restore; with `lock.rs`, `trouble.rs`, `build.rs` |

mod archive;
mod backend;
mod backup;
mod batch;
mod build;
mod commit;
mod disk;
pub(crate) mod dump;
mod error;
#[cfg(test)]
pub(crate) mod fault;
mod folder;
mod health;
mod layout;
mod lock;
mod memory;
mod options;
mod record;
mod recover;
mod request;
mod schema;
mod sled;
#[cfg(test)]
mod tests;
mod thread;
mod trouble;
mod unfinished;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

pub use backup::restore;
pub(crate) use backup::run_backups;
pub(crate) use batch::{Batch, Direction, Durability, KeyRange, MAX_BATCH_OPS, Row, Table};
pub(crate) use commit::Commit;
pub(crate) use disk::free_bytes;
pub(crate) use dump::Dumped;
pub(crate) use error::StoreError;
pub(crate) use folder::Folder;
pub(crate) use health::{FatalHook, StoreHealth, StoreState};
pub(crate) use options::StoreOptions;
pub(crate) use recover::Recovery;
pub(crate) use schema::SCHEMA_VERSION;

use backend::{Backend, BackendError};
use commit::Ticket;
use health::Vitals;
use lock::DirLock;
use memory::MemoryBackend;
use request::{Context, Request};
use worker::{BarrierLink, Worker};

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
    link: Link,
    shared: Arc<Shared>,
}

#[derive(Clone)]
enum Link {
    Thread(mpsc::Sender<Request>),
    /// Carried out by the caller, which a paused test clock does not overtake.
    Inline(Arc<Mutex<Worker>>),
}

struct Shared {
    vitals: Arc<Vitals>,
    options: StoreOptions,
    dir: Option<PathBuf>,
    context: Context,
    /// One dump at a time.
    dumping: tokio::sync::Mutex<()>,
    /// Dropped with the store, which ends the thread that measures the disk.
    _gauge: Option<std::sync::mpsc::Sender<()>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("dir", &self.shared.dir).finish_non_exhaustive()
    }
}

/// A call may overstay its time by so much before the process is given up: only a lost disk takes longer.
const GIVE_UP: Duration = Duration::from_secs(60);

/// Between two tries of what must be written.
const TRY_AGAIN: Duration = Duration::from_millis(500);

impl Store {
    /// Whether there is a store in `dir`, sound or not.
    #[must_use]
    pub fn exists(dir: &Path) -> bool {
        recover::exists(dir)
    }

    /// Opens the store in the directory `dir`, which is created if need be. Blocks, for up to the open timeout
    /// and the restoring of a backup: call it at the start, or where blocking is allowed.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another process has it, [`StoreError::NewerSchema`] if a newer release wrote
    /// it, [`StoreError::Io`] if the file system refuses. Damage is no error: see [`Recovery`].
    pub fn open(dir: &Path, options: StoreOptions) -> Result<Opened, StoreError> {
        let (prepared, lock) = recover::open(dir, &options)?;
        let vitals = Arc::new(Vitals::new());
        let database = dir.join(layout::DATABASE);
        let context = Context {
            vitals: Arc::clone(&vitals),
            free_space: Arc::new(move || free_bytes(&database)),
            min_free_bytes: options.min_free_bytes,
            on_fatal: options.on_fatal.clone(),
            trouble: Some(trouble::Trouble::of(dir)),
        };
        let store = Self::on(Box::new(prepared.backend), context, options, Some(dir.to_owned()), Some(lock))?;
        Ok(Opened { store, recovery: prepared.recovery })
    }

    /// A store that forgets everything when dropped. It has no thread: calls are carried out where they are
    /// made, so tests with a paused clock can use it.
    #[must_use]
    pub fn memory() -> Self {
        let backend = MemoryBackend::default();
        let vitals = Arc::new(Vitals::new());
        let context = Context {
            vitals: Arc::clone(&vitals),
            free_space: Arc::new(|| None),
            min_free_bytes: 0,
            on_fatal: FatalHook::default(),
            trouble: None,
        };
        let after = BarrierLink::Inline(Box::new(memory::NoBarrier));
        let worker = Worker::new(Box::new(backend), after, context.clone(), None);
        Self {
            link: Link::Inline(Arc::new(Mutex::new(worker))),
            shared: Arc::new(Shared {
                vitals,
                options: StoreOptions::default(),
                dir: None,
                context,
                dumping: tokio::sync::Mutex::new(()),
                _gauge: None,
            }),
        }
    }

    fn on(
        backend: Box<dyn Backend>,
        context: Context,
        options: StoreOptions,
        dir: Option<PathBuf>,
        lock: Option<DirLock>,
    ) -> Result<Self, StoreError> {
        let sender = thread::spawn(backend, lock, context.clone(), options.queue)?;
        let database = dir.as_ref().map(|dir| dir.join(layout::DATABASE));
        let size = move || database.as_deref().map_or(0, disk::directory_bytes);
        let gauge = Some(disk::watch(&context, size)?);
        Ok(Self {
            link: Link::Thread(sender),
            shared: Arc::new(Shared {
                vitals: Arc::clone(&context.vitals),
                options,
                dir,
                context,
                dumping: tokio::sync::Mutex::new(()),
                _gauge: gauge,
            }),
        })
    }

    /// Makes all changes of the batch, or none. What is queued when the call timeout is over is withdrawn; what the disk
    /// is at by then is waited for until it is known. Dropping the future does not undo it.
    ///
    /// # Errors
    /// [`StoreError::Timeout`], sizes, a disk nearly full, or a store that is closed: nothing was or will be written.
    /// After [`StoreError::Failed`] the next start decides.
    pub async fn commit(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        self.begin(batch, durability).await?.known().await
    }

    /// Hands a commit over, for a caller who cannot wait until its outcome is known, however long that takes.
    ///
    /// # Errors
    /// As [`Store::commit`]: nothing was or will be written.
    pub async fn begin(&self, batch: Batch, durability: Durability) -> Result<Commit, StoreError> {
        batch.check()?;
        let until = Instant::now() + self.options().call_timeout;
        let (reply, answer) = oneshot::channel();
        let ticket = Ticket::default();
        self.send(Request::Commit { batch, durability, ticket: ticket.clone(), reply }, until).await?;
        Ok(Commit::new(self.clone(), ticket, answer, until))
    }

    /// Makes changes that must not be lost: tries until the store has taken them. `held` is told each time why it has
    /// not. Ask for it with a batch that may use the reserve ([`Batch::essential`]).
    ///
    /// # Errors
    /// Those of [`Store::commit`] that do not pass: sizes, or a store that has failed or is closed.
    pub async fn insist(
        &self,
        batch: Batch,
        durability: Durability,
        mut held: impl FnMut(&StoreError),
    ) -> Result<(), StoreError> {
        loop {
            match self.commit(batch.clone(), durability).await {
                Err(error) if error.is_passing() => held(&error),
                outcome => return outcome,
            }
            sleep(TRY_AGAIN).await;
        }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`StoreError::Timeout`], or that the store has failed or is closed.
    pub async fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let key = key.to_vec();
        self.call(|reply| Request::Get { table, key, reply }).await
    }

    /// The values of some keys, in their order, read at one moment.
    ///
    /// # Errors
    /// [`StoreError::Timeout`], or that the store has failed or is closed.
    pub async fn get_many(&self, table: Table, keys: Vec<Vec<u8>>) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        self.call(|reply| Request::GetMany { table, keys, reply }).await
    }

    /// Up to `limit` rows of a range, in the direction's order. Ask for the next page with
    /// [`KeyRange::after`] or [`KeyRange::before`] the last key.
    ///
    /// # Errors
    /// [`StoreError::Timeout`], or that the store has failed or is closed.
    pub async fn scan(
        &self,
        table: Table,
        range: KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Row>, StoreError> {
        self.call(|reply| Request::Scan { table, range, limit, direction, reply }).await
    }

    /// Writes everything into a new file while commits go on: JSON lines with counts and a hash, in a tar with the files of
    /// `folders` if there are any. It holds the state at one moment between call and return, and the files a little later.
    ///
    /// # Errors
    /// Those of reading; [`StoreError::Io`]; [`StoreError::DumpOverrun`] under an extreme rate of changes;
    /// [`StoreError::DiskNearlyFull`] where the files would fill the disk.
    pub async fn dump(&self, file: &Path, folders: &[Folder]) -> Result<Dumped, StoreError> {
        let _one = self.shared.dumping.lock().await;
        backup::write_dump(self, file, folders).await
    }

    /// Dumps into the store's directory of backups and removes old ones.
    ///
    /// # Errors
    /// Those of [`Store::dump`]; [`StoreError::NoDirectory`] in memory.
    pub async fn backup(&self) -> Result<Dumped, StoreError> {
        let dir = self.shared.dir.as_deref().ok_or(StoreError::NoDirectory)?;
        let _one = self.shared.dumping.lock().await;
        backup::backup(self, dir).await
    }

    /// How the store is doing. Waits for nothing: neither for a thread nor for the disk, which was measured within the last
    /// second, or is stalled.
    #[must_use]
    pub fn health(&self) -> StoreHealth {
        self.shared.vitals.health(self.shared.context.min_free_bytes)
    }

    /// Makes everything durable, lets go of the files and ends the threads. Later calls get
    /// [`StoreError::Closed`].
    ///
    /// # Errors
    /// [`StoreError::Timeout`] if that takes too long, [`StoreError::Closed`] if it was closed before.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.call(|reply| Request::Close { reply }).await
    }

    /// The data directory, unless the store is in memory.
    fn options(&self) -> &StoreOptions {
        &self.shared.options
    }

    fn directory(&self) -> Option<&Path> {
        self.shared.dir.as_deref()
    }

    /// What knows the disk, for those who may block.
    fn context(&self) -> Context {
        self.shared.context.clone()
    }

    async fn call<T>(
        &self,
        make: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Request,
    ) -> Result<T, StoreError> {
        let limit = self.options().call_timeout;
        let until = Instant::now() + limit;
        let (reply, answer) = oneshot::channel();
        self.send(make(reply), until).await?;
        match timeout_at(until, answer).await {
            Ok(answered) => answered.map_err(|_| self.gone())?,
            Err(_) => Err(self.timed_out(limit)),
        }
    }

    /// Hands a request to the storage thread; after an error it has not got it.
    async fn send(&self, request: Request, until: Instant) -> Result<(), StoreError> {
        match &self.link {
            Link::Thread(sender) => match timeout_at(until, sender.send(request)).await {
                Ok(sent) => sent.map_err(|_| self.gone()),
                Err(_) => Err(self.timed_out(self.options().call_timeout)),
            },
            Link::Inline(worker) => {
                if self.shared.vitals.health(0).state != StoreState::Ok {
                    return Err(self.gone());
                }
                let outcome = {
                    let mut worker = worker.lock();
                    worker.take(request).and_then(|()| worker.finish_group())
                };
                if let Err(error) = outcome {
                    self.shared.context.fatal(&error);
                }
                Ok(())
            }
        }
    }

    fn gone(&self) -> StoreError {
        // The threads say so before they close; otherwise they are failing just now.
        if self.shared.vitals.closed() { StoreError::Closed } else { StoreError::Failed }
    }

    /// A thread that hangs, as sled does after a full disk, never comes back by itself.
    fn timed_out(&self, waited: Duration) -> StoreError {
        if self.shared.vitals.busy_for() > GIVE_UP {
            let stuck = std::io::Error::other("the storage thread hangs");
            self.shared.context.fatal(&BackendError::Io(stuck));
        }
        StoreError::Timeout { waited }
    }
}
