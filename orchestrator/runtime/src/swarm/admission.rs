//! Which nodes of the swarm may have workers: Swarm's side of it.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use super::Swarm;
use super::constraints::{constraints, met};
use super::nodes::{is_ready, node_name, usage, version};
use crate::cluster::admission::{Admission, NodeAdmission, NodeCandidate};
use crate::cluster::avoided::Avoided;
use crate::cluster::probe::{ProbeError, ProbeFindings};
use crate::{NodeUse, RuntimeError, labels};
use warmpool_config::Config;
use warmpool_core::browser::Engine;

#[async_trait]
impl NodeAdmission for Swarm {
    const TABLE: &'static str = "swarm";

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
        self.config.swarm.placement_timeout
    }

    fn start_timeout(&self) -> Duration {
        self.config.swarm.start_timeout
    }

    async fn candidates(&self, engine: Engine) -> Result<Vec<NodeCandidate>, RuntimeError> {
        let nodes = self.list_nodes().await?;
        let candidate = |node: &bollard::models::Node| {
            Some(NodeCandidate {
                id: node.id.clone()?,
                name: node_name(node),
                version: version(node),
                allowed: met(node, constraints(&self.config, engine)),
                usable: is_ready(node) && usage(node) == NodeUse::Active,
            })
        };
        Ok(nodes.iter().filter_map(candidate).collect())
    }

    async fn stale_workers(&self, node: &str) -> Result<usize, RuntimeError> {
        let tasks = self.tasks(&json!({ "node": [node], "label": [labels::WORKER] })).await?;
        Ok(tasks.iter().filter(|task| task.is_stale()).count())
    }

    async fn probe(
        &self,
        node: &str,
        image: &str,
        engine: Engine,
        good: Option<String>,
    ) -> Result<ProbeFindings, ProbeError> {
        self.probe_node(node, image, engine, good).await
    }

    async fn forget_probes(&self) -> Result<(), RuntimeError> {
        let left = self.services(format!("{}={}", labels::PROBE, self.instance)).await?;
        for name in left.into_iter().filter_map(|service| service.spec?.name) {
            self.remove_service(&name).await?;
        }
        Ok(())
    }

    async fn explained(&self, why: String, image: &str) -> String {
        match self.refused_by_registry(image).await {
            Some(words) => format!("{why}; {words}"),
            None => why,
        }
    }
}
