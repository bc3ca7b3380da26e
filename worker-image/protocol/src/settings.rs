mod geolocation;
mod media;
mod permission;
mod timezone;

use icu_locale_core::Locale;
use serde::{Deserialize, Deserializer, Serialize};

use crate::captcha::CaptchaSolver;
use crate::playwright::PlaywrightLaunch;

pub use geolocation::Geolocation;
pub use media::{ColorScheme, ReducedMotion};
pub use permission::Permission;
pub use timezone::check_timezone;

/// The longest user agent, in bytes.
const MAX_USER_AGENT: usize = 1024;
const MAX_LOCALES: usize = 16;
/// The longest locale tag, in bytes.
const MAX_TAG: usize = 35;
/// The longest side of a display or viewport, in pixels: what a browser can paint.
const MAX_SIDE: u32 = 8192;

/// The size of a display or of a page's viewport, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
}

impl Size {
    /// The size with something of that height above it.
    #[must_use]
    pub const fn below(self, height: u32) -> Self {
        Self { width: self.width, height: self.height + height }
    }

    /// The name of a side that no browser can paint.
    pub(crate) fn wrong_side(self) -> Option<&'static str> {
        let sides = [("width", self.width), ("height", self.height)];
        sides.into_iter().find(|(_, side)| !(1..=MAX_SIDE).contains(side)).map(|(name, _)| name)
    }
}

/// What pages see that differs from the browser's own values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Locale tags, the preferred one first; none for the browser's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub locales: Vec<String>,
    /// The user agent, in `navigator` and in the header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// The size of the page's viewport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub viewport: Option<Size>,
    /// The time zone of dates, by its name in the IANA database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// The colours that pages are to prefer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color_scheme: Option<ColorScheme>,
    /// Whether pages are to move less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduced_motion: Option<ReducedMotion>,
    /// Where pages find themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub geolocation: Option<Geolocation>,
    /// What pages of all origins may do without asking.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub permissions: Vec<Permission>,
}

fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(value: D) -> Result<T, D::Error> {
    Option::deserialize(value).map(Option::unwrap_or_default)
}

impl Settings {
    /// Whether nothing differs from the browser's own values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Brings permissions into one order, each once, so that what means the same is the same.
    pub fn sort_permissions(&mut self) {
        self.permissions.sort_unstable();
        self.permissions.dedup();
    }

    /// Checks each setting that there is.
    /// Errors: the first wrong one.
    pub fn check(&self) -> Result<(), SettingError> {
        if !self.locales.is_empty() {
            check_locales(&self.locales)?;
        }
        self.user_agent.as_deref().map_or(Ok(()), check_user_agent)?;
        self.viewport.map_or(Ok(()), check_viewport)?;
        self.timezone.as_deref().map_or(Ok(()), |name| check_timezone(name).map(drop))?;
        self.geolocation.map_or(Ok(()), Geolocation::check)
    }
}

/// Body of `POST /launch`: what a session wants of its browser.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// The page to open in the first tab.
    pub url: Option<String>,
    /// What pages are to see.
    #[serde(flatten)]
    pub settings: Settings,
    /// Whether ads are blocked, by the rules of an earlier `PUT /ads`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub block_ads: bool,
    /// Whether challenges of pages are reported, and for whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captchas: Option<CaptchaSolver>,
    /// Whether a display shows pages without the browser's own bars.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kiosk: bool,
    /// Whether the browser begins with the profile folder of an earlier `PUT /folder`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub folder: bool,
    /// Whether the browser loads the extensions of earlier `PUT /extensions`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub extensions: bool,
    /// Whether a log is kept of what happens in the browser from now on. `GET /log` tells it; of Chromium the daemon hears by
    /// DevTools, and the first page waits for its `POST /log`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log: bool,
    /// Whether the browser begins with the state of an earlier `PUT /storage`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub storage: bool,
    /// Playwright's own server, where the client speaks its protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub playwright: Option<PlaywrightLaunch>,
}

/// Answer to `POST /launch`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Launched {
    /// Settings that hold only in part, each as a sentence.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A setting that cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}{place}: {reason}")]
pub struct SettingError {
    /// Its name.
    pub setting: &'static str,
    /// The wrong part of it, such as `[1]` or `.width`; empty for the whole.
    pub place: String,
    /// What is wrong.
    pub reason: String,
}

/// Checks locale tags and returns them in their canonical form: `de-de` becomes `de-DE`.
/// Errors: the first wrong tag, or their number.
pub fn check_locales(tags: &[String]) -> Result<Vec<String>, SettingError> {
    let wrong = |place, reason| SettingError { setting: "locales", place, reason };
    if tags.is_empty() || tags.len() > MAX_LOCALES {
        return Err(wrong(String::new(), format!("must hold 1 to {MAX_LOCALES} tags")));
    }
    let canonical = tags.iter().enumerate().map(|(at, tag)| {
        let reason = || format!("must be a locale tag such as en-US, zh-Hant-TW or es-419, and is {tag:?}");
        locale(tag).ok_or_else(|| wrong(format!("[{at}]"), reason()))
    });
    canonical.collect()
}

fn locale(tag: &str) -> Option<String> {
    // The parser takes underscores for hyphens, which no header does.
    let written = tag.len() <= MAX_TAG && !tag.contains('_');
    let parsed = written.then(|| Locale::try_from_str(tag).ok()).flatten()?;
    let named = !parsed.id.language.is_unknown() && parsed.extensions.is_empty();
    named.then(|| parsed.to_string())
}

/// Checks a user agent: nothing in it may end the header that carries it, or be lost on the way.
/// Errors: what is wrong.
pub fn check_user_agent(text: &str) -> Result<(), SettingError> {
    let printable = text.bytes().all(|byte| matches!(byte, 0x20..=0x7E));
    let reason = if !printable || text.is_empty() || text.len() > MAX_USER_AGENT {
        format!("must be 1 to {MAX_USER_AGENT} printable ASCII characters")
    } else if text.trim() != text {
        "must not begin or end with a space, which a header would lose".to_owned()
    } else {
        return Ok(());
    };
    Err(SettingError { setting: "user_agent", place: String::new(), reason })
}

/// Checks the size of a viewport.
/// Errors: the wrong side.
pub fn check_viewport(size: Size) -> Result<(), SettingError> {
    let wrong = |side| SettingError {
        setting: "viewport",
        place: format!(".{side}"),
        reason: format!("must be from 1 to {MAX_SIDE} pixels"),
    };
    size.wrong_side().map_or(Ok(()), |side| Err(wrong(side)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

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
            assert_eq!(check_locales(&[written.to_owned()]).unwrap(), [meant]);
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
            let error = check_locales(&["en".to_owned(), wrong.to_owned()]).unwrap_err();
            assert_eq!(error.place, "[1]", "{wrong:?}");
            assert!(error.reason.contains("must be a locale tag"), "{error}");
        }
        assert_eq!(check_locales(&[]).unwrap_err().place, "");
        assert!(check_locales(&vec!["en".to_owned(); 17]).unwrap_err().reason.contains("1 to 16"));
    }

    #[test]
    fn a_user_agent_ends_no_header() {
        assert!(check_user_agent("Mozilla/5.0 (X11; Linux x86_64)").is_ok());
        for wrong in ["", " ", " a", "a ", "a\r\nX-Evil: 1", "a\nb", "a\u{0}", "ä", "a\tb", &"x".repeat(1025)] {
            assert!(check_user_agent(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_viewport_has_two_sides_within_reach() {
        assert!(check_viewport(Size { width: 1, height: 8192 }).is_ok());
        assert_eq!(check_viewport(Size { width: 0, height: 9 }).unwrap_err().place, ".width");
        assert_eq!(check_viewport(Size { width: 9, height: 8193 }).unwrap_err().place, ".height");
    }

    fn launch(body: Value) -> Result<Launch, serde_json::Error> {
        serde_json::from_value(body)
    }

    #[test]
    fn absent_and_null_are_nothing() {
        let nulls = json!({"url": null, "locales": null, "user_agent": null, "viewport": null});
        for body in [json!({}), nulls, json!({"locales": []})] {
            assert_eq!(launch(body).unwrap(), Launch::default());
        }
        assert!(Launch::default().settings.check().is_ok());
    }

    #[test]
    fn a_launch_has_the_form_that_every_agent_reads() {
        assert_eq!(serde_json::to_string(&Launch::default()).unwrap(), r#"{"url":null}"#);
        let body = json!({
            "url": "u", "locales": ["de"], "user_agent": "Me", "viewport": {"width": 1, "height": 2},
            "timezone": "Europe/Berlin", "color_scheme": "no-preference", "reduced_motion": "reduce",
            "geolocation": {"latitude": 52.5, "longitude": 13.4, "accuracy": 10.0},
            "permissions": ["geolocation", "clipboard-read"],
        });
        assert_eq!(serde_json::to_value(launch(body.clone()).unwrap()).unwrap(), body);
    }

    #[test]
    fn what_cannot_be_carried_out_is_refused() {
        assert!(launch(json!({"time_zone": "UTC"})).is_err());
        assert!(launch(json!({"viewport": {"width": 1, "height": 2, "depth": 3}})).is_err());
        for wrong in [
            json!({"locales": ["de", "e"]}),
            json!({"user_agent": "a\nb"}),
            json!({"viewport": {"width": 0, "height": 1}}),
            json!({"timezone": "Berlin"}),
            json!({"geolocation": {"latitude": 91, "longitude": 0}}),
        ] {
            assert!(launch(wrong.clone()).unwrap().settings.check().is_err(), "{wrong}");
        }
    }
}
