//! Templates for the fuzzer: without values a text stays what it is, and what was filled in as a secret is hidden again.

use serde_json::{Map, Value, json};

use super::{FillError, Piece, Redactor, Templates, Values, fill, pieces, with_inputs};

/// Texts with templates. The first byte of an input is the length of the secret, which comes next.
pub fn seeds() -> Vec<Vec<u8>> {
    ["\u{3}a+b{{input.q}} {{secret.pw}}", "\u{5}x y/zx{{ inputs.a.b }}{{{{secret.pw}}}}", "\u{1}a{{other}}{{secret.pw"]
        .map(|text| text.as_bytes().to_vec())
        .into()
}

/// Panics when a text loses something, or shows a secret.
pub fn check(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first() else { return };
    let Some((secret, text)) = rest.split_at_checked(usize::from(*length)) else { return };
    let (Ok(secret), Ok(text)) = (std::str::from_utf8(secret), std::str::from_utf8(text)) else { return };
    let plain: usize = pieces(text).map(|piece| if let Piece::Text(text) = piece { text.len() } else { 0 }).sum();
    assert!(plain <= text.len());
    let secrets = Map::from_iter([("pw".to_owned(), json!(secret))]);
    let inputs = Map::from_iter([("q".to_owned(), json!(1)), ("a".to_owned(), json!({"b": "c"}))]);
    let values = Values { inputs, secrets };
    let value = json!([text, {"x": text}]);
    let filled = fill(&value, &values);
    let fits = Templates::of(&value).fits(&values, u64::MAX);
    assert_eq!(filled.is_ok(), fits.is_ok());
    assert!(!matches!(fits, Err(FillError::TooLong(_))));
    if let Ok(Value::Array(filled)) = &filled {
        let length = 2 * filled.first().and_then(Value::as_str).unwrap_or_default().len() as u64;
        assert_eq!(Templates::of(&value).fits(&values, length), Ok(()));
    }
    assert!(with_inputs(text, &values.inputs, 64).len() <= 64 + text.len());
    let Ok(Value::Array(filled)) = filled else { return };
    let redactor = Redactor::new(&values);
    let shown = redactor.text(filled.first().and_then(Value::as_str).unwrap_or_default());
    // A secret of blanks, or one that is within the word for it, cannot be hidden.
    if !secret.trim().is_empty() && !may_show(secret) {
        assert!(!shown.contains(secret), "{shown:?} shows {secret:?}");
    }
}

/// Whether the word that stands for a secret may make this one, together with what is around it.
fn may_show(secret: &str) -> bool {
    super::redactor::HIDDEN.contains(secret) || secret.contains(['[', ']'])
}
