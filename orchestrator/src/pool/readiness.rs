//! Whether the pool can serve: whether the container runtime can be used, and whether a worker can be had of it.

use tokio::time::{Duration, Instant, sleep};

use super::Pool;
use crate::drain::Phase;
use crate::runtime::RuntimeError;
use crate::worker::LossReason;

/// How often the container runtime is asked whether it lives.
const PING_EVERY: Duration = Duration::from_secs(2);

impl Pool {
    /// Whether every kind is at its target, and the runtime answers.
    pub(crate) fn is_warm(&self) -> bool {
        let state = self.lock();
        state.runtime_up && state.is_warm(Instant::now())
    }

    /// Whether the container runtime can be used.
    pub(crate) fn runtime_up(&self) -> bool {
        self.lock().runtime_up
    }

    /// Whether a caller can have a worker, now or as soon as the one behind the last hand-out is warm. After an outage
    /// that is once every kind is at its target again.
    pub(crate) fn can_serve(&self) -> bool {
        self.lock().can_serve(Instant::now())
    }

    /// Notices when the container runtime goes and comes back, until the daemon stops.
    pub(crate) async fn follow_runtime(&self) {
        let mut told = false;
        loop {
            tokio::select! {
                () = self.inner.drain.reached(Phase::Stopped) => return,
                () = sleep(PING_EVERY) => {}
            }
            match self.probe().await {
                Ok(()) => {
                    told = false;
                    self.runtime_came().await;
                }
                Err(error) => {
                    let was_up = self.lock().runtime_went();
                    // The daemon that answers, but with a network that workers must not be put on, is worth a word of its own.
                    let unfit = matches!(error, RuntimeError::UnfitNetwork { .. });
                    if was_up || (unfit && !told) {
                        tracing::error!(%error, "the container runtime cannot be used");
                        told = unfit;
                    }
                }
            }
        }
    }

    /// Asks whether the runtime can be used. A new engine on the old socket may have lost the workers' network, or have
    /// another of its name.
    async fn probe(&self) -> Result<(), RuntimeError> {
        self.inner.runtime.ping().await?;
        if self.runtime_up() { Ok(()) } else { self.inner.runtime.ensure_network().await }
    }

    /// Notes that the runtime can be used; after an outage looks for what was missed.
    async fn runtime_came(&self) {
        let was_up = std::mem::replace(&mut self.lock().runtime_up, true);
        if !was_up {
            tracing::info!("the container runtime answers");
            self.lock().forget_failures();
            self.look_for_images().await;
            self.reconcile().await;
            self.inner.changed.notify_one();
        }
    }

    /// Makes the workers' network again if somebody removed it, and starts no more workers if it is another one now.
    pub(super) async fn check_network(&self) {
        if !self.runtime_up() {
            return;
        }
        if let Err(error @ RuntimeError::UnfitNetwork { .. }) = self.inner.runtime.ensure_network().await {
            tracing::error!(%error, "no more workers are started");
            self.lock().runtime_went();
        }
    }

    /// Notes the loss of a worker. A container that ended by itself may not have been the only one.
    pub(super) fn note_loss(&self, loss: &LossReason) {
        if matches!(loss, LossReason::ContainerExited { .. } | LossReason::ContainerGone | LossReason::NodeLost { .. })
        {
            self.lock().lost_a_container();
        }
    }
}
