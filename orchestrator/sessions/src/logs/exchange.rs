//! A request and its answer, as a log keeps them.

use serde_json::Value;

/// The longest text that is kept, in characters.
pub(super) const LONGEST: usize = 4000;
/// The most headers of a message that are kept.
const MAX_HEADERS: usize = 64;
/// What stands in place of a value that is not kept.
const LEFT_OUT: &str = "[left out]";

/// Headers whose values are kept: they say how a message is to be read, and never who sends it.
const KEPT: [&str; 34] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
    "age",
    "allow",
    "cache-control",
    "connection",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expires",
    "host",
    "last-modified",
    "location",
    "origin",
    "range",
    "referer",
    "retry-after",
    "server",
    "transfer-encoding",
    "upgrade-insecure-requests",
    "user-agent",
    "vary",
    "via",
    "x-content-type-options",
];

/// A time or a length as a whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates, which will do")]
pub(super) fn whole(number: f64) -> u64 {
    number as u64
}

/// The answer to a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) protocol: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) media_type: String,
    pub(super) location: String,
    /// DevTools' own object of times, in milliseconds from its `requestTime`.
    pub(super) timing: Timing,
    pub(super) remote: Option<String>,
}

/// When the parts of an exchange were done, in milliseconds; none where there was no such part.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Timing {
    pub(super) dns: Option<f64>,
    pub(super) connect: Option<f64>,
    pub(super) ssl: Option<f64>,
    pub(super) send: Option<f64>,
    pub(super) wait: Option<f64>,
    /// From the beginning to the end of the answer's headers.
    pub(super) until_headers: Option<f64>,
}

/// A request that is done, or under way.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Exchange {
    pub(super) method: String,
    pub(super) url: String,
    pub(super) resource: String,
    pub(super) headers: Vec<(String, String)>,
    /// Whether it had a body, which is not kept.
    pub(super) had_body: bool,
    /// When it began, in Unix milliseconds.
    pub(super) began_ms: f64,
    /// The same by the browser's own clock, in seconds.
    pub(super) began: f64,
    /// How long it took, in milliseconds.
    pub(super) took_ms: f64,
    pub(super) answer: Option<Answer>,
    pub(super) failure: Option<String>,
    pub(super) bytes: Option<u64>,
}

impl Exchange {
    /// The bytes of its texts.
    pub(super) fn weight(&self) -> usize {
        let of =
            |headers: &[(String, String)]| headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        let answer = self.answer.as_ref().map_or(0, |answer| {
            of(&answer.headers) + answer.reason.len() + answer.media_type.len() + answer.location.len()
        });
        self.url.len() + self.method.len() + self.resource.len() + of(&self.headers) + answer
    }
}

/// The names of headers in a JSON object, and the values that may be kept.
pub(super) fn headers(of: &Value) -> Vec<(String, String)> {
    let pairs = of.as_object().into_iter().flatten();
    kept_headers(pairs.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default())))
}

/// The names of headers, and the values that may be kept.
pub(super) fn kept_headers<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(String, String)> {
    let kept = |(name, value): (&str, &str)| {
        let is_kept = KEPT.contains(&name.to_ascii_lowercase().as_str());
        (short(name), if is_kept { short(value) } else { LEFT_OUT.to_owned() })
    };
    pairs.take(MAX_HEADERS).map(kept).collect()
}

/// A text, as far as it is kept.
pub(super) fn short(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_are_not_listed_are_left_out() {
        let found = headers(&json!({"Cookie": "a=b", "Authorization": "Bearer x", "X-Api-Key": "k", "Accept": "*/*"}));
        for (name, value) in found {
            assert_eq!(value, if name == "Accept" { "*/*" } else { LEFT_OUT }, "{name}");
        }
    }
}
