//! Reading parts of a body, so that what is wrong with them is said by path.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, plain};

/// Reads the object at path `at`.
///
/// # Errors
/// `InvalidField` and `UnknownField`, by the path of what is wrong.
pub(crate) fn read<T: DeserializeOwned>(at: &str, value: &Value) -> Result<T, Error> {
    // serde would read a struct from a list too.
    if !value.is_object() {
        return Err(wrong(at, "must be an object"));
    }
    serde_path_to_error::deserialize(value).map_err(|error| {
        let inner = error.path().to_string();
        let inner = if inner == "." { String::new() } else { inner };
        let cause = error.into_inner().to_string();
        if let Some(rest) = cause.strip_prefix("unknown field `") {
            let (name, rest) = rest.split_once('`').unwrap_or((rest, ""));
            let inner = if inner.is_empty() || inner == name || inner.ends_with(&format!(".{name}")) {
                if inner.is_empty() { name.to_owned() } else { inner }
            } else {
                format!("{inner}.{name}")
            };
            let field = join(at, &inner);
            return Error::UnknownField { field, message: rest.trim_start_matches([',', ' ']).to_owned() };
        }
        let field = join(at, &inner);
        Error::field(&field, format!("`{field}` {}", plain(&cause)))
    })
}

/// The path of the member `name` of the object at `at`.
pub(crate) fn join(at: &str, name: &str) -> String {
    match (at.is_empty(), name.is_empty()) {
        (true, _) => name.to_owned(),
        (_, true) => at.to_owned(),
        _ if name.starts_with('[') => format!("{at}{name}"),
        _ => format!("{at}.{name}"),
    }
}

/// A wrong value at `field`; the message goes on after the field's name.
pub(crate) fn wrong(field: &str, message: &str) -> Error {
    Error::field(field, format!("`{field}` {message}"))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

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
            assert_eq!(read::<Outer>("steps[3]", &value).unwrap_err().named_field(), Some(field), "{value}");
        }
        assert_eq!(read::<Outer>("", &json!({"wrong": 1})).unwrap_err().named_field(), Some("wrong"));
    }
}
