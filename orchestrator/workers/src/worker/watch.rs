//! Follows one worker from its first event to its loss.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use warmpool_protocol::{Snapshot, WorkerEvent, WorkerState};

use super::lines::Lines;
use super::{Health, LossReason, Reports, Worker};
use warmpool_runtime::{ContainerState, Runtime};

/// The agent beats every 5 s; three missed beats mean that it hangs.
const SILENCE: Duration = Duration::from_secs(15);
/// How long an agent may refuse connections while its container runs.
const CONNECT_GRACE: Duration = Duration::from_secs(10);
/// How long an agent may take to repeat how its worker ended to a reader that has missed it.
const REPEAT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two tries.
const RETRY: Duration = Duration::from_millis(200);

/// Follows `worker` until it is lost or `stop` is cancelled. Reports through `reports`. `is_away` says whether the container engine
/// is known to be away.
pub async fn watch(
    worker: Arc<Worker>,
    reports: Reports,
    runtime: Runtime,
    is_away: impl Fn() -> bool,
    stop: CancellationToken,
) {
    tokio::select! {
        () = stop.cancelled() => {}
        loss = follow(&worker, &reports, &runtime, is_away) => {
            tracing::debug!(worker = %worker.id, %loss, "worker lost");
            reports.health.send_replace(Health::Lost(loss));
        }
    }
}

async fn follow(worker: &Worker, reports: &Reports, runtime: &Runtime, is_away: impl Fn() -> bool) -> LossReason {
    let mut unreachable_since: Option<Instant> = None;
    // Whether the engine of this host was away when the stream was cut, or then. One that was killed ends its containers before it
    // answers again. A Swarm's workers outlive their manager.
    let mut engine_went = false;
    loop {
        match worker.agent.events().await {
            Ok(events) => {
                unreachable_since = None;
                match listen(events, reports).await {
                    StreamOutcome::Lost(loss) => return loss,
                    StreamOutcome::Silence => return explain_silence(worker, runtime).await,
                    StreamOutcome::Cut => engine_went = is_away() && runtime.notices_within().is_zero(),
                }
            }
            Err(error) => tracing::trace!(worker = %worker.id, %error, "no event stream"),
        }
        // The stream is cut: only the runtime can distinguish a dead container from a passing fault.
        match runtime.state(&worker.id).await.map(ended) {
            Ok(Some(loss)) => return if engine_went { with_engine(loss) } else { loss },
            Ok(None) => {
                let grace = CONNECT_GRACE + runtime.notices_within();
                if unreachable_since.get_or_insert_with(Instant::now).elapsed() > grace {
                    return LossReason::Unresponsive;
                }
            }
            Err(error) => {
                tracing::debug!(worker = %worker.id, %error, "neither agent nor runtime answer");
                engine_went = runtime.notices_within().is_zero();
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

/// What the end of a container is for its worker; none while it runs.
fn ended(state: ContainerState) -> Option<LossReason> {
    match state {
        ContainerState::Running => None,
        ContainerState::Exited { oom: true, .. } => Some(LossReason::OutOfMemory),
        ContainerState::Exited { code, .. } => Some(LossReason::ContainerExited { code }),
        ContainerState::Missing => Some(LossReason::ContainerGone),
        ContainerState::NodeLost { node } => Some(LossReason::NodeLost { node }),
        ContainerState::NodeDrained { node } => Some(LossReason::NodeDrained { node }),
        ContainerState::Evicted { node, why } => Some(LossReason::Evicted { node, why }),
    }
}

/// The loss of a worker that fell silent together with its engine: an engine that stops stops its containers.
fn with_engine(loss: LossReason) -> LossReason {
    match loss {
        LossReason::ContainerExited { .. } => LossReason::EngineStopped,
        other => other,
    }
}

/// Why an agent has fallen silent: its host may be lost, and the runtime notice that a little later.
async fn explain_silence(worker: &Worker, runtime: &Runtime) -> LossReason {
    let lost = async {
        loop {
            if let Ok(Some(loss)) = runtime.state(&worker.id).await.map(ended) {
                return loss;
            }
            sleep(RETRY).await;
        }
    };
    let grace = runtime.notices_within();
    if grace.is_zero() {
        return LossReason::Unresponsive;
    }
    timeout(grace, lost).await.unwrap_or(LossReason::Unresponsive)
}

/// How a stream of events went.
#[derive(Debug, PartialEq, Eq)]
enum StreamOutcome {
    /// The worker is lost.
    Lost(LossReason),
    /// Nothing more came, though the connection stood.
    Silence,
    /// The connection ended.
    Cut,
}

/// Reads events until there are no more of them or the worker is lost.
async fn listen(mut events: Lines<WorkerEvent>, reports: &Reports) -> StreamOutcome {
    let mut first = true;
    // A new stream has missed the event that says why the worker ended. The agent repeats it, as it does the driver's
    // end; this stands for it where the agent does not.
    let mut unexplained: Option<LossReason> = None;
    loop {
        let limit = if unexplained.is_some() { REPEAT_TIMEOUT } else { SILENCE };
        let event = match timeout(limit, events.next()).await {
            Ok(Some(event)) => event,
            Ok(None) => return unexplained.map_or(StreamOutcome::Cut, StreamOutcome::Lost),
            Err(_) => return unexplained.map_or(StreamOutcome::Silence, StreamOutcome::Lost),
        };
        match event {
            WorkerEvent::State(snapshot) => {
                let state = snapshot.state;
                let blocked = |snapshot: &Snapshot| snapshot.ads_blocked.unwrap_or(0);
                let before = blocked(&reports.snapshot.borrow());
                metrics::counter!("warmpool_ads_blocked_total").increment(blocked(&snapshot).saturating_sub(before));
                reports.snapshot.send_replace(snapshot);
                match state {
                    WorkerState::Starting => {}
                    WorkerState::Warm | WorkerState::Active => {
                        reports.health.send_replace(Health::Alive);
                    }
                    WorkerState::Ended if first => {
                        unexplained = Some(LossReason::BrowserExited { code: None, signal: None })
                    }
                    WorkerState::Failed if first => {
                        unexplained = Some(LossReason::BootFailed { reason: "no reason given".to_owned() })
                    }
                    WorkerState::Ended | WorkerState::Failed => {}
                }
            }
            WorkerEvent::Beat | WorkerEvent::Unknown => {
                if let Some(loss) = unexplained {
                    return StreamOutcome::Lost(loss);
                }
            }
            WorkerEvent::Exited { oom: true, clean: false, .. } => return StreamOutcome::Lost(LossReason::OutOfMemory),
            WorkerEvent::Exited { clean: true, .. } => return StreamOutcome::Lost(LossReason::BrowserClosed),
            WorkerEvent::Exited { code, signal, .. } => {
                return StreamOutcome::Lost(LossReason::BrowserExited { code, signal });
            }
            WorkerEvent::Unresponsive => return StreamOutcome::Lost(LossReason::Unresponsive),
            WorkerEvent::DriverExited => return StreamOutcome::Lost(LossReason::DriverExited),
            WorkerEvent::Failed { reason } => return StreamOutcome::Lost(LossReason::BootFailed { reason }),
        }
        first = false;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use warmpool_core::browser::{Engine, Mode, PoolKey};
    use warmpool_core::ids::WorkerId;
    use warmpool_protocol::Secret;
    use warmpool_runtime::AgentAddress;

    /// The daemon's verdict on an agent that writes these lines to a new reader and then hangs up, or stays silent.
    async fn reads(lines: &str, hangs_up: bool) -> (Option<LossReason>, Health) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let key = PoolKey::plain(Engine::Chromium, Mode::Headless);
        let (worker, reports) = Worker::found(
            WorkerId::random(),
            key,
            AgentAddress::Tcp(listener.local_addr().unwrap()).into(),
            &Secret::new("secret".to_owned()),
        );
        assert_eq!(worker.health(), Health::Unknown, "nothing is known of it yet");
        let agent = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            stream.write_all(format!("HTTP/1.1 200 OK\r\n\r\n{lines}").as_bytes()).await.unwrap();
            if !hangs_up {
                std::future::pending::<()>().await;
            }
        };
        let heard = async { listen(worker.agent.events().await.unwrap(), &reports).await };
        let loss = tokio::select! {
            heard = heard => match heard {
                StreamOutcome::Lost(loss) => Some(loss),
                StreamOutcome::Cut | StreamOutcome::Silence => None,
            },
            () = async { agent.await; std::future::pending().await } => None,
        };
        (loss, worker.health())
    }

    const ACTIVE: &str = "{\"type\":\"state\",\"state\":\"active\"}\n";
    const ENDED: &str = "{\"type\":\"state\",\"state\":\"ended\"}\n";

    fn exited(clean: bool, oom: bool) -> String {
        format!("{{\"type\":\"exited\",\"clean\":{clean},\"code\":0,\"signal\":null,\"oom\":{oom}}}\n")
    }

    #[tokio::test]
    async fn a_late_reader_hears_that_the_driver_has_ended() {
        let told = format!("{ACTIVE}{{\"type\":\"driver_exited\"}}\n");
        assert_eq!(reads(&told, false).await.0, Some(LossReason::DriverExited));
    }

    #[tokio::test]
    async fn a_late_reader_hears_how_the_browser_ended() {
        assert_eq!(reads(&format!("{ENDED}{}", exited(true, false)), false).await.0, Some(LossReason::BrowserClosed));
        assert_eq!(reads(&format!("{ENDED}{}", exited(false, true)), false).await.0, Some(LossReason::OutOfMemory));
    }

    #[tokio::test]
    async fn an_agent_that_does_not_say_it_again_is_believed_all_the_same() {
        let unknown = Some(LossReason::BrowserExited { code: None, signal: None });
        assert_eq!(reads(ENDED, true).await.0, unknown);
        assert_eq!(reads(ENDED, false).await.0, unknown);
        assert_eq!(reads(&format!("{ENDED}{{\"type\":\"beat\"}}\n"), false).await.0, unknown);
    }

    #[test]
    fn a_container_that_went_with_its_engine_says_so() {
        let exited = |oom| ended(ContainerState::Exited { code: 137, oom }).unwrap();
        assert_eq!(with_engine(exited(false)), LossReason::EngineStopped);
        assert_eq!(with_engine(exited(true)), LossReason::OutOfMemory);
        assert_eq!(exited(false).code(), "worker_exited", "beside an engine that runs");
    }

    #[tokio::test]
    async fn a_cut_stream_is_no_loss() {
        assert_eq!(reads(ACTIVE, true).await, (None, Health::Alive));
    }
}
