//! The calls of Steel's SDKs. `shapes` has what they send and read, and `empty_profile` the profile that is made with a session.

mod empty_profile;
mod shapes;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use futures_util::future::try_join_all;
use http::{HeaderMap, StatusCode};
use serde_json::json;

use super::super::App;
use super::super::auth::Caller;
use super::super::create::{FAILURES, PROFILE_FAILURES};
use super::super::files::{fetched, files_of, remove_file};
use super::super::openapi::{Operation, Routes};
use super::super::public_url::PublicUrl;
use super::super::query::Query;
use super::super::reply::json_reply;
use super::super::route::{Policy, Segment, Traffic};
use super::super::state::readable_state;
use super::{EXTENSION, ID, LIVE, REST, listed, missing, profile_id, time, uploads};
use crate::dropin::hosted::Service;
use crate::dropin::hosted::steel::{ContextReply, CreateSession};
use crate::http::error::Error;
use empty_profile::EmptyProfile;
use shapes::{
    FileList, FileReply, ListQuery, LiveDetails, LivePage, ProfileReplies, ProfileReply, ProjectQuery, Release,
    Released, SessionList, SessionReply, profile_reply, reply, state,
};
use warmpool_api::session::SessionView;
use warmpool_core::clock::unix_ms;
use warmpool_core::error::Code;
use warmpool_sessions::session::SessionKind;

const PROFILE: Segment = Segment::new("profile", "The profile's id, which is its name.");
const FILE: Segment = Segment::new("path", "The file's name, or the path that its upload answered.");
/// What a client names for all extensions of its key.
const ALL_EXTENSIONS: &str = "all_ext";
/// How many sessions a list has whose client does not say.
const LISTED: usize = 50;
const POLICY: Policy = Policy::hosted(Service::Steel, &[ID, PROFILE, EXTENSION, FILE, REST]);

pub(super) fn routes() -> Routes {
    let of_session = |id, summary| Operation::new(id, summary, POLICY).fails(&[Code::UnknownSession]);
    let file = |id, summary| of_session(id, summary).fails(&LIVE).fails(&[Code::UnknownFile]);
    let example = json!({"timeout": 600_000, "persistProfile": true});
    let routes = Routes::new("Steel");
    super::extensions::steel(routes, POLICY)
        .post(
            "/steel/v1/sessions",
            create,
            Operation::new("steel_create_session", "Create a session", POLICY.of(Traffic::Work))
                .reads::<CreateSession>(example)
                .writes_at::<SessionReply>(201, "The session is running.")
                .fails(FAILURES)
                .fails(PROFILE_FAILURES),
        )
        .get(
            "/steel/v1/sessions",
            list,
            Operation::new("steel_list_sessions", "List sessions", POLICY.takes::<ListQuery>())
                .about("The newest first; `cursorId` leads to those behind it.")
                .writes::<SessionList>("The sessions."),
        )
        .post(
            "/steel/v1/sessions/release",
            release_all,
            Operation::new("steel_release_sessions", "End every session of the key", POLICY.takes::<ProjectQuery>())
                .reads::<Release>(json!({}))
                .writes::<Released>("They have ended."),
        )
        .get(
            "/steel/v1/sessions/{id}",
            show,
            of_session("steel_get_session", "Look at a session").writes::<SessionReply>("The session."),
        )
        .post(
            "/steel/v1/sessions/{id}/release",
            release,
            of_session("steel_release_session", "End a session")
                .reads::<Release>(json!({}))
                .writes::<Released>("It has ended."),
        )
        .get(
            "/steel/v1/sessions/{id}/live-details",
            live_details,
            of_session("steel_get_live_details", "Find a session's live view")
                .writes::<LiveDetails>("Where it is.")
                .fails(&LIVE),
        )
        .get(
            "/steel/v1/sessions/{id}/context",
            context,
            of_session("steel_get_context", "Read what a session's browser keeps for sites")
                .about("Cookies and storage, which `sessionContext` takes. It is as good as a password.")
                .writes::<ContextReply>("The context.")
                .fails(&LIVE),
        )
        .get(
            "/steel/v1/sessions/{id}/files",
            files,
            of_session("steel_list_files", "List the files of a session").writes::<FileList>("The files.").fails(&LIVE),
        )
        .post(
            "/steel/v1/sessions/{id}/files",
            upload,
            of_session("steel_upload_file", "Give a file to a session")
                .about("A form whose part `file` is the file, and `path` its name. `worker.file_limit` bounds it.")
                .reads_bytes("multipart/form-data")
                .writes::<FileReply>("Where the file is.")
                .fails(&[Code::InvalidBody, Code::Conflict, Code::NoSpace])
                .fails(&LIVE),
        )
        .delete(
            "/steel/v1/sessions/{id}/files",
            remove_all,
            of_session("steel_delete_files", "Remove every file of a session")
                .writes_nothing("They are gone.")
                .fails(&LIVE),
        )
        .get(
            "/steel/v1/sessions/{id}/files/{*path}",
            fetch,
            file("steel_get_file", "Fetch a file").writes_bytes("application/octet-stream", "The file."),
        )
        .delete(
            "/steel/v1/sessions/{id}/files/{*path}",
            remove,
            file("steel_delete_file", "Remove a file").writes_nothing("The file is gone.").fails(&[Code::Conflict]),
        )
        .get(
            "/steel/v1/sessions/{id}/files.zip",
            archive,
            of_session("steel_get_files", "Fetch every file of a session")
                .writes_bytes("application/zip", "The complete files.")
                .fails(&LIVE),
        )
        .get(
            "/steel/v1/profiles",
            profiles,
            Operation::new("steel_list_profiles", "List profiles", POLICY.takes::<ProjectQuery>())
                .writes::<ProfileReplies>("The profiles."),
        )
        .get(
            "/steel/v1/profiles/{profile}",
            show_profile,
            Operation::new("steel_get_profile", "Look at a profile", POLICY.takes::<ProjectQuery>())
                .writes::<ProfileReply>("The profile.")
                .fails(&[Code::UnknownProfile, Code::Conflict]),
        )
        .undescribed("/steel/{*rest}", any(other), POLICY.takes_anything())
}

async fn other(parts: Parts) -> Error {
    missing(Service::Steel, &parts.method, &parts.uri)
}

async fn create(
    State(app): State<App>,
    Caller(key): Caller,
    base: PublicUrl,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (mut request, text) = super::read::<CreateSession>(&app, &headers, body).await?;
    if let Some(ids) = request.extension_ids.as_mut().filter(|ids| ids.iter().any(|id| id == ALL_EXTENSIONS)) {
        let mine = app.extensions.list(|owner| *owner == key).into_iter();
        *ids = mine.map(|extension| extension.extension_id.to_string()).collect();
    }
    let made = match request.profile() {
        Some(name) => {
            app.profiles.get(&key, name)?;
            None
        }
        // The answer names it, so it has to be there before it is saved for the first time.
        None if request.makes_profile() => {
            let name = request.profile_id.insert(profile_id());
            Some(EmptyProfile::make(app.profiles.clone(), key.clone(), name.clone()).await?)
        }
        None => None,
    };
    let options = request.create_body()?.options(SessionKind::DevTools, &app.config)?;
    let _kept = text.kept();
    let session = super::create(&app, key.clone(), options).await?;
    if let Some(made) = made {
        made.keep();
    }
    let (view, _) = app.sessions.find(session.id.as_str(), &key)?;
    Ok(json_reply(StatusCode::CREATED, &reply(&base, view, Some(&session))))
}

async fn list(
    State(app): State<App>,
    Caller(key): Caller,
    base: PublicUrl,
    Query(query): Query<ListQuery>,
) -> Result<Response, Error> {
    app.sessions.wait_until_all_found(&key).await;
    let is_wanted = |view: &SessionView| query.status.is_none_or(|wanted| wanted == state(view.status));
    let mut found = listed(&app, &key, is_wanted);
    let total_count = found.len() as u64;
    if let Some(cursor) = &query.cursor_id {
        // What comes behind it, or nothing where it is gone.
        let at = found.iter().position(|view| view.session_id.as_str() == cursor);
        found.drain(..at.map_or(found.len(), |at| at + 1));
    }
    let limit = query.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(LISTED);
    let next_cursor = found.get(limit).map(|_| found[limit - 1].session_id.to_string());
    found.truncate(limit);
    let shown = |view: SessionView| {
        // The address of a live one is in the list, as Steel's clients expect.
        let live = app.sessions.find(view.session_id.as_str(), &key).ok().and_then(|(_, live)| live);
        reply(&base, view, live.as_ref())
    };
    let sessions = found.into_iter().map(shown).collect();
    Ok(json_reply(StatusCode::OK, &SessionList { sessions, next_cursor, total_count }))
}

async fn show(
    State(app): State<App>,
    Caller(key): Caller,
    base: PublicUrl,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let (view, live) = app.sessions.find_patiently(&id, &key).await?;
    Ok(json_reply(StatusCode::OK, &reply(&base, view, live.as_ref())))
}

async fn release(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (Release {}, _text) = super::read(&app, &headers, body).await?;
    app.sessions.end(&id, &key).await?;
    let message = format!("Session {id} has ended");
    Ok(json_reply(StatusCode::OK, &Released { success: true, message }))
}

async fn release_all(
    State(app): State<App>,
    Caller(key): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (Release {}, _text) = super::read(&app, &headers, body).await?;
    let found = listed(&app, &key, |view| view.ended_at.is_none());
    // Each may have a profile to save.
    try_join_all(found.iter().map(|view| app.sessions.end(view.session_id.as_str(), &key))).await?;
    let message = format!("{} sessions have ended", found.len());
    Ok(json_reply(StatusCode::OK, &Released { success: true, message }))
}

async fn live_details(
    State(app): State<App>,
    Caller(key): Caller,
    base: PublicUrl,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let session = app.sessions.find_live(&id, &key)?;
    let viewer = super::acting_view(&base, &session);
    let page = |(id, title, url): (String, String, String)| LivePage {
        id,
        title,
        url,
        favicon: None,
        session_viewer_url: viewer.clone(),
        session_viewer_fullscreen_url: viewer.clone(),
    };
    let details = LiveDetails {
        pages: super::pages(&session).await?.into_iter().map(page).collect(),
        session_viewer_url: viewer.clone(),
        session_viewer_fullscreen_url: viewer.clone(),
        ws_url: base.websocket_url(&session),
    };
    Ok(json_reply(StatusCode::OK, &details))
}

async fn context(State(app): State<App>, Caller(key): Caller, Path(id): Path<String>) -> Result<Response, Error> {
    let session = app.sessions.find_live(&id, &key)?;
    let state = readable_state(&app, &session).await?;
    Ok(json_reply(StatusCode::OK, &ContextReply::from(state)))
}

async fn files(State(app): State<App>, Caller(key): Caller, Path(id): Path<String>) -> Result<Response, Error> {
    let session = app.sessions.find_live(&id, &key)?;
    let mut files = files_of(&app, &session).await?;
    files.sort_by_key(|file| std::cmp::Reverse(file.modified_ms));
    let data = files.into_iter().filter(|file| file.complete).map(|file| FileReply {
        path: file.name,
        size: file.size,
        last_modified: time(file.modified_ms),
    });
    Ok(json_reply(StatusCode::OK, &FileList { data: data.collect() }))
}

async fn upload(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let session = app.sessions.find_live(&id, &key)?;
    let stored = uploads::store(&app, &session, &headers, body).await?;
    let file = FileReply { path: stored.path, size: stored.size, last_modified: time(unix_ms()) };
    Ok(json_reply(StatusCode::OK, &file))
}

async fn fetch(
    State(app): State<App>,
    Caller(key): Caller,
    Path((id, path)): Path<(String, String)>,
) -> Result<Response, Error> {
    let session = app.sessions.find_live(&id, &key)?;
    fetched(&app, &session, super::name_of(&path)).await
}

async fn remove(
    State(app): State<App>,
    Caller(key): Caller,
    Path((id, path)): Path<(String, String)>,
) -> Result<Response, Error> {
    let session = app.sessions.find_live(&id, &key)?;
    remove_file(&app, &session, super::name_of(&path)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn remove_all(State(app): State<App>, Caller(key): Caller, Path(id): Path<String>) -> Result<Response, Error> {
    let session = app.sessions.find_live(&id, &key)?;
    for file in files_of(&app, &session).await? {
        remove_file(&app, &session, &file.name).await?;
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn archive(State(app): State<App>, Caller(key): Caller, Path(id): Path<String>) -> Result<Response, Error> {
    super::zip(&app.sessions.find_live(&id, &key)?, |_| true).await
}

async fn profiles(State(app): State<App>, Caller(key): Caller) -> Result<Response, Error> {
    let profiles: Vec<ProfileReply> = app.profiles.list(|owner| *owner == key).into_iter().map(profile_reply).collect();
    Ok(json_reply(StatusCode::OK, &ProfileReplies { count: profiles.len(), profiles }))
}

async fn show_profile(
    State(app): State<App>,
    Caller(key): Caller,
    Path(name): Path<String>,
) -> Result<Response, Error> {
    Ok(json_reply(StatusCode::OK, &profile_reply(app.profiles.get(&key, &name)?)))
}
