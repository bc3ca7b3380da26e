//! Pods and nodes that are lost, and a cluster that takes workers away: which sessions end, and which go on.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::time::sleep;
use warmpool_tests::kubernetes::Kubernetes;
use warmpool_tests::{Daemon, Session, Stage, docker, eventually, evidence};

use super::{LONG, WORKER, apply, cluster, is_long, leaves_nothing, on_each, pods, running_on, settings};

/// How long the API server is away; the lease of the daemon holds for longer.
const AWAY: Duration = Duration::from_secs(60);

pub(super) async fn sessions_end_with_their_pod_or_node_alone_and_none_is_left(stage: Stage) -> Result<()> {
    if !is_long() {
        evidence::cannot(format!("it takes three minutes: set {LONG}"));
        return Ok(());
    }
    let Some(cluster) = cluster(&stage).await? else { return Ok(()) };
    let mut daemon = Daemon::start(settings(&cluster, "faults").await?).await?;
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
    let may_go = |wanted: &str| {
        let pods =
            all.iter().map(|pod| &pod["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"]);
        pods.filter(|said| **said == wanted).count()
    };
    ensure!(may_go("false") == placed.len() && may_go("true") == all.len() - placed.len(), "{all:#?}");
    let drained = cluster
        .command(&["drain", &placed[0].node, "--force", "--delete-emptydir-data", "--timeout", "8s"])
        .output()
        .await?;
    let said = String::from_utf8_lossy(&drained.stderr);
    ensure!(!drained.status.success() && said.contains("disruption budget"), "{said}");
    ensure!(placed[0].session.status().await? == "running");
    cluster.kubectl(&["uncordon", &placed[0].node]).await?;
    // What is deleted all the same ends one session, once, with the reason.
    cluster.kubectl(&["--namespace", "faults", "delete", "pod", pod, "--wait=false"]).await?;
    let gone = placed.remove(0);
    is_evicted(&daemon, &gone.session, &gone.node, "").await?;
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
    eventually!("the cluster knows", 40, !is_ready(&cluster, &node).await?)?;
    placed[0].works(&site).await.context("without a kubelet")?;
    cluster.restart(&node).await?;
    eventually!("the kubelet is back", 60, is_ready(&cluster, &node).await?)?;
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
    eventually!("the node is back", 60, is_ready(&cluster, &node).await?)?;
    for one in placed {
        one.session.delete().await?.ok()?;
    }
    // It is looked at first, once its old workers are gone. The pool starts a worker behind each session.
    eventually!("the node gets a worker", 90, {
        daemon.warm().await?;
        let workers = pods(&cluster, "warmpool.role=worker").await?;
        // Its old ones stay in the list until its kubelet has removed them.
        let is_new =
            |pod: &Value| pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["phase"] == "Running";
        let is_there = workers.iter().any(|pod| pod["spec"]["nodeName"] == node.as_str() && is_new(pod));
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
    leaves_nothing(&mut daemon, &cluster).await?;
    stage.keep(cluster);
    Ok(())
}

async fn is_ready(cluster: &Kubernetes, node: &str) -> Result<bool> {
    let field = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    Ok(cluster.kubectl(&["get", "node", node, "--output", field]).await? == "True")
}

/// Checks that a session ended once, since the cluster took its worker away, and that its record says why.
async fn is_evicted(daemon: &Daemon, session: &Session, node: &str, why: &str) -> Result<()> {
    let record = session.becomes("failure", 30).await?;
    let message = record["message"].to_string();
    ensure!(record["reason"] == "evicted" && message.contains(node) && message.contains(why), "{record}");
    let is_end = |line: &&str| line.contains("session ended") && line.contains(&session.id);
    let ends = || daemon.log_text().lines().filter(is_end).count();
    eventually!("the log says so", 10, ends() > 0)?;
    ensure!(ends() == 1, "it ended {} times", ends());
    Ok(())
}

/// A Pod that goes before all others, and needs this much of a node.
fn important(node: &str, memory: &str) -> String {
    let image = docker::image("chromium");
    format!(
        r#"
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{ name: important }}
value: 1000000
---
apiVersion: v1
kind: Pod
metadata: {{ name: important, namespace: taken }}
spec:
  priorityClassName: important
  nodeSelector: {{ kubernetes.io/hostname: {node} }}
  terminationGracePeriodSeconds: 0
  containers:
    - name: only
      image: {image}
      imagePullPolicy: Never
      command: [sleep, "600"]
      resources: {{ requests: {{ memory: "{memory}" }} }}
"#
    )
}

pub(super) async fn what_a_node_takes_back_ends_one_session_with_the_reason(stage: Stage) -> Result<()> {
    if !is_long() {
        evidence::cannot(format!("it takes a minute: set {LONG}"));
        return Ok(());
    }
    let Some(cluster) = cluster(&stage).await? else { return Ok(()) };
    let mut daemon = Daemon::start(settings(&cluster, "taken").await?).await?;
    let site = stage.site_for(&daemon).await?;
    let mut placed = on_each(&daemon, &cluster, &cluster.nodes()).await?;

    // A kubelet whose node runs out of memory says so of the Pod, and kills it. The test does both in its place, while it is
    // away: it would contradict.
    let gone = placed.remove(0);
    cluster.stop(&gone.node).await?;
    let path = format!("/api/v1/namespaces/taken/pods/{}", gone.pod);
    let mut pod: Value = serde_json::from_str(&cluster.kubectl(&["get", "--raw", &path]).await?)?;
    pod["status"]["phase"] = json!("Failed");
    pod["status"]["reason"] = json!("Evicted");
    pod["status"]["message"] = json!("The node was low on resource: memory.");
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), pod.to_string())?;
    let told = ["replace", "--raw", &format!("{path}/status"), "--filename", &file.path().to_string_lossy()];
    cluster.kubectl(&told).await?;
    let engine = cluster.engine(&gone.node)?;
    let of_pod = format!("label=io.kubernetes.pod.name={}", gone.pod);
    let container = engine.run(&["ps", "--quiet", "--filter", &of_pod, "--filter", WORKER]).await?;
    engine.run(&["kill", container.trim()]).await?;
    is_evicted(&daemon, &gone.session, &gone.node, "low on resource").await?;
    cluster.restart(&gone.node).await?;
    eventually!("the kubelet is back", 60, is_ready(&cluster, &gone.node).await?)?;
    for one in &mut placed {
        one.works(&site).await.context("the others go on")?;
    }

    // What goes before all others needs nearly all of a node, whatever the budgets of others say.
    let node = placed[0].node.clone();
    let allocatable = ["get", "node", &node, "--output", "jsonpath={.status.allocatable.memory}"];
    let memory = cluster.kubectl(&allocatable).await?;
    let memory: u64 = memory.trim_end_matches("Ki").parse().with_context(|| memory.clone())?;
    apply(&cluster, &important(&node, &format!("{}Ki", memory - (512 << 10)))).await?;
    let (taken, mut left): (Vec<_>, Vec<_>) = placed.into_iter().partition(|one| one.node == node);
    for one in taken {
        is_evicted(&daemon, &one.session, &node, "reempt").await?;
    }
    for one in &mut left {
        one.works(&site).await.context("those of the other node go on")?;
    }
    cluster.kubectl(&["delete", "pod", "important", "--namespace", "taken", "--wait=false"]).await?;
    for one in left {
        one.session.delete().await?.ok()?;
    }
    daemon.warm().await?;
    leaves_nothing(&mut daemon, &cluster).await?;
    stage.keep(cluster);
    Ok(())
}
