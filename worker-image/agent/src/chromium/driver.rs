//! Chromedriver.

use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tokio::process::ChildStdout;
use tokio::time::timeout;
use warmpool_protocol::Event;

use crate::engine::BootError;
use crate::error::ApiError;
use crate::output::follow;
use crate::ports::{self, LocalPort};
use crate::process::Process;
use crate::upstream::Upstream;
use crate::worker::Worker;

/// Where the driver listens.
const PORT: LocalPort = LocalPort::new(9515);
/// What it prints once it listens.
const READY: &str = "started successfully";
/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(30);
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
    /// Starts the driver and waits until it takes sessions. Its end is told on the board.
    pub(super) async fn start(worker: &Worker, environment: &[(&str, String)]) -> Result<Self, BootError> {
        let start = |source| BootError::Start { program: PROGRAM, source };
        let mut command = Command::new(PROGRAM);
        ports::hide_and_connect(&mut command)
            .arg(format!("--port={}", PORT.number()))
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let (process, mut child) = worker.processes.spawn(&mut command).map_err(start)?;
        let pipe = child.stdout.take().ok_or_else(|| start(std::io::ErrorKind::BrokenPipe.into()))?;
        let (ready, tail) = follow(ChildStdout::from_std(pipe).map_err(start)?, READY);
        match timeout(PATIENCE, ready).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => return Err(BootError::Ended { program: PROGRAM, output: tail.text() }),
            Err(_) => return Err(BootError::Slow { program: PROGRAM, output: tail.text() }),
        }
        let version = status(&worker.upstream, PORT).await?;
        watch(worker, process);
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

fn watch(worker: &Worker, process: Process) {
    let board = std::sync::Arc::clone(&worker.board);
    tokio::spawn(async move {
        let exit = process.exited().await;
        tracing::warn!(code = exit.code, signal = exit.signal, "the driver has ended");
        board.note(&Event::DriverExited);
    });
}
