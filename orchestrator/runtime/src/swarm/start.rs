//! How a worker's service comes to a node.

use std::time::Duration;

use bollard::models::{ServiceSpec, TaskState};
use tokio::time::{Instant, sleep};

use super::Swarm;
use super::nodes::is_down;
use super::spread::Choice;
use super::tasks::Task;
use crate::client::unless;
use crate::cluster::admission::NodeAdmission as _;
use crate::{ContainerRuntime as _, RuntimeError, WorkerLocation, WorkerSpec};
use warmpool_core::ids::WorkerId;

/// Between two looks at a task that is on its way.
pub(super) const POLL: Duration = Duration::from_millis(100);
/// Between two looks at the node that has it.
const NODE_POLL: Duration = Duration::from_secs(1);
/// Nodes tried at most for one worker.
const NODES_TRIED: usize = 16;

/// What became of a service that was just made.
enum Start {
    Running(WorkerLocation),
    /// The node that it was given cannot start it.
    Refused {
        node: String,
        why: String,
    },
    /// The nodes that were preferred have no room for it.
    Elsewhere,
}

impl Swarm {
    /// Creates the worker's service and waits until its container runs on a node that is fit for it. A node that cannot start
    /// it is left out for a while, and the next one tried.
    pub(super) async fn start_service(&self, spec: &WorkerSpec) -> Result<WorkerLocation, RuntimeError> {
        let image = self.image_id(&spec.image).await?;
        let mut anywhere = false;
        for _ in 0..NODES_TRIED {
            let left_out = self.admit(&image, spec.key.engine).await?;
            let choice = if anywhere { None } else { self.spread(&left_out).await? };
            let elsewhere = choice.as_ref().map_or(&[][..], |choice| &choice.elsewhere);
            self.create(self.service(spec, &image, &[&left_out, elsewhere].concat())).await?;
            match self.started(&spec.worker, &image, choice).await? {
                // A node that came only now, or began to go, was not among those that the service asked to avoid.
                Start::Running(WorkerLocation { node: Some(node), .. })
                    if left_out.contains(&node) || !self.admission.has(&node, &image) =>
                {
                    self.remove(&spec.worker).await?;
                }
                Start::Running(place) => return Ok(place),
                Start::Refused { node, why } => {
                    let name = self.name_of(&node).await;
                    let why = self.explained(why, &image).await;
                    tracing::warn!(worker = %spec.worker, node = name, why, "a node cannot start a worker: trying another");
                    self.avoided.add(&image, &node, &name, &why);
                    self.remove(&spec.worker).await?;
                }
                Start::Elsewhere => {
                    anywhere = true;
                    self.remove(&spec.worker).await?;
                }
            }
        }
        Err(RuntimeError::refused("start a service", "too many nodes cannot start it"))
    }

    pub(super) async fn create(&self, service: ServiceSpec) -> Result<(), RuntimeError> {
        self.term.check()?;
        let image = service.task_template.as_ref().and_then(|task| task.container_spec.as_ref()?.image.as_deref());
        if let Some(credentials) = self.credentials(image.unwrap_or_default()).await? {
            return self.create_with(&service, &credentials).await.map(drop);
        }
        let create = async move |engine: bollard::Docker| engine.create_service(service, None).await;
        // A conflict: our own earlier call made it, and its reply was lost.
        unless(&[409], self.host.work("make a service", create).await)?;
        Ok(())
    }

    /// Follows a new service to its node.
    async fn started(
        &self,
        worker: &WorkerId,
        image: &str,
        mut choice: Option<Choice<'_>>,
    ) -> Result<Start, RuntimeError> {
        let refused = |message| RuntimeError::refused("start a service", message);
        let limits = &self.config.swarm;
        let begun = Instant::now();
        // Since when a node has it, and when that node was last looked at.
        let mut given: Option<(Instant, Instant)> = None;
        loop {
            let task = self.task(worker).await?;
            let waited = begun.elapsed();
            let Some(task) = task else {
                if waited > limits.placement_timeout {
                    return Err(self.no_node("Swarm made no task of the service".to_owned(), image));
                }
                sleep(POLL).await;
                continue;
            };
            if !task.node.is_empty() {
                choice = None;
                let now = Instant::now();
                let (since, looked) = given.get_or_insert((now, now));
                let mut is_lost = false;
                if looked.elapsed() >= NODE_POLL {
                    *looked = now;
                    is_lost = self.node(&task.node).await?.is_none_or(|node| is_down(&node));
                }
                if let Some(why) = given_up(&task, since.elapsed(), is_lost, limits.placement_timeout) {
                    return Ok(Start::Refused { node: task.node, why: why.to_owned() });
                }
            }
            match task.status.state {
                TaskState::RUNNING => {
                    let place = self.place(&task).ok_or_else(|| refused("its task has no address".to_owned()))?;
                    return Ok(Start::Running(place));
                }
                TaskState::REJECTED => return Ok(Start::Refused { node: task.node, why: task.status.err }),
                TaskState::NEW | TaskState::ALLOCATED | TaskState::PENDING => {
                    let narrowed = choice.as_ref().is_some_and(|choice| !choice.elsewhere.is_empty());
                    if narrowed && (!task.status.err.is_empty() || waited > limits.placement_timeout) {
                        return Ok(Start::Elsewhere);
                    }
                    if waited > limits.placement_timeout {
                        let why = if task.status.err.is_empty() { task.status.message } else { task.status.err };
                        return Err(self.no_node(why, image));
                    }
                }
                TaskState::ASSIGNED
                | TaskState::ACCEPTED
                | TaskState::PREPARING
                | TaskState::READY
                | TaskState::STARTING => {
                    if waited > limits.start_timeout {
                        let limit = limits.start_timeout.as_secs();
                        return Err(refused(format!("its container did not run within {limit} s")));
                    }
                }
                _ => {
                    return Err(refused(format!("it ended at once: {}", task.status.err)));
                }
            }
            sleep(POLL).await;
        }
    }
}

/// Returns why a task will never run on the node that has had it for so long, if it will not: the node may be lost, which the
/// manager notices only later. A live node accepts a task within `take_up`, and then may fetch the image for long.
fn given_up(task: &Task, given_for: Duration, is_lost: bool, take_up: Duration) -> Option<&'static str> {
    if task.has_ended() || task.status.state == TaskState::RUNNING {
        None
    } else if is_lost {
        Some("the node is lost")
    } else if task.is_ended() {
        Some("Swarm ends what it gave the node, which is lost or was drained")
    } else if task.status.state == TaskState::ASSIGNED && given_for > take_up {
        Some("the node does not take up what it is given")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_does_not_wait_for_a_node_that_is_lost() {
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(6));
        for (state, desired, given_for, is_lost, wanted) in [
            ("assigned", "running", short, false, None),
            ("assigned", "running", long, false, Some("does not take up")),
            ("assigned", "running", short, true, Some("is lost")),
            ("preparing", "running", long, false, None),
            ("preparing", "running", long, true, Some("is lost")),
            ("preparing", "shutdown", short, false, Some("drained")),
            ("running", "running", long, true, None),
            ("rejected", "shutdown", short, false, None),
        ] {
            let text = format!(r#"{{"NodeID":"n","DesiredState":"{desired}","Status":{{"State":"{state}"}}}}"#);
            let task: Task = serde_json::from_str(&text).unwrap();
            let why = given_up(&task, given_for, is_lost, Duration::from_secs(5));
            let is_as_wanted = match (why, wanted) {
                (Some(why), Some(words)) => why.contains(words),
                (why, wanted) => why.is_none() && wanted.is_none(),
            };
            assert!(is_as_wanted, "{state}, wanted {desired}, for {given_for:?}: {why:?}");
        }
    }
}
