//! Spreads workers over the values of a node's label. Swarm's own preference evens out the tasks of one service, and each worker
//! is a service of its own.

use std::collections::BTreeMap;

use bollard::models::Node;
use serde_json::json;
use tokio::sync::MutexGuard;

use super::Swarm;
use super::constraints::label;
use crate::{RuntimeError, labels};

/// One worker's choice. Others count once it is dropped, so that it is kept until the worker has a node.
pub(super) struct Choice<'a> {
    /// The nodes that others are to be preferred to.
    pub elsewhere: Vec<String>,
    _turn: MutexGuard<'a, ()>,
}

impl Swarm {
    /// The nodes that a new worker should not come to, of those that are left; none where nothing is to be spread.
    pub(super) async fn spread(&self, left_out: &[String]) -> Result<Option<Choice<'_>>, RuntimeError> {
        let Some(over) = &self.config.swarm.spread_over else { return Ok(None) };
        let turn = self.spreading.lock().await;
        let nodes = self.list_nodes().await?;
        let tasks =
            self.tasks(&json!({ "label": [labels::owned_by(&self.instance), labels::WORKER.to_owned()] })).await?;
        let on: Vec<&str> = tasks.iter().filter(|task| !task.is_ended()).map(|task| task.node.as_str()).collect();
        Ok(Some(Choice { elsewhere: fuller(&nodes, over, left_out, &on), _turn: turn }))
    }
}

/// Of the nodes that are not left out, those whose value of the label has more workers than another one. `on` are the nodes of the
/// workers there are.
fn fuller(nodes: &[Node], over: &str, left_out: &[String], on: &[&str]) -> Vec<String> {
    let mut values: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    for node in nodes {
        let Some(id) = &node.id else { continue };
        // Nodes without the label are alike, too.
        let (workers, usable) = values.entry(label(node, over).unwrap_or_default()).or_default();
        *workers += on.iter().filter(|on| *on == id).count();
        if !left_out.contains(id) {
            usable.push(id.clone());
        }
    }
    values.retain(|_, (_, usable)| !usable.is_empty());
    let fewest = values.values().map(|(workers, _)| *workers).min().unwrap_or_default();
    values.into_values().filter(|(workers, _)| *workers > fewest).flat_map(|(_, usable)| usable).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bollard::models::NodeSpec;

    use super::*;

    fn node(id: &str, rack: Option<&str>) -> Node {
        let labels = rack.map(|rack| HashMap::from([("rack".to_owned(), rack.to_owned())]));
        Node { id: Some(id.to_owned()), spec: Some(NodeSpec { labels, ..Default::default() }), ..Default::default() }
    }

    #[test]
    fn the_value_with_the_fewest_workers_is_next() {
        let nodes = [node("a1", Some("a")), node("a2", Some("a")), node("b1", Some("b")), node("c1", None)];
        let fuller = |left_out: &[&str], on: &[&str]| {
            let left_out: Vec<String> = left_out.iter().map(|id| (*id).to_owned()).collect();
            super::fuller(&nodes, "node.labels.rack", &left_out, on)
        };
        assert!(fuller(&[], &[]).is_empty(), "all are alike");
        assert_eq!(fuller(&[], &["a1"]), ["a1", "a2"], "the other node of the rack is no better");
        assert_eq!(fuller(&[], &["a1", "a2", "b1"]), ["a1", "a2", "b1"]);
        assert_eq!(fuller(&["c1"], &["a1", "a2", "b1"]), ["a1", "a2"], "what is left out is not waited for");
        assert_eq!(fuller(&["b1", "c1"], &["a1"]), [""; 0], "one value is left");
        assert!(fuller(&["a1", "a2", "b1", "c1"], &[]).is_empty());
    }
}
