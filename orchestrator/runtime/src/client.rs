//! The one way to the engine: each call has a deadline, and ends with the last byte of its answer.
//!
//! bollard limits only the wait for the head of an answer, so an engine that stops in the middle of a body would keep its
//! caller for ever. The connection is therefore private to this module: nobody can make a call that has no deadline.

mod plain;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error as Bollard;
use tokio::time::timeout;

use super::RuntimeError;
use warmpool_config::Config;

/// A client of one engine. Clones share its connections.
#[derive(Clone)]
pub(super) struct Client {
    connection: Docker,
    engine: Arc<Engine>,
}

/// Where the engine listens, and how long its answers may take.
struct Engine {
    socket: PathBuf,
    /// `docker.timeout`.
    look: Duration,
    /// `docker.work_timeout`.
    work: Duration,
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// The engine refused it, or the connection broke.
    #[error(transparent)]
    Engine(#[from] Bollard),
    /// The engine did not answer, or not to the end.
    #[error("no whole answer within {} s", .0.as_secs())]
    Slow(Duration),
}

impl Client {
    /// A client of the engine that `config` names, which has answered once.
    /// Errors: [`RuntimeError::Unreachable`].
    pub(super) async fn connect(config: &Config) -> Result<Self, RuntimeError> {
        let docker = &config.docker;
        let engine =
            Engine { socket: docker.host.socket().to_owned(), look: docker.timeout, work: docker.work_timeout };
        let unreachable = |error: &dyn std::fmt::Display| RuntimeError::Unreachable(error.to_string());
        // The deadlines below come first.
        let latest = engine.look.max(engine.work).as_secs() + 1;
        let socket = engine.socket.to_string_lossy();
        let connection = Docker::connect_with_unix(&socket, latest, bollard::API_DEFAULT_VERSION)
            .map_err(|error| unreachable(&error))?;
        let connection =
            within(engine.look, connection.negotiate_version()).await.map_err(|error| unreachable(&error))?;
        Ok(Self { connection, engine: Arc::new(engine) })
    }

    /// Asks the engine something that it knows, or changes a word of it: within `docker.timeout`.
    pub(super) async fn look<T, F>(&self, call: impl FnOnce(Docker) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Bollard>>,
    {
        within(self.engine.look, call(self.connection.clone())).await
    }

    /// Makes a call that starts or removes something, within `docker.work_timeout`: the engine forks, mounts and wires networks.
    pub(super) async fn work<T, F>(&self, call: impl FnOnce(Docker) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Bollard>>,
    {
        within(self.engine.work, call(self.connection.clone())).await
    }

    /// Where the engine listens.
    fn socket(&self) -> &Path {
        &self.engine.socket
    }
}

/// The answer, if all of it comes in time. What is under way is dropped then, and its connection with it.
async fn within<T, E>(limit: Duration, answer: impl Future<Output = Result<T, E>>) -> Result<T, CallError>
where
    CallError: From<E>,
{
    Ok(timeout(limit, answer).await.map_err(|_| CallError::Slow(limit))??)
}

/// The status with which the engine answered, where it did.
pub(super) fn status(error: &CallError) -> Option<u16> {
    match error {
        CallError::Engine(Bollard::DockerResponseServerError { status_code, .. }) => Some(*status_code),
        CallError::Engine(_) | CallError::Slow(_) => None,
    }
}

/// An answer of the engine is a refusal; anything else means that it could not be asked.
pub(super) fn refused(action: &'static str, error: CallError) -> RuntimeError {
    match error {
        CallError::Engine(Bollard::DockerResponseServerError { message, .. }) => {
            RuntimeError::Refused { action, message }
        }
        other => RuntimeError::Unreachable(format!("it was asked to {action}: {other}")),
    }
}

#[cfg(test)]
mod tests;
