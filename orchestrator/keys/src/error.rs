//! What can go wrong with a key.

use warmpool_core::error::{Code, Fault};

/// What can go wrong, as a client sees it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key is unknown, revoked or malformed.
    #[error(
        "the key is not valid: send one of `warmpool key list` in the header `service-secret-key`, whole and unchanged"
    )]
    InvalidKey,
    /// There is no such key.
    #[error("no key `{id}`: it is unknown, or was removed")]
    UnknownKey {
        /// The id that was sent.
        id: String,
    },
}

impl Fault for Error {
    fn code(&self) -> Code {
        match self {
            Self::InvalidKey => Code::InvalidKey,
            Self::UnknownKey { .. } => Code::UnknownKey,
        }
    }
}
