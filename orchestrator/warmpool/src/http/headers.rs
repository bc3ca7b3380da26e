//! Headers that more than one route reads.

use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, AsHeaderName, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

use crate::http::error::Error;
use warmpool_core::error::FieldFault as _;

/// The longest idempotency key, in bytes.
pub(super) const MAX_IDEMPOTENCY_KEY: usize = 255;

/// The text of a header.
pub(super) fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The scheme of the header `Authorization`, and what it carries.
pub(super) fn authorization(headers: &HeaderMap) -> Option<(&str, &str)> {
    let (scheme, value) = text(headers, AUTHORIZATION)?.split_once(' ')?;
    Some((scheme, value.trim()))
}

/// The token of `Authorization: Bearer TOKEN`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    authorization(headers).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token)
}

/// The media type of the body, without parameters; empty where there is none.
pub(super) fn media_type(headers: &HeaderMap) -> &str {
    bare(text(headers, CONTENT_TYPE).unwrap_or_default())
}

/// Whether the client accepts this media type by name.
pub(super) fn wants(headers: &HeaderMap, media_type: &str) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| bare(one).eq_ignore_ascii_case(media_type))
}

/// A value without its parameters.
fn bare(value: &str) -> &str {
    value.split(';').next().unwrap_or_default().trim()
}

/// How long the answer may wait: by the body's `wait`, else by `wait=N` of the header `Prefer` (RFC 7240). Both are in
/// seconds.
/// Errors: `Field` for a body's `wait` beyond `longest`.
pub(super) fn wait(headers: &HeaderMap, wait: Option<u64>, longest: Duration) -> Result<Option<Duration>, Error> {
    let longest = longest.as_secs();
    if wait.is_some_and(|wait| wait > longest) {
        return Err(Error::invalid("wait", format!("must be from 0 to {longest} seconds")));
    }
    // A preference is optional: the daemon honours it as far as it can.
    let seconds = wait.or_else(|| preferred_wait(headers).map(|wait| wait.min(longest)));
    Ok(seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs))
}

fn preferred_wait(headers: &HeaderMap) -> Option<u64> {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split([',', ';'])).find_map(|wish| {
        let (name, value) = wish.split_once('=')?;
        let value = value.trim().trim_matches('"');
        name.trim().eq_ignore_ascii_case("wait").then(|| value.parse().ok())?
    })
}

/// Tells the client how long the answer would have waited.
pub(super) fn note_wait(headers: &mut HeaderMap, wait: Duration) {
    if let Ok(applied) = HeaderValue::try_from(format!("wait={}", wait.as_secs())) {
        headers.insert("preference-applied", applied);
    }
}

/// The header `Idempotency-Key`.
/// Errors: `Field` where it is no key.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Error> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    match value.to_str().map(str::trim) {
        Ok(key) if !key.is_empty() && key.len() <= MAX_IDEMPOTENCY_KEY => Ok(Some(key.to_owned())),
        _ => {
            let problem = format!("must be 1 to {MAX_IDEMPOTENCY_KEY} printable ASCII characters");
            Err(Error::invalid("Idempotency-Key", problem))
        }
    }
}
