//! How much memory JSON takes as a tree: a few bytes of text can take hundreds there.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A value in an array that grows by doubling, in bytes.
const VALUE: u64 = 64;
/// An object that is not empty: its map makes room for eleven members at a time.
const OBJECT: u64 = 640;
/// A member of a large object, beside its name and its value's own.
const MEMBER: u64 = 110;
/// What an allocation takes beside its content.
const ALLOCATION: u64 = 16;

/// How many times as many bytes as its text may have JSON may take in memory.
const MOST: u64 = 4;

/// The name of a member whose value serde_json takes for JSON in a text, and reads into the tree. Nobody but an attacker sends
/// it, so it counts as larger than anything may be.
const TEXT_OF_JSON: &str = "$serde_json::private::RawValue";

/// What a JSON text holds, and how much memory its tree takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonSize {
    /// Whether it is an object.
    pub is_object: bool,
    /// The most bytes that its tree takes.
    pub bytes: u64,
}

/// Why a text has no size.
#[derive(Debug, thiserror::Error)]
pub enum SizeError {
    /// It is no JSON.
    #[error(transparent)]
    NotJson(serde_json::Error),
    /// Its tree would take too much. The rest of the text is unread.
    #[error("the JSON is too large")]
    TooLarge,
}

/// Measures a JSON text without building its tree, up to `most` bytes. It fails where building one would.
/// Errors: `NotJson`, `TooLarge`.
pub fn measure(text: &[u8], most: u64) -> Result<JsonSize, SizeError> {
    let mut sum = Total { bytes: 0, most };
    let mut reader = serde_json::Deserializer::from_slice(text);
    let read = Measure(&mut sum).deserialize(&mut reader);
    match read.and_then(|is_object| reader.end().map(|()| is_object)) {
        Ok(is_object) => Ok(JsonSize { is_object, bytes: sum.bytes }),
        Err(_) if sum.bytes > most => Err(SizeError::TooLarge),
        Err(error) => Err(SizeError::NotJson(error)),
    }
}

/// Whether JSON that others chose may be read as [`Value`](serde_json::Value), where its text may have `limit` bytes: values that
/// are short as text take a hundred times as much. What is no JSON may: reading it fails.
#[must_use]
pub fn may_be_read(json: &[u8], limit: usize) -> bool {
    !matches!(measure(json, MOST.saturating_mul(limit as u64)), Err(SizeError::TooLarge))
}

struct Total {
    bytes: u64,
    most: u64,
}

impl Total {
    fn add<E: Error>(&mut self, bytes: u64) -> Result<(), E> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.most { Err(E::custom("too large")) } else { Ok(()) }
    }
}

/// Adds to the sum; returns whether the value is an object.
struct Measure<'a>(&'a mut Total);

impl<'de> DeserializeSeed<'de> for Measure<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Measure<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        let bytes = if text == TEXT_OF_JSON { u64::MAX } else { ALLOCATION + text.len() as u64 };
        self.0.add(bytes).map(|()| false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        self.0.add(ALLOCATION)?;
        let mut is_empty = true;
        while items.next_element_seed(Measure(&mut *self.0))?.is_some() {
            // An array begins with room for four.
            self.0.add(if is_empty { 4 * VALUE } else { VALUE })?;
            is_empty = false;
        }
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<bool, A::Error> {
        let mut is_empty = true;
        while members.next_key_seed(Measure(&mut *self.0))?.is_some() {
            self.0.add(if is_empty { OBJECT + MEMBER } else { MEMBER })?;
            is_empty = false;
            members.next_value_seed(Measure(&mut *self.0))?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn size(text: &str) -> u64 {
        measure(text.as_bytes(), u64::MAX).unwrap().bytes
    }

    #[test]
    fn small_texts_that_make_large_trees_weigh_much() {
        let many = |item: &str| format!("[{}]", vec![item; 10_000].join(","));
        assert!(size(&many("0")) >= 10_000 * 32);
        assert!(size(&many(r#"{"":0}"#)) >= 10_000 * 632);
        assert!(size(&many("[0]")) >= 10_000 * (32 + 128));
        // And what is long text weighs about as much as it is long.
        let long = format!("\"{}\"", "x".repeat(1 << 20));
        assert!(((1 << 20)..(1 << 20) + 64).contains(&size(&long)));
    }

    #[test]
    fn what_is_no_json_weighs_nothing() {
        for text in ["", "{", "[1,]", "{} x", "\"\\u12\"", "nul", "{\"a\" 1}"] {
            assert!(matches!(measure(text.as_bytes(), u64::MAX), Err(SizeError::NotJson(_))), "{text}");
        }
        assert!(measure("[".repeat(100_000).as_bytes(), u64::MAX).is_err());
        assert!(measure(b"{\"a\": [null, 1.5, -3, true, {}]}", u64::MAX).unwrap().is_object);
        assert!(!measure(b"[{}]", u64::MAX).unwrap().is_object);
    }

    #[test]
    fn weighing_ends_where_it_is_too_much() {
        let text = r#"[{"":0},{"":0}, and this is not even looked at"#;
        assert!(matches!(measure(text.as_bytes(), 1000), Err(SizeError::TooLarge)));
        assert!(matches!(measure(text.as_bytes(), u64::MAX), Err(SizeError::NotJson(_))));
        let whole = size(r#"{"a":["b",{"c":[]}]}"#);
        assert!(measure(br#"{"a":["b",{"c":[]}]}"#, whole).is_ok());
        assert!(matches!(measure(br#"{"a":["b",{"c":[]}]}"#, whole - 1), Err(SizeError::TooLarge)));
    }

    #[test]
    fn what_may_be_read_takes_a_few_times_its_text_at_most() {
        let may = |json: &str, limit| may_be_read(json.as_bytes(), limit);
        let many = |item: &str| format!("[{}]", vec![item; 1000].join(","));
        let object = r#"{"a":"{{{,,,[[[\"{,"}"#;
        assert_eq!(size(object), OBJECT + MEMBER + 2 * ALLOCATION + 13, "what stands in a text is text");
        let ten = format!("[{}]", [object; 10].join(","));
        assert!(may(&ten, 4000) && !may(&ten, 2000));
        assert!(!may(&many(r#"{"":0}"#), 175_000) && may(&many(r#"{"":0}"#), 250_000));
        assert!(!may(&many("[]"), 18_000) && may(&many("[]"), 25_000));
        let long = json!("x".repeat(1 << 20)).to_string();
        assert!(may(&long, long.len()) && may(&long, long.len() / 3) && !may(&long, long.len() / 5));
        assert!(may(&"x".repeat(1 << 20), 1) && may("[1,]", 1000), "reading it fails");
    }

    #[test]
    fn json_in_a_text_that_would_be_read_with_the_rest_is_too_large() {
        let hidden = r#"[{"$serde_json::private::RawValue":"[[],[]]"}]"#;
        assert_eq!(serde_json::from_str::<Value>(hidden).unwrap(), json!([[[], []]]), "serde_json reads it");
        assert!(matches!(measure(hidden.as_bytes(), 1 << 30), Err(SizeError::TooLarge)));
        assert!(!may_be_read(hidden.as_bytes(), 1 << 30));
    }

    proptest! {
        #[test]
        fn a_text_has_a_size_where_it_can_be_read(
            bytes in prop::collection::vec(prop::sample::select(b"{}[]:,\"\\ \xffu0d8e-.1a".to_vec()), 0..40),
        ) {
            let read = serde_json::from_slice::<Value>(&bytes).ok();
            let measured = measure(&bytes, u64::MAX).ok();
            prop_assert_eq!(measured.map(|size| size.is_object), read.map(|value| value.is_object()));
        }
    }
}
