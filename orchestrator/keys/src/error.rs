//! What can go wrong with a key: as the operator's command line says it, and as a client sees it.

use std::io;
use std::path::PathBuf;

use warmpool_core::error::{Code, Fault, FieldError, FieldFault as _, ServiceError, ServiceFault as _};
use warmpool_core::ids::KeyId;
use warmpool_store::StoreError;

/// Why a service key could not be made or changed, for the operator.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The name is empty, too long, or has characters that cannot be printed.
    #[error("a key's name must have 1 to 64 printable characters")]
    InvalidName,
    /// An active key has this name, so `warmpool key revoke NAME` would no longer say which is meant.
    #[error("key {id} is called `{name}`: choose another name, or revoke that key first")]
    NameTaken {
        /// The key that has it.
        id: KeyId,
        /// The name.
        name: String,
    },
    /// There is no key of that id.
    #[error("there is no key {0}")]
    Unknown(KeyId),
    /// The key was revoked, which is final.
    #[error("key {0} was revoked: create another")]
    Revoked(KeyId),
    /// Only revoked keys can be removed.
    #[error("key {0} is active: revoke it before you remove it")]
    Active(KeyId),
    /// Without this key nobody could manage keys in the console.
    #[error("this is the last operator's key: make another before you revoke it")]
    LastOperator,
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The first key could not be written to its file.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// What can go wrong with a key, as a client sees it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field of the request cannot be used.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The daemon cannot serve now, or has failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The key is unknown, revoked or malformed.
    #[error(
        "the key is not valid: send one that `warmpool key create` printed, or the first one, of the file `first-key` in the \
         data directory, in the header `service-secret-key`"
    )]
    InvalidKey,
    /// There is no such key.
    #[error("no key `{id}`: it is unknown, or was removed")]
    UnknownKey {
        /// The id that was sent.
        id: String,
    },
    /// No integration key was sent.
    #[error("no integration key: send it as `api_key` in the body, or in the header `x-api-key`")]
    MissingApiKey,
    /// The integration key is unknown or revoked.
    #[error("the integration key is not valid: list the valid ones with `warmpool integration-key list`")]
    InvalidApiKey,
    /// There is no such integration key, or it is another service key's.
    #[error("no integration key `{id}`: it is unknown, or belongs to another service key")]
    UnknownIntegrationKey {
        /// The id that was sent.
        id: String,
    },
    /// The service key has as many integration keys as it may.
    #[error(
        "this service key has {limit} integration keys, revoked ones included: give one of them another secret by `rotate`, or \
         raise `world.max_keys`"
    )]
    IntegrationKeyLimit {
        /// `world.max_keys`.
        limit: usize,
    },
    /// The key is in a state that does not allow this.
    #[error("{message}")]
    Conflict {
        /// What is in the way.
        message: String,
    },
}

impl Fault for Error {
    fn inner(&self) -> Result<&dyn Fault, Code> {
        Err(match self {
            Self::Field(error) => return Ok(error),
            Self::Service(error) => return Ok(error),
            Self::InvalidKey => Code::InvalidKey,
            Self::UnknownKey { .. } => Code::UnknownKey,
            Self::MissingApiKey => Code::MissingApiKey,
            Self::InvalidApiKey => Code::InvalidApiKey,
            Self::UnknownIntegrationKey { .. } => Code::UnknownIntegrationKey,
            Self::IntegrationKeyLimit { .. } => Code::IntegrationKeyLimit,
            Self::Conflict { .. } => Code::Conflict,
        })
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::InvalidName => Self::invalid("name", "must have 1 to 64 printable characters"),
            KeyError::NameTaken { name, .. } => {
                Self::invalid("name", format!("`{name}` is another active key's: choose another name"))
            }
            KeyError::Unknown(id) => Self::UnknownKey { id: id.to_string() },
            KeyError::Revoked(_) | KeyError::Active(_) | KeyError::LastOperator => {
                Self::Conflict { message: error.to_string() }
            }
            KeyError::Store(error) => error.into(),
            KeyError::File { .. } => Self::internal(error),
        }
    }
}
