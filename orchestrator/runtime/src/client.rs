//! The one way to the engine: each call has a deadline, and ends with the last byte of its answer.
//!
//! bollard limits only the wait for the head of an answer, so an engine that stops in the middle of a body would keep its
//! caller for ever. The connection is therefore private to this module: nobody can make a call that has no deadline.

mod plain;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error as Bollard;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::{EngineKind, RuntimeError};
use warmpool_config::Config;

/// A client of one engine. Clones share its connections.
#[derive(Clone)]
pub(super) struct Client {
    connection: Docker,
    kind: EngineKind,
    labels_containers: Arc<OnceCell<bool>>,
    limits: Arc<Limits>,
}

/// Where the engine listens, and how long its answers may take.
struct Limits {
    socket: PathBuf,
    /// `docker.timeout`.
    look: Duration,
    /// `docker.work_timeout`.
    work: Duration,
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// There is no connection to the engine.
    #[error(transparent)]
    Connect(#[from] RuntimeError),
    /// The engine refused the call, or the connection broke.
    #[error("{source}")]
    Engine { action: &'static str, source: Bollard },
    /// The engine did not answer, or not to the end.
    #[error("{}", slow(*.limit))]
    Slow { action: &'static str, limit: Duration },
}

fn slow(limit: Duration) -> String {
    format!("no whole answer within {} s", limit.as_secs())
}

impl CallError {
    /// The status with which the engine answered, where it did.
    pub(super) const fn status(&self) -> Option<u16> {
        match self {
            Self::Engine { source: Bollard::DockerResponseServerError { status_code, .. }, .. } => Some(*status_code),
            Self::Connect(_) | Self::Engine { .. } | Self::Slow { .. } => None,
        }
    }

    /// The error where any answer but success means that the engine cannot be used.
    pub(super) fn unreachable(self) -> RuntimeError {
        match self {
            Self::Connect(error) => error,
            other => RuntimeError::Unreachable(other.to_string()),
        }
    }
}

/// An error that the engine answered is a refusal; anything else means that it could not be asked.
impl From<CallError> for RuntimeError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Connect(error) => error,
            CallError::Engine { action, source: Bollard::DockerResponseServerError { message, .. } } => {
                Self::Refused { action, message }
            }
            CallError::Engine { action, .. } | CallError::Slow { action, .. } => {
                Self::Unreachable(format!("it was asked to {action}: {error}"))
            }
        }
    }
}

/// The result of a call to the engine.
pub(super) type Answer<T> = Result<T, CallError>;

/// Returns the answer, or none where the engine answered with one of these statuses.
pub(super) fn unless<T>(statuses: &[u16], answer: Answer<T>) -> Answer<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.status().is_some_and(|status| statuses.contains(&status)) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Client {
    /// A client of the engine that `config` names, which has answered once.
    /// Errors: [`RuntimeError::Unreachable`].
    pub(super) async fn connect(config: &Config) -> Result<Self, RuntimeError> {
        let docker = &config.docker;
        let limits =
            Limits { socket: docker.host.socket().to_owned(), look: docker.timeout, work: docker.work_timeout };
        // The deadlines below come first.
        let latest = limits.look.max(limits.work).as_secs() + 1;
        let socket = limits.socket.to_string_lossy();
        let connection = Docker::connect_with_unix(&socket, latest, bollard::API_DEFAULT_VERSION)
            .map_err(|error| RuntimeError::Unreachable(error.to_string()))?;
        let connection = within(limits.look, "negotiate its version", connection.negotiate_version()).await;
        let connection = connection.map_err(CallError::unreachable)?;
        let version = within(limits.look, "report its version", connection.version()).await;
        let kind = EngineKind::of(&version.map_err(CallError::unreachable)?, config)?;
        Ok(Self { connection, kind, labels_containers: Arc::default(), limits: Arc::new(limits) })
    }

    /// Which engine it is.
    pub(super) const fn kind(&self) -> EngineKind {
        self.kind
    }

    /// Whether it labels its containers for SELinux, once it was asked.
    pub(super) fn labels_containers(&self) -> &OnceCell<bool> {
        &self.labels_containers
    }

    /// Asks the engine to do `action`, which only reads or changes a record, within `docker.timeout`.
    pub(super) async fn look<T, F>(&self, action: &'static str, call: impl FnOnce(Docker) -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, Bollard>>,
    {
        within(self.limits.look, action, call(self.connection.clone())).await
    }

    /// Asks the engine to do `action`, which starts or removes something, within `docker.work_timeout`: the engine has to fork,
    /// to mount and to connect networks.
    pub(super) async fn work<T, F>(&self, action: &'static str, call: impl FnOnce(Docker) -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, Bollard>>,
    {
        within(self.limits.work, action, call(self.connection.clone())).await
    }
}

/// Returns the answer, if all of it comes in time. Otherwise the call is dropped, and its connection with it.
async fn within<T>(
    limit: Duration,
    action: &'static str,
    answer: impl Future<Output = Result<T, Bollard>>,
) -> Answer<T> {
    match timeout(limit, answer).await {
        Ok(answer) => answer.map_err(|source| CallError::Engine { action, source }),
        Err(_) => Err(CallError::Slow { action, limit }),
    }
}

#[cfg(test)]
mod tests;
