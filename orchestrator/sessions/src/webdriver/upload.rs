//! Selenium's remote upload, which drivers do not serve: a zip with one file, base64 in JSON. It goes to the agent while it
//! arrives.

use std::sync::Arc;

use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::sync::oneshot;

use super::archive::Archive;
use super::{check_id, explain_no_answer};
use crate::Error;
use crate::session::Session;
use warmpool_core::error::{Cause, FieldFault as _};
use warmpool_workers::worker::{AgentError, Body};

/// Uploads a file. Returns the path that it has inside the worker.
/// Errors: `InvalidBody`, `Field`, and those of [`forward`](super::forward).
pub async fn upload(session: &Arc<Session>, id: &str, body: Body) -> Result<String, Error> {
    check_id(session, id)?;
    let _busy = session.busy();
    let (sender, fault) = oneshot::channel();
    let sending = session.worker.agent.store_zip(unpacked(body, sender));
    tokio::select! {
        biased;
        // What the body has to say comes before what the agent makes of half of it.
        Ok(error) = fault => Err(error),
        sent = sending => match sent {
            Ok(stored) => Ok(stored.path),
            Err(AgentError::Refused { message, .. }) => Err(Error::invalid("file", format!("was refused: {message}"))),
            Err(error) => Err(explain_no_answer(session, error).await),
        },
    }
}

/// The zip in a body. An error in the body goes to `fault` and ends the zip.
fn unpacked(body: Body, fault: oneshot::Sender<Error>) -> Body {
    let state = Some((body, Archive::default(), fault));
    let frames = stream::unfold(state, async |state| {
        let (mut body, mut archive, fault) = state?;
        loop {
            let unpacked = match body.frame().await {
                // `fault` has the error already.
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
