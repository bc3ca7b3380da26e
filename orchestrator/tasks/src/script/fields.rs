//! Reads parts of a body, with errors that name the path.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;
pub(super) use warmpool_core::error::join;
use warmpool_core::error::{FieldFault as _, read_json};

/// Reads the object at path `at`.
/// Errors: `Field`, with the path of the wrong value.
pub(super) fn read<T: DeserializeOwned>(at: &str, value: &Value) -> Result<T, Error> {
    // serde would read a struct from a list too.
    if !value.is_object() {
        return Err(wrong(at, "must be an object"));
    }
    read_json(value).map_err(|error| error.within(at).into())
}

/// A wrong value at `field`; the message goes on after the field's name.
pub(super) fn wrong(field: &str, message: &str) -> Error {
    Error::invalid(field, message)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;
    use warmpool_core::error::Fault as _;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[expect(dead_code, reason = "only its reading matters")]
        inner: Inner,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[expect(dead_code, reason = "only its reading matters")]
        width: u32,
    }

    #[test]
    fn errors_name_the_member_by_its_path() {
        for (value, field) in [
            (json!([]), "steps[3]"),
            (json!({}), "steps[3]"),
            (json!({"inner": {"width": "x"}}), "steps[3].inner.width"),
            (json!({"inner": {"width": 1, "wrong": 1}}), "steps[3].inner.wrong"),
            (json!({"inner": {"width": 1}, "wrong": 1}), "steps[3].wrong"),
        ] {
            assert_eq!(read::<Outer>("steps[3]", &value).unwrap_err().field(), Some(field), "{value}");
        }
        assert_eq!(read::<Outer>("", &json!({"wrong": 1})).unwrap_err().field(), Some("wrong"));
    }
}
