//! A swarm of the test's own: engines on this machine, three unless more are asked for, each in namespaces of its own, so
//! that a whole node can vanish.
//!
//! Each node has a network namespace, wired to one bridge as by a switch, and a process namespace, whose end is the end of
//! everything on the node. The first node manages. Images are linked into the nodes' data, which goes away with the swarm.
//!
//! Several test runs on one machine may have a swarm each: a run takes a number of its own, which names and addresses carry.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use nix::fcntl::{Flock, FlockArg};
use tempfile::TempDir;

use crate::docker::{Docker, INSPECTOR};
use crate::seed::{self, Seed};
use crate::{eventually, evidence, suite};

/// Runs that can have a swarm at the same time.
const RUNS: u8 = 8;
/// The workers' network. The kernel of a test machine need not have what encryption takes.
const NETWORK: &str = "warmpool-workers";
/// As many addresses as a swarm may have workers, and more: an overlay that is asked for none has 254.
const SUBNET: &str = "10.214.0.0/16";
/// Nodes at most, as addresses are given to them.
const MAX_NODES: usize = 20;
/// The container in whose network the daemon runs.
const SEAT: &str = "daemon";

/// The configuration of a node's engine that fences workers in, as the guide has it.
pub const FENCE: &str = r#"{ "no-new-privileges": true, "seccomp-profile": "/etc/docker/warmpool-seccomp.json" }"#;
/// The file that it names.
const FENCE_PROFILE: &str = "/etc/docker/warmpool-seccomp.json";

/// Starts a node's engine in its namespaces: its name, its `/etc/resolv.conf` and the engine's arguments.
const START: &str = r#"hostname "$0" && mount --bind "$1" /etc/resolv.conf && mkdir -p /tmp/wpswarm && mount -t tmpfs own /tmp/wpswarm &&
shift && exec dockerd "$@""#;
/// Where an engine listens for what runs on its node: each has its own there.
pub const SOCKET: &str = "/tmp/wpswarm/docker.sock";

/// What a swarm's nodes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// How many have the image; the others come last.
    pub with_image: usize,
    /// The one that lacks the fence of workers as its engine's default.
    pub unfenced: Option<usize>,
}

impl Nodes {
    /// All have everything.
    pub const ALIKE: Self = Self { with_image: 3, unfenced: None };
}

/// One machine of the swarm.
pub struct Node {
    number: usize,
    folder: PathBuf,
    process: Option<Child>,
    docker: Docker,
}

/// The swarm. Dropping it ends its nodes and removes what they had.
pub struct Swarm {
    nodes: Vec<Node>,
    what: Nodes,
    folder: TempDir,
    seat: i32,
}

impl Swarm {
    /// Three nodes that have these images, as this machine's engine has them, and the fence. The first image also serves the
    /// daemon's seat. Where namespaces cannot be made: `None`, and a line in the log.
    pub async fn start(images: &[&str], nodes: Nodes) -> Result<Option<Self>> {
        Self::start_nodes(images, 3, nodes).await
    }

    /// This many nodes, all of which have everything.
    pub async fn start_many(image: &str, count: usize) -> Result<Option<Self>> {
        Self::start_nodes(&[image], count, Nodes { with_image: count, unfenced: None }).await
    }

    async fn start_nodes(images: &[&str], count: usize, nodes: Nodes) -> Result<Option<Self>> {
        let Some(mut swarm) = Self::start_engines(images, count, nodes).await? else { return Ok(None) };
        swarm.join().await?;
        swarm.take_seat(images.first().context("an image")?).await?;
        Ok(Some(swarm))
    }

    /// Three engines that are no swarm yet, and have neither the workers' network nor a seat for the daemon.
    pub async fn start_apart(images: &[&str], nodes: Nodes) -> Result<Option<Self>> {
        Self::start_engines(images, 3, nodes).await
    }

    async fn start_engines(images: &[&str], count: usize, nodes: Nodes) -> Result<Option<Self>> {
        ensure!((1..=MAX_NODES).contains(&count), "1 to {MAX_NODES} nodes are possible");
        if let Err(why) = possible() {
            evidence::cannot(format!("there are no namespaces to put nodes in: {why}"));
            return Ok(None);
        }
        let parent = suite::target_dir().join("e2e-swarm");
        fs::create_dir_all(&parent)?;
        let folder = tempfile::Builder::new().prefix("nodes-").tempdir_in(&parent)?;
        let mut swarm = Self { nodes: Vec::new(), what: nodes, folder, seat: 0 };
        unwire();
        wire_hub()?;
        let fenced = |number| nodes.unfenced != Some(number);
        let seed = Seed::of(images, &parent).await?;
        let data = swarm.folder.path().join("1/data");
        fs::create_dir_all(&data)?;
        let planted = seed.plant(&data)?;
        let first = Node::start(1, swarm.folder.path(), None, fenced(1)).await?;
        if !planted {
            for image in images {
                first.docker.fetch(image).await?;
            }
            seed.keep(&data)?;
        }
        swarm.nodes.push(first);
        let folder = swarm.folder.path().to_owned();
        let others = (2..=count)
            .map(|number| Node::start(number, &folder, (nodes.with_image >= number).then_some(&data), fenced(number)));
        swarm.nodes.extend(try_join_all(others).await?);
        Ok(Some(swarm))
    }

    /// Makes one swarm of the engines.
    async fn join(&self) -> Result<()> {
        let manager = self.manager();
        let pool = ["--default-addr-pool", "10.215.0.0/16"];
        manager.run(&[&["swarm", "init", "--advertise-addr", &address(1)], &pool[..]].concat()).await?;
        let token = manager.run(&["swarm", "join-token", "--quiet", "worker"]).await?;
        for node in &self.nodes[1..] {
            let own = address(node.number);
            node.docker
                .run(&["swarm", "join", "--token", &token, "--advertise-addr", &own, &format!("{}:2377", address(1))])
                .await?;
        }
        let network =
            ["network", "create", "--driver", "overlay", "--attachable", "--internal", "--subnet", SUBNET, NETWORK];
        manager.run(&network).await?;
        Ok(())
    }

    /// Makes the container that the daemon's process shares the network of: on the overlay, and where this machine reaches it.
    async fn take_seat(&mut self, image: &str) -> Result<()> {
        let manager = self.manager();
        let id = manager
            .run(&[
                "run",
                "--detach",
                "--name",
                SEAT,
                "--network",
                "bridge",
                "--user",
                INSPECTOR,
                "--entrypoint",
                "sleep",
                image,
                "infinity",
            ])
            .await?;
        manager.run(&["network", "connect", NETWORK, SEAT]).await?;
        // The engine knows it by its number among the node's processes; its control group has its name.
        self.seat = eventually!("the daemon's seat is taken", 10, process_in(&id))?;
        Ok(())
    }

    /// What its nodes had at the start.
    #[must_use]
    pub const fn nodes(&self) -> Nodes {
        self.what
    }

    /// The engine that manages.
    #[must_use]
    pub fn manager(&self) -> &Docker {
        &self.nodes[0].docker
    }

    /// The address of this machine at which nodes reach what listens here.
    #[must_use]
    pub fn outside_address(&self) -> String {
        format!("{}.254.1", network())
    }

    /// The engines of the nodes that live.
    #[must_use]
    pub fn engines(&self) -> Vec<Docker> {
        self.nodes.iter().map(|node| node.docker.clone()).collect()
    }

    /// A process in whose network a daemon reaches workers, and this machine the daemon.
    #[must_use]
    pub const fn seat(&self) -> i32 {
        self.seat
    }

    /// The address that a daemon in that network can listen at.
    #[must_use]
    pub fn seat_address(&self) -> String {
        // The first that an engine gives out.
        format!("{}.11.2", network())
    }

    /// The name of the node on which this worker runs; none while it runs nowhere.
    pub async fn node_of(&self, worker: &str) -> Result<Option<String>> {
        let service = format!("warmpool-{worker}");
        let format = "{{.Node}} {{.CurrentState}}";
        let listed = self.manager().run(&["service", "ps", "--format", format, &service]).await?;
        Ok(listed.lines().find_map(|line| line.split_once(" Running").map(|(node, _)| node.to_owned())))
    }

    /// Where this machine reaches the node that manages.
    #[must_use]
    pub fn manager_address(&self) -> String {
        address(1)
    }

    /// The address of a node that lives.
    pub fn address_of(&self, name: &str) -> Result<String> {
        Ok(address(self.node(name)?.number))
    }

    /// The name of a node, the first of which manages.
    #[must_use]
    pub fn name(&self, number: usize) -> String {
        name(number)
    }

    /// The engine of a node.
    pub fn engine(&self, name: &str) -> Result<&Docker> {
        Ok(&self.node(name)?.docker)
    }

    fn node(&self, name: &str) -> Result<&Node> {
        self.nodes.iter().find(|node| node.name() == name).with_context(|| format!("no node {name}"))
    }

    /// Pulls a node's plug, or puts it in again. What runs there runs on.
    pub fn plug(&self, name: &str, state: &str) -> Result<()> {
        let node = self.node(name)?;
        ensure!(node.number > 1, "the first node manages");
        ip(&["-n", &hub(), "link", "set", &format!("n{}", node.number), state])
    }

    /// How many services of a daemon there are.
    pub async fn services(&self, instance: &str) -> Result<usize> {
        let filter = format!("label=warmpool.instance={instance}");
        Ok(self.manager().run(&["service", "ls", "--quiet", "--filter", &filter]).await?.lines().count())
    }

    /// Ends a node as if its power had failed: it sends no farewell.
    pub fn kill(&mut self, name: &str) -> Result<()> {
        let node = self.node(name)?;
        ip(&["-n", &hub(), "link", "set", &format!("n{}", node.number), "down"])?;
        self.nodes.retain(|node| node.name() != name);
        Ok(())
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        self.nodes.clear();
        unwire();
        remove_groups();
    }
}

impl Node {
    /// Starts the node's engine; `images` is another engine's data, whose images it is to have.
    async fn start(number: usize, folder: &Path, images: Option<&PathBuf>, fenced: bool) -> Result<Self> {
        let folder = folder.join(number.to_string());
        fs::create_dir_all(folder.join("data"))?;
        if let Some(images) = images {
            seed::link(images, &folder.join("data"))?;
        }
        wire(number)?;
        // The path is short, whatever the target directory's is: the kernel allows 108 bytes.
        let socket = std::env::temp_dir().join(format!("wpswarm-{}-{number}.sock", std::process::id()));
        let docker = Docker::at(format!("unix://{}", socket.display()));
        let mut node = Self { number, folder, process: None, docker };
        node.run(fenced)?;
        let docker = node.docker.clone();
        eventually!(format!("node {number} answers"), 60, docker.run(&["version"]).await.is_ok())?;
        Ok(node)
    }

    fn run(&mut self, fenced: bool) -> Result<()> {
        let log = File::create(suite::new_log("node")?)?;
        // In place of what configures this machine's own engine.
        let config = self.folder.join("daemon.json");
        let seccomp = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("worker-image").join("seccomp.json");
        // What a service cannot ask for.
        let fence = FENCE.replace(FENCE_PROFILE, &seccomp.display().to_string());
        fs::write(&config, if fenced { fence.as_str() } else { "{}" })?;
        // No name is known: a node asks for an image before it starts one, and would wait for this machine's name server.
        let names = self.folder.join("resolv.conf");
        fs::write(&names, "nameserver 127.0.0.1\n")?;
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", self.name()))
            .args(["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--uts"])
            .args(["sh", "-c", START, &self.name()])
            .arg(&names)
            .args(["--host", self.docker.host().unwrap_or_default(), "--host", &format!("unix://{SOCKET}")])
            .arg("--config-file")
            .arg(config)
            .arg("--data-root")
            .arg(self.folder.join("data"))
            .arg("--exec-root")
            .arg(self.folder.join("exec"))
            .arg("--pidfile")
            .arg(self.folder.join("pid"))
            .args([
                "--bip",
                &format!("{}.1{}.1/24", network(), self.number),
                "--cgroup-parent",
                &format!("/{}", group()),
            ])
            .args(["--iptables=false", "--ip6tables=false", "--ip-masq=false"])
            // A test's registry has no certificate.
            .args(["--insecure-registry", &format!("{}.254.0/24", network())])
            .args(["--default-address-pool", &format!("base={}.128.0/18,size=24", network())])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        self.process = Some(command.spawn().context("nsenter")?);
        Ok(())
    }

    fn name(&self) -> String {
        name(self.number)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // The namespace ends with its first process, and with it all containers and mounts.
            let _ = process.kill();
            let _ = process.wait();
        }
        if let Some(socket) = self.docker.host().and_then(|host| host.strip_prefix("unix://")) {
            let _ = fs::remove_file(socket);
        }
    }
}

/// The number of this run, which no other run on this machine has.
fn run() -> u8 {
    static RUN: OnceLock<(u8, Option<Flock<File>>)> = OnceLock::new();
    RUN.get_or_init(|| {
        let lock = |run: u8| {
            let file = File::create(std::env::temp_dir().join(format!("wpswarm-{run}.lock"))).ok()?;
            Some((run, Some(Flock::lock(file, FlockArg::LockExclusiveNonblock).ok()?)))
        };
        // What a killed run left is in the way of nobody while there are other numbers.
        let unused = |run: &u8| !Path::new(&format!("/run/netns/wpswarm{run}-hub")).exists();
        let free = (1..=RUNS).filter(unused).find_map(lock);
        free.or_else(|| (1..=RUNS).find_map(lock)).unwrap_or((1, None))
    })
    .0
}

/// The beginning of all addresses outside the overlay.
fn network() -> String {
    format!("10.{}", 200 + run())
}

fn name(number: usize) -> String {
    format!("wpswarm{}-{number}", run())
}

fn address(number: usize) -> String {
    format!("{}.254.1{number}", network())
}

/// The namespace of the switch.
fn hub() -> String {
    format!("wpswarm{}-hub", run())
}

/// The wire from this machine to the switch.
fn outside() -> String {
    format!("wpswarm{}-out", run())
}

/// The control group of all that runs on the nodes.
fn group() -> String {
    format!("warmpool-swarm{}", run())
}

/// Whether this machine lets us make nodes.
fn possible() -> Result<()> {
    let probe = "ip link add wpswarm-probe type vxlan id 1 dstport 4789";
    let mut command = Command::new("unshare");
    command.args(["--net", "--pid", "--fork", "--mount", "--mount-proc", "--uts", "sh", "-c", probe]);
    let output = command.output().context("unshare")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    let output = Command::new("dockerd").arg("--version").output().context("dockerd")?;
    ensure!(output.status.success(), "dockerd does not run");
    Ok(())
}

/// The process, as this machine counts them, of the container with this id.
fn process_in(container: &str) -> Option<i32> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.find(|pid| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let program = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        groups.contains(container) && program.trim() == "sleep"
    })
}

/// Makes the switch, and a wire from this machine to it.
fn wire_hub() -> Result<()> {
    let (hub, outside) = (hub(), outside());
    ip(&["netns", "add", &hub])?;
    ip(&["-n", &hub, "link", "add", "switch", "type", "bridge"])?;
    ip(&["-n", &hub, "link", "set", "switch", "up"])?;
    ip(&["link", "add", &outside, "type", "veth", "peer", "name", "outside", "netns", &hub])?;
    ip(&["addr", "add", &format!("{}.254.1/24", network()), "dev", &outside])?;
    ip(&["link", "set", &outside, "up"])?;
    ip(&["-n", &hub, "link", "set", "outside", "master", "switch", "up"])
}

/// Makes a node's namespace and its wire, and this machine's way to the containers there.
fn wire(number: usize) -> Result<()> {
    let (name, plug, own, hub) = (name(number), format!("n{number}"), address(number), hub());
    ip(&["netns", "add", &name])?;
    ip(&["-n", &name, "link", "set", "lo", "up"])?;
    ip(&["-n", &name, "link", "add", "eth0", "type", "veth", "peer", "name", &plug, "netns", &hub])?;
    ip(&["-n", &hub, "link", "set", &plug, "master", "switch", "up"])?;
    ip(&["-n", &name, "addr", "add", &format!("{own}/24"), "dev", "eth0"])?;
    ip(&["-n", &name, "link", "set", "eth0", "up"])?;
    ip(&["-n", &name, "route", "add", "default", "via", &format!("{}.254.1", network())])?;
    ip(&["route", "add", &format!("{}.1{number}.0/24", network()), "via", &own])
}

/// Removes it all if it is there. Routes go with the wire.
fn unwire() {
    let _ = ip(&["link", "delete", &outside()]);
    for number in 1..=MAX_NODES {
        let _ = ip(&["netns", "delete", &name(number)]);
    }
    let _ = ip(&["netns", "delete", &hub()]);
}

/// Removes the control groups that killed engines leave, as soon as the last process in them is gone.
fn remove_groups() {
    let deadline = Instant::now() + Duration::from_secs(5);
    let root = Path::new("/sys/fs/cgroup");
    let controllers = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    for group in controllers.chain([root.to_owned()]).map(|controller| controller.join(group())) {
        while group.is_dir() && Instant::now() < deadline {
            for container in fs::read_dir(&group).into_iter().flatten().flatten() {
                let _ = fs::remove_dir(container.path());
            }
            if fs::remove_dir(&group).is_err() {
                std::thread::park_timeout(Duration::from_millis(20));
            }
        }
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(arguments).output().context("ip")?;
    ensure!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
