//! Who calls: the key in a header.

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;

use super::App;
use crate::error::Error;
use crate::keys::KeyId;

/// The contract's header for the key.
const SECRET_KEY: &str = "service-secret-key";

/// The key that a request carries, checked.
pub(super) struct Caller(pub(super) KeyId);

impl FromRequestParts<App> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let key = sent_key(&parts.headers).ok_or(Error::MissingKey)?;
        app.keys.verify(key).map(Self).ok_or(Error::InvalidKey)
    }
}

/// The key for `/status` and `/metrics`, where the operator demands one.
pub(super) struct Onlooker;

impl FromRequestParts<App> for Onlooker {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        if app.config.server.status_needs_key {
            Caller::from_request_parts(parts, app).await?;
        }
        Ok(Self)
    }
}

fn sent_key(headers: &HeaderMap) -> Option<&str> {
    let own = headers.get(SECRET_KEY).and_then(|value| value.to_str().ok());
    own.or_else(|| {
        let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    })
}
