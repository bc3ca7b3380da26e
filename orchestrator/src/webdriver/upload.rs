//! Selenium's remote upload, which drivers do not serve: a zip with one file, base64 in JSON. It goes to the agent while it
//! arrives.

use std::sync::Arc;

use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request};
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::archive::Archive;
use super::{check_id, verdict};
use crate::error::{Cause, Error};
use crate::session::Session;
use crate::worker::Body;

/// No answer of the agent is longer, in bytes.
const REPLY_LIMIT: usize = 1 << 20;

/// Uploads a file; gives the path that it has inside the worker.
///
/// # Errors
/// `InvalidBody`, `Field`, and those of [`forward`](super::forward).
pub(crate) async fn upload(session: &Arc<Session>, id: &str, body: Body) -> Result<Value, Error> {
    check_id(session, id)?;
    let _busy = session.busy();
    let (sender, fault) = oneshot::channel();
    let mut request = Request::new(unpacked(body, sender));
    *request.method_mut() = Method::POST;
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/zip"));
    let sending = session.worker.agent.send("/files/archive", request);
    tokio::select! {
        biased;
        // What the body has to say comes before what the agent makes of half of it.
        Ok(error) = fault => Err(error),
        sent = sending => match sent {
            Ok(response) => answer(response).await,
            Err(error) => Err(verdict(session, error).await),
        },
    }
}

async fn answer(response: http::Response<hyper::body::Incoming>) -> Result<Value, Error> {
    let status = response.status();
    let body = Limited::new(response.into_body(), REPLY_LIMIT).collect().await;
    let body = body.map_err(|error| Error::worker("the upload broke off", error))?.to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    match answer["path"].as_str() {
        Some(path) if status.is_success() => Ok(json!(path)),
        _ => {
            let message = answer["error"]["message"].as_str().unwrap_or("the worker gives no reason");
            Err(Error::invalid("file", format!("was refused: {message}")))
        }
    }
}

/// The zip in a body. What is wrong with the body is told to `fault`, and breaks the zip off.
fn unpacked(body: Body, fault: oneshot::Sender<Error>) -> Body {
    let state = Some((body, Archive::default(), fault));
    let frames = stream::unfold(state, async |state| {
        let (mut body, mut archive, fault) = state?;
        loop {
            let unpacked = match body.frame().await {
                // Whoever made the body has been told.
                Some(Err(error)) => return Some((Err(error), None)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => archive.feed(&data),
                    Err(_) => continue,
                },
                None => {
                    let rest = archive.finish().map(|rest| Frame::data(rest.into()));
                    return Some((rest.map_err(|error| blame(fault, error)), None));
                }
            };
            match unpacked {
                Ok(zip) if zip.is_empty() => {}
                Ok(zip) => return Some((Ok(Frame::data(zip.into())), Some((body, archive, fault)))),
                Err(error) => return Some((Err(blame(fault, error)), None)),
            }
        }
    });
    BodyExt::boxed_unsync(StreamBody::new(frames))
}

fn blame(fault: oneshot::Sender<Error>, error: Error) -> Cause {
    let told = error.to_string();
    let _ = fault.send(error);
    told.into()
}
