//! Identifiers of keys, sessions, tasks, workers, requests and worlds, and the randomness that they are made of.

mod key;
mod task;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmpool_protocol::extension::is_name;

use crate::error::FieldError;

pub use key::{InvalidKeyId, KeyId};
pub use task::{InvalidTaskId, TaskId, TaskIds};

/// `LEN` bytes from the operating system's generator, base64url without padding.
///
/// # Panics
/// When the operating system has no randomness to give: nothing secure could follow.
pub fn random_text<const LEN: usize>() -> String {
    URL_SAFE_NO_PAD.encode(random_bytes::<LEN>())
}

/// `LEN` bytes from the operating system's generator.
///
/// # Panics
/// When the operating system has no randomness to give: nothing secure could follow.
#[must_use]
#[expect(clippy::expect_used, reason = "without randomness no id or key may be made")]
pub fn random_bytes<const LEN: usize>() -> [u8; LEN] {
    let mut bytes = [0u8; LEN];
    getrandom::fill(&mut bytes).expect("the operating system's random generator works");
    bytes
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $bytes:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        #[schemars(inline)]
        pub struct $name(String);

        impl $name {
            /// How each begins.
            pub const PREFIX: &'static str = $prefix;

            /// A new one.
            #[must_use]
            pub fn random() -> Self {
                loop {
                    let tail = random_text::<$bytes>();
                    // Swarm takes no name of a service that ends in a sign.
                    if tail.ends_with(|last: char| last.is_ascii_alphanumeric()) {
                        return Self(format!(concat!($prefix, "{tail}"), tail = tail));
                    }
                }
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

id! {
    /// A session: `ses_` and 128 random bits.
    SessionId, "ses_", 16
}
id! {
    /// A link by which others may watch a session.
    ShareId, "shr_", 9
}
id! {
    /// A worker, which is also the tail of its container's name.
    WorkerId, "w", 9
}
id! {
    /// One HTTP request, for logs and error bodies.
    RequestId, "req_", 9
}
id! {
    /// A world: `wld_` and 128 random bits.
    WorldId, "wld_", 16
}
id! {
    /// A profile, which its own key knows by its name.
    ProfileId, "prf_", 16
}
id! {
    /// A browser extension: `ext_` and 128 random bits.
    ExtensionId, "ext_", 16
}
id! {
    /// An integration key, which may ask for worlds. Not secret.
    IntegrationKeyId, "wki_", 9
}

impl ExtensionId {
    /// Reads ids as clients and settings name them, each once. Whether there are such extensions is seen when a browser loads them.
    /// Errors: with the place of the first wrong one, such as `[0]`.
    pub fn read_all(texts: &[String]) -> Result<Vec<Self>, FieldError> {
        for (index, text) in texts.iter().enumerate() {
            if !is_name(text) {
                return Err(FieldError::invalid(format!("[{index}]"), "must be an id that POST /extensions has given"));
            }
            if texts[..index].contains(text) {
                return Err(FieldError::invalid(format!("[{index}]"), "is there twice: leave one of them out"));
            }
        }
        Ok(texts.iter().map(|text| Self::from(text.as_str())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_carry_128_bits_and_differ() {
        let id = SessionId::random();
        let tail = id.as_str().strip_prefix("ses_").unwrap();
        assert_eq!(URL_SAFE_NO_PAD.decode(tail).unwrap().len(), 16);
        assert_ne!(id, SessionId::random());
    }

    #[test]
    fn a_workers_id_ends_a_services_name() {
        for _ in 0..1000 {
            let id = WorkerId::random();
            assert!(!id.as_str().ends_with(['-', '_']), "Swarm refuses {id}");
        }
    }
}
