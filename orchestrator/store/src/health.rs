//! How the store is doing: the cells its threads write and everyone may read without waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use warmpool_core::clock::{millis, unix_ms};
use warmpool_core::error::ServiceError;

/// One operation of the store must not take longer than this.
const STALL: Duration = Duration::from_secs(10);

/// Whether the store can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreState {
    /// It reads and writes.
    Ok,
    /// It reads, but refuses new data until there is space.
    DiskNearlyFull,
    /// One operation has taken longer than ten seconds; the disk may be failing.
    Stalled,
    /// It has failed; the process is about to end.
    Failed,
    /// It was closed.
    Closed,
}

/// A look at the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreHealth {
    /// Whether it can be relied on.
    pub state: StoreState,
    /// When the last commit was handed to the operating system, Unix milliseconds.
    pub last_commit_ms: Option<u64>,
    /// When the last disk barrier ended, Unix milliseconds.
    pub last_durable_ms: Option<u64>,
    /// Size of the database's files, bytes.
    pub size_bytes: u64,
    /// Free space of the file system, bytes; none when the system does not say.
    pub free_bytes: Option<u64>,
    /// With less free space than this, bytes, nothing new is taken.
    pub min_free_bytes: u64,
}

impl StoreState {
    /// Why it takes no new work, if it does not.
    pub(super) const fn shortage(self) -> Option<ServiceError> {
        match self {
            Self::Ok => None,
            Self::DiskNearlyFull => Some(ServiceError::DiskNearlyFull),
            Self::Stalled | Self::Failed | Self::Closed => Some(ServiceError::StoreBusy),
        }
    }
}

impl StoreHealth {
    /// Whether the store does everything it should.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.state == StoreState::Ok
    }
}

/// A fatal hook gets the reason and, outside tests, does not return.
type Hook = dyn Fn(&str) + Send + Sync;

/// What happens after the store has failed. By default the process aborts, without running destructors:
/// sled's can hang after an error.
#[derive(Clone)]
pub struct FatalHook(Arc<Hook>);

impl FatalHook {
    /// A hook of the caller's own, such as one that aborts once the log is written.
    pub fn new(hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    pub(super) fn call(&self, reason: &str) {
        (self.0)(reason);
    }
}

impl Default for FatalHook {
    fn default() -> Self {
        Self::new(|_| std::process::abort())
    }
}

impl std::fmt::Debug for FatalHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FatalHook")
    }
}

const RUNNING: u8 = 0;
const FAILED: u8 = 1;
const CLOSED: u8 = 2;

/// Shared by the handle and the threads.
#[derive(Debug)]
pub(super) struct Monitor {
    started: Instant,
    phase: AtomicU8,
    /// Milliseconds after `started` at which each thread's operation under way began, plus one; 0 if there is none.
    busy_since: [AtomicU64; 3],
    last_commit_ms: AtomicU64,
    last_durable_ms: AtomicU64,
    /// The last measurement of the disk. One can take arbitrarily long, so callers who ask for the store's health get this.
    size_bytes: AtomicU64,
    /// `u64::MAX` when it is not known.
    free_bytes: AtomicU64,
}

/// Which of the threads is at work.
#[derive(Clone, Copy, Debug)]
pub(super) enum StoreThread {
    Storage,
    Barrier,
    Gauge,
}

impl Monitor {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            phase: AtomicU8::new(RUNNING),
            busy_since: [const { AtomicU64::new(0) }; 3],
            last_commit_ms: AtomicU64::new(0),
            last_durable_ms: AtomicU64::new(0),
            size_bytes: AtomicU64::new(0),
            free_bytes: AtomicU64::new(u64::MAX),
        }
    }

    pub(super) fn measured_free(&self, bytes: Option<u64>) {
        self.free_bytes.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn measured_size(&self, bytes: u64) {
        self.size_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The size of the database as it was measured last, bytes.
    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// Marks work as under way until the guard is dropped.
    pub(super) fn busy(&self, work: StoreThread) -> BusyMark<'_> {
        let cell = &self.busy_since[work as usize];
        cell.store(millis(self.started.elapsed()) + 1, Ordering::Relaxed);
        BusyMark(cell)
    }

    /// The longest that one operation of the two threads that write has been under way.
    pub(super) fn busy_for(&self) -> Duration {
        self.longest([StoreThread::Storage, StoreThread::Barrier])
    }

    fn longest<const N: usize>(&self, works: [StoreThread; N]) -> Duration {
        let now = millis(self.started.elapsed()) + 1;
        let longest = works
            .into_iter()
            .map(|work| self.busy_since[work as usize].load(Ordering::Relaxed))
            .filter(|since| *since != 0)
            .map(|since| now.saturating_sub(since))
            .max();
        Duration::from_millis(longest.unwrap_or(0))
    }

    pub(super) fn committed(&self) {
        self.last_commit_ms.store(unix_ms(), Ordering::Relaxed);
    }

    pub(super) fn made_durable(&self) {
        self.last_durable_ms.store(unix_ms(), Ordering::Relaxed);
    }

    /// Marks the store as failed; true for the first to do so.
    pub(super) fn fail(&self) -> bool {
        self.phase.swap(FAILED, Ordering::SeqCst) != FAILED
    }

    pub(super) fn close(&self) {
        let _ = self.phase.compare_exchange(RUNNING, CLOSED, Ordering::SeqCst, Ordering::SeqCst);
    }

    pub(super) fn failed(&self) -> bool {
        self.phase.load(Ordering::SeqCst) == FAILED
    }

    pub(super) fn closed(&self) -> bool {
        self.phase.load(Ordering::SeqCst) == CLOSED
    }

    fn free_bytes(&self) -> Option<u64> {
        Some(self.free_bytes.load(Ordering::Relaxed)).filter(|free| *free != u64::MAX)
    }

    /// Whether the store can be relied on, as far as the threads know.
    pub(super) fn state(&self, min_free_bytes: u64) -> StoreState {
        match self.phase.load(Ordering::SeqCst) {
            FAILED => StoreState::Failed,
            CLOSED => StoreState::Closed,
            _ if self.longest([StoreThread::Storage, StoreThread::Barrier, StoreThread::Gauge]) > STALL => {
                StoreState::Stalled
            }
            _ if self.free_bytes().is_some_and(|free| free < min_free_bytes) => StoreState::DiskNearlyFull,
            _ => StoreState::Ok,
        }
    }

    /// Health as far as the threads know it.
    pub(super) fn health(&self, min_free_bytes: u64) -> StoreHealth {
        let time = |cell: &AtomicU64| Some(cell.load(Ordering::Relaxed)).filter(|ms| *ms != 0);
        StoreHealth {
            state: self.state(min_free_bytes),
            last_commit_ms: time(&self.last_commit_ms),
            last_durable_ms: time(&self.last_durable_ms),
            size_bytes: self.size_bytes(),
            free_bytes: self.free_bytes(),
            min_free_bytes,
        }
    }
}

/// Ends the mark that [`Monitor::busy`] set.
pub(super) struct BusyMark<'a>(&'a AtomicU64);

impl Drop for BusyMark<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
