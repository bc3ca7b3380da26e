//! Workers as Pods of a Kubernetes cluster on this machine, by `scripts/kubernetes`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::sleep;
use warmpool_tests::kubernetes::Kubernetes;

use crate::worlds;
use warmpool_tests::{Cdp, Daemon, Driver, Group, Session, Settings, Stage, eventually, evidence, group};

/// The workers' namespace.
const NAMESPACE: &str = "pool";
/// Names the variable with which the cases run that take longest.
const LONG: &str = "WARMPOOL_TEST_KUBERNETES";
/// How long the API server is away; the lease of the daemon holds for longer.
const AWAY: Duration = Duration::from_secs(60);

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [
            sessions_end_with_their_pod_or_node_alone_and_none_is_left,
            every_engine_runs_and_what_a_cluster_refuses_is_named,
            scenes_are_rendered_and_creates_are_timed_beside_one_host,
        ],
    )
}

fn image_of(engine: &str) -> String {
    let repository = std::env::var("WARMPOOL_IMAGE_REPOSITORY").unwrap_or_else(|_| "warmpool".to_owned());
    format!("{repository}/{engine}:latest")
}

/// The nodes count this machine's cores and memory as theirs, each.
async fn settings(cluster: &Kubernetes) -> Result<Settings> {
    cluster.kubectl(&["create", "namespace", NAMESPACE]).await?;
    Ok(Settings::new()
        .set("KUBERNETES_ENABLED", "true")
        .set("KUBERNETES_KUBECONFIG", cluster.kubeconfig().display())
        .set("KUBERNETES_NAMESPACE", NAMESPACE)
        .set("KUBERNETES_PULL_POLICY", "never")
        .set("KUBERNETES_RESERVED_CPUS", "0.1")
        .set("KUBERNETES_NODE_GRACE", "15s")
        .set("KUBERNETES_AVOID_FOR", "5s")
        .set("WORKER_MEMORY", "1GiB")
        .set("SESSION_RECONNECT_WINDOW", "3m")
        .set("POOL_CHROMIUM_HEADLESS", "2")
        .set("POOL_MAX_WORKERS", "6"))
}

/// A session that is attached, and where it is.
struct Placed {
    session: Session,
    cdp: Cdp,
    pod: String,
    node: String,
}

impl Placed {
    async fn create(daemon: &Daemon, cluster: &Kubernetes) -> Result<Self> {
        let session = daemon.session(json!({})).await?;
        let cdp = session.cdp().await?;
        let log = daemon.log_text();
        let words = log.lines().find(|line| line.contains("session running") && line.contains(&session.id));
        let worker = words.and_then(|line| line.split("worker=").nth(1)?.split_whitespace().next());
        let worker = worker.with_context(|| format!("the worker of {}", session.id))?;
        let found = pods(cluster, &format!("warmpool.worker={worker}")).await?;
        let pod = found.first().with_context(|| format!("the Pod of {worker}"))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Self { session, cdp, pod: text(&pod["metadata"]["name"]), node: text(&pod["spec"]["nodeName"]) })
    }

    /// Opens a page and reads it, which goes over the Pod's network both ways.
    async fn works(&mut self, site: &str) -> Result<()> {
        let page = self.cdp.open(&format!("{site}/form")).await?;
        eventually!("the page is loaded", 20, self.cdp.evaluate(&page, "document.title").await? == "Form")
    }
}

async fn pods(cluster: &Kubernetes, labels: &str) -> Result<Vec<Value>> {
    let text =
        cluster.kubectl(&["--namespace", NAMESPACE, "get", "pods", "--selector", labels, "--output", "json"]).await?;
    let list: Value = serde_json::from_str(&text)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// A session on each node. The scheduler evens them out, in its own order.
async fn on_each(daemon: &Daemon, cluster: &Kubernetes, wanted: &[String]) -> Result<Vec<Placed>> {
    let mut placed: Vec<Placed> = Vec::new();
    while !wanted.iter().all(|node| placed.iter().any(|one| one.node == *node)) {
        let nodes: Vec<_> = placed.iter().map(|one| &one.node).collect();
        ensure!(placed.len() < 4, "four sessions are on {nodes:?} alone");
        daemon.warm().await?;
        placed.push(Placed::create(daemon, cluster).await?);
    }
    Ok(placed)
}

/// The containers of workers that run on a node, as its own engine says.
async fn running_on(cluster: &Kubernetes, node: &str) -> Result<usize> {
    let running =
        cluster.engine(node)?.run(&["ps", "--quiet", "--filter", "label=io.kubernetes.container.name=worker"]).await?;
    Ok(running.lines().count())
}

async fn leaves_nothing(daemon: &mut Daemon, cluster: &Kubernetes) -> Result<()> {
    daemon.signal(Signal::SIGTERM)?;
    ensure!(daemon.wait(60).await?.success());
    eventually!("no Pod is left", 60, pods(cluster, "warmpool.role").await?.is_empty())?;
    for node in cluster.nodes() {
        eventually!("no container is left", 30, running_on(cluster, &node).await? == 0)?;
    }
    Ok(())
}

async fn sessions_end_with_their_pod_or_node_alone_and_none_is_left(stage: Stage) -> Result<()> {
    if std::env::var_os(LONG).is_none() {
        eprintln!("left out, because it takes three minutes: set {LONG}");
        return Ok(());
    }
    let Some(cluster) = Kubernetes::start(&[&image_of("chromium")]).await? else { return Ok(()) };
    let mut daemon = Daemon::start(settings(&cluster).await?).await?;
    let site = stage.site_for(&daemon).await?;
    let nodes = cluster.nodes();
    let mut placed = on_each(&daemon, &cluster, &nodes).await?;
    for one in &mut placed {
        one.works(&site).await.with_context(|| one.node.clone())?;
    }

    // Only what sessions have is kept from autoscalers and from eviction.
    let pod = &placed[0].pod;
    let leased = async || pods(&cluster, "warmpool.leased=true").await;
    eventually!("workers of sessions are marked", 10, leased().await?.len() == placed.len())?;
    let all = pods(&cluster, "warmpool.role=worker").await?;
    let kept = all.iter().filter(|pod| pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true");
    ensure!(kept.count() == placed.len() && all.len() > placed.len(), "{all:#?}");
    let drained = cluster
        .command(&["drain", &placed[0].node, "--force", "--delete-emptydir-data", "--timeout", "8s"])
        .output()
        .await?;
    let said = String::from_utf8_lossy(&drained.stderr);
    ensure!(!drained.status.success() && said.contains("disruption budget"), "{said}");
    ensure!(placed[0].session.status().await? == "running");
    cluster.kubectl(&["uncordon", &placed[0].node]).await?;
    // What is deleted all the same ends one session, once, with the reason.
    cluster.kubectl(&["--namespace", NAMESPACE, "delete", "pod", pod, "--wait=false"]).await?;
    let gone = placed.remove(0);
    let record = gone.session.becomes("failure", 20).await?;
    ensure!(record["reason"] == "evicted" && record["message"].to_string().contains(&gone.node), "{record}");
    let ends = daemon
        .log_text()
        .lines()
        .filter(|line| line.contains("session ended") && line.contains(&gone.session.id))
        .count();
    ensure!(ends == 1, "it ended {ends} times");
    for one in &mut placed {
        one.works(&site).await.context("the others go on")?;
    }
    for one in placed {
        one.session.delete().await?.ok()?;
    }

    // Sessions live while the API server is away, and the next daemon finds them by their label.
    let mut placed = on_each(&daemon, &cluster, &nodes).await?;
    cluster.stop_apiserver().await?;
    let began = Instant::now();
    while began.elapsed() < AWAY {
        for one in &mut placed {
            one.works(&site).await.context("without an API server")?;
        }
        sleep(Duration::from_secs(5)).await;
    }
    cluster.start_apiserver().await?;
    daemon.ready().await?;
    daemon.kill9().await?;
    daemon.restart().await?;
    daemon.warm().await?;
    for one in &mut placed {
        ensure!(one.session.status().await? == "running", "{}", one.session.record().await?);
        one.cdp = one.session.cdp().await?;
        one.works(&site).await.context("it is found again")?;
    }

    // A kubelet ends, and its sessions go on; a cable is pulled, and they do not.
    let node = placed[0].node.clone();
    cluster.stop(&node).await?;
    let ready = async |node: &str| {
        let field = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
        Ok::<_, anyhow::Error>(cluster.kubectl(&["get", "node", node, "--output", field]).await? == "True")
    };
    eventually!("the cluster knows", 40, !ready(&node).await?)?;
    placed[0].works(&site).await.context("without a kubelet")?;
    cluster.restart(&node).await?;
    eventually!("the kubelet is back", 60, ready(&node).await?)?;
    placed[0].works(&site).await.context("the kubelet left it alone")?;
    let began = Instant::now();
    cluster.cut(&node).await?;
    for one in placed.iter_mut().filter(|one| one.node == node) {
        let record = one.session.becomes("failure", 60).await?;
        ensure!(record["reason"] == "node_lost", "{record}");
    }
    println!("a lost node was known after {:.1} s", began.elapsed().as_secs_f64());
    placed.retain(|one| one.node != node);
    for one in &mut placed {
        one.works(&site).await.context("the other node's sessions go on")?;
    }
    ensure!(running_on(&cluster, &node).await? > 0, "what was cut off runs on");
    cluster.heal(&node).await?;
    eventually!("the node is back", 60, ready(&node).await?)?;
    for one in placed {
        one.session.delete().await?.ok()?;
    }
    // It is looked at first, once its old workers are gone. The pool starts a worker behind each session.
    eventually!("the node gets a worker", 90, {
        daemon.warm().await?;
        let workers = pods(&cluster, "warmpool.role=worker").await?;
        let is_there = workers.iter().any(|pod| pod["spec"]["nodeName"] == node.as_str());
        if !is_there {
            daemon.session(json!({})).await?.delete().await?.ok()?;
        }
        is_there
    })?;
    let placed = on_each(&daemon, &cluster, &nodes).await.context("the node gets workers again")?;
    for mut one in placed {
        one.works(&site).await?;
        one.session.delete().await?.ok()?;
    }
    leaves_nothing(&mut daemon, &cluster).await
}

async fn every_engine_runs_and_what_a_cluster_refuses_is_named(stage: Stage) -> Result<()> {
    let images = ["chromium", "firefox", "webkit"].map(image_of);
    let names: Vec<&str> = images.iter().map(String::as_str).collect();
    let Some(cluster) = Kubernetes::start(&names).await? else { return Ok(()) };
    let settings = settings(&cluster).await?.set("POOL_CHROMIUM_HEADLESS", "0");
    let mut daemon =
        Daemon::start_cold(settings.set("POOL_FIREFOX_HEADLESS", "1").set("POOL_WEBKIT_HEADLESS", "1")).await?;
    daemon.warm().await?;
    let site = stage.site_for(&daemon).await?;
    let mut one = Placed::create(&daemon, &cluster).await?;
    one.works(&site).await?;
    one.session.delete().await?.ok()?;
    for engine in ["firefox", "webkit"] {
        let body = json!({ "browser_type": engine, "headless": true });
        let session = Session::create_webdriver(&daemon.api(), &body).await.context(engine)?;
        let driver = Driver::start(session.connect_url()?, json!({})).await?;
        driver.goto(&format!("{site}/form")).await?;
        let title = driver.execute("return document.title").await?;
        ensure!(title == "Form", "{engine}: {title}");
        session.delete().await?.ok()?;
    }
    let report: Value = serde_json::from_str(&daemon.cli_ok(&["doctor", "--nodes", "--json"]).await?)?;
    ensure!(report["ok"] == true && report["findings"].as_array().is_some_and(|found| found.len() >= 2), "{report}");

    // A quota is used up, and the sessions that there are go on.
    let mut one = Placed::create(&daemon, &cluster).await?;
    cluster.kubectl(&["--namespace", NAMESPACE, "create", "quota", "few", "--hard=pods=1"]).await?;
    let reply = daemon.api().post("/sessions/create", &json!({ "headless": true })).await?;
    let fault = reply.fault(503)?;
    ensure!(fault.code == "browser_not_starting" && fault.message.contains("quota"), "{reply}");
    ensure!(daemon.log_text().contains("the quota of the namespace `pool` is used up"), "the log says so");
    one.works(&site).await?;
    cluster.kubectl(&["--namespace", NAMESPACE, "delete", "quota", "few"]).await?;
    one.session.delete().await?.ok()?;
    leaves_nothing(&mut daemon, &cluster).await
}

/// The median of the times that sessions take, on each of two daemons in turn.
async fn medians(daemons: [&Daemon; 2]) -> Result<[Duration; 2]> {
    const SESSIONS: usize = 15;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..SESSIONS {
        for (daemon, times) in daemons.iter().zip(&mut times) {
            daemon.warm().await?;
            let began = Instant::now();
            let session = daemon.session(json!({})).await?;
            times.push(began.elapsed());
            session.delete().await?.ok()?;
        }
    }
    Ok(times.map(|mut times| {
        times.sort_unstable();
        times[SESSIONS / 2]
    }))
}

async fn scenes_are_rendered_and_creates_are_timed_beside_one_host(_: Stage) -> Result<()> {
    if std::env::var_os(LONG).is_none() {
        eprintln!("left out, because it takes two minutes: set {LONG}");
        return Ok(());
    }
    let images = [image_of("chromium"), image_of("scene")];
    let Some(cluster) = Kubernetes::start(&images.each_ref().map(String::as_str)).await? else { return Ok(()) };
    let small = settings(&cluster).await?.set("WORLD_WIDTH", "256").set("WORLD_PREVIEW_WIDTH", "128");
    let mut daemon = Daemon::start(small.set("WORLD_SAMPLES", "2")).await?;

    let key = worlds::integration(&daemon, &["ward"]).await?;
    let mut body = worlds::request(&key, "garden");
    body["images"] = json!([{"data": worlds::picture()?, "label": "By the sea"}]);
    let accepted = worlds::generate(&daemon, body).await?.ok()?;
    eventually!("a renderer's Pod", 60, !pods(&cluster, "warmpool.role=renderer").await?.is_empty())?;
    let world = worlds::ended(&daemon, &accepted["world_id"]).await?;
    ensure!(world["status"] == "ready" && world["progress"] == 1.0, "{world}");
    let panorama = daemon.api().without_key().get(&worlds::path(&daemon, &world["assets"]["panorama_url"])?).await?;
    let read = image::load_from_memory(&panorama.body)?;
    ensure!((read.width(), read.height()) == (256, 128), "{} x {}", read.width(), read.height());
    eventually!("its Pod is removed", 30, pods(&cluster, "warmpool.role=renderer").await?.is_empty())?;
    // A node keeps what Pods print, and this one printed nothing of the patient's.
    for node in cluster.nodes() {
        let logs = cluster.folder_of(&node)?.join("log/pods");
        let found = Command::new("grep").args(["-rls", "panorama\\|scene.jpg\\|hotspots"]).arg(&logs).output().await?;
        ensure!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
    }

    let host =
        Daemon::start(Settings::new().set("POOL_CHROMIUM_HEADLESS", "2").set("POOL_CHROMIUM_HEADED", "0")).await?;
    let [here, there] = medians([&host, &daemon]).await?;
    let ratio = there.as_secs_f64() / here.as_secs_f64();
    evidence::saw(format!("p50 of create: {here:.1?} on one host, {there:.1?} on Kubernetes, {ratio:.2} times"));
    drop(host);
    leaves_nothing(&mut daemon, &cluster).await
}
