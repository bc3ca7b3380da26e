//! Who sent a request, and what the log says of its body, whatever else is wrong with it.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;

use super::request::Counts;
use crate::Error;
use warmpool_api::world::Environment;

/// What a body says of its sender and its content, as far as it can be read.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Sender {
    /// The integration key.
    pub(crate) secret: Option<String>,
    pub(crate) environment: Option<Environment>,
    /// How many of each are attached.
    pub(crate) counts: Counts,
}

impl Sender {
    /// Reads a body up to its end, or to what is wrong with its syntax. A member of a wrong type counts as left out, and hides none
    /// of the others. What is read of pictures is counted and not kept, so that a body full of them is in memory but once.
    /// Errors: `InvalidBody`, beside what stood before the fault.
    pub(crate) fn read(body: &[u8]) -> (Self, Result<(), Error>) {
        let mut sender = Self::default();
        let mut json = serde_json::Deserializer::from_slice(body);
        let read = json.deserialize_map(&mut sender).and_then(|()| json.end());
        (sender, read.map_err(|error| refused(&error)))
    }
}

/// The members of a body that say something here.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Member {
    ApiKey,
    EnvironmentType,
    Images,
    Videos,
    Belongings,
    #[serde(other)]
    Other,
}

impl<'de> Visitor<'de> for &mut Sender {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((member, value)) = map.next_entry::<Member, &'de RawValue>()? {
            match member {
                Member::ApiKey => self.secret = text(value),
                Member::EnvironmentType => self.environment = text(value).as_deref().and_then(Environment::named),
                Member::Images => self.counts.images = length(value),
                Member::Videos => self.counts.videos = length(value),
                Member::Belongings => self.counts.belongings = length(value),
                Member::Other => {}
            }
        }
        Ok(())
    }
}

/// A value that is a text.
fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// How many elements a value has, if it is a list.
fn length(value: &RawValue) -> usize {
    // A list of what has no size takes no memory.
    serde_json::from_str::<Vec<IgnoredAny>>(value.get()).map_or(0, |elements| elements.len())
}

/// What is wrong with a body that is no JSON object. It repeats nothing of the body, which may be large.
fn refused(error: &serde_json::Error) -> Error {
    let message = match error.is_data() {
        true => "the body must be a JSON object".to_owned(),
        false => format!("the body is not valid JSON: {error}"),
    };
    Error::InvalidBody { message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_core::error::{Code, Fault as _};

    const COUNTS: Counts = Counts { images: 2, videos: 1, belongings: 3 };

    fn sender(environment: Option<Environment>, counts: Counts) -> Sender {
        Sender { secret: Some("k".to_owned()), environment, counts }
    }

    #[test]
    fn a_member_of_a_wrong_type_hides_no_other() {
        let lists = r#""images": [{"data": "]"}, 7], "videos": [[]], "belongings": [null, "a", {"label": "b"}]"#;
        let garden = Environment::named("garden");
        for (environment, read) in [
            (r#""garden""#, garden),
            (r#""beach""#, None),
            ("5", None),
            ("null", None),
            (r#"["garden"]"#, None),
            (r#"{"garden": 1}"#, None),
        ] {
            let body = format!(r#"{{"environment_type": {environment}, "wrong": [1], {lists}, "api_key": "k"}}"#);
            let (found, outcome) = Sender::read(body.as_bytes());
            assert_eq!(found, sender(read, COUNTS), "{body}");
            outcome.unwrap();
        }
        let (found, outcome) = Sender::read(br#"{"api_key": 5, "images": "many", "videos": {}, "belongings": null}"#);
        assert_eq!(found, Sender::default());
        outcome.unwrap();
    }

    #[test]
    fn what_stands_before_a_wrong_comma_is_known() {
        let counts = Counts { images: 1, ..Counts::default() };
        for rest in [",}", "", ", 7}", r#", "videos": [1,]}"#, "} x"] {
            let body = format!(r#"{{"api_key": "k", "images": [1]{rest}"#);
            let (found, outcome) = Sender::read(body.as_bytes());
            assert_eq!(found, sender(None, counts), "{body}");
            let error = outcome.unwrap_err();
            assert_eq!(error.code(), Code::InvalidBody, "{body}");
            assert!(error.to_string().contains("is not valid JSON"), "{error}");
        }
    }

    #[test]
    fn what_is_no_object_is_an_invalid_body() {
        let long = format!("\"{}\"", "x".repeat(1 << 20));
        for body in ["[\"k\", \"garden\"]", "3", "null", &long] {
            let (found, outcome) = Sender::read(body.as_bytes());
            assert_eq!(found, Sender::default());
            assert_eq!(outcome.unwrap_err().to_string(), "the body must be a JSON object");
        }
        let (_, outcome) = Sender::read(b"");
        assert_eq!(outcome.unwrap_err().code(), Code::InvalidBody);
    }
}
