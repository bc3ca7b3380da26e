//! Which nodes of the cluster may have workers: Kubernetes' side of it.

use std::time::Duration;

use async_trait::async_trait;

use super::objects::Pod;
use super::{Kubernetes, access, nodes, pod};
use crate::cluster::admission::{Admission, NodeAdmission, NodeCandidate};
use crate::cluster::avoided::Avoided;
use crate::cluster::probe::{ProbeError, ProbeFindings};
use crate::{NodeUse, RuntimeError};
use warmpool_config::Config;
use warmpool_core::browser::Engine;

#[async_trait]
impl NodeAdmission for Kubernetes {
    const TABLE: &'static str = "kubernetes";

    fn config(&self) -> &Config {
        &self.config
    }

    fn admission(&self) -> &Admission {
        &self.admission
    }

    fn avoided(&self) -> &Avoided {
        &self.avoided
    }

    fn patience(&self) -> Duration {
        self.config.kubernetes.placement_timeout
    }

    fn start_timeout(&self) -> Duration {
        self.config.kubernetes.start_timeout
    }

    async fn candidates(&self, _engine: Engine) -> Result<Vec<NodeCandidate>, RuntimeError> {
        let nodes = self.list_nodes().await?;
        let candidate = |node: &super::objects::Node| NodeCandidate {
            id: node.metadata.name.clone(),
            name: node.metadata.name.clone(),
            version: nodes::version(node),
            allowed: self.forbidden(node).is_none(),
            usable: node.is_ready() && self.usage(node) == NodeUse::Active,
        };
        Ok(nodes.iter().map(candidate).collect())
    }

    /// A Pod that is being removed stays until its kubelet has removed the container.
    async fn stale_workers(&self, node: &str) -> Result<usize, RuntimeError> {
        let pods = self.api()?.list::<Pod>(access::LIST_PODS, &pod::all_workers()).await?;
        Ok(pods.items.iter().filter(|pod| pod.spec.node_name == node && is_stale(pod)).count())
    }

    async fn probe(
        &self,
        node: &str,
        image: &str,
        _engine: Engine,
        _good: Option<String>,
    ) -> Result<ProbeFindings, ProbeError> {
        self.probe_node(node, image).await
    }

    async fn forget_probes(&self) -> Result<(), RuntimeError> {
        let left = self.api()?.list::<Pod>(access::LIST_PODS, &pod::probes_of(&self.instance)).await?;
        for pod in left.items {
            self.delete_pod(&pod.metadata.name).await?;
        }
        Ok(())
    }

    async fn explained(&self, why: String, _image: &str) -> String {
        if why.contains("seccomp") {
            let profile = &self.config.kubernetes.seccomp_profile;
            format!("{why}; put worker-image/seccomp.json on the node as /var/lib/kubelet/seccomp/{profile}")
        } else {
            why
        }
    }
}

fn is_stale(pod: &Pod) -> bool {
    pod.is_going() && pod.container().is_some_and(|container| container.running.is_some())
}
