//! `/sessions`: the list, one session, its end.

use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use super::App;
use super::auth::Caller;
use super::base::Base;
use super::inspect;
use super::query::session_query;
use super::reply::json_reply;
use crate::error::Error;
use crate::session::{Kind, Listing};

/// A session as its owner sees it, with the URLs that open it while it lives.
#[derive(Serialize)]
struct Detail {
    #[serde(flatten)]
    listing: Listing,
    protocol: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    websocket_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connect_headers: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connect_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    livestream_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_left: Option<u64>,
}

/// `GET /sessions`
pub(super) async fn list(
    State(app): State<App>,
    Caller(key): Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Error> {
    let query = session_query(query.as_deref().unwrap_or_default())?;
    let (sessions, total) = app.sessions.list(&query, &key);
    let meta = json!({
        "totalPages": total.div_ceil(query.limit),
        "totalRecords": total,
        "currentPage": query.page,
    });
    Ok(json_reply(StatusCode::OK, &json!({"sessions": sessions, "meta": meta})))
}

/// `GET /sessions/<id>` and `GET /sessions/<id>/status`
pub(super) async fn show(
    State(app): State<App>,
    Caller(key): Caller,
    base: Base,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let (listing, live) = app.sessions.find(&id, &key)?;
    let live = live.filter(|session| session.check_open().is_ok());
    let by_driver = listing.kind == Kind::WebDriver;
    let detail = Detail {
        protocol: if by_driver { "webdriver" } else { listing.browser_type.protocol() },
        websocket_url: live.as_ref().map(|session| base.websocket_url(session)),
        connect_headers: live.as_ref().filter(|_| !by_driver).and_then(|session| inspect::connect_headers(session)),
        connect_url: live.as_ref().filter(|_| by_driver).map(|session| base.connect_url(session)),
        livestream_url: live.as_ref().map(|session| base.livestream_url(session)),
        time_left: live.as_ref().map(|session| u64::try_from(session.time_left().as_millis()).unwrap_or(u64::MAX)),
        listing,
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

/// `GET /sessions/<id>/stream`
pub(super) async fn stream(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Error> {
    app.sessions.live(&id)?;
    Err(Error::NotBuilt { message: "the live view of sessions is not part of this release yet".to_owned() })
}
