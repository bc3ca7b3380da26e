//! The nodes of the cluster: which there are, what keeps workers from them, and taking one out of use.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::Kubernetes;
use super::objects::{Node, Taint};
use super::pod::{node_selector, tolerations};
use crate::{NodeFacts, NodeOrder, NodeState, NodeUse, RuntimeError};

/// Taints that tell the state of a node, which is judged by its conditions.
const OF_STATE: [&str; 3] =
    ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable"];

impl Kubernetes {
    pub(super) async fn list_nodes(&self) -> Result<Vec<Node>, RuntimeError> {
        self.watches()?.nodes.all(self.limit()).await
    }

    /// Takes a node out of use or into use again. One that others cordoned stays cordoned.
    pub(super) async fn mark_node(&self, name: &str, order: NodeOrder) -> Result<NodeFacts, RuntimeError> {
        let nodes = self.list_nodes().await?;
        let node = nodes.iter().find(|node| node.metadata.name == name).ok_or_else(|| {
            let mut known: Vec<&str> = nodes.iter().map(|node| node.metadata.name.as_str()).collect();
            known.sort_unstable();
            RuntimeError::NodeName { name: name.to_owned(), flaw: "there is no node", known: known.join(", ") }
        })?;
        // The list is written as a whole, so one change at a time reads it and writes it.
        let _alone = self.draining.lock().await;
        let mut marked = self.read_drained().await?;
        match order {
            NodeOrder::Drain => marked.insert(name.to_owned()),
            NodeOrder::Use => marked.remove(name),
        };
        self.keep_drained(&marked.iter().cloned().collect::<Vec<_>>()).await?;
        let mut drained = self.drained.lock();
        drained.marked = marked;
        drained.finished.remove(name);
        drop(drained);
        Ok(self.facts_of(node))
    }

    pub(super) fn facts_of(&self, node: &Node) -> NodeFacts {
        let name = node.metadata.name.clone();
        NodeFacts {
            state: if node.is_ready() { NodeState::Ready } else { NodeState::Lost },
            availability: self.usage(node),
            left_out: self.forbidden(node).or_else(|| self.avoided.why(&name)),
            id: name.clone(),
            name,
        }
    }

    /// What a node is to run.
    pub(super) fn usage(&self, node: &Node) -> NodeUse {
        let drained = self.drained.lock();
        let name = &node.metadata.name;
        match (drained.marked.contains(name), drained.finished.contains(name)) {
            (true, true) => NodeUse::Drained,
            (true, false) => NodeUse::Draining,
            (false, _) if node.spec.unschedulable => NodeUse::Paused,
            (false, _) => NodeUse::Active,
        }
    }

    /// Why the configuration keeps workers from a node, if it does.
    pub(super) fn forbidden(&self, node: &Node) -> Option<String> {
        let selector = node_selector(&self.config);
        let lacks =
            selector.iter().find(|(name, value)| node.metadata.labels.get(*name).map(String::as_str) != value.as_str());
        if let Some((name, value)) = lacks {
            return Some(format!("it does not have the label {name}={}", value.as_str().unwrap_or_default()));
        }
        let tolerated = tolerations(&self.config);
        let tolerates = |taint: &Taint| {
            tolerated.iter().any(|toleration| {
                toleration["key"] == taint.key.as_str()
                    && toleration.get("effect").is_none_or(|effect| *effect == taint.effect.as_str())
                    && toleration.get("value").is_none_or(|value| *value == taint.value.as_str())
            })
        };
        let mut taints = node.spec.taints.iter().filter(|taint| taint.effect != "PreferNoSchedule");
        let taint = taints.find(|taint| !OF_STATE.contains(&taint.key.as_str()) && !tolerates(taint))?;
        let Taint { key, value, effect } = taint;
        let value = if value.is_empty() { String::new() } else { format!("={value}") };
        Some(format!("kubernetes.tolerations does not name its taint {key}{value}:{effect}"))
    }

    /// Why nothing is to be started on a node.
    pub(super) fn kept_away(&self, node: &Node) -> Option<String> {
        if !node.is_ready() {
            return Some("it is not ready".to_owned());
        }
        self.forbidden(node).or_else(|| match self.usage(node) {
            NodeUse::Active => None,
            NodeUse::Paused => Some("it is cordoned".to_owned()),
            NodeUse::Draining | NodeUse::Drained => Some("it is drained".to_owned()),
        })
    }
}

/// What changes when a node has to be looked at again: another kernel, kubelet or engine, or a time out of reach.
pub(super) fn version(node: &Node) -> u64 {
    let mut hasher = DefaultHasher::new();
    node.metadata.uid.hash(&mut hasher);
    node.status.node_info.hash(&mut hasher);
    node.ready().and_then(|ready| ready.last_transition_time.as_ref()).hash(&mut hasher);
    hasher.finish()
}

/// Whether any node has the image.
pub(super) fn is_there(nodes: &[Node], name: &str) -> bool {
    let (_, tagged) = tagged(name);
    let images = nodes.iter().flat_map(|node| &node.status.images);
    images.flat_map(|image| &image.names).any(|known| is_named(known, &tagged) || is_named(known, name))
}

/// Whether an image's name has a registry, so that it means the same on every node.
pub(super) fn names_registry(name: &str) -> bool {
    name.split_once('/').is_some_and(|(host, _)| host.contains(['.', ':']) || host == "localhost")
}

/// Whether nodes may pull an image: its name, or its digest, says which one it is wherever they get it from.
pub(super) fn is_pullable(image: &str) -> bool {
    image.contains("@sha256:") || names_registry(image)
}

/// A name's repository, and the name with its tag.
fn tagged(name: &str) -> (&str, String) {
    match name.rsplit_once(':') {
        // A colon before a slash belongs to the registry's port.
        Some((repository, tag)) if !tag.contains('/') => (repository, name.to_owned()),
        _ => (name, format!("{name}:latest")),
    }
}

/// Whether a name that a node knows is this one: engines know names without a registry by its full name, too.
fn is_named(known: &str, wanted: &str) -> bool {
    known == wanted || known.strip_suffix(wanted).is_some_and(|rest| rest.ends_with('/'))
}

/// The one digest that all nodes which have the image know it by.
pub(super) fn digest(nodes: &[Node], name: &str) -> Option<String> {
    let (repository, tagged) = tagged(name);
    let images = nodes.iter().flat_map(|node| &node.status.images);
    let mut digests = BTreeSet::new();
    for image in images.filter(|image| image.names.iter().any(|known| is_named(known, &tagged))) {
        let with_digest = image
            .names
            .iter()
            .find(|known| known.split_once("@sha256:").is_some_and(|(of, _)| is_named(of, repository)));
        digests.insert(with_digest?.clone());
    }
    if digests.len() == 1 { digests.pop_first() } else { None }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use warmpool_config::{Config, Flags, Host};

    fn node(spec: Value, images: Value) -> Node {
        serde_json::from_value(json!({
            "metadata": { "name": "n1", "uid": "u", "labels": { "pool": "browsers" } },
            "spec": spec,
            "status": {
                "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "t1" }],
                "images": images,
            },
        }))
        .unwrap()
    }

    fn cluster(settings: &[(&str, &str)]) -> Kubernetes {
        let flags = settings
            .iter()
            .fold(Flags::default().with("kubernetes.enabled", "true"), |flags, (name, text)| flags.with(name, *text));
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        Kubernetes::new(Arc::new(Config::resolve(None, [], &flags, &host).unwrap()), "0a1b".to_owned())
    }

    #[test]
    fn taints_and_labels_keep_workers_away() {
        let taint = |key: &str, value: &str, effect: &str| {
            node(json!({ "taints": [{ "key": key, "value": value, "effect": effect }] }), json!([]))
        };
        let tolerant = cluster(&[("kubernetes.tolerations", "dedicated=browsers:NoSchedule,spot")]);
        for (node, allowed) in [
            (taint("dedicated", "browsers", "NoSchedule"), true),
            (taint("dedicated", "others", "NoSchedule"), false),
            (taint("dedicated", "browsers", "NoExecute"), false),
            (taint("spot", "", "NoExecute"), true),
            (taint("gpu", "", "PreferNoSchedule"), true),
            (taint("node.kubernetes.io/not-ready", "", "NoExecute"), true),
        ] {
            let why = tolerant.forbidden(&node);
            assert_eq!(why.is_none(), allowed, "{why:?}");
        }
        let why = cluster(&[]).forbidden(&taint("gpu", "yes", "NoSchedule")).unwrap();
        assert!(why.contains("gpu=yes:NoSchedule"), "{why}");
        let plain = node(json!({}), json!([]));
        assert!(cluster(&[("kubernetes.node_selector", "pool=browsers")]).forbidden(&plain).is_none());
        assert!(
            cluster(&[("kubernetes.node_selector", "pool=others")]).forbidden(&plain).unwrap().contains("pool=others")
        );
    }

    #[test]
    fn a_node_that_others_cordoned_gets_nothing() {
        let cluster = cluster(&[]);
        assert_eq!(cluster.usage(&node(json!({}), json!([]))), NodeUse::Active);
        let cordoned = node(json!({ "unschedulable": true }), json!([]));
        assert_eq!(cluster.usage(&cordoned), NodeUse::Paused);
        assert_eq!(cluster.kept_away(&cordoned).as_deref(), Some("it is cordoned"));
        cluster.drained.lock().marked.insert("n1".to_owned());
        assert_eq!(cluster.usage(&cordoned), NodeUse::Draining);
        cluster.drained.lock().finished.insert("n1".to_owned());
        assert_eq!(cluster.usage(&cordoned), NodeUse::Drained);
    }

    #[test]
    fn a_node_that_was_away_is_another_one() {
        let before = node(json!({}), json!([]));
        let mut after = before.clone();
        after.status.images.push(Default::default());
        after.metadata.resource_version = "9".to_owned();
        assert_eq!(version(&before), version(&after), "what does not matter");
        after.status.conditions[0].last_transition_time = Some("t2".to_owned());
        assert_ne!(version(&before), version(&after));
    }

    #[test]
    fn a_registry_is_told_from_a_folder() {
        for (name, wanted) in [
            ("registry.example/warmpool/chromium", true),
            ("images.example/chromium:1", true),
            ("r:5000/chromium", true),
            ("localhost/chromium", true),
            ("warmpool/chromium:latest", false),
            ("chromium:1.2", false),
        ] {
            assert_eq!(names_registry(name), wanted, "{name}");
        }
    }

    #[test]
    fn an_image_goes_by_the_digest_that_nodes_agree_on() {
        let having = |names: &[&str]| node(json!({}), json!([{ "names": names }]));
        let one = having(&["r.example:5000/i@sha256:1", "r.example:5000/i:1"]);
        let other = having(&["r.example:5000/i@sha256:2", "r.example:5000/i:1"]);
        let loaded = having(&["warmpool/chromium:latest"]);
        let name = "r.example:5000/i:1";
        assert_eq!(
            digest(&[one.clone(), one.clone(), loaded.clone()], name).as_deref(),
            Some("r.example:5000/i@sha256:1")
        );
        assert_eq!(digest(&[one.clone(), other], name), None, "they differ");
        let nodes = [one.clone(), loaded.clone()];
        assert!(is_there(&nodes, "warmpool/chromium") && is_there(&nodes, name));
        assert!(!is_there(&[one], "warmpool/chromium"));
        assert_eq!(digest(&[loaded], "warmpool/chromium"), None, "no registry has it");
        let full = having(&["registry.example/a/b@sha256:3", "registry.example/a/b:latest"]);
        assert_eq!(digest(&[full], "a/b").as_deref(), Some("registry.example/a/b@sha256:3"));
    }
}
