//! Selenoid's own addresses beside WebDriver: downloads, the clipboard and the log of a session. The id in them opens the session,
//! as a grid's ids do. `video` has its recordings. Its VNC is refused: a live view is in its place.

mod video;

use std::fmt::Write as _;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{any, get};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use schemars::JsonSchema;
use serde::Deserialize;

use super::auth::GridKey;
use super::files::{FILE, files_of, remove_file};
use super::grid::{download, driven};
use super::openapi::{Access, Operation, Routes};
use super::reply::json_reply;
use super::route::{Policy, Segment};
use super::{App, body};
use crate::http::error::Error;
use warmpool_api::log::{LogEntry, LogEvent};
use warmpool_core::error::{Code, FieldFault as _};
use warmpool_protocol::{CLIPBOARD_LIMIT, FileSource};
use warmpool_sessions::session::Session;
use warmpool_sessions::webdriver::explain_no_answer;
use warmpool_workers::worker::AgentError;

/// A session in a path: its id opens it.
const ID: Segment =
    Segment::secret("id", "The session's id, as the answer to the new session has it. It opens the session.");
/// Calls about a session.
const POLICY: Policy = Policy::rest(Access::Grid, &[ID, FILE]);
/// What is behind the address of a VNC: the session's id, which opens the session.
const REST: Segment = Segment::secret("rest", "The session's id.");
/// A path that is not served.
const REFUSAL: Policy = Policy::rest(Access::Open, &[REST]).takes_anything();
/// Lists of a session.
const LIST: Policy = POLICY.takes::<ListQuery>();

/// What stands behind the address of a list.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is needed")]
struct ListQuery {
    /// Asks for JSON, which every list is.
    json: Option<String>,
}

pub(super) fn routes() -> Routes {
    let of_policy =
        |id, summary, policy| Operation::new(id, summary, policy).fails(&[Code::UnknownSession, Code::SessionEnded]);
    let operation = |id, summary| of_policy(id, summary, POLICY);
    let worker = [Code::RuntimeDown, Code::Starting, Code::WorkerFailed, Code::WorkerTimeout];
    video::routes(Routes::new("Selenium Grid"))
        .get(
            "/download/{id}",
            list,
            of_policy("list_selenoid_downloads", "List downloads, where Selenoid has them", LIST)
                .writes::<Vec<String>>("The names of the files.")
                .fails(&worker),
        )
        .get(
            "/download/{id}/{name}",
            download,
            operation("get_selenoid_download", "Fetch a download, where Selenoid has it")
                .writes_bytes("application/octet-stream", "The file.")
                .fails(&[Code::UnknownFile])
                .fails(&worker),
        )
        .delete(
            "/download/{id}/{name}",
            remove,
            operation("delete_selenoid_download", "Remove a download, where Selenoid has it")
                .empty(200, "The file is gone.")
                .fails(&[Code::UnknownFile, Code::Conflict])
                .fails(&worker),
        )
        .get(
            "/clipboard/{id}",
            clipboard,
            operation("get_selenoid_clipboard", "Read the clipboard, where Selenoid has it")
                .about("Of a browser with a display: every one but a headless Chromium.")
                .writes_text("text/plain", "The text; empty where there is none.")
                .fails(&[Code::Conflict])
                .fails(&worker),
        )
        .post(
            "/clipboard/{id}",
            set_clipboard,
            operation("set_selenoid_clipboard", "Write the clipboard, where Selenoid has it")
                .about("Of a browser with a display: every one but a headless Chromium. The text has 1 MiB at most.")
                .reads_bytes("text/plain")
                .writes_bytes("text/plain", "Nothing. The text is there.")
                .fails(&[Code::Conflict, Code::InvalidField, Code::BodyMemory])
                .fails(&worker),
        )
        .get(
            "/logs/{id}",
            log,
            operation("get_selenoid_log", "Read what happened in a session, where Selenoid has its log")
                .about("Of a session that asked for it by `enableLog`, one entry a line.")
                .writes_text("text/plain", "The log.")
                .fails(&[Code::Conflict]),
        )
        // Selenoid takes a slash behind the id, and Selenide writes one.
        .undescribed("/download/{id}/", get(list), LIST)
        .undescribed("/clipboard/{id}/", get(clipboard).post(set_clipboard), POLICY)
        .undescribed("/logs/{id}/", get(log), POLICY)
        .undescribed("/vnc", any(vnc), REFUSAL)
        .undescribed("/vnc/", any(vnc), REFUSAL)
        .undescribed("/vnc/{*rest}", any(vnc), REFUSAL)
}

/// `GET /download/<id>`
async fn list(State(app): State<App>, key: GridKey, Path(id): Path<String>) -> Result<Response, Error> {
    let (session, _) = driven(&app, &id, &key).await?;
    let files = files_of(&app, &session).await?;
    let downloads = files.into_iter().filter(|file| file.source == FileSource::Download);
    Ok(json_reply(StatusCode::OK, &downloads.map(|file| file.name).collect::<Vec<_>>()))
}

/// `DELETE /download/<id>/<name>`: 200 as from Selenoid, since its clients take any other status for a failure.
async fn remove(
    State(app): State<App>,
    key: GridKey,
    Path((id, name)): Path<(String, String)>,
) -> Result<StatusCode, Error> {
    let (session, _) = driven(&app, &id, &key).await?;
    remove_file(&app, &session, &name).await?;
    Ok(StatusCode::OK)
}

/// `GET /clipboard/<id>`
async fn clipboard(State(app): State<App>, key: GridKey, Path(id): Path<String>) -> Result<Response, Error> {
    let (session, _) = driven(&app, &id, &key).await?;
    let _busy = session.busy();
    match session.worker.agent.clipboard().await {
        Ok(copied) => Ok(text(copied)),
        Err(error) => Err(no_clipboard(&session, error).await),
    }
}

/// `POST /clipboard/<id>`
async fn set_clipboard(
    State(app): State<App>,
    key: GridKey,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, Error> {
    let (session, _) = driven(&app, &id, &key).await?;
    let _busy = session.busy();
    let copied = body::read(&app, body, app.config.server.max_body.bytes(), "server.max_body").await?;
    if copied.len() > CLIPBOARD_LIMIT {
        return Err(Error::invalid("body", format!("may have {CLIPBOARD_LIMIT} bytes at most")));
    }
    if std::str::from_utf8(&copied).is_err() {
        return Err(Error::invalid("body", "must be text in UTF-8"));
    }
    match session.worker.agent.set_clipboard(copied.bytes()).await {
        Ok(()) => Ok(text(Body::empty())),
        Err(error) => Err(no_clipboard(&session, error).await),
    }
}

/// Why the clipboard could not be used.
async fn no_clipboard(session: &Session, error: AgentError) -> Error {
    let message = match &error {
        AgentError::Refused { status: StatusCode::NOT_FOUND, .. } => {
            "a headless Chromium has no clipboard: leave out `--headless`".to_owned()
        }
        AgentError::Refused { status: StatusCode::PAYLOAD_TOO_LARGE, .. } => {
            format!("the text on the clipboard has more than {CLIPBOARD_LIMIT} bytes")
        }
        _ => return explain_no_answer(session, error).await.into(),
    };
    Error::Conflict { message }
}

/// `GET /logs/<id>`
async fn log(State(app): State<App>, key: GridKey, Path(id): Path<String>) -> Result<Response, Error> {
    let (session, _) = driven(&app, &id, &key).await?;
    let log = app.sessions.find_log(session.id.as_str(), &session.owner)?;
    Ok(text(log.read(0).entries.iter().map(line).collect::<String>()))
}

/// `GET /vnc/<id>`: a websocket in Selenoid and Moon.
async fn vnc() -> Error {
    let remedy = "open the live view of the session: its address is `livestream_url` of `warmpool:options` in the answer to the \
                  new session, and of `GET /sessions/{session_id}`";
    Error::not_supported("path", format!("leads to VNC, which is not served: {remedy}"))
}

fn text(body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// An entry as a line: the time, the type, and what there is to say.
fn line(entry: &LogEntry) -> String {
    let (kind, said) = match &entry.event {
        LogEvent::Console { text, .. } => ("console", text.clone()),
        LogEvent::PageError { text, .. } => ("page_error", text.clone()),
        LogEvent::Request { method, url, status, failure, .. } => {
            let outcome = status.map(|status| status.to_string()).or_else(|| failure.clone()).unwrap_or_default();
            ("request", format!("{method} {url} {outcome}"))
        }
        LogEvent::Download { name, .. } => ("download", name.clone()),
    };
    let mut line = format!("{} {kind} ", entry.time);
    // What a page says may have lines of its own.
    for part in said.split_inclusive(['\n', '\r']) {
        let _ = write!(line, "{}", part.trim_end_matches(['\n', '\r']));
        if part.ends_with(['\n', '\r']) {
            line.push(' ');
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    #[test]
    fn lists_are_where_selenoids_clients_look_for_them() {
        let table = super::super::routes().table();
        for path in ["/download/{id}", "/download/{id}/", "/video", "/video/"] {
            let (route, serves) = table.at(path, &Method::GET).unwrap();
            assert!(serves && route.parameters.check("json").is_ok(), "{path}");
            assert!(route.parameters.check("xml").is_err(), "{path}");
        }
        for path in ["/clipboard/{id}/", "/logs/{id}/", "/devtools/{kind}/", "/vnc/", "/vnc/{*rest}"] {
            assert!(table.at(path, &Method::GET).is_some(), "{path}");
        }
    }

    #[tokio::test]
    async fn who_looks_for_vnc_hears_of_the_live_view() {
        let refusal = vnc().await.to_string();
        assert!(refusal.contains("`livestream_url`") && refusal.contains("`GET /sessions/{session_id}`"), "{refusal}");
        let table = super::super::routes().table();
        assert_eq!(table.shown("/vnc/ID"), "/vnc", "the id opens the session");
    }

    #[test]
    fn an_entry_is_one_line() {
        let event = LogEvent::PageError { text: "Error: no\n  at x\r\n".to_owned(), url: None, line: None };
        assert_eq!(line(&LogEntry { seq: 1, time: 7, event }), "7 page_error Error: no   at x  \n");
    }
}
