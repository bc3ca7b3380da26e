//! Idempotency keys: the same request under the same key leads to the same task.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, MutexGuard};

use warmpool_core::ids::TaskId;
use warmpool_core::instance::Instance;
use warmpool_keys::KeyId;

/// Requests with idempotency keys that are looked up at the same time.
const LOCKS: usize = 16;

/// What a key led to, as the store has it.
#[derive(Serialize, Deserialize)]
pub(super) struct KnownKey {
    pub(super) task: TaskId,
    /// A keyed hash of the request, so that the stored value reveals nothing about it.
    pub(super) fingerprint: String,
}

/// A key with its request.
#[derive(Debug, Clone)]
pub(super) struct IdempotencyKey {
    /// The key of its row in the store.
    pub(super) row: Vec<u8>,
    pub(super) fingerprint: String,
}

pub(super) struct Idempotency {
    instance: Arc<Instance>,
    locks: [Mutex<()>; LOCKS],
}

impl Idempotency {
    pub(super) fn new(instance: Arc<Instance>) -> Self {
        Self { instance, locks: std::array::from_fn(|_| Mutex::default()) }
    }

    /// The key that `owner` sent with `request`.
    pub(super) fn key(&self, owner: &KeyId, sent: &str, request: &str) -> IdempotencyKey {
        let print = |parts: [&str; 3]| self.instance.fingerprint(&parts);
        let mut row = owner.as_str().as_bytes().to_vec();
        row.extend_from_slice(&print(["idempotency key", owner.as_str(), sent]));
        let fingerprint = hex::encode(print(["request", owner.as_str(), request]));
        IdempotencyKey { row, fingerprint }
    }

    /// Nobody else looks the same key up while the guard exists.
    pub(super) async fn lock(&self, key: &IdempotencyKey) -> MutexGuard<'_, ()> {
        let lock = key.row.last().map_or(0, |byte| usize::from(*byte) % LOCKS);
        self.locks[lock].lock().await
    }
}
