//! The worker's state, and the stream of events that reports each change to the daemon.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http_body_util::BodyExt;
use http_body_util::StreamBody;
use hyper::body::Frame;
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};
use tokio::time::{Interval, MissedTickBehavior, interval};
use warmpool_protocol::text::{MAX_KEPT, shortened};
use warmpool_protocol::{Captcha, CaptchaEnd, Identity, Snapshot, WorkerEvent, WorkerState};

use crate::body::{Body, BodyError};
use crate::process::Exit;

/// Events a reader may lag behind before it is cut off.
const BACKLOG: usize = 64;
/// Time between two signs of life.
const BEAT: Duration = Duration::from_secs(5);

fn line(event: &WorkerEvent) -> Bytes {
    let mut line = serde_json::to_vec(event).unwrap_or_default();
    line.push(b'\n');
    line.into()
}

struct Inner {
    snapshot: Snapshot,
    /// Whether something came that a client brought.
    is_touched: bool,
    /// What cannot be undone, in its order: the end of the browser, and that of its driver. Each new reader gets these
    /// again, because it may have missed them.
    ends: Vec<WorkerEvent>,
}

/// State and events behind one lock, so that no reader sees them disagree.
pub(crate) struct Status {
    inner: Mutex<Inner>,
    events: broadcast::Sender<Bytes>,
    readers: watch::Sender<usize>,
}

impl Status {
    pub(crate) fn new() -> Self {
        Self {
            inner: Mutex::new(Inner { snapshot: Snapshot::default(), is_touched: false, ends: Vec::new() }),
            events: broadcast::channel(BACKLOG).0,
            readers: watch::Sender::new(0),
        }
    }

    /// A copy of what is known now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.inner.lock().snapshot.clone()
    }

    /// Where the worker stands now.
    pub(crate) fn state(&self) -> WorkerState {
        self.inner.lock().snapshot.state
    }

    /// Number of open `GET /events` streams, to be watched.
    pub(crate) fn readers(&self) -> watch::Receiver<usize> {
        self.readers.subscribe()
    }

    /// The browser is ready.
    pub(crate) fn report_warm(&self, identity: Identity) {
        let mut inner = self.inner.lock();
        if inner.snapshot.state == WorkerState::Starting {
            let untouched = !inner.is_touched;
            inner.snapshot = Snapshot { state: WorkerState::Warm, untouched, identity, ..Snapshot::default() };
            self.send(&WorkerEvent::State(inner.snapshot.clone()));
        }
    }

    /// Something comes that a client brought: from now on no other client may have this worker.
    pub(crate) fn touch(&self) {
        let mut inner = self.inner.lock();
        if !std::mem::replace(&mut inner.is_touched, true) && inner.snapshot.untouched {
            inner.snapshot.untouched = false;
            self.send(&WorkerEvent::State(inner.snapshot.clone()));
        }
    }

    /// From warm to active; `false` when the worker was in any other state.
    pub(crate) fn activate(&self) -> bool {
        let mut inner = self.inner.lock();
        if inner.snapshot.state != WorkerState::Warm {
            return false;
        }
        inner.snapshot.state = WorkerState::Active;
        inner.snapshot.untouched = false;
        self.send(&WorkerEvent::State(inner.snapshot.clone()));
        true
    }

    /// The session's first page did not load. Of a browser's words those are reported that an event has room for.
    pub(crate) fn report_page_failure(&self, reason: String) {
        let mut inner = self.inner.lock();
        inner.snapshot.page_error = Some(shortened(reason, MAX_KEPT));
        self.send(&WorkerEvent::State(inner.snapshot.clone()));
    }

    /// The kernel has ended so many processes for lack of memory since a session has the browser.
    pub(crate) fn report_oom_kills(&self, count: u64) {
        let mut inner = self.inner.lock();
        if inner.snapshot.oom_kills.unwrap_or(0) < count {
            tracing::warn!(count, "memory ran out, and the kernel ended a process");
            inner.snapshot.oom_kills = Some(count);
            self.send(&WorkerEvent::State(inner.snapshot.clone()));
        }
    }

    /// This many requests for ads have been blocked.
    pub(crate) fn report_ads_blocked(&self, count: u64) {
        let mut inner = self.inner.lock();
        inner.snapshot.ads_blocked = Some(count);
        if inner.snapshot.state == WorkerState::Active {
            self.send(&WorkerEvent::State(inner.snapshot.clone()));
        }
    }

    /// This challenge waits for an answer now, or none; and this one has just ended.
    pub(crate) fn report_captcha(&self, waiting: Option<Box<Captcha>>, end: Option<CaptchaEnd>) {
        let mut inner = self.inner.lock();
        if inner.snapshot.captcha == waiting && end.is_none() {
            return;
        }
        inner.snapshot.captcha = waiting;
        inner.snapshot.captcha_end = end.or(inner.snapshot.captcha_end);
        self.send(&WorkerEvent::State(inner.snapshot.clone()));
    }

    /// The browser could not be made ready.
    pub(crate) fn report_failure(&self, reason: String) {
        let reason = shortened(reason, MAX_KEPT);
        tracing::warn!(reason, "the browser could not be made ready");
        self.end(WorkerState::Failed, WorkerEvent::Failed { reason });
    }

    /// The browser has ended.
    pub(crate) fn report_exit(&self, exit: Exit, oom: bool) {
        let Exit { code, signal } = exit;
        tracing::info!(code, signal, oom, "the browser has ended");
        self.end(WorkerState::Ended, WorkerEvent::Exited { clean: exit.clean(), code, signal, oom });
    }

    /// Sends an event that changes no state.
    pub(crate) fn publish(&self, event: &WorkerEvent) {
        let mut inner = self.inner.lock();
        self.send(event);
        let driver_ended = |event: &WorkerEvent| matches!(event, WorkerEvent::DriverExited);
        if driver_ended(event) && !inner.ends.iter().any(driver_ended) {
            inner.ends.push(event.clone());
        }
    }

    fn end(&self, state: WorkerState, event: WorkerEvent) {
        let mut inner = self.inner.lock();
        if matches!(inner.snapshot.state, WorkerState::Ended | WorkerState::Failed) {
            return;
        }
        inner.snapshot.state = state;
        inner.snapshot.untouched = false;
        self.send(&event);
        self.send(&WorkerEvent::State(inner.snapshot.clone()));
        inner.ends.push(event);
    }

    /// Call it under the lock, so that events keep their order.
    fn send(&self, event: &WorkerEvent) {
        // No reader is no error: the daemon may be restarting.
        let _ = self.events.send(line(event));
    }
}

/// Counts a reader for as long as its stream lives.
struct Reader(Arc<Status>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.readers.send_modify(|count| *count -= 1);
    }
}

struct EventFeed {
    _reader: Reader,
    first: Vec<Bytes>,
    events: broadcast::Receiver<Bytes>,
    beat: Interval,
}

/// The body of `GET /events`. It ends when the reader lags too far behind.
pub(crate) fn stream(status: &Arc<Status>) -> Body {
    let inner = status.inner.lock();
    let events = status.events.subscribe();
    // Taken from the back: the state comes first, then what has ended.
    let mut first: Vec<Bytes> = inner.ends.iter().rev().map(line).collect();
    first.push(line(&WorkerEvent::State(inner.snapshot.clone())));
    drop(inner);
    status.readers.send_modify(|count| *count += 1);
    let mut beat = interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat.reset();
    let feed = EventFeed { _reader: Reader(Arc::clone(status)), first, events, beat };
    StreamBody::new(lines(feed)).boxed_unsync()
}

fn lines(feed: EventFeed) -> impl Stream<Item = Result<Frame<Bytes>, BodyError>> {
    futures_util::stream::unfold(feed, |mut feed| async move {
        let line = match feed.first.pop() {
            Some(line) => line,
            None => tokio::select! {
                line = feed.events.recv() => line.ok()?,
                _ = feed.beat.tick() => line(&WorkerEvent::Beat),
            },
        };
        Some((Ok(Frame::data(line)), feed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;
    use serde_json::{Value, json};

    async fn next(body: &mut Body) -> Option<Value> {
        let frame = body.frame().await?.unwrap();
        Some(serde_json::from_slice(&frame.into_data().unwrap()).unwrap())
    }

    #[tokio::test]
    async fn a_reader_sees_the_state_then_each_change() {
        let status = Arc::new(Status::new());
        let mut body = stream(&status);
        assert_eq!(next(&mut body).await.unwrap()["state"], "starting");
        status.report_warm(Identity { browser: Some("B/1".into()), ..Identity::default() });
        let line = next(&mut body).await.unwrap();
        assert_eq!((&line["type"], &line["state"], &line["browser"]), (&json!("state"), &json!("warm"), &json!("B/1")));
        assert!(status.activate());
        assert!(!status.activate(), "a worker is handed out once");
        assert_eq!(next(&mut body).await.unwrap()["state"], "active");
    }

    #[tokio::test]
    async fn no_reason_is_longer_than_an_event_may_be() {
        let status = Arc::new(Status::new());
        let mut body = stream(&status);
        next(&mut body).await.unwrap();
        status.report_page_failure("x".repeat(1 << 20));
        let line = next(&mut body).await.unwrap();
        assert_eq!(line["page_error"], shortened("x".repeat(1 << 20), MAX_KEPT));
        status.report_failure("x".repeat(1 << 20));
        while let Some(line) = next(&mut body).await {
            assert!(line.to_string().len() < 3 * MAX_KEPT);
            if line["type"] == "failed" {
                return;
            }
        }
        panic!("the failure was not reported");
    }

    #[tokio::test]
    async fn what_a_client_brought_is_seen_before_and_after_the_worker_is_warm() {
        for is_warm_first in [true, false] {
            let status = Arc::new(Status::new());
            assert!(!status.snapshot().untouched, "it does not wait yet");
            let warm = || status.report_warm(Identity::default());
            if is_warm_first {
                warm();
                assert!(status.snapshot().untouched);
                let mut body = stream(&status);
                assert_eq!(next(&mut body).await.unwrap()["untouched"], true);
                status.touch();
                let line = next(&mut body).await.unwrap();
                assert_eq!((&line["state"], &line["untouched"]), (&json!("warm"), &Value::Null));
            } else {
                status.touch();
                warm();
            }
            status.touch();
            let snapshot = status.snapshot();
            assert_eq!((snapshot.state, snapshot.untouched), (WorkerState::Warm, false));
            assert!(status.activate(), "a session that is found again may still have it");
        }
        let status = Status::new();
        status.report_warm(Identity::default());
        assert!(status.activate());
        assert!(!status.snapshot().untouched);
    }

    #[tokio::test]
    async fn a_page_that_ran_out_of_memory_is_reported_once() {
        let status = Arc::new(Status::new());
        status.report_warm(Identity::default());
        assert!(status.activate());
        let mut body = stream(&status);
        assert_eq!(next(&mut body).await.unwrap()["oom_kills"], Value::Null);
        for count in [0, 1, 1, 3] {
            status.report_oom_kills(count);
        }
        assert_eq!(next(&mut body).await.unwrap()["oom_kills"], 1);
        assert_eq!(next(&mut body).await.unwrap()["oom_kills"], 3);
        assert_eq!(next(&mut stream(&status)).await.unwrap()["oom_kills"], 3, "a late reader hears of it too");
    }

    #[tokio::test]
    async fn a_late_reader_gets_the_end_again() {
        let status = Arc::new(Status::new());
        status.report_exit(Exit { code: None, signal: Some(9) }, true);
        status.report_exit(Exit { code: Some(0), signal: None }, false);
        let mut body = stream(&status);
        assert_eq!(next(&mut body).await.unwrap()["state"], "ended");
        let end = next(&mut body).await.unwrap();
        assert_eq!(end, json!({"type": "exited", "clean": false, "code": null, "signal": 9, "oom": true}));
    }

    #[tokio::test]
    async fn a_late_reader_gets_the_drivers_end_again() {
        let status = Arc::new(Status::new());
        status.report_warm(Identity::default());
        assert!(status.activate());
        let mut early = stream(&status);
        status.publish(&WorkerEvent::DriverExited);
        status.publish(&WorkerEvent::DriverExited);
        let mut late = stream(&status);
        for body in [&mut early, &mut late] {
            assert_eq!(next(body).await.unwrap()["state"], "active");
            assert_eq!(next(body).await.unwrap(), json!({"type": "driver_exited"}));
        }
        status.publish(&WorkerEvent::Unresponsive);
        assert_eq!(next(&mut late).await.unwrap()["type"], "unresponsive", "each end is sent once");
    }

    #[tokio::test]
    async fn a_late_reader_gets_ends_in_their_order() {
        for driver_first in [true, false] {
            let status = Arc::new(Status::new());
            if driver_first {
                status.publish(&WorkerEvent::DriverExited);
            }
            status.report_exit(Exit { code: Some(1), signal: None }, false);
            if !driver_first {
                status.publish(&WorkerEvent::DriverExited);
            }
            let mut body = stream(&status);
            assert_eq!(next(&mut body).await.unwrap()["state"], "ended");
            let told = [next(&mut body).await.unwrap(), next(&mut body).await.unwrap()];
            let ends = if driver_first { ["driver_exited", "exited"] } else { ["exited", "driver_exited"] };
            assert_eq!(told.map(|line| line["type"].clone()), ends);
        }
    }

    #[tokio::test]
    async fn a_reader_that_lags_is_cut_off_and_counted_out() {
        let status = Arc::new(Status::new());
        let body = stream(&status);
        assert_eq!(*status.readers().borrow(), 1);
        for _ in 0..=BACKLOG {
            status.publish(&WorkerEvent::Unresponsive);
        }
        let seen = body.into_data_stream().count().await;
        assert_eq!(seen, 1, "only the state, which stood apart");
        assert_eq!(*status.readers().borrow(), 0);
    }
}
