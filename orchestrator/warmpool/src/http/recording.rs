//! `/sessions/<id>/recording`: what was recorded of a session, also after its end.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use http::header::X_CONTENT_TYPE_OPTIONS;
use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::timeout;
use tower::ServiceExt as _;
use tower_http::services::ServeFile;

use super::App;
use super::auth::Caller;
use super::credential::Credential;
use super::live::ViewToken;
use super::openapi::{Access, Operation, Routes};
use super::query::Query;
use super::reply::json_reply;
use super::sessions::OF_SESSION;
use crate::http::error::Error;
use warmpool_api::session::SessionView;
use warmpool_core::error::{Code, ServiceFault as _};
use warmpool_core::ids::SessionId;
use warmpool_core::secret::Secret;
use warmpool_keys::KeyId;
use warmpool_sessions::video::Part;

/// How long a deletion waits for the last part, which is finished behind the session's end.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn routes(routes: Routes) -> Routes {
    let with_key = |id, summary| Operation::new(id, summary, OF_SESSION).fails(&[Code::UnknownSession]);
    let by_token = OF_SESSION.access(Access::Address).takes::<ViewToken>();
    let with_token = |id, summary| {
        Operation::new(id, summary, by_token)
            .about("The same by the token of the session's live view.")
            .fails(&[Code::UnknownSession])
    };
    routes
        .get(
            "/sessions/{id}/recording",
            list,
            with_key("list_recording", "List the parts of a recording")
                .about("Also after the session's end.")
                .writes::<RecordingParts>("The parts, the oldest first."),
        )
        .delete(
            "/sessions/{id}/recording",
            remove,
            with_key("delete_recording", "Delete a recording")
                .writes_nothing("Nothing of it is left.")
                .fails(&[Code::Conflict]),
        )
        .get("/sessions/{id}/recording/{name}", fetch, video(with_key("get_recording", "Fetch a part of a recording")))
        .get(
            "/sessions/{id}/stream/recording",
            list_for_view,
            with_token("list_viewed_recording", "List the parts of a recording, for the live view")
                .writes::<RecordingParts>("The parts, the oldest first."),
        )
        .get(
            "/sessions/{id}/stream/recording/{name}",
            fetch_for_view,
            video(with_token("get_viewed_recording", "Fetch a part of a recording, for the live view")),
        )
}

/// An operation that answers with a part of a recording.
pub(super) fn video(operation: Operation) -> Operation {
    operation
        .header("Range", "Which bytes.", serde_json::json!({"type": "string"}))
        .writes_bytes("video/*", "The part: WebM of a display, Matroska of a headless Chromium.")
        .writes_at_bytes(206, "video/*", "The bytes that were asked for.")
        .empty(304, "The client has it already.")
        .empty(416, "The part has no such bytes.")
        .fails(&[Code::UnknownFile])
}

/// What there is of a recording.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Recordings")]
struct RecordingParts {
    /// Whether the session asked to be recorded.
    recording: bool,
    parts: Vec<Part>,
}

/// `GET /sessions/<id>/recording`: the parts there are.
pub(super) async fn list(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let (listing, _) = app.sessions.find(&id, &key)?;
    listed(&app, listing).await
}

/// `GET /sessions/<id>/stream/recording`: the same for the session's live view, which links to it once the session has
/// ended.
pub(super) async fn list_for_view(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(ViewToken { token }): Query<ViewToken>,
) -> Result<Response, Error> {
    let listing = app.sessions.find_by_view_token(&id, &token)?;
    listed(&app, listing).await
}

async fn listed(app: &App, listing: SessionView) -> Result<Response, Error> {
    let parts = parts(app, &listing.session_id).await?;
    Ok(json_reply(StatusCode::OK, &RecordingParts { recording: listing.recording, parts }))
}

/// The parts of a session's recording, the oldest first.
pub(super) async fn parts(app: &App, id: &SessionId) -> Result<Vec<Part>, Error> {
    let (recordings, id) = (app.recorder.recordings().clone(), id.clone());
    let parts = tokio::task::spawn_blocking(move || recordings.parts(&id)).await;
    parts.map_err(Error::internal)?.map_err(Error::internal)
}

/// `GET /sessions/<id>/recording/<name>`: one part, or a range of it.
pub(super) async fn fetch(
    State(app): State<App>,
    Caller(key): Caller,
    Path((id, name)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Error> {
    app.sessions.find(&id, &key)?;
    part(&app, &id, name, request).await
}

/// `GET /sessions/<id>/stream/recording/<name>`: the same for the session's live view.
pub(super) async fn fetch_for_view(
    State(app): State<App>,
    Path((id, name)): Path<(String, String)>,
    Query(ViewToken { token }): Query<ViewToken>,
    request: Request,
) -> Result<Response, Error> {
    app.sessions.find_by_view_token(&id, &token)?;
    Credential::LiveView { session: id.clone(), token: Secret::new(token) }.note();
    part(&app, &id, name, request).await
}

/// A part, or a range of it.
pub(super) async fn part(app: &App, id: &str, name: String, request: Request) -> Result<Response, Error> {
    let file = app.recorder.recordings().file(&SessionId::from(id), &name);
    let file = file.ok_or(warmpool_sessions::Error::UnknownFile { name })?;
    let mut response = ServeFile::new(file).oneshot(request).await.unwrap_or_else(|never| match never {});
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response.map(Body::new))
}

/// `DELETE /sessions/<id>/recording`: all of it.
pub(super) async fn remove(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    remove_parts(&app, &id, &key).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Removes all parts of a session's recording.
/// Errors: `UnknownSession`, and `Conflict` while the session is recorded or, for long, the last part is finished.
pub(super) async fn remove_parts(app: &App, id: &str, key: &KeyId) -> Result<(), Error> {
    let (listing, live) = app.sessions.find(id, key)?;
    if live.is_some() && listing.recording {
        let message = "the session is still being recorded: end it first".to_owned();
        return Err(Error::Conflict { message });
    }
    let recordings = app.recorder.recordings().clone();
    if timeout(FINISH_TIMEOUT, recordings.finished(&listing.session_id)).await.is_err() {
        let message = "the last part of the recording is still being written: try again later".to_owned();
        return Err(Error::Conflict { message });
    }
    let removed = tokio::task::spawn_blocking(move || recordings.remove(&listing.session_id)).await;
    removed.map_err(Error::internal)?.map_err(Error::internal)
}
