//! Tasks: what Swarm made of services. bollard's model of them leaves out their addresses, so this asks the manager itself.

use bollard::models::TaskState;
use bytes::Bytes;
use http::{Method, StatusCode};
use ipnet::Ipv4Net;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::client::Client;
use crate::{ContainerState, NodeLoss, RuntimeError};

/// The one try at running a service.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Task {
    #[serde(rename = "ServiceID", default)]
    pub service: String,
    /// The id of the node that it was given to; empty before.
    #[serde(rename = "NodeID", default)]
    pub node: String,
    pub status: Status,
    /// What Swarm wants it to be.
    desired_state: TaskState,
    #[serde(default)]
    networks_attachments: Vec<Attachment>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Status {
    pub state: TaskState,
    #[serde(default)]
    pub message: String,
    /// What went wrong, or keeps it from a node.
    #[serde(default)]
    pub err: String,
    container_status: Option<Container>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    #[serde(default)]
    exit_code: i64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attachment {
    network: Network,
    #[serde(default)]
    addresses: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Network {
    spec: NetworkSpec,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NetworkSpec {
    name: String,
}

impl Task {
    /// Its address on this network, with the length of the network's prefix.
    pub(super) fn address(&self, network: &str) -> Option<Ipv4Net> {
        let attachment = self.networks_attachments.iter().find(|attachment| attachment.network.spec.name == network)?;
        attachment.addresses.first()?.parse().ok()
    }

    /// Whether its container, if it ever had one, runs no more.
    pub(super) fn has_ended(&self) -> bool {
        matches!(
            self.status.state,
            TaskState::COMPLETE | TaskState::SHUTDOWN | TaskState::FAILED | TaskState::REJECTED | TaskState::REMOVE
        )
    }

    /// Whether Swarm ends it, or has.
    pub(super) fn is_ended(&self) -> bool {
        self.has_ended() || matches!(self.desired_state, TaskState::SHUTDOWN | TaskState::REMOVE)
    }

    /// Whether its container may run although Swarm wants it gone, as on a node that cannot be reached.
    pub(super) fn is_stale(&self) -> bool {
        self.is_ended() && !self.has_ended() && self.status.state != TaskState::ORPHANED
    }

    /// How its container ended; none where it never had one.
    pub(super) fn exit_code(&self) -> Option<i64> {
        self.status.container_status.as_ref().map(|container| container.exit_code)
    }

    /// The state of its container.
    pub(super) fn container(&self) -> ContainerState {
        if self.has_ended() {
            let code = self.exit_code().unwrap_or(-1);
            // Swarm does not say whether the kernel ended it because memory ran out.
            ContainerState::Exited { code, oom: false }
        } else if self.status.state == TaskState::ORPHANED {
            ContainerState::Node(NodeLoss::Lost { node: self.node.clone() })
        } else {
            ContainerState::Running
        }
    }
}

/// The tasks that filters let through; none where one names a service that there is not.
/// Errors: [`RuntimeError`] when the manager cannot be asked.
pub(super) async fn list(client: &Client, filters: &serde_json::Value) -> Result<Vec<Task>, RuntimeError> {
    let filters = filters.to_string();
    let path = format!("/tasks?filters={}", utf8_percent_encode(&filters, NON_ALPHANUMERIC));
    let (status, body) = client.ask(client.request(Method::GET, &path), Bytes::new()).await?;
    match status {
        StatusCode::OK => serde_json::from_slice(&body).map_err(|error| RuntimeError::Unreachable(error.to_string())),
        StatusCode::NOT_FOUND => Ok(Vec::new()),
        _ => Err(RuntimeError::refused("list the tasks", String::from_utf8_lossy(&body))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(state: &str) -> Task {
        wanted(state, "running")
    }

    fn wanted(state: &str, desired: &str) -> Task {
        let text = format!(
            r#"{{"ID":"t","ServiceID":"s","NodeID":"n","DesiredState":"{desired}",
            "Status":{{"State":"{state}","Message":"started","Err":"task: non-zero exit (3)",
                "ContainerStatus":{{"ContainerID":"c","PID":7,"ExitCode":3}},"PortStatus":{{}}}},
            "NetworksAttachments":[
                {{"Network":{{"ID":"i","Spec":{{"Name":"ingress"}}}},"Addresses":["10.0.0.9/24"]}},
                {{"Network":{{"ID":"w","Spec":{{"Name":"workers"}}}},"Addresses":["10.0.1.4/20"]}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_tasks_end_is_its_containers() {
        for state in ["preparing", "starting", "running"] {
            assert_eq!(task(state).container(), ContainerState::Running, "{state}");
        }
        for state in ["complete", "failed", "shutdown", "rejected"] {
            assert_eq!(task(state).container(), ContainerState::Exited { code: 3, oom: false }, "{state}");
        }
        let lost = NodeLoss::Lost { node: "n".to_owned() };
        assert_eq!(task("orphaned").container(), ContainerState::Node(lost));
    }

    #[test]
    fn what_is_to_go_and_has_not_is_stale() {
        for (state, desired, stale) in [
            ("running", "running", false),
            ("running", "remove", true),
            ("starting", "shutdown", true),
            ("failed", "shutdown", false),
            ("orphaned", "remove", false),
        ] {
            assert_eq!(wanted(state, desired).is_stale(), stale, "{state}, {desired}");
        }
    }

    #[test]
    fn the_address_is_that_on_the_workers_network() {
        let task = task("running");
        assert_eq!(task.address("workers"), "10.0.1.4/20".parse().ok());
        assert_eq!(task.address("elsewhere"), None);
    }
}
