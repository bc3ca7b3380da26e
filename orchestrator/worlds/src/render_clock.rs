//! How long a scene may take. The time in which its world waits for the store or the disk is not the scene's.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// What is left of a scene's time.
#[derive(Debug, Clone, Copy)]
enum TimeLeft {
    /// It runs out then.
    Until(Instant),
    /// It stands still.
    Still(Duration),
}

/// The time of one scene.
#[derive(Debug)]
pub(super) struct RenderClock(watch::Sender<TimeLeft>);

/// Lets a clock go on when it is dropped.
struct StoppedClock<'a> {
    clock: &'a RenderClock,
    left: Duration,
}

impl Drop for StoppedClock<'_> {
    fn drop(&mut self) {
        self.clock.0.send_replace(TimeLeft::Until(Instant::now() + self.left));
    }
}

impl RenderClock {
    /// A clock that runs out after `limit`.
    pub(super) fn start(limit: Duration) -> Self {
        Self(watch::Sender::new(TimeLeft::Until(Instant::now() + limit)))
    }

    /// Does something while the clock stands still.
    pub(super) async fn stand_still<T>(&self, work: impl Future<Output = T>) -> T {
        let _stopped = self.stop();
        work.await
    }

    fn stop(&self) -> StoppedClock<'_> {
        let left = match *self.0.borrow() {
            TimeLeft::Until(end) => end.saturating_duration_since(Instant::now()),
            TimeLeft::Still(left) => left,
        };
        self.0.send_replace(TimeLeft::Still(left));
        StoppedClock { clock: self, left }
    }

    /// Resolves once it has run out.
    pub(super) async fn run_out(&self) {
        let mut left = self.0.subscribe();
        loop {
            let now = *left.borrow_and_update();
            let end = async {
                match now {
                    TimeLeft::Until(end) => sleep_until(end).await,
                    TimeLeft::Still(_) => std::future::pending().await,
                }
            };
            tokio::select! {
                () = end => return,
                // The sender is this clock's own.
                _ = left.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_clock_runs_out_by_the_time_in_which_it_did_not_stand_still() {
        let (clock, begun) = (RenderClock::start(3 * MINUTE), Instant::now());
        let scene = async {
            sleep(MINUTE).await;
            clock.stand_still(sleep(1000 * MINUTE)).await;
            sleep(MINUTE).await;
            // Whoever gives up waiting lets it go on as well.
            assert!(timeout(100 * MINUTE, clock.stand_still(std::future::pending::<()>())).await.is_err());
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = scene => {}
            () = clock.run_out() => {}
        }
        let slept = begun.elapsed();
        assert!((1103 * MINUTE..1104 * MINUTE).contains(&slept), "{slept:?}");
    }
}
