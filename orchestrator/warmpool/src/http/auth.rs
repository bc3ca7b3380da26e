//! Authenticates callers, by the key in a header or the sign-in of a page of the console.

use axum::extract::FromRequestParts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use schemars::JsonSchema;
use serde::Deserialize;

use super::App;
use super::credential::Credential;
use super::headers::{authorization, bearer, text};
use super::query::Query;
use super::reply::{AuthMethod, note_caller};
use super::sign_in::SignedIn;
use crate::dropin::hosted;
use crate::http::error::Error;
use warmpool_keys::KeyId;

/// The contract's header for the key.
pub(super) const SECRET_KEY: &str = "service-secret-key";
/// Every header that has a key and nothing else: ours, and those of other services' clients.
pub(super) const KEY_HEADERS: [&str; 3] = [SECRET_KEY, hosted::BROWSERBASE_KEY, hosted::STEEL_KEY];

/// A key in the query.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct KeyToken {
    /// A service key, where the client can set no header.
    pub(super) token: Option<String>,
}

/// The key that a request carries, checked; or, in the console, the one in whose name the request is made.
pub(super) struct Caller(pub(super) KeyId);

impl FromRequestParts<App> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        if let Some(key) = key_in_header(app, &parts.headers)? {
            return Ok(Self(key));
        }
        match SignedIn::find(app, &parts.headers)? {
            Some(signed_in) => signed_in.acts_as(app, parts).await.map(Self),
            None => Err(missing_key(&parts.headers)),
        }
    }
}

/// Whose sessions or tasks a list may show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// Those of one key.
    Own(KeyId),
    /// Those of every key: an operator asks, in the console.
    All,
}

impl Scope {
    /// Narrows it to one key, where the query names one. That of somebody else shows nothing.
    pub(super) fn narrowed(self, wanted: Option<&KeyId>) -> Option<Self> {
        match (self, wanted) {
            (scope, None) => Some(scope),
            (Self::All, Some(key)) => Some(Self::Own(key.clone())),
            (Self::Own(own), Some(key)) => (own == *key).then_some(Self::Own(own)),
        }
    }

    /// Whether it has what this key did, or what nobody known did.
    pub(super) fn sees(&self, key: Option<&KeyId>) -> bool {
        key.map_or(*self == Self::All, |key| self.has(key))
    }

    /// Whether it has what this key made.
    pub(super) fn has(&self, key: &KeyId) -> bool {
        match self {
            Self::Own(own) => own == key,
            Self::All => true,
        }
    }
}

impl FromRequestParts<App> for Scope {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        if let Some(key) = key_in_header(app, &parts.headers)? {
            return Ok(Self::Own(key));
        }
        match SignedIn::find(app, &parts.headers)? {
            Some(signed_in) if signed_in.is_operator => Ok(Self::All),
            Some(signed_in) => Ok(Self::Own(signed_in.key)),
            None => Err(missing_key(&parts.headers)),
        }
    }
}

/// The key for `/status`, `/metrics` and their like, where the operator demands one: also as user or password of basic
/// authentication, or in the query of a route that declares a [`KeyToken`].
pub(super) struct StatusCaller;

impl FromRequestParts<App> for StatusCaller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        if app.config.server.status_needs_key {
            let Query(KeyToken { token }) = Query::from_request_parts(parts, app).await?;
            if let Err(refused) = verify(app, &parts.headers, token.as_deref()) {
                // A page of the console has a sign-in instead.
                let caller = Caller::from_request_parts(parts, app).await;
                caller.map_err(|other| if matches!(refused, Error::MissingKey) { other } else { refused })?;
            }
        }
        Ok(Self)
    }
}

/// The key of a client that was made for another service, checked: also as user or password of basic authentication,
/// which is where a URL such as `http://KEY@host:4444` puts it.
pub(super) struct GridCaller(pub(super) KeyId);

impl FromRequestParts<App> for GridCaller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        verify(app, &parts.headers, None).map(Self).map_err(|refused| match refused {
            Error::MissingKey => Error::MissingGridKey,
            other => other,
        })
    }
}

/// The key of a command for a grid's session, if there is one: the session's id is enough. One that is there must be
/// right.
pub(super) struct GridKey(pub(super) Option<KeyId>);

impl GridKey {
    /// Errors: `InvalidKey`.
    pub(super) fn read(app: &App, headers: &HeaderMap, token: Option<&str>) -> Result<Self, Error> {
        match verify(app, headers, token) {
            Ok(key) => Ok(Self(Some(key))),
            Err(Error::MissingKey) => Ok(Self(None)),
            Err(error) => Err(error),
        }
    }
}

impl FromRequestParts<App> for GridKey {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        Self::read(app, &parts.headers, None)
    }
}

/// Checks the key of a websocket client, or of one that looks for a websocket: it may be in the URL as well.
pub(super) fn verify(app: &App, headers: &HeaderMap, token: Option<&str>) -> Result<KeyId, Error> {
    let basic = basic_parts(headers);
    let in_url = token.filter(|token| !token.is_empty());
    let candidates = in_url.or_else(|| sent_key(headers)).into_iter().chain(basic.iter().map(String::as_str));
    let mut found = Err(Error::MissingKey);
    for key in candidates {
        match check(app, key) {
            Some(id) => return Ok(id),
            None => found = Err(warmpool_keys::Error::InvalidKey.into()),
        }
    }
    found
}

/// The key in a header; `None` where a sign-in to the console may stand in for it: there is none, or a bearer token that is none of
/// ours. A reverse proxy that has people sign in sends its own token along with each of their requests.
/// Errors: `InvalidKey`.
fn key_in_header(app: &App, headers: &HeaderMap) -> Result<Option<KeyId>, Error> {
    match own_header(headers) {
        Some(key) => check(app, key).map(Some).ok_or(warmpool_keys::Error::InvalidKey.into()),
        None => Ok(bearer(headers).and_then(|key| check(app, key))),
    }
}

/// The id of a key that works. The log of requests hears of it, and the answer lasts no longer than the key.
fn check(app: &App, key: &str) -> Option<KeyId> {
    let (id, secret) = app.keys.verify_secret(key)?;
    note_caller(&id, AuthMethod::Key);
    Credential::Key { key: id.clone(), secret }.note();
    Some(id)
}

/// Whether the key is in a header that a client sends on every request, and not in the URL alone.
pub(super) fn in_header(headers: &HeaderMap) -> bool {
    sent_key(headers).is_some()
}

/// The password and the user of basic authentication, as far as they are given. Clients that have no password write
/// nothing, or `None`.
pub(super) fn basic_parts(headers: &HeaderMap) -> Vec<String> {
    let coded = authorization(headers).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"));
    let Some((_, coded)) = coded else { return Vec::new() };
    let decoded = STANDARD.decode(coded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let Some(decoded) = decoded else { return Vec::new() };
    // Node writes no colon where there is no password.
    let (user, password) = decoded.split_once(':').unwrap_or((&decoded, ""));
    [password, user].into_iter().filter(|part| !matches!(*part, "" | "None")).map(str::to_owned).collect()
}

/// Why there is no key: where another service would have read it, this says so.
fn missing_key(headers: &HeaderMap) -> Error {
    if sent_key(headers).is_some() {
        return warmpool_keys::Error::InvalidKey.into();
    }
    if headers.contains_key("x-api-key") {
        return Error::MisplacedKey { place: "the header `x-api-key`" };
    }
    let scheme = text(headers, AUTHORIZATION).unwrap_or_default();
    let scheme = scheme.split(' ').next().unwrap_or_default();
    match scheme {
        "" => Error::MissingKey,
        // One without a user and a password holds no key.
        _ if scheme.eq_ignore_ascii_case("basic") && basic_parts(headers).is_empty() => Error::MissingKey,
        _ if scheme.eq_ignore_ascii_case("basic") => {
            Error::MisplacedKey { place: "basic authentication (a user or password in the URL)" }
        }
        _ => Error::MisplacedKey { place: "the header `Authorization`, except as `Bearer KEY`," },
    }
}

/// The key in a header of its own, or as a bearer token. An empty one is none.
fn sent_key(headers: &HeaderMap) -> Option<&str> {
    own_header(headers).or_else(|| bearer(headers))
}

/// The key in a header that has nothing else.
fn own_header(headers: &HeaderMap) -> Option<&str> {
    KEY_HEADERS.iter().find_map(|name| text(headers, *name).filter(|key| !key.trim().is_empty()))
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
        // Beside a sign-in to the console it is ignored; alone it is a wrong key.
        let bearer = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer a.b.c"))]);
        assert!(matches!(missing_key(&bearer), Error::Key(warmpool_keys::Error::InvalidKey)));
        assert!(!said("authorization", "Basic Og==").contains("basic authentication"));
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
