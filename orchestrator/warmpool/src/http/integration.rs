//! `/v1/integration-keys` and `/v1/requests`: what the holder of a service key sees of the integrations.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::response::sse::Event;
use futures_util::StreamExt as _;
use http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::App;
use super::auth::Caller;
use super::body;
use super::headers::wants;
use super::openapi::{Access, EVENTS, Operation, Routes};
use super::query::Query;
use super::reply::json_reply;
use super::rotation::Rotation;
use super::route::{Policy, Segment};
use super::sse;
use crate::http::error::Error;
use warmpool_api::integration::{IntegrationKind, KeyList, KeyState, KeyView, RequestPage};
use warmpool_api::list::PageMeta;
use warmpool_api::world::Environment;
use warmpool_core::clock::unix_ms;
use warmpool_core::error::Code;
use warmpool_core::ids::IntegrationKeyId;
use warmpool_keys::{Integration, IntegrationKey, KeyId, NewKey};
use warmpool_worlds::RequestQuery;

/// What the holder of its service key reads of a key.
fn view(key: &IntegrationKey, now_ms: u64) -> KeyView {
    KeyView {
        key_id: key.id.clone(),
        name: key.name.clone(),
        state: if key.is_active() { KeyState::Active } else { KeyState::Revoked },
        kind: key.details.kind,
        key: key.details.shown.clone(),
        created_at: key.created_ms,
        last_used_at: key.last_used_ms,
        last_used: key.last_used_ms.map_or_else(|| "never".to_owned(), |used| ago(now_ms.saturating_sub(used))),
        worlds_generated: key.details.worlds,
        secret: None,
    }
}

/// Which requests are wanted: the query of `GET /v1/requests`.
#[derive(Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct RequestList {
    /// Only what was made after this moment, in Unix milliseconds.
    start_time: Option<u64>,
    /// Only what was made before this moment, in Unix milliseconds.
    end_time: Option<u64>,
    /// Only requests for this patient.
    patient_id: Option<String>,
    /// Only requests for this kind of scene.
    environment_type: Option<Environment>,
    /// Only requests that were answered so.
    status: Option<StatusClass>,
    /// Only requests with this integration key.
    key_id: Option<String>,
    /// Which page.
    #[schemars(range(min = 1))]
    page: usize,
    /// How many requests a page holds.
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
}

/// How a request was answered.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
enum StatusClass {
    #[serde(rename = "2xx")]
    Success = 2,
    #[serde(rename = "4xx")]
    ClientError = 4,
    #[serde(rename = "5xx")]
    ServerError = 5,
}

impl Default for RequestList {
    fn default() -> Self {
        Self {
            start_time: None,
            end_time: None,
            patient_id: None,
            environment_type: None,
            status: None,
            key_id: None,
            page: 1,
            limit: 25,
        }
    }
}

const POLICY: Policy = Policy::rest(Access::Operator, &[Segment::new("id", "The key's id.")]);

pub(super) fn routes(routes: Routes) -> Routes {
    let operation = |id, summary| Operation::new(id, summary, POLICY);
    let writing = |id, summary| operation(id, summary).fails(&[Code::StoreBusy, Code::DiskNearlyFull]);
    routes
        .get(
            "/v1/integration-keys",
            list,
            operation("list_integration_keys", "List integration keys")
                .writes::<KeyList>("The keys that the caller made."),
        )
        .post(
            "/v1/integration-keys",
            create,
            writing("create_integration_key", "Make an integration key")
                .reads::<WantedKey>(json!({"name": "Ward 3", "kind": "live"}))
                .writes::<KeyView>("The key, with its `secret`, which is shown only once.")
                .fails(&[Code::IntegrationKeyLimit]),
        )
        .delete(
            "/v1/integration-keys/{id}",
            revoke,
            writing("revoke_integration_key", "Revoke an integration key")
                .writes::<KeyView>("The key, which never works again.")
                .fails(&[Code::UnknownIntegrationKey]),
        )
        .post(
            "/v1/integration-keys/{id}/rotate",
            rotate,
            writing("rotate_integration_key", "Give an integration key another secret")
                .reads::<Rotation>(json!({"keep_old_for": 3600}))
                .writes::<KeyView>("The key, with its `secret`, which is shown only once.")
                .fails(&[Code::UnknownIntegrationKey, Code::Conflict]),
        )
        .get(
            "/v1/requests",
            requests,
            Operation::new("list_world_requests", "List requests for worlds", POLICY.takes::<RequestList>())
                .writes::<RequestPage>("One page of the log, newest first.")
                .writes_text(EVENTS, "The requests that come from now on.")
                .fails(&[Code::StoreBusy]),
        )
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
pub(super) async fn list(State(app): State<App>, Caller(owner): Caller) -> Response {
    let now = unix_ms();
    let keys = app.worlds.keys().list_of(&owner).iter().map(|key| view(key, now)).collect();
    json_reply(StatusCode::OK, &KeyList { keys })
}

/// The key that is wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CreateIntegrationKey")]
struct WantedKey {
    /// What to call it: 1 to 64 characters.
    #[schemars(length(min = 1, max = 64))]
    name: String,
    #[schemars(extend("default" = "live"))]
    kind: Option<IntegrationKind>,
}

/// `POST /v1/integration-keys`
pub(super) async fn create(
    State(app): State<App>,
    Caller(owner): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (wanted, _text): (WantedKey, _) = body::json(&app, &headers, body).await?;
    let (kind, limit) = (wanted.kind.unwrap_or(IntegrationKind::Live), app.config.world.max_keys);
    let made = app.worlds.keys().create(&owner, &wanted.name, kind, limit, |owner| app.keys.is_active(owner)).await?;
    Ok(with_secret(&made))
}

/// `POST /v1/integration-keys/<id>/rotate`
pub(super) async fn rotate(
    State(app): State<App>,
    Caller(owner): Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let keep = Rotation::read(&app, &headers, body).await?;
    Ok(with_secret(&app.worlds.keys().rotate(&owned(&app, &owner, &id)?, keep).await?))
}

/// `DELETE /v1/integration-keys/<id>`
pub(super) async fn revoke(
    State(app): State<App>,
    Caller(owner): Caller,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let key = app.worlds.keys().revoke(&owned(&app, &owner, &id)?).await?;
    Ok(json_reply(StatusCode::OK, &view(&key, unix_ms())))
}

fn with_secret(made: &NewKey<Integration>) -> Response {
    let secret = Some(made.secret.expose().to_owned());
    json_reply(StatusCode::OK, &KeyView { secret, ..view(&made.record, unix_ms()) })
}

fn owned(app: &App, owner: &KeyId, id: &str) -> Result<IntegrationKeyId, Error> {
    let found = app.worlds.keys().get(&IntegrationKeyId::from(id)).filter(|key| key.details.owner == *owner);
    found
        .map(|key| key.id)
        .ok_or_else(|| warmpool_keys::Error::UnknownIntegrationKey { id: id.chars().take(64).collect() }.into())
}

/// `GET /v1/requests`: one page, or server-sent events of what comes from now on.
pub(super) async fn requests(
    State(app): State<App>,
    Caller(owner): Caller,
    Query(wanted): Query<RequestList>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let query = RequestQuery {
        start_ms: wanted.start_time,
        end_ms: wanted.end_time,
        patients: wanted.patient_id.map(|id| app.worlds.patients_of(&owner, &id)),
        environment: wanted.environment_type,
        key: wanted.key_id.as_deref().map(IntegrationKeyId::from),
        class: wanted.status.map(|class| class as u16),
        page: wanted.page,
        limit: wanted.limit,
        owner: Some(owner),
    };
    if wants(&headers, "text/event-stream") {
        let rows = app.worlds.log().follow(query);
        let events = rows.map(|row| Event::default().event("request").json_data(row.map_err(axum::Error::new)?));
        return Ok(sse::respond(events));
    }
    let (mut rows, total) = app.worlds.log().list(&query).await?;
    let worlds: Vec<_> = rows.iter().filter_map(|row| row.world_id.clone()).collect();
    let statuses = app.worlds.statuses(&worlds).await?;
    for row in &mut rows {
        row.world_status = row.world_id.as_ref().and_then(|world| statuses.get(world).copied());
    }
    let meta = PageMeta::new(total as u64, query.limit as u64, query.page as u64);
    Ok(json_reply(StatusCode::OK, &RequestPage { requests: rows, meta }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_its_largest_unit() {
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
