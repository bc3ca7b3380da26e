//! The WebDriver forwarder: commands go to the driver in the session's worker as they came, and so do the answers.
//!
//! Only the new session is looked into: `capabilities` decides what a client may ask for and whether the warm browser
//! can be what it asks, and its URLs are rewritten in the reply. Quitting ends the Warmpool session.
//! `command` reads the part of a path behind the driver session's id, `window` makes windows as large as they are to be. `upload` and
//! `downloads` are Selenium's calls for files, and `archive` unpacks an upload while it arrives.

mod archive;
mod capabilities;
mod command;
mod downloads;
mod upload;
mod window;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::Instrument as _;

use crate::Error;
use crate::net_errors;
use crate::session::{DriverOpening, DriverSession, Ending, Session, Sessions, UnconfirmedSession};
use warmpool_config::Config;
use warmpool_core::blocking;
use warmpool_core::browser::Engine;
use warmpool_core::error::ServiceFault as _;
use warmpool_workers::worker::{AgentError, Body, Content, unless_silent};

use capabilities::{Allowed, Plan};
/// The parsers of this module, for the fuzzer.
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing {
    pub use super::archive::fuzzing as archive;
    pub use super::capabilities::fuzzing as capabilities;
}

pub use capabilities::{WARMPOOL_OPTIONS, candidates, is_known, match_options};
pub use command::Command;
pub use downloads::{download, downloads, remove_downloads};
pub use upload::upload;
pub use window::fill_screen;

/// A driver's answer, streamed.
pub type Answer = Content;

/// The largest answer of a driver that is searched for the name of an error, in bytes.
const NAMED_LIMIT: u64 = 64 << 10;
/// What a driver hears of a request's head. All else is between its client and the daemon: keys, cookies, and what a proxy adds.
const FOR_DRIVERS: [HeaderName; 3] = [ACCEPT, CONTENT_LENGTH, CONTENT_TYPE];
/// What a client hears of the head of a driver's answer. A worker that a page has taken over may write any other.
const FOR_CLIENTS: [HeaderName; 2] = [CACHE_CONTROL, CONTENT_LENGTH];
/// How long to wait for the news of why a worker does not answer.
const VERDICT_GRACE: Duration = Duration::from_secs(5);

/// `POST /session`: makes the one driver session of this Warmpool session. `sockets` is the session's WebDriver address as a
/// websocket. The capabilities of the answer name, under [`WARMPOOL_OPTIONS`], what the client asked for without effect. Once the
/// driver has been asked that goes on without the caller; where nobody takes the answer the Warmpool session ends.
/// Errors: `Capability`, `InvalidBody`, `Field`, `Conflict` when there is one, `DiskNearlyFull`, `StoreBusy`, and those of
/// [`forward`].
pub async fn new_session(
    sessions: &Sessions,
    session: &Arc<Session>,
    config: &Config,
    sockets: &str,
    body: &Value,
) -> Result<(StatusCode, Bytes), Error> {
    let busy = session.busy();
    session.wait_for_gate().await?;
    let warm = session.worker.snapshot.borrow().identity.clone();
    // A profile of Firefox's in them takes a while to look through.
    let plan = || capabilities::plan(body, session.options.engine, &warm.args, &Allowed::from_config(config));
    let plan = blocking::in_place(plan)?;
    let opening = session.open_driver()?;
    let (theirs, limit) = (Arc::clone(session), config.webdriver.command_timeout);
    let (making, sockets) = (sessions.clone(), sockets.to_owned());
    let making = async move {
        let _busy = busy;
        make(&making, &theirs, opening, plan, &sockets, limit).await
    };
    // A driver makes what it was asked for, whoever waits for it.
    let made = sessions.spawn(making.in_current_span()).await.map_err(Error::internal)??;
    if let Some(unconfirmed) = made.unconfirmed {
        unconfirmed.confirm()?;
    }
    Ok((made.status, made.body))
}

/// What a driver has answered to a new session.
struct Made {
    status: StatusCode,
    body: Bytes,
    /// Where it made one. Nobody but its caller learns its id, so without them there is nothing to be done with it.
    unconfirmed: Option<UnconfirmedSession>,
}

/// Asks the driver for the planned session, which it has to make within `limit`.
async fn make(
    sessions: &Sessions,
    session: &Arc<Session>,
    opening: DriverOpening,
    plan: Plan,
    sockets: &str,
    limit: Duration,
) -> Result<Made, Error> {
    sessions.use_client_proxy(session, plan.proxy).await?;
    let reply = session.worker.agent.driver_session(plan.mode, plan.capabilities, limit).await;
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => return Err(explain_no_answer(session, error).await),
    };
    if !reply.status.is_success() {
        return Ok(Made { status: reply.status, body: reply.body, unconfirmed: None });
    }
    let mut answer: Value = serde_json::from_slice(&reply.body)
        .map_err(|error| Error::worker("the driver's answer cannot be read", error))?;
    let id = answer["value"]["sessionId"].as_str().map(str::to_owned);
    // It becomes a part of paths, and a worker that a page has taken over may answer what it likes.
    let Some(id) = id.filter(|id| is_driver_id(id)) else {
        return Err(Error::worker("the driver's answer has no session id", "no usable value.sessionId"));
    };
    if let Some(found) = answer["value"]["capabilities"].as_object_mut() {
        // The standard's own path of BiDi; Selenium for Node knows DevTools by `se/cdp` below it.
        let driver = format!("{sockets}/session/{id}");
        // Clients take this for the address of Chromium's protocol.
        if session.options.engine == Engine::Chromium {
            found.insert("se:cdp".to_owned(), json!(format!("{driver}/se/cdp")));
            // A driver that was attached to its browser does not know where that runs, nor that its windows obey.
            if found.get("platformName") == Some(&json!("")) {
                found.insert("platformName".to_owned(), json!("linux"));
            }
            found.insert("setWindowRect".to_owned(), json!(true));
            // Selenium for Python connects only when it knows the protocol's version too.
            if let Some(version) = found.get("browserVersion").cloned() {
                found.insert("se:cdpVersion".to_owned(), version);
            }
        }
        if found.get("webSocketUrl").is_some_and(Value::is_string) {
            found.insert("webSocketUrl".to_owned(), json!(driver));
        }
        if !plan.warnings.is_empty() {
            tracing::info!(session = %session.id, warnings = ?plan.warnings, "capabilities without effect");
            found.insert(WARMPOOL_OPTIONS.to_owned(), json!({"warnings": plan.warnings}));
        }
    }
    let unconfirmed = Some(UnconfirmedSession::new(Arc::clone(session)));
    sessions.driver_opened(session, opening, id).await;
    Ok(Made { status: reply.status, body: Bytes::from(answer.to_string()), unconfirmed })
}

/// Refuses what no session of this engine could fulfil, before a worker is spent on it.
/// Errors: `Capability`, `InvalidBody`, `Field`.
pub fn check_capabilities(body: &Value, engine: Engine, config: &Config) -> Result<(), Error> {
    blocking::in_place(|| capabilities::plan(body, engine, &[], &Allowed::from_config(config))).map(drop)
}

/// `DELETE /session/<id>`: the client is done. The worker goes, so the driver needs no telling.
/// Errors: `UnknownSession` when `id` is not the driver session, and `Draining` where the store was closed before it had the end.
pub async fn quit(session: &Arc<Session>, id: &str) -> Result<(), Error> {
    check_id(session, id)?;
    session.end(Ending::DriverQuit);
    session.end_persisted().await
}

/// Forwards one command to the driver and streams its answer back. Nothing but `/session/<id>/<command>` can reach the
/// driver this way. The command is under way until its answer has been read. The driver may pause no longer in its answer than before
/// it: the body fails then.
/// Errors: `UnknownSession` for another driver session's id, `SessionEnded`, `Worker`, `WorkerTimeout`.
pub async fn forward(
    session: &Arc<Session>,
    config: &Config,
    id: &str,
    mut command: Command,
    mut request: Request<Body>,
) -> Result<Response<Answer>, Error> {
    check_id(session, id)?;
    let busy = session.busy();
    session.wait_for_gate().await?;
    let fills = window::to_fill(session, request.method(), &command);
    if let Some(size) = fills {
        (command, request) = window::fill(size);
    }
    let closes = window::closes(request.method(), &command);
    if closes {
        // With the last window the browser goes.
        Box::pin(session.save_before_close()).await;
    }
    *request.headers_mut() = only(&FOR_DRIVERS, request.headers());
    let limit = config.webdriver.command_timeout;
    let (path, passes_agent) = (command.path_in(id), command.passes_agent(session.options.engine));
    let sent = timeout(limit, session.worker.driver.forward(&path, request, passes_agent)).await;
    match sent {
        // No driver says this: it is the agent's word for a driver that does not answer.
        Ok(Ok(response)) if response.status() == StatusCode::BAD_GATEWAY => {
            let error = AgentError::Refused { status: response.status(), message: "no answer".to_owned() };
            Err(explain_no_answer(session, error).await)
        }
        Ok(Ok(mut response)) => {
            *response.headers_mut() = answer_headers(response.headers());
            let read = async {
                if closes {
                    return Box::pin(window::closed(session, response)).await;
                }
                if let Some(size) = fills {
                    return Box::pin(window::filled(session, id, size, response)).await;
                }
                if let Some(name) = error_name(session, &response) {
                    return Box::pin(named(response, name)).await;
                }
                Ok(response.map(|body| {
                    let held = move |frame| {
                        let _ = &busy;
                        frame
                    };
                    unless_silent(body.map_frame(held), limit)
                }))
            };
            let read = timeout(limit, read).await.map_err(|_| Error::WorkerTimeout { after: limit })?;
            read.map_err(|error| Error::worker("the driver's answer broke off", error))
        }
        Ok(Err(error)) => Err(explain_no_answer(session, error).await),
        Err(_) => Err(Error::WorkerTimeout { after: limit }),
    }
}

/// The name of the network's error that this answer may speak of. Others are passed on as they come: a page may have filled them.
fn error_name(session: &Session, answer: &Response<Incoming>) -> Option<&'static str> {
    let is_small = answer.body().size_hint().upper().is_some_and(|size| size <= NAMED_LIMIT);
    let may_have_it = is_small && answer.status() == StatusCode::INTERNAL_SERVER_ERROR;
    session.egress.outcomes().error_name().filter(|_| may_have_it && session.options.engine == Engine::Chromium)
}

/// An answer with this name in the place of Chromium's vague one.
async fn named(answer: Response<Incoming>, name: &str) -> Result<Response<Answer>, AgentError> {
    let (mut parts, body) = answer.into_parts();
    let mut body = window::whole(body).await?;
    if let Some(named) = net_errors::named(name, &body) {
        parts.headers.insert(CONTENT_LENGTH, named.len().into());
        body = named.into();
    }
    Ok(Response::from_parts(parts, window::in_memory(body)))
}

/// Whether a text may be the id of a driver session: one plain segment of a path.
fn is_driver_id(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Fails when `id` is not the driver session of this session.
/// Errors: `UnknownSession`.
pub fn check_id(session: &Session, id: &str) -> Result<(), Error> {
    match session.driver() {
        DriverSession::Open(open) if open == id => Ok(()),
        _ => Err(Error::UnknownSession { id: id.to_owned() }),
    }
}

/// What an unanswered command means: the end of the session, if that is what happened.
pub async fn explain_no_answer(session: &Session, error: AgentError) -> Error {
    match timeout(VERDICT_GRACE, session.ended()).await {
        Ok(ending) => ending.error(&session.id),
        Err(_) => Error::worker("the browser's driver did not answer", error),
    }
}

/// These headers of those that there are, once each.
fn only(names: &[HeaderName], of: &HeaderMap) -> HeaderMap {
    names.iter().filter_map(|name| Some((name.clone(), of.get(name)?.clone()))).collect()
}

/// The head of an answer: JSON by the standard. Geckodriver refuses an unknown method in plain text; a browser makes no page of
/// either, and of all else that a worker may call it, it might.
fn answer_headers(of: &HeaderMap) -> HeaderMap {
    let plain = of.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"));
    let kind = if plain { "text/plain; charset=utf-8" } else { "application/json; charset=utf-8" };
    let mut headers = only(&FOR_CLIENTS, of);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn an_id_is_one_plain_segment() {
        for id in ["f0e1d2c3b4a5968778695a4b3c2d1e0f", "3e8f2c1a-0b4d-4c5e-9f60-718293a4b5c6"] {
            assert!(is_driver_id(id), "{id}");
        }
        for id in ["", "..", "a/b", "a%2Fb", "a?b", &"a".repeat(129)] {
            assert!(!is_driver_id(id), "{id}");
        }
    }

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn what_opens_the_daemon_reaches_no_driver() {
        let sent = headers(&[
            ("accept", "application/json"),
            ("authorization", "Bearer wp_1_2"),
            ("connection", "keep-alive, x-secret"),
            ("content-length", "2"),
            ("content-type", "application/json"),
            ("cookie", "warmpool_console=1"),
            ("service-secret-key", "wp_1_2"),
            ("transfer-encoding", "chunked"),
            ("x-api-key", "wk_live_1"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-secret", "1"),
        ]);
        let heard =
            headers(&[("accept", "application/json"), ("content-length", "2"), ("content-type", "application/json")]);
        assert_eq!(only(&FOR_DRIVERS, &sent), heard);
    }

    #[test]
    fn what_a_worker_writes_beside_its_answer_reaches_no_client() {
        let written = headers(&[
            ("cache-control", "no-cache"),
            ("connection", "close"),
            ("content-length", "14"),
            ("content-type", "text/html"),
            ("location", "https://example.com/"),
            ("set-cookie", "warmpool_console=1"),
        ]);
        let heard = headers(&[
            ("cache-control", "no-cache"),
            ("content-length", "14"),
            ("content-type", "application/json; charset=utf-8"),
            ("x-content-type-options", "nosniff"),
        ]);
        assert_eq!(answer_headers(&written), heard);
    }

    #[test]
    fn a_driver_may_answer_in_plain_text() {
        for (written, heard) in [
            ("text/plain; charset=utf-8", "text/plain; charset=utf-8"),
            ("text/plain; charset=utf-7", "text/plain; charset=utf-8"),
            ("text/html; charset=utf-8", "application/json; charset=utf-8"),
        ] {
            assert_eq!(answer_headers(&headers(&[("content-type", written)]))[CONTENT_TYPE], heard);
        }
    }
}
