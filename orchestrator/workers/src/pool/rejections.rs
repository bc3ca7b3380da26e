//! What others may know of the pool: what its warm workers say of their browsers, and how many callers it turned away.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use warmpool_protocol::Snapshot;

use super::Pool;
use warmpool_core::browser::Engine;

/// How long a rejection counts as recent.
const RECENT: Duration = Duration::from_secs(300);
/// The most that are counted.
const MOST: usize = 10_000;

/// When callers were turned away because the queue was full.
#[derive(Default)]
pub(super) struct Rejections {
    times: Mutex<VecDeque<Instant>>,
}

impl Rejections {
    /// One more.
    pub(super) fn add(&self) {
        let mut times = self.times.lock();
        if times.len() == MOST {
            times.pop_front();
        }
        times.push_back(Instant::now());
    }

    fn recent(&self) -> usize {
        let mut times = self.times.lock();
        while times.front().is_some_and(|time| time.elapsed() > RECENT) {
            times.pop_front();
        }
        times.len()
    }
}

impl Pool {
    /// How many callers were turned away within the last five minutes because the queue was full.
    pub fn recently_rejected(&self) -> usize {
        self.parts.rejections.recent()
    }

    /// What a warm worker of this engine says of itself, if there is one.
    pub fn warm_snapshot(&self, engine: Engine) -> Option<Snapshot> {
        let state = self.lock();
        let worker = state.ready(engine)?;
        Some(worker.snapshot.borrow().clone())
    }
}
