//! Each call of both runtimes, against an engine that stops in the middle of its answers.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::{NodeFacts, NodeOrder, NodeState, NodeUse, RendererId, Runtime, RuntimeError, WorkerSpec};
use warmpool_config::{Config, Flags, Host};
use warmpool_core::browser::{Engine, Mode, PoolKey};
use warmpool_core::ids::WorkerId;

/// Long after every deadline.
const FOR_EVER: Duration = Duration::from_secs(30);

type Call<'a> = (&'static str, Pin<Box<dyn Future<Output = Result<(), RuntimeError>> + 'a>>);

/// An engine that says which version it is; of everything else, or with `never` of that too, it sends the head and a part of
/// the body.
fn half_an_engine(listener: UnixListener, never: bool) {
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = vec![0; 1 << 16];
                while let Ok(read @ 1..) = client.read(&mut request).await {
                    let version = r#"{"ApiVersion":"1.41","MinAPIVersion":"1.12","Version":"20.10"}"#;
                    let is_version = request[..read].starts_with(b"GET /version");
                    let (length, body) =
                        if is_version && !never { (version.len(), version) } else { (1000, "[{\"Id\":") };
                    let head = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
                    );
                    if client.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
}

fn calls<'a>(
    (runtime, has_nodes): (&'a Runtime, bool),
    spec: &'a WorkerSpec,
    renderer: &'a RendererId,
    node: &'a NodeFacts,
) -> Vec<Call<'a>> {
    let worker = &spec.worker;
    macro_rules! calls {
        ($($name:literal: $call:expr),+ $(,)?) => {
            vec![$(($name, Box::pin(async { $call.await.map(drop) }) as Pin<Box<dyn Future<Output = _>>>)),+]
        };
    }
    let mut calls = calls!(
        "ping": runtime.ping(),
        "ensure_network": runtime.ensure_network(),
        "start": runtime.start(spec),
        "addresses": runtime.addresses(worker),
        "state": runtime.state(worker),
        "remove": runtime.remove(worker),
        "list_containers": runtime.list_containers(),
        "image_id": runtime.image_id("image"),
        "engine_facts": runtime.engine_facts(),
        "start_renderer": runtime.start_renderer(renderer),
        "renderer_state": runtime.renderer_state(renderer),
        "remove_renderer": runtime.remove_renderer(renderer),
        "left_renderers": runtime.left_renderers(),
        "has_renderer_image": runtime.has_renderer_image(),
    );
    if has_nodes {
        calls.extend(calls!(
            "nodes": runtime.nodes(),
            "order_node": runtime.order_node("east", NodeOrder::Drain),
            "finish_drain": runtime.finish_drain(node),
            "check_nodes": runtime.check_nodes("image", Engine::Chromium),
        ));
    }
    calls
}

#[tokio::test]
async fn every_call_ends_though_the_answer_does_not() {
    for (swarm, never) in [("false", false), ("true", false), ("false", true)] {
        let data = tempfile::tempdir().unwrap();
        let socket = data.path().join("engine.sock");
        half_an_engine(UnixListener::bind(&socket).unwrap(), never);
        let socket = format!("unix://{}", socket.display());
        let data_dir = data.path().display().to_string();
        let flags = [
            ("docker.host", socket.as_str()),
            ("docker.timeout", "1s"),
            ("docker.work_timeout", "1s"),
            ("swarm.enabled", swarm),
            ("store.data_dir", &data_dir),
        ];
        let flags = flags.into_iter().fold(Flags::default(), |flags, (name, text)| flags.with(name, text));
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        let config = Arc::new(Config::resolve(None, [], &flags, &host).unwrap());
        let runtime = Runtime::new(config, "test".to_owned());
        let key = PoolKey::plain(Engine::Chromium, Mode::Headless);
        let spec = WorkerSpec { worker: WorkerId::random(), key, image: "image".to_owned() };
        let renderer = RendererId::random();
        let node = NodeFacts {
            id: "east".to_owned(),
            name: "east".to_owned(),
            state: NodeState::Ready,
            availability: NodeUse::Draining,
            left_out: None,
        };
        let ended =
            calls((&runtime, swarm == "true"), &spec, &renderer, &node).into_iter().map(|(name, call)| async move {
                let outcome =
                    timeout(FOR_EVER, call).await.unwrap_or_else(|_| panic!("{name} does not end, swarm: {swarm}"));
                // Of a removal, the head says all.
                let is_told = matches!(outcome, Err(RuntimeError::Unreachable(_)))
                    || (outcome.is_ok() && name.starts_with("remove"));
                assert!(is_told, "{name}, swarm: {swarm}: {outcome:?}");
            });
        join_all(ended).await;
    }
}

/// An engine that speaks these versions of the interface, as Docker does: the newest, and the oldest. It is a swarm's manager, without
/// tasks.
fn engine(listener: UnixListener, newest: &'static str, oldest: &'static str) -> JoinHandle<()> {
    let minor = |version: &str| version.rsplit('.').next().and_then(|minor| minor.parse::<u32>().ok()).unwrap();
    tokio::spawn(async move {
        let mut clients = JoinSet::new();
        while let Ok((mut client, _)) = listener.accept().await {
            clients.spawn(async move {
                let mut request = vec![0; 1 << 16];
                while let Ok(read @ 1..) = client.read(&mut request).await {
                    let text = String::from_utf8_lossy(&request[..read]);
                    let path = text.split(' ').nth(1).unwrap_or_default();
                    let named =
                        path.strip_prefix("/v").and_then(|rest| rest.split_once('/')).map(|(version, _)| version);
                    let spoken = named.is_none_or(|named| (minor(oldest)..=minor(newest)).contains(&minor(named)));
                    let (status, body) = match path {
                        _ if !spoken => (400, r#"{"message":"client version is too old"}"#.to_owned()),
                        "/version" => {
                            (200, format!(r#"{{"ApiVersion":"{newest}","MinAPIVersion":"{oldest}","Version":"1"}}"#))
                        }
                        _ if path.contains("/_ping") => (200, "OK".to_owned()),
                        _ if path.ends_with("/swarm") => (200, "{}".to_owned()),
                        _ => (200, "[]".to_owned()),
                    };
                    let head = format!(
                        "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                        body.len()
                    );
                    if client.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    })
}

#[tokio::test]
async fn an_engine_of_another_version_is_used_in_its_own() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("engine.sock");
    let (socket, data_dir) = (format!("unix://{}", path.display()), data.path().display().to_string());
    let flags = [
        ("docker.host", socket.as_str()),
        ("swarm.enabled", "true"),
        ("store.data_dir", &data_dir),
        ("docker.timeout", "5s"),
    ];
    let flags = flags.into_iter().fold(Flags::default(), |flags, (name, text)| flags.with(name, text));
    let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
    let runtime = Runtime::new(Arc::new(Config::resolve(None, [], &flags, &host).unwrap()), "test".to_owned());
    // Each speaks none of the versions of the one before.
    for (newest, oldest) in [("1.41", "1.12"), ("1.53", "1.44"), ("1.40", "1.12")] {
        let running = engine(UnixListener::bind(&path).unwrap(), newest, oldest);
        // The first tells at the latest that it is another one.
        let _ = runtime.ping().await;
        runtime.ping().await.unwrap();
        assert!(runtime.list_containers().await.unwrap().is_empty(), "{newest}");
        running.abort();
        let _ = running.await;
        std::fs::remove_file(&path).unwrap();
    }
}
