//! The runtime against an API server that refuses what it is asked.

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::fake_server::{Reply, config, start, start_reading};
use super::*;
use crate::NodeUse;
use crate::cluster::lease::LeaseStore;
use crate::test_log::TestLog;
use warmpool_core::browser::{Mode, PoolKey};

async fn runtime(
    settings: &[(&str, &str)],
    answer: impl Fn(&str, &str) -> Reply + Send + Sync + 'static,
) -> (Kubernetes, tempfile::TempDir) {
    let (config, folder) = config(&start(answer).await, settings);
    (Kubernetes::new(config, "0a1b".to_owned()), folder)
}

/// A cluster of two nodes that keeps the lease's list of drained ones, and tells when it was asked for the lease. Its first answer to
/// that takes this long.
async fn with_lease(first: Duration) -> (Kubernetes, tempfile::TempDir, Arc<Mutex<Value>>, Arc<Notify>) {
    let first = Mutex::new(Some(first));
    let (list, asked) = (Arc::new(Mutex::new(Value::Null)), Arc::new(Notify::new()));
    let (kept, ask) = (Arc::clone(&list), Arc::clone(&asked));
    let server = start_reading(move |method, path, body| {
        if !path.contains("/leases/") {
            let mut second = node();
            second["metadata"]["name"] = "n2".into();
            return Reply::list(json!([node(), second]));
        }
        let mut list = kept.lock();
        let mut after = Duration::from_millis(100);
        if method == "PATCH" {
            let change: Value = serde_json::from_slice(body).unwrap();
            *list = change["metadata"]["annotations"]["warmpool.drained"].clone();
        } else {
            ask.notify_one();
            after = first.lock().take().unwrap_or(after);
        }
        let annotations = if list.is_null() { json!({}) } else { json!({ "warmpool.drained": *list }) };
        let lease = json!({ "metadata": { "name": "l", "uid": "u", "annotations": annotations }, "spec": {} });
        Reply::ok(lease).late(after)
    })
    .await;
    let (config, folder) = config(&server, &[("kubernetes.timeout", "30s")]);
    (Kubernetes::new(config, "0a1b".to_owned()), folder, list, asked)
}

fn spec() -> WorkerSpec {
    let key = PoolKey::plain(Engine::Chromium, Mode::Headless);
    WorkerSpec { worker: WorkerId::from("w1"), key, image: "r.example/chromium:1".to_owned() }
}

fn node() -> Value {
    json!({
        "metadata": { "name": "n1", "uid": "u", "resourceVersion": "7" },
        "status": {
            "conditions": [{ "type": "Ready", "status": "True" }],
            "images": [{ "names": ["warmpool/chromium:latest"] }],
        },
    })
}

/// The worker's Pod, which is being removed.
fn going() -> Value {
    json!({
        "metadata": { "name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z", "labels": { "warmpool.worker": "w1" } },
        "spec": { "nodeName": "n1" },
        "status": { "phase": "Running", "containerStatuses": [{ "name": "worker", "state": { "running": {} } }] },
    })
}

/// A cluster with one node and these Pods, and nothing to complain of.
fn sound(path: &str, pods: Value) -> Reply {
    if path.contains("/pods") { Reply::list(pods) } else { Reply::list(json!([node()])) }
}

#[tokio::test]
async fn who_may_not_list_the_nodes_is_told_the_rule_at_once() {
    let (log, _guard) = TestLog::listen();
    let (runtime, _folder) = runtime(&[("kubernetes.timeout", "20s")], |_, path| {
        if path.contains("/nodes") { Reply::forbidden("list", "nodes") } else { Reply::list(json!([])) }
    })
    .await;
    let began = std::time::Instant::now();
    let error = runtime.start(&spec()).await.unwrap_err();
    assert!(
        matches!(&error, RuntimeError::NotAllowed { action, role: "ClusterRole", .. } if action == "list nodes"),
        "{error}"
    );
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let rule = r#"add to its ClusterRole the rule {apiGroups: [""], resources: ["nodes"], verbs: ["list"]}"#;
    assert_eq!(log.lines_with(rule).len(), 1, "once");
}

#[tokio::test]
async fn a_watch_that_is_not_allowed_is_told_once_and_lists_go_on() {
    let (log, _guard) = TestLog::listen();
    let (runtime, _folder) = runtime(&[], |_, path| match path {
        path if path.contains("watch=1") && path.contains("/nodes") => Reply::forbidden("watch", "nodes"),
        path => sound(path, json!([])),
    })
    .await;
    for _ in 0..5 {
        assert_eq!(runtime.nodes().await.unwrap().len(), 1);
        sleep(Duration::from_millis(500)).await;
    }
    let rule = r#"resources: ["nodes"], verbs: ["watch"]"#;
    assert_eq!(log.lines_with(rule).len(), 1, "of several tries");
}

#[tokio::test]
async fn an_end_is_told_though_the_nodes_cannot_be_seen() {
    let (runtime, _folder) = runtime(&[], |_, path| {
        if path.contains("/nodes") {
            return Reply::forbidden("list", "nodes");
        }
        let mut pod = going();
        pod["status"]["containerStatuses"][0]["state"] =
            json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled" } });
        Reply::list(json!([pod]))
    })
    .await;
    let state = runtime.state(&WorkerId::from("w1")).await.unwrap();
    assert_eq!(state, ContainerState::Exited { code: 137, oom: true });
}

#[tokio::test]
async fn an_eviction_that_the_pod_does_not_explain_is_explained_by_its_events() {
    let events = json!([
        { "type": "Normal", "reason": "Preempted", "message": "Preempted by default/big on node n1" },
        { "type": "Normal", "reason": "Killing", "message": "Stopping container worker" },
    ]);
    for (events, said, rules) in [
        (Some(events), "Preempted: Preempted by default/big on node n1", 0),
        (Some(json!([])), state::DELETED, 0),
        (None, state::DELETED, 1),
    ] {
        let (log, _guard) = TestLog::listen();
        let (runtime, _folder) = runtime(&[], move |_, path| match (path.contains("/events?"), &events) {
            (true, Some(events)) => Reply::list(events.clone()),
            (true, None) => Reply::forbidden("list", "events"),
            (false, _) => sound(path, json!([going()])),
        })
        .await;
        let state = runtime.state(&WorkerId::from("w1")).await.unwrap();
        let evicted = NodeLoss::Evicted { node: "n1".to_owned(), why: said.to_owned() };
        assert_eq!(state, ContainerState::Node(evicted));
        assert_eq!(log.lines_with(r#"resources: ["events"], verbs: ["list"]"#).len(), rules);
    }
}

#[tokio::test]
async fn a_cluster_that_refuses_the_budget_keeps_nobody_from_its_workers() {
    let quota = "poddisruptionbudgets.policy \"b\" is forbidden: exceeded quota: q, used: count/poddisruptionbudgets=1";
    let policy = "admission webhook \"policy.example\" denied the request: no budgets";
    for (refusal, said) in [
        (
            Reply::forbidden("create", "poddisruptionbudgets"),
            r#"resources: ["poddisruptionbudgets"], verbs: ["create"]"#,
        ),
        (Reply::refusal(403, quota), "count/poddisruptionbudgets"),
        (Reply::refusal(400, policy), "policy.example"),
    ] {
        let (log, _guard) = TestLog::listen();
        let (runtime, _folder) = runtime(&[], move |method, _| match method {
            "POST" => refusal.clone(),
            _ => Reply::refusal(404, "not found"),
        })
        .await;
        let owner = Owner { api: "v1", kind: "Lease", name: runtime.lease_name(), uid: "u".to_owned() };
        *runtime.owner.lock() = Some(owner);
        for _ in 0..2 {
            runtime.ensure_network().await.unwrap();
        }
        assert_eq!(log.lines_with(said).len(), 1, "{said}");
    }
    let (away, _folder) = runtime(&[], |_, _| Reply::refusal(503, "away")).await;
    *away.owner.lock() = Some(Owner { api: "v1", kind: "Lease", name: away.lease_name(), uid: "u".to_owned() });
    assert!(matches!(away.ensure_network().await, Err(RuntimeError::Unreachable(_))), "it is asked again");
}

#[tokio::test]
async fn an_image_that_no_node_has_and_no_registry_is_named_for_is_not_pulled() {
    let sound = |_: &str, path: &str| sound(path, json!([]));
    let (runtime_, _folder) = runtime(&[], sound).await;
    for (name, there) in [
        ("warmpool/chromium:latest", true),
        ("warmpool/firefox:latest", false),
        ("r.example/firefox:latest", true),
        ("warmpool/firefox@sha256:1", true),
    ] {
        let found = runtime_.image_id(name).await;
        assert_eq!(found.is_ok(), there, "{name}: {found:?}");
        assert!(found.is_ok() || matches!(found, Err(error) if error.is_no_image()));
    }
    // What is pulled always is a public registry's where none is named, whatever the nodes have.
    let (always, _folder) = runtime(&[("kubernetes.pull_policy", "always")], sound).await;
    assert!(always.image_id("warmpool/chromium:latest").await.is_err());
    assert!(always.image_id("r.example/firefox:latest").await.is_ok());
}

#[tokio::test]
async fn a_renderer_that_no_node_may_pull_goes_where_its_image_is() {
    let asked = Arc::new(Mutex::new(Value::Null));
    let heard = Arc::clone(&asked);
    let server = start_reading(move |method, path, body| {
        if method == "POST" {
            *heard.lock() = serde_json::from_slice(body).unwrap();
            return Reply::refusal(403, "pods is forbidden: exceeded quota: q");
        }
        let mut second = node();
        second["metadata"]["name"] = "n2".into();
        second["status"]["images"] = json!([{ "names": null }]);
        if path.contains("/pods") { Reply::list(json!([])) } else { Reply::list(json!([node(), second])) }
    })
    .await;
    let (config, _folder) = config(&server, &[("world.image", "warmpool/chromium:latest")]);
    let runtime = Kubernetes::new(config, "0a1b".to_owned());
    assert!(matches!(runtime.start_renderer(&RendererId::from("r1")).await, Err(RuntimeError::QuotaUsedUp { .. })));
    let spec = asked.lock()["spec"].clone();
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "Never");
    let left_out = spec["affinity"].to_string();
    assert!(left_out.contains("n2") && !left_out.contains("n1"), "{left_out}");
}

#[tokio::test]
async fn a_webhook_may_take_longer_than_other_answers() {
    let said = "Internal error occurred: failed calling webhook \"slow.example\": context deadline exceeded";
    let (runtime, _folder) =
        runtime(&[], move |_, _| Reply::refusal(500, said).late(Duration::from_millis(1500))).await;
    let error = runtime.create_pod(&json!({})).await.unwrap_err();
    assert!(matches!(&error, RuntimeError::NotAdmitted { message } if message.contains("slow.example")), "{error}");
    let error = runtime.delete_pod("p").await.unwrap_err();
    assert!(error.to_string().contains("no whole answer within 1 s"), "{error}");
}

#[tokio::test]
async fn drains_at_the_same_time_are_both_kept() {
    let (runtime, _folder, list, _) = with_lease(Duration::ZERO).await;
    let (first, second) =
        tokio::join!(runtime.order_node("n1", NodeOrder::Drain), runtime.order_node("n2", NodeOrder::Drain));
    assert_eq!((first.unwrap().availability, second.unwrap().availability), (NodeUse::Draining, NodeUse::Draining));
    assert_eq!(*list.lock(), "n1,n2");
    assert!(runtime.nodes().await.unwrap().iter().all(|node| node.availability == NodeUse::Draining));
}

#[tokio::test]
async fn a_look_at_the_lease_from_before_a_drain_undoes_none() {
    let (runtime, _folder, list, asked) = with_lease(Duration::from_secs(2)).await;
    // Its answer is made before the drain, and comes when that would be done.
    let looking = tokio::spawn({
        let runtime = runtime.clone();
        async move { LeaseStore::look(&runtime).await.map(drop) }
    });
    asked.notified().await;
    runtime.order_node("n1", NodeOrder::Drain).await.unwrap();
    looking.await.unwrap().unwrap();
    assert_eq!(*list.lock(), "n1");
    let drained = |node: &NodeFacts| node.name == "n1" && node.availability == NodeUse::Draining;
    assert!(runtime.nodes().await.unwrap().iter().any(drained));
}
