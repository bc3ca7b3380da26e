//! What a cluster refuses: named in the log, to callers and by doctor, and no session is lost to it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;
use warmpool_tests::clock::Clock;
use warmpool_tests::kubernetes::Kubernetes;
use warmpool_tests::{Daemon, Stage, eventually};

use super::{Placed, apply, cluster, pods, settings};

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

pub(super) async fn what_a_cluster_refuses_is_named_and_ends_no_session(stage: Stage) -> Result<()> {
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
    eventually!("the log says so", 10, daemon.log_text().contains("the quota of the namespace `refusals` is used up"))?;
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
    eventually!("the log says so", 10, daemon.log_text().contains("nobody.warmpool.example"))?;
    let wrong = found(&daemon, None).await?;
    ensure!(wrong.contains("nobody.warmpool.example") && wrong.contains("exempt the namespace"), "{wrong}");
    cluster.kubectl(&["delete", "validatingwebhookconfiguration", "nobody"]).await?;
    eventually!("the webhook is forgotten", 20, asked().await.is_ok())?;
    one.works(&site).await?;

    // An image cannot be pulled, on any node.
    let why = refusal(&daemon, "firefox").await?;
    ensure!(why.contains("left out for now") && why.contains("ErrImagePull"), "{why}");
    let is_told = |line: &str| line.contains("a node gets no workers") && line.contains("ErrImagePull");
    eventually!("the log says so", 10, daemon.log_text().lines().any(is_told))?;
    let wrong = found_by(daemon.command(&["doctor", "--nodes", "--json"])).await?;
    let is_told = |line: &str| line.contains(", firefox was not looked at") && line.contains("ErrImagePull");
    ensure!(wrong.lines().filter(|line| is_told(line)).count() == 2, "on each node: {wrong}");
    ensure!(!wrong.contains(", chromium was not looked at"), "{wrong}");
    one.works(&site).await?;

    // A second daemon of the instance waits, also where the clock jumps to long after the lease.
    let twin = daemon.waiting_twin()?;
    eventually!("it waits", 20, twin.log_text().contains("another daemon has the workers of this instance"))?;
    // Waiting is no illness, and orders are for later.
    ensure!(twin.cli_ok(&["health"]).await?.trim() == "starting");
    let refused = twin.cli(&["key", "list"]).await?;
    let why = String::from_utf8_lossy(&refused.stderr);
    ensure!(refused.status.code() == Some(69) && why.contains("is starting"), "{why}");
    ensure!(daemon.cli_ok(&["health"]).await?.is_empty());
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
    eventually!("the log says so", 10, daemon.log_text().lines().any(named))?;
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
