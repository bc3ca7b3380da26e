//! The calls of Browserbase's SDKs. `shapes` has what they send and read.

mod shapes;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use http::{HeaderMap, StatusCode};
use serde_json::json;

use super::super::App;
use super::super::auth::Caller;
use super::super::create::{FAILURES, PROFILE_FAILURES};
use super::super::openapi::{Operation, Routes};
use super::super::public_url::PublicUrl;
use super::super::query::Query;
use super::super::reply::json_reply;
use super::super::route::{Policy, Segment, Traffic};
use super::{EXTENSION, ID, LIVE, MAX_LISTED, REST, listed, missing, profile_id, time, uploads};
use crate::dropin::hosted::Service;
use crate::dropin::hosted::browserbase::{CreateSession, wanted_label};
use crate::http::error::Error;
use shapes::{
    ContextReply, CreateContext, DebugQuery, ListQuery, LivePage, LiveUrls, RecordingDownload, RecordingDownloads,
    RequestedStatus, SessionReply, UpdateSession, Upload, context_reply, reply, state,
};
use warmpool_api::profile::ProfileKind;
use warmpool_api::session::SessionView;
use warmpool_core::error::{Code, FieldFault as _};
use warmpool_sessions::session::SessionKind;
use warmpool_sessions::video::Part;

const CONTEXT: Segment = Segment::new("context", "The context's id: the name of a profile.");
const POLICY: Policy = Policy::hosted(Service::Browserbase, &[ID, CONTEXT, EXTENSION, REST]);

pub(super) fn routes() -> Routes {
    let of_session = |id, summary, policy| Operation::new(id, summary, policy).fails(&[Code::UnknownSession]);
    let example = json!({"browserSettings": {"context": {"id": "shop", "persist": true}}, "timeout": 600});
    let context = |id, summary| Operation::new(id, summary, POLICY).fails(&[Code::UnknownProfile]);
    let routes = Routes::new("Browserbase");
    super::extensions::browserbase(routes, POLICY)
        .post(
            "/browserbase/v1/sessions",
            create,
            Operation::new("browserbase_create_session", "Create a session", POLICY.of(Traffic::Work))
                .reads::<CreateSession>(example)
                .writes::<SessionReply>("The session is running.")
                .fails(FAILURES)
                .fails(PROFILE_FAILURES),
        )
        .get(
            "/browserbase/v1/sessions",
            list,
            Operation::new("browserbase_list_sessions", "List sessions", POLICY.takes::<ListQuery>())
                .about("The newest hundred of the key.")
                .writes::<Vec<SessionReply>>("The sessions."),
        )
        .get(
            "/browserbase/v1/sessions/{id}",
            show,
            of_session("browserbase_get_session", "Look at a session", POLICY).writes::<SessionReply>("The session."),
        )
        .post(
            "/browserbase/v1/sessions/{id}",
            release,
            of_session("browserbase_update_session", "End a session", POLICY)
                .reads::<UpdateSession>(json!({"status": "REQUEST_RELEASE"}))
                .writes::<SessionReply>("The session after its end."),
        )
        .get(
            "/browserbase/v1/sessions/{id}/debug",
            debug,
            of_session("browserbase_debug_session", "Find a session's live view", POLICY.takes::<DebugQuery>())
                .writes::<LiveUrls>("Where it is.")
                .fails(&LIVE),
        )
        .post(
            "/browserbase/v1/sessions/{id}/uploads",
            upload,
            of_session("browserbase_upload", "Give a file to a session", POLICY)
                .about("A form whose part `file` is the file. `worker.file_limit` bounds it.")
                .reads_bytes("multipart/form-data")
                .writes::<Upload>("Where the file is.")
                .fails(&[Code::InvalidBody, Code::Conflict, Code::NoSpace])
                .fails(&LIVE),
        )
        .get(
            "/browserbase/v1/sessions/{id}/downloads",
            downloads,
            of_session("browserbase_downloads", "Fetch what a session has downloaded", POLICY)
                .about("While the session lives.")
                .writes_bytes("application/zip", "The complete downloads.")
                .fails(&LIVE),
        )
        .get(
            "/browserbase/v1/sessions/{id}/recording/downloads",
            recording,
            of_session("browserbase_recording_downloads", "Find the recording of a session", POLICY)
                .about("Also after the session's end.")
                .writes::<RecordingDownloads>("The parts, the oldest first."),
        )
        .post(
            "/browserbase/v1/sessions/{id}/recording/downloads",
            recording,
            of_session("browserbase_request_recording_downloads", "Find the recording of a session, by POST", POLICY)
                .about("Nothing has to be assembled.")
                .writes::<RecordingDownloads>("The parts, the oldest first."),
        )
        .post(
            "/browserbase/v1/contexts",
            create_context,
            Operation::new("browserbase_create_context", "Make a context", POLICY)
                .about("An empty profile of the key.")
                .reads::<CreateContext>(json!({"name": "shop"}))
                .writes_at::<ContextReply>(201, "The context.")
                .fails(&[
                    Code::ProfileExists,
                    Code::ProfileInUse,
                    Code::ProfileLimit,
                    Code::DiskNearlyFull,
                    Code::StoreBusy,
                ]),
        )
        .get(
            "/browserbase/v1/contexts/{context}",
            show_context,
            context("browserbase_get_context", "Look at a context")
                .writes::<ContextReply>("The context.")
                .fails(&[Code::Conflict]),
        )
        .delete(
            "/browserbase/v1/contexts/{context}",
            delete_context,
            context("browserbase_delete_context", "Delete a context for good")
                .writes_nothing("It is gone.")
                .fails(&[Code::ProfileInUse, Code::StoreBusy]),
        )
        .undescribed("/browserbase/{*rest}", any(other), POLICY.takes_anything())
}

async fn other(parts: Parts) -> Error {
    missing(Service::Browserbase, &parts.method, &parts.uri)
}

async fn create(
    State(app): State<App>,
    Caller(key): Caller,
    base: PublicUrl,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (request, text) = super::read::<CreateSession>(&app, &headers, body).await?;
    if let Some(context) = request.context() {
        app.profiles.get(&key, context)?;
    }
    let options = request.create_body()?.options(SessionKind::DevTools, &app.config)?;
    let _kept = text.kept();
    let session = super::create(&app, key.clone(), options).await?;
    let (view, _) = app.sessions.find(session.id.as_str(), &key)?;
    Ok(json_reply(StatusCode::OK, &reply(&base, view, Some(&session))))
}

async fn list(
    State(app): State<App>,
    Caller(key): Caller,
    base: PublicUrl,
    Query(query): Query<ListQuery>,
) -> Result<Response, Error> {
    let label = query.q.as_deref().map(wanted_label).transpose()?;
    let is_wanted = |view: &SessionView| {
        let has_label =
            label.as_ref().is_none_or(|(key, value)| view.metadata.labels().any(|label| label == (key, value)));
        has_label && query.status.is_none_or(|wanted| wanted == state(view))
    };
    let found = listed(&app, &key, is_wanted);
    let replies: Vec<SessionReply> = found.into_iter().take(MAX_LISTED).map(|view| reply(&base, view, None)).collect();
    Ok(json_reply(StatusCode::OK, &replies))
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
    base: PublicUrl,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (UpdateSession { status: RequestedStatus::RequestRelease, .. }, _text) =
        super::read(&app, &headers, body).await?;
    let view = app.sessions.end(&id, &key).await?;
    Ok(json_reply(StatusCode::OK, &reply(&base, view, None)))
}

async fn debug(
    State(app): State<App>,
    Caller(key): Caller,
    base: PublicUrl,
    Path(id): Path<String>,
    Query(query): Query<DebugQuery>,
) -> Result<Response, Error> {
    if query.expires_in.is_some() {
        let remedy = "POST /sessions/<id>/share makes an address with an end of its own";
        return Err(Error::not_supported("expiresIn", format!("is not served: {remedy}")));
    }
    let session = app.sessions.find_live(&id, &key)?;
    let url = super::acting_view(&base, &session);
    let page = |(id, title, page_url): (String, String, String)| LivePage {
        id,
        title,
        url: page_url,
        favicon_url: String::new(),
        debugger_url: url.clone(),
        debugger_fullscreen_url: url.clone(),
    };
    let pages = super::pages(&session).await?.into_iter().map(page).collect();
    let ws_url = base.websocket_url(&session);
    let urls = LiveUrls { debugger_url: url.clone(), debugger_fullscreen_url: url.clone(), ws_url, pages };
    Ok(json_reply(StatusCode::OK, &urls))
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
    let message = format!("File uploaded successfully to {}", stored.path);
    Ok(json_reply(StatusCode::OK, &Upload { message, path: stored.path }))
}

async fn downloads(State(app): State<App>, Caller(key): Caller, Path(id): Path<String>) -> Result<Response, Error> {
    super::downloads(&app.sessions.find_live(&id, &key)?).await
}

async fn recording(
    State(app): State<App>,
    Caller(key): Caller,
    base: PublicUrl,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let (view, _) = app.sessions.find(&id, &key)?;
    let part = |part: Part| RecordingDownload {
        status: if part.complete { "COMPLETED" } else { "PENDING" },
        download_url: part.complete.then(|| super::part_url(&app, &base, &view.session_id, &part)),
        completed_at: part.duration.filter(|_| part.complete).map(|duration| time(part.started_at + duration)),
        page_id: part.name,
    };
    let downloads = super::parts(&app, &view.session_id).await?.into_iter().map(part).collect();
    Ok(json_reply(StatusCode::OK, &RecordingDownloads { downloads }))
}

async fn create_context(
    State(app): State<App>,
    Caller(key): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (CreateContext { name, .. }, _text) = super::read(&app, &headers, body).await?;
    // As there, space around a name is no part of it.
    let name = name.map_or_else(profile_id, |name| name.trim().to_owned());
    let made = app.profiles.create(&key, &name, ProfileKind::State, None).await?;
    Ok(json_reply(StatusCode::CREATED, &context_reply(made)))
}

async fn show_context(
    State(app): State<App>,
    Caller(key): Caller,
    Path(context): Path<String>,
) -> Result<Response, Error> {
    Ok(json_reply(StatusCode::OK, &context_reply(app.profiles.get(&key, &context)?)))
}

async fn delete_context(
    State(app): State<App>,
    Caller(key): Caller,
    Path(context): Path<String>,
) -> Result<Response, Error> {
    app.profiles.delete(&key, &context).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
