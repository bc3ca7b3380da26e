//! The messages of one key: how many there may be, and how many are under way.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::message::Receiver;

/// Messages of one lane that are sent at the same time.
const AT_ONCE: usize = 4;

/// The lanes of all receivers.
#[derive(Debug, Default)]
pub(super) struct Lanes(Mutex<HashMap<Receiver, Arc<Lane>>>);

#[derive(Debug)]
struct Lane {
    pending: AtomicUsize,
    sending: Semaphore,
}

/// A place in a lane; dropping it frees it.
#[derive(Debug)]
pub(super) struct LanePermit(Arc<Lane>);

impl Lanes {
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// A place for one more message, unless `limit` wait already. One that was kept by an earlier process always gets one.
    pub(super) fn enter(&self, receiver: &Receiver, limit: Option<usize>) -> Option<LanePermit> {
        let lane = {
            let mut lanes = self.0.lock();
            // Keys come and go; a lane that nobody waits in is made anew when it is wanted.
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
            let new = || Arc::new(Lane { pending: AtomicUsize::new(0), sending: Semaphore::new(AT_ONCE) });
            Arc::clone(lanes.entry(receiver.clone()).or_insert_with(new))
        };
        let before = lane.pending.fetch_add(1, Ordering::Relaxed);
        // Dropped where there are too many, which counts it out again.
        let place = LanePermit(lane);
        gauge(1.0);
        limit.is_none_or(|limit| before < limit).then_some(place)
    }
}

impl LanePermit {
    /// Waits for its turn to be sent.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.0.sending.acquire().await.ok()
    }
}

impl Drop for LanePermit {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Ordering::Relaxed);
        gauge(-1.0);
    }
}

fn gauge(change: f64) {
    metrics::gauge!("warmpool_webhooks_pending").increment(change);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_lane_leaves_others_alone() {
        let lanes = Lanes::default();
        let key = Receiver::Client { key: "0123456789ab".parse().unwrap() };
        let first = lanes.enter(&key, Some(1));
        assert!(first.is_some() && lanes.enter(&key, Some(1)).is_none());
        assert!(lanes.enter(&Receiver::Operator, Some(1)).is_some());
        assert!(lanes.enter(&key, None).is_some(), "what was kept is not dropped");
        drop(first);
        assert!(lanes.enter(&key, Some(1)).is_some());
    }
}
