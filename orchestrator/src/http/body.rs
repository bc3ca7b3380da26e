//! Reading JSON bodies, so that what is wrong with them is said by field.

use std::fmt;
use std::marker::PhantomData;

use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::error::{Error, plain};

/// Reads a body of at most `limit` bytes; `setting` is the limit's name.
pub(super) async fn read(body: Body, limit: u64, setting: &'static str) -> Result<Bytes, Error> {
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    match Limited::new(body, most).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Error::BodyTooLarge { limit, setting }),
        Err(_) => Err(Error::InvalidBody { message: "the body broke off".to_owned() }),
    }
}

/// Reads a JSON object; no body means an empty one.
pub(super) async fn json<T: DeserializeOwned>(headers: &HeaderMap, body: Body, limit: u64) -> Result<T, Error> {
    parse(&json_text(headers, body, limit, "server.max_body").await?)
}

/// Reads the text of a JSON object; no body means an empty one.
pub(super) async fn json_text(
    headers: &HeaderMap,
    body: Body,
    limit: u64,
    setting: &'static str,
) -> Result<Bytes, Error> {
    let bytes = read(body, limit, setting).await?;
    if bytes.is_empty() {
        return Ok(Bytes::from_static(b"{}"));
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(Error::MediaType);
    }
    Ok(bytes)
}

/// The members of an object, each as it came; none of them twice.
#[derive(Debug)]
pub(super) struct Members(pub(super) Map<String, Value>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once;

        impl<'de> Visitor<'de> for Once {
            type Value = Map<String, Value>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Map::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if members.contains_key(&name) {
                        return Err(serde::de::Error::custom(format!("duplicate field `{name}`")));
                    }
                    members.insert(name, value);
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(Once).map(Self)
    }
}

/// Parses JSON; an error names the field by its path.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    // In two steps, so that what is no JSON and what is JSON of a wrong shape are told apart for certain.
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| Error::InvalidBody { message: format!("the body is not valid JSON: {error}") })?;
    if !value.is_object() {
        return Err(Error::InvalidBody { message: "the body must be a JSON object".to_owned() });
    }
    // From the text again: `value` has forgotten a field that was given twice.
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(bytes)).map_err(|error| {
        let path = error.path().to_string();
        let cause = error.into_inner();
        if cause.is_syntax() {
            return Error::field(&path, format!("`{path}` is of a wrong type"));
        }
        describe(&path, cause.to_string().split(" at line ").next().unwrap_or_default())
    })
}

/// serde says `unknown field `x`, expected …` and `duplicate field `x`` at the parent's path, and everything else at
/// the field's own.
fn describe(path: &str, cause: &str) -> Error {
    if let Some(name) = cause.strip_prefix("duplicate field `").and_then(|rest| rest.strip_suffix('`')) {
        let field = if path == "." { name.to_owned() } else { format!("{path}.{name}") };
        return Error::field(&field, format!("`{field}` is given twice: send one value"));
    }
    if let Some(rest) = cause.strip_prefix("unknown field `") {
        let (name, rest) = rest.split_once('`').unwrap_or((rest, ""));
        // Some versions report the field's own path, some its parent's.
        let field = match path {
            "." => name.to_owned(),
            path if path == name || path.ends_with(&format!(".{name}")) => path.to_owned(),
            path => format!("{path}.{name}"),
        };
        return Error::UnknownField { field, message: rest.trim_start_matches([',', ' ']).to_owned() };
    }
    // A struct's own fault, such as a missing field, is reported at the struct.
    Error::field(path, format!("`{path}` {}", plain(cause)))
}

/// An object and nothing else: serde would read a struct from an array too.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapOnly<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for MapOnly<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_map(MapOnly(PhantomData)).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Outer {
        number: Option<u32>,
        engine: Option<crate::engine::Engine>,
        inner: Option<Object<Inner>>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[expect(dead_code, reason = "only its parsing matters")]
        width: u32,
    }

    fn field_of(text: &str) -> String {
        let error = parse::<Outer>(text.as_bytes()).unwrap_err();
        error.named_field().map_or_else(|| error.code().to_owned(), str::to_owned)
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
    fn what_is_no_object_is_an_invalid_body() {
        for text in ["{", "[1]", "3", "{} x", r#""text""#] {
            assert_eq!(field_of(text), "invalid_body", "{text}");
        }
        assert!(parse::<Outer>(b"{}").unwrap().number.is_none());
        assert!(parse::<Outer>(br#"{"number": null, "inner": null}"#).unwrap().inner.is_none());
    }
}
