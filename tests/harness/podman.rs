//! The test's own Podman, beside the machine's engine: with a socket and a store of its own, so that nobody's images and
//! containers are touched.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::docker::Docker;
use crate::{eventually, suite};

/// The second version of control groups where both are mounted; crun starts no container on such a host. The list of controllers
/// in it says nothing: it changes as containers come and go.
const HYBRID: &str = "/sys/fs/cgroup/unified/cgroup.controllers";

/// A Podman that the test starts and stops.
pub struct Podman {
    folder: PathBuf,
    log: PathBuf,
    process: Option<Child>,
    docker: Docker,
}

impl Podman {
    /// Why there can be none on this machine; none where there can.
    #[must_use]
    pub fn missing() -> Option<&'static str> {
        if !nix::unistd::geteuid().is_root() {
            return Some("a Podman of one's own needs root");
        }
        let found = Command::new("podman").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            return Some("Podman is not installed");
        }
        None
    }

    /// Starts it and makes sure that it has `image`, as the machine's own engine has it.
    pub async fn start(image: &str) -> Result<Self> {
        let folder = suite::target_dir().join("e2e-podman");
        fs::create_dir_all(&folder)?;
        // The socket's path is short, whatever the target directory's is: the kernel allows 108 bytes.
        let socket = std::env::temp_dir().join(format!("warmpool-podman-{}.sock", std::process::id()));
        let docker = Docker::at(format!("unix://{}", socket.display()));
        let mut podman = Self { folder, log: suite::new_log("podman")?, process: None, docker };
        podman.run().await?;
        podman.clear();
        podman.docker.fetch(image).await?;
        Ok(podman)
    }

    /// Its address.
    #[must_use]
    pub fn docker(&self) -> &Docker {
        &self.docker
    }

    /// A `podman` command with its store.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("podman");
        command.arg("--root").arg(self.folder.join("root")).arg("--runroot").arg(self.folder.join("run"));
        if Path::new(HYBRID).exists() {
            command.args(["--runtime", "runc"]);
        }
        command.args(["--cgroup-manager", "cgroupfs"]).args(arguments).stdin(Stdio::null());
        command
    }

    /// Starts its service and waits until it answers.
    pub async fn run(&mut self) -> Result<()> {
        ensure!(self.process.is_none(), "Podman's service runs already");
        let log = File::options().create(true).append(true).open(&self.log)?;
        let host = self.docker.host().unwrap_or_default().to_owned();
        let mut command = self.command(&["system", "service", "--time=0", &host]);
        self.process = Some(command.stdout(log.try_clone()?).stderr(log).spawn().context("podman")?);
        let docker = self.docker.clone();
        eventually!("Podman answers", 30, docker.run(&["version"]).await.is_ok())
    }

    /// Ends its service; containers go on.
    pub async fn stop(&mut self) -> Result<()> {
        let mut process = self.process.take().context("Podman's service does not run")?;
        kill(Pid::from_raw(process.id().try_into()?), Signal::SIGTERM)?;
        let deadline = Instant::now() + Duration::from_secs(20);
        while process.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("Podman's service does not end");
            }
            tokio::task::yield_now().await;
            std::thread::park_timeout(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Removes what an earlier run may have left.
    fn clear(&self) {
        let _ = self.command(&["rm", "--all", "--force"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        self.clear();
        if let Some(mut process) = self.process.take() {
            if let Ok(pid) = process.id().try_into() {
                let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            }
            let deadline = Instant::now() + Duration::from_secs(10);
            while matches!(process.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::park_timeout(Duration::from_millis(20));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = fs::remove_file(self.docker.host().and_then(|host| host.strip_prefix("unix://")).unwrap_or_default());
    }
}
