//! `/sessions/<id>/thumbnail`: a small picture of a session as it is, or as it was last.

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::App;
use super::auth::Caller;
use super::openapi::{Operation, Routes};
use super::route::Traffic;
use super::sessions::OF_SESSION;
use crate::http::error::Error;
use warmpool_core::error::Code;
use warmpool_core::ids::SessionId;

pub(super) fn routes(routes: Routes) -> Routes {
    let policy = OF_SESSION.of(Traffic::Commands);
    routes.get(
        "/sessions/{id}/thumbnail",
        fetch,
        Operation::new("get_thumbnail", "A small picture of a session", policy)
            .about(
                "It is taken when somebody asks, and no more often than `console.thumbnail_interval` says. Of a session that has \
                 ended, it is the last one that was taken, as long as the daemon has it in memory.",
            )
            .writes_bytes("image/jpeg", "The picture.")
            .empty(204, "The browser gives none.")
            .empty(304, "The caller has this picture; the header `If-None-Match` named it.")
            .fails(&[Code::UnknownSession, Code::SessionEnded]),
    )
}

/// `GET /sessions/<id>/thumbnail`: a JPEG; 204 where the browser gives none, 304 where it is the one that the caller has.
pub(super) async fn fetch(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let thumbnail = match app.sessions.find_live(&id, &key) {
        Ok(session) => app.thumbnails.newest(&session).await,
        Err(error @ warmpool_sessions::Error::SessionEnded { .. }) => {
            Some(app.thumbnails.last(&SessionId::from(id.as_str())).ok_or(error)?)
        }
        Err(error) => return Err(error.into()),
    };
    let Some(thumbnail) = thumbnail else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let tag = format!("\"{}\"", thumbnail.tag);
    let known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = if known { StatusCode::NOT_MODIFIED.into_response() } else { thumbnail.jpeg.into_response() };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("image/jpeg"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(ETAG, tag);
    }
    Ok(response)
}
