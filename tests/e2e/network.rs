//! Workers have no network, whatever the engine has; an agent on TCP leaves the one on which it is reached.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use serde_json::json;
use warmpool_tests::{Daemon, Docker, Driver, Group, Settings, Stage, docker, eventually, evidence, group};

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [
            pages_of_a_worker_without_a_network_are_online,
            daemons_that_start_at_once_make_no_network,
            a_network_of_an_earlier_release_is_removed,
            an_agent_on_tcp_leaves_its_network,
            two_networks_of_one_name_are_in_nobodys_way,
            an_agent_without_a_namespace_stays_off_every_network,
        ],
    )
}

/// A network of the test's own, removed with it.
struct Network {
    name: String,
}

impl Network {
    /// Some name. Nothing has it yet.
    fn named(purpose: &str) -> Self {
        Self { name: format!("warmpool-test-{purpose}-{}", std::process::id()) }
    }

    async fn create(&self, options: &[&str]) -> Result<String> {
        let arguments = [&["network", "create"], options, &[self.name.as_str()]].concat();
        Docker::default().run(&arguments).await
    }

    /// The ids of the networks that have the name.
    async fn ids(&self) -> Result<Vec<String>> {
        let filter = format!("name=^{}$", self.name);
        let listed = Docker::default().run(&["network", "ls", "--quiet", "--no-trunc", "--filter", &filter]).await?;
        Ok(listed.lines().map(str::to_owned).collect())
    }

    fn settings(&self) -> Settings {
        Settings::new().set("DOCKER_NETWORK", &self.name)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let filter = format!("name=^{}$", self.name);
        let listed =
            std::process::Command::new("docker").args(["network", "ls", "--quiet", "--filter", &filter]).output();
        let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        for id in listed.lines() {
            let _ = std::process::Command::new("docker").args(["network", "rm", id]).output();
        }
    }
}

async fn pages_of_a_worker_without_a_network_are_online(_: Stage) -> Result<()> {
    for engine in ["chromium", "firefox", "webkit"] {
        let settings = Settings::on_demand()
            .set(&format!("POOL_{}_HEADLESS", engine.to_uppercase()), 1)
            .set("POOL_MAX_WORKERS", 1);
        let daemon = Daemon::start(settings).await?;
        let container = daemon.only_container().await?;
        let network = "{{.HostConfig.NetworkMode}} {{.Config.NetworkDisabled}}";
        let mode = daemon.docker().run(&["inspect", "--format", network, &container]).await?;
        ensure!(mode == "none true", "{engine}: {mode}");
        let session = daemon.webdriver(json!({"browser_type": engine, "headless": true})).await?;
        let driver = Driver::start(session.connect_url()?, json!({})).await?;
        // WebKitGTK asks GLib, which calls a host online that has a default route, and no worker has one.
        ensure!(driver.execute("return navigator.onLine").await? == (engine != "webkit"), "{engine}");
        // An address that came later would fail what Chromium is loading at that moment.
        let pid = *daemon.docker().browser_pids(&container).await?.first().context("a browser")?;
        let addresses = std::fs::read_to_string(format!("/proc/{pid}/net/if_inet6"))?;
        ensure!(addresses.lines().all(|line| line.ends_with(" lo")), "{engine}: {addresses}");
        session.delete().await?.ok()?;
        daemon.end().await?;
    }
    Ok(())
}

async fn daemons_that_start_at_once_make_no_network(_: Stage) -> Result<()> {
    let network = Network::named("at-once");
    let daemons = try_join_all((0..4).map(|_| Daemon::start(network.settings()))).await?;
    ensure!(network.ids().await?.is_empty(), "{:?}", network.ids().await?);
    for daemon in &daemons {
        daemon.assert_idle().await?;
    }
    Ok(())
}

/// What an earlier release made is of no use any more, and would stay on the engine for good.
async fn a_network_of_an_earlier_release_is_removed(_: Stage) -> Result<()> {
    let network = Network::named("earlier");
    let without_host = "com.docker.network.bridge.inhibit_ipv4=true";
    network.create(&["--internal", "--label", "warmpool.network=workers", "--opt", without_host]).await?;
    let daemon = Daemon::start(Settings::new()).await?;
    eventually!("the network is gone", 20, network.ids().await?.is_empty())?;
    daemon.assert_idle().await
}

async fn an_agent_on_tcp_leaves_its_network(_: Stage) -> Result<()> {
    let network = Network::named("tcp");
    let daemon = Daemon::start(network.settings().set("WORKER_AGENT_TRANSPORT", "tcp")).await?;
    ensure!(network.ids().await?.len() == 1, "the daemon made the network");
    let container = daemon.only_container().await?;
    let pids = daemon.docker().browser_pids(&container).await?;
    let browser = pids.first().context("a browser")?;
    let devices = fs::read_to_string(format!("/proc/{browser}/net/dev"))?;
    ensure!(devices.contains("eth1:"), "both ends of the cable are the browser's: {devices}");
    let routes = fs::read_to_string(format!("/proc/{browser}/net/route"))?;
    ensure!(routes.lines().count() == 1, "a route leads somewhere: {routes}");
    daemon.session(json!({})).await?.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// Engines before 25 take a name twice when two ask at the same moment, and start no container on that name then.
async fn two_networks_of_one_name_are_in_nobodys_way(_: Stage) -> Result<()> {
    let network = Network::named("twice");
    let asked = ["--internal", "--label", "warmpool.network=workers"];
    let first = network.create(&asked).await?;
    // The engine's command line refuses a second one of the name; its API does as it is told.
    let body = json!({"Name": network.name, "Driver": "bridge", "Internal": true, "CheckDuplicate": false});
    let socket = "/var/run/docker.sock";
    let made = std::process::Command::new("curl")
        .args(["--silent", "--fail", "--unix-socket", socket, "--header", "content-type: application/json"])
        .args(["--data", &body.to_string(), "http://docker/networks/create"])
        .output()?;
    let is_twice = made.status.success() && network.ids().await?.len() == 2;
    if !is_twice {
        evidence::cannot(format!("the engine makes no second network of a name: {}", made.status));
    }
    let daemon = Daemon::start(network.settings().set("WORKER_AGENT_TRANSPORT", "tcp")).await?;
    let container = daemon.only_container().await?;
    let format = "{{range .NetworkSettings.Networks}}{{.NetworkID}}{{end}}";
    let on = daemon.docker().run(&["inspect", "--format", format, &container]).await?;
    ensure!(on == first, "workers are on the eldest; two of the name: {is_twice}");
    daemon.assert_idle().await
}

/// The engine's own seccomp profile stands for a host that forbids user namespaces.
async fn an_agent_without_a_namespace_stays_off_every_network(_: Stage) -> Result<()> {
    let (docker, image) = (Docker::default(), docker::image("chromium"));
    let hardened = ["--rm", "--network", "none", "--cap-drop", "ALL", "--user", "61000:61000"];
    let by_tcp = docker.command(&[&["run"], &hardened[..], &[&image]].concat()).output().await?;
    let said = String::from_utf8_lossy(&by_tcp.stderr).into_owned();
    ensure!(!by_tcp.status.success() && said.contains("may not make a namespace"), "{said}");

    let folder = tempfile::tempdir()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
    let mount = format!("{}:/run/warmpool", folder.path().display());
    let run = [&["run", "--detach", "--volume", &mount], &hardened[..], &[&image]].concat();
    let container = docker.run(&run).await?;
    let listens = eventually!("the agent listens", 20, folder.path().join("agent.sock").exists());
    let said = docker.command(&["logs", &container]).output().await?;
    docker.run(&["rm", "--force", &container]).await?;
    listens?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    ensure!(said.contains("navigator.onLine is false"), "{said}");
    Ok(())
}
