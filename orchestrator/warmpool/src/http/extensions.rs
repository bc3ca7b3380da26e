//! `/extensions`: browser extensions, for sessions that are to have them.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

use super::App;
use super::auth::{Caller, Scope};
use super::body;
use super::forms::{Form, MAX_BESIDE};
use super::headers::{media_type, text};
use super::openapi::{Access, Operation, Routes};
use super::reply::json_reply;
use super::route::{Policy, Segment};
use crate::http::error::Error;
use warmpool_api::extension::{ExtensionList, ExtensionView};
use warmpool_core::error::{Code, FieldFault as _};
use warmpool_core::ids::{ExtensionId, KeyId};

/// An extension's id in a path.
const ID: Segment = Segment::new("id", "The extension's id, `ext_…`.");
const POLICY: Policy = Policy::rest(Access::Key, &[ID]);
/// The setting that limits an upload.
const LIMIT: &str = "extensions.max_size";
/// What is wrong with another part of a form.
const ONE_FILE: &str = "must be left out: a form has one `file`";
/// What a failed upload may fail with, beside what every call may.
pub(super) const FAILURES: [Code; 4] =
    [Code::InvalidExtension, Code::ExtensionLimit, Code::DiskNearlyFull, Code::StoreBusy];

pub(super) fn routes() -> Routes {
    Routes::new("Extensions")
        .get(
            "/extensions",
            list,
            Operation::new("list_extensions", "List extensions", POLICY.suggested())
                .about("The browser extensions of the key, the newest first.")
                .writes::<ExtensionList>("The extensions."),
        )
        .post(
            "/extensions",
            create,
            Operation::new("create_extension", "Upload an extension", POLICY)
                .about("A zip, a `.crx` or an `.xpi` with a `manifest.json` at its root: as the body, or as the part `file` of a form (`multipart/form-data`). Sessions load it that name its id in `advanced.extension_ids`. `extensions.max_size`, `max_unpacked` and `max_files` bound it.")
                .reads_bytes("application/octet-stream")
                .writes_at::<ExtensionView>(201, "The extension.")
                .fails(&[Code::InvalidBody])
                .fails(&FAILURES),
        )
        .get(
            "/extensions/{id}",
            show,
            Operation::new("get_extension", "Look at an extension", POLICY)
                .writes::<ExtensionView>("The extension.")
                .fails(&[Code::UnknownExtension]),
        )
        .delete(
            "/extensions/{id}",
            delete,
            Operation::new("delete_extension", "Delete an extension for good", POLICY)
                .about("No backup brings it back. Browsers that have loaded it keep it until their session ends.")
                .writes_nothing("It is gone.")
                .fails(&[Code::UnknownExtension, Code::StoreBusy]),
        )
}

/// `GET /extensions`
async fn list(State(app): State<App>, scope: Scope) -> Result<Response, Error> {
    let extensions = app.extensions.list(|key| scope.has(key));
    Ok(json_reply(StatusCode::OK, &ExtensionList { extensions }))
}

/// `POST /extensions`
async fn create(
    State(app): State<App>,
    Caller(key): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let sent = upload(&app, &headers, body).await?.without_alias()?;
    Ok(json_reply(StatusCode::CREATED, &app.extensions.create(&key, sent.file).await?))
}

/// `GET /extensions/<id>`
async fn show(State(app): State<App>, scope: Scope, Path(id): Path<String>) -> Result<Response, Error> {
    Ok(json_reply(StatusCode::OK, &app.extensions.get(&id, |key| scope.has(key))?))
}

/// `DELETE /extensions/<id>`
async fn delete(State(app): State<App>, scope: Scope, Path(id): Path<String>) -> Result<StatusCode, Error> {
    remove(&app, &id, |key| scope.has(key)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes an extension of one of those keys, and the workers that wait with it.
/// Errors: those of [`Extensions::delete`](warmpool_extensions::Extensions::delete).
pub(super) async fn remove(app: &App, id: &str, owns: impl Fn(&KeyId) -> bool) -> Result<(), Error> {
    app.extensions.delete(id, owns).await?;
    app.pool.forget_extension(&ExtensionId::from(id));
    Ok(())
}

/// A file that was sent, with its share of the memory for bodies until it is dropped.
pub(super) struct Uploaded {
    pub(super) file: Bytes,
    /// The file's name, where a form says it.
    pub(super) name: Option<String>,
    /// What the form calls the extension.
    pub(super) alias: Option<String>,
    _text: body::Text,
}

impl Uploaded {
    /// Refuses a form that calls the extension something, where that does not count.
    /// Errors: `Field`.
    pub(super) fn without_alias(self) -> Result<Self, Error> {
        match self.alias {
            None => Ok(self),
            Some(_) => Err(Error::invalid("name", ONE_FILE)),
        }
    }
}

/// Reads an extension: the body itself, or the part `file` of a form, which may have a part `name`.
/// Errors: `BodyTooLarge` and others of a body; `InvalidBody` and `Field` for what is no form with a file.
pub(super) async fn upload(app: &App, headers: &HeaderMap, body: Body) -> Result<Uploaded, Error> {
    let limit = app.config.extensions.max_size.bytes();
    if !media_type(headers).eq_ignore_ascii_case("multipart/form-data") {
        let text = body::read(app, body, limit, LIMIT).await?;
        return Ok(Uploaded { file: text.bytes(), name: None, alias: None, _text: text });
    }
    let mut whole = body::read(app, body, limit.saturating_add(MAX_BESIDE as u64), LIMIT).await?;
    whole.reserve_copy()?;
    let content_type = text(headers, CONTENT_TYPE).unwrap_or_default();
    let mut form = Form::read(content_type, Body::from(whole.bytes()).into_data_stream())?;
    let (mut found, mut alias) = (None, None);
    while let Some(part) = form.next().await? {
        match part.name() {
            Some("file") if found.is_none() => {
                let name = part.file_name().map(str::to_owned);
                found = Some((form.whole(part).await?, name));
            }
            Some("name") if alias.is_none() => alias = Some(Form::text(part).await?),
            other => {
                let name: String = other.unwrap_or_default().chars().take(100).collect();
                return Err(Error::invalid(name, ONE_FILE));
            }
        }
    }
    let (file, name) = found.ok_or_else(|| Error::invalid("file", "must be there, with the extension's archive"))?;
    if file.len() as u64 > limit {
        return Err(Error::BodyTooLarge { limit, setting: LIMIT });
    }
    Ok(Uploaded { file, name, alias, _text: whole })
}
