//! Stopping and continuing everything in the container but the agent.
//!
//! A waiting browser wakes up many times a second for nothing. Stopped, it costs no processor time,
//! keeps its memory and its sockets, and continues within a fraction of a millisecond.

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};

/// Every process the caller may signal, except itself and PID 1.
const EVERYONE: Pid = Pid::from_raw(-1);

/// Whether `kill(-1)` reaches this container only, which is so for PID 1 of a process namespace.
fn owns_namespace() -> bool {
    getpid().as_raw() == 1
}

/// Stops every other process. Returns whether it did.
pub(crate) fn stop() -> bool {
    owns_namespace() && kill(EVERYONE, Signal::SIGSTOP).is_ok()
}

/// Lets every other process go on.
pub(crate) fn resume() {
    if owns_namespace() {
        let _ = kill(EVERYONE, Signal::SIGCONT);
    }
}

/// Kills every other process.
pub(crate) fn kill_all() {
    if owns_namespace() {
        let _ = kill(EVERYONE, Signal::SIGKILL);
    }
}
