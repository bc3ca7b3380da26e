//! Docker Swarm as the container runtime: each worker is a service of one replica that is never restarted. Swarm chooses the
//! node and watches it; this module asks the manager that the daemon sits on.
//!
//! `service` is what a worker asks for, `start` how it comes to a node, `tasks` what became of it, `network` the overlay
//! between daemon and workers, and `registry` what nodes fetch images with.
//!
//! `nodes` are what they run on: `admission` knows which of them may have workers, `probe` looks at one from inside and `fence`
//! judges what it finds; `avoided` are those that could not start an image lately, and `spread` evens out the rest. `lease` keeps
//! a second daemon out, and `term` this one from what is not its own any more.

mod admission;
mod avoided;
mod constraints;
mod fence;
mod lease;
mod network;
mod nodes;
mod probe;
mod registry;
mod service;
mod spread;
mod start;
mod tasks;
mod term;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bollard::models::TaskState;
use bollard::query_parameters::{InspectNetworkOptions, ListServicesOptionsBuilder};
use serde_json::{Value, json};
use warmpool_protocol::PORT;

use self::admission::Admission;
use self::avoided::Avoided;
pub(super) use self::lease::Lease;
use self::network::OverlayFacts;
use self::nodes::{is_down, is_drained, node_name};
use self::spread::Spread;
use self::tasks::Task;
use self::term::Term;
use super::client::{refused, status};
use super::docker::{Docker, container_name};
use super::{
    AgentAddress, ContainerState, LABEL_ENGINE, LABEL_IMAGE, LABEL_INSTANCE, LABEL_MODE, LABEL_PRESET, LABEL_WORKER,
    OwnedContainer, Place, RuntimeError,
};
use warmpool_config::Config;
use warmpool_core::browser::PoolKey;
use warmpool_core::ids::WorkerId;

/// A node is down for Swarm once three of its beats, 5 s apart, are missing; the manager looks a little later.
pub(super) const NODE_NOTICED_WITHIN: Duration = Duration::from_secs(20);

/// A client of one manager. Connects when first needed.
#[derive(Clone)]
pub struct Swarm {
    inner: Arc<Inner>,
}

struct Inner {
    config: Arc<Config>,
    instance: String,
    /// The engine of the manager.
    engine: Docker,
    avoided: Avoided,
    admission: Admission,
    spread: Spread,
    /// How long this process has these workers for sure.
    term: Term,
}

impl Swarm {
    /// A client for the manager that `config` names; every service it makes is labelled with `instance`.
    #[must_use]
    pub(super) fn new(config: Arc<Config>, instance: String) -> Self {
        let engine = Docker::new(Arc::clone(&config), instance.clone());
        let avoided = Avoided::new(config.swarm.avoid_for);
        let inner = Inner {
            config,
            instance,
            engine,
            avoided,
            admission: Admission::default(),
            spread: Spread::default(),
            term: Term::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The engine of the manager.
    pub(super) fn engine(&self) -> &Docker {
        &self.inner.engine
    }

    /// Whether the engine answers and is a manager that can decide.
    pub(super) async fn ping(&self) -> Result<(), RuntimeError> {
        let client = self.inner.engine.client().await?;
        let ping = client.look(|engine| async move { engine.ping().await }).await;
        ping.map_err(|error| RuntimeError::Unreachable(error.to_string()))?;
        let swarm = client.look(|engine| async move { engine.inspect_swarm().await }).await;
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
                let asked = network::request(&settings.docker.network, settings.swarm.encrypted);
                match client.work(|engine| async move { engine.create_network(asked).await }).await {
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
        let name = &self.inner.config.docker.network;
        let look =
            |engine: bollard::Docker| async move { engine.inspect_network(name, None::<InspectNetworkOptions>).await };
        match client.look(look).await {
            Ok(found) => Ok(Some(OverlayFacts::read(found, self.inner.config.swarm.encrypted))),
            Err(error) if status(&error) == Some(404) => Ok(None),
            Err(error) => Err(refused("look up the network", error)),
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
        if task.node.is_empty() {
            return Ok(task.container());
        }
        match self.node(&task.node).await? {
            Some(node) if task.is_ended() && is_drained(&node) => {
                Ok(ContainerState::NodeDrained { node: node_name(&node) })
            }
            _ if task.has_ended() => Ok(task.container()),
            Some(node) if is_down(&node) => Ok(ContainerState::NodeLost { node: node_name(&node) }),
            Some(_) => Ok(task.container()),
            None => Ok(ContainerState::NodeLost { node: task.node }),
        }
    }

    /// Removes the worker's service; its node stops the container, at the latest when it comes back.
    pub(super) async fn remove(&self, worker: &WorkerId) -> Result<(), RuntimeError> {
        self.remove_service(&container_name(worker)).await
    }

    async fn remove_service(&self, name: &str) -> Result<(), RuntimeError> {
        self.inner.term.check()?;
        let client = self.inner.engine.client().await?;
        match client.work(|engine| async move { engine.delete_service(name).await }).await {
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
        let services = client.look(|engine| async move { engine.list_services(Some(options)).await }).await;
        let services = services.map_err(|error| refused("list the services", error))?;
        let tasks = self.tasks(&json!({ "label": [label] })).await?;
        let tasks: HashMap<&str, &Task> = tasks.iter().map(|task| (task.service.as_str(), task)).collect();
        let owned = services.into_iter().filter_map(|service| {
            let labels = service.spec?.labels?;
            let label = |name: &str| labels.get(name).map(String::as_str);
            let engine = label(LABEL_ENGINE).and_then(|text| text.parse().ok());
            let mode = label(LABEL_MODE).and_then(|text| text.parse().ok());
            let preset = label(LABEL_PRESET).and_then(|text| text.parse().ok());
            let task = service.id.as_deref().and_then(|id| tasks.get(id));
            let place = task.and_then(|task| self.place(task));
            Some(OwnedContainer {
                worker: WorkerId::from(label(LABEL_WORKER)?),
                key: engine.zip(mode).map(|(engine, mode)| PoolKey { engine, mode, preset }),
                // Whether its node is lost comes out when it is watched, and is then why its session ends.
                running: task.is_some_and(|task| task.status.state == TaskState::RUNNING),
                place,
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
        match client.look(|engine| async move { engine.inspect_image(name).await }).await {
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
        let mut tasks = self.tasks(&json!({ "service": [container_name(worker)] })).await?;
        Ok(tasks.pop())
    }

    async fn tasks(&self, filters: &Value) -> Result<Vec<Task>, RuntimeError> {
        let client = self.inner.engine.client().await?;
        tasks::list(&client, filters).await
    }

    /// Where a task's container is to be found.
    fn place(&self, task: &Task) -> Option<Place> {
        let (address, _) = task.address(&self.inner.config.docker.network)?;
        let address = AgentAddress::Tcp(SocketAddr::new(IpAddr::V4(address), PORT));
        Some(Place { address, node: Some(task.node.clone()) })
    }
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
