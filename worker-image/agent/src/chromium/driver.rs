//! Chromedriver.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use crate::domain::Domain;
use crate::error::{ApiError, BootError};
use crate::ports::{self, LocalPort};
use crate::program::{Program, ReadySign};
use crate::upstream::Upstream;
use crate::worker::Worker;

/// Where the driver listens.
const PORT: LocalPort = LocalPort::new(9515);
/// What it prints once it listens.
const READY: &str = "started successfully";
/// How long it may take.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Its name in messages.
const PROGRAM: &str = "chromedriver";

/// A running driver.
pub(super) struct Driver {
    /// Where it listens.
    pub(super) port: LocalPort,
    /// Name and version.
    pub(super) version: String,
}

impl Driver {
    /// Starts the driver and waits until it takes sessions. The daemon learns of its end.
    pub(super) async fn start(worker: &Arc<Worker>, environment: &[(&str, String)]) -> Result<Self, BootError> {
        let mut command = Command::new(Domain::Chromedriver.program());
        ports::hide_and_connect(&mut command)
            .arg(format!("--port={}", PORT.number()))
            .envs(environment.iter().map(|(name, value)| (name, value)));
        let program = Program::start(
            &worker.processes,
            Domain::Chromedriver,
            PROGRAM,
            &mut command,
            Some(ReadySign::Stdout(READY)),
        )?;
        program.until(START_TIMEOUT, program.ready()).await?;
        let version = status(&worker.upstream, PORT).await?;
        worker.watch_driver(&program.process);
        Ok(Self { port: PORT, version })
    }
}

/// Asks whether the driver takes sessions. Returns its name and version.
async fn status(upstream: &Upstream, port: LocalPort) -> Result<String, BootError> {
    let undriveable = |e: String| BootError::Undriveable(e);
    let request = Request::builder()
        .method(Method::GET)
        .body(Full::<Bytes>::default())
        .map_err(|e| undriveable(e.to_string()))?;
    let (status, body) = exchange(upstream, request, port, "/status").await.map_err(|e| undriveable(e.to_string()))?;
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status != StatusCode::OK || value["value"]["ready"] != true {
        return Err(undriveable("the driver says it is not ready".into()));
    }
    let version = value["value"]["build"]["version"].as_str().unwrap_or_default();
    let version = version.split(' ').next().unwrap_or_default();
    Ok(format!("ChromeDriver/{version}"))
}

/// One request with a small body, answered by another.
pub(super) async fn exchange(
    upstream: &Upstream,
    request: Request<Full<Bytes>>,
    port: LocalPort,
    path: &str,
) -> Result<(StatusCode, Bytes), ApiError> {
    let response = upstream.forward(request, port, path).await?;
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map_err(|e| ApiError::upstream(e.to_string()))?.to_bytes();
    Ok((parts.status, body))
}
