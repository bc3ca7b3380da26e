//! The storage thread, and the thread that waits for the disk on its behalf.
//!
//! The storage thread takes what is queued, applies it, flushes once, and answers commits that need no more
//! than that. Commits that must survive loss of power go on to the barrier thread, which answers all that
//! have gathered while the last barrier was under way. So no commit ever waits for a barrier it did not ask
//! for, and many share one.

use std::ops::ControlFlow;
use std::sync::mpsc as std_mpsc;

use tokio::sync::mpsc;

use super::StoreError;
use super::backend::{Backend, BackendError};
use super::executor::{BarrierThread, Durable, Executor, Flushed, GROUP};
use super::health::StoreThread;
use super::journal::Journal;
use super::ledger::Ledger;
use super::lock::DirLock;
use super::request::{Context, Request};
use warmpool_core::panics::caught;

/// The most commits that wait for the barrier thread.
const BARRIER_QUEUE: usize = 1024;

/// Starts the two threads for a backend.
pub(super) fn spawn(
    (backend, ledger): (Box<dyn Backend>, Ledger),
    journal: Box<dyn Journal>,
    lock: DirLock,
    context: Context,
    queue: usize,
) -> Result<mpsc::Sender<Request>, StoreError> {
    const DOING: &str = "start the storage threads";
    let barrier = backend.barrier().map_err(StoreError::during(DOING))?;
    let (to_barrier, waiting) = std_mpsc::sync_channel(BARRIER_QUEUE);
    let (to_storage, requests) = mpsc::channel(queue);
    let for_barrier = context.clone();
    let handle = std::thread::Builder::new()
        .name("store-barrier".into())
        .spawn(move || run_barrier(Durable { barrier, journal }, &waiting, &for_barrier))
        .map_err(StoreError::during(DOING))?;
    let barrier = BarrierThread { commits: to_barrier, handle };
    std::thread::Builder::new()
        .name("store".into())
        .spawn(move || {
            run_storage(Executor::new((backend, ledger), barrier, context.clone(), lock), &context, requests)
        })
        .map_err(StoreError::during(DOING))?;
    Ok(to_storage)
}

fn run_storage(mut executor: Executor, context: &Context, mut requests: mpsc::Receiver<Request>) {
    let outcome = caught(|| {
        while let Some(first) = requests.blocking_recv() {
            let _busy = context.monitor.busy(StoreThread::Storage);
            let mut next = Some(first);
            let mut taken = 0;
            while let Some(request) = next {
                if let ControlFlow::Break(reply) = executor.take(request)? {
                    return Ok(Some(reply));
                }
                taken += 1;
                next = if taken < GROUP { requests.try_recv().ok() } else { None };
            }
            executor.finish_group()?;
        }
        Ok(None)
    });
    let failure = match outcome {
        Ok(Ok(reply)) => {
            context.monitor.close();
            // Whoever has asked for more hears that at once, however long the files take.
            drop(requests);
            executor.close();
            if let Some(reply) = reply {
                let _ = reply.send(Ok(()));
            }
            return;
        }
        Ok(Err(error)) => error,
        Err(panicked) => BackendError::Damaged(panicked.to_string()),
    };
    // Only tests get past the hook. Then the backend is leaked: dropping it could hang or write.
    context.fatal(&failure);
    executor.leak();
}

fn run_barrier(mut durable: Durable, waiting: &std_mpsc::Receiver<Flushed>, context: &Context) {
    let mut group = Vec::new();
    while let Ok(first) = waiting.recv() {
        group.push(first);
        group.extend(waiting.try_iter().take(BARRIER_QUEUE));
        let outcome = caught(|| {
            let _busy = context.monitor.busy(StoreThread::Barrier);
            durable.settle(&mut group, context).and_then(|()| context.mark.sync_if_due())
        });
        if let Err(error) = outcome.unwrap_or_else(|panicked| Err(BackendError::panicked(panicked))) {
            // After a failed sync the kernel may have dropped the pages: only a fresh process can find out.
            context.fatal(&error);
            return;
        }
    }
    if let Err(error) = context.mark.sync() {
        tracing::warn!(%error, "the mark of the store was not synced");
    }
}
