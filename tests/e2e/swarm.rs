//! Workers on the nodes of a Docker Swarm: three engines on this machine.

mod engines;
mod guide;
mod moves;
pub(crate) mod stack;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::process::Command;
use warmpool_tests::registry;
use warmpool_tests::{Cdp, Daemon, Group, Nodes, Registry, Session, Settings, Stage, Swarm, docker, eventually, group};

use engines::every_engine_runs_and_workers_are_spread_over_racks;
use moves::the_daemon_moves_to_another_manager_and_comes_back_from_a_backup;
use stack::the_guide_leads_to_a_stack_that_goes_on_when_it_is_killed_or_changed;

/// The second node has no fence, and the third one no image.
const INCOMPLETE: Nodes = Nodes { with_image: 2, unfenced: Some(2) };

/// A lost node is known within this time.
const LOST_WITHIN: Duration = Duration::from_secs(30);

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [
            // These share a swarm, of which the last one destroys a node; and so do the next two.
            every_engine_runs_and_workers_are_spread_over_racks,
            a_reservation_that_fits_nowhere_is_refused_and_nodes_are_drained,
            sessions_end_with_their_node_alone_and_none_is_left_when_it_is_back,
            nodes_without_image_or_fence_are_left_out_and_two_daemons_take_turns,
            nodes_fetch_an_image_by_digest_with_a_password,
            the_daemon_moves_to_another_manager_and_comes_back_from_a_backup,
            the_guide_leads_to_a_stack_that_goes_on_when_it_is_killed_or_changed,
        ],
    )
}

fn image() -> String {
    docker::image("chromium")
}

/// Three nodes that have all images, as an earlier case left them or new ones; with `nodes`, some lack something.
async fn three(stage: &Stage, nodes: Nodes) -> Result<Option<Swarm>> {
    if let Some(swarm) = stage.take::<Swarm>().filter(|swarm| swarm.nodes() == nodes) {
        return Ok(Some(swarm));
    }
    let images = images();
    Swarm::start(&images.each_ref().map(String::as_str), nodes).await
}

fn images() -> [String; 3] {
    ["chromium", "firefox", "webkit"].map(docker::image)
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
        let worker = eventually!("the log names its worker", 10, session.worker_in(&daemon.log_text()).ok())?;
        let node = swarm.node_of(&worker).await?.with_context(|| format!("the node of {worker}"))?;
        Ok(Self { session, cdp, node })
    }

    /// Opens a page and reads it, which goes over the overlay both ways.
    async fn works(&mut self, site: &str) -> Result<()> {
        self.cdp.reads_form(site).await
    }
}

/// Sessions until one is on each of these nodes. Swarm evens the nodes out, in its own order.
async fn on_each(daemon: &Daemon, swarm: &Swarm, wanted: &[String]) -> Result<Vec<Placed>> {
    for node in wanted {
        // Before that the others get its share, as while it still fetches the image.
        eventually!("the node is fit for workers", 90, {
            let log = daemon.log_text();
            log.lines().any(|line| line.contains("a node is fit for workers") && line.contains(node))
        })?;
    }
    let mut placed: Vec<Placed> = Vec::new();
    while !wanted.iter().all(|node| placed.iter().any(|one| one.node == *node)) {
        let nodes: Vec<_> = placed.iter().map(|one| &one.node).collect();
        ensure!(placed.len() < 6, "six sessions are on {nodes:?} alone");
        placed.push(Placed::create(daemon, swarm).await?);
    }
    Ok(placed)
}

/// A node, as `warmpool node list` shows it.
async fn listed(daemon: &Daemon, name: &str) -> Result<Value> {
    let nodes: Vec<Value> = serde_json::from_str(&daemon.cli_ok(&["node", "list", "--json"]).await?)?;
    nodes.into_iter().find(|node| node["name"] == name).with_context(|| format!("{name} is not listed"))
}

/// The containers of a daemon that run on a node, as its own engine says.
async fn running_on(swarm: &Swarm, node: &str, instance: &str) -> Result<Vec<String>> {
    let containers = swarm.engine(node)?.containers(instance).await?;
    let running = containers.into_iter().filter(|container| container.state == "running");
    Ok(running.filter(|one| one.labels.contains_key("warmpool.worker")).map(|container| container.id).collect())
}

/// The daemon ends and leaves neither a service nor a container.
async fn leaves_nothing(daemon: &mut Daemon, swarm: &Swarm) -> Result<()> {
    daemon.signal(Signal::SIGTERM)?;
    ensure!(daemon.wait(60).await?.success());
    ensure!(swarm.services(&daemon.instance()?).await? == 0, "a service is left");
    ensure!(swarm.manager().run(&["config", "ls", "--quiet"]).await?.is_empty(), "the lease is left");
    eventually!("the nodes remove the containers", 30, daemon.containers().await?.is_empty())
}

/// The overlay itself keeps no worker from another, nor from the daemon.
async fn workers_reach_nobody(daemon: &Daemon) -> Result<()> {
    let report: Value = serde_json::from_str(&daemon.cli_ok(&["doctor", "--egress", "--json"]).await?)?;
    let findings = report["findings"].as_array().context("findings")?;
    let siblings = findings.iter().filter(|finding| finding["title"] == "Another worker").count();
    ensure!(report["ok"] == true && siblings == 4, "{report:#}");
    Ok(())
}

async fn sessions_end_with_their_node_alone_and_none_is_left_when_it_is_back(stage: Stage) -> Result<()> {
    let Some(mut swarm) = three(&stage, Nodes::ALIKE).await? else { return Ok(()) };
    let mut daemon = Daemon::start(settings(&swarm).set("SWARM_AVOID_FOR", "5s")).await?;
    let site = stage.site_for(&daemon).await?;
    let [first, second, third] = [1, 2, 3].map(|number| swarm.name(number));
    let mut placed = on_each(&daemon, &swarm, &[first.clone(), second.clone(), third.clone()]).await?;
    for one in &mut placed {
        one.works(&site).await.context(one.node.clone())?;
    }
    workers_reach_nobody(&daemon).await?;

    // One node dies, and another one is cut off at the same time. Sessions of the remaining one notice nothing.
    let began = Instant::now();
    swarm.kill(&third)?;
    swarm.plug(&second, "down")?;
    daemon.forget_lost_nodes(&swarm);
    // Swarm does not know yet, and still has warm workers there and gives it new ones.
    let after = Placed::create(&daemon, &swarm).await?;
    ensure!(after.node == first, "a client gets a worker of the node that is left, not of {}", after.node);
    placed.push(after);
    for one in placed.iter_mut().filter(|one| one.node != first) {
        let record = one.session.becomes("failure", 60).await?;
        ensure!(record["reason"] == "node_lost", "{record}");
    }
    let took = began.elapsed();
    ensure!(took < LOST_WITHIN, "it was known after {took:?}");
    println!("lost nodes were known after {:.1} s", took.as_secs_f64());
    placed.retain(|one| one.node == first);
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
    ensure!(listed(&daemon, &second).await?["state"] == "lost");
    let stale = running_on(&swarm, &second, &daemon.instance()?).await?;
    ensure!(!stale.is_empty(), "what was cut off runs on");

    // The node is back, and has none of its old workers any more when it gets a new one.
    swarm.plug(&second, "up")?;
    let began = Instant::now();
    eventually!("the node is back", 60, listed(&daemon, &second).await?["state"] == "ready")?;
    println!("the node was back after {:.1} s", began.elapsed().as_secs_f64());
    eventually!("the node gets a worker", 90, {
        daemon.warm().await?;
        let running = running_on(&swarm, &second, &daemon.instance()?).await?;
        let new = running.iter().any(|id| !stale.contains(id));
        ensure!(!new || running.iter().all(|id| !stale.contains(id)), "{running:?} run beside {stale:?}");
        let ready = listed(&daemon, &second).await?["ready"].as_u64();
        if ready == Some(0) {
            // The pool starts a worker behind each session.
            daemon.session(json!({})).await?.delete().await?.ok()?;
        }
        ready > Some(0)
    })?;
    println!("the node had a warm worker after {:.1} s", began.elapsed().as_secs_f64());
    let mut placed = on_each(&daemon, &swarm, std::slice::from_ref(&second)).await?;
    for one in &mut placed {
        one.works(&site).await.with_context(|| format!("a session on {}", one.node))?;
        one.session.delete().await?.ok()?;
    }
    daemon.assert_idle().await?;
    leaves_nothing(&mut daemon, &swarm).await
}

async fn nodes_without_image_or_fence_are_left_out_and_two_daemons_take_turns(stage: Stage) -> Result<()> {
    let Some(swarm) = three(&stage, INCOMPLETE).await? else { return Ok(()) };
    let mut daemon = Daemon::start(settings(&swarm).set("SWARM_LEASE", "6s")).await?;
    let site = stage.site_for(&daemon).await?;
    let [first, second, third] = [1, 2, 3].map(|number| swarm.name(number));
    for (node, words) in [(&second, "no_new_privs is off"), (&third, "No such image")] {
        let is_told = |line: &str| line.contains("gets no workers") && line.contains(node) && line.contains(words);
        let what = format!("the log says of {node} what is missing there: {words}");
        eventually!(what, 10, daemon.log_text().lines().any(is_told))?;
        let left_out = listed(&daemon, node).await?["left_out"].to_string();
        ensure!(left_out.contains(words), "{left_out}");
    }
    let report = daemon.cli(&["doctor", "--swarm", "--json"]).await?;
    let report: Value = serde_json::from_slice(&report.stdout)?;
    ensure!(report["ok"] == false, "{report}");
    let found = |node: &str, level: &str, words: [&str; 2]| {
        let findings = report["findings"].as_array().into_iter().flatten();
        let mut of_node = findings.filter(|finding| finding["level"] == level && finding.to_string().contains(node));
        of_node.any(|finding| words.iter().all(|words| finding.to_string().contains(words)))
    };
    ensure!(found(&first, "ok", ["", ""]), "{report}");
    ensure!(found(&second, "fail", ["no_new_privs", "no-new-privileges"]), "{report}");
    ensure!(found(&second, "fail", ["user namespaces", "seccomp-profile"]), "{report}");
    ensure!(found(&third, "warn", ["No such image", "not looked at"]), "{report}");
    for _ in 0..3 {
        let mut placed = Placed::create(&daemon, &swarm).await?;
        ensure!(placed.node == first, "workers go where everything is: {}", placed.node);
        placed.works(&site).await?;
        placed.session.delete().await?.ok()?;
    }

    // A second daemon of this instance waits until the first one has not renewed its lease for long enough.
    let placed = Placed::create(&daemon, &swarm).await?;
    daemon.signal(Signal::SIGSTOP)?;
    let began = Instant::now();
    let mut other = daemon.twin().await?;
    eventually!("it waits", 5, other.log_text().contains("another daemon has the workers of this instance"))?;
    other.warm().await?;
    let took = began.elapsed();
    println!("the second daemon was warm after {:.1} s", took.as_secs_f64());
    ensure!(took > Duration::from_secs(5), "it took over too soon, after {took:?}");
    ensure!(other.log_text().contains("taking over"), "it says so");
    daemon.signal(Signal::SIGCONT)?;
    let status = daemon.wait(20).await?;
    ensure!(status.code() == Some(75), "{status}");
    ensure!(daemon.log_text().contains("leaves its workers to another one"), "it says why it ends");
    let session = format!("/sessions/{}", placed.session.id);
    let record = other.api().get(&session).await?.ok()?;
    ensure!(record["status"] == "running", "the session goes on: {record}");
    other.api().delete(&session).await?.ok()?;
    other.assert_idle().await?;
    leaves_nothing(&mut other, &swarm).await?;
    stage.keep(swarm);
    Ok(())
}

async fn a_reservation_that_fits_nowhere_is_refused_and_nodes_are_drained(stage: Stage) -> Result<()> {
    let Some(swarm) = three(&stage, Nodes::ALIKE).await? else { return Ok(()) };
    let settings = settings(&swarm)
        .set("WORKER_MEMORY", "900GiB")
        .set("SWARM_PLACEMENT_TIMEOUT", "2s")
        .set("SWARM_RECHECK_AFTER", "1s");
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
    daemon.set("POOL_CHROMIUM_HEADLESS", "3");
    daemon.set("SWARM_CONSTRAINTS", format!("node.hostname!={}", swarm.name(1)));
    daemon.restart().await?;
    daemon.warm().await?;
    let site = stage.site_for(&daemon).await?;
    let [first, second, third] = [1, 2, 3].map(|number| swarm.name(number));
    let mut placed = on_each(&daemon, &swarm, &[second.clone(), third.clone()]).await?;
    ensure!(placed.iter().all(|one| one.node != first), "the constraint holds");
    ensure!(!daemon.log_text().contains("gets no workers"), "what a constraint leaves out is no failure");

    // A node is drained gently: its session goes on, and nothing new comes.
    let wrong = daemon.cli(&["node", "drain", "nobody"]).await?;
    let problem = String::from_utf8_lossy(&wrong.stderr);
    ensure!(wrong.status.code() == Some(65) && problem.contains(&third), "{problem}");
    daemon.cli_ok(&["node", "drain", &third]).await?;
    ensure!(listed(&daemon, &third).await?["availability"] == "draining");
    eventually!("its warm workers go", 20, listed(&daemon, &third).await?["ready"] == 0)?;
    daemon.warm().await?;
    let new = Placed::create(&daemon, &swarm).await?;
    ensure!(new.node == second, "nothing new comes to a node that is being drained");
    new.session.delete().await?.ok()?;
    for one in placed.iter_mut().filter(|one| one.node == third) {
        one.works(&site).await.context("its session goes on")?;
        ensure!(listed(&daemon, &third).await?["availability"] == "draining", "it waits for the session");
        one.session.delete().await?.ok()?;
    }
    eventually!("Swarm drains it", 30, availability(&swarm, &third).await? == "drain")?;
    let status = async || daemon.api().get("/status").await?.ok();
    eventually!("the daemon knows", 10, status().await?["nodes"]["drained"] == 1)?;
    let status = status().await?;
    ensure!(
        status["nodes"]["total"] == 3 && !status.to_string().contains(&third),
        "names are the operator's: {status}"
    );
    daemon.cli_ok(&["node", "undrain", &third]).await?;
    ensure!(availability(&swarm, &third).await? == "active", "it is used again");
    placed.retain(|one| one.node == second);

    // A node that changes is looked at again, and shows that its fence is as it was.
    let seen = daemon.log_text().len();
    swarm.manager().run(&["node", "update", "--label-add", "changed=yes", &second]).await?;
    eventually!("the node is as it was", 60, {
        daemon.session(json!({})).await?.delete().await?.ok()?;
        let log = daemon.log_text();
        log[seen..].lines().any(|line| line.contains("a node is as it was") && line.contains(&second))
    })?;

    // Somebody else drains a node at once.
    swarm.manager().run(&["node", "update", "--availability", "drain", &second]).await?;
    for one in &mut placed {
        let record = one.session.becomes("failure", 30).await?;
        ensure!(record["reason"] == "node_drained", "{record}");
    }
    eventually!("it is told", 10, daemon.log_text().contains("somebody drained a node at once"))?;
    daemon.warm().await?;
    let mut new = Placed::create(&daemon, &swarm).await?;
    ensure!(new.node == third, "the pool refills elsewhere: {}", new.node);
    new.works(&site).await?;
    new.session.delete().await?.ok()?;
    daemon.assert_idle().await?;
    leaves_nothing(&mut daemon, &swarm).await?;
    swarm.manager().run(&["node", "update", "--availability", "active", &second]).await?;
    stage.keep(swarm);
    Ok(())
}

/// What Swarm makes of a node.
async fn availability(swarm: &Swarm, node: &str) -> Result<String> {
    swarm.manager().run(&["node", "inspect", "--format", "{{.Spec.Availability}}", node]).await
}

/// Pushes the image of the tests to a registry, as an operator does; returns how the setting names it for the nodes.
async fn push(registry: &Registry, swarm: &Swarm) -> Result<String> {
    let port = registry.port();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/images");
    let mut images = Command::new(script);
    // An engine speaks to loopback without TLS.
    images.args(["--engine", "chromium", "--push", &format!("127.0.0.1:{port}/pool")]);
    let config = registry.logged_in()?;
    let output = images.env("DOCKER_CONFIG", config.path()).kill_on_drop(true).output().await?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let line = said.lines().find_map(|line| line.strip_prefix("chromium_image = ")).context("a setting")?;
    let name = line.trim_matches('"');
    ensure!(name.starts_with(&format!("127.0.0.1:{port}/pool/chromium@sha256:")), "{name}");
    Ok(name.replacen("127.0.0.1", &swarm.outside_address(), 1))
}

async fn nodes_fetch_an_image_by_digest_with_a_password(stage: Stage) -> Result<()> {
    let Some(swarm) = three(&stage, INCOMPLETE).await? else { return Ok(()) };
    let registry = Registry::start(&image()).await?;
    let image = push(&registry, &swarm).await?;
    let folder = tempfile::tempdir()?;
    let password = folder.path().join("password");
    std::fs::write(&password, "another\n")?;
    let settings = settings(&swarm)
        .set("WORKER_CHROMIUM_IMAGE", &image)
        .set("SWARM_REGISTRY", format!("{}:{}", swarm.outside_address(), registry.port()))
        .set("SWARM_REGISTRY_USER", registry::USER)
        .set("SWARM_REGISTRY_PASSWORD_FILE", password.display())
        .set("SWARM_AVOID_FOR", "5s")
        .set("SWARM_CONSTRAINTS", format!("node.hostname!={}", swarm.name(2)));
    let mut daemon = Daemon::start_cold(settings).await?;
    let nodes = [1, 3].map(|number| swarm.name(number));
    for node in &nodes {
        let words = ["gets no workers", node, "unauthorized", "swarm.registry_password_file"];
        let is_told = |line: &str| words.iter().all(|words| line.contains(words));
        eventually!("the log says what the registry refuses", 60, daemon.log_text().lines().any(is_told))?;
    }
    // It is mended without a restart.
    std::fs::write(&password, format!("{}\n", registry::PASSWORD))?;
    daemon.warm().await?;
    let site = stage.site_for(&daemon).await?;
    for mut placed in on_each(&daemon, &swarm, &nodes).await? {
        placed.works(&site).await.context(placed.node.clone())?;
        placed.session.delete().await?.ok()?;
    }
    let shown = eventually!("all services are shown", 20, {
        let ids = swarm.manager().run(&["service", "ls", "--quiet"]).await?;
        let ids: Vec<&str> = ids.lines().collect();
        // One of them may go meanwhile.
        swarm.manager().run(&[&["service", "inspect"], &ids[..]].concat()).await.ok()
    })?;
    ensure!(shown.contains(&image) && !shown.contains(registry::PASSWORD), "{shown}");
    ensure!(!daemon.log_text().contains(registry::PASSWORD), "the log keeps the password to itself");
    let digest = image.split('@').nth(1).context("a digest")?;
    for node in &nodes {
        let images = swarm.engine(node)?.run(&["images", "--digests", "--format", "{{.Digest}}"]).await?;
        ensure!(images.contains(digest), "{node} has {images}");
    }
    daemon.assert_idle().await?;
    leaves_nothing(&mut daemon, &swarm).await
}
