//! How a client hears of its task: at once, at its end, or as it goes.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use axum::response::sse::Event as SseEvent;
use futures_util::stream;
use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::App;
use super::headers::{self, wants};
use super::reply::json_reply;
use super::revocation::while_held;
use super::sse;
use crate::http::error::Error;
use warmpool_api::task::TaskView;
use warmpool_config::Config;
use warmpool_tasks::task::{ActiveTask, Record, Task, TaskEvent, record_view};

/// How the answer to a new task is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// The accepted task.
    AtOnce,
    /// The task at its end, or as it is after so long.
    Wait(Duration),
    /// Server-sent events until its end.
    Stream,
}

impl Delivery {
    /// What the headers `Accept` and `Prefer` and the body's `wait` ask for; `wait` is in seconds in both places.
    pub(super) fn of(headers: &HeaderMap, wait: Option<u64>, config: &Config) -> Result<Self, Error> {
        if wants(headers, "text/event-stream") {
            return Ok(Self::Stream);
        }
        Ok(headers::wait(headers, wait, config.tasks.max_wait)?.map_or(Self::AtOnce, Self::Wait))
    }
}

/// Answers a new task by the delivery that was asked for.
pub(super) async fn answer(app: &App, accepted: Task, delivery: Delivery) -> Result<Response, Error> {
    Ok(match (accepted, delivery) {
        (Task::Ended(record), Delivery::Stream) => stream_of(Arc::new(*record)),
        (Task::Ended(record), _) => json_reply(StatusCode::OK, &whole(app, &record).await?),
        (Task::Active(live), Delivery::Stream) => events(live),
        (Task::Active(live), Delivery::AtOnce) => accepted_reply(&live),
        (Task::Active(live), Delivery::Wait(longest)) => {
            let waited = while_held(app, tokio::time::timeout(longest, live.ended())).await?;
            let record = live.record();
            let mut response = if waited.is_ok() && record.status.is_end() {
                json_reply(StatusCode::OK, &whole(app, &record).await?)
            } else {
                accepted_reply(&live)
            };
            headers::note_wait(response.headers_mut(), longest);
            response
        }
    })
}

fn accepted_reply(live: &ActiveTask) -> Response {
    let mut response = json_reply(StatusCode::ACCEPTED, &record_view(&live.record(), None));
    if let Ok(location) = HeaderValue::try_from(format!("/lam/tasks/{}", live.id)) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// A task with all of its output.
pub(super) async fn whole(app: &App, record: &Record) -> Result<TaskView, Error> {
    let output = app.tasks.output(record.task_id, &record.output).await?;
    Ok(record_view(record, Some(output)))
}

/// What happens to a task, from its state now to its end.
pub(super) fn events(live: Arc<ActiveTask>) -> Response {
    // In this order, so that nothing falls between the two.
    let receiver = live.subscribe();
    let first = TaskEvent::status(live.record());
    let source = Source { live, receiver, first: Some(first), over: false };
    let events = stream::unfold(source, |mut source| async move {
        let event = source.next().await?;
        Some((written(&event), source))
    });
    sse::respond(events)
}

/// The one event of a task that has ended.
pub(super) fn stream_of(record: Arc<Record>) -> Response {
    let event = TaskEvent::status(Record::clone(&record));
    sse::respond(stream::once(async move { written(&event) }))
}

fn written(event: &TaskEvent) -> Result<SseEvent, axum::Error> {
    SseEvent::default().event(event.name()).json_data(event.data())
}

struct Source {
    live: Arc<ActiveTask>,
    receiver: broadcast::Receiver<TaskEvent>,
    first: Option<TaskEvent>,
    over: bool,
}

impl Source {
    async fn next(&mut self) -> Option<TaskEvent> {
        if self.over {
            return None;
        }
        let event = match self.first.take() {
            Some(first) => first,
            None => loop {
                tokio::select! {
                    biased;
                    heard = self.receiver.recv() => match heard {
                        Ok(event) => break event,
                        // A slow client misses events, and gets the state again at the end.
                        Err(RecvError::Lagged(_)) => {}
                        Err(RecvError::Closed) => return None,
                    },
                    () = self.live.ended() => {
                        self.over = true;
                        break TaskEvent::status(self.live.record());
                    }
                }
            },
        };
        self.over |= event.name() == "end";
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_config::{Flags, Host};
    use warmpool_core::error::Fault as _;

    fn delivery(headers: &[(&'static str, &'static str)], wait: Option<u64>) -> Result<Delivery, Error> {
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Config::resolve(None, Vec::new(), &Flags::default(), &host).unwrap();
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        Delivery::of(&headers.collect(), wait, &config)
    }

    #[test]
    fn the_delivery_is_read_from_headers_and_body() {
        let wait = |seconds| Delivery::Wait(Duration::from_secs(seconds));
        assert_eq!(delivery(&[], None).unwrap(), Delivery::AtOnce);
        assert_eq!(delivery(&[], Some(0)).unwrap(), Delivery::AtOnce);
        assert_eq!(delivery(&[], Some(7)).unwrap(), wait(7));
        assert_eq!(delivery(&[("prefer", "respond-async, wait=10")], None).unwrap(), wait(10));
        assert_eq!(delivery(&[("prefer", "wait=10")], Some(3)).unwrap(), wait(3));
        assert_eq!(delivery(&[("prefer", "wait=99999")], None).unwrap(), wait(600));
        assert_eq!(delivery(&[("prefer", "wait=soon")], None).unwrap(), Delivery::AtOnce);
        assert_eq!(delivery(&[("accept", "text/event-stream")], Some(3)).unwrap(), Delivery::Stream);
        assert_eq!(delivery(&[], Some(601)).unwrap_err().field(), Some("wait"));
    }
}
