//! Comparing the pool with the runtime: which images there are, what became of the network, which containers nobody knows, and
//! which warm workers have an older image.
//!
//! This runs in a task of its own, since it waits for the runtime: one that answers late, or not to the end, must keep no
//! worker from being started.

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::{Instant, sleep};

use super::Pool;
use warmpool_core::drain::Phase;
use warmpool_core::ids::WorkerId;
use warmpool_runtime::OwnedContainer;

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

    /// Removes containers that carry our label and that nobody here knows, as after a start whose answer was lost, and replaces
    /// warm workers of older images.
    pub(super) async fn reconcile(&self) {
        let owned = match self.parts.runtime.list_containers().await {
            Ok(owned) => owned,
            Err(error) => return tracing::debug!(%error, "cannot list the containers"),
        };
        self.replace_outdated(&owned);
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

    /// Replaces one warm worker of each kind whose image is not what its engine's name stands for any more. Until the plan has made
    /// the next one warm, the kind is left alone: an image that does not start costs each kind one worker.
    fn replace_outdated(&self, owned: &[OwnedContainer]) {
        let mut full = self.lock().kinds(usize::MAX, Instant::now());
        full.retain(|_, kind| kind.ready >= kind.target && !kind.backing_off);
        for container in owned {
            let Some(key) = container.key.filter(|key| full.contains_key(key)) else { continue };
            let is_outdated = self.lock().images.is_outdated(key.engine, &container.image);
            if is_outdated && self.retire_unowned(&container.worker) {
                tracing::info!(worker = %container.worker, kind = %key, "replacing a warm worker of an older image");
                full.remove(&key);
            }
        }
    }

    /// Removes a container that is in no table. What cannot be removed now is nobody's, so the next comparison tries again.
    pub(super) async fn remove_unknown(&self, worker: &WorkerId) {
        if let Err(error) = self.parts.runtime.remove(worker).await {
            tracing::warn!(%worker, %error, "a container could not be removed yet");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::Worker;
    use warmpool_core::browser::{Engine, Mode, PoolKey};

    const KINDS: [PoolKey; 2] =
        [PoolKey::plain(Engine::Chromium, Mode::Headed), PoolKey::plain(Engine::Chromium, Mode::Headless)];

    #[tokio::test]
    async fn workers_of_an_older_image_are_replaced_one_after_the_other() {
        let (pool, _data) = Pool::without_engine();
        let mut owned = Vec::new();
        // One more of each kind than there are to be.
        for key in KINDS.into_iter().flat_map(|key| [key; 3]) {
            let worker = Worker::nobody(key);
            let (id, image) = (worker.id.clone(), "sha256:1".to_owned());
            owned.push(OwnedContainer { worker: id, key: Some(key), running: true, place: None, image });
            pool.lock().add_ready(worker);
        }
        let compared = || {
            pool.replace_outdated(&owned);
            let kinds = pool.lock().kinds(usize::MAX, Instant::now());
            KINDS.map(|key| (kinds[&key].ready, kinds[&key].target))
        };
        let becomes = |id: &str| pool.lock().images.record(Engine::Chromium, id.to_owned());

        becomes("sha256:1");
        assert_eq!(compared(), [(3, 2); 2]);
        becomes("sha256:2");
        pool.lock().absent.insert(Engine::Chromium);
        assert!(compared().iter().all(|(ready, _)| *ready == 3), "nothing could take their places");
        pool.lock().absent.clear();
        assert_eq!(compared(), [(2, 2); 2]);
        assert_eq!(compared(), [(1, 2); 2]);
        assert_eq!(compared(), [(1, 2); 2], "the next one is not warm yet");
    }
}
