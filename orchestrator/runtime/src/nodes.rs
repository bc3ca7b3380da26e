//! The nodes of a cluster that workers run on.

use serde::{Deserialize, Serialize};

/// Whether a node can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// The manager hears from it.
    Ready,
    /// The manager does not hear from it.
    Lost,
}

/// What a node is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeUse {
    /// Whatever it is given.
    Active,
    /// What it has, and nothing new.
    Paused,
    /// The sessions that it has, until they end; then it is drained.
    Draining,
    /// Nothing.
    Drained,
}

impl NodeState {
    /// The name in JSON and for the operator.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Lost => "lost",
        }
    }
}

impl NodeUse {
    /// The name in JSON and for the operator.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Draining => "draining",
            Self::Drained => "drained",
        }
    }
}

/// What an operator orders of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeOrder {
    /// To be taken out of use: no new worker starts there.
    Drain,
    /// To be used again.
    Use,
}

/// A node, as the runtime reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its id in the cluster.
    pub id: String,
    /// Its host's name, which others may have too.
    pub name: String,
    /// Whether it can be reached.
    pub state: NodeState,
    /// What it is to run.
    pub availability: NodeUse,
    /// Why it gets no workers for now, although it could take them.
    pub left_out: Option<String>,
}

/// The result of checking one node from inside a container there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCheck {
    /// The node's name.
    pub node: String,
    /// The requirements that are not met, or why they could not be checked.
    pub verdict: Result<Vec<MissingRequirement>, String>,
}

/// A requirement that containers on a node do not meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRequirement {
    /// What is missing.
    pub what: String,
    /// What the operator can do about it.
    pub remedy: String,
    /// Whether no worker may run without it.
    pub needed: bool,
}
