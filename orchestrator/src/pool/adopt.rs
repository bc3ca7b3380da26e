//! Taking over the workers that an earlier process of this daemon left.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::{Lease, Pool};
use crate::engine::{Engine, WorkerId};
use crate::keys::KeyId;
use crate::runtime::{OwnedContainer, RuntimeError};
use crate::worker::{Phase, Reports, Worker};

/// An agent that lives answers at once.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(3);

impl Pool {
    /// Looks through the containers that carry our label: gives leases (and how far each worker is) for those that `owners` claims, keeps those
    /// that are warm and of the current image, and removes the rest. To be called once, before [`Pool::run`].
    ///
    /// # Errors
    /// [`RuntimeError`] when the runtime cannot be asked; nothing has changed then.
    pub async fn adopt(
        &self,
        mut owners: HashMap<WorkerId, KeyId>,
    ) -> Result<HashMap<WorkerId, (Lease, Phase)>, RuntimeError> {
        let runtime = &self.inner.runtime;
        runtime.ping().await?;
        runtime.ensure_network().await?;
        let mut current = HashSet::new();
        self.look_for_images().await;
        for engine in Engine::ALL {
            current.extend(runtime.image_id(self.inner.config.image(engine)).await.ok());
        }
        let owned = runtime.owned().await?;
        runtime.forget_others(&owned);
        let mut leases = HashMap::new();
        for container in owned {
            let owner = owners.remove(&container.worker);
            let found = self.reach(&container).await;
            let Some((worker, reports, phase)) = found else {
                self.discard(&container).await;
                continue;
            };
            if let Some(owner) = owner {
                tracing::info!(worker = %worker.id, "a session's worker was found again");
                let stop = self.lock().add_leased(&worker, owner);
                self.follow(&worker, reports, stop);
                leases.insert(worker.id.clone(), (Lease { pool: self.clone(), worker, used: true }, phase));
            } else if phase == Phase::Warm && current.contains(&container.image) && self.has_shelf(worker.key) {
                tracing::info!(worker = %worker.id, "a warm worker was found again");
                let stop = self.lock().add_ready(Arc::clone(&worker));
                self.follow(&worker, reports, stop);
            } else {
                self.discard(&container).await;
            }
        }
        self.lock().runtime_up = true;
        Ok(leases)
    }

    async fn discard(&self, container: &OwnedContainer) {
        tracing::info!(worker = %container.worker, "removing a worker that an earlier process left");
        // What cannot be removed now is nobody's, so reconciling tries again.
        if let Err(error) = self.inner.runtime.remove(&container.worker).await {
            tracing::warn!(worker = %container.worker, %error, "a container could not be removed yet");
        }
    }

    /// Talks to the agent of a container that runs.
    async fn reach(&self, container: &OwnedContainer) -> Option<(Arc<Worker>, Reports, Phase)> {
        let key = container.key?;
        let address = container.address.clone().filter(|_| container.running)?;
        let id = container.worker.clone();
        let secret = self.inner.instance.worker_secret(id.as_str());
        let (worker, reports) = Worker::new(id, key, address, secret);
        let snapshot = timeout(HEALTH_TIMEOUT, worker.agent.health()).await.ok()?.ok()?;
        Some((worker, reports, snapshot.state))
    }
}
