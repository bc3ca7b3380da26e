//! Extensions in the words of Browserbase, Steel and Kernel.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::App;
use super::super::auth::Caller;
use super::super::extensions::{FAILURES, remove, upload};
use super::super::openapi::{Operation, Routes};
use super::super::query::Query;
use super::super::reply::json_reply;
use super::super::route::Policy;
use super::kernel::page;
use super::{MAX_LISTED, time};
use crate::http::error::Error;
use warmpool_api::extension::ExtensionView;
use warmpool_core::error::Code;
use warmpool_core::ids::KeyId;
use warmpool_profiles::check_name;

/// An extension in Browserbase's words.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BrowserbaseExtension")]
struct BrowserbaseReply {
    id: String,
    created_at: String,
    updated_at: String,
    /// The name of the file that was uploaded, or the extension's own.
    file_name: String,
    project_id: KeyId,
}

/// An extension in Steel's words.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SteelExtension")]
struct SteelReply {
    id: String,
    name: String,
    created_at: String,
    updated_at: String,
}

/// The extensions of a key.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SteelExtensions")]
struct SteelReplies {
    count: usize,
    extensions: Vec<SteelReply>,
}

/// What an extension's deletion tells.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SteelDeletedExtension")]
struct SteelDeleted {
    message: String,
}

/// An extension in Kernel's words.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "KernelExtension")]
struct KernelReply {
    id: String,
    /// What its uploader calls it.
    name: Option<String>,
    created_at: String,
    size_bytes: u64,
    /// SHA-256 of the zip, in hexadecimal.
    checksum: String,
}

/// Which part of a list is wanted.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "KernelPageQuery")]
struct PageQuery {
    /// How many to pass over.
    offset: Option<u64>,
    /// How many.
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u64>,
}

const UPLOAD: &str = "A form whose part `file` is a zip, a `.crx` or an `.xpi`. `extensions.max_size` bounds it.";

/// The calls of Browserbase's.
pub(super) fn browserbase(routes: Routes, policy: Policy) -> Routes {
    let of_one = |id, summary| Operation::new(id, summary, policy).fails(&[Code::UnknownExtension]);
    routes
        .post(
            "/browserbase/v1/extensions",
            browserbase_create,
            Operation::new("browserbase_create_extension", "Upload an extension", policy)
                .about(UPLOAD)
                .reads_bytes("multipart/form-data")
                .writes::<BrowserbaseReply>("The extension.")
                .fails(&[Code::InvalidBody])
                .fails(&FAILURES),
        )
        .get(
            "/browserbase/v1/extensions/{extension}",
            browserbase_show,
            of_one("browserbase_get_extension", "Look at an extension").writes::<BrowserbaseReply>("The extension."),
        )
        .delete(
            "/browserbase/v1/extensions/{extension}",
            delete,
            of_one("browserbase_delete_extension", "Delete an extension for good")
                .writes_nothing("It is gone.")
                .fails(&[Code::StoreBusy]),
        )
}

/// The calls of Kernel's.
pub(super) fn kernel(routes: Routes, policy: Policy) -> Routes {
    let of_one = |id, summary| Operation::new(id, summary, policy).fails(&[Code::UnknownExtension]);
    routes
        .get(
            "/kernel/extensions",
            kernel_list,
            Operation::new("kernel_list_extensions", "List extensions", policy.takes::<PageQuery>())
                .about("The newest first; the header `x-next-offset` leads on.")
                .writes::<Vec<KernelReply>>("The extensions."),
        )
        .post(
            "/kernel/extensions",
            kernel_create,
            Operation::new("kernel_create_extension", "Upload an extension", policy)
                .about(
                    "A form whose part `file` is a zip, and `name` what to call it. `extensions.max_size` bounds it.",
                )
                .reads_bytes("multipart/form-data")
                .writes_at::<KernelReply>(201, "The extension.")
                .fails(&[Code::InvalidBody, Code::Conflict])
                .fails(&FAILURES),
        )
        .get(
            "/kernel/extensions/{extension}/metadata",
            kernel_show,
            of_one("kernel_get_extension", "Look at an extension").writes::<KernelReply>("The extension."),
        )
        .delete(
            "/kernel/extensions/{extension}",
            kernel_delete,
            of_one("kernel_delete_extension", "Delete an extension for good")
                .writes_nothing("It is gone.")
                .fails(&[Code::StoreBusy]),
        )
}

/// The extension of a key with this id, or that its uploader calls so.
/// Errors: `UnknownExtension`.
pub(super) fn named(app: &App, key: &KeyId, given: &str) -> Result<ExtensionView, Error> {
    find(&app.extensions.list(|owner| owner == key), given).cloned()
}

/// The one of these extensions that its uploader calls so, or that has this id.
/// Errors: `UnknownExtension`.
pub(super) fn find<'a>(extensions: &'a [ExtensionView], given: &str) -> Result<&'a ExtensionView, Error> {
    let called = extensions.iter().find(|extension| extension.alias.as_deref() == Some(given));
    let found = called.or_else(|| extensions.iter().find(|extension| extension.extension_id.as_str() == given));
    let unknown = || warmpool_extensions::Error::UnknownExtension { id: given.chars().take(100).collect() };
    found.ok_or_else(|| unknown().into())
}

/// The calls of Steel's.
pub(super) fn steel(routes: Routes, policy: Policy) -> Routes {
    let of_one = |id, summary| Operation::new(id, summary, policy).fails(&[Code::UnknownExtension]);
    routes
        .get(
            "/steel/v1/extensions",
            steel_list,
            Operation::new("steel_list_extensions", "List extensions", policy)
                .writes::<SteelReplies>("The extensions, the newest first."),
        )
        .post(
            "/steel/v1/extensions",
            steel_create,
            Operation::new("steel_create_extension", "Upload an extension", policy)
                .about(UPLOAD)
                .reads_bytes("multipart/form-data")
                .writes_at::<SteelReply>(201, "The extension.")
                .fails(&[Code::InvalidBody])
                .fails(&FAILURES),
        )
        .delete(
            "/steel/v1/extensions/{extension}",
            steel_delete,
            of_one("steel_delete_extension", "Delete an extension for good")
                .writes::<SteelDeleted>("It is gone.")
                .fails(&[Code::StoreBusy]),
        )
}

/// Keeps the file of a form.
async fn keep(
    app: &App,
    key: &KeyId,
    headers: &HeaderMap,
    body: Body,
) -> Result<(ExtensionView, Option<String>), Error> {
    let sent = upload(app, headers, body).await?.without_alias()?;
    Ok((app.extensions.create(key, sent.file).await?, sent.name))
}

async fn browserbase_create(
    State(app): State<App>,
    Caller(key): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (view, name) = keep(&app, &key, &headers, body).await?;
    Ok(json_reply(StatusCode::OK, &browserbase_reply(view, name)))
}

async fn browserbase_show(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let view = app.extensions.get(&id, |owner| *owner == key)?;
    Ok(json_reply(StatusCode::OK, &browserbase_reply(view, None)))
}

async fn delete(State(app): State<App>, Caller(key): Caller, Path(id): Path<String>) -> Result<Response, Error> {
    remove(&app, &id, |owner| *owner == key).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn kernel_list(
    State(app): State<App>,
    Caller(key): Caller,
    Query(query): Query<PageQuery>,
) -> Result<Response, Error> {
    let mine = app.extensions.list(|owner| *owner == key);
    Ok(page(mine, query.offset, query.limit.unwrap_or(MAX_LISTED as u64), kernel_reply))
}

async fn kernel_create(
    State(app): State<App>,
    Caller(key): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let sent = upload(&app, &headers, body).await?;
    if let Some(alias) = &sent.alias {
        check_name("name", alias)?;
    }
    let view = app.extensions.create_as(&key, sent.file, sent.alias).await?;
    Ok(json_reply(StatusCode::CREATED, &kernel_reply(view)))
}

async fn kernel_show(State(app): State<App>, Caller(key): Caller, Path(id): Path<String>) -> Result<Response, Error> {
    Ok(json_reply(StatusCode::OK, &kernel_reply(named(&app, &key, &id)?)))
}

async fn kernel_delete(State(app): State<App>, Caller(key): Caller, Path(id): Path<String>) -> Result<Response, Error> {
    let id = named(&app, &key, &id)?.extension_id;
    remove(&app, id.as_str(), |owner| *owner == key).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn steel_list(State(app): State<App>, Caller(key): Caller) -> Result<Response, Error> {
    let extensions: Vec<SteelReply> = app.extensions.list(|owner| *owner == key).into_iter().map(steel_reply).collect();
    Ok(json_reply(StatusCode::OK, &SteelReplies { count: extensions.len(), extensions }))
}

async fn steel_create(
    State(app): State<App>,
    Caller(key): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (view, _) = keep(&app, &key, &headers, body).await?;
    Ok(json_reply(StatusCode::CREATED, &steel_reply(view)))
}

async fn steel_delete(State(app): State<App>, Caller(key): Caller, Path(id): Path<String>) -> Result<Response, Error> {
    remove(&app, &id, |owner| *owner == key).await?;
    Ok(json_reply(StatusCode::OK, &SteelDeleted { message: format!("Extension {id} is deleted") }))
}

fn browserbase_reply(view: ExtensionView, name: Option<String>) -> BrowserbaseReply {
    BrowserbaseReply {
        id: view.extension_id.to_string(),
        created_at: time(view.created),
        updated_at: time(view.created),
        file_name: name.unwrap_or(view.name),
        project_id: view.key_id,
    }
}

fn kernel_reply(view: ExtensionView) -> KernelReply {
    KernelReply {
        id: view.extension_id.to_string(),
        name: view.alias,
        created_at: time(view.created),
        size_bytes: view.size,
        checksum: view.sha256,
    }
}

fn steel_reply(view: ExtensionView) -> SteelReply {
    SteelReply {
        id: view.extension_id.to_string(),
        name: view.name,
        created_at: time(view.created),
        updated_at: time(view.created),
    }
}
