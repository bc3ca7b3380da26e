//! What a session's browser keeps for sites.

use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;

use super::App;
use super::auth::Caller;
use super::openapi::{Operation, Routes};
use super::reply::json_reply;
use super::sessions::OF_SESSION;
use crate::http::error::Error;
use warmpool_core::error::Code;
use warmpool_protocol::StorageState;
use warmpool_sessions::session::Session;

pub(super) fn routes(routes: Routes) -> Routes {
    routes.get(
        "/sessions/{id}/state",
        read,
        Operation::new("get_session_state", "Read what a session's browser keeps for sites", OF_SESSION)
            .about(
                "Cookies, local and session storage and IndexedDB, in the shape of Playwright's `storageState`: a later create call \
                 takes it as `state`, on any engine, and so does Playwright. It holds the session's logins, so keep it as a \
                 password. `session.max_state` bounds all of it.",
            )
            .writes::<StorageState>("The state, and what could not be read.")
            .fails(&[
                Code::UnknownSession,
                Code::SessionEnded,
                Code::RuntimeDown,
                Code::Starting,
                Code::WorkerFailed,
                Code::WorkerTimeout,
            ]),
    )
}

/// `GET /sessions/<id>/state`
async fn read(State(app): State<App>, Caller(key): Caller, Path(id): Path<String>) -> Result<Response, Error> {
    let session = app.sessions.find_live(&id, &key)?;
    Ok(json_reply(StatusCode::OK, &readable_state(&app, &session).await?))
}

/// What the browser of a session keeps, as a create call takes it.
/// Errors: `Worker`, `WorkerTimeout`.
pub(super) async fn readable_state(app: &App, session: &Session) -> Result<StorageState, Error> {
    let _busy = session.busy();
    Ok(session.readable_state(app.config.session.max_state.bytes()).await?)
}
