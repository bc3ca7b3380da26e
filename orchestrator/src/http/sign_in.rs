//! Signing in to the console: the service key once, then a cookie that scripts cannot read.
//!
//! The cookie alone opens nothing: calls carry a header too, which no page of another origin can send along.

use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::response::{IntoResponse as _, Response};
use http::header::{COOKIE, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::App;
use super::auth::Caller;
use super::base::Base;
use super::body;
use super::reply::json_reply;
use super::sign_ins::IDLE_TIMEOUT;
use crate::error::Error;
use crate::keys::KeyId;

const COOKIE_NAME: &str = "warmpool_console";
/// The header that the console's pages send with each call.
const HEADER: &str = "x-warmpool-console";

/// The holder of a service key: by the key itself, or signed in to the console.
pub(super) struct Operator(pub(super) KeyId);

impl FromRequestParts<App> for Operator {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        if parts.headers.contains_key(HEADER)
            && let Some(key) = token(&parts.headers).and_then(|token| app.sign_ins.find(token))
        {
            app.keys.require(&key)?;
            return Ok(Self(key));
        }
        Caller::from_request_parts(parts, app).await.map(|caller| Self(caller.0))
    }
}

fn token(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|value| value.split(';')).find_map(|cookie| {
        let (name, value) = cookie.trim().split_once('=')?;
        (name == COOKIE_NAME).then_some(value)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credentials {
    key: String,
}

/// `POST /console/sign-in`
pub(super) async fn sign_in(
    State(app): State<App>,
    base: Base,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (credentials, _text): (Credentials, _) = body::json(&app, &headers, body).await?;
    let key = app.keys.verify(credentials.key.trim()).ok_or(Error::InvalidKey)?;
    let token = app.sign_ins.add(key);
    Ok(with_cookie(&base, &format!("{token}; Max-Age={}", IDLE_TIMEOUT.as_secs())))
}

/// `DELETE /console/sign-in`
pub(super) async fn sign_out(State(app): State<App>, base: Base, headers: HeaderMap) -> Response {
    if let Some(token) = token(&headers) {
        app.sign_ins.remove(token);
    }
    with_cookie(&base, "; Max-Age=0")
}

/// `GET /console/sign-in`
pub(super) async fn signed_in(State(app): State<App>, Operator(key): Operator) -> Response {
    let name = app.keys.list().into_iter().find(|record| record.id == key).map(|record| record.name);
    json_reply(StatusCode::OK, &json!({"name": name, "key_id": key}))
}

fn with_cookie(base: &Base, value: &str) -> Response {
    let secure = if base.is_secure() { "; Secure" } else { "" };
    let path = base.path();
    let mut response = StatusCode::NO_CONTENT.into_response();
    let text = format!("{COOKIE_NAME}={value}; Path={path}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(value) = HeaderValue::try_from(text) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
    response
}
