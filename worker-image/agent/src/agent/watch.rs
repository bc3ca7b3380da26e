//! Looks after the browser of a session: whether it answers, and whether memory runs out.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use warmpool_protocol::{WorkerEvent, WorkerState};

use super::Claimed;
use crate::oom;

/// Time between two looks whether memory ran out.
const MEMORY_LOOK: Duration = Duration::from_secs(1);

impl Claimed {
    /// Reports each time the browser stops answering.
    pub(super) async fn watch_for_hangs(self: Arc<Self>) {
        let limit = self.shared.claim.unresponsive_timeout();
        while self.shared.status.state() == WorkerState::Active {
            sleep(limit / 4).await;
            let mut ping = std::pin::pin!(self.engine.ping());
            if tokio::time::timeout(limit, &mut ping).await.is_err() {
                self.shared.status.publish(&WorkerEvent::Unresponsive);
                ping.await;
            }
        }
    }

    /// Reports the processes that the kernel ends for lack of memory while the browser goes on.
    pub(super) async fn watch_memory(self: Arc<Self>) {
        let Some(before) = oom::kills() else { return };
        while self.shared.status.state() == WorkerState::Active {
            sleep(MEMORY_LOOK).await;
            let kills = oom::kills().unwrap_or(before);
            self.shared.status.report_oom_kills(kills.saturating_sub(before));
        }
    }
}
