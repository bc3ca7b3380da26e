//! Playwright's own server in a worker.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The server that a launch starts beside the browser, for one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaywrightLaunch {
    /// Major and minor version, as in `1.65`. The client's has to be the same.
    pub version: String,
    /// By how many milliseconds each action is slowed down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_mo: Option<u32>,
    /// The proxy of all browser contexts that name none themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<PlaywrightProxy>,
}

/// A client's proxy.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaywrightProxy {
    /// Scheme, host and port.
    pub server: String,
    /// Hosts without the proxy, in Chromium's notation; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bypass: String,
    /// Who the proxy takes the client for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// A secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

impl fmt::Debug for PlaywrightProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlaywrightProxy").field("server", &self.server).finish_non_exhaustive()
    }
}

/// The version of a client or a server without its patch, as in `1.65` of `1.65.1`; none where the text is no version.
#[must_use]
pub fn playwright_minor(version: &str) -> Option<&str> {
    let (major, rest) = version.split_once('.')?;
    let minor = rest.split('.').next()?;
    let is_number = |text: &str| (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(major) && is_number(minor)).then(|| &version[..major.len() + 1 + minor.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_without_its_patch() {
        for (version, minor) in [
            ("1.65.1", Some("1.65")),
            ("1.65", Some("1.65")),
            ("10.0.0-next", Some("10.0")),
            ("1.65-beta", None),
            ("1", None),
            ("1.", None),
            ("../1.65", None),
            ("1.65000", None),
            ("", None),
        ] {
            assert_eq!(playwright_minor(version), minor, "{version}");
        }
    }

    #[test]
    fn no_text_for_logs_has_the_password() {
        let proxy = PlaywrightProxy {
            server: "http://proxy.example".to_owned(),
            bypass: String::new(),
            username: Some("user".to_owned()),
            password: Some("secret".to_owned()),
        };
        let launch = PlaywrightLaunch { version: "1.65".to_owned(), slow_mo: None, proxy: Some(proxy) };
        assert!(!format!("{launch:?}").contains("secret"));
        let sent = serde_json::to_value(&launch).unwrap();
        assert_eq!(sent["proxy"]["password"], "secret");
        assert_eq!(serde_json::from_value::<PlaywrightLaunch>(sent).unwrap(), launch);
    }
}
