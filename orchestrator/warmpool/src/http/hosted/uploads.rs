//! Files that come in forms (`multipart/form-data`), as SDKs send them. A file goes to the session while it arrives.

use std::sync::Arc;

use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

use super::super::App;
use super::super::files::{LIMIT, refused};
use super::super::forms::{Form, MAX_BESIDE};
use super::super::forwarded_body::forwarded_body;
use super::super::headers::text;
use crate::http::error::Error;
use warmpool_core::error::FieldFault as _;
use warmpool_core::ids::random_text;
use warmpool_protocol::StoredFile;
use warmpool_sessions::session::Session;
use warmpool_workers::worker::{self, AgentError};

/// Stores the part `file` of a form in a session. Its name is what the part `path` says, or the file's own.
/// Errors: `InvalidBody`, `BodyTimeout`, `BodyTooLarge`, `Field`, and those of storing a file.
pub(super) async fn store(
    app: &App,
    session: &Arc<Session>,
    headers: &HeaderMap,
    body: Body,
) -> Result<StoredFile, Error> {
    let _busy = session.busy();
    let whole = app.config.worker.file_limit.bytes().saturating_add(MAX_BESIDE as u64);
    let (body, broken) = forwarded_body(app, body, whole, LIMIT)?;
    let form = Form::read(text(headers, CONTENT_TYPE).unwrap_or_default(), Body::new(body).into_data_stream())?;
    broken.or(read(app, session, form)).await
}

async fn read(app: &App, session: &Arc<Session>, form: Form) -> Result<StoredFile, Error> {
    let mut arrived = None;
    let name = receive(app, session, form, &mut arrived).await;
    match (name, arrived) {
        (Ok(name), Some(upload)) => upload.name(app, &name).await,
        (Err(error), Some(upload)) => upload.discard(error).await,
        (Err(error), None) => Err(error),
        (Ok(_), None) => Err(Error::invalid("file", "must be there")),
    }
}

/// Reads a form to its end, and its file into `arrived`. Returns the name that the file is to have, which may stand behind it.
async fn receive(
    app: &App,
    session: &Arc<Session>,
    mut form: Form,
    arrived: &mut Option<Upload>,
) -> Result<String, Error> {
    let limit = app.config.worker.file_limit.bytes();
    let (mut path, mut own_name) = (None, None);
    while let Some(part) = form.next().await? {
        match part.name() {
            Some("path") if path.is_none() => path = Some(Form::text(part).await?),
            Some("file") if arrived.is_none() => {
                own_name = part.file_name().map(str::to_owned);
                let content = Body::from_stream(form.content(part));
                let (content, broken) = forwarded_body(app, content, limit, LIMIT)?;
                *arrived = Some(broken.or(Upload::receive(app, session, content)).await?);
            }
            other => {
                let name: String = other.unwrap_or_default().chars().take(100).collect();
                return Err(Error::invalid(name, "must be left out: a form has one `file`, and a `path`"));
            }
        }
    }
    let nameless = || Error::invalid("file", "must be a file with a name: addresses of files are not fetched");
    let name = if arrived.is_some() { path.or(own_name).ok_or_else(nameless)? } else { String::new() };
    base_name(&name).map(str::to_owned)
}

/// A file that has arrived in a session before it is known under which name it is to be. Until then its name is one that neither a
/// page nor a client has for a file of theirs.
pub(super) struct Upload {
    pub(super) stored: StoredFile,
    nameless: Nameless,
}

impl Upload {
    /// Stores the content of a file.
    /// Errors: those of storing a file.
    pub(super) async fn receive(app: &App, session: &Arc<Session>, content: worker::Body) -> Result<Self, Error> {
        // It may be stored when nobody waits for the answer any more.
        let nameless = Nameless { session: Arc::clone(session), name: random_text::<16>() };
        match session.worker.agent.store_file(&nameless.name, content).await {
            Ok(stored) => Ok(Self { stored, nameless }),
            Err(error) => {
                let name = match &error {
                    AgentError::Refused { .. } => nameless.keep(),
                    _ => nameless.name.clone(),
                };
                Err(refused(app, session, &name, error).await)
            }
        }
    }

    /// Renames it to the name it was sent for. It replaces an earlier upload of that name.
    /// Errors: `Field` for a name that files do not have.
    pub(super) async fn name(self, app: &App, name: &str) -> Result<StoredFile, Error> {
        let session = &self.nameless.session;
        match session.worker.agent.rename_upload(&self.nameless.name, name).await {
            Ok(stored) => {
                self.nameless.keep();
                Ok(stored)
            }
            Err(error) => {
                let error = refused(app, session, name, error).await;
                self.discard(error).await
            }
        }
    }

    /// Removes it, because of this error.
    pub(super) async fn discard<T>(self, error: Error) -> Result<T, Error> {
        remove(&self.nameless.session, &self.nameless.name).await;
        self.nameless.keep();
        Err(error)
    }
}

/// A file under a name that nobody knows. It is removed unless it is kept, also because its client has left.
struct Nameless {
    session: Arc<Session>,
    name: String,
}

impl Nameless {
    /// Leaves what there is under the name. Returns the name.
    fn keep(mut self) -> String {
        std::mem::take(&mut self.name)
    }
}

impl Drop for Nameless {
    fn drop(&mut self) {
        if self.name.is_empty() {
            return;
        }
        let (session, name) = (Arc::clone(&self.session), std::mem::take(&mut self.name));
        tokio::spawn(async move { remove(&session, &name).await });
    }
}

async fn remove(session: &Session, name: &str) {
    match session.worker.agent.remove_upload(name).await {
        // It was not stored, or has its own name by now.
        Ok(()) | Err(AgentError::Refused { status: StatusCode::NOT_FOUND, .. }) => {}
        Err(left) => {
            tracing::debug!(session = %session.id, %left, "a file that was refused stays until its session ends");
        }
    }
}

/// A file has a name here and no folder.
fn base_name(path: &str) -> Result<&str, Error> {
    let name = path.strip_prefix('/').unwrap_or(path);
    if name.contains('/') {
        return Err(Error::invalid("path", "must be a name: a session's files have no folders"));
    }
    Ok(name)
}
