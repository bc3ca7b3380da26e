//! The container engine, mostly through its command line as an operator uses it.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::LazyLock;

use anyhow::{Context, Result, bail, ensure};
use bollard::ClientVersion;
use bollard::models::ContainerSummary;
use bollard::query_parameters::ListContainersOptionsBuilder;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::Mutex;
use tokio::process::Command;
use tokio::runtime::Builder;

use crate::{eventually, poll};

/// The user of a worker with the group root, to which the image's shell and tools are open.
pub const INSPECTOR: &str = "61000:0";

/// Label that names the daemon a container belongs to.
pub const INSTANCE_LABEL: &str = "warmpool.instance";

/// Seconds within which an engine answers.
const ANSWERS_WITHIN: u64 = 60;

/// How often an engine is asked for a list that can be read.
const LISTED_AGAIN: u32 = 100;

/// The version of its interface that each engine speaks, by the engine's socket.
static VERSIONS: Mutex<BTreeMap<String, ClientVersion>> = Mutex::new(BTreeMap::new());

/// The name of an image of this run, as scripts/images has it.
#[must_use]
pub fn image(name: &str) -> String {
    let repository = std::env::var("WARMPOOL_IMAGE_REPOSITORY").unwrap_or_else(|_| "warmpool".to_owned());
    format!("{repository}/{name}:latest")
}

/// Where an engine listens; by default the machine's own.
#[derive(Clone, Debug, Default)]
pub struct Docker {
    host: Option<String>,
}

/// One container as `docker ps` lists it.
#[derive(Clone, Debug)]
pub struct Container {
    /// Full id.
    pub id: String,
    /// `running`, `paused`, `exited`, …
    pub state: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// An address of this machine other than loopback, which browsers would treat specially. The tests' daemons allow it.
#[must_use]
pub fn host_address() -> &'static str {
    static ADDRESS: LazyLock<String> = LazyLock::new(|| {
        // An engine that has just made this bridge does not name its gateway; `docker network inspect` would be empty.
        let output = std::process::Command::new("ip").args(["-4", "-oneline", "address", "show", "docker0"]).output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let address = text.split_whitespace().skip_while(|word| *word != "inet").nth(1);
        let address = address.and_then(|address| address.split('/').next()).unwrap_or_default();
        if address.is_empty() {
            return any_address();
        }
        address.to_owned()
    });
    &ADDRESS
}

/// An address of this machine where there is no bridge of Docker's: a Podman alone makes none before it needs one.
fn any_address() -> String {
    let output =
        std::process::Command::new("ip").args(["-4", "-oneline", "address", "show", "scope", "global"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let address = text.split_whitespace().skip_while(|word| *word != "inet").nth(1);
    let address = address.and_then(|address| address.split('/').next()).unwrap_or_default();
    assert!(!address.is_empty(), "this machine has no address but loopback: {text}");
    address.to_owned()
}

impl Docker {
    /// The engine behind this address (`unix:///…`).
    #[must_use]
    pub fn at(host: impl Into<String>) -> Self {
        Self { host: Some(host.into()) }
    }

    /// Pauses a container. On a busy machine the kernel may not freeze all of its processes at the first try.
    pub async fn pause(&self, container: &str) -> Result<()> {
        eventually!("the container is paused", 20, self.run(&["pause", container]).await.is_ok())
    }

    /// Lets a paused container go on.
    pub async fn unpause(&self, container: &str) -> Result<()> {
        self.run(&["unpause", container]).await.map(drop)
    }

    /// The address, if it is not the machine's own engine.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// A `docker` command for this engine, not started yet.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("docker");
        if let Some(host) = &self.host {
            command.env("DOCKER_HOST", host);
        }
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs `docker` and returns its standard output.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command(arguments).output().await.context("docker")?;
        let problem = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "docker {}: {problem}", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Runs a program in a worker's container as its user, with the group that the image's other programs are open to.
    pub async fn inspect(&self, container: &str, command: &[&str]) -> Result<String> {
        self.run(&[&["exec", "--user", INSPECTOR, container], command].concat()).await
    }

    /// Makes sure that this engine has `image`, as the machine's own engine has it.
    pub async fn fetch(&self, image: &str) -> Result<()> {
        let id = ["image", "inspect", "--format", "{{.Id}}", image];
        let wanted = Self::default().run(&id).await.context("the worker image is not built: scripts/images")?;
        if self.run(&id).await.is_ok_and(|own| own == wanted) {
            return Ok(());
        }
        let mut save = Self::default().command(&["save", image]).stdout(Stdio::piped()).spawn()?;
        let pipe: Stdio = save.stdout.take().context("docker save")?.try_into()?;
        let load = self.command(&["load", "--quiet"]).stdin(pipe).output().await?;
        ensure!(load.status.success(), "docker load: {}", String::from_utf8_lossy(&load.stderr));
        ensure!(save.wait().await?.success(), "docker save");
        Ok(())
    }

    /// Removes the containers of one daemon, in any state, and returns their ids. It blocks, so that `drop` may call it.
    pub fn remove_containers(&self, instance: &str) -> Vec<String> {
        let removed = async {
            let mut ids = Vec::new();
            for container in self.containers(instance).await.unwrap_or_default() {
                let _ = self.run(&["rm", "--force", "--volumes", &container.id]).await;
                ids.push(container.id);
            }
            ids
        };
        // A thread of a runtime, on which `drop` may run, blocks on no future.
        let blocking = move || Some(Builder::new_current_thread().enable_all().build().ok()?.block_on(removed));
        std::thread::scope(|scope| scope.spawn(blocking).join()).ok().flatten().unwrap_or_default()
    }

    /// The containers of one daemon, in any state. Many cases wait for what it returns, so it asks the engine itself: the
    /// command would take longer to start than the engine to answer.
    pub async fn containers(&self, instance: &str) -> Result<Vec<Container>> {
        let label = format!("{INSTANCE_LABEL}={instance}");
        let options = ListContainersOptionsBuilder::new().all(true).filters(&HashMap::from([("label", vec![label])]));
        let (client, options) = (self.client().await?, options.build());
        for _ in 0..LISTED_AGAIN {
            match client.list_containers(Some(options.clone())).await {
                // Podman has a state `stopped`, which passes.
                Err(bollard::errors::Error::JsonDataError { .. }) => poll().await,
                listed => return listed?.into_iter().map(container).collect(),
            }
        }
        bail!("the engine's list of containers cannot be read")
    }

    /// Process id, on this machine, of a container's first process.
    pub async fn first_pid(&self, container: &str) -> Result<i32> {
        let state = self.client().await?.inspect_container(container, None).await?.state.context("a state")?;
        Ok(state.pid.context("a process")?.try_into()?)
    }

    /// A client of this engine. Each case has a runtime of its own, so no connection is kept.
    async fn client(&self) -> Result<bollard::Docker> {
        let host = match &self.host {
            Some(host) => host.clone(),
            None => std::env::var("DOCKER_HOST").unwrap_or_else(|_| "/var/run/docker.sock".to_owned()),
        };
        let socket = host.strip_prefix("unix://").unwrap_or(&host);
        let known = VERSIONS.lock().get(socket).copied();
        let version = known.as_ref().unwrap_or(bollard::API_DEFAULT_VERSION);
        let client = bollard::Docker::connect_with_unix(socket, ANSWERS_WITHIN, version)?;
        if known.is_some() {
            return Ok(client);
        }
        let client = client.negotiate_version().await?;
        VERSIONS.lock().insert(socket.to_owned(), client.client_version());
        Ok(client)
    }

    /// A file of a container, as this machine sees it. To open it takes root.
    pub async fn file(&self, container: &str, path: &str) -> Result<PathBuf> {
        let process = self.first_pid(container).await?.to_string();
        Ok(["/proc", &process, "root", path].iter().collect())
    }

    /// The Unix socket that a program in a container has for this loopback port.
    pub async fn port_socket(&self, container: &str, port: u16) -> Result<PathBuf> {
        self.file(container, &format!("tmp/.ports/{port}")).await
    }

    /// Starts a client of the daemon in a container of its own, which may be taken off the network. Returns its id.
    pub async fn run_client(&self, script: &str) -> Result<String> {
        // Podman's own limits may be more than this process may give.
        let limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"];
        let own = ["--network", "bridge", "--user", INSPECTOR, "--entrypoint", "bash"];
        let image = image("chromium");
        self.run(&[&["run", "--detach"][..], &limits, &own, &[&image, "-c", script]].concat()).await
    }

    /// The processes of a container.
    async fn processes(&self, container: &str) -> Result<Vec<Process>> {
        let (first, all) = (self.first_pid(container).await?, processes());
        let mut found: Vec<Process> = Vec::new();
        let mut parents = vec![first];
        while let Some(parent) = parents.pop() {
            parents.extend(all.iter().filter(|process| process.parent == parent).map(|process| process.pid));
            found.extend(all.iter().find(|process| process.pid == parent).cloned());
        }
        Ok(found)
    }

    /// Process id, on this machine, of the browser's driver in a container.
    pub async fn driver_pid(&self, container: &str) -> Result<i32> {
        let found = self.processes(container).await?;
        let driver = found.iter().find(|process| process.name.to_ascii_lowercase().contains("driver"));
        Ok(driver.context("a driver")?.pid)
    }

    /// Process ids, on this machine, of the browser's main process in a container.
    pub async fn browser_pids(&self, container: &str) -> Result<Vec<i32>> {
        let is_browser = |process: &&Process| {
            let program = process.arguments.split_whitespace().next().unwrap_or_default();
            let is_child = process.arguments.contains("--type=") || process.arguments.contains("-contentproc");
            ["/chromium", "/firefox-esr", "warmpool-webkit"].iter().any(|end| program.ends_with(end)) && !is_child
        };
        Ok(self.processes(container).await?.iter().filter(is_browser).map(|process| process.pid).collect())
    }

    /// Sends a signal to the browser's main process in a container, and to nothing else there.
    pub async fn signal_browser(&self, container: &str, signal: Signal) -> Result<()> {
        let pids = self.browser_pids(container).await?;
        ensure!(pids.len() == 1, "one browser is expected in {container}: {pids:?}");
        Ok(kill(Pid::from_raw(pids[0]), signal)?)
    }
}

/// A process of this machine.
#[derive(Clone, Debug)]
struct Process {
    pid: i32,
    parent: i32,
    /// What the kernel calls it: 15 characters at most.
    name: String,
    /// Its command line.
    arguments: String,
}

/// The processes of this machine, those of containers among them. Podman answers `docker top` with nothing.
fn processes() -> Vec<Process> {
    let read = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let arguments = std::fs::read(entry.path().join("cmdline")).ok()?;
        // The name may have spaces and parentheses itself.
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let parent = rest.split_whitespace().nth(1)?.parse().ok()?;
        let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
        Some(Process { pid, parent, name: name.to_owned(), arguments })
    };
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(read).collect()
}

fn container(listed: ContainerSummary) -> Result<Container> {
    let state = listed.state.context("a state")?.to_string();
    let labels = listed.labels.unwrap_or_default().into_iter().collect();
    Ok(Container { id: listed.id.context("an id")?, state, labels })
}
