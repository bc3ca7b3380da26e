//! What keeps the daemon from running.

use std::net::SocketAddr;

use warmpool_core::instance::InstanceError;
use warmpool_keys::KeyError;
use warmpool_runtime::RuntimeError;
use warmpool_store::StoreError;
use warmpool_webhooks::WebhookError;
use warmpool_workers::captcha::CaptchaError;
use warmpool_worlds::PatientsError;

/// Why the daemon does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// A file of authorities has no certificates.
    #[error("egress.ca_certificates: {0}: name files with certificates in PEM form, which this user can read")]
    CaCertificates(String),
    /// The store cannot be opened or closed.
    #[error("the store: {0}")]
    Store(#[from] StoreError),
    /// A part of the start panicked.
    #[error("the start: {0}")]
    Panic(tokio::task::JoinError),
    /// The file with this daemon's identity cannot be used.
    #[error("the instance file: {0}")]
    Instance(#[from] InstanceError),
    /// The keys cannot be read, or the first one not be made.
    #[error("the keys: {0}")]
    Keys(#[from] KeyError),
    /// The records of sessions cannot be read.
    #[error("the session records: {0}")]
    Records(warmpool_sessions::Error),
    /// The records of tasks cannot be read.
    #[error("the task records: {0}")]
    Tasks(warmpool_tasks::Error),
    /// The extensions cannot be read.
    #[error("the extensions: {0}")]
    Extensions(warmpool_extensions::Error),
    /// The profiles cannot be read.
    #[error("the profiles: {0}")]
    Profiles(warmpool_profiles::Error),
    /// The worlds cannot be read, or the key of their patients' names is another one.
    #[error("the worlds: {0}")]
    Worlds(#[from] PatientsError),
    /// The sign for the command line that the daemon is starting cannot be given.
    #[error("the sign that it is starting: {0}")]
    Starting(std::io::Error),
    /// The socket for the command line cannot be made.
    #[error("the control socket: {0}")]
    Control(std::io::Error),
    /// Nobody can read where the daemon listens.
    #[error("standard output: {0}")]
    Output(std::io::Error),
    /// The secrets of `captcha` cannot be used.
    #[error(transparent)]
    Captchas(#[from] CaptchaError),
    /// The secret of `webhooks` cannot be used, or what is kept of them not be read.
    #[error(transparent)]
    Webhooks(#[from] WebhookError),
    /// The system's certificates cannot be used.
    #[error("the system's certificates: {0}")]
    Certificates(std::io::Error),
    /// The engine, or the network of workers, is not fit for them.
    #[error(transparent)]
    Unfit(RuntimeError),
    /// Somebody else has the workers, and waiting for them is pointless.
    #[error(transparent)]
    NotOwned(RuntimeError),
    /// Other hosts could use a daemon that no key protects.
    #[error("other hosts can reach {listen}, and no key is valid: make one with `warmpool key create`")]
    NoKey {
        /// `server.listen`.
        listen: SocketAddr,
    },
}
