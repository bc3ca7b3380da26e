//! `warmpool serve`: the daemon.

use std::io::{self, IsTerminal as _, Write as _};
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
    forbid_core_dumps();
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
    tokio::spawn(follow_signals(shutdown.clone(), io::stdin().is_terminal())?);
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
/// at once. SIGHUP, which other daemons take for an order to read their settings anew, ends nothing but a daemon of a terminal that is
/// closed.
fn follow_signals(shutdown: Shutdown, has_terminal: bool) -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut replace = signal(SignalKind::user_defined2())?;
    let hang_up = if has_terminal { None } else { Some(signal(SignalKind::hangup())?) };
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
    let explains = async move {
        let Some(mut hang_up) = hang_up else { return };
        while hang_up.recv().await.is_some() {
            tracing::info!("SIGHUP: settings are read at a start only; a renewed certificate is taken up anyway");
        }
    };
    Ok(async move {
        tokio::join!(ends, replaces, explains);
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

/// A dump of this process' memory would have the keys of all profiles, and lie where others read it.
fn forbid_core_dumps() {
    if let Err(error) = setrlimit(Resource::RLIMIT_CORE, 0, 0) {
        // A unit of systemd that keeps the daemon from setting limits has set this one.
        tracing::debug!(%error, "the limit of core dumps could not be set");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use nix::sys::signal::{Signal, raise};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_hangup_ends_nothing_and_is_answered_in_the_log() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let lines = tracing_subscriber::fmt().with_writer(Arc::new(log.reopen().unwrap())).finish();
        let _listening = tracing::subscriber::set_default(lines);
        let shutdown = Shutdown::default();
        let signals = follow_signals(shutdown.clone(), false).unwrap();
        // It ends this process where nobody takes it.
        raise(Signal::SIGHUP).unwrap();
        let told = async {
            while !fs::read_to_string(log.path()).unwrap().contains("settings are read at a start only") {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = signals => panic!("nobody follows the signals any more"),
            told = timeout(Duration::from_secs(30), told) => told.unwrap(),
        }
        for token in [shutdown.drain, shutdown.force, shutdown.replace, shutdown.replace_now] {
            assert!(!token.is_cancelled());
        }
    }

    #[test]
    fn no_memory_of_the_daemon_is_dumped() {
        forbid_core_dumps();
        assert_eq!(getrlimit(Resource::RLIMIT_CORE), Ok((0, 0)));
        // From the first moment on.
        let unit = include_str!("../../../../deploy/warmpool.service");
        assert!(unit.lines().any(|line| line == "LimitCORE=0"), "{unit}");
        for file in [include_str!("../../../../deploy/compose.yaml"), include_str!("../../../../deploy/swarm.yml")] {
            assert!(file.lines().any(|line| line.trim() == "ulimits: { core: 0 }"), "{file}");
        }
    }

    /// It would be wrong at each start.
    #[test]
    fn no_service_manager_tries_wrong_settings_again_and_again() {
        let unit = include_str!("../../../../deploy/warmpool.service");
        let wanted = format!("RestartPreventExitStatus={}", Exit::Usage as i32);
        assert!(unit.lines().any(|line| line == wanted), "{unit}");
    }
}
