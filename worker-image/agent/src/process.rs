//! Child processes of the container: started here, reaped here.
//!
//! The agent is PID 1, so every orphan of the container becomes its child. One `waitpid(-1)` loop
//! reaps them all; a [`Process`] gives the status to those who wait for it.

use std::collections::HashMap;
use std::io;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::domain::Domain;
use crate::error::ApiError;

/// How a process ended. One of the two is known, or neither when the end was not observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Exit {
    /// Exit code, when the process ended by itself.
    pub(crate) code: Option<i32>,
    /// Signal number, when a signal ended it.
    pub(crate) signal: Option<i32>,
}

impl Exit {
    /// Whether the process ended by itself with code 0.
    pub(crate) fn clean(self) -> bool {
        self.code == Some(0)
    }
}

/// A process whose end can be awaited by any number of tasks.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pid: i32,
    exit: watch::Receiver<Option<Exit>>,
    /// Set before the agent ends the process itself, so that nobody takes that for a crash.
    retired: Arc<AtomicBool>,
}

impl Process {
    /// A process whose end somebody else reports through `exit`.
    pub(crate) fn reported(pid: i32, exit: watch::Receiver<Option<Exit>>) -> Self {
        Self { pid, exit, retired: Arc::default() }
    }

    /// Waits for the end.
    pub(crate) async fn exited(&self) -> Exit {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(status) => status.unwrap_or_default(),
            Err(_) => Exit::default(),
        }
    }

    /// Whether it is still running, as far as is known.
    pub(crate) fn running(&self) -> bool {
        self.exit.borrow().is_none() && self.exit.has_changed().is_ok()
    }

    /// Sends a signal, unless the process has been reaped: its number may be another's by then.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.running() {
            let _ = kill(Pid::from_raw(self.pid), signal);
        }
    }

    /// Kills the process and waits until it is gone.
    pub(crate) async fn kill(&self) {
        self.signal(Signal::SIGKILL);
        self.exited().await;
    }

    /// Kills the process because another one takes its place.
    pub(crate) async fn retire(&self) {
        self.retired.store(true, Ordering::Release);
        self.kill().await;
    }

    /// Has the process end by itself because its files are wanted: `ask` tells it to, unless it has ended already.
    /// Fails when it did not end by itself, or not within `limit`: what it was writing may be torn.
    pub(crate) async fn end_cleanly(&self, ask: impl Future, limit: Duration) -> Result<(), ApiError> {
        self.retired.store(true, Ordering::Release);
        let ended = async {
            if self.running() {
                tokio::select! {
                    _ = self.exited() => {}
                    // One that is asked may be gone before it can answer.
                    _ = ask => {}
                }
            }
            self.exited().await
        };
        match timeout(limit, ended).await {
            Ok(exit) if exit.clean() => Ok(()),
            Ok(_) => Err(ApiError::upstream("the browser crashed")),
            Err(_) => Err(ApiError::upstream(format!(
                "the browser did not close its files within {} seconds",
                limit.as_secs()
            ))),
        }
    }

    /// Waits for the end; `None` when the agent retired the process.
    pub(crate) async fn ended_by_itself(&self) -> Option<Exit> {
        let exit = self.exited().await;
        (!self.retired.load(Ordering::Acquire)).then_some(exit)
    }
}

/// All processes somebody waits for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Processes {
    awaited: Arc<Mutex<HashMap<i32, watch::Sender<Option<Exit>>>>>,
}

impl Processes {
    /// Starts a command in its domain. The returned [`Child`] is for its pipes only and must not be waited for.
    pub(crate) fn spawn(&self, domain: Domain, command: &mut Command) -> io::Result<(Process, Child)> {
        // The lock keeps `reap` from taking a status before anyone waits for it.
        let mut awaited = self.awaited.lock();
        let child = domain.spawn(command)?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        let (sender, exit) = watch::channel(None);
        awaited.insert(pid, sender);
        Ok((Process::reported(pid, exit), child))
    }

    /// Takes the status of every child that has ended. Call it at each SIGCHLD.
    pub(crate) fn reap(&self) {
        let mut awaited = self.awaited.lock();
        loop {
            let (pid, exit) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, Exit { code: Some(code), signal: None }),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, Exit { code: None, signal: Some(signal as i32) }),
                Ok(WaitStatus::StillAlive) => return,
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(_) => return,
            };
            if let Some(sender) = awaited.remove(&pid.as_raw()) {
                sender.send_replace(Some(exit));
            }
        }
    }

    /// Kills every process that was started here and has not ended.
    pub(crate) fn kill_all(&self) {
        for pid in self.awaited.lock().keys() {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
    }
}

#[cfg(test)]
impl Processes {
    /// One table for all tests: whoever reaps takes the statuses of every child of this process.
    pub(crate) fn of_tests() -> Self {
        static ALL: std::sync::LazyLock<Processes> = std::sync::LazyLock::new(Processes::default);
        ALL.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::signal::unix::{SignalKind, signal};

    #[tokio::test]
    async fn reports_code_and_signal_of_each_child() {
        let processes = Processes::of_tests();
        let mut children = signal(SignalKind::child()).unwrap();
        let (seven, _) = processes.spawn(Domain::Open, Command::new("sh").args(["-c", "exit 7"])).unwrap();
        let (killed, _) = processes.spawn(Domain::Open, Command::new("sleep").arg("600")).unwrap();
        assert!(killed.running());
        killed.signal(Signal::SIGKILL);
        while seven.running() || killed.running() {
            children.recv().await;
            processes.reap();
        }
        assert_eq!(seven.exited().await, Exit { code: Some(7), signal: None });
        assert_eq!(killed.exited().await, Exit { code: None, signal: Some(9) });
    }
}
