//! `/console/api/keys`: the service keys, for operators. Others see their own.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::App;
use super::super::auth::Scope;
use super::super::body;
use super::super::reply::json_reply;
use super::super::rotation::Rotation;
use super::super::sign_in::{Operator, SignedIn};
use crate::http::error::Error;
use warmpool_core::error::{FieldFault as _, ServiceFault as _};
use warmpool_keys::{KeyError, KeyId, KeyRecord, KeyRole, KeyState, NewKey};

/// The keys that somebody may see, newest first.
pub(super) fn listed(app: &App, scope: &Scope) -> Vec<Value> {
    let live = app.sessions.live_by_owner();
    let mut records = app.keys.list();
    records.retain(|record| scope.has(&record.id));
    records.iter().rev().map(|record| view(app, record, live.get(&record.id).copied())).collect()
}

fn view(app: &App, record: &KeyRecord, live: Option<usize>) -> Value {
    let (state, revoked_at) = match record.state {
        KeyState::Active => ("active", None),
        KeyState::Revoked { at_ms } => ("revoked", Some(at_ms)),
    };
    json!({
        "key_id": record.id,
        "name": record.name,
        "state": state,
        "role": record.role,
        "created_at": record.created_ms,
        "last_used_at": record.last_used_ms,
        "revoked_at": revoked_at,
        "old_secret_until": record.previous.as_ref().map(|previous| previous.until_ms),
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
    let made = app.keys.create(wanted.name.trim(), wanted.role).await.map_err(refused)?;
    tracing::info!(key = %made.record.id, role = wanted.role.as_str(), "a key was made in the console");
    Ok(with_secret(&app, &made))
}

/// `POST /console/api/keys/<id>/rotate`
pub(super) async fn rotate(
    State(app): State<App>,
    _: Operator,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let keep = Rotation::read(&app, &headers, body).await?;
    let made = app.keys.rotate(&known(&id)?, keep).await.map_err(refused)?;
    tracing::info!(key = %made.record.id, "a key was rotated in the console");
    Ok(with_secret(&app, &made))
}

/// `DELETE /console/api/keys/<id>`: revokes an active key, and removes a revoked one from the list.
pub(super) async fn revoke(State(app): State<App>, _: Operator, Path(id): Path<String>) -> Result<Response, Error> {
    let id = known(&id)?;
    let record = app.keys.get(&id).ok_or_else(|| warmpool_keys::Error::UnknownKey { id: id.to_string() })?;
    if record.state != KeyState::Active {
        app.keys.remove(&id).await.map_err(refused)?;
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let others = app.keys.list();
    let operates = |key: &&KeyRecord| key.role == KeyRole::Operator && key.state == KeyState::Active && key.id != id;
    if record.role == KeyRole::Operator && !others.iter().any(|key| operates(&key)) {
        let message = "this is the last operator's key: make another before you revoke it".to_owned();
        return Err(Error::Conflict { message }.into());
    }
    let record = app.keys.revoke(&id).await.map_err(refused)?;
    tracing::info!(key = %record.id, "a key was revoked in the console");
    Ok(json_reply(StatusCode::OK, &view(&app, &record, None)))
}

fn known(id: &str) -> Result<KeyId, Error> {
    id.parse().map_err(|_| warmpool_keys::Error::UnknownKey { id: id.chars().take(64).collect() }).map_err(Into::into)
}

fn with_secret(app: &App, made: &NewKey) -> Response {
    let mut shown = view(app, &made.record, None);
    shown["secret"] = json!(made.secret.expose());
    json_reply(StatusCode::OK, &shown)
}

fn refused(error: KeyError) -> Error {
    match error {
        KeyError::InvalidName => Error::invalid("name", "must have 1 to 64 printable characters"),
        KeyError::NameTaken { name, .. } => {
            Error::invalid("name", format!("`{name}` is another active key's: choose another name"))
        }
        KeyError::Unknown(id) => warmpool_keys::Error::UnknownKey { id: id.to_string() }.into(),
        error @ (KeyError::Revoked(_) | KeyError::Active(_)) => Error::Conflict { message: error.to_string() },
        KeyError::Store(error) => error.into(),
        error => Error::internal(error),
    }
}
