//! Where containers come from.
//!
//! The rest of the daemon speaks of workers and renderers; this crate turns them into containers with the one hardened profile,
//! and finds them again by label after a restart.
//!
//! | module | what it holds |
//! |---|---|
//! | `container_runtime` | [`ContainerRuntime`]: all that the daemon asks of a runtime |
//! | `docker` | the engine of this host: workers as containers, and the renderers of every runtime; `agent_folder` is what a worker shares with the daemon |
//! | `swarm` | a Docker Swarm: workers as services on many nodes |
//! | `kubernetes` | Kubernetes: workers as Pods on many nodes |
//! | `cluster` | what these two share: the lease, and the choice of nodes |
//! | `client` | the calls to the engine, each with a deadline |
//! | `engine_kind` | [`EngineKind`]: what differs between Docker and Podman |
//! | `container`, `labels` | a worker's container, and how it is named and found again |
//! | `nodes`, `ownership`, `facts` | what runtimes report of nodes, of this daemon's right to its workers, and of the engine |
//! | `error` | [`RuntimeError`] |
//!
//! It may use `warmpool-config`, `warmpool-core` and `warmpool-protocol`. Nobody outside knows bollard, or which runtime it has.
//!
//! # Another runtime
//!
//! A type that implements [`ContainerRuntime`] in a module of its own, a setting that names it, and the case for that setting
//! in [`Runtime::new`]. What only a cluster has is optional: the trait's own methods are right for a runtime of one host.
//!
//! # Decisions
//!
//! - **Labels, not a file, say whose a container is.** A daemon that was killed finds all that it left, also what it never
//!   heard was started.
//! - **Each call has a deadline**, and ends with the last byte of its answer: an engine that hangs holds up nobody.
//! - **One profile for all containers**: no capability, no new privileges, a seccomp profile, a read-only root, limits on
//!   memory, processes and processor time. What a service cannot ask for is checked on each node before its first worker.
//! - **On Docker Engine agents listen on sockets in a folder that they share with the daemon**, so that workers need no network
//!   and have none. Where that cannot be, and on a Swarm, agents listen on TCP, and leave the network before they start anything.
//! - **Podman is spoken to by Docker's API**, so both share all code but that of [`EngineKind`]. The engine tells which it is, and no
//!   setting does. Podman reads the seccomp profile from a file, which the daemon keeps in its data directory; it gives a tmpfs to
//!   the container's user by an option of its own; and it asks for limits of processes that it may not have, unless it is told others.
//! - **A worker that waits long is paged out by its control group**, where the operator asks for it. Merging equal pages (KSM) was seen to
//!   take less off, a fifth, and lets one page measure what another has in memory.
//! - **Exactly one daemon owns the workers of an instance**: on one host by the lock on its store, on a cluster by a lease.
//! - **Kubernetes is spoken to by plain requests**, with the HTTP client that is here anyway: fourteen verbs on six resources,
//!   two of them watches. The crate `kube` would bring 46 others, and wants Rust 1.89.

mod agent_folder;
mod client;
mod cluster;
mod container;
mod container_runtime;
mod docker;
mod engine_kind;
mod error;
mod facts;
mod kubernetes;
mod labels;
mod nodes;
mod ownership;
mod swarm;
#[cfg(test)]
mod test_log;

use std::ops::Deref;
use std::sync::Arc;

pub use container::{AgentAddress, ContainerState, NodeLoss, OwnedContainer, RendererId, WorkerLocation, WorkerSpec};
pub use container_runtime::ContainerRuntime;
pub use docker::{RendererPipes, may_page_out};
pub use engine_kind::EngineKind;
pub use error::RuntimeError;
pub use facts::{ClusterFacts, DockerFacts, ImageFact, LeaseFacts, MissingAccess, Refusal};
pub use nodes::{MissingRequirement, NodeCheck, NodeFacts, NodeOrder, NodeState, NodeUse};
pub use ownership::Ownership;

use docker::Docker;
use kubernetes::Kubernetes;
use swarm::Swarm;
use warmpool_config::Config;

/// The runtime that the configuration names. Its holder does not know which it is. Clones share its connections.
#[derive(Clone)]
pub struct Runtime(Arc<dyn ContainerRuntime>);

impl Runtime {
    /// The runtime that `config` names, which labels every container with `instance`. It connects when first needed, so the
    /// daemon can start before the runtime does.
    #[must_use]
    pub fn new(config: Arc<Config>, instance: String) -> Self {
        if config.kubernetes.enabled {
            Self(Arc::new(Kubernetes::new(config, instance)))
        } else if config.swarm.enabled {
            Self(Arc::new(Swarm::new(config, instance)))
        } else {
            Self(Arc::new(Docker::new(config, instance)))
        }
    }
}

impl Deref for Runtime {
    type Target = dyn ContainerRuntime;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}
