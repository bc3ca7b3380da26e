//! Follows one worker from its first event to its loss.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::lines::Lines;
use super::protocol::{Event, Phase};
use super::{Health, Loss, Reports, Worker};
use crate::runtime::{ContainerState, Docker};

/// The agent beats every 5 s; three missed beats mean that it hangs.
const SILENCE: Duration = Duration::from_secs(15);
/// How long an agent may refuse connections while its container runs.
const DEAF: Duration = Duration::from_secs(10);
/// Between two tries.
const RETRY: Duration = Duration::from_millis(200);

/// Follows `worker` until it is lost or `stop` is cancelled. Reports through `reports`.
pub async fn watch(worker: Arc<Worker>, reports: Reports, runtime: Docker, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        loss = follow(&worker, &reports, &runtime) => {
            tracing::debug!(worker = %worker.id, %loss, "worker lost");
            reports.health.send_replace(Health::Lost(loss));
        }
    }
}

async fn follow(worker: &Worker, reports: &Reports, runtime: &Docker) -> Loss {
    let mut deaf_since: Option<Instant> = None;
    loop {
        match worker.agent.events().await {
            Ok(events) => {
                deaf_since = None;
                if let Some(loss) = listen(events, reports).await {
                    return loss;
                }
            }
            Err(error) => tracing::trace!(worker = %worker.id, %error, "no event stream"),
        }
        // The stream is cut: only the runtime can tell a dead container from a passing fault.
        match runtime.state(&worker.id).await {
            Ok(ContainerState::Exited { oom: true, .. }) => return Loss::OutOfMemory,
            Ok(ContainerState::Exited { code, .. }) => return Loss::ContainerExited { code },
            Ok(ContainerState::Missing) => return Loss::ContainerGone,
            Ok(ContainerState::Running) => {
                if deaf_since.get_or_insert_with(Instant::now).elapsed() > DEAF {
                    return Loss::Unresponsive;
                }
            }
            Err(error) => {
                tracing::debug!(worker = %worker.id, %error, "neither agent nor runtime answer");
                reports.health.send_if_modified(|health| {
                    let known = *health == Health::Alive;
                    if known {
                        *health = Health::Unknown;
                    }
                    known
                });
            }
        }
        sleep(RETRY).await;
    }
}

/// Reads events until the stream is cut (`None`) or the worker is lost.
async fn listen(mut events: Lines<Event>, reports: &Reports) -> Option<Loss> {
    let mut first = true;
    loop {
        let Ok(event) = timeout(SILENCE, events.next()).await else {
            return Some(Loss::Unresponsive);
        };
        match event? {
            Event::State(snapshot) => {
                let state = snapshot.state;
                reports.snapshot.send_replace(snapshot);
                match state {
                    Phase::Starting => {}
                    Phase::Warm | Phase::Active => {
                        reports.health.send_replace(Health::Alive);
                    }
                    // On a new stream the event that says why was missed; otherwise it follows.
                    Phase::Ended if first => return Some(Loss::BrowserExited { code: None, signal: None }),
                    Phase::Failed if first => {
                        return Some(Loss::BootFailed { reason: "no reason given".to_owned() });
                    }
                    Phase::Ended | Phase::Failed => {}
                }
            }
            Event::Beat | Event::Other => {}
            Event::Exited { oom: true, clean: false, .. } => return Some(Loss::OutOfMemory),
            Event::Exited { clean: true, .. } => return Some(Loss::BrowserClosed),
            Event::Exited { code, signal, .. } => return Some(Loss::BrowserExited { code, signal }),
            Event::Unresponsive => return Some(Loss::Unresponsive),
            Event::DriverExited => return Some(Loss::DriverExited),
            Event::Failed { reason } => return Some(Loss::BootFailed { reason }),
        }
        first = false;
    }
}
