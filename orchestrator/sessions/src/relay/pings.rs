//! Pings of the relay's own. A client that hears nothing gets one, because proxies in between cut a connection that stays quiet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// The shortest time between two looks at a connection.
const SHORTEST_TICK: Duration = Duration::from_millis(1);

/// The number of the relay's own Pings that a client has not answered yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Unanswered(Arc<AtomicU32>);

impl Unanswered {
    /// Counts an answer, which nobody else waits for. False where all are answered.
    pub(super) fn take(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1)).is_ok()
    }
}

/// Tells when a client has heard nothing for so long that a Ping is due.
#[derive(Debug)]
pub(super) struct Silence {
    clock: Interval,
    /// Whether the client has heard nothing since the last tick.
    is_quiet: bool,
    unanswered: Unanswered,
}

impl Silence {
    /// Silence that lasts no longer than `most`; none where that is zero.
    pub(super) fn of_at_most(most: Duration, unanswered: Unanswered) -> Option<Self> {
        if most.is_zero() {
            return None;
        }
        // Messages only leave a mark, and set no timer. The second tick without one comes half of `most` after the last message, or
        // later, and never after all of it.
        let tick = (most / 2).max(SHORTEST_TICK);
        let mut clock = interval_at(Instant::now() + tick, tick);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Some(Self { clock, is_quiet: false, unanswered })
    }

    /// The client was sent something.
    pub(super) const fn broken(&mut self) {
        self.is_quiet = false;
    }

    /// Waits until a Ping is due. It may be dropped half-way and called again.
    pub(super) async fn too_long(&mut self) {
        loop {
            self.clock.tick().await;
            if std::mem::replace(&mut self.is_quiet, true) {
                return;
            }
        }
    }

    /// Counts a Ping that the client gets.
    pub(super) fn pings(&self) {
        self.unanswered.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::time::timeout;

    use super::*;

    const MOST: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn silence_lasts_no_longer_than_it_may() {
        assert!(Silence::of_at_most(Duration::ZERO, Unanswered::default()).is_none(), "it is off");
        for seconds in [0, 1, 14, 15, 16, 29] {
            let mut silence = Silence::of_at_most(MOST, Unanswered::default()).unwrap();
            assert!(timeout(Duration::from_secs(seconds), silence.too_long()).await.is_err(), "{seconds}");
            silence.broken();
            let sent = Instant::now();
            silence.too_long().await;
            // The clock counts milliseconds.
            let most = MOST + Duration::from_millis(1);
            assert!((MOST / 2..=most).contains(&sent.elapsed()), "{seconds}: {:?}", sent.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_ping_has_one_answer() {
        let unanswered = Unanswered::default();
        let mut silence = Silence::of_at_most(MOST, unanswered.clone()).unwrap();
        assert!(!unanswered.take() && silence.too_long().now_or_never().is_none());
        silence.pings();
        silence.pings();
        assert_eq!([(); 3].map(|()| unanswered.take()), [true, true, false]);
    }
}
