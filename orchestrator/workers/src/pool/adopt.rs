//! Taking over the workers that an earlier process of this daemon left.
//!
//! One that was warm and never used goes back to those of its kind if its image is still the current one. Whether it was used, the
//! records of sessions say first, and then its agent, which a page may have taken over.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::timeout;
use warmpool_protocol::{Secret, WorkerState};

use super::reconcile::AT_ONCE;
use super::{Lease, Pool};
use crate::worker::{Reports, Worker};
use warmpool_core::browser::Engine;
use warmpool_core::ids::WorkerId;
use warmpool_keys::KeyId;
use warmpool_runtime::{OwnedContainer, RuntimeError};

/// How long the agent of a worker that nobody uses may take to answer: another one is started instead in less.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(3);

/// Containers of an earlier process that no session owns.
pub struct Unclaimed(Vec<OwnedContainer>);

impl Pool {
    /// Looks through the containers that carry our label, and returns a lease of each one that runs and that `owners`
    /// claims, without waiting for its agent: its worker is watched from now on, and its health is `Unknown` until the
    /// agent or the runtime says how it is. To be called once, before [`Pool::keep_unclaimed`] and [`Pool::run`].
    /// Errors: [`RuntimeError`] when the runtime cannot be used; nothing has changed then.
    pub async fn adopt(
        &self,
        owners: HashMap<WorkerId, KeyId>,
    ) -> Result<(HashMap<WorkerId, Lease>, Unclaimed), RuntimeError> {
        let adopted = self.try_adopt(owners).await;
        if adopted.is_err() {
            self.lock().runtime_went();
        }
        adopted
    }

    async fn try_adopt(
        &self,
        mut owners: HashMap<WorkerId, KeyId>,
    ) -> Result<(HashMap<WorkerId, Lease>, Unclaimed), RuntimeError> {
        let runtime = &self.parts.runtime;
        runtime.ping().await?;
        runtime.ensure_network().await?;
        self.look_for_images().await;
        let owned = runtime.list_containers().await?;
        runtime.forget_others(&owned);
        let mut leases = HashMap::new();
        let mut unclaimed = Vec::new();
        for container in owned {
            let owner = owners.remove(&container.worker);
            let Some((owner, (worker, reports))) = owner.zip(self.found(&container)) else {
                unclaimed.push(container);
                continue;
            };
            tracing::info!(worker = %worker.id, "a session's worker was found again");
            let stop = self.lock().add_leased(&worker, owner);
            self.follow(&worker, reports, stop);
            leases.insert(worker.id.clone(), Lease { pool: self.clone(), worker, used: true });
        }
        self.lock().runtime_up = true;
        Ok((leases, Unclaimed(unclaimed)))
    }

    /// Keeps those of the containers that are warm, unused and of the current image, and removes the rest. The workers in `used` had
    /// sessions, whatever their agents say. To be called once, before [`Pool::run`].
    pub async fn keep_unclaimed(&self, unclaimed: Unclaimed, used: HashSet<WorkerId>) {
        let mut current = HashSet::new();
        for engine in Engine::ALL {
            current.extend(self.parts.runtime.image_id(self.parts.config.image(engine)).await.ok());
        }
        let (pool, current, used) = (self.clone(), Arc::new(current), Arc::new(used));
        let keep = move |container: OwnedContainer| {
            let (pool, current, used) = (pool.clone(), Arc::clone(&current), Arc::clone(&used));
            async move { pool.keep_one(container, &current, &used).await }
        };
        stream::iter(unclaimed.0).for_each_concurrent(AT_ONCE, keep).await;
    }

    /// Keeps one container, if its image is among the `current` ones and its worker is not among the `used` ones, or removes it.
    async fn keep_one(&self, container: OwnedContainer, current: &HashSet<String>, used: &HashSet<WorkerId>) {
        let usable = current.contains(&container.image)
            && container.key.is_some_and(|key| self.has_kind(key))
            && !used.contains(&container.worker);
        match self.found(&container).filter(|_| usable) {
            Some((worker, reports)) if is_unused(&worker).await => {
                tracing::info!(worker = %worker.id, "a warm worker was found again");
                let stop = self.lock().add_ready(Arc::clone(&worker));
                self.follow(&worker, reports, stop);
            }
            _ => {
                tracing::info!(worker = %container.worker, "removing a worker that an earlier process left");
                self.remove_unknown(&container.worker).await;
            }
        }
    }

    /// Returns the worker in a container that runs and whose labels can be read.
    fn found(&self, container: &OwnedContainer) -> Option<(Arc<Worker>, Reports)> {
        let key = container.key?;
        let place = container.place.clone().filter(|_| container.running)?;
        let id = container.worker.clone();
        let secret = Secret::new(self.parts.instance.worker_secret(id.as_str()));
        Some(Worker::found(id, key, place, &secret))
    }
}

/// Whether a worker waits, and has nothing that a client brought: its session may have had no record yet when the process died. Of
/// an agent that does not say so nobody knows.
async fn is_unused(worker: &Worker) -> bool {
    let health = timeout(HEALTH_TIMEOUT, worker.agent.health()).await;
    matches!(health, Ok(Ok(snapshot)) if snapshot.state == WorkerState::Warm && snapshot.untouched)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use warmpool_core::browser::{Mode, PoolKey};
    use warmpool_runtime::AgentAddress;

    use super::*;

    const UNUSED: &str = r#"{"state": "warm", "untouched": true}"#;

    /// Answers one question for a worker's health.
    async fn answer(listener: TcpListener, health: &str) {
        let (mut daemon, _) = listener.accept().await.unwrap();
        let _ = daemon.read(&mut [0; 4096]).await;
        let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", health.len());
        daemon.write_all(format!("{head}{health}").as_bytes()).await.unwrap();
    }

    #[tokio::test]
    async fn no_worker_of_an_ended_session_is_kept_whatever_its_agent_says() {
        let (pool, _data) = Pool::without_engine();
        let image = "sha256:1".to_owned();
        let current = HashSet::from([image.clone()]);
        for had_a_session in [true, false] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = AgentAddress::Tcp(listener.local_addr().unwrap());
            let container = OwnedContainer {
                worker: WorkerId::random(),
                key: Some(PoolKey::plain(Engine::Chromium, Mode::Headless)),
                running: true,
                place: Some(address.into()),
                image: image.clone(),
            };
            let used = HashSet::from_iter(had_a_session.then(|| container.worker.clone()));
            let agent = tokio::spawn(answer(listener, UNUSED));
            pool.keep_one(container, &current, &used).await;
            assert_eq!(pool.warm_snapshot(Engine::Chromium).is_none(), had_a_session);
            agent.abort();
        }
    }

    #[tokio::test]
    async fn a_worker_is_unused_if_its_agent_says_so() {
        for (health, unused) in [
            (UNUSED, true),
            (r#"{"state": "warm"}"#, false),
            (r#"{"state": "active"}"#, false),
            (r#"{"state": "active", "untouched": true}"#, false),
            ("{}", false),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = AgentAddress::Tcp(listener.local_addr().unwrap());
            let key = PoolKey::plain(Engine::Chromium, Mode::Headless);
            let (worker, _reports) =
                Worker::found(WorkerId::random(), key, address.into(), &Secret::new("ab".repeat(32)));
            assert_eq!(tokio::join!(is_unused(&worker), answer(listener, health)).0, unused, "{health}");
        }
    }
}
