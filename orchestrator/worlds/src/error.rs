//! What can go wrong with a world or a patient.

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
    /// The integration key cannot be used.
    #[error(transparent)]
    Key(#[from] warmpool_keys::Error),
    /// The body is no JSON object, and no header says whose it is.
    #[error("{message}")]
    InvalidBody {
        /// What is wrong with it.
        message: String,
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
    /// What is kept of the patient cannot be read, and the key that opens it may come back.
    #[error(
        "what is kept of this patient was encrypted with a key that the daemon does not have: the operator can put it back, as \
         `/status` says; where it is lost, delete the patient first"
    )]
    UnreadablePatient,
    /// The service key has an export on its way, and may have one.
    #[error(
        "an export of this service key is on its way: read it to its end, or close its connection, before the next"
    )]
    Exporting,
    /// As many worlds wait as may.
    #[error("{length} worlds wait already: try again later, or raise `world.queue_length`")]
    WorldQueueFull {
        /// `world.queue_length`.
        length: usize,
    },
    /// As many worlds of the service key wait as may.
    #[error(
        "{limit} worlds of this service key wait already, whichever integration key asked for them: try again later, delete one, or raise `world.max_per_key`"
    )]
    WorldKeyLimit {
        /// `world.max_per_key`.
        limit: usize,
    },
    /// The worlds of the service key would take more room than they may.
    #[error(
        "the worlds of this service key would have {size} bytes together, whichever integration key asked for them, and may have {limit}: delete some, or raise `world.max_total`"
    )]
    WorldSizeLimit {
        /// Their size with the new one.
        size: u64,
        /// `world.max_total`.
        limit: u64,
    },
    /// The service key has as many patients as it may.
    #[error(
        "this service key has {limit} patients already, whichever integration key named them, and may have no more: delete one, or raise `world.max_patients`"
    )]
    PatientLimit {
        /// `world.max_patients`.
        limit: usize,
    },
    /// Scenes cannot be rendered on this host.
    #[error(
        "worlds need the image `{image}`, which is not on this host: make it with `scripts/images --scene`, or load a packed one with `docker load`"
    )]
    NoRenderer {
        /// `world.image`.
        image: String,
    },
}

impl Fault for Error {
    fn inner(&self) -> Result<&dyn Fault, Code> {
        Err(match self {
            Self::Field(error) => return Ok(error),
            Self::Service(error) => return Ok(error),
            Self::Key(error) => return Ok(error),
            Self::InvalidBody { .. } => Code::InvalidBody,
            Self::UnknownWorld { .. } => Code::UnknownWorld,
            Self::UnknownViewer => Code::UnknownViewer,
            Self::UnknownPatient => Code::UnknownPatient,
            Self::Exporting | Self::UnreadablePatient => Code::Conflict,
            Self::WorldQueueFull { .. } | Self::WorldKeyLimit { .. } => Code::WorldQueueFull,
            Self::WorldSizeLimit { .. } | Self::PatientLimit { .. } => Code::WorldLimit,
            Self::NoRenderer { .. } => Code::RendererNotInstalled,
        })
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}
