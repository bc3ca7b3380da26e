//! Workers as Pods of a Kubernetes cluster on this machine, by `scripts/kubernetes`. All cases that need a cluster are in this
//! group, and share one: each has a namespace of its own, and leaves nothing there.

mod capacity;
mod loss;
mod refusals;

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::process::Command;
use warmpool_tests::kubernetes::Kubernetes;

use self::capacity::{
    a_node_takes_as_many_workers_as_it_says, scenes_are_rendered_and_creates_are_timed_beside_one_host,
};
use self::loss::{
    sessions_end_with_their_pod_or_node_alone_and_none_is_left, what_a_node_takes_back_ends_one_session_with_the_reason,
};
use self::refusals::what_a_cluster_refuses_is_named_and_ends_no_session;
use crate::chart::{
    a_cluster_takes_the_chart_and_its_nodes_get_the_profile,
    the_daemon_in_the_chart_gives_sessions_that_outlive_its_pod,
};
use crate::swarm::stack;
use warmpool_tests::{Cdp, Daemon, Driver, Group, Session, Settings, Stage, docker, eventually, group};

/// Names the variable with which the cases run that take longest.
const LONG: &str = "WARMPOOL_TEST_KUBERNETES";

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [
            every_engine_runs,
            what_a_cluster_refuses_is_named_and_ends_no_session,
            a_cluster_takes_the_chart_and_its_nodes_get_the_profile,
            the_daemon_in_the_chart_gives_sessions_that_outlive_its_pod,
            sessions_end_with_their_pod_or_node_alone_and_none_is_left,
            scenes_are_rendered_and_creates_are_timed_beside_one_host,
            what_a_node_takes_back_ends_one_session_with_the_reason,
            a_node_takes_as_many_workers_as_it_says,
        ],
    )
}

/// The cluster, as an earlier case left it or a new one. Its nodes have the images of all cases.
pub(crate) async fn cluster(stage: &Stage) -> Result<Option<Kubernetes>> {
    if let Some(cluster) = stage.take() {
        return Ok(Some(cluster));
    }
    let mut images = ["chromium", "firefox", "webkit"].map(docker::image).to_vec();
    // The image of the daemon stands on it.
    let base = Command::new(stack::root().join("scripts/base")).output().await?;
    images.push(String::from_utf8(base.stdout)?.trim().to_owned());
    if is_long() {
        images.push(docker::image("scene"));
    }
    Kubernetes::start(&images.iter().map(String::as_str).collect::<Vec<_>>()).await
}

fn is_long() -> bool {
    std::env::var_os(LONG).is_some()
}

/// For a namespace that is made. The nodes count this machine's cores and memory as theirs, each.
async fn settings(cluster: &Kubernetes, namespace: &str) -> Result<Settings> {
    cluster.kubectl(&["create", "namespace", namespace]).await?;
    Ok(Settings::new()
        .set("KUBERNETES_ENABLED", "true")
        .set("KUBERNETES_KUBECONFIG", cluster.kubeconfig().display())
        .set("KUBERNETES_NAMESPACE", namespace)
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
        let worker = eventually!("the log names its worker", 10, session.worker_in(&daemon.log_text()).ok())?;
        let found = pods(cluster, &format!("warmpool.worker={worker}")).await?;
        let pod = found.first().with_context(|| format!("the Pod of {worker}"))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Self { session, cdp, pod: text(&pod["metadata"]["name"]), node: text(&pod["spec"]["nodeName"]) })
    }

    /// Opens a page and reads it, which goes over the Pod's network both ways.
    async fn works(&mut self, site: &str) -> Result<()> {
        self.cdp.reads_form(site).await
    }
}

async fn pods(cluster: &Kubernetes, labels: &str) -> Result<Vec<Value>> {
    let text = cluster.kubectl(&["get", "pods", "--all-namespaces", "--selector", labels, "--output", "json"]).await?;
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

/// The containers of workers, by a label that the kubelet gives them.
const WORKER: &str = "label=io.kubernetes.container.name=worker";

/// The containers of workers that run on a node, as its own engine says.
async fn running_on(cluster: &Kubernetes, node: &str) -> Result<usize> {
    let running = cluster.engine(node)?.run(&["ps", "--quiet", "--filter", WORKER]).await?;
    Ok(running.lines().count())
}

async fn leaves_nothing(daemon: &mut Daemon, cluster: &Kubernetes) -> Result<()> {
    // A kubelet that misses the end of a container sees it when it looks at all of its Pods, each one to one and a half minutes.
    leaves_nothing_within(120, daemon, cluster).await
}

/// The same where the cluster may take so many seconds to remove the Pods.
async fn leaves_nothing_within(seconds: u64, daemon: &mut Daemon, cluster: &Kubernetes) -> Result<()> {
    daemon.signal(Signal::SIGTERM)?;
    ensure!(daemon.wait(90).await?.success());
    if let Err(late) = eventually!("no Pod is left", seconds, pods(cluster, "warmpool.role").await?.is_empty()) {
        let left = ["get", "pods", "--all-namespaces", "--selector", "warmpool.role", "--output", "wide"];
        return Err(late.context(cluster.kubectl(&left).await.unwrap_or_default()));
    }
    for node in cluster.nodes() {
        eventually!("no container is left", 30, running_on(cluster, &node).await? == 0)?;
    }
    Ok(())
}

async fn every_engine_runs(stage: Stage) -> Result<()> {
    let Some(cluster) = cluster(&stage).await? else { return Ok(()) };
    let mut one_each = settings(&cluster, "engines").await?.set("POOL_START_CONCURRENCY", "3");
    for engine in ["CHROMIUM", "FIREFOX", "WEBKIT"] {
        one_each = one_each.set(&format!("POOL_{engine}_HEADLESS"), "1");
    }
    // Nobody would have the workers that start behind the sessions.
    let mut daemon = Daemon::start(one_each.set("POOL_REFILL_DELAY", "10m")).await?;
    let site = stage.site_for(&daemon).await?;
    let chromium = async {
        let mut one = Placed::create(&daemon, &cluster).await.context("chromium")?;
        one.works(&site).await?;
        one.session.delete().await?.ok()
    };
    let driven = async |engine: &str| {
        let body = json!({ "browser_type": engine, "headless": true });
        let session = Session::create_webdriver(&daemon.api(), &body).await.context(engine.to_owned())?;
        let driver = Driver::start(session.connect_url()?, json!({})).await?;
        driver.goto(&format!("{site}/form")).await?;
        let title = driver.execute("return document.title").await?;
        ensure!(title == "Form", "{engine}: {title}");
        session.delete().await?.ok()
    };
    tokio::try_join!(chromium, driven("firefox"), driven("webkit"))?;
    let report: Value = serde_json::from_str(&daemon.cli_ok(&["doctor", "--nodes", "--json"]).await?)?;
    ensure!(report["ok"] == true && report["findings"].as_array().is_some_and(|found| found.len() >= 2), "{report}");
    // Nobody gets out of a Pod, and doctor's own go with it.
    let report: Value = serde_json::from_str(&daemon.cli_ok(&["doctor", "--egress", "--json"]).await?)?;
    let siblings =
        report["findings"].as_array().into_iter().flatten().filter(|found| found["title"] == "Another worker");
    ensure!(report["ok"] == true && siblings.count() == 4, "{report:#}");
    doctor_leaves_nothing_when_it_is_interrupted(&daemon, &cluster).await?;
    leaves_nothing(&mut daemon, &cluster).await?;
    stage.keep(cluster);
    Ok(())
}

/// Interrupts `doctor --nodes` once it has Pods, which belong to the instance's Lease until they are gone.
async fn doctor_leaves_nothing_when_it_is_interrupted(daemon: &Daemon, cluster: &Kubernetes) -> Result<()> {
    let mut doctor = Command::from(daemon.command(&["doctor", "--nodes"])).stderr(Stdio::piped()).spawn()?;
    let instance = daemon.instance()?;
    let theirs = async || {
        let probes = pods(cluster, "warmpool.role=probe").await?.into_iter();
        let of_doctor = |pod: &Value| pod["metadata"]["labels"]["warmpool.instance"] != instance.as_str();
        Ok::<_, anyhow::Error>(probes.filter(of_doctor).collect::<Vec<_>>())
    };
    let probes = eventually!("doctor looks at a node", 20, Some(theirs().await?).filter(|probes| !probes.is_empty()))?;
    for probe in &probes {
        let owner = &probe["metadata"]["ownerReferences"][0];
        ensure!(owner["kind"] == "Lease" && owner["name"] == format!("warmpool-{instance}"), "{owner}");
    }
    let id = Pid::from_raw(doctor.id().context("doctor runs")?.try_into()?);
    kill(id, Signal::SIGINT)?;
    let status = doctor.wait().await?;
    ensure!(!status.success() && status.code().is_some(), "it ends by itself: {status}");
    ensure!(theirs().await?.iter().all(|pod| !pod["metadata"]["deletionTimestamp"].is_null()), "a Pod is left");
    Ok(())
}

async fn apply(cluster: &Kubernetes, objects: &str) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), objects)?;
    cluster.kubectl(&["apply", "--filename", &file.path().to_string_lossy()]).await.map(drop)
}
