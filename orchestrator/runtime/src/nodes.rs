//! The hosts that workers run on, beside this one, as far as they matter to those above.

use serde::{Deserialize, Serialize};

/// Whether a node can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
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
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Lost => "lost",
        }
    }
}

impl NodeUse {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Draining => "draining",
            Self::Drained => "drained",
        }
    }
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    pub id: String,
    /// Its host's name, which others may have too.
    pub name: String,
    pub state: NodeState,
    pub availability: NodeUse,
    /// Why it gets no workers for now, although it could take them.
    pub left_out: Option<String>,
}

/// What the containers on one node are like, as they say from inside.
#[derive(Debug, Clone)]
pub struct NodeFence {
    /// The node's name.
    pub node: String,
    /// What is missing, or why that is not known.
    pub verdict: Result<Vec<Lack>, String>,
}

/// One thing that a container on a node should have and has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    pub what: String,
    /// What mends it.
    pub remedy: String,
    /// Whether no worker may run without it.
    pub needed: bool,
}
