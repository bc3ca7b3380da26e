//! What callers hold of the pool: a worker of their own, or a place in the queue for one.

use std::sync::Arc;

use super::Pool;
use crate::worker::Worker;
use warmpool_core::ids::WorkerId;

/// A worker that somebody owns. Dropping it destroys the worker, unless it was never used.
pub struct Lease {
    pub(super) pool: Pool,
    pub(super) worker: Arc<Worker>,
    pub(super) used: bool,
}

impl Lease {
    /// The worker, which counts as used from here on.
    pub fn use_worker(&mut self) -> &Arc<Worker> {
        if !std::mem::replace(&mut self.used, true) {
            self.pool.mark_leased(self.worker.id.clone());
        }
        &self.worker
    }

    /// Counts the worker towards its key no more: its session has ended, and only its container is still to go.
    pub fn session_ended(&self) {
        self.pool.lock().session_ended(&self.worker.id);
    }

    /// The worker's id.
    pub fn id(&self) -> &WorkerId {
        &self.worker.id
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.give_back(&self.worker, self.used);
    }
}

#[cfg(any(test, feature = "testing"))]
impl Pool {
    /// A lease of a worker that is nowhere: nobody answers there, and nothing is heard of it.
    pub fn lease_nowhere(&self, owner: warmpool_keys::KeyId) -> Lease {
        use warmpool_core::browser::{Engine, Mode, PoolKey};
        use warmpool_protocol::Secret;
        use warmpool_runtime::AgentAddress;
        let (id, key) = (WorkerId::random(), PoolKey::plain(Engine::Chromium, Mode::Headless));
        let address = AgentAddress::Unix("/nowhere/agent.sock".into());
        let (worker, reports) = Worker::found(id, key, address.into(), &Secret::new("nowhere".to_owned()));
        // A worker whose watch has ended counts as lost.
        std::mem::forget(reports);
        self.lock().add_leased(&worker, owner);
        Lease { pool: self.clone(), worker, used: true }
    }
}

/// A place in the queue, given up when dropped.
pub(super) struct QueuePlace {
    pub(super) pool: Pool,
    pub(super) number: u64,
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        if self.pool.lock().leave(self.number) {
            self.pool.parts.changed.notify_one();
        }
    }
}
