//! The calls for one Pod and its node.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use warmpool_protocol::PORT;

use super::api::{encoded, unless};
use super::objects::{List, MetadataOnly, Node, Pod};
use super::state::PodNode;
use super::{Kubernetes, access, pod};
use crate::{AgentAddress, RuntimeError, WorkerLocation, labels};
use warmpool_core::ids::WorkerId;

/// So that a Pod is removed by its node, and not only from the API server's store.
const REMOVAL_GRACE: u64 = 1;
/// How long a watch may take to tell of the end of a Pod that is gone.
const LAST_WORD: Duration = Duration::from_secs(1);

impl Kubernetes {
    /// The Pods of a worker as they are now, the one that counts last. A start that was tried again may leave several.
    pub(super) async fn pods_of(&self, worker: &WorkerId) -> Result<Vec<Pod>, RuntimeError> {
        let labels = format!("{},{}", labels::owned_by(&self.instance), pod::of_worker(worker));
        let mut pods: Vec<Pod> = self.api()?.list(access::LIST_PODS, &labels).await?.items;
        pods.sort_by_key(|pod| (!pod.is_going(), pod.metadata.creation_timestamp.clone(), pod.metadata.name.clone()));
        Ok(pods)
    }

    /// The worker's Pod as it was when it was removed; waits a moment for the watch to tell.
    pub(super) async fn removed_pod(&self, worker: &WorkerId) -> Option<Pod> {
        let pods = self.watches().ok()?.pods;
        let mut changes = pods.changes();
        let is = |pod: &Pod| pod.metadata.labels.get(labels::WORKER).is_some_and(|id| id == worker.as_str());
        let told = async {
            loop {
                if let Some(pod) = pods.gone(is) {
                    return pod;
                }
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        timeout(LAST_WORD, told).await.ok()
    }

    /// What is known of a node now: a watch may be behind.
    pub(super) async fn node(&self, name: &str) -> Result<PodNode, RuntimeError> {
        let api = self.api()?;
        let fields = encoded(&format!("metadata.name={name}"));
        let path = format!("{}?fieldSelector={fields}", api.path("/api/v1", access::LIST_NODES));
        match api.get::<List<Node>>(access::LIST_NODES, &path).await.map_err(RuntimeError::from) {
            Ok(mut found) => Ok(found.items.pop().map_or(PodNode::Gone, |node| PodNode::There(Box::new(node)))),
            // The watch of the nodes names the rule that is missing. An end must be told all the same.
            Err(RuntimeError::NotAllowed { .. }) => Ok(PodNode::Hidden),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn create_pod(&self, object: &Value) -> Result<(), RuntimeError> {
        self.term.check()?;
        if self.is_ending.load(Ordering::Relaxed) {
            return Err(RuntimeError::refused("start a Pod", "this process ends"));
        }
        let api = self.api()?;
        let path = api.path("/api/v1", access::CREATE_PODS);
        // A conflict: our own earlier call made it, and its reply was lost.
        unless(409, api.create::<MetadataOnly>(access::CREATE_PODS, &path, object).await)?;
        Ok(())
    }

    pub(super) async fn delete_pod(&self, name: &str) -> Result<(), RuntimeError> {
        self.term.check()?;
        let api = self.api()?;
        let path = format!("{}/{name}", api.path("/api/v1", access::DELETE_PODS));
        let options = json!({ "gracePeriodSeconds": REMOVAL_GRACE });
        unless(404, api.delete(access::DELETE_PODS, &path, &options).await)?;
        Ok(())
    }

    /// Where a Pod's agent listens.
    pub(super) fn place(pod: &Pod) -> Option<WorkerLocation> {
        let address = AgentAddress::Tcp(SocketAddr::new(pod.status.pod_ip?, PORT));
        Some(WorkerLocation { address, node: Some(pod.spec.node_name.clone()) })
    }
}
