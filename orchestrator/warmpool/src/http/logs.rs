//! `/sessions/<id>/logs` and `/har`: what happened in a session, also after its end.

use axum::extract::{Path, State};
use axum::response::Response;
use axum::response::sse::Event;
use futures_util::stream;
use http::header::{CONTENT_DISPOSITION, HeaderValue};
use http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;

use super::App;
use super::auth::Caller;
use super::headers::wants;
use super::openapi::{EVENTS, Operation, Routes};
use super::query::Query;
use super::reply::json_reply;
use super::sessions::OF_SESSION;
use super::sse;
use crate::http::error::Error;
use warmpool_api::AnyObject;
use warmpool_api::log::{LogEntry, SessionLog};
use warmpool_core::error::Code;
use warmpool_sessions::logs::{Follower, har as as_har};

/// Which entries of a log are wanted.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct LogQuery {
    /// Only entries behind this number.
    after: u64,
    /// Whether the answer is a stream of events until the session's end; the header `Accept: text/event-stream` asks for it, too.
    follow: bool,
}

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get(
            "/sessions/{id}/logs",
            read,
            Operation::new("get_session_logs", "Read what happened in a session", OF_SESSION.takes::<LogQuery>())
                .about(
                    "Of a session that was created with `logs`, also after its end, as long as `logs.keep_ended` keeps it. Console, \
                     page errors, requests and downloads; `left_out` names what may be missing.",
                )
                .writes::<SessionLog>("The log.")
                .writes_text(EVENTS, "Each entry as an event `entry`, and `end` at the session's end.")
                .fails(&[Code::UnknownSession, Code::Conflict]),
        )
        .get(
            "/sessions/{id}/har",
            har,
            Operation::new("get_session_har", "Read the requests of a session as HAR 1.2", OF_SESSION)
                .about(
                    "Of a session that was created with `logs`, also after its end, as long as `logs.keep_ended` keeps it. Bodies are \
                     not kept, and of headers those values alone that say nothing of who asks.",
                )
                .writes::<AnyObject>("The requests that are done.")
                .fails(&[Code::UnknownSession, Code::Conflict]),
        )
}

/// `GET /sessions/<id>/logs`
pub(super) async fn read(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
    Query(query): Query<LogQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let log = app.sessions.find_log(&id, &key)?;
    if query.follow || wants(&headers, "text/event-stream") {
        return Ok(sse::respond(events(log.buffer.follow(query.after))));
    }
    Ok(json_reply(StatusCode::OK, &log.read(query.after)))
}

/// `GET /sessions/<id>/har`
async fn har(State(app): State<App>, Caller(key): Caller, Path(id): Path<String>) -> Result<Response, Error> {
    let log = app.sessions.find_log(&id, &key)?;
    let mut response = json_reply(StatusCode::OK, &as_har(&log.buffer, log.browser().as_deref(), &log.left_out()));
    response
        .headers_mut()
        .insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"session.har\""));
    Ok(response)
}

/// The entries as they come, and the end.
fn events(follower: Follower) -> impl stream::Stream<Item = Result<Event, axum::Error>> {
    let chunks = stream::unfold(Some(follower), |follower| async move {
        let mut follower = follower?;
        match follower.next().await {
            Some(entries) => Some((entries.iter().map(written).collect(), Some(follower))),
            None => Some((vec![Event::default().event("end").json_data(serde_json::json!({}))], None)),
        }
    });
    futures_util::StreamExt::flat_map(chunks, |events: Vec<_>| stream::iter(events))
}

fn written(entry: &LogEntry) -> Result<Event, axum::Error> {
    Event::default().event("entry").id(entry.seq.to_string()).json_data(entry)
}
