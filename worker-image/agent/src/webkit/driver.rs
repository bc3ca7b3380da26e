//! WebKitWebDriver, attached to the browser that runs.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use tokio::process::ChildStderr;
use tokio::time::{sleep, timeout};
use warmpool_protocol::Event;

use crate::display::Display;
use crate::engine::BootError;
use crate::output::follow;
use crate::ports::{self, LocalPort};
use crate::process::Process;
use crate::worker::Worker;

use super::INSPECTOR;

/// The program, and its name in messages.
const PROGRAM: &str = "WebKitWebDriver";
/// Where it listens.
const PORT: LocalPort = LocalPort::new(9515);
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two questions whether it is there, which nothing it prints tells.
const LOOK: Duration = Duration::from_millis(5);

/// A running driver.
pub(super) struct Driver {
    /// Where it listens.
    pub(super) port: LocalPort,
}

impl Driver {
    /// Starts the driver and waits until it takes sessions. Its end is told on the board.
    pub(super) async fn start(worker: &Worker, display: &Display) -> Result<Self, BootError> {
        let start = |source| BootError::Start { program: PROGRAM, source };
        let mut command = Command::new(PROGRAM);
        ports::hide_and_connect(&mut command)
            .args(["--host=127.0.0.1", &format!("--port={}", PORT.number())])
            .arg(format!("--target={}", INSPECTOR.authority()))
            .env("DISPLAY", &display.name)
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let (process, mut child) = worker.processes.spawn(&mut command).map_err(start)?;
        let pipe = child.stderr.take().ok_or_else(|| start(std::io::ErrorKind::BrokenPipe.into()))?;
        let (_, tail) = follow(ChildStderr::from_std(pipe).map_err(start)?, "\0");
        tokio::select! {
            ready = timeout(PATIENCE, answers(worker)) => {
                ready.map_err(|_| BootError::Slow { program: PROGRAM, output: tail.text() })?;
            }
            _ = process.exited() => return Err(BootError::Ended { program: PROGRAM, output: tail.text() }),
        }
        watch(worker, process);
        Ok(Self { port: PORT })
    }
}

async fn answers(worker: &Worker) {
    loop {
        let request = Request::new(Full::<Bytes>::default());
        let answer = worker.upstream.forward(request, PORT, "/status").await;
        if answer.is_ok_and(|answer| answer.status() == StatusCode::OK) {
            return;
        }
        sleep(LOOK).await;
    }
}

fn watch(worker: &Worker, process: Process) {
    let board = Arc::clone(&worker.board);
    tokio::spawn(async move {
        let exit = process.exited().await;
        tracing::warn!(code = exit.code, signal = exit.signal, "the driver has ended");
        board.note(&Event::DriverExited);
    });
}
