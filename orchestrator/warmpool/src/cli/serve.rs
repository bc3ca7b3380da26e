//! `warmpool serve`: the daemon.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;

use anyhow::Context as _;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::daemon::{self, End, Shutdown};
use crate::http::Listener;
use crate::telemetry::{self, flush_log};
use warmpool_client::exit::Exit;
use warmpool_config::Config;
use warmpool_core::tls::Tls;

pub(super) async fn serve(config: Arc<Config>) -> anyhow::Result<Exit> {
    let traces = telemetry::start_log(&config)?;
    raise_open_files();
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let metrics = telemetry::start_metrics()?;
    telemetry::report_panics();
    let tls = match (&config.server.tls_cert, &config.server.tls_key) {
        (Some(cert), Some(key)) => Some(Arc::new(Tls::load(cert, key)?)),
        _ => None,
    };
    let socket = TcpListener::bind(config.server.listen)
        .await
        .with_context(|| format!("cannot listen on {}: set server.listen to a free address", config.server.listen))?;
    let listener = Listener { socket, tls };
    let line = format!("listening on {}://{}", listener.scheme(), listener.socket.local_addr()?);
    // Programs that start the daemon on port 0 read it.
    let announce = || writeln!(io::stdout(), "{line}").and_then(|()| io::stdout().flush());
    let shutdown = Shutdown::default();
    tokio::spawn(follow_signals(shutdown.clone())?);
    let end = daemon::run(config, listener, metrics, shutdown, announce).await;
    traces.shutdown().await;
    match end? {
        End::Drained => Ok(Exit::Success),
        End::SessionsKept => end_at_once(Exit::Success),
        End::Left { .. } => end_at_once(Exit::Left),
        End::Superseded => end_at_once(Exit::Superseded),
        End::Replaced => {
            tracing::error!(error = %run_anew(), "the program cannot be started again");
            end_at_once(Exit::Failure)
        }
    }
}

/// Ends the process without waiting for what still runs in it, but for its log.
fn end_at_once(exit: Exit) -> ! {
    flush_log();
    std::process::exit(exit as i32)
}

/// The first SIGTERM or SIGINT drains, the second ends. The first SIGUSR2 replaces the program once nothing runs, the second
/// at once.
fn follow_signals(shutdown: Shutdown) -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut replace = signal(SignalKind::user_defined2())?;
    let ends = async move {
        for token in [shutdown.drain, shutdown.force] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            token.cancel();
        }
    };
    let replaces = async move {
        for token in [shutdown.replace, shutdown.replace_now] {
            replace.recv().await;
            token.cancel();
        }
    };
    Ok(async move {
        tokio::join!(ends, replaces);
    })
}

/// Runs what the path of this program leads to by now, in this process and with the same arguments. Returns only where it
/// cannot.
fn run_anew() -> io::Error {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_else(|| "warmpool".into());
    tracing::info!(program = %program.display(), "starting anew; sessions go on");
    // The log's thread ends here.
    flush_log();
    Command::new(program).args(arguments).exec()
}

/// Each session takes a few descriptors; the usual soft limit of 1024 is for programs that use `select`.
fn raise_open_files() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}
