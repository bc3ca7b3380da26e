//! Files of a session: what its browser downloaded, and what its pages may upload. They live and die with the worker.

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::StatusCode;
use http_body_util::BodyExt as _;
use schemars::JsonSchema;
use serde::Serialize;
use warmpool_core::error::{Code, FieldFault as _};
use warmpool_protocol as protocol;

use super::App;
use super::auth::Caller;
use super::forwarded_body::forwarded_body;
use super::openapi::{Operation, Routes};
use super::reply::{download, json_reply};
use super::route::Segment;
use super::sessions::OF_SESSION;
use crate::http::error::Error;
use warmpool_sessions::session::Session;
use warmpool_sessions::webdriver::explain_no_answer;
use warmpool_workers::worker::AgentError;

/// The setting that limits a file.
pub(super) const LIMIT: &str = "worker.file_limit";

/// A file of a session.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "File")]
struct ListedFile {
    name: String,
    /// Bytes so far.
    size: u64,
    /// Its last change, in Unix milliseconds.
    modified_ms: u64,
    source: FileSource,
    /// Whether all of it is there.
    complete: bool,
}

/// Where a file came from.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum FileSource {
    /// The browser saved it.
    Download,
    /// A client sent it.
    Upload,
}

/// A file that was sent.
#[derive(Serialize, JsonSchema)]
struct StoredFile {
    /// Where a page's file chooser finds it, inside the container.
    path: String,
    name: String,
    /// Its size, in bytes.
    size: u64,
}

impl From<protocol::File> for ListedFile {
    fn from(file: protocol::File) -> Self {
        let source = match file.source {
            protocol::FileSource::Download => FileSource::Download,
            protocol::FileSource::Upload => FileSource::Upload,
        };
        Self { name: file.name, size: file.size, modified_ms: file.modified_ms, source, complete: file.complete }
    }
}

/// A file's name in a path.
pub(super) const FILE: Segment = Segment::new("name", "The file's name.");

pub(super) fn routes(routes: Routes) -> Routes {
    let operation = |id, summary| {
        Operation::new(id, summary, OF_SESSION).fails(&[
            Code::UnknownSession,
            Code::SessionEnded,
            Code::RuntimeDown,
            Code::Starting,
            Code::WorkerFailed,
            Code::WorkerTimeout,
        ])
    };
    routes
        .get(
            "/sessions/{id}/files",
            list,
            operation("list_files", "List the files of a session")
                .about("What was uploaded, and what the browser downloaded.")
                .writes::<Vec<ListedFile>>("The files."),
        )
        .get(
            "/sessions/{id}/files/{name}",
            fetch,
            operation("get_file", "Fetch a file")
                .writes_bytes("application/octet-stream", "The file.")
                .fails(&[Code::UnknownFile]),
        )
        .put(
            "/sessions/{id}/files/{name}",
            put,
            operation("put_file", "Give a file to a session")
                .about("A page's upload field can take it. `worker.file_limit` bounds one file.")
                .reads_bytes("application/octet-stream")
                .writes::<StoredFile>("Where the file is.")
                .fails(&[Code::InvalidBody, Code::Conflict, Code::NoSpace]),
        )
        .delete(
            "/sessions/{id}/files/{name}",
            remove,
            operation("delete_file", "Remove a file")
                .writes_nothing("The file is gone.")
                .fails(&[Code::UnknownFile, Code::Conflict]),
        )
}

/// `GET /sessions/<id>/files`
pub(super) async fn list(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let session = app.sessions.find_live(&id, &key)?;
    let files: Vec<ListedFile> = files_of(&app, &session).await?.into_iter().map(ListedFile::from).collect();
    Ok(json_reply(StatusCode::OK, &files))
}

/// The files of a session.
/// Errors: those of asking the worker.
pub(super) async fn files_of(app: &App, session: &Session) -> Result<Vec<protocol::File>, Error> {
    let _busy = session.busy();
    match session.worker.agent.files().await {
        Ok(files) => Ok(files),
        Err(error) => Err(refused(app, session, "", error).await),
    }
}

/// `GET /sessions/<id>/files/<name>`
pub(super) async fn fetch(
    State(app): State<App>,
    Caller(key): Caller,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, Error> {
    let session = app.sessions.find_live(&id, &key)?;
    fetched(&app, &session, &name).await
}

/// A file of a session, as an answer.
/// Errors: `UnknownFile`, and those of asking the worker.
pub(super) async fn fetched(app: &App, session: &Session, name: &str) -> Result<Response, Error> {
    let busy = session.busy();
    match session.worker.agent.read_file(name).await {
        Ok(content) => {
            // Until its last byte is sent the session is in use: one that is idle ends, and the file with it.
            let held = move |frame| {
                let _ = &busy;
                frame
            };
            Ok(download(Body::new(content.map_frame(held)), "application/octet-stream"))
        }
        Err(error) => Err(refused(app, session, name, error).await),
    }
}

/// `PUT /sessions/<id>/files/<name>`
pub(super) async fn put(
    State(app): State<App>,
    Caller(key): Caller,
    Path((id, name)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Error> {
    let session = app.sessions.find_live(&id, &key)?;
    let _busy = session.busy();
    let (content, fault) = forwarded_body(&app, request.into_body(), app.config.worker.file_limit.bytes(), LIMIT)?;
    let sent = async {
        match session.worker.agent.store_file(&name, content).await {
            Ok(protocol::StoredFile { path, name, size }) => {
                Ok(json_reply(StatusCode::OK, &StoredFile { path, name, size }))
            }
            Err(error) => Err(refused(&app, &session, &name, error).await),
        }
    };
    fault.or(sent).await
}

/// `DELETE /sessions/<id>/files/<name>`
pub(super) async fn remove(
    State(app): State<App>,
    Caller(key): Caller,
    Path((id, name)): Path<(String, String)>,
) -> Result<StatusCode, Error> {
    let session = app.sessions.find_live(&id, &key)?;
    remove_file(&app, &session, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes a file of a session.
/// Errors: `UnknownFile`, `Conflict`, and those of asking the worker.
pub(super) async fn remove_file(app: &App, session: &Session, name: &str) -> Result<(), Error> {
    let _busy = session.busy();
    match session.worker.agent.remove_file(name).await {
        Ok(()) => Ok(()),
        Err(error) => Err(refused(app, session, name, error).await),
    }
}

pub(super) async fn refused(app: &App, session: &Session, name: &str, error: AgentError) -> Error {
    let AgentError::Refused { status, message } = error else { return explain_no_answer(session, error).await.into() };
    match status {
        StatusCode::NOT_FOUND => warmpool_sessions::Error::UnknownFile { name: name.to_owned() }.into(),
        StatusCode::PAYLOAD_TOO_LARGE => {
            Error::BodyTooLarge { limit: app.config.worker.file_limit.bytes(), setting: LIMIT }
        }
        StatusCode::BAD_REQUEST => Error::invalid("name", format!("was refused: {message}")),
        StatusCode::CONFLICT => Error::Conflict { message },
        StatusCode::INSUFFICIENT_STORAGE => warmpool_sessions::Error::NoSpace.into(),
        _ => warmpool_sessions::Error::worker("the worker could not serve the file", message).into(),
    }
}
