//! Follows one worker from its first event to its loss.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use warmpool_protocol::{Snapshot, WorkerEvent, WorkerState};

use super::lines::Lines;
use super::{AgentError, Health, LossReason, Reports, Worker};
use warmpool_runtime::{ContainerState, Runtime};

/// The agent beats every 5 s; three missed beats mean that it hangs.
const SILENCE: Duration = Duration::from_secs(15);
/// How long an agent may refuse connections while its container runs.
const CONNECT_GRACE: Duration = Duration::from_secs(10);
/// How long an agent may take to repeat how its worker ended to a reader that has missed it.
const REPEAT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two tries.
const RETRY: Duration = Duration::from_millis(200);
/// The longest pause after a stream that was cut.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The most advertisements that one report adds to the count of all workers.
const MAX_ADS_STEP: u64 = 100_000;

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
    let mut reach = Reach::default();
    // Whether the engine of this host was away when the stream was cut, or then. One that was killed ends its containers before it
    // answers again. A Swarm's workers outlive their manager.
    let mut engine_went = false;
    loop {
        let began = Instant::now();
        let pause = match attend(worker, reports).await {
            Ok(StreamOutcome::Lost(loss)) => return loss,
            Ok(StreamOutcome::Silence) => return explain_silence(worker, runtime).await,
            Ok(StreamOutcome::Cut { heard }) => {
                engine_went = is_away() && runtime.notices_within().is_zero();
                reach.cut(heard, began.elapsed())
            }
            Err(error) => {
                tracing::trace!(worker = %worker.id, %error, "no event stream");
                RETRY
            }
        };
        // The stream is cut: only the runtime can distinguish a dead container from a passing fault.
        match runtime.state(&worker.id).await.map(ended) {
            Ok(Some(loss)) => return if engine_went { with_engine(loss) } else { loss },
            Ok(None) => {
                let grace = CONNECT_GRACE + runtime.notices_within();
                if reach.missing() > grace {
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
        sleep(pause).await;
    }
}

/// How well an agent is reached.
#[derive(Debug, Default)]
struct Reach {
    /// Since when it said nothing while its container ran.
    missing_since: Option<Instant>,
    /// How often in a row a stream was cut soon after its begin.
    short: u32,
}

impl Reach {
    /// Notes that a stream was cut after so long. Returns the pause before the next one, longer each time while none of them lasts:
    /// whoever speaks for the agent may cut them all, and each costs a question to the engine.
    fn cut(&mut self, heard: bool, lasted: Duration) -> Duration {
        if heard {
            self.missing_since = None;
        }
        self.short = if lasted < LONGEST_PAUSE { self.short.saturating_add(1) } else { 1 };
        RETRY.saturating_mul(2u32.saturating_pow(self.short - 1)).min(LONGEST_PAUSE)
    }

    /// How long it has said nothing by now.
    fn missing(&mut self) -> Duration {
        self.missing_since.get_or_insert_with(Instant::now).elapsed()
    }
}

/// What the end of a container is for its worker; none while it runs.
fn ended(state: ContainerState) -> Option<LossReason> {
    match state {
        ContainerState::Running => None,
        ContainerState::Exited { oom: true, .. } => Some(LossReason::OutOfMemory),
        ContainerState::Exited { code, .. } => Some(LossReason::ContainerExited { code }),
        ContainerState::Missing => Some(LossReason::ContainerGone),
        ContainerState::Node(loss) => Some(LossReason::Node(loss)),
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
    /// The connection ended, and whether there was an event on it.
    Cut { heard: bool },
}

/// Opens a stream of events and reads it to its end. Meanwhile one small call leaves an idle connection behind, in place of the one that
/// the stream took: a launch on this host finds it, however long the worker has waited. Whether another host is there only a new one tells
/// within seconds.
async fn attend(worker: &Worker, reports: &Reports) -> Result<StreamOutcome, AgentError> {
    let events = worker.agent.events().await?;
    let mut listening = pin!(listen(events, reports));
    tokio::select! {
        outcome = &mut listening => Ok(outcome),
        _ = worker.agent.health(), if worker.node.is_none() => Ok(listening.await),
    }
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
            Ok(None) => return unexplained.map_or(StreamOutcome::Cut { heard: !first }, StreamOutcome::Lost),
            Err(_) => return unexplained.map_or(StreamOutcome::Silence, StreamOutcome::Lost),
        };
        match event {
            WorkerEvent::State(snapshot) => {
                let state = snapshot.state;
                let more = more_ads_blocked(&reports.snapshot.borrow(), &snapshot);
                metrics::counter!("warmpool_ads_blocked_total").increment(more);
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

/// How many advertisements were blocked between two reports. An agent may say any number, and all workers share one count.
fn more_ads_blocked(before: &Snapshot, now: &Snapshot) -> u64 {
    let blocked = |snapshot: &Snapshot| snapshot.ads_blocked.unwrap_or(0);
    blocked(now).saturating_sub(blocked(before)).min(MAX_ADS_STEP)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use futures_util::{StreamExt as _, stream};
    use http::{Request, Response};
    use http_body_util::{BodyExt as _, StreamBody};
    use hyper::body::{Frame, Incoming};
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
    use tokio::net::{TcpListener, UnixListener};
    use tokio::sync::Notify;
    use tokio::task::yield_now;

    use super::super::{Body, full};
    use super::*;
    use warmpool_core::browser::{Engine, Mode, PoolKey};
    use warmpool_core::ids::WorkerId;
    use warmpool_protocol::{Launch, Secret};
    use warmpool_runtime::AgentAddress;

    /// What an agent has met.
    #[derive(Default)]
    struct Met {
        connections: AtomicUsize,
        health: Notify,
    }

    /// Answers every call on a connection, and never ends it.
    async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, met: Arc<Met>) {
        met.connections.fetch_add(1, Ordering::Relaxed);
        let service = service_fn(|request| answer(&met, request));
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }

    async fn answer(met: &Met, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let (head, body) = request.into_parts();
        body.collect().await.unwrap();
        let body = match head.uri.path() {
            "/events" => {
                let beat = Frame::data(Bytes::from_static(b"{\"type\":\"beat\"}\n"));
                StreamBody::new(stream::iter([Ok(beat)]).chain(stream::pending())).boxed_unsync()
            }
            "/health" => {
                met.health.notify_one();
                full(r#"{"state":"warm"}"#)
            }
            _ => full(r#"{"warnings":[]}"#),
        };
        Ok(Response::new(body))
    }

    /// How many connections a launch opens whose worker has waited for a day.
    async fn opened_by_a_late_launch(address: AgentAddress, met: &Met) -> usize {
        let key = PoolKey::plain(Engine::Chromium, Mode::Headless);
        let secret = Secret::new("secret".to_owned());
        let (worker, reports) = Worker::found(WorkerId::random(), key, address.into(), &secret);
        // As a claim does, it leaves a connection that the stream of events takes.
        worker.agent.health().await.unwrap();
        met.health.notified().await;
        let settled = async {
            met.health.notified().await;
            // The answer is read, and its connection is idle.
            for _ in 0..100 {
                yield_now().await;
            }
        };
        let waiting = timeout(Duration::from_secs(10), async {
            tokio::select! {
                outcome = attend(&worker, &reports) => panic!("{outcome:?}"),
                () = settled => {}
            }
        });
        waiting.await.expect("the daemon calls once more");
        let before = met.connections.load(Ordering::Relaxed);
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(86_400)).await;
        tokio::time::resume();
        worker.agent.launch(&Launch::default(), None, None, None).await.unwrap();
        met.connections.load(Ordering::Relaxed) - before
    }

    #[tokio::test]
    async fn a_late_launch_needs_no_new_connection() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        let (listener, met) = (UnixListener::bind(&socket).unwrap(), Arc::new(Met::default()));
        let seen = Arc::clone(&met);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&seen)));
            }
        });
        assert_eq!(opened_by_a_late_launch(AgentAddress::Unix(socket), &met).await, 0);
    }

    #[tokio::test]
    async fn a_late_launch_by_tcp_finds_out_by_a_new_connection_whether_its_worker_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, met) = (listener.local_addr().unwrap(), Arc::new(Met::default()));
        let seen = Arc::clone(&met);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&seen)));
            }
        });
        assert_eq!(opened_by_a_late_launch(AgentAddress::Tcp(address), &met).await, 1);
    }

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
                StreamOutcome::Cut { .. } | StreamOutcome::Silence => None,
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

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_cuts_its_streams_without_a_word_counts_as_missing() {
        let (mut reach, second) = (Reach::default(), Duration::from_secs(1));
        for passed in 0..3u32 {
            assert_eq!(reach.missing(), passed * second);
            reach.cut(false, Duration::ZERO);
            tokio::time::advance(second).await;
        }
        reach.cut(true, Duration::ZERO);
        assert_eq!(reach.missing(), Duration::ZERO);
    }

    #[test]
    fn no_agent_fills_the_count_of_all_blocked_ads() {
        let blocked = |ads_blocked| Snapshot { ads_blocked, ..Snapshot::default() };
        assert_eq!(more_ads_blocked(&blocked(None), &blocked(Some(3))), 3);
        assert_eq!(more_ads_blocked(&blocked(Some(3)), &blocked(Some(5))), 2);
        assert_eq!(more_ads_blocked(&blocked(Some(5)), &blocked(None)), 0);
        assert_eq!(more_ads_blocked(&blocked(Some(5)), &blocked(Some(u64::MAX))), MAX_ADS_STEP);
    }

    #[test]
    fn streams_that_are_cut_again_and_again_come_ever_more_slowly() {
        let (mut reach, soon) = (Reach::default(), RETRY);
        let pauses: Vec<Duration> = (0..100).map(|_| reach.cut(true, soon)).collect();
        assert_eq!(pauses[..3], [RETRY, 2 * RETRY, 4 * RETRY]);
        assert!(pauses[5..].iter().all(|pause| *pause == LONGEST_PAUSE), "{pauses:?}");
        assert_eq!(reach.cut(true, LONGEST_PAUSE), RETRY, "one has lasted");
    }
}
