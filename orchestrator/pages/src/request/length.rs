//! Lengths on paper, as Puppeteer's options have them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

/// Pixels of CSS to an inch.
pub(crate) const PIXELS: f64 = 96.0;
/// Millimetres to an inch.
pub(crate) const MILLIMETRES: f64 = 25.4;
/// The longest side of a sheet, in inches.
pub(crate) const LONGEST: f64 = 200.0;

/// A length, in inches: a number of pixels, or a text such as `21cm`, with `px`, `in`, `cm` or `mm`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Length(pub(crate) f64);

impl Length {
    /// Reads a text.
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let (number, unit) = match text.len().checked_sub(2).and_then(|at| text.split_at_checked(at)) {
            Some((number, "px")) => (number, PIXELS),
            Some((number, "in")) => (number, 1.0),
            Some((number, "cm")) => (number, MILLIMETRES / 10.0),
            Some((number, "mm")) => (number, MILLIMETRES),
            _ => (text, PIXELS),
        };
        number.trim().parse::<f64>().ok().and_then(|number| Self::checked(number / unit))
    }

    fn checked(inches: f64) -> Option<Self> {
        (0.0..=LONGEST).contains(&inches).then_some(Self(inches))
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Length;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(
                    "a length of at most 200in: a number of pixels, or a text such as 21cm, in px, in, cm or mm",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Length, E> {
                Length::read(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Length, E> {
                Length::checked(number / PIXELS).ok_or_else(|| E::invalid_value(de::Unexpected::Float(number), &self))
            }

            #[expect(clippy::cast_precision_loss, reason = "no sheet is that large")]
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Length, E> {
                self.visit_f64(number as f64)
            }

            #[expect(clippy::cast_precision_loss, reason = "no sheet is that large")]
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Length, E> {
                self.visit_f64(number as f64)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Length {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Length".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn units_are_those_of_css() {
        for (given, inches) in [
            (json!(96), 1.0),
            (json!("48px"), 0.5),
            (json!("2.54cm"), 1.0),
            (json!("25.4 mm"), 1.0),
            (json!("3in"), 3.0),
            (json!("96"), 1.0),
        ] {
            let length: Length = serde_json::from_value(given.clone()).unwrap();
            assert!((length.0 - inches).abs() < 1e-9, "{given}");
        }
        for wrong in
            [json!("wide"), json!(-1), json!("1em"), json!("NaNpx"), json!("1e9in"), json!("ä"), json!([]), json!("")]
        {
            assert!(serde_json::from_value::<Length>(wrong.clone()).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_length_within_bounds_or_none(text in ".{0,12}") {
            if let Some(Length(inches)) = Length::read(&text) {
                prop_assert!((0.0..=LONGEST).contains(&inches));
            }
        }
    }
}
