//! Server-sent events, read from an answer as they come, and those of a task.

use std::time::Duration;

use bytes::BytesMut;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use warmpool_api::task::{ItemView, ProgressEvent, TaskView};

use super::error::ClientError;
use super::http::{Caller, broken};

/// What a request accepts that wants events.
pub(super) const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
/// How long a stream that broke is taken up again.
const RESUME_FOR: Duration = Duration::from_secs(60);
/// The pause between two attempts at that.
pub(super) const RESUME_EVERY: Duration = Duration::from_millis(500);

/// The longest event, in bytes.
const LONGEST: usize = 64 << 20;

/// What happened to a task.
pub(super) enum Event {
    /// Its status changed.
    Task(Box<TaskView>),
    /// Its work goes on.
    Progress(ProgressEvent),
    /// The status of one of its items changed.
    Item(Box<ItemView>),
    /// It ended; this is the whole answer, too.
    End(Box<TaskView>, Value),
}

impl Event {
    /// Reads an event; `None` for one of a later release.
    fn read(name: &str, data: Value) -> Result<Option<Self>, serde_json::Error> {
        Ok(match name {
            "task" => Some(Self::Task(serde_json::from_value(data)?)),
            "item" => Some(Self::Item(serde_json::from_value(data)?)),
            "end" => Some(Self::End(Deserialize::deserialize(&data)?, data)),
            "progress" => serde_json::from_value(data).ok().map(Self::Progress),
            _ => None,
        })
    }
}

/// The events of one answer.
pub(super) struct Events {
    body: Incoming,
    text: BytesMut,
}

impl Events {
    pub(super) fn new(response: Response<Incoming>) -> Self {
        Self { body: response.into_body(), text: BytesMut::new() }
    }

    /// Asks for the stream at a path, and again while the daemon is away or busy, until `RESUME_FOR` has passed since `broken`.
    /// Errors: those of a request, when they are for good or that time is over.
    pub(super) async fn resume(caller: &Caller, path: &str, broken: Instant) -> Result<Self, ClientError> {
        loop {
            let headers = HeaderMap::from_iter([(ACCEPT, EVENT_STREAM)]);
            match caller.send(Method::GET, path, headers, None).await {
                Ok(reply) => return Ok(Self::new(reply)),
                // A key that was revoked would count as a failed sign-in each time, for everybody at this address.
                Err(error) if !error.may_pass() || broken.elapsed() > RESUME_FOR => return Err(error),
                Err(_) => sleep(RESUME_EVERY).await,
            }
        }
    }

    /// Returns the next event of a task; none when the stream is over or broke off.
    /// Errors: [`ClientError::Unreachable`] for a task that cannot be read.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        while let Some((name, data)) = self.next_of_any_kind().await {
            if let Some(event) = Event::read(&name, data).map_err(|error| broken(&error))? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Returns the name and the data of the next event; none when the stream is over or broke off.
    pub(super) async fn next_of_any_kind(&mut self) -> Option<(String, Value)> {
        loop {
            while let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
                let block = self.text.split_to(end + 2);
                // A block without data is a sign of life.
                if let Some(event) = parse(&String::from_utf8_lossy(&block)) {
                    return Some(event);
                }
            }
            let frame = if self.text.len() > LONGEST { None } else { self.body.frame().await };
            let Some(Ok(frame)) = frame else { return None };
            if let Some(data) = frame.data_ref() {
                self.text.extend_from_slice(data);
            }
        }
    }
}

/// One block of lines. The daemon's data is JSON, and so one line.
fn parse(block: &str) -> Option<(String, Value)> {
    let field = |name: &str| {
        block
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(|text| text.trim_start_matches(' '))
    };
    let data = serde_json::from_str(field("data")?).ok()?;
    Some((field("event").unwrap_or("message").to_owned(), data))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keep_alives_are_no_events() {
        assert_eq!(parse("event: end\ndata: {\"a\":1}\n\n"), Some(("end".to_owned(), json!({"a": 1}))));
        assert_eq!(parse("data:2\n\n"), Some(("message".to_owned(), json!(2))));
        assert_eq!(parse(":\n\n"), None);
    }

    #[test]
    fn progress_of_later_releases_is_passed_over() {
        let read = |data: Value| Event::read("progress", data).unwrap();
        assert!(matches!(read(json!({"type": "rows", "rows": 1, "pages": 1, "more": 0})), Some(Event::Progress(_))));
        assert!(read(json!({"type": "dance"})).is_none());
        assert!(Event::read("dance", json!({})).unwrap().is_none());
        assert!(Event::read("end", json!({})).is_err());
    }
}
