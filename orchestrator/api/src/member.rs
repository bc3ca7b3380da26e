//! Members of bodies that may be null.

use serde::{Deserialize, Deserializer};

/// Reads null as what the member is where it is left out, for a member that has a type of its own then: `deserialize_with` names it.
/// Errors: those of the value.
pub fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(value: D) -> Result<T, D::Error> {
    Option::deserialize(value).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    struct Body {
        #[serde(default, deserialize_with = "null_is_default")]
        count: u64,
    }

    #[test]
    fn null_is_what_is_left_out() {
        for (body, count) in [(json!({}), 0), (json!({"count": null}), 0), (json!({"count": 2}), 2)] {
            assert_eq!(serde_json::from_value::<Body>(body).unwrap(), Body { count });
        }
        assert!(serde_json::from_value::<Body>(json!({"count": "2"})).is_err());
    }
}
