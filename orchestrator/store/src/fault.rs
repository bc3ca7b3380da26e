//! A backend that fails where a test wants it to.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::backend::{Backend, BackendError, Barrier, RawRow, ThreadCheck};
use super::batch::Op;
use super::handle::StoreLocation;
use super::journal::{Entry, Journal};
use super::ledger::Ledger;
use super::lock::DirLock;
use super::memory::MemoryBackend;
use super::request::Context;
use super::{KeyRange, Store, StoreOptions, Table, kept_log, layout};

/// Where a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultPoint {
    /// Before a batch is applied.
    Apply,
    /// Before a flush.
    Flush,
    /// Before the disk barrier.
    Barrier,
    /// Before irrevocable changes are kept in the journal.
    Journal,
    /// Before a get or a scan.
    Read,
    /// Before what keeps for a moment in which nobody waits.
    Tidy,
    /// Before a look at the backend's threads.
    Threads,
}

/// What happens there.
#[derive(Clone, Debug)]
pub enum StoreFault {
    /// The file system fails.
    Error(io::ErrorKind),
    /// The data turns out to be damaged.
    Damage,
    /// It takes longer.
    Delay(Duration),
    /// It takes until the gate is opened.
    Hang(FaultGate),
    /// The backend panics.
    Panic,
}

/// Blocks callers until it is opened.
#[derive(Clone, Debug, Default)]
pub struct FaultGate(Arc<(Mutex<bool>, Condvar)>);

impl FaultGate {
    /// Lets everyone pass from now on.
    pub fn open(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        self.0.1.wait_while(&mut self.0.0.lock(), |opened| !*opened);
    }
}

/// The plan of faults, and what has been asked of the backend so far.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Plan>);

#[derive(Debug)]
struct Plan {
    due: Mutex<HashMap<(FaultPoint, u64), StoreFault>>,
    always: Mutex<HashMap<FaultPoint, StoreFault>>,
    calls: Mutex<HashMap<FaultPoint, u64>>,
    free_bytes: AtomicU64,
    free_gate: Mutex<Option<FaultGate>>,
}

impl Default for Faults {
    fn default() -> Self {
        Self(Arc::new(Plan {
            due: Mutex::default(),
            always: Mutex::default(),
            calls: Mutex::default(),
            // What the system could say at most.
            free_bytes: AtomicU64::new(u64::MAX - 1),
            free_gate: Mutex::default(),
        }))
    }
}

impl Faults {
    /// The next call at the point meets the fault.
    pub fn next(&self, point: FaultPoint, fault: StoreFault) {
        let nth = self.calls(point);
        self.0.due.lock().insert((point, nth), fault);
    }

    /// Every call at the point meets the fault.
    pub fn always(&self, point: FaultPoint, fault: StoreFault) {
        self.0.always.lock().insert(point, fault);
    }

    /// How often the point has been reached.
    pub fn calls(&self, point: FaultPoint) -> u64 {
        *self.0.calls.lock().get(&point).unwrap_or(&0)
    }

    /// Sets how many bytes the disk reports as free.
    pub fn set_free_bytes(&self, bytes: u64) {
        self.0.free_bytes.store(bytes, Ordering::SeqCst);
    }

    /// From now on, measurements of the free space block until the gate is opened.
    pub fn hang_free_space(&self, gate: FaultGate) {
        *self.0.free_gate.lock() = Some(gate);
    }

    /// Makes a change whose caller leaves while its commit waits to be applied, as a client's request does that is dropped.
    #[expect(clippy::unwrap_used, reason = "a test ends where a change that nobody aborted does")]
    pub async fn abandon<T: Send + 'static>(&self, change: impl Future<Output = T> + Send + 'static) {
        let gate = FaultGate::default();
        let before = self.calls(FaultPoint::Apply);
        self.next(FaultPoint::Apply, StoreFault::Hang(gate.clone()));
        let caller = tokio::spawn(change);
        until("it is being written", || self.calls(FaultPoint::Apply) > before).await;
        caller.abort();
        assert!(caller.await.map(drop).unwrap_err().is_cancelled());
        gate.open();
    }

    fn free_space(&self) -> u64 {
        let gate = self.0.free_gate.lock().clone();
        if let Some(gate) = gate {
            gate.pass();
        }
        self.0.free_bytes.load(Ordering::SeqCst)
    }

    fn reach(&self, point: FaultPoint) -> Result<(), BackendError> {
        let nth = {
            let mut calls = self.0.calls.lock();
            let count = calls.entry(point).or_default();
            *count += 1;
            *count - 1
        };
        let due = self.0.due.lock().remove(&(point, nth));
        let fault = due.or_else(|| self.0.always.lock().get(&point).cloned());
        match fault {
            None => {}
            Some(StoreFault::Error(kind)) => return Err(BackendError::Io(kind.into())),
            Some(StoreFault::Damage) => return Err(BackendError::Damaged("as planned".into())),
            Some(StoreFault::Delay(time)) => std::thread::sleep(time),
            Some(StoreFault::Hang(gate)) => gate.pass(),
            Some(StoreFault::Panic) => panic!("as planned"),
        }
        Ok(())
    }
}

struct FaultBackend<B> {
    inner: B,
    faults: Faults,
}

impl<B: Backend> Backend for FaultBackend<B> {
    fn apply(&mut self, ops: &[Op]) -> Result<(), BackendError> {
        self.faults.reach(FaultPoint::Apply)?;
        self.inner.apply(ops)
    }

    fn flush(&mut self) -> Result<(), BackendError> {
        self.faults.reach(FaultPoint::Flush)?;
        self.inner.flush()
    }

    fn tidy(&mut self) -> Result<(), BackendError> {
        self.faults.reach(FaultPoint::Tidy)?;
        self.inner.tidy()
    }

    fn checkpoint(&mut self) -> Result<(), BackendError> {
        self.inner.checkpoint()
    }

    fn barrier(&self) -> Result<Box<dyn Barrier>, BackendError> {
        Ok(Box::new(FaultBarrier { inner: self.inner.barrier()?, faults: self.faults.clone() }))
    }

    fn thread_check(&self) -> ThreadCheck {
        let (faults, mut check) = (self.faults.clone(), self.inner.thread_check());
        Box::new(move || {
            faults.reach(FaultPoint::Threads)?;
            check()
        })
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, BackendError> {
        self.faults.reach(FaultPoint::Read)?;
        self.inner.get(table, key)
    }

    fn scan(&self, table: Table, range: &KeyRange, limit: usize) -> Result<Vec<RawRow>, BackendError> {
        self.faults.reach(FaultPoint::Read)?;
        self.inner.scan(table, range, limit)
    }
}

struct FaultBarrier {
    inner: Box<dyn Barrier>,
    faults: Faults,
}

impl Barrier for FaultBarrier {
    fn wait(&mut self) -> Result<(), BackendError> {
        self.faults.reach(FaultPoint::Barrier)?;
        self.inner.wait()
    }
}

struct FaultJournal(Faults);

impl Journal for FaultJournal {
    fn keep(&mut self, _entries: &[Entry]) -> Result<(), BackendError> {
        self.0.reach(FaultPoint::Journal)
    }

    fn compact(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

impl Store {
    /// A store that forgets everything when it is dropped.
    #[must_use]
    pub fn memory() -> Store {
        Store::faulty(&Faults::default(), StoreOptions { min_free_bytes: 0, ..StoreOptions::default() })
    }

    /// A store whose rows are in memory, and the rest in a temporary folder, and whose backend fails as planned.
    #[expect(clippy::unwrap_used, reason = "a test ends where its store cannot begin")]
    pub fn faulty(faults: &Faults, options: StoreOptions) -> Store {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().to_owned();
        let place = StoreLocation { lock: DirLock::take(&dir).unwrap(), dir, history: "memory".to_owned() };
        let mut context = Context::new(&place, 0, &options).unwrap();
        let plan = (faults.clone(), folder);
        // The folder goes with the last who may write to it.
        context.free_space = Arc::new(move || Some(plan.0.free_space()));
        let backend = FaultBackend { inner: MemoryBackend::default(), faults: faults.clone() };
        let backend = (Box::new(backend) as Box<dyn Backend>, Ledger::default());
        Store::start(backend, Box::new(FaultJournal(faults.clone())), context, options, place).unwrap()
    }
}

/// Damages the database in a data directory that no process uses, and the log beside it: the next start goes back to the newest backup.
///
/// # Panics
/// When the file system refuses.
#[expect(clippy::unwrap_used, reason = "for tests alone")]
pub fn damage(dir: &Path) {
    std::fs::write(dir.join(layout::DATABASE).join("db"), b"").unwrap();
    kept_log::forget_all(dir);
    std::fs::write(dir.join(layout::DATABASE).join(layout::WAL), b"").unwrap();
}

/// Waits until the condition holds.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..2000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not in time: {what}");
}
