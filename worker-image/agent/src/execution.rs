//! Tries to execute what nobody may execute in a worker, for `warmpool doctor --egress`.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};
use tokio::time::timeout;
use warmpool_protocol::{ProgramTry, ProgramsProbed, SHARED_FOLDER};

use crate::domain::{Domain, LOADERS, XKBCOMP};
use crate::process::Processes;

/// Programs of the image that no engine needs.
const FOREIGN: [&str; 3] = ["/bin/sh", "/bin/bash", "/bin/true"];
/// What each of them is told: to end well and do nothing.
const NOTHING: [&str; 2] = ["-c", "true"];
/// Where a worker can write, beside its home.
const WRITABLE: [&str; 4] = ["/tmp", "/run", "/dev/shm", SHARED_FOLDER];
/// The names of a script and a program there, which no other file has.
const COPIES: [&str; 2] = [".script", ".program"];
const SCRIPT: &str = "#!/bin/sh\nexit 0\n";
/// What a copy of xkbcomp is told, to end well and do nothing else.
const VERSION: &str = "-version";
/// Time for one program to end.
const LIMIT: Duration = Duration::from_secs(4);

/// What is to be executed, in words and as a command.
type Attempt = (String, io::Result<Command>);

/// Tries every way in the domain of each program of this image.
/// Fails when not even what the display may execute can be executed: then no refusal means anything.
pub(crate) async fn carry_out(processes: &Processes, home: &Path) -> io::Result<ProgramsProbed> {
    let mut own = Command::new(XKBCOMP);
    execute(processes, Domain::Display, own.arg(VERSION)).await?;
    let mut tries = Vec::new();
    for domain in Domain::ALL.into_iter().filter(|domain| Path::new(domain.program()).exists()) {
        let from = Path::new(domain.program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let memory = in_memory();
        for (what, command) in attempts(home, &memory) {
            let tried = match command {
                Ok(mut command) => execute(processes, domain, &mut command).await,
                Err(error) => Err(error),
            };
            let (executed, detail) = match tried {
                Ok(()) => (true, "it is executed".to_owned()),
                Err(error) => (false, error.to_string()),
            };
            tries.push(ProgramTry { from: from.clone(), what, executed, detail });
        }
    }
    for copy in writable(home).flat_map(|folder| COPIES.map(|name| folder.join(name))) {
        let _ = fs::remove_file(copy);
    }
    Ok(ProgramsProbed { landlock: Domain::Display.holds(), tries })
}

/// Executes a command in a domain. Done when it has ended well.
async fn execute(processes: &Processes, domain: Domain, command: &mut Command) -> io::Result<()> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let (process, _) = processes.spawn(domain, command)?;
    let Ok(exit) = timeout(LIMIT, process.exited()).await else {
        process.kill().await;
        return Ok(());
    };
    if exit.clean() { Ok(()) } else { Err(io::Error::other("it ends at once")) }
}

fn writable(home: &Path) -> impl Iterator<Item = PathBuf> {
    WRITABLE.into_iter().map(PathBuf::from).chain([home.to_owned()])
}

fn attempts(home: &Path, memory: &io::Result<OwnedFd>) -> Vec<Attempt> {
    let loaders = || LOADERS.into_iter().filter(|loader| Path::new(loader).exists());
    let run = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments);
        command
    };
    let load = |loader: &str, program: &Path, arguments: &[&str]| {
        let mut command = Command::new(loader);
        command.arg(program).args(arguments);
        command
    };
    let mut attempts = Vec::new();
    for program in FOREIGN {
        attempts.push((program.to_owned(), Ok(run(program.as_ref(), &NOTHING))));
        for loader in loaders() {
            attempts.push((format!("{program} by {loader}"), Ok(load(loader, program.as_ref(), &NOTHING))));
        }
    }
    for folder in writable(home) {
        let shown = folder.display();
        let [script, program] = COPIES.map(|name| folder.join(name));
        let written = put(&script, SCRIPT.as_bytes());
        attempts.push((format!("a script in {shown}"), written.map(|()| run(&script, &[]))));
        let copied = || put(&program, &fs::read(XKBCOMP)?);
        attempts.push((format!("a program in {shown}"), copied().map(|()| run(&program, &[VERSION]))));
        for loader in loaders() {
            let what = format!("a program in {shown} by {loader}");
            attempts.push((what, copied().map(|()| load(loader, &program, &[VERSION]))));
        }
    }
    let memory = || match memory {
        Ok(memory) => Ok(PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()))),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    };
    attempts.push(("a program in memory".to_owned(), memory().map(|program| run(&program, &[VERSION]))));
    for loader in loaders() {
        let what = format!("a program in memory by {loader}");
        attempts.push((what, memory().map(|program| load(loader, &program, &[VERSION]))));
    }
    attempts
}

fn put(file: &Path, content: &[u8]) -> io::Result<()> {
    fs::write(file, content)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o700))
}

/// A copy of xkbcomp that is in no folder. Programs that are started inherit it.
fn in_memory() -> io::Result<OwnedFd> {
    let memory = File::from(memfd_create(COPIES[1], MFdFlags::empty())?);
    (&memory).write_all(&fs::read(XKBCOMP)?)?;
    Ok(memory.into())
}
