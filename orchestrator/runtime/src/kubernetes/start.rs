//! How a worker's Pod comes to a node.

use tokio::time::Instant;

use super::api::encoded;
use super::objects::{ClusterEvent, List};
use super::state::{Progress, progress};
use super::{Kubernetes, access, changed, pod};
use crate::cluster::admission::NodeAdmission as _;
use crate::{ContainerRuntime as _, RuntimeError, WorkerLocation, WorkerSpec};

/// Nodes tried at most for one worker.
const NODES_TRIED: usize = 16;

/// The reasons of events that tell why a Pod was taken away: the scheduler's, the kubelet's, and that of taints.
const EVICTIONS: [&str; 3] = ["Preempted", "Evicted", "TaintManagerEviction"];

/// What became of a Pod that was just made.
pub(super) enum Start {
    Running(WorkerLocation),
    /// The node that it was given cannot start it.
    Refused {
        node: String,
        why: String,
    },
}

impl Kubernetes {
    /// Creates the worker's Pod and waits until its container runs on a node that is fit for it. A node that cannot start it is
    /// left out for a while, and the next one tried.
    pub(super) async fn start_pod(&self, spec: &WorkerSpec) -> Result<WorkerLocation, RuntimeError> {
        let image = self.image_id(&spec.image).await?;
        for attempt in 0..NODES_TRIED {
            let left_out = self.admit(&image, spec.key.engine).await?;
            let name = pod::name(&spec.worker, attempt);
            let owner = self.owner.lock().clone();
            self.create_pod(&self.worker_pod(&name, spec, &image, &left_out, owner.as_ref())).await?;
            match self.started(&name, &image).await? {
                // A node that came only now, or began to go, was not among those that the Pod asked to avoid.
                Start::Running(WorkerLocation { node: Some(node), .. })
                    if left_out.contains(&node) || !self.admission.has(&node, &image) => {}
                Start::Running(place) => return Ok(place),
                Start::Refused { node, why } => {
                    let why = self.explained(why, &image).await;
                    tracing::warn!(worker = %spec.worker, node, why, "a node cannot start a worker: trying another");
                    self.avoided.add(&image, &node, &node, &why);
                }
            }
            self.delete_pod(&name).await?;
        }
        Err(RuntimeError::refused("start a Pod", "too many nodes cannot start it"))
    }

    /// Follows a new Pod to its node.
    pub(super) async fn started(&self, name: &str, image: &str) -> Result<Start, RuntimeError> {
        let refused = |message: String| RuntimeError::refused("start a Pod", message);
        let limits = &self.config.kubernetes;
        let link = self.watches()?;
        let mut changes = link.pods.changes();
        let mut node_changes = link.nodes.changes();
        let begun = Instant::now();
        loop {
            let waited = begun.elapsed();
            let pod = link.pods.get(name);
            let node = pod.as_ref().map(|pod| pod.spec.node_name.clone()).unwrap_or_default();
            let outcome = pod.as_ref().map(progress);
            match outcome {
                Some(Progress::Running) => {
                    if let Some(place) = pod.as_ref().and_then(Self::place) {
                        return Ok(Start::Running(place));
                    }
                }
                Some(Progress::Refused { why }) => return Ok(Start::Refused { node, why }),
                Some(Progress::Ended { why }) => return Err(refused(format!("it ended at once: {why}"))),
                Some(Progress::Unplaced { why }) if waited > limits.placement_timeout => {
                    link.pods.known()?;
                    let why = if why.is_empty() { "the scheduler does not say why".to_owned() } else { why };
                    return Err(self.no_node(why, image));
                }
                Some(Progress::Unplaced { .. }) => {}
                Some(Progress::Preparing) if link.nodes.get(&node).is_none_or(|node| !node.is_ready()) => {
                    return Ok(Start::Refused { node, why: "the node is lost".to_owned() });
                }
                Some(Progress::Preparing) => {}
                None if waited > limits.placement_timeout + self.limit() => {
                    link.pods.known()?;
                    return Err(RuntimeError::Unreachable(
                        "the API server does not tell of a Pod that it made".to_owned(),
                    ));
                }
                None => {}
            }
            if waited > limits.start_timeout {
                link.pods.known()?;
                let why = match self.last_warning(name).await {
                    Some(why) => why,
                    None => format!("its container did not run within {} s", limits.start_timeout.as_secs()),
                };
                return Ok(Start::Refused { node, why });
            }
            tokio::select! {
                () = changed(&mut changes) => {}
                _ = node_changes.changed() => {}
            }
        }
    }

    /// What the cluster last complained of about a Pod.
    pub(super) async fn last_warning(&self, name: &str) -> Option<String> {
        self.last_event(name, |event| event.kind == "Warning").await
    }

    /// Why the cluster took a Pod away, where it did that for a reason. Clusters before 1.26 say so in an event alone.
    pub(super) async fn told_eviction(&self, name: &str) -> Option<String> {
        self.last_event(name, |event| EVICTIONS.contains(&event.reason.as_str())).await
    }

    /// The words of the last such event of a Pod.
    async fn last_event(&self, name: &str, is: impl Fn(&ClusterEvent) -> bool) -> Option<String> {
        let mut events = match self.events_of(name).await {
            Ok(events) => events,
            Err(error) => {
                tracing::warn!(pod = name, %error, "what the cluster says of a Pod cannot be read");
                return None;
            }
        };
        events.retain(is);
        let last = events.into_iter().max_by(|a, b| a.last_timestamp.cmp(&b.last_timestamp));
        last.map(|event| format!("{}: {}", event.reason, event.message))
    }

    async fn events_of(&self, name: &str) -> Result<Vec<ClusterEvent>, RuntimeError> {
        let api = self.api()?;
        let fields = encoded(&format!("involvedObject.name={name}"));
        let path = format!("{}?fieldSelector={fields}", api.path("/api/v1", access::LIST_EVENTS));
        Ok(api.get::<List<ClusterEvent>>(access::LIST_EVENTS, &path).await?.items)
    }
}
