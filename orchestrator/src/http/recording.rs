//! `/sessions/<id>/recording`: what was recorded of a session, also after its end.

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use http::header::X_CONTENT_TYPE_OPTIONS;
use http::{HeaderValue, StatusCode};
use serde_json::json;
use tower::ServiceExt as _;
use tower_http::services::ServeFile;

use super::App;
use super::auth::Caller;
use super::live::ViewToken;
use super::reply::json_reply;
use crate::engine::SessionId;
use crate::error::Error;
use crate::session::Listing;

/// `GET /sessions/<id>/recording`: the parts there are.
pub(super) async fn list(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let (listing, _) = app.sessions.find(&id, &key)?;
    parts(&app, listing).await
}

/// `GET /sessions/<id>/stream/recording`: the same for the session's live view, which links to it once the session has
/// ended.
pub(super) async fn list_for_view(
    State(app): State<App>,
    Path(id): Path<String>,
    ViewToken(token): ViewToken,
) -> Result<Response, Error> {
    let listing = app.sessions.find_by_view_token(&id, &token)?;
    parts(&app, listing).await
}

async fn parts(app: &App, listing: Listing) -> Result<Response, Error> {
    let recordings = app.recorder.recordings().clone();
    let parts = tokio::task::spawn_blocking(move || recordings.parts(&listing.session_id)).await;
    let parts = parts.map_err(Error::internal)?.map_err(Error::internal)?;
    Ok(json_reply(StatusCode::OK, &json!({"recording": listing.recording, "parts": parts})))
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
    ViewToken(token): ViewToken,
    request: Request,
) -> Result<Response, Error> {
    app.sessions.find_by_view_token(&id, &token)?;
    part(&app, &id, name, request).await
}

async fn part(app: &App, id: &str, name: String, request: Request) -> Result<Response, Error> {
    let file = app.recorder.recordings().file(&SessionId::from(id), &name);
    let file = file.ok_or(Error::UnknownFile { name })?;
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
    let (listing, live) = app.sessions.find(&id, &key)?;
    if live.is_some() && listing.recording {
        let message = "the session is still being recorded: end it first".to_owned();
        return Err(Error::Conflict { message });
    }
    let recordings = app.recorder.recordings().clone();
    let removed = tokio::task::spawn_blocking(move || recordings.remove(&listing.session_id)).await;
    removed.map_err(Error::internal)?.map_err(Error::internal)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
