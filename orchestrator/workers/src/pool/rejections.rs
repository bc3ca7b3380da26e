//! How many callers the pool turned away lately because the queue was full.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Pool;

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
    /// Counts one more.
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
}
