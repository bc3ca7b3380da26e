//! The test's own container engine, which it can stop and start without harm to the machine's.
//!
//! It has its own socket, data and network namespace. The namespace matters: an engine takes the network it finds for
//! its own, and deletes the `docker0` of another engine beside it. Only one pair of interfaces and one route of this
//! machine lead to it. Its data stays under `target/`, so that the worker image is copied once.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::docker::Docker;
use crate::{eventually, suite};

/// The network namespace, and the two ends of the wire to it.
const NAMESPACE: &str = "warmpool-test";
const OUTSIDE: &str = "wptest-out";
const INSIDE: &str = "wptest-in";

/// The wire's addresses, and those of the networks that the daemon makes behind it.
const OUTSIDE_ADDRESS: &str = "10.213.254.1";
const INSIDE_ADDRESS: &str = "10.213.254.2";
const NETWORKS: &str = "10.213.0.0/17";

/// The ids that users of containers have on this machine where the engine remaps them: the first, and how many.
pub const REMAPPED: (u32, u32) = (200_000, 65_536);

/// Gives a user of the system these ids, shows the engine its folder `$1` at `$2`, and starts it.
const REMAPPING: &str = r#"
set -e
mount --make-rprivate /
mount --bind "$0" /etc/subuid
mount --bind "$0" /etc/subgid
mkdir -p "$2"
mount --bind "$1" "$2"
shift 2
exec "$@"
"#;

/// How an engine differs from a plain one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Its containers go on while it is away.
    LiveRestoring,
    /// Its containers' users are others on this machine. No wire leads to its networks.
    RemappingUsers,
}

/// An engine that the test starts and stops.
pub struct Engine {
    folder: PathBuf,
    log: PathBuf,
    process: Option<Child>,
    docker: Docker,
    kind: Kind,
}

impl Engine {
    /// Starts the engine and makes sure that it has `image`, as the machine's own engine has it.
    pub async fn start(image: &str) -> Result<Self> {
        Self::start_as(image, Kind::Plain).await
    }

    /// The same whose containers go on while it is away.
    pub async fn live_restoring(image: &str) -> Result<Self> {
        Self::start_as(image, Kind::LiveRestoring).await
    }

    /// An engine that gives containers' users the ids [`REMAPPED`] on this machine. It may run beside another.
    pub async fn remapping_users(image: &str) -> Result<Self> {
        Self::start_as(image, Kind::RemappingUsers).await
    }

    async fn start_as(image: &str, kind: Kind) -> Result<Self> {
        ensure!(nix::unistd::geteuid().is_root(), "an engine of one's own needs root");
        let name = if kind == Kind::RemappingUsers { "remapping-engine" } else { "engine" };
        let folder = suite::target_dir().join(format!("e2e-{name}"));
        fs::create_dir_all(&folder)?;
        // The socket's path is short, whatever the target directory's is: the kernel allows 108 bytes.
        let socket = std::env::temp_dir().join(format!("warmpool-{name}-{}.sock", std::process::id()));
        let docker = Docker::at(format!("unix://{}", socket.display()));
        let mut engine = Self { folder, log: suite::new_log("engine")?, process: None, docker, kind };
        engine.end_leftover();
        if kind != Kind::RemappingUsers {
            unwire();
            wire()?;
        }
        engine.run().await?;
        engine.clear().await?;
        engine.docker.fetch(image).await?;
        Ok(engine)
    }

    /// The engine's address.
    #[must_use]
    pub fn docker(&self) -> &Docker {
        &self.docker
    }

    /// Starts the engine's process and waits until it answers.
    pub async fn run(&mut self) -> Result<()> {
        ensure!(self.process.is_none(), "the engine runs already");
        let log = File::options().create(true).append(true).open(&self.log)?;
        let mut command = self.inside()?;
        let folder = self.seen();
        command
            .arg("dockerd")
            .args(["--host", self.docker.host().unwrap_or_default()])
            .arg("--data-root")
            .arg(folder.join("data"))
            .arg("--exec-root")
            .arg(folder.join("exec"))
            .arg("--pidfile")
            .arg(folder.join("pid"))
            .args(["--bridge", "none", "--default-address-pool", &format!("base={NETWORKS},size=24")])
            .args(["--iptables=false", "--ip6tables=false", "--ip-masq=false"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        match self.kind {
            Kind::Plain => {}
            Kind::LiveRestoring => drop(command.arg("--live-restore")),
            Kind::RemappingUsers => drop(command.arg("--userns-remap=nobody:nogroup")),
        }
        self.process = Some(command.spawn().context("dockerd")?);
        let docker = self.docker.clone();
        eventually!("the engine answers", 60, docker.run(&["version"]).await.is_ok())
    }

    /// Where the engine sees its folder. Remapped users have to get there, and `target/` may lie where only root does.
    fn seen(&self) -> PathBuf {
        match self.kind {
            Kind::Plain | Kind::LiveRestoring => self.folder.clone(),
            Kind::RemappingUsers => std::env::temp_dir().join("warmpool-remapping-engine"),
        }
    }

    /// What runs a command where the engine is.
    fn inside(&self) -> Result<Command> {
        if self.kind == Kind::RemappingUsers {
            let ids = self.folder.join("ids");
            fs::write(&ids, format!("nobody:{}:{}\n", REMAPPED.0, REMAPPED.1))?;
            let mut command = Command::new("unshare");
            command.args(["--net", "--mount", "bash", "-c", REMAPPING]).arg(ids);
            command.arg(&self.folder).arg(self.seen());
            return Ok(command);
        }
        // `nsenter` and not `ip netns exec`: that one would hide the control groups.
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{NAMESPACE}"));
        Ok(command)
    }

    /// Ends the engine's process: SIGTERM stops its containers too, SIGKILL leaves them until the next start.
    pub async fn stop(&mut self, signal: Signal) -> Result<()> {
        let mut process = self.process.take().context("the engine does not run")?;
        kill(Pid::from_raw(process.id().try_into()?), signal)?;
        eventually!("the engine ends", 60, process.try_wait()?.is_some())?;
        if signal == Signal::SIGKILL {
            self.end_leftover();
        }
        Ok(())
    }

    /// Removes what an earlier run may have left.
    async fn clear(&self) -> Result<()> {
        let listed = self.docker.run(&["ps", "--all", "--quiet"]).await?;
        for id in listed.split_whitespace() {
            self.docker.run(&["rm", "--force", id]).await?;
        }
        Ok(())
    }

    /// Ends the containerd that a killed engine leaves, ours by its path, and the engine of a killed test.
    fn end_leftover(&self) {
        for file in [self.folder.join("pid"), self.folder.join("exec/containerd/containerd.pid")] {
            let Some(pid) = fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<i32>().ok()) else {
                continue;
            };
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if line.contains(&*self.seen().to_string_lossy()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            let _ = fs::remove_file(file);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            if let Ok(pid) = process.id().try_into() {
                let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            }
            let deadline = Instant::now() + Duration::from_secs(30);
            while matches!(process.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::park_timeout(Duration::from_millis(20));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        self.end_leftover();
        if self.kind != Kind::RemappingUsers {
            unwire();
        }
        let _ = Command::new("umount").arg(self.folder.join("data")).stderr(Stdio::null()).status();
    }
}

/// Makes the namespace and the wire to it.
fn wire() -> Result<()> {
    let (near, far) = (format!("{OUTSIDE_ADDRESS}/30"), format!("{INSIDE_ADDRESS}/30"));
    ip(&["netns", "add", NAMESPACE])?;
    ip(&["link", "add", OUTSIDE, "type", "veth", "peer", "name", INSIDE, "netns", NAMESPACE])?;
    ip(&["addr", "add", &near, "dev", OUTSIDE])?;
    ip(&["link", "set", OUTSIDE, "up"])?;
    ip(&["-n", NAMESPACE, "addr", "add", &far, "dev", INSIDE])?;
    ip(&["-n", NAMESPACE, "link", "set", "lo", "up"])?;
    ip(&["-n", NAMESPACE, "link", "set", INSIDE, "up"])?;
    ip(&["-n", NAMESPACE, "route", "add", "default", "via", OUTSIDE_ADDRESS])?;
    ip(&["route", "add", NETWORKS, "via", INSIDE_ADDRESS])
}

/// Removes both if they are there. The wire and its route go with the outer end.
fn unwire() {
    let _ = ip(&["link", "delete", OUTSIDE]);
    let _ = ip(&["netns", "delete", NAMESPACE]);
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(arguments).output().context("ip")?;
    ensure!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
