//! The nodes that workers run on: the pool logs their changes, and replaces warm workers of nodes that are drained, or that
//! nobody can reach.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};

use super::Pool;
use crate::worker::Worker;
use warmpool_api::status::NodeCounts;
use warmpool_core::ids::WorkerId;
use warmpool_runtime::{NodeFacts, NodeOrder, NodeState, NodeUse, RuntimeError};

/// How long the agent of a warm worker may take to answer when the node is in doubt.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// The pauses after failed tries to mark a worker.
const MARK_AGAIN: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(10), Duration::from_secs(15)];

/// A node, as the command line shows it to the operator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its id in the cluster.
    pub id: String,
    /// Its host's name.
    pub name: String,
    /// Whether the manager hears from it.
    pub state: NodeState,
    /// What it is to run.
    pub availability: NodeUse,
    /// Warm workers there.
    pub ready: usize,
    /// Workers there that sessions have.
    pub leased: usize,
    /// Why it gets no workers for now, although it could take them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub left_out: Option<String>,
}

impl Pool {
    /// Counts the nodes as they were at the last look, seconds ago.
    pub fn node_counts(&self) -> NodeCounts {
        let nodes = self.parts.nodes.lock();
        let count = |is: fn(&NodeFacts) -> bool| nodes.iter().filter(|node| is(node)).count();
        NodeCounts {
            total: nodes.len(),
            lost: count(|node| node.state == NodeState::Lost),
            draining: count(|node| node.availability == NodeUse::Draining),
            drained: count(|node| node.availability == NodeUse::Drained),
            left_out: count(|node| node.left_out.is_some()),
        }
    }

    /// Lists the nodes as they are now.
    /// Errors: [`RuntimeError`] when the runtime cannot be asked; `NoNodes` where there are none.
    pub async fn list_nodes(&self) -> Result<Vec<NodeStatus>, RuntimeError> {
        let nodes = self.parts.runtime.nodes().await?;
        if nodes.is_empty() {
            return Err(RuntimeError::NoNodes);
        }
        Ok(nodes.into_iter().map(|node| self.status_of(node)).collect())
    }

    /// Takes a node out of use or into use again. One that is drained gets no new workers, its warm ones are replaced on others, and
    /// once its sessions have ended everything else leaves it.
    /// Errors: [`RuntimeError`]; `NodeName` or `NoNodes` where there is no such node.
    pub async fn order_node(&self, name: &str, order: NodeOrder) -> Result<NodeStatus, RuntimeError> {
        let node = self.parts.runtime.order_node(name, order).await?;
        self.look_at_nodes().await;
        // What it looks like to the caller is before its warm workers are gone.
        Ok(self.status_of(node))
    }

    /// Checks the nodes after a worker failed when it was handed out: its node may be lost, and others with it, which Swarm
    /// notices later. Asks all warm workers of nodes, replaces those that do not answer, and starts no more there for a while.
    pub async fn doubt_nodes(&self, failed: &Worker) {
        if failed.node.is_none() {
            return;
        }
        let warm = self.lock().warm_on_nodes();
        let asked = warm.iter().map(|worker| async {
            let answer = timeout(ANSWER_TIMEOUT, worker.agent.health()).await;
            (!matches!(answer, Ok(Ok(_)))).then(|| Arc::clone(worker))
        });
        for silent in join_all(asked).await.into_iter().flatten() {
            let node = silent.node.as_deref();
            if self.retire_unowned(&silent.id) {
                tracing::warn!(worker = %silent.id, node, "replacing a warm worker that does not answer");
                self.distrust_node(node, self.parts.config.image(silent.key.engine)).await;
            }
        }
    }

    /// Tells the runtime that a session has the worker, in a task of its own: nobody waits for it. As the start of the next worker, it
    /// waits until the session's first moments are over.
    pub(super) fn mark_leased(&self, worker: WorkerId) {
        let pool = self.clone();
        self.parts.drain.spawn(async move {
            sleep(pool.parts.config.pool.refill_delay).await;
            let mut pauses = MARK_AGAIN.into_iter();
            loop {
                let Err(error) = pool.parts.runtime.mark_leased(&worker).await else { return };
                let Some(pause) = pauses.next() else {
                    return tracing::warn!(%worker, %error, "a worker could not be marked as in use: the cluster may evict it");
                };
                tracing::debug!(%worker, %error, "a worker could not be marked as in use yet");
                sleep(pause).await;
                if !pool.lock().workers.contains_key(&worker) {
                    return;
                }
            }
        });
    }

    /// Starts no workers of this image on this node for a while.
    pub(super) async fn distrust_node(&self, node: Option<&str>, image: &str) {
        if let Some(node) = node {
            self.parts.runtime.distrust_node(node, image).await;
        }
    }

    fn status_of(&self, node: NodeFacts) -> NodeStatus {
        let workers = self.lock().on_node(&node.id);
        let ready = workers.iter().filter(|(_, ready)| *ready).count();
        NodeStatus {
            ready,
            leased: workers.len() - ready,
            id: node.id,
            name: node.name,
            state: node.state,
            availability: node.availability,
            left_out: node.left_out,
        }
    }

    /// Logs how the nodes have changed since the last look, and goes on with draining.
    pub(super) async fn look_at_nodes(&self) {
        let nodes = match self.parts.runtime.nodes().await {
            Ok(nodes) => nodes,
            Err(error) => return tracing::debug!(%error, "the nodes cannot be listed"),
        };
        let before = std::mem::replace(&mut *self.parts.nodes.lock(), nodes.clone());
        for node in &nodes {
            log_change(before.iter().find(|known| known.id == node.id), node);
            if node.availability == NodeUse::Draining {
                self.clear(node).await;
            }
        }
    }

    /// Takes warm workers off a node, which the pool replaces elsewhere; where none is left, moves everything else off it.
    async fn clear(&self, node: &NodeFacts) {
        let workers = self.lock().on_node(&node.id);
        for (id, _) in workers.iter().filter(|(_, ready)| *ready) {
            if self.retire_unowned(id) {
                tracing::info!(worker = %id, node = node.name, "replacing a warm worker on a node that is being drained");
            }
        }
        if workers.is_empty()
            && let Err(error) = self.parts.runtime.finish_drain(node).await
        {
            tracing::warn!(node = node.name, %error, "a node could not be drained yet");
        }
    }
}

/// Logs how a node has changed.
fn log_change(before: Option<&NodeFacts>, now: &NodeFacts) {
    let node = &now.name;
    match (before.map(|before| before.state), now.state) {
        (None | Some(NodeState::Ready), NodeState::Lost) => tracing::error!(node, "a node is lost"),
        (Some(NodeState::Lost), NodeState::Ready) => tracing::info!(node, "a node is back"),
        (None | Some(_), _) => {}
    }
    match (before.map(|before| before.availability), now.availability) {
        (was, is) if was == Some(is) => {}
        (None, NodeUse::Active) => {}
        (Some(NodeUse::Draining), NodeUse::Drained) => tracing::info!(node, "a node is drained"),
        (Some(_), NodeUse::Drained) => {
            tracing::warn!(node, "somebody drained a node at once: its sessions end as node_drained");
        }
        (None, NodeUse::Drained) => tracing::info!(node, "a node is drained, and gets no workers"),
        (_, NodeUse::Draining) => {
            tracing::info!(node, "a node is being drained: its sessions go on, and no new ones come")
        }
        (_, NodeUse::Paused) => tracing::info!(node, "somebody paused a node: it gets no new workers"),
        (Some(_), NodeUse::Active) => tracing::info!(node, "a node is used again"),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use warmpool_protocol::Secret;

    use super::*;
    use warmpool_core::browser::{Engine, Mode, PoolKey};
    use warmpool_runtime::{AgentAddress, WorkerLocation};

    #[tokio::test]
    async fn warm_workers_of_a_node_that_cannot_be_reached_are_replaced() {
        let (pool, _data) = Pool::without_engine();
        let agent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let answering = agent.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = agent.accept().await {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let body = r#"{"state":"warm"}"#;
                let length = body.len();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            }
        });
        // Nobody listens where somebody did a moment ago.
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let worker = |address, node: &str| {
            let place = WorkerLocation { address: AgentAddress::Tcp(address), node: Some(node.to_owned()) };
            let key = PoolKey::plain(Engine::Chromium, Mode::Headless);
            let (worker, _) = Worker::found(WorkerId::random(), key, place, &Secret::new(String::new()));
            pool.lock().add_ready(Arc::clone(&worker));
            worker
        };
        let [failed, silent, well] = [gone, gone, answering].map(|address| worker(address, "east"));
        let elsewhere = worker(gone, "west");
        pool.retire_unowned(&failed.id);
        pool.doubt_nodes(&failed).await;
        let state = pool.lock();
        assert!(!state.is_ready(&silent.id) && !state.is_ready(&elsewhere.id), "nobody is given one that is gone");
        assert!(state.is_ready(&well.id), "who answers is there");
    }
}
