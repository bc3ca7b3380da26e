//! A worker's container, as the daemon asks a runtime for it and as the runtime describes it.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use ipnet::Ipv4Net;
use warmpool_core::browser::PoolKey;
use warmpool_core::ids::WorkerId;

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
pub struct WorkerLocation {
    /// Where its agent listens.
    pub address: AgentAddress,
    /// The id of the node; none where workers run on this host alone.
    pub node: Option<String>,
}

impl From<AgentAddress> for WorkerLocation {
    fn from(address: AgentAddress) -> Self {
        Self { address, node: None }
    }
}

/// The container to make for a worker.
#[derive(Debug, Clone)]
pub struct WorkerSpec {
    /// The worker's id, which names the container.
    pub worker: WorkerId,
    /// Its kind: engine, mode and preset.
    pub key: PoolKey,
    /// The name of the image to start.
    pub image: String,
}

/// The state of a container, as the runtime reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerState {
    /// It runs, or is paused.
    Running,
    /// Its first process has ended.
    Exited {
        /// The exit code of its first process.
        code: i64,
        /// Whether the kernel ended it because memory ran out.
        oom: bool,
    },
    /// The runtime does not know it.
    Missing,
    /// It went with its node, or by the cluster's will.
    Node(NodeLoss),
}

/// How a cluster lost a container, or took it away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeLoss {
    /// The runtime has lost contact with the node that it runs on.
    #[error("node {node} was lost")]
    Lost {
        /// The node's name.
        node: String,
    },
    /// Somebody drained the node that it ran on.
    #[error("node {node} was drained")]
    Drained {
        /// The node's name.
        node: String,
    },
    /// The cluster ended it for a reason of its own: it was evicted, preempted or deleted.
    #[error("the cluster ended the worker on node {node}: {why}")]
    Evicted {
        /// The node's name.
        node: String,
        /// The cluster's own words.
        why: String,
    },
}

impl NodeLoss {
    /// The short name in metrics and records.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Lost { .. } => "node_lost",
            Self::Drained { .. } => "node_drained",
            Self::Evicted { .. } => "evicted",
        }
    }
}

/// A container that carries this daemon's label.
#[derive(Debug, Clone)]
pub struct OwnedContainer {
    /// The worker's id, from the label.
    pub worker: WorkerId,
    /// Its kind, where the labels can still be read.
    pub key: Option<PoolKey>,
    /// Whether it runs.
    pub running: bool,
    /// Where it runs and its agent listens; none where the runtime does not say.
    pub place: Option<WorkerLocation>,
    /// The id of the image it was made from.
    pub image: String,
}

/// The id of a renderer, which names its container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RendererId(String);

impl RendererId {
    /// A new id.
    #[must_use]
    pub fn random() -> Self {
        // Renderers are named like workers, so that a daemon of any version recognises those of another.
        Self(WorkerId::random().to_string())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for RendererId {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for RendererId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of the container or service of a worker or renderer.
pub(crate) fn container_name(id: impl fmt::Display) -> String {
    format!("warmpool-{id}")
}

/// The same where names have neither capital letters nor signs.
pub(crate) fn hex_name(worker: &WorkerId) -> String {
    container_name(hex::encode(worker.as_str()))
}

/// An address and the first address of its network, which is the gateway's where the network has one.
pub(crate) fn with_gateway(address: Ipv4Net) -> (Ipv4Addr, Ipv4Addr) {
    (address.addr(), Ipv4Addr::from_bits(address.network().to_bits() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_told_with_its_node() {
        let node = || "n1".to_owned();
        for (loss, code, said) in [
            (NodeLoss::Lost { node: node() }, "node_lost", "node n1 was lost"),
            (NodeLoss::Drained { node: node() }, "node_drained", "node n1 was drained"),
            (
                NodeLoss::Evicted { node: node(), why: "Preempted".to_owned() },
                "evicted",
                "the cluster ended the worker on node n1: Preempted",
            ),
        ] {
            assert_eq!((loss.code(), loss.to_string().as_str()), (code, said));
        }
    }
}
