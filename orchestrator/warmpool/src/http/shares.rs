//! `/sessions/<id>/share`: the links by which others may watch a session.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::App;
use super::auth::Caller;
use super::body;
use super::openapi::{Access, Operation, Routes};
use super::public_url::PublicUrl;
use super::reply::json_reply;
use super::route::{Policy, Segment};
use super::sessions::ID;
use crate::http::error::Error;
use warmpool_core::error::{Code, FieldFault as _};
use warmpool_core::ids::ShareId;
use warmpool_sessions::session::{Session, Share};

/// A link in a path.
const SHARE: Segment = Segment::new("share", "The link's id.");
/// Calls about links.
const SHARES: Policy = Policy::rest(Access::Key, &[ID, SHARE]);

pub(super) fn routes(routes: Routes) -> Routes {
    let share_of = |id, summary| {
        Operation::new(id, summary, SHARES).fails(&[
            Code::UnknownSession,
            Code::SessionEnded,
            Code::RuntimeDown,
            Code::Starting,
        ])
    };
    routes
        .get(
            "/sessions/{id}/share",
            shares,
            share_of("list_shares", "List the links to a live view").writes::<ShareList>("The links that still work."),
        )
        .post(
            "/sessions/{id}/share",
            share,
            share_of("create_share", "Make a link to a live view")
                .about("Whoever has the link may watch, and act if it says so, until it ends or the session does.")
                .reads::<ShareRequest>(json!({"enable_actions": false, "ttl": 600}))
                .writes::<ShareView>("The link.")
                .fails(&[Code::Conflict, Code::DiskNearlyFull, Code::StoreBusy]),
        )
        .delete(
            "/sessions/{id}/share/{share}",
            unshare,
            share_of("delete_share", "End a link").writes_nothing("The link opens nothing any more."),
        )
}

/// A link by which others may watch.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Share")]
struct ShareView {
    share_id: ShareId,
    url: String,
    /// Whether its holder may take the session over.
    enable_actions: bool,
    /// In Unix milliseconds.
    created_at: u64,
    /// When it ends by itself, in Unix milliseconds.
    expires_at: u64,
}

/// The links to one session.
#[derive(Serialize, JsonSchema)]
struct ShareList {
    shares: Vec<ShareView>,
}

/// The body of `POST /sessions/<id>/share`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "CreateShare")]
struct ShareRequest {
    /// Whether its holder may take the session over.
    #[schemars(extend("default" = false))]
    enable_actions: Option<bool>,
    /// How long the link works, in seconds; as long as the session where it is left out.
    #[schemars(range(min = 1))]
    ttl: Option<u64>,
}

/// `POST /sessions/<id>/share`: a link for somebody else.
pub(super) async fn share(
    State(app): State<App>,
    Caller(key): Caller,
    base: PublicUrl,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (request, _text) = body::json::<ShareRequest>(&app, &headers, body).await?;
    let session = app.sessions.find_live(&id, &key)?;
    let left = session.time_left();
    let ttl = match request.ttl {
        // A link never outlives its session anyway.
        None => left,
        Some(0) => return Err(Error::invalid("ttl", "must be at least 1 second")),
        Some(seconds) => Duration::from_secs(seconds).min(left),
    };
    let (may_act, limit) = (request.enable_actions.unwrap_or(false), app.config.live.max_shares);
    let share = app.sessions.make_share(&session, may_act, ttl, limit).await?;
    Ok(json_reply(StatusCode::OK, &shown(&app, &base, &session, &share)))
}

/// `GET /sessions/<id>/share`: the links there are.
pub(super) async fn shares(
    State(app): State<App>,
    Caller(key): Caller,
    base: PublicUrl,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let session = app.sessions.find_live(&id, &key)?;
    let shares = session.shares.current().iter().map(|share| shown(&app, &base, &session, share)).collect();
    Ok(json_reply(StatusCode::OK, &ShareList { shares }))
}

/// `DELETE /sessions/<id>/share/<share>`: the link stops working, also for viewers who have used it.
pub(super) async fn unshare(
    State(app): State<App>,
    Caller(key): Caller,
    Path((id, share)): Path<(String, String)>,
) -> Result<Response, Error> {
    let session = app.sessions.find_live(&id, &key)?;
    app.sessions.end_share(&session, &share).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn shown(app: &App, base: &PublicUrl, session: &Session, share: &Share) -> ShareView {
    ShareView {
        share_id: share.share_id.clone(),
        url: base.share_url(session, share, &app.sessions.share_token(session, share)),
        enable_actions: share.enable_actions,
        created_at: share.created_at,
        expires_at: share.expires_at,
    }
}
