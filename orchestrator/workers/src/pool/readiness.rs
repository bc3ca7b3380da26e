//! Whether the pool can serve: whether the container runtime can be used, and whether callers can get a worker.

use tokio::time::{Duration, Instant, sleep};

use super::Pool;
use super::state::ProgressBounds;
use crate::Error;
use crate::worker::LossReason;
use warmpool_core::drain::Phase;
use warmpool_core::error::ServiceError;
use warmpool_runtime::RuntimeError;

/// How often the container runtime is asked whether it lives.
const PING_EVERY: Duration = Duration::from_secs(2);

impl Pool {
    /// Whether every kind is at its target, and the runtime answers.
    pub fn is_warm(&self) -> bool {
        let state = self.lock();
        state.runtime_up && state.is_warm(Instant::now())
    }

    /// Whether the container runtime can be used.
    pub fn runtime_up(&self) -> bool {
        self.lock().runtime_up
    }

    /// Whether a caller can have a worker, now or as soon as the one is warm that is being started. After an outage that is
    /// once every kind was at its target again.
    pub fn can_serve(&self) -> bool {
        let config = &self.parts.config;
        let bounds = ProgressBounds { max_workers: config.pool.max_workers, patience: config.worker.ready_timeout };
        self.lock().can_serve(Instant::now(), bounds)
    }

    /// Notices when the container runtime goes and comes back, until the daemon stops.
    pub async fn follow_runtime(&self) {
        let mut told = false;
        loop {
            tokio::select! {
                () = self.parts.drain.reached(Phase::Stopped) => return,
                () = sleep(PING_EVERY) => {}
            }
            match self.probe().await {
                Ok(()) => {
                    told = false;
                    self.runtime_came();
                    self.look_at_nodes().await;
                }
                Err(error) => {
                    let was_up = self.runtime_went();
                    // An engine that answers, but is unfit for workers, is worth a word of its own.
                    let unfit = error.is_unfit();
                    if was_up || (unfit && !told) {
                        tracing::error!(%error, "the container runtime cannot be used");
                        told = unfit;
                    }
                }
            }
        }
    }

    /// Records that the runtime cannot be used. Those who wait for a worker hear it as later callers do. Returns whether it
    /// could be used until now.
    fn runtime_went(&self) -> bool {
        let (was_up, waiters) = {
            let mut state = self.lock();
            (state.runtime_went(), state.dismiss(|_| true))
        };
        for waiter in waiters {
            let _ = waiter.sender.send(Err(Error::Service(ServiceError::RuntimeDown)));
        }
        was_up
    }

    /// Asks whether the runtime can be used. A new engine on the old socket may have lost the workers' network, or have
    /// another of its name.
    async fn probe(&self) -> Result<(), RuntimeError> {
        self.parts.runtime.ping().await?;
        if self.runtime_up() { Ok(()) } else { self.parts.runtime.ensure_network().await }
    }

    /// Records that the runtime can be used; after an outage, looks for what was missed.
    fn runtime_came(&self) {
        let was_up = std::mem::replace(&mut self.lock().runtime_up, true);
        if !was_up {
            tracing::info!("the container runtime answers");
            self.lock().forget_failures();
            self.parts.compare.notify_one();
            self.parts.changed.notify_one();
        }
    }

    /// Makes the workers' network again if somebody removed it, and starts no more workers if it is another one now.
    pub(super) async fn check_network(&self) {
        if !self.runtime_up() {
            return;
        }
        if let Err(error @ RuntimeError::UnfitNetwork { .. }) = self.parts.runtime.ensure_network().await {
            tracing::error!(%error, "no more workers are started");
            self.runtime_went();
        }
    }

    /// Records the loss of a worker. A container that ended by itself may not have been the only one.
    pub(super) fn record_loss(&self, loss: &LossReason) {
        if matches!(
            loss,
            LossReason::ContainerExited { .. }
                | LossReason::EngineStopped
                | LossReason::ContainerGone
                | LossReason::Node(_)
        ) {
            self.lock().lost_a_container();
        }
    }
}

#[cfg(test)]
mod tests {
    use warmpool_protocol::Settings;

    use super::*;
    use crate::pool::WorkerRequest;
    use warmpool_config::Trust;
    use warmpool_core::browser::{Engine, Mode, PoolKey};

    #[tokio::test]
    async fn who_waits_hears_that_the_runtime_went() {
        let (pool, _data) = Pool::without_engine();
        pool.lock().runtime_up = true;
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move {
                let (settings, trust) = (Settings::default(), Trust::default());
                let plain = PoolKey::plain(Engine::Chromium, Mode::Headless);
                let wanted =
                    WorkerRequest { plain, settings: &settings, extensions: &[], trust: &trust, queue_wait: None };
                pool.lease(wanted, &"000000000000".parse().unwrap()).await.map(drop)
            }
        });
        while pool.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        assert!(pool.runtime_went());
        assert!(matches!(waiting.await.unwrap(), Err(Error::Service(ServiceError::RuntimeDown))));
        assert!(!pool.runtime_went(), "it is known");
    }
}
