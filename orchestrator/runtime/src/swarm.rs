//! Docker Swarm as the container runtime: each worker is a service of one replica that is never restarted. Swarm chooses the
//! node and watches it; this module asks the manager that the daemon sits on.
//!
//! `service` is what a worker asks for, `start` how it comes to a node, `tasks` what became of it, `network` the overlay
//! between daemon and workers, and `registry` what nodes fetch images with.
//!
//! `nodes` are what they run on: `admission` and `probe` are Swarm's part of choosing those that may have workers, and `spread`
//! evens out the rest. `lease` is where the lease is kept that keeps a second daemon out.
//!
//! - *An agent is reached by TCP over an overlay*, which does not keep its containers apart: the agent leaves it for a network of
//!   its own before it starts anything (`own_network.rs` of the agent).
//! - *Images go by digest or id*, never by a tag, so that all nodes run the same. A node that rejects an image is left out by a
//!   constraint of the next service, for a while.
//! - *Constraints name nodes by id and never by a label*: Swarm ends what runs where a label no longer meets its constraint.
//! - *Swarm notices a dead node some 20 s after its last beat*; the silence of its agents is noticed earlier.
//! - *A node that was cut off still runs workers that were removed meanwhile.* Their tasks stay in Swarm's store until the node
//!   reports their end, and the daemon waits for that before it uses the node.
//! - *A file lock tells a new process on the same host that the old one has ended*, so that it need not wait for the lease.

mod admission;
mod constraints;
mod lease;
mod network;
mod nodes;
mod probe;
mod registry;
mod service;
mod spread;
mod start;
mod tasks;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bollard::models::{Service, TaskState};
use bollard::query_parameters::ListServicesOptionsBuilder;
use serde_json::{Value, json};
use warmpool_protocol::PORT;

use self::network::OverlayFacts;
use self::nodes::{is_down, is_drained, node_name};
use self::tasks::Task;
use super::client::{CallError, unless};
use super::cluster::admission::{Admission, NodeAdmission as _};
use super::cluster::avoided::Avoided;
use super::cluster::ownership_term::OwnershipTerm;
use super::container::{container_name, with_gateway};
use super::docker::{Docker, vanished};
use super::labels;
use super::{
    AgentAddress, ContainerRuntime, ContainerState, DockerFacts, NodeCheck, NodeFacts, NodeLoss, NodeOrder,
    OwnedContainer, Ownership, RendererId, RendererPipes, RuntimeError, WorkerLocation, WorkerSpec,
};
use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_core::ids::WorkerId;

/// Swarm takes a node for down once three of its heartbeats, 5 s apart, are missing, and notices a little later.
const NODE_NOTICED_WITHIN: Duration = Duration::from_secs(20);

/// A client of one manager, which connects when first needed. Clones share what they know.
#[derive(Clone)]
pub(super) struct Swarm {
    config: Arc<Config>,
    instance: Arc<str>,
    /// The engine of this host, which is the manager.
    host: Arc<Docker>,
    avoided: Arc<Avoided>,
    admission: Arc<Admission>,
    /// Held while a worker's place is chosen, so that two workers never go by the same count.
    spreading: Arc<tokio::sync::Mutex<()>>,
    /// Until when this process certainly owns the workers.
    term: OwnershipTerm,
}

impl Swarm {
    /// A client for the manager that `config` names; every service it makes is labelled with `instance`.
    #[must_use]
    pub(super) fn new(config: Arc<Config>, instance: String) -> Self {
        Self {
            host: Arc::new(Docker::new(Arc::clone(&config), instance.clone())),
            avoided: Arc::new(Avoided::new(config.swarm.avoid_for)),
            admission: Arc::new(Admission::new(config.swarm.recheck_after)),
            spreading: Arc::default(),
            term: OwnershipTerm::default(),
            instance: instance.into(),
            config,
        }
    }

    async fn network(&self) -> Result<Option<OverlayFacts>, RuntimeError> {
        let found = self.host.inspect_network(&self.config.docker.network).await?;
        Ok(found.map(|found| OverlayFacts::read(found, self.config.swarm.encrypted)))
    }

    async fn remove_service(&self, name: &str) -> Result<(), RuntimeError> {
        self.term.check()?;
        let removed = self.host.work("remove a service", async move |engine| engine.delete_service(name).await).await;
        unless(&[404], removed)?;
        Ok(())
    }

    /// Lists the services that carry this label.
    async fn services(&self, label: String) -> Result<Vec<Service>, RuntimeError> {
        let options = ListServicesOptionsBuilder::default().filters(&labels::filter([label])).build();
        let list = async move |engine: bollard::Docker| engine.list_services(Some(options)).await;
        Ok(self.host.look("list the services", list).await?)
    }

    /// Returns the task of the worker's service; none where there is no such service.
    async fn task(&self, worker: &WorkerId) -> Result<Option<Task>, RuntimeError> {
        let mut tasks = self.tasks(&json!({ "service": [container_name(worker)] })).await?;
        Ok(tasks.pop())
    }

    async fn tasks(&self, filters: &Value) -> Result<Vec<Task>, RuntimeError> {
        tasks::list(&self.host.client().await?, filters).await
    }

    /// Returns where a task's container runs.
    fn place(&self, task: &Task) -> Option<WorkerLocation> {
        let address = IpAddr::V4(task.address(&self.config.docker.network)?.addr());
        let address = AgentAddress::Tcp(SocketAddr::new(address, PORT));
        Some(WorkerLocation { address, node: Some(task.node.clone()) })
    }
}

#[async_trait]
impl ContainerRuntime for Swarm {
    /// Also checks that the engine is a manager of a swarm that can decide.
    async fn ping(&self) -> Result<(), RuntimeError> {
        self.host.ping().await?;
        match self.host.look("describe its swarm", async move |engine| engine.inspect_swarm().await).await {
            Err(CallError::Connect(error)) => Err(error),
            Err(error) => Err(RuntimeError::Unreachable(format!("the engine manages no swarm: {error}"))),
            Ok(_) => Ok(()),
        }
    }

    /// The workers' network is an overlay. It must keep workers from everything but one another and the daemon, and the daemon
    /// must be on it.
    async fn ensure_network(&self) -> Result<(), RuntimeError> {
        let found = match self.network().await? {
            Some(found) => found,
            None => {
                let asked = network::request(&self.config.docker.network, self.config.swarm.encrypted);
                self.host.create_network(asked).await?;
                self.network().await?.ok_or_else(vanished)?
            }
        };
        found.check(&network::own_addresses())
    }

    async fn start(&self, spec: &WorkerSpec) -> Result<WorkerLocation, RuntimeError> {
        self.start_service(spec).await
    }

    async fn addresses(&self, worker: &WorkerId) -> Result<Option<(Ipv4Addr, Ipv4Addr)>, RuntimeError> {
        let address = self.task(worker).await?.and_then(|task| task.address(&self.config.docker.network));
        Ok(address.map(with_gateway))
    }

    /// A lost or drained node explains the end of its containers.
    async fn state(&self, worker: &WorkerId) -> Result<ContainerState, RuntimeError> {
        let Some(task) = self.task(worker).await? else { return Ok(ContainerState::Missing) };
        if task.node.is_empty() {
            return Ok(task.container());
        }
        match self.node(&task.node).await? {
            Some(node) if task.is_ended() && is_drained(&node) => {
                Ok(ContainerState::Node(NodeLoss::Drained { node: node_name(&node) }))
            }
            _ if task.has_ended() => Ok(task.container()),
            Some(node) if is_down(&node) => Ok(ContainerState::Node(NodeLoss::Lost { node: node_name(&node) })),
            Some(_) => Ok(task.container()),
            None => Ok(ContainerState::Node(NodeLoss::Lost { node: task.node })),
        }
    }

    /// The worker's node stops the container, at the latest when it comes back.
    async fn remove(&self, worker: &WorkerId) -> Result<(), RuntimeError> {
        self.remove_service(&container_name(worker)).await
    }

    async fn list_containers(&self) -> Result<Vec<OwnedContainer>, RuntimeError> {
        let services = self.services(labels::owned_by(&self.instance)).await?;
        let tasks = self.tasks(&json!({ "label": [labels::owned_by(&self.instance)] })).await?;
        let tasks: HashMap<&str, &Task> = tasks.iter().map(|task| (task.service.as_str(), task)).collect();
        let owned = services.into_iter().filter_map(|service| {
            let labels = service.spec?.labels?;
            let (worker, key) = labels::worker(&labels)?;
            let task = service.id.as_deref().and_then(|id| tasks.get(id));
            Some(OwnedContainer {
                worker,
                key,
                // Whether its node is lost comes out when it is watched, and is then why its session ends.
                running: task.is_some_and(|task| task.status.state == TaskState::RUNNING),
                place: task.and_then(|task| self.place(task)),
                image: labels.get(labels::IMAGE).cloned().unwrap_or_default(),
            })
        });
        Ok(owned.collect())
    }

    /// An image is known by its digest where a registry has it, so that each node can fetch it, and else by its id, so that
    /// only a node that has it can start it.
    async fn image_id(&self, name: &str) -> Result<String, RuntimeError> {
        if name.contains("@sha256:") {
            return Ok(name.to_owned());
        }
        let image = self.host.inspect_image(name).await?;
        let digests = image.repo_digests.unwrap_or_default();
        let digest = digest_of(repository(name), digests);
        Ok(digest.or(image.id).unwrap_or_default())
    }

    async fn acquire_ownership(&self, data_dir: &Path) -> Result<Ownership, RuntimeError> {
        self.acquire_lease(data_dir).await.map(Ownership::leased)
    }

    async fn nodes(&self) -> Result<Vec<NodeFacts>, RuntimeError> {
        let nodes = self.list_nodes().await?;
        let mut facts: Vec<NodeFacts> = nodes.iter().map(|node| self.facts_of(node)).collect();
        facts.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        Ok(facts)
    }

    async fn order_node(&self, name: &str, order: NodeOrder) -> Result<NodeFacts, RuntimeError> {
        self.mark_node(name, order).await
    }

    async fn finish_drain(&self, node: &NodeFacts) -> Result<(), RuntimeError> {
        self.drain_if_clear(&node.id).await
    }

    async fn distrust_node(&self, node: &str, image: &str) {
        let Ok(image) = self.image_id(image).await else { return };
        let name = self.name_of(node).await;
        tracing::warn!(node = name, "a worker cannot be reached on its node, which is left out for a while");
        self.avoided.add(&image, node, &name, "the agent of a worker there did not answer");
    }

    async fn check_nodes(&self, image: &str, engine: Engine) -> Result<Vec<NodeCheck>, RuntimeError> {
        self.probe_nodes(&self.image_id(image).await?, engine).await
    }

    async fn wind_down(&self) -> Result<(), RuntimeError> {
        self.forget_probes().await
    }

    fn notices_within(&self) -> Duration {
        NODE_NOTICED_WITHIN
    }

    async fn start_renderer(&self, renderer: &RendererId) -> Result<RendererPipes, RuntimeError> {
        self.host.start_renderer(renderer).await
    }

    async fn renderer_state(&self, renderer: &RendererId) -> Result<ContainerState, RuntimeError> {
        self.host.renderer_state(renderer).await
    }

    async fn remove_renderer(&self, renderer: &RendererId) -> Result<(), RuntimeError> {
        self.host.remove_renderer(renderer).await
    }

    async fn left_renderers(&self) -> Result<Vec<RendererId>, RuntimeError> {
        self.host.left_renderers().await
    }

    async fn has_renderer_image(&self) -> Result<bool, RuntimeError> {
        self.host.has_renderer_image().await
    }

    async fn engine_facts(&self) -> Result<DockerFacts, RuntimeError> {
        self.host.engine_facts().await
    }
}

/// What names an image by digest in this repository. Engines leave out the registry that they take for granted, and its folder
/// `library`.
fn digest_of(repository: &str, digests: Vec<String>) -> Option<String> {
    let before = |digest: &String| repository.strip_suffix(digest.split_once('@')?.0);
    let is_registry = |before: &str| {
        let before = before.strip_suffix("/library/").or_else(|| before.strip_suffix('/'));
        before.is_some_and(|registry| !registry.contains('/'))
    };
    let known = |digest: &&String| before(digest).is_some_and(str::is_empty);
    let shortened = |digest: &&String| before(digest).is_some_and(is_registry);
    digests.iter().find(known).or_else(|| digests.iter().find(shortened)).cloned()
}

/// A name without its tag.
fn repository(name: &str) -> &str {
    match name.rsplit_once(':') {
        // A colon before a slash belongs to the registry's port.
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_no_part_of_the_repository() {
        for (name, wanted) in [
            ("warmpool/chromium:latest", "warmpool/chromium"),
            ("registry.example:5000/chromium", "registry.example:5000/chromium"),
            ("registry.example:5000/chromium:1", "registry.example:5000/chromium"),
            ("chromium", "chromium"),
        ] {
            assert_eq!(repository(name), wanted);
        }
    }

    #[test]
    fn an_engine_may_leave_out_a_registry() {
        for (name, digest, is_of) in [
            ("registry.example/somebody/chromium", "registry.example/somebody/chromium@sha256:1", true),
            ("registry.example/somebody/chromium", "somebody/chromium@sha256:1", true),
            ("registry.example/library/chromium", "chromium@sha256:1", true),
            ("somebody/chromium", "somebody/chromium@sha256:1", true),
            ("registry.example/somebody/chromium", "chromium@sha256:1", false),
            ("somebody/chromium", "other/chromium@sha256:1", false),
            ("chromium", "ium@sha256:1", false),
        ] {
            let found = digest_of(name, vec!["other@sha256:2".to_owned(), digest.to_owned()]);
            assert_eq!(found, is_of.then(|| digest.to_owned()), "{name}");
        }
    }
}
