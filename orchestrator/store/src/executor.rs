//! The executor: carries out requests on a backend, one after the other, and answers them.

use std::ops::ControlFlow;
use std::sync::mpsc as std_mpsc;

use tokio::sync::oneshot;

use super::backend::{Backend, BackendError, Barrier};
use super::batch::{Batch, Op};
use super::journal::{Entry, Journal};
use super::ledger::Ledger;
use super::lock::DirLock;
use super::newborn::Newborn;
use super::request::{Context, Reply, Request};
use super::{Durability, Row, StoreError, Table, record};

/// The most commits that share one flush.
pub(super) const GROUP: usize = 64;

/// The most a dump remembers of what changes while it is written, bytes.
const CAPTURE_BYTES: usize = 32 * 1024 * 1024;

/// After a backend failure the executor answers no more requests.
type BackendResult<T> = Result<T, BackendError>;

/// A commit that was flushed and needs more than that.
pub(super) struct Flushed {
    pub(super) reply: Reply<()>,
    /// What to keep in the journal before the answer.
    pub(super) entry: Option<Entry>,
}

/// What commits wait for that need more than a flush.
pub(super) struct Durable {
    pub(super) barrier: Box<dyn Barrier>,
    pub(super) journal: Box<dyn Journal>,
}

impl Durable {
    /// Makes everything durable that has been flushed, keeps what is irrevocable, and answers.
    pub(super) fn settle(&mut self, group: &mut Vec<Flushed>, context: &Context) -> BackendResult<()> {
        let flushed = context.mark.last_flushed();
        self.barrier.wait()?;
        context.mark.durable(flushed)?;
        context.monitor.made_durable();
        let (mut entries, mut replies) = (Vec::new(), Vec::new());
        for Flushed { reply, entry } in group.drain(..) {
            match entry {
                Some(entry) => {
                    entries.push(entry);
                    replies.push(reply);
                }
                None => drop(reply.send(Ok(()))),
            }
        }
        if !entries.is_empty() {
            // Not before the batch itself: the journal must not know of commits that the database may lose.
            self.journal.keep(&entries)?;
        }
        for reply in replies {
            let _ = reply.send(Ok(()));
        }
        self.journal.compact()
    }
}

/// The thread that takes commits that need more than a flush.
pub(super) struct BarrierThread {
    pub(super) commits: std_mpsc::SyncSender<Flushed>,
    pub(super) handle: std::thread::JoinHandle<()>,
}

/// Carries out requests one after the other.
pub(super) struct Executor {
    backend: Box<dyn Backend>,
    ledger: Ledger,
    barrier: BarrierThread,
    context: Context,
    /// Applied but not flushed.
    group: Vec<(Durability, Flushed)>,
    /// Whether something was deleted of which the log must keep nothing.
    shreds: bool,
    capture: Option<Capture>,
    newborn: Newborn,
    /// Let go after the backend.
    lock: DirLock,
}

/// Changes made while a dump is written. Past the limit they are forgotten and the dump fails.
#[derive(Default)]
struct Capture {
    ops: Vec<Op>,
    bytes: usize,
    overrun: bool,
}

impl Capture {
    fn add(&mut self, ops: &[Op]) {
        let size = |op: &Op| op.key.len() + op.value.as_ref().map_or(0, Vec::len) + 64;
        self.bytes += ops.iter().map(size).sum::<usize>();
        if self.bytes > CAPTURE_BYTES {
            self.overrun = true;
            self.ops = Vec::new();
        } else {
            self.ops.extend_from_slice(ops);
        }
    }
}

impl Executor {
    pub(super) fn new(
        (backend, ledger): (Box<dyn Backend>, Ledger),
        barrier: BarrierThread,
        context: Context,
        lock: DirLock,
    ) -> Self {
        let (group, newborn) = (Vec::with_capacity(GROUP), Newborn::default());
        Self { backend, ledger, barrier, context, group, shreds: false, capture: None, newborn, lock }
    }

    /// Carries out one request. Commits are answered by [`Executor::finish_group`] at the earliest. Breaks off with whom to
    /// answer once the store is closed.
    pub(super) fn take(&mut self, request: Request) -> BackendResult<ControlFlow<Reply<()>>> {
        match request {
            // Its caller has withdrawn it and relies on it never happening.
            Request::Commit { ticket, .. } if !ticket.claim() => {}
            Request::Commit { batch, durability, reply, .. } => self.commit(batch, durability, reply)?,
            Request::Get { table, keys, reply } => {
                let values = keys.iter().map(|key| self.get(table, key)).collect::<BackendResult<Vec<_>>>()?;
                let _ = reply.send(Ok(values));
            }
            Request::Scan { table, range, limit, reply } => {
                let rows = if range.is_empty() || limit == 0 {
                    Vec::new()
                } else {
                    self.backend.scan(table, &range, limit)?
                };
                let rows = rows
                    .into_iter()
                    .map(|(key, sealed)| {
                        let value = unseal(table, &key, &sealed)?;
                        Ok(Row { key, value })
                    })
                    .collect::<BackendResult<Vec<Row>>>()?;
                let _ = reply.send(Ok(rows));
            }
            Request::StartCapture { reply } => {
                self.capture = Some(Capture::default());
                self.newborn.dump_begins();
                let _ = reply.send(Ok(()));
            }
            Request::EndCapture { reply } => {
                self.newborn.dump_ends();
                let answer = match self.capture.take() {
                    Some(capture) if !capture.overrun => Ok((capture.ops, self.ledger.commits())),
                    _ => Err(StoreError::DumpOverrun),
                };
                let _ = reply.send(answer);
            }
            Request::Tidy => {
                self.finish_group()?;
                self.backend.tidy()?;
            }
            Request::Close { reply } => {
                self.finish_group()?;
                return Ok(ControlFlow::Break(reply));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn get(&self, table: Table, key: &[u8]) -> BackendResult<Option<Vec<u8>>> {
        self.backend.get(table, key)?.map(|sealed| unseal(table, key, &sealed)).transpose()
    }

    fn commit(&mut self, batch: Batch, durability: Durability, reply: Reply<()>) -> BackendResult<()> {
        if let Some(refusal) = self.context.disk_nearly_full(batch.is_essential()) {
            let _ = reply.send(Err(refusal));
            return Ok(());
        }
        let (before, sealed) = (self.ledger.commits(), record::sealed(&batch.ops));
        self.ledger.apply_telling(&mut *self.backend, sealed, |op| self.newborn.make(op, before))?;
        let since = self.newborn.change(&batch.ops);
        self.shreds |= batch.shreds();
        if let Some(capture) = &mut self.capture {
            capture.add(&batch.ops);
        }
        let (durability, entry) = match batch.irrevocable {
            true => {
                let Batch { ops, until, .. } = batch;
                (Durability::Power, Some(Entry { commits: self.ledger.commits(), ops, until, since }))
            }
            false => (durability, None),
        };
        self.group.push((durability, Flushed { reply, entry }));
        Ok(())
    }

    /// Flushes what was applied and answers, or passes on, its commits.
    pub(super) fn finish_group(&mut self) -> BackendResult<()> {
        if self.group.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.shreds) {
            self.backend.checkpoint()?;
        } else {
            self.backend.flush()?;
        }
        self.context.mark.flushed(self.ledger.commits())?;
        self.context.monitor.committed();
        for (durability, flushed) in self.group.drain(..) {
            match durability {
                Durability::Process => {
                    let _ = flushed.reply.send(Ok(()));
                }
                Durability::Power => {
                    // Fails only after the barrier thread has; the caller then sees its reply dropped.
                    let _ = self.barrier.commits.send(flushed);
                }
            }
        }
        self.backend.tidy()
    }

    /// Waits for the last barrier, then closes the files.
    pub(super) fn close(mut self) {
        let (reply, _) = oneshot::channel();
        let _ = self.barrier.commits.send(Flushed { reply, entry: None });
        drop(self.barrier.commits);
        let _ = self.barrier.handle.join();
        if let Err(error) = self.backend.checkpoint() {
            tracing::warn!(%error, "the database was closed with commits in its log alone; the next start makes them again");
        }
        drop(self.backend);
        drop(self.lock);
    }

    /// Leaves everything as it is, destructors included.
    pub(super) fn leak(self) {
        std::mem::forget(self.backend);
        std::mem::forget(self.lock);
    }
}

fn unseal(table: Table, key: &[u8], sealed: &[u8]) -> BackendResult<Vec<u8>> {
    match record::open(table, key, sealed) {
        Ok(value) => Ok(value.to_vec()),
        Err(error) => Err(BackendError::Damaged(format!("table {table}: {error}"))),
    }
}
