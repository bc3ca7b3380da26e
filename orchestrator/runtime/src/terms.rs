//! What the runtimes and those who use them speak of.

use std::net::SocketAddr;
use std::path::PathBuf;

use warmpool_core::browser::PoolKey;
use warmpool_core::ids::WorkerId;

/// Label: which daemon a container belongs to.
pub(crate) const LABEL_INSTANCE: &str = "warmpool.instance";
/// Label: the worker's id.
pub(crate) const LABEL_WORKER: &str = "warmpool.worker";
/// Label: the engine in the container.
pub(crate) const LABEL_ENGINE: &str = "warmpool.engine";
/// Label: headed or headless.
pub(crate) const LABEL_MODE: &str = "warmpool.mode";
/// Label: how the daemon reaches the worker's agent, `unix` or `tcp`.
pub(crate) const LABEL_AGENT: &str = "warmpool.agent";
/// Label: the preset whose settings the worker waits with.
pub(crate) const LABEL_PRESET: &str = "warmpool.preset";
/// Label: what the worker of a service was started from.
pub(crate) const LABEL_IMAGE: &str = "warmpool.image";
/// Label: the service looks at a node and is no worker.
pub(crate) const LABEL_PROBE: &str = "warmpool.probe";
/// Label: the container renders scenes, for the process that the value names. It belongs to no pool.
pub(crate) const LABEL_RENDERER: &str = "warmpool.renderer";
/// Label of a network: a daemon made it for workers.
pub(crate) const LABEL_NETWORK: &str = "warmpool.network";

/// Where the agent of a worker listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentAddress {
    /// A socket in the folder that the daemon shares with the worker.
    Unix(PathBuf),
    /// A port on the workers' network.
    Tcp(SocketAddr),
}

/// Where a worker runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Where its agent listens.
    pub address: AgentAddress,
    /// The id of its node; none on this host.
    pub node: Option<String>,
}

impl From<AgentAddress> for Place {
    fn from(address: AgentAddress) -> Self {
        Self { address, node: None }
    }
}

/// What a call to the container runtime can fail with.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The runtime does not answer at all.
    #[error("the container runtime does not answer: {0}")]
    Unreachable(String),
    /// The worker image is not there.
    #[error(
        "the image `{0}` is not on this host: build it with scripts/images, or load a packed one with `docker load`"
    )]
    NoImage(String),
    /// The folder that a worker's agent listens in is of no use.
    #[error("the folder shared with the worker: {0}")]
    Folder(String),
    /// There is a network of the name that workers are to have, and it does not keep them apart.
    #[error("the network `{name}` {flaw}; {remedy}")]
    UnfitNetwork {
        /// The network.
        name: String,
        /// What is wrong with it, in words that follow its name.
        flaw: String,
        /// What the operator can do.
        remedy: String,
    },
    /// No node of the swarm takes a worker.
    #[error("no node of the swarm takes a worker that asks for {asked}: {why}{}", left_out(avoided))]
    NoNode {
        /// Swarm's own words.
        why: String,
        /// What the worker reserves.
        asked: String,
        /// Nodes that are left out for a while, with the reasons; empty where there are none.
        avoided: String,
    },
    /// There is no node of this name, or several.
    #[error("{flaw} `{name}`: {known}")]
    NodeName {
        /// What was named.
        name: String,
        /// What is wrong with it, in words before the name.
        flaw: &'static str,
        /// What can be named.
        known: String,
    },
    /// Nodes were asked for where there are none.
    #[error("workers run on this host alone: nodes are those of a swarm, and swarm.enabled is false")]
    OneHost,
    /// What opens the registry cannot be read.
    #[error("`swarm.registry_password_file` {path} cannot be used: {why}")]
    RegistryPassword {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// Another daemon has these workers.
    #[error("another daemon has the workers of this instance: {0}")]
    NotOwned(String),
    /// The runtime refused the call.
    #[error("the container runtime refused to {action}: {message}")]
    Refused {
        /// What was asked.
        action: &'static str,
        /// The runtime's own words.
        message: String,
    },
}

fn left_out(avoided: &str) -> String {
    if avoided.is_empty() { String::new() } else { format!("; left out for now: {avoided}") }
}

/// The container to make for a worker.
#[derive(Debug, Clone)]
pub struct WorkerSpec {
    pub worker: WorkerId,
    /// Its engine and mode.
    pub key: PoolKey,
    pub image: String,
}

/// What the runtime says of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerState {
    /// It runs, or is paused: its processes exist.
    Running,
    /// It ended.
    Exited {
        /// The exit code of its first process.
        code: i64,
        /// Whether the kernel ended it because memory ran out.
        oom: bool,
    },
    /// The runtime does not know it.
    Missing,
    /// The host that it runs on is lost to the runtime.
    NodeLost {
        /// The host's name.
        node: String,
    },
    /// Somebody had the host emptied.
    NodeDrained {
        /// The host's name.
        node: String,
    },
}

/// A container that carries this daemon's label.
#[derive(Debug, Clone)]
pub struct OwnedContainer {
    /// The worker's id, from the label.
    pub worker: WorkerId,
    /// Its engine and mode, where the labels still make sense.
    pub key: Option<PoolKey>,
    /// Whether it runs.
    pub running: bool,
    /// Where it runs.
    pub place: Option<Place>,
    /// The id of the image it was made from.
    pub image: String,
}
