//! Comparing the pool with the runtime: which images there are, what became of the network, and which containers nobody knows.
//!
//! This runs in a task of its own, since it waits for the runtime: one that answers late, or not to the end, must keep no
//! worker from being started.

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::sleep;

use super::Pool;
use warmpool_core::drain::Phase;
use warmpool_core::ids::WorkerId;

/// How many containers are asked, or removed, at the same time.
pub(super) const AT_ONCE: usize = 16;

impl Pool {
    /// Compares the two again and again until the daemon drains. To be called once, after [`Pool::keep_unclaimed`].
    pub async fn keep_in_step(&self) {
        let comparing = async {
            loop {
                tokio::select! {
                    () = self.parts.compare.notified() => {}
                    () = sleep(self.parts.config.docker.reconcile_interval) => {}
                }
                self.look_for_images().await;
                self.check_network().await;
                self.reconcile().await;
            }
        };
        tokio::select! {
            () = self.parts.drain.reached(Phase::Draining) => {}
            () = comparing => {}
        }
    }

    /// Removes containers that carry our label and that nobody here knows, as after a start whose answer was lost.
    pub(super) async fn reconcile(&self) {
        let owned = match self.parts.runtime.list_containers().await {
            Ok(owned) => owned,
            Err(error) => return tracing::debug!(%error, "cannot list the containers"),
        };
        // The table knows a worker before its container exists, so an unknown one is nobody's.
        let unknown = |worker: &WorkerId| !self.lock().workers.contains_key(worker);
        let nobodys: Vec<WorkerId> =
            owned.into_iter().map(|container| container.worker).filter(|worker| unknown(worker)).collect();
        let remove = |worker: WorkerId| async move {
            tracing::info!(%worker, "removing a container that nobody owns");
            self.remove_unknown(&worker).await;
        };
        stream::iter(nobodys).for_each_concurrent(AT_ONCE, remove).await;
    }

    /// Removes a container that is in no table. What cannot be removed now is nobody's, so the next comparison tries again.
    pub(super) async fn remove_unknown(&self, worker: &WorkerId) {
        if let Err(error) = self.parts.runtime.remove(worker).await {
            tracing::warn!(%worker, %error, "a container could not be removed yet");
        }
    }
}
