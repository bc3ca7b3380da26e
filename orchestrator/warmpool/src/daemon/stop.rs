//! Takes the parts apart in order, within the time that there is.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::closing::Closing;
use super::start::Started;
use super::{Daemon, End, StartError};
use crate::http::Parts;
use warmpool_core::drain::Phase;

impl Daemon {
    /// Ends everything, or leaves the workers to the next start where `end` says so. `force` shortens the time.
    /// Errors: `end`'s own, or those of the store.
    pub(super) async fn stop(
        self,
        started: Started,
        end: Result<End, StartError>,
        force: &CancellationToken,
    ) -> Result<End, StartError> {
        if let Ok(End::Superseded) = end {
            return end;
        }
        let Parts { config, pool, sessions, tasks, store, drain, .. } = &*self.app;
        drain.advance(Phase::Draining);
        let closing = Closing::begin(&config.drain, force.clone());
        if let Ok(End::SessionsKept | End::Replaced) = end {
            closing.close(store).await?;
            closing.within(self.ownership.give_up()).await;
            return end;
        }
        pool.stop_leasing();
        // Tasks are interrupted a little before their sessions end, so that they hear the reason and not a dead browser.
        let for_tasks = config.drain.timeout.mul_f64(0.9);
        let drained =
            async |for_tasks, for_sessions| tokio::join!(tasks.drain(for_tasks), sessions.drain(for_sessions));
        tokio::select! {
            _ = closing.within(drained(for_tasks, config.drain.timeout)) => {}
            () = force.cancelled() => {
                closing.within(drained(Duration::ZERO, Duration::ZERO)).await;
            }
            superseded = self.superseded() => return Ok(superseded),
        }
        closing.within(pool.close()).await;
        drain.advance(Phase::Stopped);
        self.stop.cancel();
        closing.within(async { tokio::join!(started.last_used, drain.finished()) }).await;
        closing.close(store).await?;
        closing.within(self.ownership.give_up()).await;
        match pool.left() {
            0 => end,
            workers => {
                tracing::error!(workers, "not every container could be removed: the next start finds them");
                end.map(|_| End::Left { workers })
            }
        }
    }
}
