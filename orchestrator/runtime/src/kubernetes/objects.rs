//! What the daemon reads of the cluster's objects. What it writes, `pod` and `lease` say.
//!
//! The API server is written in Go, which writes a list or map that nobody made as `null`: each of them is read by [`or_empty`], so
//! that no object spoils a list of others.

use std::collections::HashMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::pod::CONTAINER;

/// An object that has metadata.
pub(crate) trait Object: DeserializeOwned + Clone + Send + Sync + 'static {
    fn meta(&self) -> &Meta;

    fn name(&self) -> &str {
        &self.meta().name
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub creation_timestamp: Option<String>,
    pub deletion_timestamp: Option<String>,
    #[serde(deserialize_with = "or_empty")]
    pub labels: HashMap<String, String>,
    #[serde(deserialize_with = "or_empty")]
    pub annotations: HashMap<String, String>,
}

/// Reads a list or a map, of which `null` says that it is empty.
fn or_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Several objects, as of one version.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
pub(crate) struct List<T> {
    #[serde(default)]
    pub metadata: Meta,
    #[serde(default = "Vec::new", deserialize_with = "or_empty")]
    pub items: Vec<T>,
}

/// A change of an object, of those that a watch tells.
#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    #[serde(rename = "type")]
    pub kind: String,
    pub object: serde_json::Value,
}

/// Why the API server refuses a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub message: String,
    pub reason: String,
    pub code: u16,
    pub details: Option<StatusDetails>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StatusDetails {
    #[serde(deserialize_with = "or_empty")]
    pub causes: Vec<StatusCause>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StatusCause {
    pub reason: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub last_transition_time: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub metadata: Meta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    /// Empty before it has a node.
    pub node_name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    pub phase: String,
    pub reason: String,
    pub message: String,
    #[serde(rename = "podIP")]
    pub pod_ip: Option<std::net::IpAddr>,
    #[serde(deserialize_with = "or_empty")]
    pub conditions: Vec<Condition>,
    #[serde(deserialize_with = "or_empty")]
    pub container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerStatus {
    pub name: String,
    pub state: ContainerStates,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerStates {
    pub waiting: Option<Waiting>,
    pub running: Option<serde_json::Value>,
    pub terminated: Option<Terminated>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Waiting {
    pub reason: String,
    pub message: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Terminated {
    pub exit_code: i64,
    pub reason: String,
    pub message: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    pub metadata: Meta,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeSpec {
    pub unschedulable: bool,
    #[serde(deserialize_with = "or_empty")]
    pub taints: Vec<Taint>,
    #[serde(rename = "podCIDR")]
    pub pod_cidr: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeStatus {
    #[serde(deserialize_with = "or_empty")]
    pub conditions: Vec<Condition>,
    pub node_info: NodeInfo,
    #[serde(deserialize_with = "or_empty")]
    pub images: Vec<NodeImage>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeInfo {
    #[serde(rename = "bootID")]
    pub boot_id: String,
    pub kernel_version: String,
    pub kubelet_version: String,
    pub container_runtime_version: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeImage {
    #[serde(deserialize_with = "or_empty")]
    pub names: Vec<String>,
}

/// What happened to an object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterEvent {
    #[serde(rename = "type")]
    pub kind: String,
    pub reason: String,
    pub message: String,
    pub last_timestamp: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LeaseObject {
    pub metadata: Meta,
    pub spec: LeaseSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LeaseSpec {
    pub holder_identity: Option<String>,
    pub lease_duration_seconds: Option<u64>,
    pub renew_time: Option<String>,
}

/// Any object, of which only the metadata matter.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MetadataOnly {
    pub metadata: Meta,
}

/// The answer to the question whether this daemon may do something.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Review {
    pub status: ReviewStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReviewStatus {
    pub allowed: bool,
}

impl Object for Pod {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Object for Node {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Pod {
    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }

    pub(crate) const fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The state of the container that was asked for; none before there is any. Statuses stand in the order of their names, and a
    /// mesh or a policy may have put containers of its own beside it.
    pub(crate) fn container(&self) -> Option<&ContainerStates> {
        let ours = self.status.container_statuses.iter().find(|container| container.name == CONTAINER);
        ours.map(|container| &container.state)
    }
}

impl Node {
    /// The condition that says whether its kubelet is heard from.
    pub(crate) fn ready(&self) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == "Ready")
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready().is_some_and(|ready| ready.status == "True")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read<T: DeserializeOwned>(object: Value) -> T {
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_list_or_map_that_nobody_made_is_empty() {
        // An image without tag and digest has such names.
        let node: Node = read(json!({
            "metadata": { "name": "n1", "labels": null, "annotations": null },
            "spec": { "taints": null },
            "status": { "conditions": null, "images": [{ "names": null }, { "names": ["i:1"] }] },
        }));
        assert_eq!(node.status.images.iter().map(|image| image.names.len()).collect::<Vec<_>>(), [0, 1]);
        let bare: Node = read(json!({ "status": { "images": null } }));
        assert!(bare.status.images.is_empty());
        let pod: Pod = read(json!({ "status": { "conditions": null, "containerStatuses": null } }));
        assert!(pod.container().is_none());
        let details: StatusDetails = read(json!({ "causes": null }));
        assert!(details.causes.is_empty());
        let list: List<Pod> = read(json!({ "metadata": { "resourceVersion": "7" }, "items": null }));
        assert!(list.items.is_empty());
    }
}
