//! Looks after the browser of a session: whether it answers, and whether memory runs out.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use warmpool_protocol::{WorkerEvent, WorkerState};

use super::Claimed;
use crate::oom::KillCount;

impl Claimed {
    /// Reports when the browser has stopped answering.
    pub(super) async fn watch_for_hangs(&self) {
        let limit = self.shared.claim.unresponsive_timeout();
        while self.shared.status.state() == WorkerState::Active {
            sleep(limit / 4).await;
            until_answered(self.engine.ping(), limit, || self.shared.status.publish(&WorkerEvent::Unresponsive)).await;
        }
    }

    /// Reports the processes that the kernel ends for lack of memory while the browser goes on.
    pub(super) async fn watch_memory(self: Arc<Self>) {
        let Some(count) = KillCount::open() else { return };
        let Some(before) = count.read() else { return };
        while self.shared.status.state() == WorkerState::Active {
            count.changed().await;
            let kills = count.read().unwrap_or(before);
            self.shared.status.report_oom_kills(kills.saturating_sub(before));
        }
    }
}

/// Waits for an answer, and reports each time that it has been missing for as long as `limit`: whoever is to hear of it may have
/// been away.
async fn until_answered(answer: impl Future<Output = ()>, limit: Duration, report: impl Fn()) {
    let mut answer = std::pin::pin!(answer);
    while timeout(limit, &mut answer).await.is_err() {
        report();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_browser_that_hangs_is_reported_again_and_again() {
        let limit = Duration::from_secs(30);
        for (takes, reported) in [(29, 0), (31, 1), (100, 3)] {
            let reports = Cell::new(0);
            until_answered(sleep(Duration::from_secs(takes)), limit, || reports.set(reports.get() + 1)).await;
            assert_eq!(reports.get(), reported, "after {takes} s");
        }
    }
}
