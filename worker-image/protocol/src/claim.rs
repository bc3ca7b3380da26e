use std::time::Duration;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::firefox;
use crate::settings::{Settings, Size};

/// Length of the secret: 32 bytes in hexadecimal.
const SECRET_LENGTH: usize = 64;

/// Body of `POST /claim`: the worker's secret, and how the worker is to run. A worker takes one claim.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What every later request has to carry.
    pub secret: Secret,
    /// Whether the browser runs without a display.
    pub headless: bool,
    /// Whether the browser keeps its own sandbox.
    pub sandbox: bool,
    /// Whether the agent stops all processes while the worker waits for a client.
    pub freeze: bool,
    /// Whether the browser is driven once before it waits, so that a client's first page takes less. Without that the worker is
    /// ready earlier.
    pub rehearse: bool,
    /// The size of pages that nobody has sized. A display is larger, by what the browser has around its pages.
    #[serde(rename = "display")]
    pub page: Size,
    /// How long the worker outlives its daemon, in milliseconds.
    pub orphan_timeout_ms: u64,
    /// How long a browser may stay silent before it counts as hung, in milliseconds.
    pub unresponsive_timeout_ms: u64,
    /// The largest file that a client may upload, in bytes.
    pub file_limit: u64,
    /// Settings that hold already while the worker waits. A launch that asks for the same ones finds them applied.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub preset: Settings,
    /// Names of the extensions that its browser loads before it waits. `PUT /extensions/{name}` brings each, in this order, once the
    /// claim is taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// Certificates of authorities that the browser trusts beside the public ones: DER in Base64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ca_certificates: Vec<String>,
    /// What clients may set in Chromium beyond the tables.
    #[serde(default, skip_serializing_if = "Allowed::is_empty")]
    pub chromium: Allowed,
    /// What clients may set in Firefox beyond the tables.
    #[serde(default, skip_serializing_if = "firefox::Allowed::is_empty")]
    pub firefox: firefox::Allowed,
}

/// What the operator allows clients to set in Chromium beyond the tables of this crate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// Names of switches, and items of those that have lists.
    #[serde(default)]
    pub switches: Vec<String>,
    /// Names of preferences.
    #[serde(default)]
    pub prefs: Vec<String>,
}

impl Allowed {
    const fn is_empty(&self) -> bool {
        self.switches.is_empty() && self.prefs.is_empty()
    }
}

impl Claim {
    /// Checks what the types alone do not.
    /// Errors: what is wrong.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.secret.0.len() != SECRET_LENGTH || !self.secret.0.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err("secret: 64 hexadecimal digits wanted");
        }
        if self.page.wrong_side().is_some() {
            return Err("display: width and height from 1 to 8192 wanted");
        }
        if self.orphan_timeout_ms == 0 || self.unresponsive_timeout_ms == 0 {
            return Err("a timeout of 0 would end the worker at once");
        }
        Ok(())
    }

    /// How long the worker outlives its daemon.
    #[must_use]
    pub const fn orphan_timeout(&self) -> Duration {
        Duration::from_millis(self.orphan_timeout_ms)
    }

    /// How long a browser may stay silent.
    #[must_use]
    pub const fn unresponsive_timeout(&self) -> Duration {
        Duration::from_millis(self.unresponsive_timeout_ms)
    }
}

/// A worker's secret. It prints as a placeholder and compares in constant time.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The secret with these hexadecimal digits.
    #[must_use]
    pub const fn new(digits: String) -> Self {
        Self(digits)
    }

    /// The value of the `Authorization` header that carries it.
    #[must_use]
    pub fn authorization(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Whether the value of an `Authorization` header carries it.
    #[must_use]
    pub fn opens(&self, authorization: &[u8]) -> bool {
        authorization.strip_prefix(b"Bearer ").is_some_and(|token| bool::from(token.ct_eq(self.0.as_bytes())))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claim(secret: &str) -> Claim {
        serde_json::from_value(json!({
            "secret": secret, "headless": true, "sandbox": true, "freeze": false, "rehearse": true,
            "display": {"width": 1280, "height": 800}, "orphan_timeout_ms": 1000,
            "unresponsive_timeout_ms": 1000, "file_limit": 10
        }))
        .unwrap()
    }

    #[test]
    fn the_secret_opens_and_nothing_else_does() {
        let secret = "ab".repeat(32);
        let claim = claim(&secret);
        assert!(claim.check().is_ok());
        assert!(claim.secret.opens(claim.secret.authorization().as_bytes()));
        for wrong in ["", "Bearer ", &secret, &format!("Bearer {secret}0"), &format!("Basic {secret}")] {
            assert!(!claim.secret.opens(wrong.as_bytes()), "{wrong}");
        }
        assert!(!format!("{claim:?}").contains(&secret));
    }

    #[test]
    fn a_claim_that_makes_no_sense_is_refused() {
        assert!(claim("short").check().is_err());
        assert!(claim(&"zz".repeat(32)).check().is_err());
        let mut none = claim(&"ab".repeat(32));
        none.page.width = 0;
        assert!(none.check().is_err());
    }

    #[test]
    fn a_claim_has_the_form_that_every_agent_reads() {
        let mut claim = claim("s");
        let plain = r#"{"secret":"s","headless":true,"sandbox":true,"freeze":false,"rehearse":true,"display":{"width":1280,"height":800},"orphan_timeout_ms":1000,"unresponsive_timeout_ms":1000,"file_limit":10}"#;
        assert_eq!(serde_json::to_string(&claim).unwrap(), plain);
        claim.preset.locales = vec!["de".to_owned()];
        let preset = json!({"locales": ["de"]});
        assert_eq!(serde_json::to_value(&claim).unwrap()["preset"], preset);
        claim.chromium.switches = vec!["a".to_owned()];
        let chromium = json!({"switches": ["a"], "prefs": []});
        assert_eq!(serde_json::to_value(&claim).unwrap()["chromium"], chromium);
        claim.ca_certificates = vec!["MA==".to_owned()];
        assert_eq!(serde_json::to_value(&claim).unwrap()["ca_certificates"], json!(["MA=="]));
        claim.firefox.prefs = vec!["a.b".to_owned()];
        assert_eq!(serde_json::to_value(&claim).unwrap()["firefox"], json!({"args": [], "prefs": ["a.b"]}));
        let unknown = json!({"locales": ["de"], "time_zone": "UTC"});
        assert!(serde_json::from_value::<Settings>(unknown).is_err());
    }
}
