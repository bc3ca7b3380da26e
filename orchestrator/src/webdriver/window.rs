//! Windows without a window manager: a worker's display has none, so nobody would make a window as large as can be, and
//! drivers that ask for it fail. What maximizing means is done by giving the window the size of the screen.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request};
use http_body_util::BodyExt as _;
use serde_json::json;

use super::forward;
use crate::config::Config;
use crate::engine::Mode;
use crate::error::Error;
use crate::look::Viewport;
use crate::session::Session;
use crate::worker::{Body, DISPLAY, full};

/// Gives the current window the size of the screen that the client asked for.
///
/// # Errors
/// Those of [`forward`].
pub async fn fill_screen(session: &Arc<Session>, config: &Config, id: &str, size: Viewport) -> Result<(), Error> {
    let path = format!("/session/{id}/window/rect");
    let reply = forward(session, config, id, &path, resize(size)).await?;
    // The connection is used again once its reply has been read.
    let status = reply.status();
    let _ = reply.into_body().collect().await;
    if !status.is_success() {
        tracing::debug!(session = %session.id, %status, "the window keeps its size");
    }
    Ok(())
}

/// The command to send in the place of one that needs a window manager, with its path; `None` for all others.
pub(super) fn stand_in(session: &Session, id: &str, method: &Method, path: &str) -> Option<(String, Request<Body>)> {
    let command = path.strip_prefix("/session/")?.strip_prefix(id)?;
    let needs_manager = *method == Method::POST && command == "/window/maximize";
    if !needs_manager || session.options.mode != Mode::Headed {
        return None;
    }
    Some((format!("/session/{id}/window/rect"), resize(session.options.screen.unwrap_or(DISPLAY))))
}

fn resize(size: Viewport) -> Request<Body> {
    let rect = json!({"x": 0, "y": 0, "width": size.width, "height": size.height});
    let mut request = Request::new(full(rect.to_string()));
    *request.method_mut() = Method::POST;
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request
}
