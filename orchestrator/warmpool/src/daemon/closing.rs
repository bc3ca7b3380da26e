//! The time that the daemon has to end: what takes longer is left to the next start.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use warmpool_config::DrainSettings;
use warmpool_store::{Store, StoreError};

/// The time from the signal on; the second SIGTERM shortens it.
pub(crate) struct Closing {
    settings: DrainSettings,
    over: CancellationToken,
}

impl Closing {
    /// Begins to count. What runs has the time `for_work` to end, and `drain.close_timeout` comes on top; `force` is the second
    /// SIGTERM.
    pub(crate) fn begin(settings: &DrainSettings, for_work: Duration, force: CancellationToken) -> Self {
        let (settings, over) = (settings.clone(), CancellationToken::new());
        let by = Instant::now() + for_work + settings.close_timeout;
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
    /// when the time is over. One that is slower keeps nobody from ending: all that it has taken is on the disk.
    /// Errors: those of [`Store::close`], without `Timeout`.
    pub(crate) async fn close(&self, store: &Store) -> Result<(), StoreError> {
        let late = async {
            self.over.cancelled().await;
            sleep(self.settings.force_timeout).await;
        };
        let closed = tokio::select! {
            closed = store.close() => Some(closed),
            () = late => None,
        };
        match closed {
            None | Some(Err(StoreError::Timeout { .. })) => {
                tracing::error!("the store did not close in time; the next start reads its log");
                Ok(())
            }
            Some(closed) => closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use warmpool_config::{Config, Flags, Host};
    use warmpool_store::StoreOptions;
    use warmpool_store::fault::{FaultGate, FaultPoint, Faults, StoreFault};

    fn settings() -> DrainSettings {
        let host = Host { memory: 16 << 30, cores: 8, root: true, ..Host::default() };
        Config::resolve(None, [], &Flags::default(), &host).unwrap().drain.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_signal_leaves_time_and_the_second_one_ends_it() {
        let settings = settings();
        let force = CancellationToken::new();
        let closing = Closing::begin(&settings, settings.timeout, force.clone());
        let begun = Instant::now();
        assert_eq!(closing.within(async { 7 }).await, Some(7));
        assert_eq!(closing.within(pending::<()>()).await, None);
        assert_eq!(begun.elapsed(), settings.timeout + settings.close_timeout);
        assert_eq!(closing.within(pending::<()>()).await, None, "nothing gets more time");

        let closing = Closing::begin(&settings, settings.timeout, force.clone());
        let begun = Instant::now();
        force.cancel();
        assert_eq!(closing.within(pending::<()>()).await, None);
        assert_eq!(begun.elapsed(), settings.force_timeout);
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_closes_slowly_keeps_no_program_from_being_replaced() {
        let (settings, faults, gate) = (settings(), Faults::default(), FaultGate::default());
        faults.always(FaultPoint::Barrier, StoreFault::Hang(gate.clone()));
        let store = Store::faulty(&faults, StoreOptions { min_free_bytes: 0, ..StoreOptions::default() });
        let closing = Closing::begin(&settings, Duration::ZERO, CancellationToken::new());
        let begun = Instant::now();
        let closed = closing.close(&store).await;
        gate.open();
        closed.unwrap();
        assert_eq!(begun.elapsed(), settings.close_timeout + settings.force_timeout, "what runs needs no time to end");
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
