//! Signing in to the console: the service key once, then a cookie that scripts cannot read.
//!
//! The cookie alone opens nothing. Calls carry a header too, which no page of another origin can send along, or the
//! browser itself says that a page of this origin makes them: pictures, films and downloads have no other way. The header also says
//! which calls a page makes of itself, to follow what happens: these are no use of the sign-in, and put its end off by nothing.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::response::{IntoResponse as _, Response};
use http::header::{COOKIE, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::App;
use super::body;
use super::credential::Credential;
use super::peer::ClientAddress;
use super::public_url::PublicUrl;
use super::reply::{AuthMethod, json_reply, note_caller};
use super::route::{Names, Route};
use super::sign_ins::TokenHash;
use crate::http::error::Error;
use warmpool_keys::KeyId;

const COOKIE_NAME: &str = "warmpool_console";
/// The header that the console's pages send with each call.
const HEADER: &str = "x-warmpool-console";
/// Its value on a call that nobody's act led to.
const FOLLOWS: &str = "follow";
/// How long browsers keep the cookie, in seconds: as long as they keep any. When a sign-in ends is for the daemon to say, and each
/// use puts that off.
const COOKIE_LASTS: u64 = 400 * 86_400;
/// Where a browser says whose page makes a request. Pages cannot set it.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Somebody who is signed in to the console.
pub(super) struct SignedIn {
    pub(super) key: KeyId,
    pub(super) token: TokenHash,
    /// Whether they may see what all keys made.
    pub(super) is_operator: bool,
}

impl SignedIn {
    /// The sign-in of a request from a page of the console.
    /// Errors: `InvalidKey` when the key was revoked meanwhile, or its secret replaced.
    pub(super) fn find(app: &App, headers: &HeaderMap) -> Result<Option<Self>, Error> {
        if !comes_from_our_page(headers) {
            return Ok(None);
        }
        let Some(token) = token(headers) else { return Ok(None) };
        let Some(key) = app.sign_ins.find(token, is_use(headers))? else { return Ok(None) };
        note_caller(&key, AuthMethod::SignIn);
        let (is_operator, token) = (app.keys.is_operator(&key), TokenHash::of(token));
        Credential::SignIn { key: key.clone(), is_operator, token }.note();
        Ok(Some(Self { key, token, is_operator }))
    }

    /// In whose name an operator does what this request asks for: in that of the key whose session or task the path names.
    pub(super) async fn acts_as(self, app: &App, parts: &Parts) -> Result<KeyId, Error> {
        if !self.is_operator {
            return Ok(self.key);
        }
        let route = parts.extensions.get::<Arc<Route>>();
        let owner = match route.and_then(|route| route.owned(parts.uri.path())) {
            Some((Names::Session, id)) => app.sessions.owner(id),
            Some((_, id)) => match id.parse() {
                Ok(task) => app.tasks.owner(task).await?,
                Err(_) => None,
            },
            None => None,
        };
        Ok(owner.unwrap_or(self.key))
    }
}

impl FromRequestParts<App> for SignedIn {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        Self::find(app, &parts.headers)?.ok_or(Error::MissingKey)
    }
}

/// An operator who is signed in to the console.
pub(super) struct Operator(pub(super) SignedIn);

impl FromRequestParts<App> for Operator {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let signed_in = SignedIn::from_request_parts(parts, app).await?;
        if signed_in.is_operator { Ok(Self(signed_in)) } else { Err(Error::OperatorOnly) }
    }
}

fn comes_from_our_page(headers: &HeaderMap) -> bool {
    headers.contains_key(HEADER) || headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "same-origin")
}

/// Whether somebody's act led to a call of a page.
fn is_use(headers: &HeaderMap) -> bool {
    headers.get(HEADER).is_none_or(|value| value != FOLLOWS)
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
    base: PublicUrl,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let (credentials, _text): (Credentials, _) = body::keyless_json(&app, address, &headers, body).await?;
    if credentials.key.trim().is_empty() {
        return Err(Error::MissingKey);
    }
    // A right key always passes: to check it takes one hash, and others may have used up what this address may get wrong.
    let Some((key, secret)) = app.keys.verify_secret(credentials.key.trim()) else {
        let counted = app.sign_ins.attempts.fail(address, app.config.server.failed_sign_ins, Instant::now());
        return Err(counted.map_or_else(
            |retry_after| Error::SignInLimit { retry_after },
            |()| warmpool_keys::Error::InvalidKey.into(),
        ));
    };
    note_caller(&key, AuthMethod::Key);
    // Nobody else's sign-in in the same browser is left behind.
    if let Some(token) = token(&headers) {
        // Nobody waits for the store: who signs in may be the one who makes room for it.
        tokio::spawn(app.sign_ins.remove(token));
    }
    let token = app.sign_ins.add(key, secret);
    Ok(with_cookie(&base, &format!("{token}; Max-Age={COOKIE_LASTS}")))
}

/// `DELETE /console/sign-in`
pub(super) async fn sign_out(State(app): State<App>, base: PublicUrl, headers: HeaderMap) -> Result<Response, Error> {
    if let Some(token) = token(&headers).filter(|_| comes_from_our_page(&headers)) {
        if let Ok(Some(key)) = app.sign_ins.find(token, true) {
            note_caller(&key, AuthMethod::SignIn);
        }
        app.sign_ins.remove(token).await?;
    }
    Ok(with_cookie(&base, "; Max-Age=0"))
}

/// `GET /console/sign-in`
pub(super) async fn signed_in(State(app): State<App>, who: SignedIn) -> Response {
    let record = app.keys.get(&who.key);
    let body = json!({
        "name": record.as_ref().map(|record| &record.name),
        "role": record.as_ref().map(|record| record.details.role),
        "key_id": who.key,
        "ends_after": app.sign_ins.timeout().as_secs(),
        "version": env!("CARGO_PKG_VERSION"),
        "started_at": app.console.started_ms(),
    });
    json_reply(StatusCode::OK, &body)
}

fn with_cookie(base: &PublicUrl, value: &str) -> Response {
    let secure = if base.is_secure() { "; Secure" } else { "" };
    let path = base.path();
    let mut response = StatusCode::NO_CONTENT.into_response();
    let text = format!("{COOKIE_NAME}={value}; Path={path}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(value) = HeaderValue::try_from(text) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_this_origin_use_the_cookie() {
        let ours = |name: &'static str, value: &'static str| {
            comes_from_our_page(&HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))]))
        };
        assert!(ours(HEADER, "1") && ours(SEC_FETCH_SITE, "same-origin"));
        for site in ["same-site", "cross-site", "none", ""] {
            assert!(!ours(SEC_FETCH_SITE, site), "{site}");
        }
        assert!(!comes_from_our_page(&HeaderMap::new()));
        // A page that only follows makes calls that are no use.
        let called =
            |value| is_use(&HeaderMap::from_iter([(HEADER.parse().unwrap(), HeaderValue::from_static(value))]));
        assert!(called("1") && !called(FOLLOWS) && is_use(&HeaderMap::new()));
    }
}
