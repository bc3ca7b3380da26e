//! Windows that are to be as large as can be. Browsers and the display's window manager see to it, except where a grid's
//! client has named a screen, whose size the display does not take, and on WebKit, whose driver waits for what never comes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use warmpool_protocol::Size;

use super::{Answer, Command, forward};
use crate::Error;
use crate::session::{Ending, Session};
use warmpool_config::Config;
use warmpool_core::browser::Engine;
use warmpool_workers::worker::{AgentError, Body, PAGE, full};

/// No list of window handles and no window's place is longer, in bytes.
const ANSWER_LIMIT: usize = 1 << 20;

/// How long WebKit's driver is given between two questions for its window's size, and how many it is asked.
const RESIZE_CHECK: Duration = Duration::from_millis(50);
const RESIZE_CHECKS: u32 = 60;

/// The command that gives a window its place and size.
const RECT: &str = "window/rect";

/// Gives the current window the size of the screen that the client asked for.
/// Errors: those of [`forward`].
pub async fn fill_screen(session: &Arc<Session>, config: &Config, id: &str, size: Size) -> Result<(), Error> {
    let reply = forward(session, config, id, Command::own(RECT), resize(size)).await?;
    // The connection is used again once its reply has been read.
    let status = reply.status();
    let _ = reply.into_body().collect().await;
    if !status.is_success() {
        tracing::debug!(session = %session.id, %status, "the window keeps its size");
    }
    Ok(())
}

/// The size to give the window in the place of a command that would fill the display; `None` for all others.
pub(super) fn to_fill(session: &Session, method: &Method, command: &Command) -> Option<Size> {
    let fills = command.is("window/maximize") || command.is("window/fullscreen");
    let own = (session.options.engine == Engine::Webkit).then_some(PAGE);
    session.options.screen.or(own).filter(|_| *method == Method::POST && fills)
}

/// The command that gives a window this size, with its request.
pub(super) fn fill(size: Size) -> (Command, Request<Body>) {
    (Command::own(RECT), resize(size))
}

/// The driver's answer once the window has this size. WebKit's driver may answer before its window has changed: it is
/// asked again, for some three seconds at most.
/// Errors: those of the agent.
pub(super) async fn filled(
    session: &Session,
    id: &str,
    size: Size,
    response: Response<Incoming>,
) -> Result<Response<Answer>, AgentError> {
    let (mut parts, body) = response.into_parts();
    let mut body = whole(body).await?;
    for _ in 0..RESIZE_CHECKS {
        let rect: Value = serde_json::from_slice(&body).unwrap_or_default();
        let fills = rect["value"]["width"] == size.width && rect["value"]["height"] == size.height;
        if fills || !parts.status.is_success() || session.options.engine != Engine::Webkit {
            break;
        }
        tokio::time::sleep(RESIZE_CHECK).await;
        let path = Command::own(RECT).path_in(id);
        let asked = session.worker.driver.forward(&path, Request::new(full("")), false).await?;
        if asked.status().is_success() {
            body = whole(asked.into_body()).await?;
            parts.headers.insert(CONTENT_LENGTH, body.len().into());
        }
    }
    Ok(Response::from_parts(parts, in_memory(body)))
}

/// Whether a command closes a window.
pub(super) fn closes(method: &Method, command: &Command) -> bool {
    *method == Method::DELETE && command.is("window")
}

/// Passes on the answer to a command that closed a window. The last one takes the driver's session with it, by the
/// standard, and so it takes ours, whether or not the browser stays.
/// Errors: when the answer broke off.
pub(super) async fn closed(session: &Session, response: Response<Incoming>) -> Result<Response<Answer>, AgentError> {
    let (parts, body) = response.into_parts();
    let body = whole(body).await?;
    let left: Value = serde_json::from_slice(&body).unwrap_or_default();
    if parts.status.is_success() && left["value"].as_array().is_some_and(Vec::is_empty) {
        session.end(Ending::DriverQuit);
    }
    Ok(Response::from_parts(parts, in_memory(body)))
}

pub(super) async fn whole(body: Incoming) -> Result<Bytes, AgentError> {
    let body = Limited::new(body, ANSWER_LIMIT).collect().await;
    Ok(body.map_err(AgentError::Broken)?.to_bytes())
}

pub(super) fn in_memory(body: Bytes) -> Answer {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

fn resize(size: Size) -> Request<Body> {
    let rect = json!({"x": 0, "y": 0, "width": size.width, "height": size.height});
    let mut request = Request::new(full(rect.to_string()));
    *request.method_mut() = Method::POST;
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request
}
