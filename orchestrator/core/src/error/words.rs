//! What serde complains of, in the words of somebody who writes JSON.

/// The longest name that may be meant for another, in bytes. Comparing takes time with the length of both.
const LONGEST_COMPARED: usize = 500;

/// The known name closest to `name`, if any is close enough to be meant.
pub fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known = Some(known).filter(|_| name.len() <= LONGEST_COMPARED);
    known
        .into_iter()
        .flatten()
        .map(|candidate| (strsim::normalized_damerau_levenshtein(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

/// What is wrong with a value, to be read after its field's name.
pub(super) fn plain(cause: &str) -> String {
    let mismatch = cause.strip_prefix("invalid type: ").or_else(|| cause.strip_prefix("invalid value: "));
    if let Some((found, expected)) = mismatch.and_then(|rest| rest.rsplit_once(", expected ")) {
        return format!("must be {}, and is {}", json(expected), json(found));
    }
    let unknown = cause.strip_prefix("unknown variant `").and_then(|rest| rest.split_once("`, expected "));
    if let Some((found, expected)) = unknown {
        return format!("must be {expected}, and is `{found}`");
    }
    match cause.strip_prefix("missing field ") {
        Some(field) => format!("needs {field}"),
        None => format!("cannot be read: {cause}"),
    }
}

/// JSON's name for a type or a value of Rust.
fn json(rust: &str) -> String {
    match rust {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of at least 0".to_owned(),
        "i8" | "i16" | "i32" | "i64" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "map" | "a map" => "an object".to_owned(),
        "sequence" | "a sequence" => "a list".to_owned(),
        _ if rust.starts_with("struct ") => "an object".to_owned(),
        _ => match rust.split_once(' ') {
            Some(("integer" | "floating" | "boolean" | "string", _)) => format!("the {rust}"),
            _ => rust.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Shape {
        #[expect(dead_code, reason = "only its reading matters")]
        sides: u8,
    }

    fn said<T: DeserializeOwned + std::fmt::Debug>(value: Value) -> String {
        plain(&serde_json::from_value::<T>(value).unwrap_err().to_string())
    }

    #[test]
    fn a_name_that_nobody_can_have_meant_is_compared_with_none() {
        assert_eq!(closest("headles", ["headed", "headless"]), Some("headless"));
        let long = "headless".repeat(1000);
        assert_eq!(closest(&long, [long.as_str()]), None);
    }

    #[test]
    fn complaints_speak_of_json() {
        assert_eq!(said::<u64>(json!("ten")), "must be a whole number of at least 0, and is the string \"ten\"");
        assert_eq!(said::<u64>(json!(-1)), "must be a whole number of at least 0, and is the integer `-1`");
        assert_eq!(said::<f64>(json!(null)), "must be a number, and is null");
        assert_eq!(said::<BTreeMap<String, u8>>(json!([])), "must be an object, and is a list");
        assert_eq!(said::<Vec<u8>>(json!({})), "must be a list, and is an object");
        assert_eq!(said::<String>(json!(true)), "must be a string, and is the boolean `true`");
        let engines = "must be one of `chromium`, `firefox`, `webkit`, and is `opera`";
        assert_eq!(said::<crate::browser::Engine>(json!("opera")), engines);
        assert_eq!(said::<Shape>(json!({})), "needs `sides`");
        assert_eq!(plain("no such day"), "cannot be read: no such day");
    }
}
