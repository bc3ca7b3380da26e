//! What a request was admitted by.

use super::sign_ins::TokenHash;
use warmpool_core::secret::Secret;
use warmpool_keys::{KeyId, SecretHash};

/// What a request was admitted by.
#[derive(Debug, Clone)]
pub(super) enum Credential {
    /// A service key, by the secret that was sent: once that is replaced, it opens nothing any more.
    Key { key: KeyId, secret: SecretHash },
    /// A sign-in to the console, and whether it was an operator's.
    SignIn { key: KeyId, is_operator: bool, token: TokenHash },
    /// An integration key, by the secret that was sent.
    IntegrationKey(Secret),
    /// The token in the URL of a world's viewer.
    WorldViewer(Secret),
    /// The token of a session's live view, which opens its recording as well.
    LiveView { session: String, token: Secret },
}

impl Credential {
    /// The last event of a stream that ends because of it.
    pub(super) const fn last_event(&self) -> &'static [u8] {
        match self {
            Self::SignIn { .. } => b"event: signed-out\ndata: {}\n\n",
            _ => b"event: revoked\ndata: {}\n\n",
        }
    }
}
