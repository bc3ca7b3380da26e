//! Calls against an API server that refuses, hangs, or stops in the middle.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::kubernetes::access::{ALL, CREATE_PODS, LIST_NODES, WATCH_PODS};
use crate::kubernetes::fake_server::config;
use crate::{NodeOrder, Runtime, WorkerSpec};
use serde_json::json;
use warmpool_core::browser::{Engine, Mode, PoolKey};
use warmpool_core::ids::WorkerId;

/// Long after every deadline.
const FOR_EVER: Duration = Duration::from_secs(30);

type Call<'a> = std::pin::Pin<Box<dyn Future<Output = Result<(), RuntimeError>> + 'a>>;

/// An API server that gives every request this answer, with this length in its head.
async fn server(status: u16, body: String, length: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let body = body.clone();
            tokio::spawn(async move {
                let mut request = vec![0; 1 << 16];
                while let Ok(1..) = client.read(&mut request).await {
                    let head = format!(
                        "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
                    );
                    if client.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    format!("http://{address}")
}

/// What the daemon makes of a refusal.
async fn refused(access: Access, code: u16, status: Value) -> RuntimeError {
    let body = status.to_string();
    let length = body.len();
    let (config, _folder) = config(&server(code, body, length).await, &[]);
    let api = Api::new(&config).unwrap();
    let path = api.path("/api/v1", access);
    api.create::<Value>(access, &path, &json!({})).await.unwrap_err().into()
}

#[tokio::test]
async fn each_refusal_has_its_name_and_remedy() {
    let message = |text: &str| json!({ "kind": "Status", "message": text, "reason": "Forbidden" });
    let user = "User \"system:serviceaccount:pool:warmpool\"";
    for (access, code, status, said) in [
        (
            CREATE_PODS,
            403,
            message(&format!(
                "pods is forbidden: {user} cannot create resource \"pods\" in API group \"\" in the namespace \"pool\""
            )),
            "create pods in the namespace pool: add to its Role the rule {apiGroups: [\"\"], resources: [\"pods\"], verbs: [\"create\"]}",
        ),
        (
            LIST_NODES,
            403,
            message(&format!("nodes is forbidden: {user} cannot list resource \"nodes\" at the cluster scope")),
            "list nodes of the cluster: add to its ClusterRole the rule {apiGroups: [\"\"], resources: [\"nodes\"]",
        ),
        (
            CREATE_PODS,
            403,
            message("pods \"p\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"),
            "the quota of the namespace `pool` is used up",
        ),
        (
            CREATE_PODS,
            400,
            message("admission webhook \"policy.example\" denied the request: no"),
            "the cluster's admission refuses it: exempt the namespace",
        ),
        (
            CREATE_PODS,
            500,
            message("Internal error occurred: failed calling webhook \"policy.example\": dial tcp: refused"),
            "the cluster's admission refuses it",
        ),
        (
            CREATE_PODS,
            403,
            message("pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": x"),
            "the cluster's admission refuses it",
        ),
        (
            CREATE_PODS,
            403,
            json!({ "message": "unable to create new content in namespace pool", "reason": "Forbidden",
                "details": { "causes": [{ "reason": "NamespaceTerminating" }] } }),
            "the namespace `pool` is being deleted",
        ),
        (
            CREATE_PODS,
            422,
            message(
                "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'p.example' with binding 'b' denied request: no",
            ),
            "the cluster's admission refuses it",
        ),
        (CREATE_PODS, 404, message("namespaces \"pool\" not found"), "the namespace `pool` does not exist"),
        (CREATE_PODS, 401, message("Unauthorized"), "the API server does not accept them: Unauthorized"),
        (CREATE_PODS, 422, message("Pod \"p\" is invalid: spec: x"), "refused to create: pods: Pod \"p\" is invalid"),
        (CREATE_PODS, 503, json!("not JSON of a status"), "does not answer"),
    ] {
        let error = refused(access, code, status).await.to_string();
        assert!(error.contains(said), "{code}: {error}");
    }
}

#[tokio::test]
async fn every_call_ends_though_the_answer_does_not() {
    let (config, _folder) = config(&server(200, "{\"items\":".to_owned(), 1000).await, &[]);
    let runtime = Runtime::new(Arc::clone(&config), "0a1b".to_owned());
    let key = PoolKey::plain(Engine::Chromium, Mode::Headless);
    let spec = WorkerSpec { worker: WorkerId::random(), key, image: "image".to_owned() };
    macro_rules! calls {
        ($($name:literal: $call:expr),+ $(,)?) => {
            vec![$(($name, Box::pin(async { $call.await.map(drop) }) as Call<'_>)),+]
        };
    }
    let calls: Vec<(&str, Call<'_>)> = calls!(
        "ping": runtime.ping(),
        "start": runtime.start(&spec),
        "addresses": runtime.addresses(&spec.worker),
        "state": runtime.state(&spec.worker),
        "remove": runtime.remove(&spec.worker),
        "mark_leased": runtime.mark_leased(&spec.worker),
        "list_containers": runtime.list_containers(),
        "image_id": runtime.image_id("image"),
        "nodes": runtime.nodes(),
        "order_node": runtime.order_node("east", NodeOrder::Drain),
        "check_nodes": runtime.check_nodes("image", Engine::Chromium),
        "cluster_facts": runtime.cluster_facts(),
    );
    join_all(calls.into_iter().map(|(name, call)| async move {
        let outcome = timeout(FOR_EVER, call).await.unwrap_or_else(|_| panic!("{name} does not end"));
        assert!(matches!(outcome, Err(RuntimeError::Unreachable(_))), "{name}: {outcome:?}");
    }))
    .await;
}

#[tokio::test]
async fn a_watch_hands_on_each_line_and_stops_when_told() {
    let body = "{\"n\":1}\n\n{\"n\":2}\n{\"n\":3}\n";
    let (config, _folder) = config(&server(200, body.to_owned(), body.len()).await, &[]);
    let api = Api::new(&config).unwrap();
    let mut heard = Vec::new();
    let each = |line: &[u8]| {
        heard.push(String::from_utf8_lossy(line).trim().to_owned());
        heard.len() < 2
    };
    api.watch(WATCH_PODS, "a=b", "7", each).await.unwrap();
    assert_eq!(heard, ["{\"n\":1}", "{\"n\":2}"]);
}

#[test]
fn no_verb_is_named_twice() {
    let mut rules: Vec<String> = ALL.iter().map(Access::rule).collect();
    rules.sort_unstable();
    rules.dedup();
    assert_eq!(rules.len(), ALL.len());
}
