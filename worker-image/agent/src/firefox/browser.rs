//! One running Firefox.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;
use warmpool_protocol::Size;

use crate::domain::Domain;
use crate::error::BootError;
use crate::ports::{self, LocalPort};
use crate::process::Process;
use crate::program::{Program, ReadySign};
use crate::worker::Worker;

use super::bidi;
use super::control::{Control, ControlError, ControlSocket, Hello};

/// The program's name in messages.
const NAME: &str = "firefox";
/// Where WebDriver BiDi is spoken.
const BIDI_PORT: LocalPort = LocalPort::new(9222);
/// What it prints once that port listens.
const READY: &str = "WebDriver BiDi listening on";
/// What its first tab shows.
const BLANK: &str = "about:blank";
/// Tabs and address bar, in pixels.
pub(super) const BARS: u32 = 85;
/// How long it may take, and how long its first page may.
const START_TIMEOUT: Duration = Duration::from_secs(45);
/// Variables that take a process's sandbox away, each its own.
const UNSANDBOXED: [&str; 6] = ["CONTENT", "GMP", "GPU", "RDD", "SOCKET_PROCESS", "UTILITY"];

/// How a browser is started.
#[derive(Debug)]
pub(super) struct Start<'a> {
    /// Its profile, which exists.
    pub(super) profile: &'a Path,
    /// Switches beside the agent's own.
    pub(super) args: &'a [String],
    /// Variables of a client's.
    pub(super) environment: &'a [(String, String)],
    pub(super) display: Option<&'a str>,
}

/// A running browser with the agent's own channel to it.
pub(super) struct Browser {
    /// Its main process.
    pub(super) process: Process,
    /// Its WebDriver BiDi port.
    pub(super) port: LocalPort,
    /// The agent's own channel.
    pub(super) control: Control,
    /// What it said of itself.
    pub(super) hello: Hello,
}

impl Browser {
    /// Starts a browser and waits until it takes sessions.
    pub(super) async fn start(worker: &Arc<Worker>, how: Start<'_>) -> Result<Self, BootError> {
        let start = |source| BootError::Start { program: NAME, source };
        let claim = &worker.claim;
        let door = ControlSocket::open(how.profile.with_extension("control")).map_err(start)?;
        let mut command = Command::new(Domain::Firefox.program());
        ports::hide(&mut command)
            .args(base_args(window(claim.page)))
            .args([
                "--no-remote",
                "--marionette",
                "--remote-debugging-port",
                &BIDI_PORT.number().to_string(),
                "--profile",
            ])
            .arg(how.profile)
            .args(how.args)
            .arg(BLANK)
            .envs(how.environment.iter().map(|(name, value)| (name, value)))
            .envs(how.display.map(|name| ("DISPLAY", name)))
            .env("WARMPOOL_CONTROL", door.path())
            .env("WARMPOOL_DOWNLOADS", worker.files.downloads())
            .env("MOZ_CRASHREPORTER_DISABLE", "1")
            // There is no desktop to ask.
            .env("NO_AT_BRIDGE", "1")
            .env("GSETTINGS_BACKEND", "memory");
        if !claim.sandbox {
            command.envs(UNSANDBOXED.map(|process| (format!("MOZ_DISABLE_{process}_SANDBOX"), "1")));
        }
        let program =
            Program::start(&worker.processes, Domain::Firefox, NAME, &mut command, Some(ReadySign::Stderr(READY)))?;
        let entered = async {
            match door.enter(Arc::clone(worker)).await {
                Err(ControlError::Closed) => Err(program.ended().await),
                entered => entered.map_err(|error| BootError::Undriveable(error.to_string())),
            }
        };
        let both = async { tokio::try_join!(entered, program.ready()) };
        let ((control, hello), _) = program.until(START_TIMEOUT, both).await?;
        let process = program.process.clone();
        if claim.sandbox && !is_sandboxed(&hello, &program) {
            process.kill().await;
            return Err(BootError::NoSandbox);
        }
        Ok(Self { process, port: BIDI_PORT, control, hello })
    }

    /// Waits until the first page has painted and a session can drive one.
    pub(super) async fn warm_up(&self) -> Result<(), BootError> {
        in_time(async {
            self.painted().await.map_err(|e| e.to_string())?;
            bidi::rehearse(self.port).await
        })
        .await
    }

    /// Waits until the first page has painted: less than [`Browser::warm_up`], for a client who waits.
    pub(super) async fn prepare(&self) -> Result<(), BootError> {
        in_time(async { self.painted().await.map_err(|e| e.to_string()) }).await
    }

    /// Waits until the first page has painted.
    async fn painted(&self) -> Result<(), ControlError> {
        self.control.call("painted", json!({})).await.map(drop)
    }
}

/// Waits for the first page as long as a start may take. The error says why it cannot be driven.
async fn in_time(driven: impl Future<Output = Result<(), String>>) -> Result<(), BootError> {
    match timeout(START_TIMEOUT, driven).await {
        Ok(driven) => driven.map_err(BootError::Undriveable),
        Err(_) => Err(BootError::Undriveable("its first page does not answer".into())),
    }
}

/// The size of a window whose page is so large, and of the display that it fills.
pub(super) const fn window(page: Size) -> Size {
    page.below(BARS)
}

/// Switches of every browser that a client could have chosen.
pub(super) fn base_args(display: Size) -> Vec<String> {
    vec![format!("--width={}", display.width), format!("--height={}", display.height)]
}

/// Whether pages are held in by the kernel, as far as Firefox knows.
fn is_sandboxed(hello: &Hello, program: &Program) -> bool {
    hello.sandboxed && !program.output().contains("CanCreateUserNamespace")
}
