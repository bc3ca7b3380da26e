//! The nodes of the swarm: which there are, and taking one out of use.
//!
//! A label marks a node that is being drained, so that every Warmpool of the swarm sees it. New services leave such a node out
//! by its id: Swarm ends what runs as soon as a label of its node no longer meets a constraint.

use std::collections::HashMap;

use bollard::models::{Node, NodeSpecAvailabilityEnum, NodeState as Reach};
use bollard::query_parameters::{ListNodesOptions, UpdateNodeOptions};
use serde_json::json;

use super::Swarm;
use crate::client::{Answer, unless};
use crate::{NodeFacts, NodeOrder, NodeState, NodeUse, RuntimeError, labels};

/// Label of a node that an operator drains, or has drained.
const LABEL_DRAIN: &str = "warmpool.drain";
/// How often a change is tried when others change the node at the same moment.
const TRIES: usize = 3;

impl Swarm {
    /// Marks a node as being drained, or takes the mark away and uses the node again, whoever drained it.
    pub(super) async fn mark_node(&self, name: &str, order: NodeOrder) -> Result<NodeFacts, RuntimeError> {
        let id = named(&self.list_nodes().await?, name)?;
        let change =
            |labels: &mut HashMap<String, String>, availability: &mut Option<NodeSpecAvailabilityEnum>| match order {
                NodeOrder::Drain => {
                    labels.insert(LABEL_DRAIN.to_owned(), "true".to_owned());
                }
                NodeOrder::Use => {
                    labels.remove(LABEL_DRAIN);
                    *availability = Some(NodeSpecAvailabilityEnum::ACTIVE);
                }
            };
        let node = self.change_node(&id, change).await?;
        Ok(self.facts_of(&node))
    }

    /// Tells Swarm to drain the node, once no worker of any Warmpool is there.
    pub(super) async fn drain_if_clear(&self, node: &str) -> Result<(), RuntimeError> {
        let workers = self.tasks(&json!({ "node": [node], "label": [labels::WORKER] })).await?;
        if workers.iter().any(|task| !task.has_ended()) {
            return Ok(());
        }
        let drain = |labels: &mut HashMap<String, String>, availability: &mut Option<NodeSpecAvailabilityEnum>| {
            // Somebody may have thought better of it.
            if labels.contains_key(LABEL_DRAIN) {
                *availability = Some(NodeSpecAvailabilityEnum::DRAIN);
            }
        };
        self.change_node(node, drain).await.map(drop)
    }

    /// Changes labels and availability of a node, as they are at that moment.
    async fn change_node(
        &self,
        id: &str,
        change: impl Fn(&mut HashMap<String, String>, &mut Option<NodeSpecAvailabilityEnum>),
    ) -> Result<Node, RuntimeError> {
        self.term.check()?;
        let mut left = TRIES;
        loop {
            let node = self.inspect_node(id).await?;
            let mut spec = node.spec.clone().unwrap_or_default();
            change(spec.labels.get_or_insert_default(), &mut spec.availability);
            let version = version(&node).try_into().unwrap_or_default();
            left -= 1;
            let options = UpdateNodeOptions { version };
            let update = async move |engine: bollard::Docker| engine.update_node(id, spec, options).await;
            match self.host.look("change a node", update).await {
                Ok(()) => return Ok(self.inspect_node(id).await?),
                Err(error) if left == 0 => return Err(error.into()),
                // Somebody else may have changed it since; what they did stays.
                Err(error) => tracing::debug!(%error, "a node could not be changed yet"),
            }
        }
    }

    pub(super) async fn list_nodes(&self) -> Result<Vec<Node>, RuntimeError> {
        let list = async move |engine: bollard::Docker| engine.list_nodes(None::<ListNodesOptions>).await;
        Ok(self.host.look("list the nodes", list).await?)
    }

    pub(super) async fn node(&self, id: &str) -> Result<Option<Node>, RuntimeError> {
        Ok(unless(&[404], self.inspect_node(id).await)?)
    }

    async fn inspect_node(&self, id: &str) -> Answer<Node> {
        self.host.look("look up a node", async move |engine| engine.inspect_node(id).await).await
    }

    /// Returns a node's name, or its id where the manager cannot be asked.
    pub(super) async fn name_of(&self, id: &str) -> String {
        let found = self.node(id).await.ok().flatten();
        found.map_or_else(|| id.to_owned(), |node| node_name(&node))
    }

    pub(super) fn facts_of(&self, node: &Node) -> NodeFacts {
        let id = node.id.clone().unwrap_or_default();
        NodeFacts {
            name: node_name(node),
            state: if is_ready(node) { NodeState::Ready } else { NodeState::Lost },
            availability: usage(node),
            left_out: self.avoided.why(&id),
            id,
        }
    }
}

/// Returns the id of the node that has this name or id.
fn named(nodes: &[Node], name: &str) -> Result<String, RuntimeError> {
    let found: Vec<&Node> =
        nodes.iter().filter(|node| node.id.as_deref() == Some(name) || node_name(node) == name).collect();
    let fault =
        |flaw, known: Vec<String>| RuntimeError::NodeName { name: name.to_owned(), flaw, known: known.join(", ") };
    match found[..] {
        [node] => Ok(node.id.clone().unwrap_or_default()),
        [] => Err(fault("there is no node", nodes.iter().map(node_name).collect())),
        _ => {
            let ids = found.iter().filter_map(|node| node.id.clone()).collect();
            Err(fault("several nodes have the name", ids))
        }
    }
}

pub(super) fn is_down(node: &Node) -> bool {
    reach(node) == Some(Reach::DOWN)
}

pub(super) fn is_ready(node: &Node) -> bool {
    reach(node) == Some(Reach::READY)
}

fn reach(node: &Node) -> Option<Reach> {
    node.status.as_ref().and_then(|status| status.state)
}

/// Whether Swarm runs nothing there.
pub(super) fn is_drained(node: &Node) -> bool {
    node.spec.as_ref().is_some_and(|spec| spec.availability == Some(NodeSpecAvailabilityEnum::DRAIN))
}

/// What a node is to run.
pub(super) fn usage(node: &Node) -> NodeUse {
    let Some(spec) = &node.spec else { return NodeUse::Active };
    let marked = spec.labels.as_ref().is_some_and(|labels| labels.contains_key(LABEL_DRAIN));
    match spec.availability {
        Some(NodeSpecAvailabilityEnum::DRAIN) => NodeUse::Drained,
        _ if marked => NodeUse::Draining,
        Some(NodeSpecAvailabilityEnum::PAUSE) => NodeUse::Paused,
        _ => NodeUse::Active,
    }
}

/// A node's version, which grows with each change of its specification and when its engine comes back.
pub(super) fn version(node: &Node) -> u64 {
    node.version.as_ref().and_then(|version| version.index).unwrap_or_default()
}

pub(super) fn node_name(node: &Node) -> String {
    let name = node.description.as_ref().and_then(|description| description.hostname.clone());
    name.or_else(|| node.id.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use bollard::models::{NodeDescription, NodeSpec};

    use super::*;

    fn node(id: &str, name: &str) -> Node {
        let description = NodeDescription { hostname: Some(name.to_owned()), ..Default::default() };
        Node { id: Some(id.to_owned()), description: Some(description), ..Default::default() }
    }

    #[test]
    fn a_node_goes_by_its_name_or_its_id() {
        let nodes = [node("a1", "east"), node("a2", "west"), node("a3", "west")];
        assert_eq!(named(&nodes, "east").unwrap(), "a1");
        assert_eq!(named(&nodes, "a3").unwrap(), "a3");
        assert_eq!(named(&nodes, "north").unwrap_err().to_string(), "there is no node `north`: east, west, west");
        assert_eq!(named(&nodes, "west").unwrap_err().to_string(), "several nodes have the name `west`: a2, a3");
    }

    #[test]
    fn a_marked_node_is_draining_until_swarm_drains_it() {
        let with = |availability, marked: bool| {
            let labels = marked.then(|| HashMap::from([(LABEL_DRAIN.to_owned(), "true".to_owned())]));
            let spec = NodeSpec { availability: Some(availability), labels, ..Default::default() };
            usage(&Node { spec: Some(spec), ..Default::default() })
        };
        assert_eq!(with(NodeSpecAvailabilityEnum::ACTIVE, false), NodeUse::Active);
        assert_eq!(with(NodeSpecAvailabilityEnum::PAUSE, false), NodeUse::Paused);
        assert_eq!(with(NodeSpecAvailabilityEnum::ACTIVE, true), NodeUse::Draining);
        assert_eq!(with(NodeSpecAvailabilityEnum::DRAIN, true), NodeUse::Drained);
        assert_eq!(with(NodeSpecAvailabilityEnum::DRAIN, false), NodeUse::Drained);
    }
}
