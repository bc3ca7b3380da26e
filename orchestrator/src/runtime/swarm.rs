//! Docker Swarm as the container runtime: each worker is a service of one replica that is never restarted. Swarm chooses the
//! node and watches it; this module asks the manager that the daemon sits on.
//!
//! `service` is what a worker asks for, `tasks` what became of it, `network` the overlay between daemon and workers, and
//! `avoided` the nodes that could not start an image lately.

mod avoided;
mod network;
mod service;
mod tasks;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bollard::models::{Node, NodeState, ServiceSpec, TaskState};
use bollard::query_parameters::{InspectNetworkOptions, ListNodesOptions, ListServicesOptionsBuilder};
use tokio::time::{Instant, sleep};
use warmpool_protocol::PORT;

use self::avoided::Avoided;
use self::network::OverlayFacts;
use self::tasks::Task;
use super::docker::{Docker, container_name, refused, status};
use super::{
    AgentAddress, ContainerState, LABEL_ENGINE, LABEL_IMAGE, LABEL_INSTANCE, LABEL_MODE, LABEL_PRESET, LABEL_WORKER,
    OwnedContainer, RuntimeError, WorkerSpec,
};
use crate::config::Config;
use crate::engine::{PoolKey, WorkerId};

/// Between two looks at a task that is on its way.
const POLL: Duration = Duration::from_millis(100);
/// Nodes tried at most for one worker.
const NODES_TRIED: usize = 16;
/// A node is down for Swarm once three of its beats, 5 s apart, are missing; the manager looks a little later.
pub(super) const NODE_NOTICED_WITHIN: Duration = Duration::from_secs(20);

/// A client of one manager. Connects when first needed.
#[derive(Clone)]
pub(crate) struct Swarm {
    inner: Arc<Inner>,
}

struct Inner {
    config: Arc<Config>,
    instance: String,
    /// The engine of the manager.
    engine: Docker,
    avoided: Avoided,
}

/// What became of a service that was just made.
enum Start {
    Running(AgentAddress),
    /// The node that it was given cannot start it.
    Refused {
        node: String,
        why: String,
    },
}

impl Swarm {
    /// A client for the manager that `config` names; every service it makes is labelled with `instance`.
    #[must_use]
    pub(super) fn new(config: Arc<Config>, instance: String) -> Self {
        let engine = Docker::new(Arc::clone(&config), instance.clone());
        let avoided = Avoided::new(config.swarm.avoid_for);
        Self { inner: Arc::new(Inner { config, instance, engine, avoided }) }
    }

    /// The engine of the manager.
    pub(super) fn engine(&self) -> &Docker {
        &self.inner.engine
    }

    /// Whether the engine answers and is a manager that can decide.
    pub(super) async fn ping(&self) -> Result<(), RuntimeError> {
        let client = self.inner.engine.client().await?;
        client.ping().await.map_err(|error| RuntimeError::Unreachable(error.to_string()))?;
        let swarm = client.inspect_swarm().await;
        swarm.map(drop).map_err(|error| RuntimeError::Unreachable(format!("the engine manages no swarm: {error}")))
    }

    /// Makes the overlay where it is missing. It must keep workers from everything but one another and the daemon, and the
    /// daemon must be on it.
    pub(super) async fn ensure_network(&self) -> Result<(), RuntimeError> {
        let found = match self.network().await? {
            Some(found) => found,
            None => {
                let client = self.inner.engine.client().await?;
                let settings = &self.inner.config;
                let made =
                    client.create_network(network::request(&settings.docker.network, settings.swarm.encrypted)).await;
                match made {
                    Ok(_) => {}
                    // Somebody else was first.
                    Err(error) if status(&error) == Some(409) => {}
                    Err(error) => return Err(refused("make the workers' network", error)),
                }
                let found = self.network().await?;
                found.ok_or_else(|| RuntimeError::Refused {
                    action: "make the workers' network",
                    message: "it is gone again".to_owned(),
                })?
            }
        };
        found.check(&network::own_addresses())
    }

    async fn network(&self) -> Result<Option<OverlayFacts>, RuntimeError> {
        let client = self.inner.engine.client().await?;
        match client.inspect_network(&self.inner.config.docker.network, None::<InspectNetworkOptions>).await {
            Ok(found) => Ok(Some(OverlayFacts::read(found, self.inner.config.swarm.encrypted))),
            Err(error) if status(&error) == Some(404) => Ok(None),
            Err(error) => Err(refused("look up the network", error)),
        }
    }

    /// Makes the worker's service and waits until its container runs somewhere. A node that cannot start it is left out for
    /// a while, and the next one tried.
    pub(super) async fn start(&self, spec: &WorkerSpec) -> Result<AgentAddress, RuntimeError> {
        let image = self.image_id(&spec.image).await?;
        for _ in 0..NODES_TRIED {
            self.create(self.service(spec, &image)).await?;
            match self.started(&spec.worker, &image).await? {
                Start::Running(address) => return Ok(address),
                Start::Refused { node, why } => {
                    let name = self.node(&node).await?.map_or_else(|| node.clone(), |found| node_name(&found));
                    tracing::warn!(worker = %spec.worker, node = name, why, "a node cannot start a worker: trying another");
                    self.inner.avoided.add(&image, &node, &name, &why);
                    self.remove(&spec.worker).await?;
                }
            }
        }
        Err(RuntimeError::Refused { action: "start a service", message: "too many nodes cannot start it".to_owned() })
    }

    async fn create(&self, service: ServiceSpec) -> Result<(), RuntimeError> {
        let client = self.inner.engine.client().await?;
        match client.create_service(service, None).await {
            Ok(_) => Ok(()),
            // Our own earlier call made it and its reply was lost.
            Err(error) if status(&error) == Some(409) => Ok(()),
            Err(error) => Err(refused("make a service", error)),
        }
    }

    /// Follows a new service to its node.
    async fn started(&self, worker: &WorkerId, image: &str) -> Result<Start, RuntimeError> {
        let limits = &self.inner.config.swarm;
        let begun = Instant::now();
        loop {
            let task = self.task(worker).await?;
            let waited = begun.elapsed();
            let Some(task) = task else {
                if waited > limits.placement_timeout {
                    return Err(self.no_node("Swarm made no task of the service".to_owned(), image));
                }
                sleep(POLL).await;
                continue;
            };
            match task.status.state {
                TaskState::RUNNING => {
                    let address = task.address(&self.inner.config.docker.network).ok_or(RuntimeError::Refused {
                        action: "start a service",
                        message: "its task has no address".to_owned(),
                    })?;
                    return Ok(Start::Running(agent_at(address.0)));
                }
                TaskState::REJECTED => return Ok(Start::Refused { node: task.node, why: task.status.err }),
                TaskState::NEW | TaskState::ALLOCATED | TaskState::PENDING => {
                    if waited > limits.placement_timeout {
                        let why = if task.status.err.is_empty() { task.status.message } else { task.status.err };
                        return Err(self.no_node(why, image));
                    }
                }
                TaskState::ASSIGNED
                | TaskState::ACCEPTED
                | TaskState::PREPARING
                | TaskState::READY
                | TaskState::STARTING => {
                    if waited > limits.start_timeout {
                        return Err(RuntimeError::Refused {
                            action: "start a service",
                            message: format!("its container did not run within {} s", limits.start_timeout.as_secs()),
                        });
                    }
                }
                _ => {
                    return Err(RuntimeError::Refused {
                        action: "start a service",
                        message: format!("it ended at once: {}", task.status.err),
                    });
                }
            }
            sleep(POLL).await;
        }
    }

    fn no_node(&self, why: String, image: &str) -> RuntimeError {
        let (memory, cpus) = (self.inner.config.worker.memory, self.inner.config.reserved_cpus());
        RuntimeError::NoNode {
            why,
            asked: format!("{memory} of memory and {cpus} cores (worker.memory, swarm.reserved_cpus)"),
            avoided: self.inner.avoided.described(image),
        }
    }

    /// The address of a worker on the overlay, and the first one there, which is its gateway's where it has one.
    pub(super) async fn addresses(&self, worker: &WorkerId) -> Result<Option<(Ipv4Addr, Ipv4Addr)>, RuntimeError> {
        let address = self.task(worker).await?.and_then(|task| task.address(&self.inner.config.docker.network));
        Ok(address.and_then(|(address, prefix)| {
            let mask = u32::MAX.checked_shl(32_u32.checked_sub(prefix)?).unwrap_or(0);
            Some((address, Ipv4Addr::from_bits((address.to_bits() & mask) + 1)))
        }))
    }

    /// How the worker's container is, or was before its node was lost.
    pub(super) async fn state(&self, worker: &WorkerId) -> Result<ContainerState, RuntimeError> {
        let Some(task) = self.task(worker).await? else { return Ok(ContainerState::Missing) };
        if !task.node.is_empty() && !task.has_ended() {
            match self.node(&task.node).await? {
                Some(node) if !is_down(&node) => {}
                Some(node) => return Ok(ContainerState::NodeLost { node: node_name(&node) }),
                None => return Ok(ContainerState::NodeLost { node: task.node }),
            }
        }
        Ok(task.container())
    }

    /// Removes the worker's service; its node stops the container, at the latest when it comes back.
    pub(super) async fn remove(&self, worker: &WorkerId) -> Result<(), RuntimeError> {
        let client = self.inner.engine.client().await?;
        match client.delete_service(&container_name(worker)).await {
            Ok(()) => Ok(()),
            Err(error) if status(&error) == Some(404) => Ok(()),
            Err(error) => Err(refused("remove a service", error)),
        }
    }

    /// Every service with this daemon's label.
    pub(super) async fn owned(&self) -> Result<Vec<OwnedContainer>, RuntimeError> {
        let client = self.inner.engine.client().await?;
        let label = format!("{LABEL_INSTANCE}={}", self.inner.instance);
        let filters = HashMap::from([("label".to_owned(), vec![label.clone()])]);
        let options = ListServicesOptionsBuilder::default().filters(&filters).build();
        let services =
            client.list_services(Some(options)).await.map_err(|error| refused("list the services", error))?;
        let nodes =
            client.list_nodes(None::<ListNodesOptions>).await.map_err(|error| refused("list the nodes", error))?;
        let up = |id: &str| nodes.iter().any(|node| node.id.as_deref() == Some(id) && !is_down(node));
        let tasks = self.tasks("label", &label).await?;
        let tasks: HashMap<&str, &Task> = tasks.iter().map(|task| (task.service.as_str(), task)).collect();
        let owned = services.into_iter().filter_map(|service| {
            let labels = service.spec?.labels?;
            let label = |name: &str| labels.get(name).map(String::as_str);
            let engine = label(LABEL_ENGINE).and_then(|text| text.parse().ok());
            let mode = label(LABEL_MODE).and_then(|text| text.parse().ok());
            let preset = label(LABEL_PRESET).and_then(|text| text.parse().ok());
            let task = service.id.as_deref().and_then(|id| tasks.get(id));
            let address = task.and_then(|task| task.address(&self.inner.config.docker.network));
            Some(OwnedContainer {
                worker: WorkerId::from(label(LABEL_WORKER)?),
                key: engine.zip(mode).map(|(engine, mode)| PoolKey { engine, mode, preset }),
                running: task.is_some_and(|task| task.status.state == TaskState::RUNNING && up(&task.node)),
                address: address.map(|(address, _)| agent_at(address)),
                image: label(LABEL_IMAGE).unwrap_or_default().to_owned(),
            })
        });
        Ok(owned.collect())
    }

    /// What nodes are to start for the image of this name. Where a registry has it, its digest there, so that each node can
    /// fetch it; else its id, which a node must have.
    pub(super) async fn image_id(&self, name: &str) -> Result<String, RuntimeError> {
        if name.contains("@sha256:") {
            return Ok(name.to_owned());
        }
        let client = self.inner.engine.client().await?;
        match client.inspect_image(name).await {
            Ok(image) => {
                let digests = image.repo_digests.unwrap_or_default();
                let repository = repository(name);
                let digest = digests.into_iter().find(|digest| digest.split('@').next() == Some(repository));
                Ok(digest.or(image.id).unwrap_or_default())
            }
            Err(error) if status(&error) == Some(404) => Err(RuntimeError::NoImage(name.to_owned())),
            Err(error) => Err(refused("look up an image", error)),
        }
    }

    /// The task of the worker's service; none where there is no such service.
    async fn task(&self, worker: &WorkerId) -> Result<Option<Task>, RuntimeError> {
        let mut tasks = self.tasks("service", &container_name(worker)).await?;
        Ok(tasks.pop())
    }

    async fn tasks(&self, filter: &str, value: &str) -> Result<Vec<Task>, RuntimeError> {
        let client = self.inner.engine.client().await?;
        tasks::list(
            self.inner.config.docker.host.socket(),
            client.client_version(),
            self.inner.config.docker.timeout,
            filter,
            value,
        )
        .await
    }

    async fn node(&self, id: &str) -> Result<Option<Node>, RuntimeError> {
        let client = self.inner.engine.client().await?;
        match client.inspect_node(id).await {
            Ok(node) => Ok(Some(node)),
            Err(error) if status(&error) == Some(404) => Ok(None),
            Err(error) => Err(refused("look up a node", error)),
        }
    }
}

fn is_down(node: &Node) -> bool {
    node.status.as_ref().is_some_and(|status| status.state == Some(NodeState::DOWN))
}

fn node_name(node: &Node) -> String {
    let name = node.description.as_ref().and_then(|description| description.hostname.clone());
    name.or_else(|| node.id.clone()).unwrap_or_default()
}

fn agent_at(address: Ipv4Addr) -> AgentAddress {
    AgentAddress::Tcp(SocketAddr::new(IpAddr::V4(address), PORT))
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
}
