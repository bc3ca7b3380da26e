//! `/video`: recordings where Selenoid has its videos. A file is named after its session: by Warmpool's own id of it, as the list
//! has it, or by the id that the client of the grid knows. It stays after the session's end, so all of it needs the key.

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use serde_json::json;

use super::super::App;
use super::super::auth::GridCaller;
use super::super::openapi::{Access, Operation, Routes};
use super::super::recording::{part, parts, remove_parts, video};
use super::super::reply::json_reply;
use super::super::route::{Policy, Segment};
use super::ListQuery;
use crate::http::error::Error;
use warmpool_core::error::Code;
use warmpool_core::ids::SessionId;
use warmpool_keys::KeyId;
use warmpool_sessions::video::Part;

/// A file in a path. The id of a grid's session may be in it, which opens the session.
const NAME: Segment =
    Segment::secret("name", "The session's id, and a suffix such as `.mp4`. Later parts have `-2` between them.");
const POLICY: Policy = Policy::rest(Access::Grid, &[NAME]);

pub(super) fn routes(routes: Routes) -> Routes {
    let listing = |id| {
        Operation::new(id, "List recordings, where Selenoid has its videos", POLICY.takes::<ListQuery>())
            .writes::<Vec<String>>("The names of the files of this key's sessions.")
    };
    let of_file = |id, summary| Operation::new(id, summary, POLICY).fails(&[Code::UnknownFile]);
    routes
        .get("/video", list, listing("list_selenoid_videos"))
        .get("/video/", list, listing("list_selenoid_videos_in_folder"))
        .get(
            "/video/{name}",
            fetch,
            video(of_file("get_selenoid_video", "Fetch a recording, where Selenoid has its videos"))
                .about("WebM or Matroska, whatever the suffix says."),
        )
        .delete(
            "/video/{name}",
            remove,
            of_file("delete_selenoid_video", "Delete a recording, where Selenoid has its videos")
                .about("All parts of it.")
                .empty(200, "Nothing of it is left.")
                .fails(&[Code::Conflict]),
        )
}

/// `GET /video/`
async fn list(State(app): State<App>, GridCaller(key): GridCaller) -> Result<Response, Error> {
    let mut names = Vec::new();
    for id in app.sessions.list_recorded(&key) {
        names.extend((1..).zip(parts(&app, &id).await?).map(|(number, part)| name(&id, number, &part)));
    }
    names.sort_unstable();
    Ok(json_reply(StatusCode::OK, &json!(names)))
}

/// `GET /video/<name>`
async fn fetch(
    State(app): State<App>,
    GridCaller(key): GridCaller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Error> {
    let (id, number) = find(&app, &name, &key)?;
    let part_of = parts(&app, &id).await?.into_iter().nth(number - 1);
    let found = part_of.ok_or_else(|| unknown(&name))?;
    part(&app, id.as_str(), found.name, request).await
}

/// `DELETE /video/<name>`: 200, as from Selenoid.
async fn remove(
    State(app): State<App>,
    GridCaller(key): GridCaller,
    Path(name): Path<String>,
) -> Result<Response, Error> {
    let (id, _) = find(&app, &name, &key)?;
    if parts(&app, &id).await?.is_empty() {
        return Err(unknown(&name));
    }
    remove_parts(&app, id.as_str(), &key).await?;
    Ok(StatusCode::OK.into_response())
}

/// The session that a file is named after, and which part it is, counted from 1.
fn find(app: &App, name: &str, key: &KeyId) -> Result<(SessionId, usize), Error> {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let session = |stem: &str| {
        let own = SessionId::from(stem);
        app.sessions.find(stem, key).ok().map(|_| own).or_else(|| app.sessions.find_recorded_by_grid_id(stem, key))
    };
    // Ids have hyphens of their own, so the whole stem is tried first.
    let of_part = || {
        let (stem, number) = stem.rsplit_once('-')?;
        Some((session(stem)?, number.parse().ok().filter(|number| *number > 1)?))
    };
    session(stem).map(|id| (id, 1)).or_else(of_part).ok_or_else(|| unknown(name))
}

fn name(id: &SessionId, number: usize, part: &Part) -> String {
    let suffix = part.name.rsplit_once('.').map_or("", |(_, suffix)| suffix);
    if number == 1 { format!("{id}.{suffix}") } else { format!("{id}-{number}.{suffix}") }
}

fn unknown(name: &str) -> Error {
    // The name may have an id in it that opens a session.
    let shown: String = name.chars().take(4).collect();
    warmpool_sessions::Error::UnknownFile { name: format!("{shown}…") }.into()
}
