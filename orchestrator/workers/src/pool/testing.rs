//! A pool without an engine, for tests of what leases its workers.

use super::Pool;
use crate::worker::Worker;
use warmpool_core::browser::PoolKey;

impl Pool {
    /// Supposes that the container engine answers, so that callers wait for a worker.
    pub fn suppose_up(&self) {
        self.lock().runtime_up = true;
    }

    /// Adds a warm worker of this kind, whose agent nobody is, and hands it to whoever waits for one.
    pub fn add_warm(&self, key: PoolKey) {
        self.lock().add_ready(Worker::nobody(key));
        self.settle();
    }
}
