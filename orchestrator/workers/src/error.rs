//! What can go wrong with the pool and what leaves a worker.

use std::time::Duration;

use warmpool_core::browser::Engine;
use warmpool_core::error::{Code, Fault, FieldError, ServiceError};

/// What can go wrong, as a client sees it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field of the request cannot be used.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The daemon cannot serve now, or has failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The waiting room is full.
    #[error("all {sessions} sessions are in use and {waiting} callers wait already: try again later")]
    QueueFull {
        /// The maximum number of sessions.
        sessions: usize,
        /// How many wait.
        waiting: usize,
    },
    /// The key has as many sessions as it may have.
    #[error("this key has {limit} sessions, running or asked for, and may not have more: end one first")]
    KeyLimit {
        /// `session.max_per_key`.
        limit: usize,
    },
    /// No worker came free in time.
    #[error("no browser came free within {} seconds: try again later", waited.as_secs())]
    NoWorker {
        /// How long the request waited.
        waited: Duration,
    },
    /// The image of that engine is not on this host.
    #[error("{engine} is not installed here: {}", remedy_for_image(*engine, image, build.as_deref()))]
    NoEngine {
        /// The engine that was asked for.
        engine: Engine,
        /// The image's name.
        image: String,
        /// What the build of the image does now, where one runs.
        build: Option<String>,
    },
    /// Workers of this kind fail to start, again and again.
    #[error("no browser of {kind} starts here: {reason}")]
    NoStart {
        /// The engine and mode.
        kind: String,
        /// Why the last one did not.
        reason: String,
    },
    /// No upstream proxy answers of those that would do.
    #[error("no upstream proxy answers there at the moment: try again later")]
    NoUpstream,
}

impl Fault for Error {
    fn inner(&self) -> Result<&dyn Fault, Code> {
        Err(match self {
            Self::Field(error) => return Ok(error),
            Self::Service(error) => return Ok(error),
            Self::QueueFull { .. } => Code::QueueFull,
            Self::KeyLimit { .. } => Code::KeyLimit,
            Self::NoWorker { .. } => Code::NoWorker,
            Self::NoEngine { .. } => Code::EngineNotInstalled,
            Self::NoStart { .. } => Code::BrowserNotStarting,
            Self::NoUpstream => Code::ProxyUnavailable,
        })
    }

    fn field(&self) -> Option<&str> {
        match self {
            Self::NoEngine { .. } => Some("browser_type"),
            _ => self.inner().ok()?.field(),
        }
    }
}

fn remedy_for_image(engine: Engine, image: &str, build: Option<&str>) -> String {
    match build {
        Some(build) => format!("its image, `{image}`, is being built now ({build}); try again in a few minutes"),
        None => format!(
            "build its image, `{image}`, with `./scripts/images --engine {engine}`, or load a packed one with `docker load`"
        ),
    }
}
