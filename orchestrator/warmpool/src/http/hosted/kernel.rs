//! The calls of Kernel's SDKs. `shapes` has what they send and read.

mod shapes;

use std::cell::LazyCell;

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::json;
use url::form_urlencoded;

use super::super::App;
use super::super::auth::Caller;
use super::super::create::{FAILURES, PROFILE_FAILURES};
use super::super::files::{LIMIT, fetched, files_of};
use super::super::forwarded_body::forwarded_body;
use super::super::openapi::{Operation, Routes};
use super::super::public_url::PublicUrl;
use super::super::query::Query;
use super::super::reply::json_reply;
use super::super::route::{Policy, Segment, Traffic};
use super::uploads::Upload;
use super::{EXTENSION, ID, LIVE, REST, listed, missing, name_of, profile_id, time};
use crate::dropin::hosted::Service;
use crate::dropin::hosted::kernel::CreateBrowser;
use crate::http::error::Error;
use shapes::{
    BrowserReply, BrowserStatus, CreateProfile, FileQuery, FileReply, ListQuery, ProfileReply, ProfilesQuery,
    RetrieveQuery, TextPart, profile_reply, reply,
};
use warmpool_api::profile::ProfileKind;
use warmpool_api::session::SessionView;
use warmpool_core::error::{Code, FieldFault as _};
use warmpool_keys::KeyId;
use warmpool_protocol::File;

const PROFILE: Segment = Segment::new("profile", "The profile's id, which is its name.");
const POLICY: Policy = Policy::hosted(Service::Kernel, &[ID, PROFILE, EXTENSION, REST]);
/// How many browsers a list has whose client does not say.
const LISTED: u64 = 20;
/// How many profiles.
const MAX_LISTED: u64 = super::MAX_LISTED as u64;
const HAS_MORE: HeaderName = HeaderName::from_static("x-has-more");
const NEXT_OFFSET: HeaderName = HeaderName::from_static("x-next-offset");

pub(super) fn routes() -> Routes {
    let of_browser = |id, summary, policy| Operation::new(id, summary, policy).fails(&[Code::UnknownSession]);
    let file = |id, summary| of_browser(id, summary, POLICY.takes::<FileQuery>()).fails(&LIVE);
    let of_profile = |id, summary| Operation::new(id, summary, POLICY).fails(&[Code::UnknownProfile]);
    let example = json!({"profile": {"name": "shop", "save_changes": true}, "timeout_seconds": 600});
    let rest = POLICY.takes_anything();
    super::extensions::kernel(Routes::new("Kernel"), POLICY)
        .post(
            "/kernel/browsers",
            create,
            Operation::new("kernel_create_browser", "Create a session", POLICY.of(Traffic::Work))
                .reads::<CreateBrowser>(example)
                .writes::<BrowserReply>("The session is running.")
                .fails(FAILURES)
                .fails(PROFILE_FAILURES),
        )
        .get(
            "/kernel/browsers",
            list,
            Operation::new("kernel_list_browsers", "List sessions", POLICY.takes_at_least::<ListQuery>())
                .about("The newest first. `tags[key]=value` narrows the list; the header `x-next-offset` leads on.")
                .writes::<Vec<BrowserReply>>("The sessions."),
        )
        .get(
            "/kernel/browsers/{id}",
            show,
            of_browser("kernel_get_browser", "Look at a session", POLICY.takes::<RetrieveQuery>())
                .about("By its id, or by its name while it lives.")
                .writes::<BrowserReply>("The session."),
        )
        .delete(
            "/kernel/browsers/{id}",
            delete,
            of_browser("kernel_delete_browser", "End a session", POLICY).writes_nothing("It has ended."),
        )
        .put(
            "/kernel/browsers/{id}/fs/write_file",
            write_file,
            file("kernel_write_file", "Give a file to a session")
                .about("Its path has to be in the folder from which pages can take files, or a name alone.")
                .reads_bytes("application/octet-stream")
                .writes_at::<FileReply>(201, "Where the file is.")
                .fails(&[Code::InvalidBody, Code::Conflict, Code::NoSpace]),
        )
        .get(
            "/kernel/browsers/{id}/fs/read_file",
            read_file,
            file("kernel_read_file", "Fetch a file")
                .writes_bytes("application/octet-stream", "The file.")
                .fails(&[Code::UnknownFile]),
        )
        .get(
            "/kernel/browsers/{id}/fs/list_files",
            list_files,
            file("kernel_list_files", "List the files of a session").writes::<Vec<FileReply>>("The files."),
        )
        .get(
            "/kernel/profiles",
            profiles,
            Operation::new("kernel_list_profiles", "List profiles", POLICY.takes::<ProfilesQuery>())
                .writes::<Vec<ProfileReply>>("The profiles."),
        )
        .post(
            "/kernel/profiles",
            create_profile,
            Operation::new("kernel_create_profile", "Make a profile", POLICY)
                .reads::<CreateProfile>(json!({"name": "shop"}))
                .writes_at::<ProfileReply>(201, "The profile.")
                .fails(&[
                    Code::ProfileExists,
                    Code::ProfileInUse,
                    Code::ProfileLimit,
                    Code::DiskNearlyFull,
                    Code::StoreBusy,
                ]),
        )
        .get(
            "/kernel/profiles/{profile}",
            show_profile,
            of_profile("kernel_get_profile", "Look at a profile")
                .writes::<ProfileReply>("The profile.")
                .fails(&[Code::Conflict]),
        )
        .delete(
            "/kernel/profiles/{profile}",
            delete_profile,
            of_profile("kernel_delete_profile", "Delete a profile for good")
                .writes_nothing("It is gone.")
                .fails(&[Code::ProfileInUse, Code::StoreBusy]),
        )
        .undescribed("/kernel/{*rest}", any(other), rest)
}

async fn other(parts: Parts) -> Error {
    missing(Service::Kernel, &parts.method, &parts.uri)
}

async fn create(
    State(app): State<App>,
    Caller(key): Caller,
    base: PublicUrl,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (mut request, text) = super::read::<CreateBrowser>(&app, &headers, body).await?;
    {
        let mine = LazyCell::new(|| app.extensions.list(|owner| *owner == key));
        let id_of = |named: &str| super::extensions::find(&mine, named).map(|found| found.extension_id.to_string());
        request.find_extensions(app.config.extensions.max_per_session, id_of)?;
    }
    if let Some(name) = request.profile() {
        app.profiles.get(&key, name)?;
    }
    let name = request.name.clone();
    let options = request.options(&app.config)?;
    let _kept = text.kept();
    // A session has its name when it runs. Until then nobody else may look whether there is one.
    let _turn = match &name {
        Some(name) => Some(app.sessions.name_turn(&key, name).await?),
        None => None,
    };
    if let Some(id) = name.and_then(|name| id_of_name(&app, &key, &name)) {
        return Err(Error::Conflict { message: format!("browser {id} has this `name`, and still lives") });
    }
    let session = super::create(&app, key.clone(), options).await?;
    shown(&app, &base, &key, session.id.as_str())
}

/// The browser that lives under a name.
fn id_of_name(app: &App, key: &KeyId, name: &str) -> Option<String> {
    let named = listed(app, key, |view| view.ended_at.is_none() && view.app_name.as_deref() == Some(name));
    named.first().map(|view| view.session_id.to_string())
}

/// The id of the browser that a client names by its id, or by its name while it lives.
fn id_of(app: &App, key: &KeyId, given: String) -> String {
    if given.starts_with("ses_") {
        return given;
    }
    id_of_name(app, key, &given).unwrap_or(given)
}

/// A browser, as the answer to a call.
fn shown(app: &App, base: &PublicUrl, key: &KeyId, id: &str) -> Result<Response, Error> {
    let (view, live) = app.sessions.find(id, key)?;
    let of_view = view.profile.as_ref().and_then(|used| app.profiles.get(key, &used.name).ok());
    Ok(json_reply(StatusCode::OK, &reply(base, view, live.as_ref(), of_view, app.config.worker.memory)))
}

/// The labels that a query asks for, as `tags[key]=value`.
/// Errors: `Field` for a parameter that is none of the call's.
fn wanted_tags(query: &str) -> Result<Vec<(String, String)>, Error> {
    let known = ["status", "include_deleted", "query", "region", "offset", "limit"];
    let others = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| !known.contains(&name.as_ref()));
    others
        .map(|(name, value)| match name.strip_prefix("tags[").and_then(|rest| rest.strip_suffix(']')) {
            Some(key) => Ok((key.to_owned(), value.into_owned())),
            None => {
                Err(Error::none_of(name.chars().take(100).collect::<String>(), known.into_iter().chain(["tags[key]"])))
            }
        })
        .collect()
}

async fn list(
    State(app): State<App>,
    Caller(key): Caller,
    base: PublicUrl,
    Query(query): Query<ListQuery>,
    RawQuery(raw): RawQuery,
) -> Result<Response, Error> {
    let tags = wanted_tags(raw.as_deref().unwrap_or_default())?;
    let part = query.query.map(TextPart::read).transpose()?;
    let all = query.include_deleted.filter(|all| *all).map(|_| BrowserStatus::All);
    let status = query.status.or(all).unwrap_or_default();
    app.sessions.wait_until_all_found(&key).await;
    let is_wanted = |view: &SessionView| {
        let has_status = match status {
            BrowserStatus::Active => view.ended_at.is_none(),
            BrowserStatus::Deleted => view.ended_at.is_some(),
            BrowserStatus::All => true,
        };
        let profile = view.profile.as_ref().map(|profile| profile.name.as_str());
        let texts = [Some(view.session_id.as_str()), view.app_name.as_deref(), profile];
        has_status
            && part.as_ref().is_none_or(|part| texts.into_iter().flatten().any(|text| part.is_in(text)))
            && tags.iter().all(|(key, value)| view.metadata.labels().any(|label| label == (key, value)))
    };
    let profiles = app.profiles.list(|owner| *owner == key);
    let shown = |view: SessionView| {
        let live = app.sessions.find(view.session_id.as_str(), &key).ok().and_then(|(_, live)| live);
        let used = view.profile.as_ref();
        let of_view = used.and_then(|used| profiles.iter().find(|profile| profile.name == used.name).cloned());
        reply(&base, view, live.as_ref(), of_view, app.config.worker.memory)
    };
    Ok(page(listed(&app, &key, is_wanted), query.offset, query.limit.unwrap_or(LISTED), shown))
}

/// A page of a list, and the headers that lead to the next one.
pub(super) fn page<T, R: Serialize>(all: Vec<T>, offset: Option<u64>, limit: u64, shown: impl Fn(T) -> R) -> Response {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let (offset, limit) = (offset.map_or(0, number), number(limit));
    let next = offset.saturating_add(limit);
    let has_more = all.len() > next;
    let replies: Vec<R> = all.into_iter().skip(offset).take(limit).map(shown).collect();
    let mut response = json_reply(StatusCode::OK, &replies);
    let headers = response.headers_mut();
    headers.insert(HAS_MORE, HeaderValue::from_static(if has_more { "true" } else { "false" }));
    headers.insert(NEXT_OFFSET, HeaderValue::from(if has_more { next as u64 } else { 0 }));
    response
}

async fn show(
    State(app): State<App>,
    Caller(key): Caller,
    base: PublicUrl,
    Path(id): Path<String>,
    Query(query): Query<RetrieveQuery>,
) -> Result<Response, Error> {
    let id = id_of(&app, &key, id);
    let (view, _) = app.sessions.find_patiently(&id, &key).await?;
    // As there, one that has ended is shown to those alone who ask for it.
    if query.include_deleted != Some(true) && view.ended_at.is_some() {
        return Err(warmpool_sessions::Error::UnknownSession { id }.into());
    }
    shown(&app, &base, &key, &id)
}

async fn delete(State(app): State<App>, Caller(key): Caller, Path(id): Path<String>) -> Result<Response, Error> {
    app.sessions.end(&id_of(&app, &key, id), &key).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn write_file(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
    Query(query): Query<FileQuery>,
    body: Body,
) -> Result<Response, Error> {
    let session = app.sessions.find_live(&id_of(&app, &key, id), &key)?;
    let _busy = session.busy();
    let name = name_of(&query.path);
    let (content, fault) = forwarded_body(&app, body, app.config.worker.file_limit.bytes(), LIMIT)?;
    let upload = fault.or(Upload::receive(&app, &session, content)).await?;
    // The client goes on with the path that it gave.
    let folder = upload.stored.path.trim_end_matches(&upload.stored.name).to_owned();
    if query.path != name && query.path.strip_suffix(name) != Some(folder.as_str()) {
        let problem = format!("must be in {folder}: pages can take files from there alone");
        return upload.discard(Error::invalid("path", problem)).await;
    }
    let named = upload.name(&app, name).await;
    let stored = named.map_err(|error| error.map_field(|error| error.renamed(|_| "path".to_owned())))?;
    let file = FileReply {
        name: stored.name,
        path: stored.path,
        size_bytes: stored.size,
        is_dir: false,
        mod_time: time(warmpool_core::clock::unix_ms()),
        mode: "-rw-r--r--",
    };
    Ok(json_reply(StatusCode::CREATED, &file))
}

async fn read_file(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
    Query(query): Query<FileQuery>,
) -> Result<Response, Error> {
    let session = app.sessions.find_live(&id_of(&app, &key, id), &key)?;
    fetched(&app, &session, name_of(&query.path)).await
}

async fn list_files(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
    Query(query): Query<FileQuery>,
) -> Result<Response, Error> {
    let session = app.sessions.find_live(&id_of(&app, &key, id), &key)?;
    let shown = |file: File| FileReply {
        path: format!("{}/{}", query.path.trim_end_matches('/'), file.name),
        size_bytes: file.size,
        is_dir: false,
        mod_time: time(file.modified_ms),
        mode: "-rw-r--r--",
        name: file.name,
    };
    let files = files_of(&app, &session).await?;
    let files: Vec<FileReply> = files.into_iter().filter(|file| file.complete).map(shown).collect();
    Ok(json_reply(StatusCode::OK, &files))
}

async fn profiles(
    State(app): State<App>,
    Caller(key): Caller,
    Query(query): Query<ProfilesQuery>,
) -> Result<Response, Error> {
    let part = query.query.map(TextPart::read).transpose()?;
    let mut mine = app.profiles.list(|owner| *owner == key);
    mine.retain(|profile| {
        query.name.as_ref().is_none_or(|name| profile.name == *name)
            && part.as_ref().is_none_or(|part| part.is_in(&profile.name))
    });
    Ok(page(mine, query.offset, query.limit.unwrap_or(MAX_LISTED), profile_reply))
}

async fn create_profile(
    State(app): State<App>,
    Caller(key): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (CreateProfile { name }, _text) = super::read(&app, &headers, body).await?;
    let made = app.profiles.create(&key, &name.unwrap_or_else(profile_id), ProfileKind::State, None).await?;
    Ok(json_reply(StatusCode::CREATED, &profile_reply(made)))
}

async fn show_profile(
    State(app): State<App>,
    Caller(key): Caller,
    Path(name): Path<String>,
) -> Result<Response, Error> {
    Ok(json_reply(StatusCode::OK, &profile_reply(app.profiles.get(&key, &name)?)))
}

async fn delete_profile(
    State(app): State<App>,
    Caller(key): Caller,
    Path(name): Path<String>,
) -> Result<Response, Error> {
    app.profiles.delete(&key, &name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
