//! `/console/api/keys`: the service keys, for operators. Others see their own.

use std::collections::HashMap;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::App;
use super::super::auth::Scope;
use super::super::body;
use super::super::query::Query;
use super::super::reply::json_reply;
use super::super::rotation::Rotation;
use super::super::sign_in::{Operator, SignedIn};
use crate::http::error::Error;
use warmpool_core::clock::unix_ms;
use warmpool_keys::{KeyId, KeyRecord, KeyRole, KeyState, NewKey, ServiceKey};

/// How old the times of last use may be that an operator's open page shows, in milliseconds.
const USES_SHOWN_WITHIN_MS: u64 = 60_000;

/// The keys that somebody may see, newest first.
fn listed(app: &App, scope: &Scope) -> Vec<Value> {
    let live = app.sessions.live_by_owner();
    let records = match scope {
        Scope::All => app.keys.list(),
        Scope::Own(key) => app.keys.get(key).into_iter().collect(),
    };
    records.iter().rev().map(|record| view(app, record, live.get(&record.id).copied())).collect()
}

/// Which state of the list a page has seen.
#[derive(PartialEq, Eq)]
pub(super) enum KeysVersion {
    /// Of all keys. There may be thousands, so that it costs less to look whether this has changed than to make the list.
    All {
        /// How often keys were made, changed, revoked or removed.
        changes: u64,
        /// How many sessions each key has.
        live: HashMap<KeyId, usize>,
        /// Counts on by the clock: uses are too many to be told one by one.
        uses: u64,
    },
    /// Of somebody's own key, as it is shown.
    Own(Vec<Value>),
}

impl KeysVersion {
    pub(super) fn now(app: &App, scope: &Scope) -> Self {
        if let Scope::Own(_) = scope {
            return Self::Own(listed(app, scope));
        }
        let changes = *app.keys.changes().borrow();
        Self::All { changes, live: app.sessions.live_by_owner(), uses: unix_ms() / USES_SHOWN_WITHIN_MS }
    }
}

fn view(app: &App, record: &KeyRecord, live: Option<usize>) -> Value {
    let revoked_at = match record.state {
        KeyState::Active => None,
        KeyState::Revoked { at_ms } => Some(at_ms),
    };
    json!({
        "key_id": record.id,
        "name": record.name,
        "state": record.state.as_str(),
        "role": record.details.role,
        "created_at": record.created_ms,
        "last_used_at": record.last_used_ms,
        "revoked_at": revoked_at,
        "old_secret_until": record.old_secret_until_ms(),
        "sessions": live.unwrap_or_default(),
        "max_sessions": app.config.session.max_per_key,
    })
}

/// `GET /console/api/keys`
pub(super) async fn list(State(app): State<App>, who: SignedIn) -> Response {
    let scope = if who.is_operator { Scope::All } else { Scope::Own(who.key) };
    json_reply(StatusCode::OK, &json!({"keys": listed(&app, &scope)}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: String,
    #[serde(default)]
    role: KeyRole,
}

/// `POST /console/api/keys`
pub(super) async fn create(
    State(app): State<App>,
    _: Operator,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (wanted, _text): (Wanted, _) = body::json(&app, &headers, body).await?;
    let made = app.keys.create(wanted.name.trim(), wanted.role).await.map_err(warmpool_keys::Error::from)?;
    tracing::info!(key = %made.record.id, role = wanted.role.as_str(), "a key was made in the console");
    Ok(with_secret(&app, &made))
}

/// `POST /console/api/keys/<id>/rotate`
pub(super) async fn rotate(
    State(app): State<App>,
    Operator(who): Operator,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let keep = Rotation::read(&app, &headers, body).await?;
    let id = known(&id)?;
    // Whoever replaces the secret of their own key stays signed in, to see the new one; all others who have signed in with it are out.
    let tell = |secret| {
        if who.key == id {
            app.sign_ins.goes_on_by(who.token, secret);
        }
    };
    let made = app.keys.rotate_telling(&id, keep, tell).await.map_err(warmpool_keys::Error::from)?;
    tracing::info!(key = %made.record.id, "a key was rotated in the console");
    Ok(with_secret(&app, &made))
}

/// How a key is taken away.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct KeyRemoval {
    /// Removes a revoked key from the list, instead of revoking one.
    forget: bool,
}

/// `DELETE /console/api/keys/<id>`: revokes a key, or with `forget=true` removes a revoked one from the list.
pub(super) async fn revoke(
    State(app): State<App>,
    _: Operator,
    Path(id): Path<String>,
    Query(KeyRemoval { forget }): Query<KeyRemoval>,
) -> Result<Response, Error> {
    let id = known(&id)?;
    if forget {
        app.keys.remove(&id).await.map_err(warmpool_keys::Error::from)?;
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let revoked = app.keys.revoke_unless_last(app.worlds.keys(), &id).await;
    let (record, ended) = revoked.map_err(warmpool_keys::Error::from)?;
    tracing::info!(key = %record.id, integration_keys = ended.len(), "a key was revoked in the console");
    Ok(json_reply(StatusCode::OK, &view(&app, &record, None)))
}

fn known(id: &str) -> Result<KeyId, Error> {
    id.parse().map_err(|_| warmpool_keys::Error::UnknownKey { id: id.chars().take(64).collect() }).map_err(Into::into)
}

fn with_secret(app: &App, made: &NewKey<ServiceKey>) -> Response {
    let mut shown = view(app, &made.record, None);
    shown["secret"] = json!(made.secret.expose());
    json_reply(StatusCode::OK, &shown)
}
