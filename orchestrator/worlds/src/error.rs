//! What can go wrong with a world, a patient or an integration key.

use warmpool_core::error::{Code, Fault, FieldError, ServiceError};
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
    /// The integration key is unknown or revoked.
    #[error("the integration key is not valid: list the valid ones with `warmpool integration-key list`")]
    InvalidApiKey,
    /// There is no such integration key, or it is another service key's.
    #[error("no integration key `{id}`: it is unknown, or belongs to another service key")]
    UnknownIntegrationKey {
        /// The id that was sent.
        id: String,
    },
    /// There is no such world, or it is another key's.
    #[error("no world `{id}`: it is unknown, deleted, or belongs to another key")]
    UnknownWorld {
        /// The id that was sent.
        id: String,
    },
    /// The URL of a viewer opens nothing, or nothing any more.
    #[error("this address shows no world: its viewer was closed, renewed or deleted, or never was")]
    UnknownViewer,
    /// Nothing is kept of the patient.
    #[error("nothing is kept of a patient with this id, or it belongs to another key")]
    UnknownPatient,
    /// As many worlds wait as may.
    #[error("{length} worlds wait already: try again later, or raise `world.queue_length`")]
    WorldQueueFull {
        /// `world.queue_length`.
        length: usize,
    },
    /// As many worlds of the key wait as may.
    #[error("{limit} worlds of this key wait already: try again later, delete one, or raise `world.max_per_key`")]
    WorldKeyLimit {
        /// `world.max_per_key`.
        limit: usize,
    },
    /// Scenes cannot be rendered on this host.
    #[error("worlds need the image `{image}`, which is not on this host: make it with `scripts/images --scene`")]
    NoRenderer {
        /// `world.image`.
        image: String,
    },
    /// The session is in a state that does not allow this.
    #[error("{message}")]
    Conflict {
        /// What is in the way.
        message: String,
    },
}

impl Fault for Error {
    fn code(&self) -> Code {
        match self {
            Self::Field(error) => error.code(),
            Self::Service(error) => error.code(),
            Self::InvalidApiKey => Code::InvalidApiKey,
            Self::UnknownIntegrationKey { .. } => Code::UnknownIntegrationKey,
            Self::UnknownWorld { .. } => Code::UnknownWorld,
            Self::UnknownViewer => Code::UnknownViewer,
            Self::UnknownPatient => Code::UnknownPatient,
            Self::WorldQueueFull { .. } | Self::WorldKeyLimit { .. } => Code::WorldQueueFull,
            Self::NoRenderer { .. } => Code::RendererNotInstalled,
            Self::Conflict { .. } => Code::Conflict,
        }
    }

    fn field(&self) -> Option<&str> {
        match self {
            Self::Field(error) => error.field(),
            Self::Service(error) => error.field(),
            _ => None,
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}
