//! `/extensions`: browser extensions, for sessions that are to have them.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use multer::{Constraints, Multipart, SizeLimit};

use super::App;
use super::auth::{Caller, Scope};
use super::body;
use super::headers::{media_type, text};
use super::openapi::{Access, Operation, Routes};
use super::reply::json_reply;
use super::route::{Policy, Segment};
use crate::http::error::Error;
use warmpool_api::extension::{ExtensionList, ExtensionView};
use warmpool_core::error::{Code, FieldFault as _};
use warmpool_core::ids::{ExtensionId, KeyId};
use warmpool_profiles::check_name;

/// An extension's id in a path.
const ID: Segment = Segment::new("id", "The extension's id, `ext_…`.");
const POLICY: Policy = Policy::rest(Access::Key, &[ID]);
/// The setting that limits an upload.
const LIMIT: &str = "extensions.max_size";
/// The most that a form has beside its file, in bytes.
const MAX_BESIDE: u64 = 64 << 10;
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
    let upload = upload(&app, &headers, body, false).await?;
    Ok(json_reply(StatusCode::CREATED, &app.extensions.create(&key, upload.file).await?))
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

/// Reads an extension: the body itself, or the part `file` of a form, which may have a part `name` where that counts.
/// Errors: `BodyTooLarge` and others of a body; `InvalidBody` and `Field` for what is no form with a file.
pub(super) async fn upload(app: &App, headers: &HeaderMap, body: Body, has_name: bool) -> Result<Uploaded, Error> {
    let limit = app.config.extensions.max_size.bytes();
    if !media_type(headers).eq_ignore_ascii_case("multipart/form-data") {
        let text = body::read(app, body, limit, LIMIT).await?;
        return Ok(Uploaded { file: text.bytes(), name: None, alias: None, _text: text });
    }
    let boundary = multer::parse_boundary(text(headers, CONTENT_TYPE).unwrap_or_default());
    let boundary = boundary.map_err(|error| no_form(&error.to_string()))?;
    let mut whole = body::read(app, body, limit.saturating_add(MAX_BESIDE), LIMIT).await?;
    whole.reserve_copy()?;
    let sent = stream::iter([Ok::<_, Infallible>(whole.bytes())]);
    let limits = SizeLimit::new().per_field(limit);
    let mut form = Multipart::with_constraints(sent, boundary, Constraints::new().size_limit(limits));
    let (mut found, mut alias) = (None, None);
    while let Some(part) = form.next_field().await.map_err(|error| fault(&error, limit))? {
        match part.name() {
            Some("file") if found.is_none() => {
                let name = part.file_name().map(str::to_owned);
                found = Some((part.bytes().await.map_err(|error| fault(&error, limit))?, name));
            }
            Some("name") if has_name && alias.is_none() => {
                let name = part.text().await.map_err(|error| fault(&error, limit))?;
                check_name("name", &name)?;
                alias = Some(name);
            }
            other => {
                let name: String = other.unwrap_or_default().chars().take(100).collect();
                return Err(Error::invalid(name, "must be left out: a form has one `file`"));
            }
        }
    }
    let (file, name) = found.ok_or_else(|| Error::invalid("file", "must be there, with the extension's archive"))?;
    Ok(Uploaded { file, name, alias, _text: whole })
}

fn fault(error: &multer::Error, limit: u64) -> Error {
    match error {
        multer::Error::FieldSizeExceeded { .. } => Error::BodyTooLarge { limit, setting: LIMIT },
        error => no_form(&error.to_string()),
    }
}

fn no_form(problem: &str) -> Error {
    Error::InvalidBody { message: format!("the body is not a form with a file: {problem}") }
}
