//! Texts of a worker: of its agent, its browser and its pages. Whoever takes one in cuts it, so that nobody who has taken a worker over
//! fills a record, an event or the log.

use serde::{Deserialize, Deserializer};

/// The most that is kept of such a text, in bytes.
pub const MAX_KEPT: usize = 2000;

/// The beginning of a text, of so many bytes at most, with an ellipsis where there was more.
#[must_use]
pub fn shortened(text: impl Into<String>, most: usize) -> String {
    let mut text = text.into();
    if text.len() > most {
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
        // It may be kept for long.
        text.shrink_to_fit();
    }
    text
}

/// Reads what is kept of a text, for `deserialize_with`.
/// Errors: the value is no text.
pub fn read<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    String::deserialize(from).map(|text| shortened(text, MAX_KEPT))
}

/// Reads what is kept of a text that may be absent, for `deserialize_with`.
/// Errors: the value is neither a text nor null.
pub fn read_optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.map(|text| shortened(text, MAX_KEPT)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_beginning_of_a_text_is_kept() {
        for (text, kept) in [("", ""), ("abcd", "abcd"), ("abcde", "abcd…"), ("abcé", "abc…"), ("€€", "€…")]
        {
            assert_eq!(shortened(text, 4), kept);
        }
        let long = shortened("x".repeat(1 << 20), MAX_KEPT);
        assert!(long.capacity() < 2 * MAX_KEPT, "the rest takes no memory");
        assert_eq!(shortened(long.as_str(), MAX_KEPT), long, "cut again, it is the same");
    }

    #[test]
    fn a_text_is_cut_as_it_is_read() {
        let long = json!("x".repeat(MAX_KEPT + 1));
        let kept = format!("{}…", "x".repeat(MAX_KEPT));
        assert_eq!(read(&long).unwrap(), kept);
        assert_eq!(read_optional(&long).unwrap(), Some(kept));
        assert_eq!(read_optional(&json!(null)).unwrap(), None);
        assert!(read(&json!(1)).is_err() && read_optional(&json!(1)).is_err());
    }
}
