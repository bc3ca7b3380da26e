//! JSON of browsers whose strings may not be Unicode.
//!
//! A string of JavaScript may have half a pair of surrogates in it, as a name that a page gives or as a text that was cut. Browsers
//! write such a half as an escape of its own, such as `\ud83d`, which readers of JSON refuse together with all of the message.

use std::borrow::Cow;

use memchr::memmem;

/// The length of an escape such as `\ud83d`.
const ESCAPE: usize = 6;
/// What stands for half a pair: the character U+FFFD.
const REPLACEMENT: &str = "\\ufffd";

/// The same JSON with U+FFFD in the place of each half of a pair that stands alone.
#[must_use]
pub fn with_whole_characters(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    // Nearly all messages have none.
    let Some(first) = [r"\ud", r"\uD"].iter().filter_map(|begin| memmem::find(bytes, begin.as_bytes())).min() else {
        return Cow::Borrowed(json);
    };
    let begin = first_of_backslashes(bytes, first);
    let mut whole = String::with_capacity(json.len());
    let (mut at, mut copied) = (begin, 0);
    while let Some(next) = memchr::memchr(b'\\', &bytes[at..]).map(|found| at + found) {
        let length = match (half(&bytes[next..]), half(bytes.get(next + ESCAPE..).unwrap_or_default())) {
            (None, _) => 2,
            (Some(Half::First), Some(Half::Second)) => 2 * ESCAPE,
            (Some(_), _) => {
                whole.push_str(&json[copied..next]);
                whole.push_str(REPLACEMENT);
                copied = next + ESCAPE;
                ESCAPE
            }
        };
        at = (next + length).min(bytes.len());
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    whole.push_str(&json[copied..]);
    Cow::Owned(whole)
}

enum Half {
    First,
    Second,
}

/// The half of a pair whose escape stands here.
fn half(text: &[u8]) -> Option<Half> {
    let [b'\\', b'u', b'd' | b'D', third, rest @ ..] = text else { return None };
    let is_whole = rest.iter().take(2).filter(|digit| digit.is_ascii_hexdigit()).count() == 2;
    match third.to_ascii_lowercase() {
        b'8'..=b'9' | b'a'..=b'b' if is_whole => Some(Half::First),
        b'c'..=b'f' if is_whole => Some(Half::Second),
        _ => None,
    }
}

/// Where the backslashes begin that stand before this one: two of them are a backslash, and begin no escape.
fn first_of_backslashes(json: &[u8], last: usize) -> usize {
    json[..last].iter().rposition(|byte| *byte != b'\\').map_or(0, |before| before + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn halves_that_stand_alone_are_replaced() {
        for (json, whole) in [
            (r#""\ud800""#, "\u{fffd}"),
            (r#""a\uDC00b""#, "a\u{fffd}b"),
            (r#""\ud83d\ude00""#, "\u{1f600}"),
            (r#""\ud83d\ud83d\ude00\ude00""#, "\u{fffd}\u{1f600}\u{fffd}"),
            (r#""\\ud800 \\\ud800""#, "\\ud800 \\\u{fffd}"),
            (r#""\ud83d\n""#, "\u{fffd}\n"),
            (r#""\ud83d\\ude00""#, "\u{fffd}\\ude00"),
            (r#""\ud7ff\ue000\"""#, "\u{d7ff}\u{e000}\""),
        ] {
            assert_eq!(serde_json::from_str::<Value>(&with_whole_characters(json)).unwrap(), whole, "{json}");
        }
        for json in
            [r#"{"a":"plain é \n"}"#, r#""\ud83d\ude00""#, r#""\\ud800""#, "", "\\", r"\ud8", r"\ud80\", r"\ud8é0"]
        {
            assert!(matches!(with_whole_characters(json), Cow::Borrowed(same) if same == json), "{json}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_can_be_read(units in prop::collection::vec(prop_oneof![0xd7f0..0xe010_u16, 0x20..0x80_u16], 0..40)) {
            let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let read: Value = serde_json::from_str(&with_whole_characters(&format!("\"{escaped}\""))).unwrap();
            prop_assert_eq!(read.as_str().unwrap(), String::from_utf16_lossy(&units));
        }
    }
}
