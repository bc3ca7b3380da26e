//! `/v1/integration-keys` and `/v1/requests`: what the holder of a service key sees of the integrations.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use super::App;
use super::body;
use super::follow::wants;
use super::query::world_request_query;
use super::reply::json_reply;
use super::sign_in::Operator;
use crate::clock::unix_ms;
use crate::engine::IntegrationKeyId;
use crate::error::Error;
use crate::keys::KeyId;
use crate::world::{IntegrationKey, IntegrationKind, IntegrationState};

/// Between two signs of life on a stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The longest that a replaced secret may go on working, in seconds.
const MAX_KEEP: u64 = 30 * 86_400;

/// A key as the console shows it.
fn view(key: &IntegrationKey, now_ms: u64) -> Value {
    let state = if key.state == IntegrationState::Active { "ACTIVE" } else { "REVOKED" };
    json!({
        "key_id": key.id,
        "name": key.name,
        "state": state,
        "kind": key.kind,
        "key": key.shown,
        "created_at": key.created_ms,
        "last_used_at": key.last_used_ms,
        "last_used": key.last_used_ms.map_or_else(|| "never".to_owned(), |used| ago(now_ms.saturating_sub(used))),
        "worlds_generated": key.worlds,
    })
}

/// `2 minutes ago`.
fn ago(ms: u64) -> String {
    let seconds = ms / 1000;
    let (number, unit) = match seconds {
        0..60 => return "just now".to_owned(),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{number} {unit}{} ago", if number == 1 { "" } else { "s" })
}

/// `GET /v1/integration-keys`
pub(super) async fn list(State(app): State<App>, Operator(owner): Operator) -> Response {
    let now = unix_ms();
    let keys: Vec<Value> = app.worlds.keys().list(Some(&owner)).iter().map(|key| view(key, now)).collect();
    json_reply(StatusCode::OK, &json!({"keys": keys}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewKey {
    name: String,
    kind: Option<IntegrationKind>,
}

/// `POST /v1/integration-keys`
pub(super) async fn create(
    State(app): State<App>,
    Operator(owner): Operator,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (wanted, _text): (NewKey, _) = body::json(&app, &headers, body).await?;
    let made = app.worlds.keys().create(&owner, &wanted.name, wanted.kind.unwrap_or(IntegrationKind::Live)).await?;
    Ok(with_secret(&made))
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Rotation {
    keep_old_for: u64,
}

/// `POST /v1/integration-keys/<id>/rotate`
pub(super) async fn rotate(
    State(app): State<App>,
    Operator(owner): Operator,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (wanted, _text): (Rotation, _) = body::json(&app, &headers, body).await?;
    if wanted.keep_old_for > MAX_KEEP {
        return Err(Error::invalid("keep_old_for", format!("must be from 0 to {MAX_KEEP} seconds")));
    }
    let id = owned(&app, &owner, &id)?;
    Ok(with_secret(&app.worlds.keys().rotate(&id, Duration::from_secs(wanted.keep_old_for)).await?))
}

/// `DELETE /v1/integration-keys/<id>`
pub(super) async fn revoke(
    State(app): State<App>,
    Operator(owner): Operator,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let key = app.worlds.keys().revoke(&owned(&app, &owner, &id)?).await?;
    Ok(json_reply(StatusCode::OK, &view(&key, unix_ms())))
}

fn with_secret(made: &crate::world::NewIntegrationKey) -> Response {
    let mut shown = view(&made.key, unix_ms());
    shown["secret"] = json!(made.secret.expose());
    json_reply(StatusCode::OK, &shown)
}

fn owned(app: &App, owner: &KeyId, id: &str) -> Result<IntegrationKeyId, Error> {
    let found = app.worlds.keys().get(&IntegrationKeyId::from(id)).filter(|key| key.owner == *owner);
    found.map(|key| key.id).ok_or_else(|| Error::UnknownIntegrationKey { id: id.chars().take(64).collect() })
}

/// `GET /v1/requests`: one page, or server-sent events of what comes from now on.
pub(super) async fn requests(
    State(app): State<App>,
    Operator(owner): Operator,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let patients = |id: &str| app.worlds.patients_of(&owner, id);
    let mut query = world_request_query(query.as_deref().unwrap_or_default(), patients)?;
    query.owner = Some(owner);
    if wants(&headers, "text/event-stream") {
        let state = (app.worlds.log().clone(), app.worlds.log().follow(), query);
        let events = stream::unfold(state, |(log, mut rows, query)| async move {
            let row = loop {
                match rows.recv().await {
                    Ok(row) if query.takes(&row) => break row,
                    // Who falls behind misses rows of what goes by; the list has them all.
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            };
            let event = match log.show(row).await {
                Ok(view) => Event::default().event("request").json_data(view),
                Err(error) => Err(axum::Error::new(error)),
            };
            Some((event, (log, rows, query)))
        });
        let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response();
        response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
        return Ok(response);
    }
    let (rows, total) = app.worlds.log().list(&query).await?;
    let meta = json!({
        "totalPages": total.div_ceil(query.limit),
        "totalRecords": total,
        "currentPage": query.page,
    });
    Ok(json_reply(StatusCode::OK, &json!({"requests": rows, "meta": meta})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_its_largest_unit() {
        for (seconds, text) in [
            (3, "just now"),
            (60, "1 minute ago"),
            (179, "2 minutes ago"),
            (3600, "1 hour ago"),
            (200_000, "2 days ago"),
        ] {
            assert_eq!(ago(seconds * 1000), text);
        }
    }
}
