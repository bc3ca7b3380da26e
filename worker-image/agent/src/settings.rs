//! What a client wants every page to see.

use serde::{Deserialize, Serialize};

use crate::claim::Size;
use crate::error::ApiError;

/// Body of `POST /launch`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Launch {
    /// Page to open in the first tab.
    #[serde(default)]
    pub(crate) url: Option<String>,
    /// What pages are to see; see [`Settings`].
    #[serde(default)]
    locales: Option<Vec<String>>,
    #[serde(default)]
    user_agent: Option<String>,
    #[serde(default)]
    viewport: Option<Size>,
}

/// Answer to `POST /launch`.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Launched {
    /// Settings that hold only in part, each as a sentence.
    pub(crate) warnings: Vec<String>,
}

/// Settings that differ from what the warm browser shows by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Languages in order of preference, such as `de-CH`; empty for the browser's own.
    pub(crate) locales: Vec<String>,
    /// User agent, in navigator and header.
    pub(crate) user_agent: Option<String>,
    /// Inner size of pages, in pixels.
    pub(crate) viewport: Option<Size>,
}

impl Launch {
    /// Checks the settings and takes them out.
    pub(crate) fn settings(&mut self) -> Result<Settings, ApiError> {
        let locales = self.locales.take().unwrap_or_default();
        if let Some(wrong) = locales.iter().find(|tag| !is_language_tag(tag)) {
            return Err(ApiError::bad_request(format!("locales: {wrong:?} is no language tag")));
        }
        let user_agent = self.user_agent.take();
        if user_agent.as_deref().is_some_and(|ua| ua.is_empty() || ua.chars().any(char::is_control)) {
            return Err(ApiError::bad_request("user_agent: printable characters wanted"));
        }
        if self.viewport.is_some_and(|size| !size.plausible()) {
            return Err(ApiError::bad_request("viewport: width and height from 1 to 8192 wanted"));
        }
        Ok(Settings { locales, user_agent, viewport: self.viewport.take() })
    }
}

impl Settings {
    /// Whether nothing differs from what the browser does by itself.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Letters and digits in short parts: what BCP 47 allows and a header can carry.
fn is_language_tag(tag: &str) -> bool {
    let mut parts = tag.split('-');
    let first = parts.next().unwrap_or_default();
    (2..=8).contains(&first.len())
        && first.bytes().all(|b| b.is_ascii_alphabetic())
        && parts.all(|part| (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn settings(body: Value) -> Result<Settings, ApiError> {
        serde_json::from_value::<Launch>(body).unwrap().settings()
    }

    #[test]
    fn absent_and_null_are_nothing() {
        assert!(settings(json!({})).unwrap().is_empty());
        let nulls = json!({"url": null, "locales": null, "user_agent": null, "viewport": null});
        assert!(settings(nulls).unwrap().is_empty());
        assert!(settings(json!({"locales": []})).unwrap().is_empty());
    }

    #[test]
    fn nonsense_is_refused() {
        for tag in ["", "e", "de_DE", "de-", "de;q=1", "de\r\nX: y", "12"] {
            assert!(settings(json!({"locales": [tag]})).is_err(), "{tag:?}");
        }
        assert!(settings(json!({"user_agent": "a\nb"})).is_err());
        assert!(settings(json!({"viewport": {"width": 0, "height": 1}})).is_err());
        for tag in ["de", "de-CH", "zh-Hant-TW", "es-419", "fil"] {
            assert!(settings(json!({"locales": [tag]})).is_ok(), "{tag}");
        }
    }
}
