//! Looks at a node from inside: a container as a worker's starts there, says what holds for it, and is removed.

use std::time::Duration;

use bollard::container::LogOutput;
use bollard::models::TaskState;
use bollard::query_parameters::LogsOptionsBuilder;
use futures_util::TryStreamExt as _;
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::Swarm;
use super::nodes::{is_drained, is_ready, node_name};
use super::start::POLL;
use crate::cluster::admission::NodeAdmission as _;
use crate::cluster::probe::{self, ProbeError, ProbeFindings, RUN_TIMEOUT, UNCHANGED};
use crate::cluster::requirements::NodeRequirements;
use crate::{NodeCheck, RuntimeError};
use warmpool_core::browser::Engine;
use warmpool_core::ids::random_bytes;

/// Time for the manager to hand on what it printed, and between two tries.
const LOG_TIMEOUT: Duration = Duration::from_secs(10);
const LOG_RETRY: Duration = Duration::from_millis(250);

impl Swarm {
    /// Looks at every node that runs anything.
    pub(super) async fn probe_nodes(&self, image: &str, engine: Engine) -> Result<Vec<NodeCheck>, RuntimeError> {
        let mut nodes = self.list_nodes().await?;
        nodes.sort_by_key(node_name);
        let looks = nodes.iter().map(|node| async {
            let verdict = if !is_ready(node) {
                Err("it cannot be reached".to_owned())
            } else if is_drained(node) {
                Err("it is drained, so nothing runs there".to_owned())
            } else {
                let id = node.id.as_deref().unwrap_or_default();
                match self.probe(id, image, engine, None).await {
                    Err(ProbeError::Rejected(why)) => Err(self.explained(why, image).await),
                    look => look.map(|look| look.missing).map_err(|error| error.to_string()),
                }
            };
            NodeCheck { node: node_name(node), verdict }
        });
        Ok(join_all(looks).await)
    }

    /// Starts a container of the image on this node, and judges what it says. Where all is as in the report that `good` is the
    /// hash of, nothing needs to be read, which a manager cannot always do of a node that was cut off and came back.
    pub(super) async fn probe_node(
        &self,
        node: &str,
        image: &str,
        engine: Engine,
        good: Option<String>,
    ) -> Result<ProbeFindings, ProbeError> {
        let name = format!("warmpool-probe-{}", hex::encode(random_bytes::<6>()));
        let command = probe::command(good.as_deref(), None);
        let probed = async {
            self.create(self.probe_service(&name, (image, engine), node, command)).await?;
            if self.probe_ended(&name).await? == UNCHANGED {
                return probe::unchanged(good);
            }
            let text = timeout(LOG_TIMEOUT, self.printed(&name)).await.map_err(|_| ProbeError::Silent)??;
            probe::read(&text, &NodeRequirements::of_swarm(&self.config))
        };
        let probed = probed.await;
        if let Err(error) = self.remove_service(&name).await {
            tracing::warn!(service = name, %error, "a probe could not be removed; the next start of the daemon does");
        }
        probed
    }

    /// The exit code of a probe that did its work.
    async fn probe_ended(&self, name: &str) -> Result<i64, ProbeError> {
        let limits = &self.config.swarm;
        let begun = Instant::now();
        let mut runs_since = None;
        loop {
            let task = self.tasks(&json!({ "service": [name] })).await?.pop();
            let waited = begun.elapsed();
            match task {
                Some(task) => match task.status.state {
                    TaskState::COMPLETE => return Ok(0),
                    TaskState::FAILED if task.exit_code() == Some(UNCHANGED) => return Ok(UNCHANGED),
                    TaskState::REJECTED => return Err(ProbeError::Rejected(task.status.err)),
                    TaskState::NEW | TaskState::ALLOCATED | TaskState::PENDING => {
                        if waited > limits.placement_timeout {
                            return Err(ProbeError::NotPlaced(task.status.err));
                        }
                    }
                    TaskState::RUNNING => {
                        if runs_since.get_or_insert_with(Instant::now).elapsed() > RUN_TIMEOUT {
                            return Err(ProbeError::Slow);
                        }
                    }
                    _ if task.has_ended() => return Err(ProbeError::Failed(task.status.err)),
                    _ => {
                        if waited > limits.start_timeout {
                            return Err(ProbeError::Slow);
                        }
                    }
                },
                None if waited > limits.placement_timeout => {
                    return Err(ProbeError::NotPlaced("it made no task of the service".to_owned()));
                }
                None => {}
            }
            sleep(POLL).await;
        }
    }

    /// What the probe printed, once that is whole.
    async fn printed(&self, name: &str) -> Result<String, ProbeError> {
        loop {
            let options = LogsOptionsBuilder::default().stdout(true).build();
            let read = |engine: bollard::Docker| async move {
                let lines = engine.service_logs(name, Some(options));
                lines.map_ok(LogOutput::into_bytes).try_collect::<Vec<_>>().await
            };
            let lines = self.host.look("read what a probe printed", read).await.map_err(RuntimeError::from)?;
            let text = lines.concat();
            let text = String::from_utf8_lossy(&text).into_owned();
            if probe::is_whole(&text) {
                return Ok(text);
            }
            sleep(LOG_RETRY).await;
        }
    }
}
