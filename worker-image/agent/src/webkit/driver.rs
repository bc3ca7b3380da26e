//! WebKitWebDriver, attached to the browser that runs.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use tokio::time::sleep;

use crate::display::Display;
use crate::domain::Domain;
use crate::error::BootError;
use crate::ports::{self, LocalPort};
use crate::program::Program;
use crate::worker::Worker;

use super::inspector::INSPECTOR;

/// The program's name in messages.
const PROGRAM: &str = "WebKitWebDriver";
/// Where it listens.
const PORT: LocalPort = LocalPort::new(9515);
/// How long it may take to answer.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two requests for its status: it prints nothing when it is ready.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A running driver.
pub(super) struct Driver {
    /// Where it listens.
    pub(super) port: LocalPort,
}

impl Driver {
    /// Starts the driver and waits until it takes sessions. The daemon learns of its end.
    pub(super) async fn start(worker: &Arc<Worker>, display: &Display) -> Result<Self, BootError> {
        let mut command = Command::new(Domain::WebkitDriver.program());
        ports::hide_and_connect(&mut command)
            .args(["--host=127.0.0.1", &format!("--port={}", PORT.number())])
            .arg(format!("--target={}", INSPECTOR.authority()))
            .env("DISPLAY", &display.name)
            .env("LC_ALL", "C.UTF-8");
        let program = Program::start(&worker.processes, Domain::WebkitDriver, PROGRAM, &mut command, None)?;
        program
            .until(START_TIMEOUT, async {
                answers(worker).await;
                Ok(())
            })
            .await?;
        worker.watch_driver(&program.process);
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
        sleep(POLL_INTERVAL).await;
    }
}
