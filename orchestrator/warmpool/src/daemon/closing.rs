//! The time that the daemon has to end: what takes longer is left to the next start.

use std::future::Future;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use warmpool_config::DrainSettings;
use warmpool_store::{Store, StoreError};

/// The time from the first signal on; the second one shortens it.
pub(crate) struct Closing {
    settings: DrainSettings,
    over: CancellationToken,
}

impl Closing {
    /// Begins to count. `force` is the second signal.
    pub(crate) fn begin(settings: &DrainSettings, force: CancellationToken) -> Self {
        let (settings, over) = (settings.clone(), CancellationToken::new());
        let by = Instant::now() + settings.timeout + settings.close_timeout;
        let (at_once, told) = (settings.force_timeout, over.clone());
        tokio::spawn(async move {
            let forced = async {
                force.cancelled().await;
                sleep(at_once).await;
            };
            tokio::select! {
                () = sleep_until(by) => {}
                () = forced => {}
            }
            told.cancel();
        });
        Self { settings, over }
    }

    /// What comes of `work`, unless the time is over before.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.over.run_until_cancelled(work).await
    }

    /// Closes the store. It comes last and may have taken something on a moment ago, so it has `drain.force_timeout` even
    /// when the time is over.
    pub(crate) async fn close(&self, store: &Store) -> Result<(), StoreError> {
        tokio::select! {
            closed = store.close() => closed,
            () = async { self.over.cancelled().await; sleep(self.settings.force_timeout).await } => {
                tracing::error!("the store did not close in time; the next start reads its log");
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use super::*;
    use warmpool_config::{Config, Flags, Host};

    fn settings() -> DrainSettings {
        let host = Host { memory: 16 << 30, cores: 8, root: true, ..Host::default() };
        Config::resolve(None, [], &Flags::default(), &host).unwrap().drain.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_signal_leaves_time_and_the_second_one_ends_it() {
        let settings = settings();
        let force = CancellationToken::new();
        let closing = Closing::begin(&settings, force.clone());
        let begun = Instant::now();
        assert_eq!(closing.within(async { 7 }).await, Some(7));
        assert_eq!(closing.within(pending::<()>()).await, None);
        assert_eq!(begun.elapsed(), settings.timeout + settings.close_timeout);
        assert_eq!(closing.within(pending::<()>()).await, None, "nothing gets more time");

        let closing = Closing::begin(&settings, force.clone());
        let begun = Instant::now();
        force.cancel();
        assert_eq!(closing.within(pending::<()>()).await, None);
        assert_eq!(begun.elapsed(), settings.force_timeout);
    }

    /// What the daemon takes at most after one SIGTERM, whatever hangs.
    #[test]
    fn no_service_manager_kills_a_daemon_that_is_ending() {
        let drain = settings();
        let longest = drain.timeout + drain.close_timeout + drain.force_timeout;
        for (unit, name) in [
            (include_str!("../../../../deploy/warmpool.service"), "TimeoutStopSec="),
            (include_str!("../../../../deploy/compose.yaml"), "stop_grace_period: "),
            (include_str!("../../../../deploy/swarm.yml"), "stop_grace_period: "),
        ] {
            let waits = unit.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_suffix('s')).unwrap();
            assert!(longest < Duration::from_secs(waits.parse().unwrap()), "{name}{waits}: {longest:?}");
        }
    }
}
