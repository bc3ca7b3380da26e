//! Files that come in forms (`multipart/form-data`), as SDKs send them. A file goes to the session while it arrives.

use std::sync::Arc;

use axum::body::Body;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;

use super::super::App;
use super::super::files::{LIMIT, refused};
use super::super::forwarded_body::forwarded_body;
use super::super::headers::text;
use super::forms::{Form, MAX_BESIDE};
use crate::http::error::Error;
use warmpool_core::error::FieldFault as _;
use warmpool_protocol::StoredFile;
use warmpool_sessions::session::Session;
use warmpool_workers::worker;

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

async fn read(app: &App, session: &Arc<Session>, mut form: Form) -> Result<StoredFile, Error> {
    let limit = app.config.worker.file_limit.bytes();
    let (mut path, mut stored) = (None, None);
    while let Some(part) = form.next().await? {
        match part.name() {
            Some("path") if path.is_none() => path = Some(Form::text(part).await?),
            Some("file") if stored.is_none() => {
                let own = part.file_name().map(str::to_owned);
                let name = path.clone().or(own).ok_or_else(|| {
                    Error::invalid("file", "must be a file with a name: addresses of files are not fetched")
                })?;
                let name = base_name(&name)?;
                let content = Body::from_stream(form.content(part));
                let (content, broken) = forwarded_body(app, content, limit, LIMIT)?;
                stored = Some(broken.or(put(app, session, name, content)).await?);
            }
            other => {
                let name: String = other.unwrap_or_default().chars().take(100).collect();
                return Err(Error::invalid(name, "must be left out: a form has one `file`, and a `path`"));
            }
        }
    }
    let stored = stored.ok_or_else(|| Error::invalid("file", "must be there"))?;
    match path {
        // It may stand behind the file.
        Some(path) if base_name(&path)? != stored.name => rename(app, session, &stored.name, base_name(&path)?).await,
        _ => Ok(stored),
    }
}

async fn put(app: &App, session: &Arc<Session>, name: &str, content: worker::Body) -> Result<StoredFile, Error> {
    match session.worker.agent.store_file(name, content).await {
        Ok(stored) => Ok(stored),
        Err(error) => Err(refused(app, session, name, error).await),
    }
}

async fn rename(app: &App, session: &Arc<Session>, from: &str, to: &str) -> Result<StoredFile, Error> {
    let agent = &session.worker.agent;
    let content = match agent.read_file(from).await {
        Ok(content) => content.map_err(Into::into).boxed_unsync(),
        Err(error) => return Err(refused(app, session, from, error).await),
    };
    let stored = put(app, session, to, content).await?;
    match agent.remove_file(from).await {
        Ok(()) => Ok(stored),
        Err(error) => Err(refused(app, session, from, error).await),
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
