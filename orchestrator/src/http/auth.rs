//! Who calls: the key in a header.

use axum::extract::FromRequestParts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;

use super::App;
use super::reply::W3c;
use crate::error::Error;
use crate::keys::KeyId;

/// The contract's header for the key.
pub(super) const SECRET_KEY: &str = "service-secret-key";

/// The key that a request carries, checked.
pub(super) struct Caller(pub(super) KeyId);

impl FromRequestParts<App> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let key = sent_key(&parts.headers).ok_or_else(|| missing_key(&parts.headers))?;
        app.keys.verify(key).map(Self).ok_or(Error::InvalidKey)
    }
}

/// The key for `/status` and `/metrics`, where the operator demands one.
pub(super) struct StatusCaller;

impl FromRequestParts<App> for StatusCaller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        if app.config.server.status_needs_key {
            Caller::from_request_parts(parts, app).await?;
        }
        Ok(Self)
    }
}

/// The key of a client that was made for another service, checked: also as user or password of basic authentication,
/// which is where a URL such as `http://KEY@host:4444` puts it. Refusals have the W3C form.
pub(super) struct GridCaller(pub(super) KeyId);

impl FromRequestParts<App> for GridCaller {
    type Rejection = W3c;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, W3c> {
        Ok(Self(verify(app, &parts.headers, None)?))
    }
}

/// Checks the key of a websocket client, or of one that looks for a websocket: it may be in the URL as well.
pub(super) fn verify(app: &App, headers: &HeaderMap, token: Option<&str>) -> Result<KeyId, Error> {
    let basic = basic_parts(headers);
    let candidates = token.or_else(|| sent_key(headers)).into_iter().chain(basic.iter().map(String::as_str));
    let mut found = Err(Error::MissingKey);
    for key in candidates {
        match app.keys.verify(key) {
            Some(id) => return Ok(id),
            None => found = Err(Error::InvalidKey),
        }
    }
    found
}

/// Whether the key is in a header that a client sends on every request, and not in the URL alone.
pub(super) fn in_header(headers: &HeaderMap) -> bool {
    sent_key(headers).is_some()
}

/// The password and the user of basic authentication, as far as they are given. Clients that have no password write
/// nothing, or `None`.
pub(super) fn basic_parts(headers: &HeaderMap) -> Vec<String> {
    let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let Some((scheme, coded)) = value.split_once(' ') else { return Vec::new() };
    if !scheme.eq_ignore_ascii_case("basic") {
        return Vec::new();
    }
    let decoded = STANDARD.decode(coded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let Some(decoded) = decoded else { return Vec::new() };
    // Node writes no colon where there is no password.
    let (user, password) = decoded.split_once(':').unwrap_or((&decoded, ""));
    [password, user].into_iter().filter(|part| !matches!(*part, "" | "None")).map(str::to_owned).collect()
}

/// Why there is no key: where another service would have read it, this says so.
fn missing_key(headers: &HeaderMap) -> Error {
    if headers.contains_key("x-api-key") {
        return Error::MisplacedKey { place: "the header `x-api-key`" };
    }
    let scheme = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let scheme = scheme.split(' ').next().unwrap_or_default();
    match scheme {
        "" => Error::MissingKey,
        _ if scheme.eq_ignore_ascii_case("basic") => {
            Error::MisplacedKey { place: "basic authentication (a user or password in the URL)" }
        }
        _ => Error::MisplacedKey { place: "the header `Authorization`, except as `Bearer KEY`," },
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

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn parts(value: &str) -> Vec<String> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::try_from(value).unwrap());
        basic_parts(&headers)
    }

    fn basic(text: &str) -> Vec<String> {
        parts(&format!("Basic {}", STANDARD.encode(text)))
    }

    #[test]
    fn a_misplaced_key_is_noticed() {
        let said = |name: &'static str, value: &'static str| {
            missing_key(&HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))])).to_string()
        };
        assert!(said("authorization", "Basic a2V5Og==").contains("basic authentication"));
        assert!(said("authorization", "wp_1_2").contains("as `Bearer KEY`"));
        assert!(said("x-api-key", "wp_1_2").contains("`x-api-key`"));
        assert!(matches!(missing_key(&HeaderMap::new()), Error::MissingKey));
    }

    #[test]
    fn the_key_may_be_user_or_password() {
        assert_eq!(basic("key:"), ["key"]);
        assert_eq!(basic("key:None"), ["key"]);
        assert_eq!(basic("any:key"), ["key", "any"]);
        assert_eq!(basic("key"), ["key"]);
        assert!(basic("").is_empty() && basic(":").is_empty());
        for malformed in ["Basic", "Basic !!!", "Basic \u{7f}", "Bearer abc", ""] {
            assert!(parts(malformed.trim_end_matches('\u{7f}')).is_empty(), "{malformed}");
        }
    }
}
