//! Workers on the nodes of a Docker Swarm: three engines on this machine.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use warmpool_tests::{Cdp, Daemon, Group, Session, Settings, Stage, Swarm, eventually, group};

/// A lost node is known within this time.
const LOST_WITHIN: Duration = Duration::from_secs(30);

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [
            sessions_run_on_each_node_and_end_with_it_alone,
            a_node_without_the_image_is_left_out,
            a_reservation_that_fits_nowhere_is_refused_by_name,
        ],
    )
}

fn image() -> String {
    let repository = std::env::var("WARMPOOL_IMAGE_REPOSITORY").unwrap_or_else(|_| "warmpool".to_owned());
    format!("{repository}/chromium:latest")
}

/// The nodes count this machine's cores and memory as theirs, each. Clients have time to come back while it fills the pool.
fn settings(swarm: &Swarm) -> Settings {
    let small = Settings::new().set("WORKER_MEMORY", "1GiB").set("SWARM_RESERVED_CPUS", "0.1");
    small
        .set("SESSION_RECONNECT_WINDOW", "2m")
        .set("POOL_CHROMIUM_HEADLESS", "3")
        .set("POOL_MAX_WORKERS", "9")
        .on_swarm(swarm)
}

/// A session that is attached, and the node it is on.
struct Placed {
    session: Session,
    cdp: Cdp,
    node: String,
}

impl Placed {
    async fn create(daemon: &Daemon, swarm: &Swarm) -> Result<Self> {
        let session = daemon.session(json!({})).await?;
        let cdp = session.cdp().await?;
        let log = daemon.log_text();
        let words = log.lines().find(|line| line.contains("session running") && line.contains(&session.id));
        let worker = words.and_then(|line| line.split("worker=").nth(1)?.split_whitespace().next());
        let worker = worker.with_context(|| format!("the worker of {}", session.id))?;
        let node = swarm.node_of(worker).await?.with_context(|| format!("the node of {worker}"))?;
        Ok(Self { session, cdp, node })
    }

    /// Opens a page and reads it, which goes over the overlay both ways.
    async fn works(&mut self, site: &str) -> Result<()> {
        let page = self.cdp.open(&format!("{site}/form")).await?;
        eventually!("the page is loaded", 20, self.cdp.evaluate(&page, "document.title").await? == "Form")
    }
}

/// The daemon ends and leaves neither a service nor a container.
async fn leaves_nothing(daemon: &mut Daemon, swarm: &Swarm) -> Result<()> {
    daemon.signal(Signal::SIGTERM)?;
    ensure!(daemon.wait(60).await?.success());
    ensure!(swarm.services(&daemon.instance()?).await? == 0, "a service is left");
    eventually!("the nodes remove the containers", 30, daemon.containers().await?.is_empty())
}

async fn sessions_run_on_each_node_and_end_with_it_alone(stage: Stage) -> Result<()> {
    let Some(mut swarm) = Swarm::start(&image(), 3).await? else { return Ok(()) };
    let mut daemon = Daemon::start(settings(&swarm)).await?;
    let site = stage.site_for(&daemon).await?;
    let mut placed: Vec<Placed> = Vec::new();
    let mut nodes = BTreeSet::new();
    // Swarm evens the nodes out, in its own order.
    while nodes.len() < 3 {
        ensure!(placed.len() < 6, "six sessions are on {nodes:?} alone");
        placed.push(Placed::create(&daemon, &swarm).await?);
        nodes.extend(placed.last().map(|one| one.node.clone()));
    }
    for one in &mut placed {
        one.works(&site).await.context(one.node.clone())?;
    }
    workers_reach_nobody(&daemon).await?;

    // Sessions of the other nodes notice nothing.
    let lost = "wpswarm-3".to_owned();
    let began = Instant::now();
    swarm.kill(&lost)?;
    daemon.forget_lost_nodes(&swarm);
    for one in placed.iter_mut().filter(|one| one.node == lost) {
        let record = one.session.becomes("failure", 60).await?;
        ensure!(record["reason"] == "node_lost", "{record}");
    }
    let took = began.elapsed();
    ensure!(took < LOST_WITHIN, "it was known after {took:?}");
    println!("a lost node was known after {:.1} s", took.as_secs_f64());
    placed.retain(|one| one.node != lost);
    for one in &mut placed {
        one.works(&site).await.with_context(|| format!("the session on {} goes on", one.node))?;
    }

    // The next daemon finds the services again by their label.
    daemon.kill9().await?;
    daemon.restart().await?;
    daemon.warm().await?;
    for one in &mut placed {
        ensure!(one.session.status().await? == "running", "{}", one.session.record().await?);
        one.cdp = one.session.cdp().await?;
        one.works(&site).await.with_context(|| format!("the session on {} is found again", one.node))?;
        one.session.delete().await?.ok()?;
    }
    daemon.assert_idle().await?;
    leaves_nothing(&mut daemon, &swarm).await
}

/// The overlay itself keeps no worker from another.
async fn workers_reach_nobody(daemon: &Daemon) -> Result<()> {
    let report: Value = serde_json::from_str(&daemon.cli_ok(&["doctor", "--egress", "--json"]).await?)?;
    let findings = report["findings"].as_array().context("findings")?;
    let siblings = findings.iter().filter(|finding| finding["title"] == "Another worker").count();
    ensure!(report["ok"] == true && siblings == 4, "{report:#}");
    Ok(())
}

async fn a_node_without_the_image_is_left_out(stage: Stage) -> Result<()> {
    let Some(swarm) = Swarm::start(&image(), 2).await? else { return Ok(()) };
    let mut daemon = Daemon::start(settings(&swarm)).await?;
    let site = stage.site_for(&daemon).await?;
    ensure!(
        daemon.log_text().contains("No such image"),
        "Swarm tried the node, and the log says what is missing there"
    );
    for _ in 0..3 {
        let mut placed = Placed::create(&daemon, &swarm).await?;
        ensure!(placed.node != "wpswarm-3", "it has no image");
        placed.works(&site).await?;
        placed.session.delete().await?.ok()?;
    }
    daemon.assert_idle().await?;
    leaves_nothing(&mut daemon, &swarm).await
}

async fn a_reservation_that_fits_nowhere_is_refused_by_name(_: Stage) -> Result<()> {
    let Some(swarm) = Swarm::start(&image(), 1).await? else { return Ok(()) };
    let settings = settings(&swarm).set("WORKER_MEMORY", "900GiB").set("SWARM_PLACEMENT_TIMEOUT", "2s");
    let mut daemon = Daemon::start_cold(settings.set("POOL_CHROMIUM_HEADLESS", "0")).await?;
    daemon.ready().await?;
    let reply = daemon.api().post("/sessions/create", &json!({"headless": true})).await?;
    let fault = reply.fault(503)?;
    ensure!(fault.code == "browser_not_starting", "{reply}");
    for words in ["900GiB", "worker.memory", "insufficient resources on 3 nodes"] {
        ensure!(fault.message.contains(words), "{words}: {reply}");
    }
    ensure!(reply.header("retry-after").is_some(), "{:?}", reply.headers);
    // What fits is served at once after that.
    daemon.kill9().await?;
    daemon.set("WORKER_MEMORY", "1GiB");
    daemon.set("SWARM_CONSTRAINTS", "node.role==manager");
    daemon.restart().await?;
    daemon.ready().await?;
    let placed = Placed::create(&daemon, &swarm).await?;
    ensure!(placed.node == "wpswarm-1", "the constraint holds: {}", placed.node);
    placed.session.delete().await?.ok()?;
    daemon.assert_idle().await?;
    leaves_nothing(&mut daemon, &swarm).await
}
