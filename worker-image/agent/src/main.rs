//! PID 1 of a worker container.
//!
//! The agent starts a browser, its driver and its display, tells the daemon when a page can be
//! driven and how the browser ends, and is the one address at which the container is reached.
//!
//! | module | what it holds |
//! |---|---|
//! | `agent` | the life of a worker: claim, boot, launch, orphaned |
//! | `status` | state and event stream |
//! | `listener`, `server`, `body`, `percent`, `error` | that address: socket, routes, bodies, names, errors |
//! | `own_network`, `ports` | the other programs' network, which leads nowhere, and their ports, hidden from pages |
//! | `endpoint`, `tunnel`, `frames`, `upstream` | websockets and requests passed to browser and driver |
//! | `egress` | the browser's connections, handed to the daemon |
//! | `files`, `archive` | uploads and downloads |
//! | `engine` | the seam to the browser engines; `chromium`, `firefox` and `webkit` are behind it |
//! | `ads` | which requests are for ads, and what pages hide |
//! | `cdp` | the agent's own DevTools connection |
//! | `pages` | which pages there are, and what a viewer does to them |
//! | `recording` | the display as a stream of video |
//! | `process`, `program`, `freeze`, `oom`, `display`, `shim` | the container's processes |
//! | `domain`, `execution` | which programs may be executed, and tries to execute others |

mod ads;
mod agent;
mod archive;
mod body;
mod captchas;
mod cdp;
mod chromium;
mod display;
mod domain;
mod egress;
mod endpoint;
mod engine;
mod error;
mod execution;
mod files;
mod firefox;
mod frames;
mod freeze;
mod listener;
mod net_errors;
mod oom;
mod own_network;
mod pages;
mod percent;
mod ports;
mod probe;
mod process;
mod program;
mod recording;
mod remote_addresses;
mod server;
mod shim;
mod socks;
mod status;
mod tunnel;
mod upstream;
mod webkit;
mod window_manager;
mod worker;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::prctl;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;
use warmpool_protocol::LEAVE_NETWORK;

use agent::Agent;
use egress::Egress;
use listener::Listener;
use own_network::NetworkError;
use process::Processes;

/// How long an agent waits for a daemon to claim it.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(60);

/// Why the agent cannot run.
#[derive(Debug, thiserror::Error)]
enum AgentError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error("no domain of Landlock can be entered: {0}")]
    Domain(#[from] landlock::RulesetError),
}

fn main() -> ExitCode {
    if let Some(code) = shim::run_if_asked() {
        return code;
    }
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false)
        .with_max_level(tracing::Level::INFO)
        .compact()
        .init();
    match run() {
        Ok(code) => code,
        Err(error) => {
            tracing::error!(%error, "the agent cannot run");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode, AgentError> {
    // Before there is a second thread, which would stay outside.
    if !domain::confine_agent()? {
        tracing::warn!("this kernel has no Landlock: the image alone says which programs may be executed");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _inside = runtime.enter();
        Listener::bind()?
    };
    if std::env::var_os(LEAVE_NETWORK).is_some() {
        runtime.block_on(own_network::enter())?;
    }
    // A process of the same user, such as a browser somebody broke out of, must not read the
    // secret from our memory.
    prctl::set_dumpable(false).map_err(io::Error::from)?;
    Ok(runtime.block_on(serve(listener))?)
}

async fn serve(listener: Listener) -> io::Result<ExitCode> {
    let processes = Processes::default();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut children = signal(SignalKind::child())?;
    let reaped = processes.clone();
    tokio::spawn(async move {
        while children.recv().await.is_some() {
            reaped.reap();
        }
    });

    ports::prepare()?;
    let egress = Egress::listen().await?;
    let agent = Arc::new(Agent::new(processes.clone(), egress));
    tokio::spawn(server::serve(listener, Arc::clone(&agent)));
    let unclaimed = async {
        sleep(CLAIM_TIMEOUT).await;
        if agent.is_claimed() {
            std::future::pending::<()>().await;
        }
    };
    let code = tokio::select! {
        _ = terminate.recv() => ExitCode::SUCCESS,
        _ = interrupt.recv() => ExitCode::SUCCESS,
        () = agent.run() => ExitCode::SUCCESS,
        () = unclaimed => {
            tracing::warn!("no claim came");
            ExitCode::FAILURE
        }
    };
    processes.kill_all();
    freeze::kill_all();
    Ok(code)
}
