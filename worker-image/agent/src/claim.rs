//! What the daemon says once, when it takes the container over.

use std::time::Duration;

use serde::Deserialize;
use subtle::ConstantTimeEq;

use crate::settings::Launch;

/// Length of the secret: 32 bytes in hexadecimal.
const SECRET_LENGTH: usize = 64;
/// Largest side of a display, in pixels.
const MAX_SIDE: u32 = 8192;

/// Body of `POST /claim`: the secret and how this worker is to run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    /// What every later request has to carry.
    pub(crate) secret: Secret,
    /// Run the browser without a display.
    pub(crate) headless: bool,
    /// Keep the browser's own sandbox. Off only where an operator gave it up.
    pub(crate) sandbox: bool,
    /// Stop all processes while the worker waits for a client.
    pub(crate) freeze: bool,
    /// Size of the display of a browser with a window, in pixels.
    pub(crate) display: Size,
    /// The agent ends when nobody has listened to its events for so many milliseconds.
    pub(crate) orphan_timeout_ms: u64,
    /// A browser that answers nothing for so many milliseconds counts as hung.
    pub(crate) unresponsive_timeout_ms: u64,
    /// Largest file a client may upload, in bytes.
    pub(crate) file_limit: u64,
    /// Settings that hold already while the worker waits; a launch that asks for the same finds them done.
    #[serde(default)]
    pub(crate) preset: Launch,
}

impl Claim {
    /// Checks what types alone do not. Returns what is wrong.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.secret.0.len() != SECRET_LENGTH || !self.secret.0.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err("secret: 64 hexadecimal digits wanted");
        }
        if !self.display.plausible() {
            return Err("display: width and height from 1 to 8192 wanted");
        }
        if self.orphan_timeout_ms == 0 || self.unresponsive_timeout_ms == 0 {
            return Err("a timeout of 0 would end the worker at once");
        }
        Ok(())
    }

    /// See the field of the same name.
    pub(crate) fn orphan_timeout(&self) -> Duration {
        Duration::from_millis(self.orphan_timeout_ms)
    }

    /// See the field of the same name.
    pub(crate) fn unresponsive_timeout(&self) -> Duration {
        Duration::from_millis(self.unresponsive_timeout_ms)
    }
}

/// A width and a height in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Size {
    /// Pixels from left to right.
    pub(crate) width: u32,
    /// Pixels from top to bottom.
    pub(crate) height: u32,
}

impl Size {
    /// Whether both sides are within what a browser takes.
    pub(crate) fn plausible(self) -> bool {
        (1..=MAX_SIDE).contains(&self.width) && (1..=MAX_SIDE).contains(&self.height)
    }
}

/// The worker's secret. It prints as a placeholder and compares in constant time.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl Secret {
    /// Whether the value of an `Authorization` header carries this secret.
    pub(crate) fn opens(&self, authorization: &[u8]) -> bool {
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
            "secret": secret, "headless": true, "sandbox": true, "freeze": false,
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
        assert!(claim.secret.opens(format!("Bearer {secret}").as_bytes()));
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
        none.display.width = 0;
        assert!(none.check().is_err());
    }
}
