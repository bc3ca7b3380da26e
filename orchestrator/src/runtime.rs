//! Where containers come from.
//!
//! The rest of the daemon speaks of workers; this module turns them into containers with the one hardened profile, and
//! finds them again by label after a restart. `docker` speaks to the engine; `network` says what the workers' network must
//! be. Nothing outside knows bollard.

mod agent_folder;
mod docker;
mod facts;
mod network;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use docker::Docker;
pub(crate) use docker::RendererPipes;
pub use facts::{DockerFacts, ImageFact};
pub(crate) use network::NetworkFacts;

use crate::engine::{PoolKey, WorkerId};

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
/// Label: the container renders scenes. It belongs to no pool.
pub(crate) const LABEL_RENDERER: &str = "warmpool.renderer";
/// Label of a network: a daemon made it for workers.
pub(crate) const LABEL_NETWORK: &str = "warmpool.network";

/// Where the agent of a worker listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AgentAddress {
    /// A socket in the folder that the daemon shares with the worker.
    Unix(PathBuf),
    /// A port on the workers' network.
    Tcp(SocketAddr),
}

/// What a call to the container runtime can fail with.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The runtime does not answer at all.
    #[error("the container runtime does not answer: {0}")]
    Unreachable(String),
    /// The worker image is not there.
    #[error("the image `{0}` is not on this host: run scripts/images")]
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
    /// The runtime refused the call.
    #[error("the container runtime refused to {action}: {message}")]
    Refused {
        /// What was asked.
        action: &'static str,
        /// The runtime's own words.
        message: String,
    },
}

/// The container to make for a worker.
#[derive(Debug, Clone)]
pub(crate) struct WorkerSpec {
    pub worker: WorkerId,
    /// Its engine and mode.
    pub key: PoolKey,
    pub image: String,
}

/// What the runtime says of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainerState {
    /// It runs, or is paused: its processes exist.
    Running,
    /// It ended.
    Exited {
        /// The exit code of its first process.
        code: i64,
        /// Whether the kernel ended it for want of memory.
        oom: bool,
    },
    /// The runtime does not know it.
    Missing,
}

/// A container that carries this daemon's label.
#[derive(Debug, Clone)]
pub(crate) struct OwnedContainer {
    /// The worker's id, from the label.
    pub worker: WorkerId,
    /// Its engine and mode, where the labels still make sense.
    pub key: Option<PoolKey>,
    /// Whether it runs.
    pub running: bool,
    /// Where its agent listens.
    pub address: Option<AgentAddress>,
    /// The id of the image it was made from.
    pub image: String,
}
