//! The end of one thread of another process, as when it panics where nobody sees it.

use std::fs;

use anyhow::{Context, Result, bail};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Makes the next system call of the thread of this name its last one. Blocks until then.
/// Fails when the process has no such thread, or not exactly one.
pub fn end_thread(process: u32, name: &str) -> Result<()> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let thread = thread?;
        if fs::read_to_string(thread.path().join("comm")).is_ok_and(|known| known.trim_end() == name) {
            found.push(thread.file_name().to_string_lossy().parse()?);
        }
    }
    let [thread] = found[..] else { bail!("{} threads are called {name:?}", found.len()) };
    follow(Pid::from_raw(thread)).with_context(|| format!("end the thread {name:?}"))
}

#[cfg(target_arch = "x86_64")]
fn follow(thread: Pid) -> Result<()> {
    /// What the result is while a system call has only begun: ENOSYS.
    const HAS_BEGUN: i64 = -38;
    /// The number of `exit`, which ends one thread.
    const EXIT: u64 = 60;
    let stopped = || waitpid(thread, Some(WaitPidFlag::__WALL));
    ptrace::attach(thread)?;
    stopped()?;
    loop {
        ptrace::syscall(thread, None)?;
        match stopped()? {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
            other => bail!("it stopped otherwise: {other:?}"),
        }
        let mut registers = ptrace::getregs(thread)?;
        if registers.rax.cast_signed() == HAS_BEGUN {
            registers.orig_rax = EXIT;
            registers.rdi = 0;
            ptrace::setregs(thread, registers)?;
            break;
        }
    }
    ptrace::cont(thread, None)?;
    match stopped()? {
        WaitStatus::Exited(_, 0) => Ok(()),
        other => bail!("it did not end: {other:?}"),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn follow(_: Pid) -> Result<()> {
    bail!("this is not known of this processor")
}
