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
use super::requirements::{Report, Wanted, judge};
use super::start::POLL;
use crate::{MissingRequirement, NodeCheck, RuntimeError, labels};
use warmpool_core::browser::Engine;
use warmpool_core::ids::random_bytes;

/// What runs there.
const SCRIPT: &str = include_str!("probe.sh");
/// Time for it to end once it runs.
const RUN_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the manager to hand on what it printed, and between two tries.
const LOG_TIMEOUT: Duration = Duration::from_secs(10);
const LOG_RETRY: Duration = Duration::from_millis(250);
/// Between two looks whether stale workers are gone.
const STALE_POLL: Duration = Duration::from_millis(500);

/// The exit code of a probe that finds everything as in the report that it was given the hash of.
const UNCHANGED: i64 = 42;

/// What a look at a node found.
pub(super) struct Look {
    /// What is missing.
    pub missing: Vec<MissingRequirement>,
    /// The hash of its report.
    pub report: String,
}

/// Why nothing is known of a node.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProbeError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Its engine does not start the container.
    #[error("{0}")]
    Rejected(String),
    /// Swarm puts nothing there.
    #[error("Swarm puts no worker there: {0}")]
    NotPlaced(String),
    #[error("the probe container failed: {0}")]
    Failed(String),
    #[error("the probe container did not exit in time")]
    Slow,
    #[error("the output of the probe container cannot be read")]
    Silent,
    /// Containers that were removed while it was away still run there.
    #[error("workers that were removed still run there")]
    Stale,
}

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

    /// Starts a container of the image on this node, and judges what it says. `good` is the hash of a report of this node and
    /// image in which nothing was missing: where all is as it was, nothing needs to be read, which a manager cannot always do
    /// of a node that was cut off and came back.
    pub(super) async fn probe(
        &self,
        node: &str,
        image: &str,
        engine: Engine,
        good: Option<String>,
    ) -> Result<Look, ProbeError> {
        let name = format!("warmpool-probe-{}", hex::encode(random_bytes::<6>()));
        let argument = good.as_deref().unwrap_or_default();
        let command = ["/bin/sh", "-c", SCRIPT, "probe", argument].map(str::to_owned).to_vec();
        let probed = async {
            self.create(self.probe_service(&name, (image, engine), node, command)).await?;
            match (self.probe_ended(&name).await?, good) {
                (UNCHANGED, Some(report)) => return Ok(Look { missing: Vec::new(), report }),
                (UNCHANGED, None) => {
                    return Err(ProbeError::Failed("it knows a report that nobody gave it".to_owned()));
                }
                _ => {}
            }
            let text = timeout(LOG_TIMEOUT, self.printed(&name)).await.map_err(|_| ProbeError::Silent)??;
            let report = Report::read(&text).ok_or(ProbeError::Silent)?;
            let missing = judge(&report, &Wanted::new(&self.config));
            Ok(Look { missing, report: report.hash().to_owned() })
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
            if Report::read(&text).is_some() {
                return Ok(text);
            }
            sleep(LOG_RETRY).await;
        }
    }

    /// Waits until no worker runs on a node that Swarm wants gone there. A node that was cut off keeps its workers until it is
    /// back and hears of it.
    pub(super) async fn is_clear(&self, node: &str) -> Result<(), ProbeError> {
        let begun = Instant::now();
        let mut told = false;
        loop {
            let tasks = self.tasks(&json!({ "node": [node], "label": [labels::WORKER] })).await?;
            let stale = tasks.iter().filter(|task| task.is_stale()).count();
            if stale == 0 {
                return Ok(());
            }
            if begun.elapsed() > self.config.swarm.start_timeout {
                return Err(ProbeError::Stale);
            }
            if !std::mem::replace(&mut told, true) {
                let node = self.name_of(node).await;
                tracing::info!(node, stale, "waiting until a node has removed the workers that it should not have");
            }
            sleep(STALE_POLL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Output};

    use super::*;

    /// Runs the script on this machine, after these lines, with this hash.
    fn run(before: &str, good: &str) -> Output {
        let script = format!("{before}\n{SCRIPT}");
        Command::new("/bin/sh").args(["-c", &script, "probe", good]).output().unwrap()
    }

    #[test]
    fn only_a_report_that_is_known_needs_no_reading() {
        let first = run("", "");
        assert_eq!(first.status.code(), Some(0));
        let text = String::from_utf8(first.stdout).unwrap();
        let hash = Report::read(&text).unwrap().hash();
        assert_eq!(run("", hash).status.code(), Some(42));
        assert_eq!(run("", "5f2b").status.code(), Some(0));
        // An image without the program leaves every hash empty, and so is that of no report.
        let without = run("sha256sum() { :; }", "");
        assert_eq!(without.status.code(), Some(0));
        assert!(Report::read(&String::from_utf8(without.stdout).unwrap()).is_none());
    }
}
