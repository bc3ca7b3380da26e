//! Reads bodies into memory within one budget, and parses JSON with errors that name the field.

use std::net::IpAddr;
use std::ops::Deref;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::App;
use super::budget::{Holder, KEYLESS_SHARE, Reservation};
use super::forwarded_body::broke_off;
use super::headers::media_type;
use crate::http::error::Error;
use warmpool_core::blocking;
use warmpool_core::error::read_json;
use warmpool_core::json::{JsonSize, SizeError, measure};

/// How many copies of a body exist at once, about: parsed, checked and copied.
const COPIES: u64 = 2;

/// A text that is read so fast that it holds up nobody, in bytes.
const SHORT: usize = 64 << 10;

/// A body in memory, with its share of the budget until it is dropped.
pub(super) struct Text {
    bytes: Bytes,
    part: Reservation,
    /// What was made of it takes so many bytes.
    made: u64,
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Text {
    /// The text itself, which takes no memory of its own.
    pub(super) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Parses JSON; an error names the field by its path.
    /// Errors: `InvalidBody`, `Field`; `BodyTooHeavy` or `BodyMemory` when too much would be made of it.
    pub(super) fn parse<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        self.off_reactor(|text| {
            if !text.reserve_parsed(COPIES)?.is_object {
                return Err(Error::InvalidBody { message: "the body must be a JSON object".to_owned() });
            }
            Ok(read_json(&mut serde_json::Deserializer::from_slice(&text.bytes))?)
        })
    }

    /// Parses any JSON.
    /// Errors: `InvalidBody`, `BodyTooHeavy`, `BodyMemory`.
    pub(super) fn value(&mut self) -> Result<Value, Error> {
        self.off_reactor(|text| {
            text.reserve_parsed(COPIES)?;
            serde_json::from_slice(&text.bytes).map_err(|error| no_json(&error))
        })
    }

    /// Counts it among those whose key is known.
    /// Errors: `BodyMemory`.
    pub(super) fn key_is_known(&mut self, app: &App) -> Result<(), Error> {
        self.part.move_to(&app.bodies)
    }

    /// Makes room for a copy of the text itself.
    /// Errors: `BodyTooHeavy`, `BodyMemory`.
    pub(super) fn reserve_copy(&mut self) -> Result<(), Error> {
        let length = self.bytes.len() as u64;
        self.part.grow(length)?;
        self.made = length;
        Ok(())
    }

    /// Makes room for as many more copies of what was made of it.
    /// Errors: `BodyTooHeavy`, `BodyMemory`.
    pub(super) fn reserve_copies(&mut self, times: usize) -> Result<(), Error> {
        self.off_reactor(|text| text.reserve_parsed(times as u64).map(drop))
    }

    /// Drops the text, and all it holds of the budget but for what was made of it once: whoever goes on with that may have to wait.
    pub(super) fn kept(mut self) -> Reservation {
        self.part.shrink_to(self.made);
        self.part
    }

    /// Measures what it is when parsed, and takes this multiple of that from the budget.
    fn reserve_parsed(&mut self, times: u64) -> Result<JsonSize, Error> {
        let size = match measure(&self.bytes, self.part.room() / times.max(1)) {
            Ok(size) => size,
            Err(SizeError::NotJson(error)) => return Err(no_json(&error)),
            Err(SizeError::TooLarge) => return Err(self.part.too_heavy()),
        };
        self.part.grow(size.bytes.saturating_mul(times))?;
        self.made = size.bytes;
        Ok(size)
    }

    /// Does what takes a processor its time. A long text must not hold up the other work of this thread, which may be
    /// what tells that workers live.
    pub(super) fn off_reactor<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        if self.bytes.len() <= SHORT {
            return work(self);
        }
        blocking::in_place(|| work(self))
    }
}

/// Reads a body of at most `limit` bytes; `setting` is the limit's name.
/// Errors: `BodyTooLarge`, `BodyTimeout`, `BodyTooHeavy`, `BodyMemory`, and `InvalidBody` when it breaks off.
pub(super) async fn read(app: &App, body: Body, limit: u64, setting: &'static str) -> Result<Text, Error> {
    read_into(app.bodies.part(Holder::of_request()), app, body, limit, setting).await
}

/// The same with the part of a budget that the text shall have.
async fn read_into(
    mut part: Reservation,
    app: &App,
    body: Body,
    limit: u64,
    setting: &'static str,
) -> Result<Text, Error> {
    if body.size_hint().lower() > limit {
        return Err(Error::BodyTooLarge { limit, setting });
    }
    let after = app.config.server.body_timeout;
    let read = async {
        let mut body = Limited::new(body, usize::try_from(limit).unwrap_or(usize::MAX));
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
                true => Error::BodyTooLarge { limit, setting },
                false => broke_off(),
            })?;
            if let Ok(data) = frame.into_data() {
                part.grow(data.len() as u64)?;
                bytes.extend_from_slice(&data);
            }
        }
        Ok(Text { bytes: bytes.freeze(), part, made: 0 })
    };
    timeout(after, read).await.unwrap_or(Err(Error::BodyTimeout { after }))
}

/// Reads a JSON object; no body means an empty one. What it holds of the budget comes with it.
/// Errors: those of [`read`] and [`Text::parse`], and `MediaType`.
pub(super) async fn json<T: DeserializeOwned>(app: &App, headers: &HeaderMap, body: Body) -> Result<(T, Text), Error> {
    json_within(app, headers, body, app.config.server.max_body.bytes(), "server.max_body").await
}

/// The same with a limit of its own; `setting` is its name.
/// Errors: those of [`json`].
pub(super) async fn json_within<T: DeserializeOwned>(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    limit: u64,
    setting: &'static str,
) -> Result<(T, Text), Error> {
    let mut text = json_text(app, headers, body, limit, setting).await?;
    Ok((text.parse()?, text))
}

/// Reads the text of a JSON object; no body means an empty one.
/// Errors: those of [`read`], and `MediaType`.
pub(super) async fn json_text(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    limit: u64,
    setting: &'static str,
) -> Result<Text, Error> {
    json_object(read(app, body, limit, setting).await?, headers)
}

/// Reads a JSON object of somebody who needs no key, or has not shown it yet; no body means an empty one.
/// Errors: those of [`json`], and `KeylessBodyMemory`.
pub(super) async fn keyless_json<T: DeserializeOwned>(
    app: &App,
    address: IpAddr,
    headers: &HeaderMap,
    body: Body,
) -> Result<(T, Text), Error> {
    let limit = app.config.server.max_keyless_body.bytes();
    let mut text = keyless_text(app, address, headers, body, limit, "server.max_keyless_body").await?;
    Ok((text.parse()?, text))
}

/// Reads the text of a JSON object whose sender's key is in it, from this address; no body means an empty one. It may be as long as
/// the share of an address, and as long as `limit`, whose setting is named.
/// Errors: those of [`json_text`], and `KeylessBodyMemory`.
pub(super) async fn keyless_text(
    app: &App,
    address: IpAddr,
    headers: &HeaderMap,
    body: Body,
    limit: u64,
    setting: &'static str,
) -> Result<Text, Error> {
    let share = app.config.server.keyless_body_share.bytes();
    let (limit, setting) = if share < limit { (share, KEYLESS_SHARE) } else { (limit, setting) };
    json_object(read_into(app.keyless_bodies.part(Holder::at(address)), app, body, limit, setting).await?, headers)
}

fn json_object(mut text: Text, headers: &HeaderMap) -> Result<Text, Error> {
    if text.is_empty() {
        text.bytes = Bytes::from_static(b"{}");
        return Ok(text);
    }
    if !media_type(headers).eq_ignore_ascii_case("application/json") {
        return Err(Error::MediaType);
    }
    Ok(text)
}

fn no_json(error: &serde_json::Error) -> Error {
    Error::InvalidBody { message: format!("the body is not valid JSON: {error}") }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use warmpool_config::ByteSize;

    use super::super::budget::{Budget, Purpose};
    use super::*;
    use warmpool_api::Object;
    use warmpool_core::error::Fault as _;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Outer {
        number: Option<u32>,
        engine: Option<warmpool_core::browser::Engine>,
        inner: Option<Object<Inner>>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[expect(dead_code, reason = "only its parsing matters")]
        width: u32,
    }

    fn parse(text: &str) -> Result<Outer, Error> {
        text_of(text, &Budget::new(Purpose::Bodies, ByteSize(1 << 20), ByteSize(1 << 20))).parse()
    }

    fn text_of(text: &str, budget: &Budget) -> Text {
        let mut part = budget.part(Holder::of_request());
        part.grow(text.len() as u64).unwrap();
        Text { bytes: Bytes::copy_from_slice(text.as_bytes()), part, made: 0 }
    }

    fn field_of(text: &str) -> String {
        let error = parse(text).unwrap_err();
        error.field().map_or_else(|| error.code().as_str().to_owned(), str::to_owned)
    }

    #[test]
    fn errors_name_the_field() {
        assert_eq!(field_of(r#"{"number": "x"}"#), "number");
        assert_eq!(field_of(r#"{"inner": {"width": -1}}"#), "inner.width");
        assert_eq!(field_of(r#"{"engine": 1}"#), "engine");
        assert_eq!(field_of(r#"{"engine": "opera"}"#), "engine");
        assert_eq!(field_of(r#"{"inner": [1]}"#), "inner");
        assert_eq!(field_of(r#"{"number": 1, "number": 1}"#), "number");
        assert_eq!(field_of(r#"{"wrong": 1}"#), "wrong");
        assert_eq!(field_of(r#"{"inner": {"width": 1, "wrong": 1}}"#), "inner.wrong");
    }

    #[test]
    fn who_waits_holds_no_more_than_what_was_made_of_the_body() {
        let budget = Budget::new(Purpose::Bodies, ByteSize(64 << 10), ByteSize(64 << 10));
        let long = format!(r#"{{"x": "{}"}}"#, "y".repeat(16 << 10));
        let mut text = text_of(&long, &budget);
        text.value().unwrap();
        let fits = |kibibytes: u64| budget.part(Holder::of_request()).grow(kibibytes << 10).is_ok();
        assert!(!fits(20), "the text and two copies");
        let kept = text.kept();
        assert!(fits(40) && !fits(60), "one of them");
        drop(kept);
        assert!(fits(64));
    }

    #[test]
    fn what_is_no_object_is_an_invalid_body() {
        for text in ["{", "[1]", "3", "{} x", r#""text""#] {
            assert_eq!(field_of(text), "invalid_body", "{text}");
        }
        assert!(parse("{}").unwrap().number.is_none());
        assert!(parse(r#"{"number": null, "inner": null}"#).unwrap().inner.is_none());
    }
}
