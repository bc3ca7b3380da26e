//! Windows without a window manager: a worker's display has none, so nobody would make a window as large as can be, and
//! drivers that ask for it wait in vain. What it means is done by giving the window the size of the screen.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use warmpool_protocol::{HEADLESS_FIREFOX_DISPLAY, Size};

use super::{Answer, Command, forward};
use crate::config::Config;
use crate::engine::{Engine, Mode};
use crate::error::Error;
use crate::session::{Ending, Session};
use crate::worker::{Body, DISPLAY, full};

/// No list of window handles is longer, in bytes.
const HANDLES_LIMIT: usize = 1 << 20;

/// The command that gives a window its place and size.
const RECT: &str = "window/rect";

/// Gives the current window the size of the screen that the client asked for.
/// Errors: those of [`forward`].
pub(crate) async fn fill_screen(session: &Arc<Session>, config: &Config, id: &str, size: Size) -> Result<(), Error> {
    let reply = forward(session, config, id, Command::own(RECT), resize(size)).await?;
    // The connection is used again once its reply has been read.
    let status = reply.status();
    let _ = reply.into_body().collect().await;
    if !status.is_success() {
        tracing::debug!(session = %session.id, %status, "the window keeps its size");
    }
    Ok(())
}

/// The command to send in the place of one that needs a window manager, with its request; `None` for all others.
pub(super) fn stand_in(session: &Session, method: &Method, command: &Command) -> Option<(Command, Request<Body>)> {
    // Chromium makes its windows cover the screen by itself.
    let covers = || command.is("window/fullscreen") && session.options.engine != Engine::Chromium;
    let fills = command.is("window/maximize") || covers();
    if *method != Method::POST || !fills {
        return None;
    }
    let screen = screen(session)?;
    Some((Command::own(RECT), resize(session.options.screen.unwrap_or(screen))))
}

/// The size of the display that the browser's windows are on; `None` where it pretends one and manages it.
fn screen(session: &Session) -> Option<Size> {
    match (session.options.engine, session.options.mode) {
        (Engine::Chromium, Mode::Headless) => None,
        (Engine::Firefox, Mode::Headless) => Some(HEADLESS_FIREFOX_DISPLAY),
        (Engine::Chromium | Engine::Firefox | Engine::Webkit, _) => Some(DISPLAY),
    }
}

/// Whether a command closes a window.
pub(super) fn closes(method: &Method, command: &Command) -> bool {
    *method == Method::DELETE && command.is("window")
}

/// Passes on the answer to a command that closed a window. The last one takes the driver's session with it, by the
/// standard, and so it takes ours, whether or not the browser stays.
/// Errors: `Worker` when the answer broke off.
pub(super) async fn closed(session: &Session, response: Response<Incoming>) -> Result<Response<Answer>, Error> {
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, HANDLES_LIMIT).collect().await;
    let body = body.map_err(|error| Error::worker("the driver's answer broke off", error))?.to_bytes();
    let left: Value = serde_json::from_slice(&body).unwrap_or_default();
    if parts.status.is_success() && left["value"].as_array().is_some_and(Vec::is_empty) {
        session.end(Ending::DriverQuit);
    }
    Ok(Response::from_parts(parts, Full::new(body).map_err(|never| match never {}).boxed_unsync()))
}

fn resize(size: Size) -> Request<Body> {
    let rect = json!({"x": 0, "y": 0, "width": size.width, "height": size.height});
    let mut request = Request::new(full(rect.to_string()));
    *request.method_mut() = Method::POST;
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request
}
