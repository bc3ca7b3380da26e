//! Tells clients of Chromium what the network's error was.
//!
//! Chromium has one error for whatever a SOCKS proxy answers. The agent saw the daemon's answer and puts Chromium's own name
//! for it in that error's place. Every name is as long or shorter and ends a string of JSON, so blanks behind the string
//! make up for the rest: frames keep their lengths, and nothing is parsed.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use memchr::memmem;
use parking_lot::Mutex;
use tokio::time::Instant;
use warmpool_protocol::{SOCKS_PROXY_FAILED, SOCKS_UNKNOWN_HOST};

use crate::body::{Body, full};
use crate::error::ApiError;

/// What Chromium says.
const VAGUE: &[u8] = b"net::ERR_SOCKS_CONNECTION_FAILED";
/// What Chromium says, to the end of its string.
const VAGUE_STRING: &[u8] = b"net::ERR_SOCKS_CONNECTION_FAILED\"";
/// No more than this is looked for at the end of what was read: a message does not end like this, so nothing waits.
const SHORTEST_BEGINNING: usize = b"net::".len();
/// The largest answer of a driver that is read for the name, in bytes. Others are passed on as they come: a page may have
/// filled them.
const ANSWER_LIMIT: u64 = 64 << 10;
/// For how long after an answer Chromium may speak of it.
const SPOKEN_OF_WITHIN: Duration = Duration::from_secs(5);

/// What Chromium asks for by itself when it starts, whatever its switches. Its failure must not name a client's; the price is
/// that a client's own request there that fails has Chromium's vague name.
const OF_CHROMIUM: [&str; 3] = ["accounts.google.com", "clients2.google.com", "update.googleapis.com"];

/// Codes of RFC 1928.
const FAILED: u8 = 1;
const HOST_UNREACHABLE: u8 = 4;

/// What the daemon answered last when it did not connect a browser.
#[derive(Default)]
pub(crate) struct NetErrors {
    last: Mutex<Option<(Instant, &'static str)>>,
}

impl NetErrors {
    /// Takes the code of an answer about this host; returns the one for the browser, which knows none but the standard's.
    pub(crate) fn note(&self, host: Option<&str>, code: u8) -> u8 {
        let (name, code) = match code {
            2 => (Some("net::ERR_NETWORK_ACCESS_DENIED"), code),
            3 | HOST_UNREACHABLE => (Some("net::ERR_ADDRESS_UNREACHABLE"), code),
            5 => (Some("net::ERR_CONNECTION_REFUSED"), code),
            6 => (Some("net::ERR_CONNECTION_TIMED_OUT"), code),
            SOCKS_UNKNOWN_HOST => (Some("net::ERR_NAME_NOT_RESOLVED"), HOST_UNREACHABLE),
            SOCKS_PROXY_FAILED => (Some("net::ERR_PROXY_CONNECTION_FAILED"), FAILED),
            _ => (None, code),
        };
        if !host.is_some_and(|host| OF_CHROMIUM.contains(&host)) {
            *self.last.lock() = name.map(|name| (Instant::now(), name));
        }
        code
    }

    /// The name of the error that Chromium may be speaking of.
    fn name(&self) -> Option<&'static str> {
        self.last.lock().filter(|(at, _)| at.elapsed() < SPOKEN_OF_WITHIN).map(|(_, name)| name)
    }

    /// An answer of the driver's, which has the name in its message.
    pub(crate) async fn named(&self, answer: Response<Body>) -> Result<Response<Body>, ApiError> {
        let is_small = answer.body().size_hint().upper().is_some_and(|size| size <= ANSWER_LIMIT);
        let may_have_it = is_small && answer.status() == StatusCode::INTERNAL_SERVER_ERROR;
        let Some(name) = self.name().filter(|_| may_have_it) else { return Ok(answer) };
        let (mut parts, body) = answer.into_parts();
        let body = body.collect().await.map_err(|e| ApiError::upstream(format!("its answer broke off: {e}")))?;
        let mut body = body.to_bytes().to_vec();
        if let Some(at) = memmem::find(&body, VAGUE) {
            body.splice(at..at + VAGUE.len(), name.bytes());
            parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        Ok(Response::from_parts(parts, full(body)))
    }
}

/// The messages on their way to one client.
pub(crate) struct NamedErrors {
    errors: Arc<NetErrors>,
    /// The end of what was read, where the error may have begun.
    held: Vec<u8>,
}

impl NamedErrors {
    pub(crate) fn new(errors: Arc<NetErrors>) -> Self {
        Self { errors, held: Vec::new() }
    }

    /// Takes what was read; returns what may be written.
    pub(crate) fn pass<'a>(&mut self, read: &'a [u8]) -> Cow<'a, [u8]> {
        let name = self.errors.name();
        if name.is_none() && self.held.is_empty() {
            return Cow::Borrowed(read);
        }
        let mut bytes = Cow::Borrowed(read);
        if !self.held.is_empty() {
            bytes = Cow::Owned([&std::mem::take(&mut self.held), read].concat());
        }
        let Some(name) = name else { return bytes };
        let mut from = 0;
        while let Some(at) = memmem::find(&bytes[from..], VAGUE_STRING) {
            let place = from + at..from + at + VAGUE_STRING.len();
            from = place.end;
            let place = &mut bytes.to_mut()[place];
            place.fill(b' ');
            place[..name.len()].copy_from_slice(name.as_bytes());
            place[name.len()] = b'"';
        }
        let rest = &bytes[from..];
        let begun =
            (SHORTEST_BEGINNING..VAGUE_STRING.len()).rev().find(|count| rest.ends_with(&VAGUE_STRING[..*count]));
        if let Some(begun) = begun {
            let kept = bytes.len() - begun;
            self.held = bytes[kept..].to_vec();
            bytes.to_mut().truncate(kept);
        }
        bytes
    }

    /// What was held when the stream ended.
    pub(crate) fn rest(self) -> Vec<u8> {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        br#"{"a":"net::ERR_SOCKS_CONNECTION_FAILED","b":1}{"text":"Failed: net::ERR_SOCKS_CONNECTION_FAILED at"}"#;

    fn passed(errors: &Arc<NetErrors>, step: usize) -> String {
        let mut named = NamedErrors::new(Arc::clone(errors));
        let mut out: Vec<u8> = STREAM.chunks(step).flat_map(|part| named.pass(part).into_owned()).collect();
        out.extend(named.rest());
        String::from_utf8(out).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_is_named_though_reads_cut_it() {
        let errors = Arc::new(NetErrors::default());
        assert_eq!(errors.note(None, 5), 5);
        for step in SHORTEST_BEGINNING + 6..STREAM.len() {
            let out = passed(&errors, step);
            let expected = r#"{"a":"net::ERR_CONNECTION_REFUSED"     ,"b":1}{"text":"Failed: net::ERR_SOCKS_CONNECTION_FAILED at"}"#;
            // A cut in the first letters leaves the vague name.
            assert!(out == expected || out.as_bytes() == STREAM, "{step}: {out}");
            assert_eq!(out.len(), STREAM.len(), "{step}");
        }
        assert!(passed(&errors, STREAM.len()).contains("ERR_CONNECTION_REFUSED"));
        assert!(passed(&errors, 12).contains("ERR_CONNECTION_REFUSED"));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_changed_without_a_reason_or_long_after_it() {
        let errors = Arc::new(NetErrors::default());
        assert_eq!(passed(&errors, 16).as_bytes(), STREAM);
        assert_eq!(errors.note(None, SOCKS_UNKNOWN_HOST), HOST_UNREACHABLE);
        assert!(passed(&errors, 64).contains("ERR_NAME_NOT_RESOLVED"));
        assert_eq!(errors.note(None, FAILED), FAILED);
        assert_eq!(passed(&errors, 64).as_bytes(), STREAM);
        errors.note(None, 6);
        tokio::time::advance(SPOKEN_OF_WITHIN).await;
        assert_eq!(passed(&errors, 64).as_bytes(), STREAM);
    }

    #[tokio::test(start_paused = true)]
    async fn what_chromium_asks_for_by_itself_names_nothing() {
        let errors = Arc::new(NetErrors::default());
        errors.note(Some("shop.example"), 5);
        assert_eq!(errors.note(Some("accounts.google.com"), SOCKS_UNKNOWN_HOST), HOST_UNREACHABLE);
        assert!(passed(&errors, 64).contains("ERR_CONNECTION_REFUSED"));
    }

    #[tokio::test(start_paused = true)]
    async fn every_name_has_room() {
        let errors = Arc::new(NetErrors::default());
        for code in [2, 3, 4, 5, 6, SOCKS_UNKNOWN_HOST, SOCKS_PROXY_FAILED] {
            assert!(errors.note(None, code) <= 8, "{code}");
            assert_eq!(passed(&errors, STREAM.len()).len(), STREAM.len(), "{code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_drivers_message_has_the_name() {
        let errors = NetErrors::default();
        errors.note(None, SOCKS_UNKNOWN_HOST);
        let answer = |status, behind: usize| {
            let body = r#"{"value":{"message":"unknown error: net::ERR_SOCKS_CONNECTION_FAILED\n  (Session"}}"#;
            let body = format!("{body}{}", " ".repeat(behind));
            let answer = Response::builder().status(status).header(CONTENT_LENGTH, body.len());
            answer.body(full(body)).unwrap()
        };
        let named = errors.named(answer(500, 0)).await.unwrap();
        let length = named.headers()[CONTENT_LENGTH].to_str().unwrap().parse::<usize>().unwrap();
        let body = named.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(&body[..], br#"{"value":{"message":"unknown error: net::ERR_NAME_NOT_RESOLVED\n  (Session"}}"#);
        assert_eq!(length, body.len());
        // A page may say so itself, and make an answer as large as it likes.
        for other in [answer(200, 0), answer(500, 64 << 10)] {
            let other = errors.named(other).await.unwrap().into_body().collect().await.unwrap().to_bytes();
            assert!(memmem::find(&other, VAGUE).is_some());
        }
    }
}
