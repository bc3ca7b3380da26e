//! What became of a worker's Pod, and why.

use super::objects::{Condition, Node, Pod};
use crate::{ContainerState, NodeLoss};

/// What becomes of a Pod that was just made.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has no node yet; the reason, where the scheduler gives one.
    Unplaced {
        why: String,
    },
    /// Its node prepares it.
    Preparing,
    Running,
    /// Its node cannot start it.
    Refused {
        why: String,
    },
    /// It ended, or is being removed.
    Ended {
        why: String,
    },
}

/// What a container waits for that will not come by waiting.
const HOPELESS: [&str; 9] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "RegistryUnavailable",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];

/// How far a new Pod is.
pub(super) fn progress(pod: &Pod) -> Progress {
    let container = pod.container();
    if let Some(ended) = container.and_then(|container| container.terminated.as_ref()) {
        let why = format!("its container ended with code {} ({}) {}", ended.exit_code, ended.reason, ended.message);
        // The kubelet calls it so when the container could not even begin.
        return match ended.reason.as_str() {
            "ContainerCannotRun" | "StartError" => Progress::Refused { why },
            _ => Progress::Ended { why: why.trim_end().to_owned() },
        };
    }
    if pod.is_going() {
        return Progress::Ended { why: "the cluster removes it".to_owned() };
    }
    match pod.status.phase.as_str() {
        // The node did not admit it.
        "Failed" => Progress::Refused { why: words(&pod.status.reason, &pod.status.message) },
        "Succeeded" => Progress::Ended { why: "it ended".to_owned() },
        _ if container.is_some_and(|container| container.running.is_some()) => Progress::Running,
        _ if pod.spec.node_name.is_empty() => {
            let scheduled = pod.condition("PodScheduled");
            let why =
                scheduled.filter(|condition| condition.status == "False").map(|condition| condition.message.clone());
            Progress::Unplaced { why: why.unwrap_or_default() }
        }
        _ => match container.and_then(|container| container.waiting.as_ref()) {
            Some(waiting) if HOPELESS.contains(&waiting.reason.as_str()) => {
                Progress::Refused { why: words(&waiting.reason, &waiting.message) }
            }
            _ => Progress::Preparing,
        },
    }
}

/// What is known of the node of a Pod.
pub(super) enum PodNode {
    There(Box<Node>),
    /// The cluster has no such node any more.
    Gone,
    /// The cluster does not let the daemon see its nodes.
    Hidden,
}

impl PodNode {
    fn is_lost(&self) -> bool {
        match self {
            Self::There(node) => !node.is_ready(),
            Self::Gone => true,
            Self::Hidden => false,
        }
    }

    fn is_cordoned(&self) -> bool {
        matches!(self, Self::There(node) if node.spec.unschedulable)
    }
}

/// Said of an eviction where nobody says more.
pub(super) const DELETED: &str = "its Pod was deleted, preempted or evicted";

/// The state of a worker's container. The reason of an eviction is empty where the Pod itself does not say it.
pub(super) fn container_state(pod: &Pod, node: &PodNode) -> ContainerState {
    let name = || pod.spec.node_name.clone();
    let ended = pod.container().and_then(|container| container.terminated.as_ref());
    let is_over = ended.is_some() || pod.is_going() || matches!(pod.status.phase.as_str(), "Failed" | "Succeeded");
    if pod.spec.node_name.is_empty() {
        return if is_over { ContainerState::Missing } else { ContainerState::Running };
    }
    if ended.is_none() && node.is_lost() {
        return ContainerState::Node(NodeLoss::Lost { node: name() });
    }
    if !is_over {
        return ContainerState::Running;
    }
    if let Some(ended) = ended.filter(|ended| ended.reason == "OOMKilled") {
        return ContainerState::Exited { code: ended.exit_code, oom: true };
    }
    if let Some(why) = evicted(pod) {
        let is_drained = node.is_cordoned() && is_by_request(pod);
        return ContainerState::Node(match is_drained {
            true => NodeLoss::Drained { node: name() },
            false => NodeLoss::Evicted { node: name(), why },
        });
    }
    ContainerState::Exited { code: ended.map_or(-1, |ended| ended.exit_code), oom: false }
}

/// Why the cluster ended the Pod, if it did; empty where the Pod does not say.
fn evicted(pod: &Pod) -> Option<String> {
    // Newer clusters say so.
    if let Some(Condition { reason, message, .. }) =
        pod.condition("DisruptionTarget").filter(|condition| condition.status == "True")
    {
        return Some(words(reason, message));
    }
    // The kubelet says so, whatever the cluster.
    if !pod.status.reason.is_empty() {
        return Some(words(&pod.status.reason, &pod.status.message));
    }
    pod.is_going().then(String::new)
}

/// Whether somebody asked for the end of the Pod, and not its node.
fn is_by_request(pod: &Pod) -> bool {
    pod.status.reason.is_empty()
        && pod.condition("DisruptionTarget").is_none_or(|condition| condition.reason == "EvictionByEvictionAPI")
}

fn words(reason: &str, message: &str) -> String {
    match (reason, message.trim()) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: Value, going: bool) -> Pod {
        let going = going.then_some("2026-01-01T00:00:00Z");
        serde_json::from_value(json!({
            "metadata": { "name": "p", "deletionTimestamp": going },
            "spec": { "nodeName": "n1" },
            "status": status,
        }))
        .unwrap()
    }

    fn node(ready: &str, unschedulable: bool) -> PodNode {
        let node = json!({
            "spec": { "unschedulable": unschedulable },
            "status": { "conditions": [{ "type": "Ready", "status": ready }] },
        });
        PodNode::There(serde_json::from_value(node).unwrap())
    }

    fn container(state: Value) -> Value {
        json!({ "phase": "Running", "containerStatuses": [{ "name": "worker", "state": state }] })
    }

    fn running() -> Value {
        container(json!({ "running": {} }))
    }

    fn terminated(code: i64, reason: &str) -> Value {
        container(json!({ "terminated": { "exitCode": code, "reason": reason } }))
    }

    #[test]
    fn a_lost_node_an_eviction_and_an_end_are_told_apart() {
        let lost = |node: &str| ContainerState::Node(NodeLoss::Lost { node: node.to_owned() });
        let drained = ContainerState::Node(NodeLoss::Drained { node: "n1".to_owned() });
        let exited = |code, oom| ContainerState::Exited { code, oom };
        let ready = || node("True", false);
        for (status, going, node, wanted) in [
            (running(), false, ready(), ContainerState::Running),
            (running(), false, node("Unknown", false), lost("n1")),
            (running(), true, node("False", false), lost("n1")),
            (running(), false, PodNode::Gone, lost("n1")),
            // Who may not see the nodes still hears of the end.
            (running(), false, PodNode::Hidden, ContainerState::Running),
            (terminated(3, "Error"), false, PodNode::Hidden, exited(3, false)),
            (terminated(137, "OOMKilled"), false, ready(), exited(137, true)),
            (terminated(3, "Error"), false, ready(), exited(3, false)),
            // A container that ended says so, whatever became of its node.
            (terminated(3, "Error"), false, PodNode::Gone, exited(3, false)),
            (running(), true, node("True", true), drained),
        ] {
            assert_eq!(container_state(&pod(status.clone(), going), &node), wanted, "{status}");
        }
    }

    #[test]
    fn a_container_that_others_put_beside_it_is_not_read_in_its_place() {
        let beside = json!({ "name": "istio-proxy", "state": { "running": {} } });
        let mut status = terminated(137, "OOMKilled");
        status["containerStatuses"].as_array_mut().unwrap().insert(0, beside.clone());
        let state = container_state(&pod(status.clone(), false), &node("True", false));
        assert_eq!(state, ContainerState::Exited { code: 137, oom: true });
        status["containerStatuses"] = json!([beside]);
        assert_eq!(progress(&pod(status, false)), Progress::Preparing, "it has not begun");
    }

    #[test]
    fn an_eviction_has_its_reason() {
        let ready = node("True", false);
        let mut under_pressure = terminated(137, "Error");
        under_pressure["phase"] = json!("Failed");
        under_pressure["reason"] = json!("Evicted");
        under_pressure["message"] = json!("The node was low on resource: memory.");
        let mut preempted = terminated(0, "Completed");
        preempted["conditions"] =
            json!([{ "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler" }]);
        for (status, going, said) in [
            (under_pressure, false, "Evicted: The node was low on resource: memory."),
            (preempted, true, "PreemptionByScheduler"),
            // Then the events say it, if anything does.
            (running(), true, ""),
        ] {
            match container_state(&pod(status.clone(), going), &ready) {
                ContainerState::Node(NodeLoss::Evicted { why, node }) if node == "n1" => {
                    assert!(why.contains(said) && why.is_empty() == said.is_empty(), "{why}");
                }
                other => panic!("{status}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_new_pod_is_followed_to_its_end() {
        let waiting = |reason: &str| container(json!({ "waiting": { "reason": reason, "message": "m" } }));
        let refused = |why: &str| Progress::Refused { why: why.to_owned() };
        for (status, wanted) in [
            (running(), Progress::Running),
            (waiting("ContainerCreating"), Progress::Preparing),
            (waiting("ErrImageNeverPull"), refused("ErrImageNeverPull: m")),
            (waiting("CreateContainerError"), refused("CreateContainerError: m")),
            (
                json!({ "phase": "Failed", "reason": "OutOfmemory", "message": "no room" }),
                refused("OutOfmemory: no room"),
            ),
            (json!({ "phase": "Succeeded" }), Progress::Ended { why: "it ended".to_owned() }),
            (json!({}), Progress::Preparing),
        ] {
            assert_eq!(progress(&pod(status.clone(), false)), wanted, "{status}");
        }
        let mut pending = pod(
            json!({ "phase": "Pending", "conditions": [
            { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes" }] }),
            false,
        );
        pending.spec.node_name.clear();
        assert_eq!(progress(&pending), Progress::Unplaced { why: "0/2 nodes".to_owned() });
        assert!(matches!(progress(&pod(running(), true)), Progress::Ended { .. }));
    }
}
