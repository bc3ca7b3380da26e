//! Starting workers, and removing them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use warmpool_protocol::{Claim, Secret};

use super::Pool;
use super::state::{Failure, Remover};
use crate::worker::{AgentError, LossReason, PAGE, Reports, Worker, watch};
use warmpool_core::browser::{Engine, Mode, PoolKey};
use warmpool_core::ids::WorkerId;
use warmpool_core::panics::{Panicked, contained, keep_running};
use warmpool_extensions::OpenedExtension;
use warmpool_runtime::{RuntimeError, WorkerSpec};

/// The agent is one small static program: it listens within moments of its container's start.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(15);
/// Between two tries to reach an agent that is not up yet.
const CLAIM_RETRY: Duration = Duration::from_millis(10);
/// The longest pause between two tries to remove a container.
const REMOVE_BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Why a worker did not become ready.
#[derive(Debug, thiserror::Error)]
enum BootError {
    /// Its container did not start.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The agent does not answer.
    #[error("the agent in the container does not answer")]
    Silent,
    /// The agent refused the claim.
    #[error("the agent in the container: {0}")]
    Agent(#[from] AgentError),
    /// The agent could not make its browser ready.
    #[error(transparent)]
    Lost(#[from] LossReason),
    /// It took too long.
    #[error("not ready within {} s", .0.as_secs())]
    Slow(Duration),
    /// An extension with which it is to wait is not there.
    #[error("{0}")]
    Extension(#[from] warmpool_extensions::Error),
    /// The pool has no use for it any more.
    #[error("not wanted any more")]
    Unwanted,
    /// The start itself is at fault.
    #[error("its start panicked")]
    Panicked(#[from] Panicked),
}

impl BootError {
    /// Returns what a client may know of it; none where trying again in a moment may well help.
    fn reason(&self) -> Option<String> {
        match self {
            Self::Runtime(
                RuntimeError::Unreachable(_)
                | RuntimeError::UnfitEngine { .. }
                | RuntimeError::UnfitNetwork { .. }
                | RuntimeError::Seccomp(_)
                | RuntimeError::NodeName { .. }
                | RuntimeError::NoNodes
                | RuntimeError::RegistryPassword { .. }
                | RuntimeError::Credentials { .. }
                | RuntimeError::NotOwned(_)
                | RuntimeError::NotPagedOut(_),
            )
            | Self::Unwanted => None,
            Self::Runtime(RuntimeError::NoImage(_) | RuntimeError::NoRegistry(_)) => {
                Some("there is no image".to_owned())
            }
            Self::Runtime(RuntimeError::Refused { action, .. }) => {
                Some(format!("the container runtime refused to {action}"))
            }
            Self::Runtime(RuntimeError::QuotaUsedUp { .. }) => Some("the cluster's quota is used up".to_owned()),
            Self::Runtime(RuntimeError::NotAdmitted { .. }) => Some("the cluster's admission refuses it".to_owned()),
            Self::Runtime(RuntimeError::NotAllowed { .. }) => {
                Some("the cluster does not let the daemon start workers".to_owned())
            }
            Self::Runtime(RuntimeError::NoNamespace { .. }) => {
                Some("the cluster's namespace for workers is gone".to_owned())
            }
            // With the nodes that are left out, and why: the same words.
            Self::Runtime(error @ RuntimeError::NoNode { .. }) => Some(error.to_string()),
            Self::Agent(AgentError::Refused { .. }) => {
                Some("the agent in the container refuses what it is told: the daemon's log says what".to_owned())
            }
            Self::Agent(_) | Self::Runtime(RuntimeError::Folder(_)) => Some(Self::Silent.to_string()),
            Self::Silent | Self::Lost(_) | Self::Slow(_) | Self::Extension(_) | Self::Panicked(_) => {
                Some(self.to_string())
            }
        }
    }
}

impl Pool {
    /// Starts a worker and makes it available, or removes what is left of it.
    pub(super) async fn boot(&self, id: WorkerId, key: PoolKey) {
        let begun = Instant::now();
        let Some(stop) = self.lock().workers.get(&id).map(|entry| entry.stop.clone()) else { return };
        let booted = contained(self.try_boot(&id, key, &stop)).await;
        match booted.unwrap_or_else(|panicked| Err(panicked.into())) {
            Ok(worker) => {
                if self.lock().set_ready(worker) {
                    let took = begun.elapsed();
                    metrics::histogram!("warmpool_worker_boot_seconds", "engine" => key.engine.as_str(), "mode" => key.mode.as_str())
                        .record(took);
                    tracing::debug!(worker = %id, kind = %key, ms = took.as_millis(), "worker ready");
                    self.settle();
                    // Who deleted one of its extensions meanwhile found no worker that waits.
                    if self.extensions_of(key).await.is_err() {
                        self.retire_unowned(&id);
                    }
                    return;
                }
            }
            Err(_) if stop.is_cancelled() => {}
            Err(error) => {
                metrics::counter!("warmpool_worker_boot_failures_total", "engine" => key.engine.as_str()).increment(1);
                tracing::warn!(worker = %id, kind = %key, %error, "worker did not start");
                let failure = Failure { error: error.to_string(), reason: error.reason() };
                self.lock().start_failed(key, failure);
                if matches!(&error, BootError::Runtime(error) if error.is_no_image()) {
                    self.look_for_image(key.engine).await;
                }
            }
        }
        // Whoever marked it first, the container is ours to remove: see `Remover::Boot`.
        self.lock().set_removing(&id);
        self.fail_waiters(key);
        self.remove(&id).await;
    }

    async fn try_boot(&self, id: &WorkerId, key: PoolKey, stop: &CancellationToken) -> Result<Arc<Worker>, BootError> {
        let config = &self.parts.config;
        let preset = self.preset(key);
        // Before a container is started for it.
        let extensions = self.extensions_of(key).await?;
        let image = config.image(key.engine).to_owned();
        let spec = WorkerSpec { worker: id.clone(), key, image };
        let place = self.parts.runtime.start(&spec).await?;
        let secret = Secret::new(self.parts.instance.worker_secret(id.as_str()));
        let (worker, reports) = Worker::new(id.clone(), key, place.clone(), &secret);
        let claim = Claim {
            secret,
            headless: key.mode == Mode::Headless,
            sandbox: config.worker.sandbox,
            freeze: config.worker.freeze,
            // A client who waits has their first page sooner without it.
            rehearse: !self.lock().mark_if_awaited(id),
            page: PAGE,
            orphan_timeout_ms: millis(config.worker.orphan_timeout),
            unresponsive_timeout_ms: millis(config.worker.unresponsive_timeout),
            file_limit: config.worker.file_limit.bytes(),
            chromium: if key.engine == Engine::Chromium { config.chromium_allowed() } else { Default::default() },
            ca_certificates: self.parts.trusted.certificates(key),
            preset: preset.map(|preset| preset.settings.clone()).unwrap_or_default(),
            extensions: extensions.iter().map(|extension| extension.id.to_string()).collect(),
            firefox: if key.engine == Engine::Firefox { config.firefox_allowed() } else { Default::default() },
        };
        // Only from here on may a stop cut in: the container exists, and can be removed.
        tokio::select! {
            () = stop.cancelled() => Err(BootError::Unwanted),
            result = self.make_ready(&worker, reports, &claim, &extensions, stop) => match result {
                Ok(()) => Ok(worker),
                Err(error) => {
                    if matches!(error, BootError::Silent) {
                        self.distrust_node(place.node.as_deref(), &spec.image).await;
                    }
                    Err(error)
                }
            },
        }
    }

    /// The extensions with which workers of this kind wait.
    async fn extensions_of(&self, key: PoolKey) -> Result<Vec<OpenedExtension>, warmpool_extensions::Error> {
        let extensions = self.preset(key).map(|preset| preset.extensions.as_slice()).unwrap_or_default();
        self.parts.extensions.of_preset(extensions).await
    }

    /// Tells the agent to start its browser, and waits until that can be driven.
    async fn make_ready(
        &self,
        worker: &Arc<Worker>,
        reports: Reports,
        claim: &Claim,
        extensions: &[OpenedExtension],
        stop: &CancellationToken,
    ) -> Result<(), BootError> {
        let ready_timeout = self.parts.config.worker.ready_timeout;
        timeout(CLAIM_TIMEOUT, claim_when_up(worker, claim)).await.map_err(|_| BootError::Silent)??;
        self.follow(worker, reports, stop.clone());
        worker.agent.give_extensions(extensions).await?;
        timeout(ready_timeout, worker.ready()).await.map_err(|_| BootError::Slow(ready_timeout))??;
        Ok(())
    }

    /// Watches a worker from now on; `stop` ends that.
    pub(super) fn follow(&self, worker: &Arc<Worker>, reports: Reports, stop: CancellationToken) {
        let (runtime, pool) = (self.parts.runtime.clone(), self.clone());
        let is_away = move || pool.lock().runtime_is_away();
        self.parts.drain.spawn(watch(Arc::clone(worker), reports, runtime, is_away, stop.clone()));
        if let Some(after) = self.parts.config.worker.page_out_after {
            let page_out = self.clone().page_out(Arc::clone(worker), after);
            self.parts.drain.spawn(stop.clone().run_until_cancelled_owned(page_out));
        }
        let (pool, worker) = (self.clone(), Arc::clone(worker));
        self.parts.drain.spawn(async move {
            tokio::select! {
                // First, since the watch of a stopped worker ends too, and looks like a loss.
                biased;
                () = stop.cancelled() => {}
                loss = worker.lost() => {
                    pool.record_loss(&loss);
                    // A worker that has an owner is given back by its owner, which must answer the client first.
                    if pool.lock().is_ready(&worker.id) {
                        tracing::warn!(worker = %worker.id, %loss, "a warm worker was lost");
                        pool.retire(&worker.id);
                    }
                }
            }
        });
    }

    /// Starts the removal of a worker, unless it is under way already.
    pub(super) fn retire(&self, id: &WorkerId) {
        if self.lock().set_removing(id) == Remover::Caller {
            self.spawn_removal(id.clone());
        }
    }

    /// Starts the removal of a warm worker. Returns `false` where somebody has it, or it is gone.
    pub(super) fn retire_unowned(&self, id: &WorkerId) -> bool {
        let taken = {
            let mut state = self.lock();
            state.is_ready(id) && state.set_removing(id) == Remover::Caller
        };
        if taken {
            self.spawn_removal(id.clone());
        }
        taken
    }

    /// Removes the container of a worker that is marked for it, in a task of its own.
    pub(super) fn spawn_removal(&self, id: WorkerId) {
        let pool = self.clone();
        self.parts.drain.spawn(keep_running("remove a worker", async move || pool.remove(&id).await));
    }

    /// Removes the container of a worker that is marked for it, however long that takes.
    async fn remove(&self, id: &WorkerId) {
        let mut pause = Duration::from_millis(250);
        while let Err(error) = self.parts.runtime.remove(id).await {
            tracing::warn!(worker = %id, %error, "a container could not be removed yet");
            sleep(pause).await;
            pause = (pause * 2).min(REMOVE_BACKOFF_MAX);
        }
        self.lock().forget(id);
        self.settle();
    }
}

async fn claim_when_up(worker: &Worker, claim: &Claim) -> Result<(), AgentError> {
    loop {
        match worker.agent.claim(claim).await {
            Err(AgentError::Connect(_)) => sleep(CLAIM_RETRY).await,
            result => return result,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_hear_which_nodes_are_left_out() {
        let error = RuntimeError::NoNode {
            why: "of 2 nodes, 2 meet the constraints".to_owned(),
            asked: "2GiB of memory".to_owned(),
            avoided: "n1, n2 (ErrImagePull: no such image)".to_owned(),
        };
        let reason = BootError::Runtime(error).reason().unwrap();
        for words in ["2GiB of memory", "of 2 nodes", "left out for now: n1, n2 (ErrImagePull"] {
            assert!(reason.contains(words), "{reason}");
        }
    }
}
