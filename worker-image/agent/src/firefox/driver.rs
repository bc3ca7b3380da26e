//! Geckodriver.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::body::Body;
use crate::domain::Domain;
use crate::error::{ApiError, BootError};
use crate::ports::{self, LocalPort};
use crate::program::{Program, ReadySign};
use crate::worker::Worker;

/// Where the driver listens.
const PORT: LocalPort = LocalPort::new(4445);
/// Port at which Firefox waits for its driver.
const MARIONETTE_PORT: u16 = 2828;
/// What it prints once it listens.
const READY: &str = "Listening on";
/// Where the image keeps what it says of its version: `geckodriver 0.37.1 (…)` in the first line.
const VERSION: &str = "/usr/local/share/warmpool/geckodriver-version";
/// How long it may take.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Its name in messages.
const PROGRAM: &str = "geckodriver";

/// A running driver, for whichever browser runs beside it.
pub(super) struct Driver {
    /// Where it listens.
    pub(super) port: LocalPort,
    /// Name and version.
    pub(super) version: String,
}

impl Driver {
    /// Starts the driver and waits until it listens. The daemon learns of its end.
    pub(super) async fn start(worker: &Arc<Worker>) -> Result<Self, BootError> {
        let mut command = Command::new(Domain::Geckodriver.program());
        ports::hide_and_connect(&mut command)
            .args(["--host", "127.0.0.1", "--port", &PORT.number().to_string(), "--connect-existing"])
            .args(["--marionette-port", &MARIONETTE_PORT.to_string()]);
        let program = Program::start(
            &worker.processes,
            Domain::Geckodriver,
            PROGRAM,
            &mut command,
            Some(ReadySign::Stdout(READY)),
        )?;
        program.until(START_TIMEOUT, program.ready()).await?;
        let said = fs::read_to_string(VERSION).map_err(|source| BootError::Start { program: PROGRAM, source })?;
        let number = said.split_whitespace().nth(1).unwrap_or_default();
        worker.watch_driver(&program.process);
        Ok(Self { port: PORT, version: format!("{PROGRAM}/{number}") })
    }

    /// Asks for a session and returns what the driver answers.
    pub(super) async fn new_session(&self, worker: &Worker, capabilities: Value) -> Result<Response<Body>, ApiError> {
        let body = json!({"capabilities": capabilities}).to_string();
        self.ask(worker, Method::POST, "/session", body).await
    }

    async fn ask(&self, worker: &Worker, method: Method, path: &str, body: String) -> Result<Response<Body>, ApiError> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        worker.upstream.forward(request, self.port, path).await
    }

    /// Opens a session, drives the first page and ends the session again, as a client will.
    pub(super) async fn rehearse(&self, worker: &Worker) -> Result<(), ApiError> {
        let answer = read(self.new_session(worker, json!({"alwaysMatch": {"webSocketUrl": true}})).await?).await?;
        let id = answer["value"]["sessionId"].as_str().unwrap_or_default();
        let execute = json!({"script": "return 1", "args": []}).to_string();
        let find = json!({"using": "css selector", "value": "html"}).to_string();
        for (method, command, body) in [
            (Method::POST, "/execute/sync", execute),
            (Method::POST, "/elements", find),
            (Method::GET, "/screenshot", String::new()),
            (Method::DELETE, "", String::new()),
        ] {
            read(self.ask(worker, method, &format!("/session/{id}{command}"), body).await?).await?;
        }
        Ok(())
    }
}

async fn read(response: Response<Body>) -> Result<Value, ApiError> {
    let failed = |e: &dyn std::fmt::Display| ApiError::upstream(e.to_string());
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map_err(|e| failed(&e))?.to_bytes();
    let value: Value = serde_json::from_slice(&body).map_err(|e| failed(&e))?;
    if parts.status != StatusCode::OK {
        return Err(failed(&value["value"]["message"].as_str().unwrap_or("the driver refused a session")));
    }
    Ok(value)
}
