//! The daemon as a process: starts, kills and restarts it, and checks that it has given everything back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use warmpool_api::session::{SessionPage, SessionView};
use warmpool_api::status::{KindStatus, Status};
use warmpool_api::task::{Status as TaskStatus, TaskPage};

use crate::api::Api;
use crate::clock::BootClock;
use crate::docker::{Container, Docker, host_address, image};
use crate::eventually;
use crate::metrics::Metrics;
use crate::session::Session;
use crate::suite;
use crate::swarm::Swarm;
use crate::thread_end;
use crate::wire::Trusted;

/// Seconds the pool may take to be full on a busy machine.
const WARM_WITHIN: u64 = 150;

/// Seconds within which everything must be given back after a test.
const IDLE_WITHIN: u64 = 120;

/// Seconds within which a daemon ends after SIGTERM, where nothing runs for longer.
const ENDS_WITHIN: u64 = 30;

/// Settings of one daemon, as environment variables without their `WARMPOOL_`.
#[derive(Clone, Debug)]
pub struct Settings {
    values: BTreeMap<String, String>,
    environment: BTreeMap<String, String>,
    names: Option<PathBuf>,
    docker: Docker,
    nodes: Vec<Docker>,
    network_of: Option<i32>,
    time: Option<PathBuf>,
    trusted: Option<Trusted>,
    data_in: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

impl Settings {
    /// A small pool on a free port: one headless Chromium warm, at most four workers; other engines start on demand.
    #[must_use]
    pub fn new() -> Self {
        let mut settings = Self {
            values: BTreeMap::new(),
            environment: BTreeMap::new(),
            names: None,
            docker: Docker::default(),
            nodes: Vec::new(),
            network_of: None,
            time: None,
            trusted: None,
            data_in: None,
        };
        // As scripts/images has it.
        if std::env::var_os("WARMPOOL_IMAGE_REPOSITORY").is_some() {
            for engine in ["chromium", "firefox", "webkit"] {
                settings = settings.set(&format!("WORKER_{}_IMAGE", engine.to_uppercase()), image(engine));
            }
            settings = settings.set("WORLD_IMAGE", image("scene"));
        }
        settings
            .set("EGRESS_ALLOW", host_address())
            .set("SERVER_LISTEN", "127.0.0.1:0")
            // Cases that write requests by hand read until the daemon closes.
            .set("SERVER_KEEP_ALIVE_TIMEOUT", "10s")
            .set("POOL_CHROMIUM_HEADED", "0")
            .set("POOL_CHROMIUM_HEADLESS", "1")
            .set("POOL_FIREFOX_HEADED", "0")
            .set("POOL_WEBKIT_HEADED", "0")
            .set("POOL_MAX_WORKERS", "4")
            .set("SESSION_DEFAULT_URL", "about:blank")
            .set("SESSION_RECONNECT_WINDOW", "5s")
            .set("STORE_MIN_FREE", "1MiB")
            .set("DRAIN_TIMEOUT", "5s")
            .set("LOG_FILTER", "info,warmpool=debug")
    }

    /// The same with nothing warm: each session starts its worker. For a case with a daemon of its own and a session or two,
    /// where a pool would start one more worker behind each of them for nobody.
    #[must_use]
    pub fn on_demand() -> Self {
        Self::new().set("POOL_CHROMIUM_HEADLESS", "0")
    }

    /// Sets `WARMPOOL_<name>`.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl ToString) -> Self {
        self.values.insert(name.to_owned(), value.to_string());
        self
    }

    /// Sets a variable of the system's.
    #[must_use]
    pub fn environment(mut self, name: &str, value: impl ToString) -> Self {
        self.environment.insert(name.to_owned(), value.to_string());
        self
    }

    /// Makes the daemon's process use this file as `/etc/resolv.conf`. Needs the right to mount.
    #[must_use]
    pub fn resolv_conf(mut self, file: &Path) -> Self {
        self.names = Some(file.to_owned());
        self
    }

    /// Keeps the daemon's data in a directory of this one.
    #[must_use]
    pub fn data_in(mut self, directory: &Path) -> Self {
        self.data_in = Some(directory.to_owned());
        self
    }

    /// Uses this engine instead of the machine's own.
    #[must_use]
    pub fn on(mut self, docker: &Docker) -> Self {
        self.docker = docker.clone();
        self
    }

    /// Has workers run in this swarm, and the daemon where it reaches them.
    #[must_use]
    pub fn on_swarm(mut self, swarm: &Swarm) -> Self {
        self.nodes = swarm.engines();
        self.network_of = Some(swarm.seat());
        self.on(swarm.manager())
            .set("SWARM_ENABLED", "true")
            .set("SWARM_ENCRYPTED", "false")
            .set("SERVER_LISTEN", format!("{}:0", swarm.seat_address()))
    }

    /// Serves https with this certificate and key, both files, and trusts the certificate.
    #[must_use]
    pub fn tls(mut self, certificate: &Path, key: &Path, trusted: Trusted) -> Self {
        self.trusted = Some(trusted);
        self.set("SERVER_TLS_CERT", certificate.display()).set("SERVER_TLS_KEY", key.display())
    }
}

/// A running `warmpool serve`. Dropping it ends the process and removes what it may have left; a case fails that drops one which does
/// not end well.
pub struct Daemon {
    settings: Settings,
    data: TempDir,
    process: Option<Child>,
    log: PathBuf,
    base: String,
    key: String,
}

impl Daemon {
    /// Starts a daemon and waits until its pool is warm.
    pub async fn start(settings: Settings) -> Result<Self> {
        let daemon = Self::start_cold(settings).await?;
        daemon.warm().await?;
        Ok(daemon)
    }

    /// Starts a daemon and waits only until it listens.
    pub async fn start_cold(settings: Settings) -> Result<Self> {
        let directory = settings.data_in.clone().unwrap_or_else(std::env::temp_dir);
        let data = tempfile::Builder::new().prefix("warmpool-data-").tempdir_in(directory)?;
        let log = suite::new_log("daemon")?;
        let mut daemon = Self { settings, data, process: None, log, base: String::new(), key: String::new() };
        daemon.launch().await?;
        daemon.key = eventually!("the first key is on disk", 10, daemon.first_key())?;
        Ok(daemon)
    }

    /// Starts a daemon that may never listen, because it waits for a cluster that lets it do what it needs.
    pub fn start_unheard(settings: Settings) -> Result<Self> {
        let data = tempfile::Builder::new().prefix("warmpool-data-").tempdir()?;
        let log = suite::new_log("daemon")?;
        let mut daemon = Self { settings, data, process: None, log, base: String::new(), key: String::new() };
        daemon.spawn()?;
        Ok(daemon)
    }

    /// Starts a second daemon on a copy of this one's data, as when it is restored elsewhere, and waits only until it listens.
    pub async fn twin(&self) -> Result<Self> {
        let mut twin = self.copied()?;
        twin.launch().await?;
        Ok(twin)
    }

    /// The same where it does not listen before this one has ended.
    pub fn waiting_twin(&self) -> Result<Self> {
        let mut twin = self.copied()?;
        twin.spawn()?;
        Ok(twin)
    }

    fn copied(&self) -> Result<Self> {
        let data = tempfile::Builder::new().prefix("warmpool-data-").tempdir()?;
        let from = self.data.path().join(".");
        let status = Command::new("cp").arg("--archive").arg(from).arg(data.path()).status().context("cp")?;
        ensure!(status.success(), "the data cannot be copied");
        let listen = if self.settings.network_of.is_some() { self.host()? } else { "127.0.0.1".to_owned() };
        let settings = self.settings.clone().set("SERVER_LISTEN", format!("{listen}:0"));
        let (log, key) = (suite::new_log("daemon")?, self.key.clone());
        Ok(Self { settings, data, process: None, log, base: String::new(), key })
    }

    /// A `warmpool` command with this daemon's settings, not started yet.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match &self.settings.names {
            None => {
                let network = self.settings.network_of.map(|process| format!("--net=/proc/{process}/ns/net"));
                let time = self.settings.time.as_ref().map(|namespace| format!("--time={}", namespace.display()));
                let namespaces: Vec<String> = network.into_iter().chain(time).collect();
                if namespaces.is_empty() {
                    program()
                } else {
                    let mut command = Command::new("nsenter");
                    command.args(namespaces).arg(binary());
                    command
                }
            }
            Some(file) => {
                // In a mount namespace of its own, so that no other process sees the change.
                let script = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-c", script]).arg(file).arg(binary());
                command
            }
        };
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WARMPOOL_")) {
            command.env_remove(name);
        }
        command.envs(&self.settings.environment);
        for (name, value) in &self.settings.values {
            command.env(format!("WARMPOOL_{name}"), value);
        }
        if let Some(host) = self.settings.docker.host() {
            command.env("WARMPOOL_DOCKER_HOST", host);
        }
        command.env("WARMPOOL_STORE_DATA_DIR", self.data.path()).args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs a `warmpool` command to its end.
    pub async fn cli(&self, arguments: &[&str]) -> Result<std::process::Output> {
        let mut command = tokio::process::Command::from(self.command(arguments));
        command.kill_on_drop(true);
        let output = tokio::time::timeout(Duration::from_secs(60), command.output());
        output.await.with_context(|| format!("warmpool {arguments:?} does not end"))?.context("warmpool")
    }

    /// Runs a `warmpool` command that must succeed; returns its standard output.
    pub async fn cli_ok(&self, arguments: &[&str]) -> Result<String> {
        let output = self.cli(arguments).await?;
        let problem = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "warmpool {arguments:?}: {} {problem}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts the process; returns where it says its address.
    fn spawn(&mut self) -> Result<PathBuf> {
        let out = self.log.with_extension("out");
        let log = File::options().create(true).append(true).open(&self.log)?;
        let child = self.command(&["serve"]).stdout(File::create(&out)?).stderr(log).spawn();
        self.process = Some(child.context("start the daemon (build it first, or set WARMPOOL_TEST_BINARY)")?);
        Ok(out)
    }

    async fn launch(&mut self) -> Result<()> {
        let out = self.spawn()?;
        self.base = eventually!("the daemon says where it listens", 30, {
            if let Some(status) = self.exited()? {
                bail!("the daemon ended at start: {status}\n{}", self.log_text());
            }
            let said = fs::read_to_string(&out)?;
            said.lines().find_map(|line| line.strip_prefix("listening on ")).map(|url| url.trim().to_owned())
        })?;
        // A later start must listen on the same address.
        let port = self.base.rsplit(':').next().unwrap_or_default();
        let host = if self.settings.network_of.is_some() { self.host()? } else { "127.0.0.1".to_owned() };
        self.settings = self.settings.clone().set("SERVER_LISTEN", format!("{host}:{port}"));
        Ok(())
    }

    /// The host of its address.
    fn host(&self) -> Result<String> {
        let address = self.base.split("//").nth(1).and_then(|address| address.rsplit_once(':'));
        Ok(address.context("an address")?.0.to_owned())
    }

    fn first_key(&self) -> Option<String> {
        let key = fs::read_to_string(self.data.path().join("first-key")).ok()?;
        (!key.trim().is_empty()).then(|| key.trim().to_owned())
    }

    /// How the process ended, if it did.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        let Some(process) = &mut self.process else { bail!("the daemon is not running") };
        Ok(process.try_wait()?)
    }

    /// Whether the process runs. One that has ended by itself is a zombie until somebody waits for it.
    pub(crate) fn is_running(&self) -> bool {
        let Some(process) = &self.process else { return false };
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap_or_default();
        // The name before the last bracket may have brackets, too.
        stat.rsplit_once(')').is_some_and(|(_, fields)| !fields.trim_start().starts_with(['Z', 'X']))
    }

    /// Waits for the process to end by itself.
    pub async fn wait(&mut self, seconds: u64) -> Result<ExitStatus> {
        let status = eventually!("the daemon ends", seconds, self.exited()?)?;
        self.process = None;
        Ok(status)
    }

    /// Forgets a process that ended by itself, so that another may start.
    pub fn forget_ended(&mut self) -> Result<()> {
        ensure!(self.exited()?.is_some(), "the daemon still runs");
        self.process = None;
        Ok(())
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let process = self.process.as_ref().context("the daemon is not running")?;
        Ok(kill(Pid::from_raw(process.id().try_into()?), signal)?)
    }

    /// Ends one of the process's threads, by its name.
    pub async fn end_thread(&self, name: &'static str) -> Result<()> {
        let process = self.process.as_ref().context("the daemon is not running")?.id();
        // Who follows a thread is one thread as well.
        tokio::task::spawn_blocking(move || thread_end::end_thread(process, name)).await?
    }

    /// The process's resident memory, in bytes.
    pub fn resident(&self) -> Result<u64> {
        self.memory("VmRSS:")
    }

    /// The most resident memory that the process ever had, in bytes.
    pub fn peak_resident(&self) -> Result<u64> {
        self.memory("VmHWM:")
    }

    fn memory(&self, field: &str) -> Result<u64> {
        let process = self.process.as_ref().context("the daemon is not running")?;
        let status = fs::read_to_string(format!("/proc/{}/status", process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)).with_context(|| field.to_owned())?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
    }

    /// How many descriptors and threads the process has.
    pub fn descriptors_and_threads(&self) -> Result<(usize, usize)> {
        let process = self.process.as_ref().context("the daemon is not running")?;
        let count =
            |what: &str| Ok::<_, anyhow::Error>(fs::read_dir(format!("/proc/{}/{what}", process.id()))?.count());
        Ok((count("fd")?, count("task")?))
    }

    /// How much processor time the process has taken so far.
    pub fn processor_time(&self) -> Result<Duration> {
        let process = self.process.as_ref().context("the daemon is not running")?;
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.id()))?;
        // The name before the last bracket may have spaces; fields 14 and 15 are hundredths of a second.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: Vec<u64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
        ensure!(ticks.len() == 2, "{stat}");
        Ok(Duration::from_millis(10 * ticks.iter().sum::<u64>()))
    }

    /// Limits the process's file descriptors; `None` restores the maximum.
    pub async fn limit_open_files(&self, limit: Option<u64>) -> Result<()> {
        let process = self.process.as_ref().context("the daemon is not running")?;
        let limits = fs::read_to_string(format!("/proc/{}/limits", process.id()))?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).context("Max open files")?;
        let most = line.split_whitespace().nth(1).context("the hard limit")?;
        let soft = limit.map_or_else(|| most.to_owned(), |limit| limit.to_string());
        let mut command = tokio::process::Command::new("prlimit");
        command.args(["--pid", &process.id().to_string(), &format!("--nofile={soft}:{most}")]);
        let output = command.output().await.context("prlimit")?;
        ensure!(output.status.success(), "prlimit: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Ends the process as a crash would.
    pub async fn kill9(&mut self) -> Result<()> {
        self.signal(Signal::SIGKILL)?;
        self.wait(10).await?;
        Ok(())
    }

    /// Changes a setting for the next start.
    pub fn set(&mut self, name: &str, value: impl ToString) {
        self.settings = self.settings.clone().set(name, value);
    }

    /// Lets the next start find this clock.
    pub fn set_boot_clock(&mut self, clock: &BootClock) {
        self.settings.time = Some(clock.namespace());
    }

    /// Starts the process again, at the same address and on the same data.
    pub async fn restart(&mut self) -> Result<()> {
        ensure!(self.process.is_none(), "the daemon still runs");
        self.launch().await
    }

    /// Address without a slash at its end.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.base
    }

    /// The key made at first start.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Uses the first key of another daemon, whose backup has been restored here.
    pub fn take_key_of(&mut self, other: &Self) {
        self.key.clone_from(&other.key);
    }

    /// Where this daemon keeps its data.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        self.data.path()
    }

    /// A caller with the first key.
    #[must_use]
    pub fn api(&self) -> Api {
        let api = Api::new(&self.base).with_key(&self.key);
        match &self.settings.trusted {
            Some(certificate) => api.trusting(certificate.clone()),
            None => api,
        }
    }

    /// The engine that this daemon uses.
    #[must_use]
    pub fn docker(&self) -> &Docker {
        &self.settings.docker
    }

    /// A DevTools session; `headless` is true unless the body says otherwise.
    pub async fn session(&self, body: Value) -> Result<Session> {
        Session::create(&self.api(), &headless(body)).await
    }

    /// A WebDriver session; `headless` is true unless the body says otherwise.
    pub async fn webdriver(&self, body: Value) -> Result<Session> {
        Session::create_webdriver(&self.api(), &headless(body)).await
    }

    /// Waits until `/readyz` answers 200.
    pub async fn ready(&self) -> Result<()> {
        let api = self.api();
        eventually!("the daemon is ready", WARM_WITHIN, api.get("/readyz").await?.status == 200)
    }

    /// Waits until every kind of worker is at its target.
    pub async fn warm(&self) -> Result<()> {
        self.ready().await?;
        let warm = eventually!("the pool is full", WARM_WITHIN, self.kinds().await?.iter().all(full));
        if let Err(late) = warm {
            bail!("{late}: {:?}", self.kinds().await?);
        }
        Ok(())
    }

    /// What the pool has of each kind of worker, from `/status`.
    pub async fn kinds(&self) -> Result<Vec<KindStatus>> {
        Ok(self.api().get("/status").await?.read::<Status>()?.pool)
    }

    /// One scrape of `/metrics`.
    pub async fn metrics(&self) -> Result<Metrics> {
        let reply = self.api().get("/metrics").await?;
        ensure!(reply.status == 200, "{reply}");
        Ok(Metrics::parse(&reply.text()))
    }

    /// The name under which this daemon's containers are labelled.
    pub fn instance(&self) -> Result<String> {
        let path = self.data.path().join("instance.json");
        instance(&fs::read_to_string(&path).with_context(|| path.display().to_string())?)
    }

    /// This daemon's containers, in any state.
    pub async fn containers(&self) -> Result<Vec<Container>> {
        let instance = self.instance()?;
        if self.settings.nodes.is_empty() {
            return self.settings.docker.containers(&instance).await;
        }
        let mut containers = Vec::new();
        for node in &self.settings.nodes {
            containers.extend(node.containers(&instance).await?);
        }
        Ok(containers)
    }

    /// Looks for containers on these nodes from now on: others are gone.
    pub fn forget_lost_nodes(&mut self, swarm: &Swarm) {
        self.settings.nodes = swarm.engines();
    }

    /// The only container. Called before a session is created, it returns the one that the session will get.
    pub async fn only_container(&self) -> Result<String> {
        eventually!("one container is there, and no other", 20, {
            let containers = self.containers().await?;
            (containers.len() == 1).then(|| containers[0].id.clone())
        })
    }

    /// Ends every session that is still live.
    pub async fn end_all(&self) -> Result<()> {
        let api = self.api();
        for session in self.live().await? {
            let reply = api.delete(&format!("/sessions/{}", session.session_id)).await?;
            // It may have ended since, and be forgotten.
            ensure!(matches!(reply.status, 200 | 404), "{reply}");
        }
        Ok(())
    }

    /// Cancels the newest tasks that have not ended.
    pub(crate) async fn cancel_tasks(&self) -> Result<()> {
        let api = self.api();
        let listed: TaskPage = api.get("/lam/tasks?limit=100").await?.read()?;
        for task in listed.tasks.iter().filter(|task| matches!(task.status, TaskStatus::Queued | TaskStatus::Running)) {
            // It may have ended since.
            api.delete(&format!("/lam/tasks/{}", task.task_id)).await?;
        }
        Ok(())
    }

    async fn live(&self) -> Result<Vec<SessionView>> {
        let listed = self.api().get("/sessions?limit=100&status=running&status=starting").await?;
        Ok(listed.read::<SessionPage>()?.sessions)
    }

    /// Waits until everything is given back: no live session, no task, world, viewer, MCP session or message under way, no caller
    /// waiting, the pool full, not one container more than the pool's warm ones, and no folder of a worker without a container.
    /// Errors: something is not, or the daemon has panicked since its start.
    pub async fn assert_idle(&self) -> Result<()> {
        self.assert_given_back(IDLE_GAUGES).await
    }

    /// The same where work that needs no worker is still under way.
    pub async fn assert_workers_idle(&self) -> Result<()> {
        self.assert_given_back(&IDLE_GAUGES[..2]).await
    }

    async fn assert_given_back(&self, gauges: &[(&str, &[(&str, &str)])]) -> Result<()> {
        // A new worker takes longest. Until the pool is full, nothing else is asked for.
        let _ = eventually!("the pool is full", IDLE_WITHIN, self.kinds().await?.iter().all(full));
        let mut seen;
        let idle = eventually!("all is given back", IDLE_WITHIN, {
            let live = self.live().await?.len();
            let kinds = self.kinds().await?;
            let containers = self.containers().await?;
            let ready: usize = kinds.iter().map(|kind| kind.counts.ready).sum();
            let metrics = self.metrics().await?;
            let is_busy = |(name, labels): &&(&str, &[(&str, &str)])| metrics.sum(name, labels) != Some(0.0);
            let busy: Vec<_> = gauges.iter().filter(is_busy).collect();
            let workers: BTreeSet<&str> = containers.iter().filter_map(worker_of).collect();
            let folders = self.worker_folders()?;
            let ownerless: Vec<String> =
                folders.into_iter().filter(|folder| !workers.contains(folder.as_str())).collect();
            let idle = live == 0
                && busy.is_empty()
                && kinds.iter().all(full)
                && containers.len() == ready
                && workers.len() == ready
                && ownerless.is_empty()
                && containers.iter().all(|container| container.state == "running");
            seen = format!(
                "{live} live; gauges that are not 0 or are missing: {busy:?}; folders without a container: {ownerless:?}; {kinds:?}; {containers:?}"
            );
            idle
        });
        idle.with_context(|| seen)?;
        self.assert_no_panic().await
    }

    /// The daemon goes on after a panic, and often answers as if there had been none. This metric is there from the start.
    async fn assert_no_panic(&self) -> Result<()> {
        let panics = self.metrics().await?.sum("warmpool_panics_total", &[]);
        ensure!(panics == Some(0.0), "panics: {panics:?}, {:#?}", suite::faults(&self.log));
        Ok(())
    }

    /// The workers that have a folder in the data directory. Those of a swarm have none.
    pub fn worker_folders(&self) -> Result<BTreeSet<String>> {
        match fs::read_dir(self.data.path().join("agents")) {
            Ok(folders) => {
                folders.map(|folder| Ok(folder?.file_name().to_string_lossy().into_owned())).collect::<Result<_>>()
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Checks what an ended daemon leaves: no container and no folder of a worker.
    pub async fn assert_nothing_left(&self) -> Result<()> {
        let (containers, folders) = (self.containers().await?, self.worker_folders()?);
        ensure!(containers.is_empty() && folders.is_empty(), "folders {folders:?} and {containers:?} are left");
        Ok(())
    }

    /// Shows the end of this log if the running case fails.
    pub(crate) fn log_is_shown(&self) {
        suite::show_log(self.log.clone());
    }

    /// What the daemon has logged.
    #[must_use]
    pub fn log_text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends the process by SIGTERM. For a case whose last session had the only worker there may be: [`Self::assert_idle`] would
    /// wait for another one, which nobody takes.
    /// Errors: it does not end well, or leaves something.
    pub async fn end(mut self) -> Result<()> {
        self.signal(Signal::SIGTERM)?;
        let status = self.wait(ENDS_WITHIN).await?;
        ensure!(status.success(), "it ended with {status}");
        self.assert_nothing_left().await
    }

    /// Writes down that the process has not ended as it should, where the suite looks for it.
    fn log_end(&self, how: &str, what: impl fmt::Display) {
        if let Ok(mut log) = File::options().append(true).open(&self.log) {
            let _ = writeln!(log, "{how}: {what}");
        }
    }

    /// Ends the process, unless it has ended. Returns whether it has ended well by this.
    fn stop(&mut self) -> bool {
        let Some(mut process) = self.process.take() else { return false };
        if let Ok(Some(status)) = process.try_wait() {
            // A case that ends it by a signal need not wait for that.
            if !status.success() && status.signal() != Some(Signal::SIGKILL as i32) {
                self.log_end(suite::ENDED_BY_ITSELF, status);
            }
            return false;
        }
        let pid = i32::try_from(process.id()).map(Pid::from_raw);
        if let Ok(pid) = pid {
            let _ = kill(pid, Signal::SIGTERM);
        }
        let deadline = Instant::now() + Duration::from_secs(ENDS_WITHIN);
        let status = loop {
            match process.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => break status,
                Err(_) => return false,
            }
            if Instant::now() > deadline {
                let _ = process.kill();
            }
            std::thread::yield_now();
            std::thread::park_timeout(Duration::from_millis(20));
        };
        if !status.success() {
            self.log_end(suite::ENDED_BADLY, status);
        }
        status.success()
    }

    /// Whether containers may be there for a while after its end: the nodes of a swarm remove them later.
    fn may_leave_containers(&self) -> bool {
        let keeps_sessions = self.settings.values.get("DRAIN_KEEP_SESSIONS").is_some_and(|keeps| keeps == "true");
        keeps_sessions || !self.settings.nodes.is_empty()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let has_ended_well = self.stop();
        // Whatever the test did, no container outlives it.
        let Ok(instance) = self.instance() else { return };
        let left = self.settings.docker.remove_containers(&instance);
        if has_ended_well && !left.is_empty() && !self.may_leave_containers() {
            self.log_end(suite::ENDED_BADLY, format_args!("the containers {left:?} are left"));
        }
    }
}

/// Gauge: sessions that have not ended.
pub const SESSIONS_LIVE: &str = "warmpool_sessions_live";

/// Gauge: callers who wait for a worker.
pub const QUEUE_LENGTH: &str = "warmpool_queue_length";

/// Label that names the worker in a container.
const WORKER_LABEL: &str = "warmpool.worker";

/// The gauges of what is under way, with their labels: they are there from the start. The first two are those of what needs a worker.
const IDLE_GAUGES: &[(&str, &[(&str, &str)])] = &[
    (SESSIONS_LIVE, &[]),
    (QUEUE_LENGTH, &[]),
    ("warmpool_tasks", &[("state", "queued")]),
    ("warmpool_tasks", &[("state", "running")]),
    ("warmpool_worlds_queued", &[]),
    ("warmpool_webhooks_pending", &[]),
    ("warmpool_live_viewers", &[]),
    ("warmpool_mcp_sessions", &[]),
    // Tables of what is under way. Two others keep what is over until they are used again: `session_names` and `live_views`.
    ("warmpool_table_rows", &[("table", "grid_ids")]),
    ("warmpool_table_rows", &[("table", "held_profiles")]),
    ("warmpool_table_rows", &[("table", "worlds")]),
];

/// The worker in a container.
fn worker_of(container: &Container) -> Option<&str> {
    container.labels.get(WORKER_LABEL).map(String::as_str)
}

/// Whether as many workers of a kind are ready as wanted, and none is on its way.
fn full(kind: &KindStatus) -> bool {
    kind.counts.ready == kind.counts.target && kind.counts.starting == 0
}

fn headless(mut body: Value) -> Value {
    if let Some(fields) = body.as_object_mut() {
        fields.entry("headless").or_insert(json!(true));
    }
    body
}

/// The instance's id in the text of a data directory's `instance.json`.
pub fn instance(text: &str) -> Result<String> {
    let value: Value = serde_json::from_str(text)?;
    Ok(value["id"].as_str().context("id in instance.json")?.to_owned())
}

/// The `warmpool` program, with none of this process's own `WARMPOOL_*` variables.
#[must_use]
pub fn program() -> Command {
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars() {
        if name.starts_with("WARMPOOL_") {
            command.env_remove(name);
        }
    }
    command
}

/// `WARMPOOL_TEST_BINARY`, else the newest build beside this test: release first, then debug.
#[must_use]
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("WARMPOOL_TEST_BINARY") {
        return path.into();
    }
    let target = suite::target_dir();
    let built = ["release", "debug"].map(|profile| target.join(profile).join("warmpool"));
    built.into_iter().find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("warmpool"))
}
