//! What can go wrong with an extension.

use warmpool_core::error::{Code, Fault, FieldError, ServiceError};
use warmpool_core::ids::ExtensionId;
use warmpool_protocol::extension::ExtensionError;
use warmpool_store::StoreError;

/// What can go wrong, as a client sees it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field of the request cannot be used.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The daemon cannot serve now, or has failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// There is no such extension, or it is another key's.
    #[error("no extension `{id}`: it is unknown, was deleted, or belongs to another key; POST /extensions gives an id")]
    UnknownExtension {
        /// The id that was sent.
        id: String,
    },
    /// Another extension of the key is called so.
    #[error("extension `{id}` has this `name` already: choose another one, or delete that extension")]
    AliasTaken {
        /// The other one.
        id: ExtensionId,
    },
    /// What was sent is no extension.
    #[error(
        "the upload is not a browser extension: {reason}; send a zip, a .crx or an .xpi with a manifest.json at its root"
    )]
    Invalid {
        /// Why.
        reason: String,
    },
    /// The archive holds more than it may.
    #[error("the extension holds too much: {reason}; leave out what it does not need, or raise `{setting}`")]
    TooLarge {
        /// What is too much.
        reason: String,
        /// The setting that limits it.
        setting: &'static str,
    },
    /// The key has as many extensions as it may have.
    #[error("this key has {limit} extensions already: delete one, or raise `extensions.max_per_key`")]
    CountLimit {
        /// `extensions.max_per_key`.
        limit: usize,
    },
    /// The key's extensions would be larger together than they may be.
    #[error(
        "this key's extensions would have {size} bytes together, and may have {limit}: delete one, or raise `extensions.max_total`"
    )]
    SizeLimit {
        /// Their size with the new one.
        size: u64,
        /// `extensions.max_total`.
        limit: u64,
    },
}

impl Fault for Error {
    fn inner(&self) -> Result<&dyn Fault, Code> {
        Err(match self {
            Self::Field(error) => return Ok(error),
            Self::Service(error) => return Ok(error),
            Self::UnknownExtension { .. } => Code::UnknownExtension,
            Self::AliasTaken { .. } => Code::Conflict,
            Self::Invalid { .. } => Code::InvalidExtension,
            Self::TooLarge { .. } => Code::BodyTooLarge,
            Self::CountLimit { .. } | Self::SizeLimit { .. } => Code::ExtensionLimit,
        })
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}

impl From<ExtensionError> for Error {
    fn from(error: ExtensionError) -> Self {
        let reason = error.to_string();
        match error {
            ExtensionError::TooMany { .. } => Self::TooLarge { reason, setting: "extensions.max_files" },
            ExtensionError::TooLarge { .. } => Self::TooLarge { reason, setting: "extensions.max_unpacked" },
            _ => Self::Invalid { reason },
        }
    }
}
