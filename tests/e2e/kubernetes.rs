//! Workers as Pods of a Kubernetes cluster on this machine, by `scripts/kubernetes`. All cases that need a cluster are in this
//! group, and share one: each has a namespace of its own, and leaves nothing there.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::sleep;
use warmpool_tests::clock::Clock;
use warmpool_tests::kubernetes::Kubernetes;

use crate::chart::{
    a_cluster_takes_the_chart_and_its_nodes_get_the_profile,
    the_daemon_in_the_chart_gives_sessions_that_outlive_its_pod,
};
use crate::swarm::stack;
use crate::worlds;
use warmpool_tests::{Cdp, Daemon, Driver, Group, Session, Settings, Stage, docker, eventually, evidence, group};

/// Names the variable with which the cases run that take longest.
const LONG: &str = "WARMPOOL_TEST_KUBERNETES";
/// How long the API server is away; the lease of the daemon holds for longer.
const AWAY: Duration = Duration::from_secs(60);

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
        let worker = session.worker_in(&daemon.log_text())?;
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

/// The containers of workers that run on a node, as its own engine says.
async fn running_on(cluster: &Kubernetes, node: &str) -> Result<usize> {
    let running =
        cluster.engine(node)?.run(&["ps", "--quiet", "--filter", "label=io.kubernetes.container.name=worker"]).await?;
    Ok(running.lines().count())
}

async fn leaves_nothing(daemon: &mut Daemon, cluster: &Kubernetes) -> Result<()> {
    leaves_nothing_within(60, daemon, cluster).await
}

/// The same where the cluster may take so many seconds to remove the Pods.
async fn leaves_nothing_within(seconds: u64, daemon: &mut Daemon, cluster: &Kubernetes) -> Result<()> {
    daemon.signal(Signal::SIGTERM)?;
    ensure!(daemon.wait(60).await?.success());
    eventually!("no Pod is left", seconds, pods(cluster, "warmpool.role").await?.is_empty())?;
    for node in cluster.nodes() {
        eventually!("no container is left", 30, running_on(cluster, &node).await? == 0)?;
    }
    Ok(())
}

async fn sessions_end_with_their_pod_or_node_alone_and_none_is_left(stage: Stage) -> Result<()> {
    if !is_long() {
        eprintln!("left out, because it takes three minutes: set {LONG}");
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
    leaves_nothing(&mut daemon, &cluster).await?;
    stage.keep(cluster);
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

/// What a daemon may do that lacks some of what it needs.
const TOO_LITTLE: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: limited, namespace: refusals }
rules:
  - { apiGroups: [""], resources: [pods], verbs: [create, list, watch] }
  - { apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, patch] }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: limited, namespace: refusals }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: limited }
subjects: [{ kind: ServiceAccount, name: limited, namespace: refusals }]
"#;

/// A webhook that nothing answers, for Pods of the namespaces with a label.
const WEBHOOK: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: { name: nobody }
webhooks:
  - name: nobody.warmpool.example
    clientConfig: { url: "https://127.0.0.1:9/" }
    rules: [{ apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods] }]
    namespaceSelector: { matchLabels: { refused: "yes" } }
    failurePolicy: Fail
    sideEffects: None
    admissionReviewVersions: [v1]
    timeoutSeconds: 5
"#;

async fn apply(cluster: &Kubernetes, objects: &str) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), objects)?;
    cluster.kubectl(&["apply", "--filename", &file.path().to_string_lossy()]).await.map(drop)
}

/// A kubeconfig for a service account of the namespace, in this file.
async fn as_account(cluster: &Kubernetes, namespace: &str, account: &str, file: PathBuf) -> Result<PathBuf> {
    cluster.kubectl(&["--namespace", namespace, "create", "serviceaccount", account]).await?;
    let secret =
        ["get", "serviceaccount", account, "--namespace", namespace, "--output", "jsonpath={.secrets[0].name}"];
    let secret = eventually!("the account has a token", 20, {
        Some(cluster.kubectl(&secret).await?).filter(|name| !name.is_empty())
    })?;
    let token =
        ["get", "secret", &secret, "--namespace", namespace, "--output", "go-template={{.data.token|base64decode}}"];
    let token = cluster.kubectl(&token).await?;
    // The administrator's, with a token instead of a certificate.
    let theirs = std::fs::read_to_string(cluster.kubeconfig())?;
    let line = theirs.lines().find(|line| line.contains("client-key-data")).context("the administrator's key")?;
    std::fs::write(&file, theirs.replace(line, &format!("    user: {{ token: {token} }}")))?;
    Ok(file)
}

/// Why a session of this engine is refused.
async fn refusal(daemon: &Daemon, engine: &str) -> Result<String> {
    let body = json!({ "headless": true, "browser_type": engine });
    let fault = daemon.api().post("/sessions/create", &body).await?.fault(503)?;
    ensure!(fault.code == "browser_not_starting", "{}: {}", fault.code, fault.message);
    Ok(fault.message)
}

/// What `doctor` finds wrong, with another kubeconfig where one is given.
async fn found(daemon: &Daemon, kubeconfig: Option<&Path>) -> Result<String> {
    let mut doctor = daemon.command(&["doctor", "--json"]);
    if let Some(kubeconfig) = kubeconfig {
        doctor.env("WARMPOOL_KUBERNETES_KUBECONFIG", kubeconfig);
    }
    found_by(doctor).await
}

async fn found_by(mut doctor: std::process::Command) -> Result<String> {
    // It has the machine's clock, whichever the daemon has.
    doctor.env_remove("LD_PRELOAD");
    let output = Command::from(doctor).output().await?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let findings = report["findings"].as_array().into_iter().flatten().filter(|finding| finding["level"] != "ok");
    Ok(findings.map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

async fn what_a_cluster_refuses_is_named_and_ends_no_session(stage: Stage) -> Result<()> {
    const NAMESPACE: &str = "refusals";
    /// An image of a registry that does not answer.
    const NOWHERE: &str = "127.0.0.1:9/firefox:none";
    let Some(cluster) = cluster(&stage).await? else { return Ok(()) };
    let settings = settings(&cluster, NAMESPACE).await?.set("POOL_CHROMIUM_HEADLESS", "0");
    let settings = settings.set("KUBERNETES_PULL_POLICY", "if_not_present").set("WORKER_FIREFOX_IMAGE", NOWHERE);
    let settings = settings.set("KUBERNETES_LEASE", "30s");
    let clock = Clock::start()?;
    let settings = clock.iter().fold(settings, |settings, clock| clock.of(settings));
    let mut daemon = Daemon::start_cold(settings.clone()).await?;
    daemon.ready().await?;
    let site = stage.site_for(&daemon).await?;
    let mut one = Placed::create(&daemon, &cluster).await?;
    let within = async |arguments: &[&str]| cluster.kubectl(&[&["--namespace", NAMESPACE], arguments].concat()).await;

    // A quota is used up.
    within(&["create", "quota", "few", "--hard=pods=1"]).await?;
    // Until the cluster has counted, it refuses nothing.
    let counted = ["get", "quota", "few", "--output", "jsonpath={.status.hard.pods}/{.status.used.pods}"];
    eventually!(
        "the quota is used up",
        30,
        within(&counted).await?.strip_prefix("1/").is_some_and(|used| used != "0")
    )?;
    let why = refusal(&daemon, "chromium").await?;
    ensure!(why.contains("quota"), "{why}");
    ensure!(daemon.log_text().contains("the quota of the namespace `refusals` is used up"), "the log says so");
    let wrong = found(&daemon, None).await?;
    ensure!(wrong.contains("the quota of the namespace `refusals` is used up"), "{wrong}");
    within(&["delete", "quota", "few"]).await?;
    one.works(&site).await?;

    // An admission webhook refuses, as does one that does not answer.
    apply(&cluster, WEBHOOK).await?;
    cluster.kubectl(&["label", "namespace", NAMESPACE, "refused=yes"]).await?;
    let asked = async || within(&["run", "any", "--image=any", "--dry-run=server"]).await;
    eventually!("the webhook is asked", 20, asked().await.is_err())?;
    // For a moment the last reason is the answer.
    let refused = async || Ok::<_, anyhow::Error>(refusal(&daemon, "chromium").await?.contains("admission refuses"));
    eventually!("the caller is told", 60, refused().await?)?;
    ensure!(daemon.log_text().contains("nobody.warmpool.example"), "the log says so");
    let wrong = found(&daemon, None).await?;
    ensure!(wrong.contains("nobody.warmpool.example") && wrong.contains("exempt the namespace"), "{wrong}");
    cluster.kubectl(&["delete", "validatingwebhookconfiguration", "nobody"]).await?;
    eventually!("the webhook is forgotten", 20, asked().await.is_ok())?;
    one.works(&site).await?;

    // An image cannot be pulled, on any node.
    let why = refusal(&daemon, "firefox").await?;
    ensure!(why.contains("left out for now") && why.contains("ErrImagePull"), "{why}");
    let is_told = |line: &str| line.contains("a node gets no workers") && line.contains("ErrImagePull");
    ensure!(daemon.log_text().lines().any(is_told), "the log says so");
    let wrong = found_by(daemon.command(&["doctor", "--nodes", "--json"])).await?;
    let is_told = |line: &str| line.contains(", firefox was not looked at") && line.contains("ErrImagePull");
    ensure!(wrong.lines().filter(|line| is_told(line)).count() == 2, "on each node: {wrong}");
    ensure!(!wrong.contains(", chromium was not looked at"), "{wrong}");
    one.works(&site).await?;

    // A second daemon of the instance waits, also where the clock jumps to long after the lease.
    let twin = daemon.waiting_twin()?;
    eventually!("it waits", 20, twin.log_text().contains("another daemon has the workers of this instance"))?;
    let wrong = found(&twin, None).await?;
    ensure!(wrong.contains("another daemon, on ") && wrong.contains("end one of the two"), "{wrong}");
    let wrong = found(&daemon, None).await?;
    ensure!(!wrong.contains("another daemon"), "{wrong}");
    if let Some(clock) = &clock {
        let lease = format!("lease/warmpool-{}", daemon.instance()?);
        let beat = ["get", &lease, "--output", r"jsonpath={.metadata.annotations.warmpool\.lease\.beat}"];
        let before: u64 = within(&beat).await?.parse()?;
        clock.set(3600)?;
        // Of the two that come, the second one surely began after that.
        eventually!("the lease is renewed", 60, within(&beat).await?.parse::<u64>()? > before + 1)?;
        ensure!(!twin.log_text().contains("taking over"), "{}", twin.log_text());
        let wrong = found(&daemon, None).await?;
        ensure!(wrong.contains("s from now: the clock there or here was set wrongly"), "{wrong}");
        one.works(&site).await?;
        clock.set(0)?;
    }
    drop(twin);
    one.works(&site).await?;

    // A service account may not do all that is needed.
    apply(&cluster, TOO_LITTLE).await?;
    let folder = tempfile::tempdir()?;
    let limited = as_account(&cluster, NAMESPACE, "limited", folder.path().join("kubeconfig")).await?;
    let wrong = found(&daemon, Some(&limited)).await?;
    let rules = [
        ("Role", "pods", "delete"),
        ("Role", "pods", "patch"),
        ("Role", "leases", "create"),
        ("Role", "poddisruptionbudgets", "get"),
        ("ClusterRole", "nodes", "list"),
        ("ClusterRole", "nodes", "watch"),
    ];
    for (role, resource, verb) in rules {
        let rule = format!(r#"resources: [\"{resource}\"], verbs: [\"{verb}\"]"#);
        ensure!(
            wrong.lines().any(|line| line.contains(&format!("its {role} ")) && line.contains(&rule)),
            "{rule}: {wrong}"
        );
    }
    ensure!(!wrong.contains("may not create pods"), "{wrong}");
    let other = Daemon::start_unheard(settings.set("KUBERNETES_KUBECONFIG", limited.display()))?;
    let words = "does not let this daemon create leases in the namespace refusals: add to its Role the rule";
    eventually!("its log names the rule", 20, other.log_text().contains(words))?;
    drop(other);
    one.works(&site).await?;

    // The namespace is deleted, and with it all Pods: the session ends once, with the reason.
    within(&["delete", "namespace", NAMESPACE, "--wait=false"]).await?;
    let record = one.session.becomes("failure", 30).await?;
    ensure!(record["reason"] == "evicted", "{record}");
    let named = |words: &str| words.contains("`refusals`") && words.contains("kubernetes.namespace");
    // Of a kind that was never tried, so that no pause between two tries has grown.
    let fault = daemon.api().post("/sessions/create", &json!({ "headless": false })).await?.fault(503)?;
    ensure!(fault.message.contains("namespace for workers is gone"), "{}: {}", fault.code, fault.message);
    ensure!(daemon.log_text().lines().any(named), "the log says so");
    let wrong = found(&daemon, None).await?;
    ensure!(named(&wrong), "{wrong}");
    // With the namespace its lease is gone, so that it may own nothing any more.
    let status = daemon.wait(60).await?;
    ensure!(status.code() == Some(75), "{status}");
    let why = "leaves its workers to another one";
    ensure!(daemon.log_text().lines().any(|line| line.contains(why) && named(line)), "it says why it ends");
    eventually!("no Pod is left", 60, pods(&cluster, "warmpool.role").await?.is_empty())?;
    stage.keep(cluster);
    Ok(())
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

async fn scenes_are_rendered_and_creates_are_timed_beside_one_host(stage: Stage) -> Result<()> {
    if !is_long() {
        eprintln!("left out, because it takes two minutes: set {LONG}");
        return Ok(());
    }
    let Some(cluster) = cluster(&stage).await? else { return Ok(()) };
    let small = settings(&cluster, "scenes").await?.set("WORLD_WIDTH", "256").set("WORLD_PREVIEW_WIDTH", "128");
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
    leaves_nothing(&mut daemon, &cluster).await?;
    stage.keep(cluster);
    Ok(())
}

/// The image of the worker without a browser, which `scripts/bare-worker` builds.
const BARE_WORKER: &str = "warmpool-test/bare-worker:latest";
/// More workers than a node has room for.
const TOO_MANY: usize = 150;
/// When no worker has come for so long, no further one comes.
const NO_MORE: Duration = Duration::from_secs(30);

/// Workers without browsers, on one node, until something is used up.
async fn a_node_takes_as_many_workers_as_it_says(_: Stage) -> Result<()> {
    if !is_long() {
        eprintln!("left out, because it takes minutes: set {LONG}");
        return Ok(());
    }
    let built = Command::new(stack::root().join("scripts/bare-worker")).arg(BARE_WORKER).output().await?;
    ensure!(built.status.success(), "scripts/bare-worker: {}", String::from_utf8_lossy(&built.stderr));
    let Some(cluster) = Kubernetes::start_nodes(&[BARE_WORKER], 1).await? else { return Ok(()) };
    let settings = settings(&cluster, "full").await?.set("WORKER_CHROMIUM_IMAGE", BARE_WORKER);
    let settings = settings.set("WORKER_MEMORY", "256MiB").set("WORKER_SHM", "64MiB").set("WORKER_TMP", "64MiB");
    let settings = settings.set("WORKER_FILE_LIMIT", "16MiB").set("WORKER_PIDS", "128");
    let settings = settings.set("KUBERNETES_RESERVED_CPUS", "0").set("POOL_START_CONCURRENCY", "4");
    let settings = settings.set("POOL_CHROMIUM_HEADLESS", TOO_MANY).set("POOL_MAX_WORKERS", TOO_MANY);
    let mut daemon = Daemon::start_cold(settings).await?;
    let ready = async || {
        let pool = daemon.api().get("/status").await?.ok()?["pool"].clone();
        Ok::<_, anyhow::Error>(
            pool.as_array().into_iter().flatten().filter_map(|kind| kind["ready"].as_u64()).sum::<u64>(),
        )
    };
    let (began, mut most, mut grew) = (Instant::now(), 0, Instant::now());
    let mut last = Duration::ZERO;
    while grew.elapsed() < NO_MORE {
        let now = ready().await?;
        if now > most {
            (most, grew, last) = (now, Instant::now(), began.elapsed());
        }
        sleep(Duration::from_secs(1)).await;
    }
    let log = daemon.log_text();
    let why =
        log.lines().rev().find(|line| line.contains("no node of the cluster takes a worker")).context("a reason")?;
    evidence::saw(format!(
        "{most} workers without browsers on one node after {:.0} s, then: {why}",
        last.as_secs_f64()
    ));
    ensure!(most > 50 && ["Insufficient", "Too many pods"].iter().any(|words| why.contains(words)), "{most}: {why}");
    // A kubelet needs a second or two for each.
    leaves_nothing_within(300, &mut daemon, &cluster).await
}
