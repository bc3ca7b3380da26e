//! Signatures of messages to other people's servers, as [Standard Webhooks](https://www.standardwebhooks.com) specifies them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The prefix of secrets in base64.
pub const ENCODED: &str = "whsec_";

/// The signature of a message that is sent at this Unix time, in base64. A secret is taken as it is, unless it begins with
/// [`ENCODED`].
#[must_use]
pub fn sign(secret: &str, id: &str, seconds: u64, body: &str) -> String {
    let decoded = secret.strip_prefix(ENCODED).and_then(|text| STANDARD.decode(text).ok());
    let key = decoded.unwrap_or_else(|| secret.as_bytes().to_vec());
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else { return String::new() };
    mac.update(format!("{id}.{seconds}.{body}").as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_standards() {
        // The example of the standard's own libraries.
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let signed = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signed, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
