//! `/w/<token>`: the viewer of a world. Anyone holding this URL sees the world until it is renewed, closed or deleted.

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::App;
use super::answer;
use super::console;
use super::credential::Credential;
use super::headers::wants;
use super::openapi::{Access, EVENTS, Operation, Routes};
use super::reply::json_reply;
use super::route::{Policy, Segment};
use super::worlds::events;
use crate::http::error::Error;
use warmpool_api::world::Scene;
use warmpool_core::error::Code;
use warmpool_core::secret::Secret;

const POLICY: Policy = Policy::rest(
    Access::Open,
    &[
        Segment::secret("token", "What the viewer's URL ends with. Whoever has it sees the world."),
        Segment::new("file", "The file's name."),
    ],
);

pub(super) fn routes(routes: Routes) -> Routes {
    let operation = |id, summary| Operation::new(id, summary, POLICY).fails(&[Code::UnknownViewer]);
    routes
        .get(
            "/w/{token}",
            page,
            operation("get_viewer", "Open the viewer of a world").writes_text("text/html", "The page that shows the world.").fails_with_pages(),
        )
        .get(
            "/w/{token}/{file}",
            file,
            operation("get_viewer_file", "Fetch what a viewer shows")
                .about("`scene.json` is the scene's description, `events` reports its changes, and all others are pictures: the scene's, and those of its items under the names in `picture_url`.")
                .writes::<Scene>("The scene.")
                .writes_text(EVENTS, "The scene now, and whenever it changes.")
                .writes_bytes("image/*", "One of its pictures.")
                .fails(&[Code::UnknownFile, Code::StoreBusy]),
        )
}

/// `GET /w/<token>`
pub(super) async fn page(State(app): State<App>, Path(token): Path<String>, headers: HeaderMap) -> Response {
    let mut response = match app.worlds.find_by_token(&token).await {
        Ok(_) => console::page(StatusCode::OK, "world.html", &[]),
        Err(warmpool_worlds::Error::UnknownViewer) if wants(&headers, "text/html") => {
            console::page(StatusCode::NOT_FOUND, "world-closed.html", &[])
        }
        Err(error) => Error::from(error).into_response(),
    };
    response.headers_mut().insert(VARY, HeaderValue::from(ACCEPT));
    private(response)
}

/// `GET /w/<token>/<file>`: the scene's description, its changes, or one of its pictures.
pub(super) async fn file(
    State(app): State<App>,
    Path((token, name)): Path<(String, String)>,
) -> Result<Response, Error> {
    let record = app.worlds.find_by_token(&token).await?;
    Credential::WorldViewer(Secret::new(token)).note();
    let response = match name.as_str() {
        "scene.json" => json_reply(StatusCode::OK, &app.worlds.view(record, false).await?.scene()),
        "events" => events(&app, record, "scene", |view| view.scene()),
        _ => {
            let unknown = || warmpool_sessions::Error::UnknownFile { name: name.chars().take(100).collect() };
            let (picture, media_type) = app.worlds.picture(&record, &name).await?.ok_or_else(unknown)?;
            // It is in memory as a whole, so there has to be room before it is read.
            let memory = answer::reserve(picture.size)?;
            let picture = picture.read().await?.ok_or_else(unknown)?;
            ([(CONTENT_TYPE, HeaderValue::from_static(media_type))], memory.body(picture)).into_response()
        }
    };
    Ok(private(response))
}

/// A viewer's content is private: no cache keeps it, no search engine lists it, and no other server learns its address.
fn private(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("x-robots-tag", HeaderValue::from_static("noindex, nofollow"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
