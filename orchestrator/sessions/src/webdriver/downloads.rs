//! Managed downloads, as Selenium's clients fetch them from a grid: names, one file as a zip in base64, all removed.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{Stream, stream};
use http::StatusCode;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use warmpool_core::error::{Cause, ServiceFault as _};
use warmpool_protocol::{File, FileSource};

use super::{check_id, explain_no_answer};
use crate::Error;
use crate::session::{CommandGuard, Session};
use crate::zipped::ZipEncoder;
use warmpool_workers::worker::{AgentError, Content};

/// What the browser has downloaded, and all of it: the names, and more for clients that read it.
/// Errors: `UnknownSession`, `Worker`.
pub async fn downloads(session: &Arc<Session>, id: &str) -> Result<Value, Error> {
    check_id(session, id)?;
    let _busy = session.busy();
    let files = list(session).await?;
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let details: Vec<Value> = files
        .iter()
        .map(|file| {
            json!({"name": file.name, "size": file.size, "creationTime": file.modified_ms,
                "lastModifiedTime": file.modified_ms})
        })
        .collect();
    Ok(json!({"names": names, "files": details}))
}

/// Removes all downloads.
/// Errors: those of [`downloads`].
pub async fn remove_downloads(session: &Arc<Session>, id: &str) -> Result<(), Error> {
    check_id(session, id)?;
    let _busy = session.busy();
    for file in list(session).await? {
        // One that has gone meanwhile is as good as removed.
        match session.worker.agent.remove_file(&file.name).await {
            Ok(()) | Err(AgentError::Refused { .. }) => {}
            Err(error) => return Err(explain_no_answer(session, error).await),
        }
    }
    Ok(())
}

/// One download as the JSON reply that Selenium's clients read: a zip of one file, in base64. It is made while it is
/// read, so that a large file takes no memory.
/// Errors: `UnknownFile`, and those of [`downloads`].
pub async fn download(
    session: &Arc<Session>,
    id: &str,
    name: &str,
) -> Result<impl Stream<Item = Result<Bytes, Cause>> + Send + use<>, Error> {
    check_id(session, id)?;
    let busy = session.busy();
    let unknown = || Error::UnknownFile { name: name.chars().take(100).collect() };
    if !list(session).await?.iter().any(|file| file.name == name) {
        return Err(unknown());
    }
    let file = match session.worker.agent.read_file(name).await {
        Ok(file) => file,
        Err(AgentError::Refused { status: StatusCode::NOT_FOUND, .. }) => return Err(unknown()),
        Err(AgentError::Refused { message, .. }) => {
            return Err(Error::worker("the worker could not serve the file", message));
        }
        Err(error) => return Err(explain_no_answer(session, error).await),
    };
    let mut packer = ZipEncoder::new();
    packer.begin(name).map_err(Error::internal)?;
    let head = format!("{{\"value\":{{\"filename\":{},\"contents\":\"", json!(name));
    let reply = Reply { file, packer: Some(packer), head: Some(head), _busy: busy };
    Ok(stream::try_unfold(reply, Reply::next))
}

async fn list(session: &Arc<Session>) -> Result<Vec<File>, Error> {
    match session.worker.agent.files().await {
        Ok(mut files) => {
            files.retain(|file| file.complete && file.source == FileSource::Download);
            Ok(files)
        }
        Err(error) => Err(explain_no_answer(session, error).await),
    }
}

/// A reply on its way.
struct Reply {
    file: Content,
    /// Gone once the zip is complete.
    packer: Option<ZipEncoder>,
    head: Option<String>,
    _busy: CommandGuard,
}

impl Reply {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, Cause> {
        if let Some(head) = self.head.take() {
            return Ok(Some((head.into(), self)));
        }
        let Some(mut packer) = self.packer.take() else { return Ok(None) };
        loop {
            match self.file.frame().await {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        packer.write(&data)?;
                    }
                    // Base64 encodes three bytes at a time.
                    let text = STANDARD.encode(packer.take(3));
                    if !text.is_empty() {
                        self.packer = Some(packer);
                        return Ok(Some((text.into(), self)));
                    }
                }
                None => {
                    let tail = STANDARD.encode(packer.finish()?);
                    return Ok(Some((format!("{tail}\"}}}}").into(), self)));
                }
            }
        }
    }
}
