//! Where containers come from.
//!
//! The rest of the daemon speaks of workers; this module turns them into containers with the one hardened profile, and
//! finds them again by label after a restart. [`Runtime`] is what the pool, sessions and probes have. Behind it, `docker`
//! speaks to the engine of this host, whose network for workers `network` describes; `swarm` speaks to a manager. Both go
//! through `client`, which gives each call a deadline. Nothing outside knows bollard.

mod agent_folder;
mod client;
mod docker;
mod facts;
mod network;
mod nodes;
mod ownership;
mod swarm;
mod terms;

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use docker::Docker;
pub use docker::RendererPipes;
pub use facts::{DockerFacts, ImageFact};
pub use network::NetworkFacts;
pub use nodes::{Lack, NodeFacts, NodeFence, NodeState, NodeUse};
pub(crate) use ownership::Ownership;
pub use swarm::Swarm;
pub use terms::{AgentAddress, ContainerState, OwnedContainer, Place, RuntimeError, WorkerSpec};
pub(crate) use terms::{
    LABEL_AGENT, LABEL_ENGINE, LABEL_IMAGE, LABEL_INSTANCE, LABEL_MODE, LABEL_NETWORK, LABEL_PRESET, LABEL_PROBE,
    LABEL_RENDERER, LABEL_WORKER,
};

use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_core::ids::WorkerId;

/// Where workers run. Who holds one does not know which it is. Clones share its connections.
#[derive(Clone)]
pub enum Runtime {
    /// Containers of the engine on this host.
    Docker(Docker),
    /// Services of the swarm that the engine on this host manages.
    Swarm(Swarm),
}

impl Runtime {
    /// The runtime that `config` names; every container it makes is labelled with `instance`.
    #[must_use]
    pub fn new(config: Arc<Config>, instance: String) -> Self {
        if config.swarm.enabled {
            Self::Swarm(Swarm::new(config, instance))
        } else {
            Self::Docker(Docker::new(config, instance))
        }
    }

    /// Whether it answers and can be used.
    /// Errors: [`RuntimeError::Unreachable`].
    pub async fn ping(&self) -> Result<(), RuntimeError> {
        match self {
            Self::Docker(docker) => docker.ping().await,
            Self::Swarm(swarm) => swarm.ping().await,
        }
    }

    /// Makes the workers' own network where it is missing. One that is there must be as the runtime would make it.
    /// Errors: [`RuntimeError`]; `UnfitNetwork` where workers must not be put on it.
    pub async fn ensure_network(&self) -> Result<(), RuntimeError> {
        match self {
            Self::Docker(docker) => docker.ensure_network().await,
            Self::Swarm(swarm) => swarm.ensure_network().await,
        }
    }

    /// Makes and starts the worker's container; gives where it runs.
    ///
    /// Safe to call again for the same worker when a reply was lost: the name decides.
    /// Errors: [`RuntimeError`]; the caller removes what may have been made.
    pub async fn start(&self, spec: &WorkerSpec) -> Result<Place, RuntimeError> {
        match self {
            Self::Docker(docker) => docker.start(spec).await.map(Place::from),
            Self::Swarm(swarm) => swarm.start(spec).await,
        }
    }

    /// The address of a worker on its network, and the first one of that network, which is its gateway's where it has one.
    /// Errors: [`RuntimeError`] when the runtime cannot be asked.
    pub async fn addresses(&self, worker: &WorkerId) -> Result<Option<(Ipv4Addr, Ipv4Addr)>, RuntimeError> {
        match self {
            Self::Docker(docker) => docker.addresses(worker).await,
            Self::Swarm(swarm) => swarm.addresses(worker).await,
        }
    }

    /// Looks a worker's container up.
    /// Errors: [`RuntimeError`] when the runtime cannot be asked.
    pub async fn state(&self, worker: &WorkerId) -> Result<ContainerState, RuntimeError> {
        match self {
            Self::Docker(docker) => docker.state(worker).await,
            Self::Swarm(swarm) => swarm.state(worker).await,
        }
    }

    /// Removes a worker's container, running or not, with all it wrote. One that is gone is a success.
    /// Errors: [`RuntimeError`]; reconciling tries again.
    pub async fn remove(&self, worker: &WorkerId) -> Result<(), RuntimeError> {
        match self {
            Self::Docker(docker) => docker.remove(worker).await,
            Self::Swarm(swarm) => swarm.remove(worker).await,
        }
    }

    /// Every container with this daemon's label, in whatever state.
    /// Errors: [`RuntimeError`] when the runtime cannot be asked.
    pub async fn owned(&self) -> Result<Vec<OwnedContainer>, RuntimeError> {
        match self {
            Self::Docker(docker) => docker.owned().await,
            Self::Swarm(swarm) => swarm.owned().await,
        }
    }

    /// Removes what other workers than these, of an earlier process, left in the data directory.
    pub fn forget_others(&self, workers: &[OwnedContainer]) {
        match self {
            Self::Docker(docker) => docker.forget_others(workers),
            // Nothing of theirs is on this disk.
            Self::Swarm(_) => {}
        }
    }

    /// The id of the image that `name` means now.
    /// Errors: [`RuntimeError::NoImage`] when there is none.
    pub async fn image_id(&self, name: &str) -> Result<String, RuntimeError> {
        match self {
            Self::Docker(docker) => docker.image_id(name).await,
            Self::Swarm(swarm) => swarm.image_id(name).await,
        }
    }

    /// Waits until this process alone has the workers of its instance, whose data is in this directory.
    /// Errors: [`RuntimeError::NotOwned`] where waiting is pointless.
    pub async fn own(&self, data_dir: &Path) -> Result<Ownership, RuntimeError> {
        match self {
            Self::Docker(_) => Ok(Ownership::of_this_host()),
            Self::Swarm(swarm) => swarm.own(data_dir).await,
        }
    }

    /// The nodes that workers may run on, beside this host.
    /// Errors: [`RuntimeError`] when the runtime cannot be asked.
    pub async fn nodes(&self) -> Result<Vec<NodeFacts>, RuntimeError> {
        match self {
            Self::Docker(_) => Ok(Vec::new()),
            Self::Swarm(swarm) => swarm.nodes().await,
        }
    }

    /// Takes a node out of use, or with `undo` into use again; gives what it is then. Whoever has workers there replaces them,
    /// and then calls [`Self::finish_drain`].
    /// Errors: [`RuntimeError`]; `NodeName` or `OneHost` where there is no such node.
    pub async fn drain_node(&self, name: &str, undo: bool) -> Result<NodeFacts, RuntimeError> {
        match self {
            Self::Docker(_) => Err(RuntimeError::OneHost),
            Self::Swarm(swarm) => swarm.drain_node(name, undo).await,
        }
    }

    /// Has everything else leave a node that is being drained, if it has no worker of any daemon any more.
    /// Errors: [`RuntimeError`]; the next look tries again.
    pub async fn finish_drain(&self, node: &NodeFacts) -> Result<(), RuntimeError> {
        match self {
            Self::Docker(_) => Ok(()),
            Self::Swarm(swarm) => swarm.finish_drain(node).await,
        }
    }

    /// Notes that the agents of workers of this image do not answer from this node.
    pub async fn distrust(&self, node: Option<&str>, image: &str) {
        if let (Self::Swarm(swarm), Some(node)) = (self, node) {
            swarm.distrust(node, image).await;
        }
    }

    /// Starts a container as a worker's on each node, and asks it what holds there.
    /// Errors: [`RuntimeError`]; `OneHost` where there are no nodes.
    pub async fn fences(&self, image: &str, engine: Engine) -> Result<Vec<NodeFence>, RuntimeError> {
        match self {
            Self::Docker(_) => Err(RuntimeError::OneHost),
            Self::Swarm(swarm) => swarm.fences(image, engine).await,
        }
    }

    /// The engine on this host, for what runs here wherever workers run.
    pub fn engine(&self) -> &Docker {
        match self {
            Self::Docker(docker) => docker,
            Self::Swarm(swarm) => swarm.engine(),
        }
    }

    /// How long the runtime may take to notice that a worker's host is lost. While its agent is out of reach for less, nobody
    /// knows whether it is the agent or the host.
    pub const fn notices_within(&self) -> Duration {
        match self {
            Self::Docker(_) => Duration::ZERO,
            Self::Swarm(_) => swarm::NODE_NOTICED_WITHIN,
        }
    }
}
