//! How the agent learns of a browser that the driver starts.
//!
//! Such a browser is the driver's child, so only the driver would learn of its end. The agent therefore gives the driver
//! its own program as the browser's binary. Run that way, the program starts the browser, reports its start and end over a
//! socket, and does nothing else.

use std::env;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};

use crate::domain::Domain;
use crate::ports;
use crate::process::{Exit, Process};

/// Names the socket to report to; set in the driver's environment, and so in the shim's.
pub(crate) const SOCKET: &str = "WARMPOOL_SHIM_SOCKET";
/// Names the browser to start.
pub(crate) const BROWSER: &str = "WARMPOOL_SHIM_BROWSER";
/// Reports that may wait to be read.
const REPORTS: usize = 8;
/// Longest line of a report, in bytes.
const MAX_LINE: u64 = 64;

/// Plays the browser if this process was started as one.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    let (socket, browser) = (env::var_os(SOCKET)?, env::var_os(BROWSER)?);
    Some(run(Path::new(&socket), Path::new(&browser)).unwrap_or(ExitCode::FAILURE))
}

fn run(socket: &Path, browser: &Path) -> io::Result<ExitCode> {
    Domain::Chromium.enter().map_err(io::Error::other)?;
    let mut report = UnixStream::connect(socket)?;
    let mut command = Command::new(browser);
    let mut child =
        ports::hide(&mut command).args(env::args_os().skip(1)).env_remove(SOCKET).env_remove(BROWSER).spawn()?;
    writeln!(report, "{}", child.id())?;
    let status = child.wait()?;
    // Zero stands for none: a signal of that number does not exist.
    writeln!(report, "{} {}", status.code().unwrap_or_default(), status.signal().unwrap_or_default())?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Browsers the driver started, in the order they reported.
pub(crate) struct Reports(mpsc::Receiver<Process>);

impl Reports {
    pub(crate) fn listen(socket: &Path) -> io::Result<Self> {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket)?;
        let (sender, receiver) = mpsc::channel(REPORTS);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(follow(stream, sender.clone()));
            }
        });
        Ok(Self(receiver))
    }

    /// The next browser that started.
    pub(crate) async fn next(&mut self) -> Option<Process> {
        self.0.recv().await
    }

    /// Discards reports that nobody has read.
    pub(crate) fn clear(&mut self) {
        while self.0.try_recv().is_ok() {}
    }
}

async fn follow(stream: tokio::net::UnixStream, started: mpsc::Sender<Process>) {
    let mut lines = BufReader::new(stream.take(2 * MAX_LINE)).lines();
    let Ok(Some(line)) = lines.next_line().await else { return };
    let Some(pid) = line.parse::<i32>().ok().filter(|&pid| pid > 1) else { return };
    let (exit, receiver) = watch::channel(None);
    let _ = started.try_send(Process::reported(pid, receiver));
    let end = match lines.next_line().await {
        Ok(Some(line)) => parse_exit(&line),
        // The shim was killed in the browser's stead.
        _ => {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            Exit { code: None, signal: Some(Signal::SIGKILL as i32) }
        }
    };
    exit.send_replace(Some(end));
}

fn parse_exit(line: &str) -> Exit {
    let mut numbers = line.split(' ').map(|number| number.parse::<i32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (_, Some(signal)) if signal != 0 => Exit { code: None, signal: Some(signal) },
        (code, _) => Exit { code, signal: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_report_becomes_a_process_that_ends() {
        let home = tempfile::tempdir().unwrap();
        let socket = home.path().join("socket");
        let mut reports = Reports::listen(&socket).unwrap();
        for (line, wanted) in [
            ("0 0", Exit { code: Some(0), signal: None }),
            ("7 0", Exit { code: Some(7), signal: None }),
            ("0 11", Exit { code: None, signal: Some(11) }),
        ] {
            let mut shim = UnixStream::connect(&socket).unwrap();
            // No process has this number, so a mistake here kills nobody.
            writeln!(shim, "{}", i32::MAX).unwrap();
            let browser = reports.next().await.unwrap();
            assert!(browser.running());
            writeln!(shim, "{line}").unwrap();
            assert_eq!(browser.exited().await, wanted, "{line}");
        }
    }

    #[tokio::test]
    async fn a_shim_that_is_killed_counts_as_a_kill() {
        let home = tempfile::tempdir().unwrap();
        let socket = home.path().join("socket");
        let mut reports = Reports::listen(&socket).unwrap();
        let mut shim = UnixStream::connect(&socket).unwrap();
        writeln!(shim, "{}", i32::MAX).unwrap();
        let browser = reports.next().await.unwrap();
        drop(shim);
        assert_eq!(browser.exited().await.signal, Some(9));
    }
}
