//! Firefox and its driver, behind [`crate::engine::Engine`].

use std::net::SocketAddr;
use std::sync::Arc;

use http::Response;

use crate::board::Identity;
use crate::body::Body;
use crate::engine::{BootError, Endpoint, NewSession};
use crate::error::ApiError;
use crate::settings::Settings;
use crate::worker::Worker;

/// Firefox, its driver and its display.
pub(crate) struct Firefox {
    worker: Arc<Worker>,
}

impl Firefox {
    /// Nothing runs yet.
    pub(crate) fn new(worker: Arc<Worker>) -> Self {
        Self { worker }
    }

    /// See [`crate::engine::Engine::boot`].
    pub(crate) async fn boot(&self) -> Result<Identity, BootError> {
        let _ = &self.worker.claim;
        Err(BootError::Undriveable("this image has no Firefox".into()))
    }

    /// See [`crate::engine::Engine::apply`].
    pub(crate) async fn apply(&self, _settings: Settings) -> Result<Vec<String>, ApiError> {
        Err(ApiError::upstream("no browser is running"))
    }

    /// See [`crate::engine::Engine::navigate`].
    pub(crate) async fn navigate(&self, _url: &str) -> Result<(), ApiError> {
        Err(ApiError::upstream("no browser is running"))
    }

    /// See [`crate::engine::Engine::ping`].
    pub(crate) async fn ping(&self) {}

    /// See [`crate::engine::Engine::devtools`].
    pub(crate) fn devtools(&self, _path: Option<&str>) -> Result<Endpoint, ApiError> {
        Err(ApiError::upstream("no browser is running"))
    }

    /// See [`crate::engine::Engine::debugging`].
    pub(crate) fn debugging(&self) -> Result<SocketAddr, ApiError> {
        Err(ApiError::upstream("no browser is running"))
    }

    /// See [`crate::engine::Engine::driver`].
    pub(crate) fn driver(&self) -> Result<SocketAddr, ApiError> {
        Err(ApiError::upstream("no browser is running"))
    }

    /// See [`crate::engine::Engine::bidi`].
    pub(crate) fn bidi(&self, _path: String) -> Result<Endpoint, ApiError> {
        Err(ApiError::upstream("no browser is running"))
    }

    /// See [`crate::engine::Engine::oversees`].
    pub(crate) fn oversees(&self, _path: &str) -> bool {
        false
    }

    /// See [`crate::engine::Engine::before_command`].
    pub(crate) async fn before_command(&self, _body: &[u8]) {}

    /// See [`crate::engine::Engine::new_session`].
    pub(crate) async fn new_session(&self, _wanted: NewSession) -> Result<Response<Body>, ApiError> {
        Err(ApiError::upstream("no browser is running"))
    }
}
