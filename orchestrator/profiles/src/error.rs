//! What can go wrong with a profile.

use std::time::Duration;

use warmpool_api::profile::ProfileKind;
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
    /// There is no such profile, or it is another key's.
    #[error(
        "no profile `{name}`: it is unknown, was deleted, or belongs to another key; a session that writes it makes it"
    )]
    UnknownProfile {
        /// The name that was sent.
        name: String,
    },
    /// The profile is there, and cannot be read.
    #[error(
        "profile `{name}` cannot be read: its key is gone, or another release wrote it; the daemon's log says which. Restore a \
         backup with its key, or delete the profile and make it anew"
    )]
    Unreadable {
        /// The name that was sent.
        name: String,
    },
    /// The profile has no such version.
    #[error("profile `{name}` has no version {version}: `GET /profiles/{name}` lists those that it has")]
    UnknownVersion {
        /// The profile.
        name: String,
        /// The version that was asked for.
        version: u64,
    },
    /// There is a profile of this name.
    #[error("there is a profile `{name}` already: choose another name, or PUT to that one")]
    ProfileExists {
        /// The name.
        name: String,
    },
    /// A session writes the profile.
    #[error("profile `{name}` is being written by {holder}: end that, or open the profile with the mode `read`")]
    ProfileInUse {
        /// The profile.
        name: String,
        /// Who writes it: a session by its id, or one that is being made.
        holder: String,
    },
    /// The key has as many profiles as it may have.
    #[error("this key has {limit} profiles already: delete one, or raise `profiles.max_per_key`")]
    ProfileLimit {
        /// `profiles.max_per_key`.
        limit: usize,
    },
    /// The key's profiles would be larger together than they may be.
    #[error(
        "this key's profiles would have {size} bytes together, and may have {limit}: delete one, or raise `profiles.max_total`"
    )]
    SizeLimit {
        /// Their size with the new version.
        size: u64,
        /// `profiles.max_total`.
        limit: u64,
    },
    /// The state is larger than a profile may be.
    #[error("the state has {size} bytes, and a profile may have {limit}: raise `profiles.max_size`")]
    TooLarge {
        /// Its size.
        size: u64,
        /// `profiles.max_size`.
        limit: u64,
    },
    /// The profile keeps something else.
    #[error("profile `{name}` is a {0}: its versions are at `/profiles/{name}/{0}`", .kind.as_str())]
    WrongKind {
        /// The profile.
        name: String,
        /// What it keeps.
        kind: ProfileKind,
    },
    /// What was sent is no packed folder.
    #[error("the profile folder cannot be taken: {reason}")]
    Folder {
        /// Why.
        reason: String,
    },
    /// The folder's files are larger than they may be.
    #[error("the folder's files have more than the {limit} bytes that a profile may have: raise `profiles.max_folder`")]
    FolderTooLarge {
        /// `profiles.max_folder`.
        limit: u64,
    },
    /// The folder stopped coming.
    #[error("the folder did not arrive in time")]
    FolderTimeout,
    /// The folder did not arrive in time, or its turn did not come.
    #[error(
        "the folder did not arrive within {} seconds (`profiles.import_timeout`), in which it may have waited for other imports \
         (`profiles.max_imports_per_key`, `profiles.max_imports`): send it again",
        after.as_secs()
    )]
    ImportTimeout {
        /// `profiles.import_timeout`.
        after: Duration,
    },
    /// The profile was deleted meanwhile.
    #[error("profile `{name}` was deleted meanwhile")]
    Deleted {
        /// The profile.
        name: String,
    },
}

impl Fault for Error {
    fn inner(&self) -> Result<&dyn Fault, Code> {
        Err(match self {
            Self::Field(error) => return Ok(error),
            Self::Service(error) => return Ok(error),
            Self::UnknownProfile { .. } | Self::UnknownVersion { .. } | Self::Deleted { .. } => Code::UnknownProfile,
            Self::ProfileExists { .. } => Code::ProfileExists,
            Self::ProfileInUse { .. } => Code::ProfileInUse,
            Self::ProfileLimit { .. } | Self::SizeLimit { .. } => Code::ProfileLimit,
            Self::TooLarge { .. } | Self::FolderTooLarge { .. } => Code::BodyTooLarge,
            Self::WrongKind { .. } | Self::Unreadable { .. } => Code::Conflict,
            Self::Folder { .. } => Code::InvalidBody,
            Self::FolderTimeout | Self::ImportTimeout { .. } => Code::BodyTimeout,
        })
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}
