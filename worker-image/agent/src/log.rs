//! What happens in the browser, for the daemon to write down, in a session that asks for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::Stream;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;
use warmpool_protocol::LogLine;

use crate::body::{Body, BodyError};
use crate::error::ApiError;

/// Lines that may wait for the daemon, and their bytes; further ones are counted.
const MAX_LINES: usize = 4096;
const MAX_BYTES: usize = 8 << 20;
/// How long a first page waits for the daemon that is to see it.
const DAEMON_LIMIT: Duration = Duration::from_secs(2);

/// The lines that wait for the daemon. Nothing is kept before it begins.
#[derive(Default)]
pub(crate) struct Log {
    waiting: Mutex<Option<Waiting>>,
    changed: Notify,
    /// The daemon listens to the browser itself.
    daemon_listens: Notify,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Bytes>,
    bytes: usize,
    missed: u64,
}

impl Log {
    /// Keeps lines from now on.
    pub(crate) fn begin(&self) {
        self.waiting.lock().get_or_insert_default();
    }

    /// Whether lines are kept.
    pub(crate) fn has_begun(&self) -> bool {
        self.waiting.lock().is_some()
    }

    /// `POST /log`: the daemon listens to the browser itself, and the first page may open.
    pub(crate) fn daemon_listens(&self) {
        self.daemon_listens.notify_one();
    }

    /// Waits until the daemon listens to the browser, but not for long.
    pub(crate) async fn wait_for_daemon(&self) {
        if timeout(DAEMON_LIMIT, self.daemon_listens.notified()).await.is_err() {
            tracing::info!("the first page opens although nobody listens for the log");
        }
    }

    /// Adds a line, if lines are kept.
    pub(crate) fn write(&self, line: &LogLine) {
        let mut waiting = self.waiting.lock();
        let Some(waiting) = waiting.as_mut() else { return };
        if let LogLine::Missed { count } = line {
            waiting.missed = waiting.missed.saturating_add(*count);
        } else {
            let line = serialized(line);
            if waiting.lines.len() < MAX_LINES && waiting.bytes + line.len() <= MAX_BYTES {
                waiting.bytes += line.len();
                waiting.lines.push_back(line);
            } else {
                waiting.missed += 1;
            }
        }
        self.changed.notify_one();
    }

    /// The next line, once there is one.
    async fn next(&self) -> Bytes {
        loop {
            let changed = self.changed.notified();
            if let Some(waiting) = self.waiting.lock().as_mut() {
                if let Some(line) = waiting.lines.pop_front() {
                    waiting.bytes -= line.len();
                    return line;
                }
                match std::mem::take(&mut waiting.missed) {
                    0 => {}
                    count => return serialized(&LogLine::Missed { count }),
                }
            }
            changed.await;
        }
    }
}

fn serialized(line: &LogLine) -> Bytes {
    let mut line = serde_json::to_vec(line).unwrap_or_default();
    line.push(b'\n');
    line.into()
}

/// The time, in Unix milliseconds.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// `GET /log`: the lines that wait, and those that come, each once.
/// Fails when the session's launch did not ask for a log.
pub(crate) fn stream(log: Arc<Log>) -> Result<Response<Body>, ApiError> {
    if !log.has_begun() {
        return Err(ApiError::not_found("no log is kept here: a launch asks for it by \"log\""));
    }
    let mut response = Response::new(StreamBody::new(lines(log)).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    Ok(response)
}

fn lines(log: Arc<Log>) -> impl Stream<Item = Result<Frame<Bytes>, BodyError>> {
    futures_util::stream::unfold(log, |log| async move { Some((Ok(Frame::data(log.next().await)), log)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn line(name: &str) -> LogLine {
        LogLine::Download { time: 1, name: name.to_owned(), url: None }
    }

    async fn next(log: &Log) -> Value {
        serde_json::from_slice(&log.next().await).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_waits_for_a_daemon_but_not_for_ever() {
        let log = Log::default();
        let begun = tokio::time::Instant::now();
        log.wait_for_daemon().await;
        assert_eq!(begun.elapsed(), DAEMON_LIMIT);
        log.daemon_listens();
        log.wait_for_daemon().await;
        assert_eq!(begun.elapsed(), DAEMON_LIMIT);
    }

    #[tokio::test]
    async fn lines_wait_within_bounds_once_it_has_begun() {
        let log = Arc::new(Log::default());
        log.write(&line("early"));
        assert!(stream(Arc::clone(&log)).is_err());
        log.begin();
        for number in 0..=MAX_LINES {
            log.write(&line(&number.to_string()));
        }
        log.write(&LogLine::Missed { count: 2 });
        for number in 0..MAX_LINES {
            assert_eq!(next(&log).await["name"], number.to_string());
        }
        assert_eq!(next(&log).await["count"], 3);
        let long = "x".repeat(MAX_BYTES / 2);
        log.write(&line(&long));
        log.write(&line(&long));
        assert_eq!(next(&log).await["type"], "download");
        assert_eq!(next(&log).await["count"], 1);
        let (late, ()) = tokio::join!(next(&log), async { log.write(&line("late")) });
        assert_eq!(late["name"], "late");
    }
}
