//! An API server that answers as a test says, and the configuration for it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use warmpool_config::{Config, Flags, Host};

/// What it answers.
#[derive(Clone)]
pub(super) struct Reply {
    pub status: u16,
    pub body: Value,
    /// How long it takes.
    pub after: Duration,
}

impl Reply {
    pub(super) fn ok(body: Value) -> Self {
        Self { status: 200, body, after: Duration::ZERO }
    }

    /// The list of these objects.
    pub(super) fn list(items: Value) -> Self {
        Self::ok(json!({ "metadata": { "resourceVersion": "7" }, "items": items }))
    }

    /// A refusal with these words.
    pub(super) fn refusal(status: u16, message: &str) -> Self {
        Self { status, ..Self::ok(json!({ "kind": "Status", "message": message, "code": status })) }
    }

    /// What a verb that no rule allows gets.
    pub(super) fn forbidden(verb: &str, resource: &str) -> Self {
        let user = "system:serviceaccount:pool:warmpool";
        let message =
            format!("{resource} is forbidden: User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"\"");
        Self::refusal(403, &message)
    }

    pub(super) fn late(self, after: Duration) -> Self {
        Self { after, ..self }
    }
}

/// Starts it; `answer` gets the method and the path, with the query.
pub(super) async fn start(answer: impl Fn(&str, &str) -> Reply + Send + Sync + 'static) -> String {
    start_reading(move |method, path, _| answer(method, path)).await
}

/// Starts it; `answer` gets the body, too.
pub(super) async fn start_reading(answer: impl Fn(&str, &str, &[u8]) -> Reply + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            tokio::spawn(async move { serve(client, &*answer).await });
        }
    });
    format!("http://{address}")
}

async fn serve(mut client: TcpStream, answer: &(impl Fn(&str, &str, &[u8]) -> Reply + Sync)) {
    let mut read: Vec<u8> = Vec::new();
    loop {
        // A head, and a body of the length that it names.
        let (head, length) = loop {
            let end = read.windows(4).position(|part| part == b"\r\n\r\n").map(|at| at + 4);
            let whole = end.and_then(|end| {
                let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                let all = end + length.unwrap_or(0);
                (read.len() >= all).then(|| (String::from_utf8_lossy(&read[..end]).into_owned(), all))
            });
            if let Some(whole) = whole {
                break whole;
            }
            match client.read_buf(&mut read).await {
                Ok(1..) => {}
                _ => return,
            }
        };
        let body: Vec<u8> = read.drain(..length).skip(head.len()).collect();
        let mut words = head.split_whitespace();
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let Reply { status, body, after } = answer(method, path, &body);
        sleep(after).await;
        // A watch that says nothing ends at once.
        let body = if path.contains("watch=1") && status == 200 { String::new() } else { body.to_string() };
        let head =
            format!("HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
        if client.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The configuration for a server, with these settings beside, and the folder with its kubeconfig.
pub(super) fn config(server: &str, settings: &[(&str, &str)]) -> (Arc<Config>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let file = json!({
        "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": server } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u", "namespace": "pool" } }],
        "users": [{ "name": "u", "user": { "token": "t" } }],
    });
    std::fs::write(&path, file.to_string()).unwrap();
    let (path, data) = (path.display().to_string(), folder.path().display().to_string());
    let flags = [
        ("kubernetes.enabled", "true"),
        ("kubernetes.kubeconfig", &path),
        ("kubernetes.timeout", "1s"),
        ("kubernetes.create_timeout", "3s"),
        ("kubernetes.placement_timeout", "1s"),
        ("kubernetes.start_timeout", "2s"),
        ("store.data_dir", &data),
    ];
    let flags = flags
        .into_iter()
        .chain(settings.iter().copied())
        .fold(Flags::default(), |flags, (name, text)| flags.with(name, text));
    let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
    (Arc::new(Config::resolve(None, [], &flags, &host).unwrap()), folder)
}
