//! `/sessions`: the list, one session, its end.

use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;

use super::App;
use super::auth::{Caller, Scope};
use super::files::FILE;
use super::inspect;
use super::openapi::{Access, Operation, Routes};
use super::public_url::PublicUrl;
use super::query::Query;
use super::reply::json_reply;
use super::route::{Names, Policy, Segment};
use crate::http::error::Error;
use warmpool_api::list::PageMeta;
use warmpool_api::session::{SessionDetail, SessionKind, SessionPage, SessionView};
use warmpool_core::error::Code;
use warmpool_sessions::session::SessionQuery;

/// A session's id in a path.
pub(super) const ID: Segment = Segment { name: "id", about: "The session's id, `ses_…`.", names: Names::Session };
/// Calls about one session.
pub(super) const OF_SESSION: Policy = Policy::rest(Access::Key, &[ID, FILE]);

pub(super) fn routes(routes: Routes) -> Routes {
    let show_operation = |id, summary| {
        Operation::new(id, summary, OF_SESSION)
            .about("With the key that made the session, the answer repeats its URLs while it lives, so that a later process can attach.")
            .writes::<SessionDetail>("The session.")
            .fails(&[Code::UnknownSession])
    };
    let end_operation = |id, summary| {
        Operation::new(id, summary, OF_SESSION)
            .about("The call may be made twice: a session that has ended stays as it is.")
            .writes::<SessionView>("The session after its end.")
            .fails(&[Code::UnknownSession])
    };
    let list_policy = OF_SESSION.takes::<SessionQuery>().suggested();
    routes
        .get(
            "/sessions",
            list,
            Operation::new("list_sessions", "List sessions", list_policy)
                .about("The sessions of the key, newest first unless asked otherwise. Nothing in the list opens a session.")
                .writes::<SessionPage>("One page of the list."),
        )
        .get("/sessions/{id}", show, show_operation("get_session", "Look at a session"))
        .delete("/sessions/{id}", end, end_operation("end_session", "End a session"))
        .get("/sessions/{id}/status", show, show_operation("get_session_status", "Look at a session, under another path"))
        .delete(
            "/sessions/{id}/terminate",
            end,
            end_operation("terminate_session", "End a session, under another path"),
        )
        .post(
            "/sessions/{id}/terminate",
            end,
            end_operation("post_terminate_session", "End a session, by POST"),
        )
}

/// `GET /sessions`
pub(super) async fn list(
    State(app): State<App>,
    scope: Scope,
    Query(query): Query<SessionQuery>,
) -> Result<Response, Error> {
    let (sessions, total) = match scope.narrowed(query.key_id.as_ref()) {
        Some(Scope::Own(key)) => app.sessions.list(&query, Some(&key)),
        Some(Scope::All) => app.sessions.list(&query, None),
        None => (Vec::new(), 0),
    };
    let meta = PageMeta::new(total, query.limit, query.page);
    Ok(json_reply(StatusCode::OK, &SessionPage { sessions, meta }))
}

/// `GET /sessions/<id>` and `GET /sessions/<id>/status`
pub(super) async fn show(
    State(app): State<App>,
    Caller(key): Caller,
    base: PublicUrl,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let (listing, live) = app.sessions.find(&id, &key)?;
    let live = live.filter(|session| session.check_open().is_ok());
    let by_driver = listing.kind == SessionKind::WebDriver;
    let detail = SessionDetail {
        protocol: if by_driver { "webdriver" } else { listing.browser_type.protocol() }.to_owned(),
        websocket_url: live.as_ref().map(|session| base.websocket_url(session)),
        connect_headers: live.as_ref().and_then(|session| inspect::connect_headers(session)),
        connect_url: live.as_ref().filter(|_| by_driver).map(|session| base.connect_url(session)),
        livestream_url: live.as_ref().map(|session| base.livestream_url(session)),
        time_left: live.as_ref().map(|session| u64::try_from(session.time_left().as_millis()).unwrap_or(u64::MAX)),
        session: listing,
    };
    Ok(json_reply(StatusCode::OK, &detail))
}

/// `DELETE /sessions/<id>` and `DELETE /sessions/<id>/terminate`
pub(super) async fn end(
    State(app): State<App>,
    Caller(key): Caller,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let listing = app.sessions.end(&id, &key).await?;
    Ok(json_reply(StatusCode::OK, &listing))
}
