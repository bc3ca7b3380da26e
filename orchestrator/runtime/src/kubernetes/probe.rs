//! Looks at a node from inside: a Pod as a worker's starts there, says what holds for it, and is removed.
//!
//! What it says is its last words, which stand in its status: the daemon need not be allowed to read logs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::pod::LAST_WORDS;
use super::state::{Progress, progress};
use super::{Kubernetes, changed};
use crate::RuntimeError;
use crate::cluster::probe::{self, PROCESSES_LIMITED, ProbeError, ProbeFindings, RUN_TIMEOUT};
use crate::cluster::requirements::NodeRequirements;
use warmpool_core::ids::random_bytes;

/// How long a probe may take to vanish before its node counts as looked at.
const REMOVAL: Duration = Duration::from_secs(2);
/// Between two tries to remove one.
const AGAIN: Duration = Duration::from_secs(5);

impl Kubernetes {
    /// Starts a Pod of the image on this node, and judges what it says. Which processes it may have depends on its node alone,
    /// and to try it takes thousands of them: one Pod does so for all images.
    pub(super) async fn probe_node(&self, node: &str, image: &str) -> Result<ProbeFindings, ProbeError> {
        let Some(most) = self.config.most_pids() else {
            let text = self.told_by_probe(node, image, None).await?;
            return self.judged(&text);
        };
        let version = self.watches()?.nodes.get(node).map(|node| super::nodes::version(&node));
        let known = Arc::clone(self.limiting.lock().entry(node.to_owned()).or_default());
        let mut limited = known.lock().await;
        if version.is_some() && *limited == version {
            drop(limited);
            let text = self.told_by_probe(node, image, None).await?;
            return self.judged(&format!("{PROCESSES_LIMITED}\n{text}"));
        }
        let text = self.told_by_probe(node, image, Some(most)).await?;
        *limited = version.filter(|_| text.lines().any(|line| line == PROCESSES_LIMITED));
        drop(limited);
        self.judged(&text)
    }

    fn judged(&self, text: &str) -> Result<ProbeFindings, ProbeError> {
        probe::read(text, &NodeRequirements::of_kubernetes(&self.config))
    }

    /// Starts a probe, which tries as many processes as `most`; returns what it says.
    async fn told_by_probe(&self, node: &str, image: &str, most: Option<u32>) -> Result<String, ProbeError> {
        let name = format!("warmpool-probe-{}", hex::encode(random_bytes::<6>()));
        let mut command = probe::command(None, most);
        if let Some(script) = command.get_mut(2) {
            *script = format!("exec > {LAST_WORDS}\n{script}");
        }
        let owner = self.owner.lock().clone();
        let probed = async {
            self.create_pod(&self.probe_pod(&name, image, node, &command, owner.as_ref())).await?;
            self.last_words(&name).await
        };
        let probed = probed.await;
        match self.delete_pod(&name).await {
            Ok(()) => self.vanished(&name).await,
            Err(error) => {
                tracing::warn!(pod = name, %error, "a probe could not be removed yet");
                tokio::spawn(self.clone().remove_later(name));
            }
        }
        probed
    }

    /// Removes a probe as soon as the cluster lets it, for as long as this process may. After that the next one does.
    async fn remove_later(self, name: String) {
        loop {
            sleep(AGAIN).await;
            match self.delete_pod(&name).await {
                Ok(()) | Err(RuntimeError::NotOwned(_)) => return,
                Err(error) => tracing::debug!(pod = name, %error, "a probe could not be removed yet"),
            }
        }
    }

    async fn last_words(&self, name: &str) -> Result<String, ProbeError> {
        let limits = &self.config.kubernetes;
        let pods = self.watches()?.pods;
        let mut changes = pods.changes();
        let begun = Instant::now();
        let mut runs_since = None;
        loop {
            let waited = begun.elapsed();
            if let Some(pod) = pods.get(name) {
                if let Some(ended) = pod.container().and_then(|container| container.terminated.as_ref())
                    && ended.exit_code == 0
                    && probe::is_whole(&ended.message)
                {
                    return Ok(ended.message.clone());
                }
                match progress(&pod) {
                    Progress::Running if runs_since.get_or_insert_with(Instant::now).elapsed() > RUN_TIMEOUT => {
                        pods.known()?;
                        return Err(ProbeError::Slow);
                    }
                    Progress::Refused { why } => return Err(ProbeError::Rejected(why)),
                    Progress::Ended { why } => return Err(ProbeError::Failed(why)),
                    Progress::Unplaced { why } if waited > limits.placement_timeout => {
                        pods.known()?;
                        return Err(ProbeError::NotPlaced(why));
                    }
                    Progress::Preparing if waited > limits.start_timeout => {
                        pods.known()?;
                        return Err(self.last_warning(name).await.map_or(ProbeError::Slow, ProbeError::Rejected));
                    }
                    Progress::Running | Progress::Unplaced { .. } | Progress::Preparing => {}
                }
            } else if waited > limits.placement_timeout + self.limit() {
                pods.known()?;
                return Err(ProbeError::NotPlaced("the API server does not tell of it".to_owned()));
            }
            changed(&mut changes).await;
        }
    }

    async fn vanished(&self, name: &str) {
        let Ok(link) = self.watches() else { return };
        let mut changes = link.pods.changes();
        let gone = changes.wait_for(|_| link.pods.get(name).is_none());
        let _ = timeout(REMOVAL, gone).await;
    }
}
