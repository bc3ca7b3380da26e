//! The workers' network: one on which they could reach one another is refused, and so is starting on it.

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use serde_json::json;
use warmpool_tests::{Daemon, Docker, Group, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [
            an_open_network_is_refused_with_its_remedy,
            a_network_of_an_earlier_release_is_refused,
            a_network_that_somebody_made_right_is_used,
            an_open_network_in_its_place_stops_new_workers,
            daemons_that_start_at_once_share_one_network,
        ],
    )
}

/// What makes a network fit for workers.
const FIT: [&str; 5] = [
    "--internal",
    "--opt",
    "com.docker.network.bridge.enable_icc=false",
    "--opt",
    "com.docker.network.bridge.inhibit_ipv4=true",
];

/// A network of the test's own, removed with what is on it.
struct Network {
    name: String,
}

impl Network {
    async fn create(options: &[&str]) -> Result<Self> {
        let name = format!("warmpool-test-{}", std::process::id());
        let arguments = [&["network", "create"], options, &[name.as_str()]].concat();
        Docker::default().run(&arguments).await?;
        Ok(Self { name })
    }

    async fn ask(&self, format: &str) -> Result<String> {
        Docker::default().run(&["network", "inspect", "--format", format, &self.name]).await
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = std::process::Command::new("docker").args(["network", "rm", &self.name]).output();
    }
}

fn settings(network: &Network) -> Settings {
    Settings::new().set("DOCKER_NETWORK", &network.name)
}

async fn an_open_network_is_refused_with_its_remedy(_: Stage) -> Result<()> {
    let network = Network::create(&[]).await?;
    let mut daemon = Daemon::start_cold(settings(&network)).await?;
    ensure!(!daemon.wait(60).await?.success(), "the daemon does not run on it");
    let remedy = format!("docker network rm {}", network.name);
    let said = daemon.log_text();
    ensure!(said.contains("reach one another") && said.contains(&format!("`{remedy}`")), "{said}");
    let doctor = daemon.cli(&["doctor"]).await?;
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    ensure!(!doctor.status.success() && said.contains("reach one another") && said.contains(&remedy), "{said}");

    // The command from the message repairs it.
    let words: Vec<&str> = remedy.split(' ').skip(1).collect();
    Docker::default().run(&words).await?;
    daemon.restart().await?;
    daemon.warm().await.context("it starts on a network that it makes")?;
    let made =
        network.ask("{{index .Options \"com.docker.network.bridge.enable_icc\"}} {{.EnableIPv6}} {{.Labels}}").await?;
    ensure!(made.starts_with("false false") && made.contains("warmpool.network"), "{made}");
    daemon.cli_ok(&["doctor"]).await?;
    daemon.assert_idle().await?;
    drop(daemon);
    Ok(())
}

async fn a_network_of_an_earlier_release_is_refused(_: Stage) -> Result<()> {
    let network = Network::create(&["--opt", "com.docker.network.bridge.enable_icc=false"]).await?;
    let mut daemon = Daemon::start_cold(settings(&network)).await?;
    ensure!(!daemon.wait(60).await?.success(), "the daemon does not run on it");
    let said = daemon.log_text();
    ensure!(said.contains("leads to other networks") && said.contains("docker network rm"), "{said}");
    Ok(())
}

async fn a_network_that_somebody_made_right_is_used(_: Stage) -> Result<()> {
    let network = Network::create(&FIT).await?;
    let id = network.ask("{{.Id}}").await?;
    let daemon = Daemon::start(settings(&network)).await?;
    ensure!(network.ask("{{.Id}} {{len .Containers}}").await? == format!("{id} 1"), "its worker is on that one");
    daemon.cli_ok(&["doctor"]).await?;
    daemon.assert_idle().await?;
    drop(daemon);
    Ok(())
}

async fn an_open_network_in_its_place_stops_new_workers(_: Stage) -> Result<()> {
    let network = Network::create(&FIT).await?;
    // No worker waits, so that somebody can take the network away.
    let settings = settings(&network).set("POOL_CHROMIUM_HEADLESS", "0").set("DOCKER_RECONCILE_INTERVAL", "1s");
    let daemon = Daemon::start(settings).await?;
    let (api, docker) = (daemon.api(), Docker::default());
    let remove = ["network", "rm", network.name.as_str()];
    eventually!("an open one is in its place", 20, {
        // The daemon may be quicker and create the network again, correctly.
        let _ = docker.run(&remove).await;
        docker.run(&["network", "create", &network.name]).await.is_ok()
    })?;
    eventually!("readiness says so", 30, api.get("/readyz").await?.status == 503)?;
    let reply = api.post("/sessions/create", &json!({"headless": true})).await?;
    ensure!(reply.fault(503)?.code == "runtime_down", "{reply}");
    ensure!(daemon.log_text().contains(&format!("docker network rm {}", network.name)), "the log has the remedy");
    docker.run(&remove).await?;
    daemon.ready().await.context("the daemon makes it again")?;
    daemon.session(json!({})).await?.delete().await?.ok()?;
    daemon.assert_idle().await?;
    drop(daemon);
    Ok(())
}

/// Engines before 25 take a name twice when two ask at the same moment, and start no container on either network then.
async fn daemons_that_start_at_once_share_one_network(_: Stage) -> Result<()> {
    // It removes the network that the daemons make.
    let network = Network { name: format!("warmpool-test-at-once-{}", std::process::id()) };
    let daemons = try_join_all((0..4).map(|_| Daemon::start(settings(&network)))).await?;
    let filter = format!("name={}", network.name);
    let found = Docker::default().run(&["network", "ls", "--quiet", "--filter", &filter]).await?;
    ensure!(found.lines().count() == 1, "{found}");
    for daemon in &daemons {
        daemon.assert_idle().await?;
    }
    drop(daemons);
    Ok(())
}
