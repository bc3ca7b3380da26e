//! How a browser looks to the pages it opens: its languages, its user agent, the size of its pages; and what of these
//! can be true at all.

use icu_locale_core::Locale;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::engine::PresetId;
use crate::error::FieldError;

/// The longest user agent, in bytes.
pub(crate) const MAX_USER_AGENT: usize = 1024;
/// The most locales.
pub(crate) const MAX_LOCALES: usize = 16;
/// The longest locale tag, in bytes.
const MAX_TAG: usize = 35;
/// The longest side of a viewport, in CSS pixels: what a worker's display and its browser can paint.
pub(crate) const MAX_SIDE: u32 = 8192;

/// A size in CSS pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Viewport {
    /// Width.
    pub width: u32,
    /// Height.
    pub height: u32,
}

/// What differs from the browser's own look.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Look {
    /// Locale tags, the preferred one first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locales: Option<Vec<String>>,
    /// The user agent that pages see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// The size of a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub viewport: Option<Viewport>,
}

impl Look {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The short name of this look in labels: the same in every process that knows the same settings.
    #[must_use]
    pub fn id(&self) -> PresetId {
        // Derived serialisation into memory cannot fail; an empty text would only make two looks share a name.
        let text = serde_json::to_vec(self).unwrap_or_default();
        let digest = Sha256::digest(text);
        PresetId::new(u64::from_be_bytes(std::array::from_fn(|at| digest[at])))
    }
}

/// Checks locale tags and gives them in their canonical form: `de-de` becomes `de-DE`.
///
/// # Errors
/// Names the first wrong tag by its index.
pub(crate) fn locales(tags: &[String]) -> Result<Vec<String>, FieldError> {
    if tags.is_empty() || tags.len() > MAX_LOCALES {
        return Err(FieldError::invalid("", format!("must hold 1 to {MAX_LOCALES} tags")));
    }
    let wrong = |at, tag: &str| {
        let problem = format!("must be a locale tag such as en-US, zh-Hant-TW or es-419, and is {tag:?}");
        FieldError::invalid(format!("[{at}]"), problem)
    };
    tags.iter().enumerate().map(|(at, tag)| locale(tag).ok_or_else(|| wrong(at, tag))).collect()
}

fn locale(tag: &str) -> Option<String> {
    // The parser takes underscores for hyphens, which no header does.
    let written = tag.len() <= MAX_TAG && !tag.contains('_');
    let parsed = written.then(|| Locale::try_from_str(tag).ok()).flatten()?;
    let named = !parsed.id.language.is_unknown() && parsed.extensions.is_empty();
    named.then(|| parsed.to_string())
}

/// Checks a user agent: it is a header's value, and nothing in it may end the header or be lost on the way.
///
/// # Errors
/// What is wrong.
pub(crate) fn user_agent(text: &str) -> Result<(), FieldError> {
    let printable = text.bytes().all(|byte| matches!(byte, 0x20..=0x7E));
    if !printable || text.is_empty() || text.len() > MAX_USER_AGENT {
        return Err(FieldError::invalid("", format!("must be 1 to {MAX_USER_AGENT} printable ASCII characters")));
    }
    if text.trim() != text {
        return Err(FieldError::invalid("", "must not begin or end with a space, which a header would lose"));
    }
    Ok(())
}

/// Checks a size.
///
/// # Errors
/// Names the side that is wrong.
pub(crate) fn viewport(size: Viewport) -> Result<(), FieldError> {
    match [("width", size.width), ("height", size.height)].into_iter().find(|(_, side)| !(1..=MAX_SIDE).contains(side))
    {
        Some((name, _)) => Err(FieldError::invalid(name, format!("must be from 1 to {MAX_SIDE} pixels"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_made_canonical() {
        for (written, meant) in [
            ("de", "de"),
            ("de-de", "de-DE"),
            ("EN-us", "en-US"),
            ("zh-hant-tw", "zh-Hant-TW"),
            ("es-419", "es-419"),
            ("fil", "fil"),
            ("ca-ES-valencia", "ca-ES-valencia"),
        ] {
            assert_eq!(locales(&[written.to_owned()]).unwrap(), [meant]);
        }
    }

    #[test]
    fn what_is_no_tag_is_found_at_its_place() {
        for wrong in [
            "",
            "x",
            "e",
            "de_DE",
            "de-",
            "-de",
            "de--DE",
            "de;q=1",
            "de\r\nX: y",
            "12",
            "und",
            "en-US-x-y",
            "english-us-of-a",
            "dé",
            "de DE",
            "*",
        ] {
            let error = locales(&["en".to_owned(), wrong.to_owned()]).unwrap_err();
            assert_eq!(error.path(), "[1]", "{wrong:?}");
            assert!(error.to_string().contains("must be a locale tag"), "{error}");
        }
        assert!(locales(&[]).unwrap_err().path().is_empty());
        assert!(locales(&vec!["en".to_owned(); 17]).unwrap_err().to_string().contains("1 to 16"));
    }

    #[test]
    fn a_user_agent_ends_no_header() {
        assert!(user_agent("Mozilla/5.0 (X11; Linux x86_64)").is_ok());
        for wrong in ["", " ", " a", "a ", "a\r\nX-Evil: 1", "a\nb", "a\u{0}", "ä", "a\tb", &"x".repeat(1025)] {
            assert!(user_agent(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_size_has_two_sides_within_reach() {
        assert!(viewport(Viewport { width: 1, height: 8192 }).is_ok());
        assert_eq!(viewport(Viewport { width: 0, height: 9 }).unwrap_err().path(), "width");
        assert_eq!(viewport(Viewport { width: 9, height: 8193 }).unwrap_err().path(), "height");
    }

    #[test]
    fn a_look_is_named_by_what_is_in_it() {
        let plain = Look::default();
        let german = Look { locales: Some(vec!["de-DE".to_owned()]), ..Look::default() };
        assert!(plain.is_plain() && !german.is_plain());
        assert_eq!(german.id(), german.clone().id());
        assert_ne!(german.id(), plain.id());
    }
}
