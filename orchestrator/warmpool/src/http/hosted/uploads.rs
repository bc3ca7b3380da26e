//! Files that come in forms (`multipart/form-data`), as SDKs send them. A file goes to the session while it arrives.

use std::sync::Arc;

use axum::body::Body;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use multer::{Constraints, Multipart, SizeLimit};

use super::super::App;
use super::super::files::{LIMIT, refused};
use super::super::forwarded_body::forwarded_body;
use super::super::headers::text;
use crate::http::error::Error;
use warmpool_core::error::FieldFault as _;
use warmpool_protocol::StoredFile;
use warmpool_sessions::session::Session;
use warmpool_workers::worker;

/// The most that a form has beside its file, in bytes.
const MAX_BESIDE: u64 = 64 << 10;

/// Stores the part `file` of a form in a session. Its name is what the part `path` says, or the file's own.
/// Errors: `InvalidBody`, `Field`, and those of storing a file.
pub(super) async fn store(
    app: &App,
    session: &Arc<Session>,
    headers: &HeaderMap,
    body: Body,
) -> Result<StoredFile, Error> {
    let _busy = session.busy();
    let limit = app.config.worker.file_limit.bytes();
    let content_type = text(headers, CONTENT_TYPE).unwrap_or_default();
    let boundary = multer::parse_boundary(content_type).map_err(|_| no_form("it must be `multipart/form-data`"))?;
    let whole = limit.saturating_add(MAX_BESIDE);
    let limits = SizeLimit::new().whole_stream(whole).for_field("path", MAX_BESIDE);
    let mut form =
        Multipart::with_constraints(body.into_data_stream(), boundary, Constraints::new().size_limit(limits));
    let (mut path, mut stored) = (None, None);
    while let Some(part) = form.next_field().await.map_err(|error| fault(&error, limit))? {
        match part.name() {
            Some("path") => path = Some(part.text().await.map_err(|error| fault(&error, limit))?),
            Some("file") if stored.is_none() => {
                let own = part.file_name().map(str::to_owned);
                let name = path.clone().or(own).ok_or_else(|| {
                    Error::invalid("file", "must be a file with a name: addresses of files are not fetched")
                })?;
                let name = base_name(&name)?;
                let (content, broken) = forwarded_body(app, Body::from_stream(part), limit, LIMIT)?;
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

fn fault(error: &multer::Error, limit: u64) -> Error {
    match error {
        multer::Error::StreamSizeExceeded { .. } | multer::Error::FieldSizeExceeded { .. } => {
            Error::BodyTooLarge { limit, setting: LIMIT }
        }
        error => no_form(&error.to_string()),
    }
}

fn no_form(problem: &str) -> Error {
    Error::InvalidBody { message: format!("the body is not a form with a file: {problem}") }
}
