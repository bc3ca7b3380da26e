//! Connections whose clients do not read, are too many, or have vanished.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use warmpool_tests::wire::Target;
use warmpool_tests::{Daemon, Group, Settings, Stage, eventually, group, host_address};

pub(crate) fn group() -> Group {
    group!(None,
        quick: [
            a_client_that_never_reads_is_cut_off,
            connections_of_one_address_are_limited,
            open_websockets_are_connections,
        ],
        full: [answers_that_nobody_reads_have_a_share_of_memory, a_client_that_vanishes_frees_the_browser],
    )
}

/// A connection that comes from `from`: this machine has a whole network of loopback addresses.
async fn connect_from(daemon: &Daemon, from: [u8; 4]) -> Result<TcpStream> {
    let target = Target::parse(daemon.url())?;
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((from, 0)))?;
    Ok(socket.connect(SocketAddr::new(target.host.parse()?, target.port)).await?)
}

fn get(daemon: &Daemon, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", daemon.url().trim_start_matches("http://"))
}

async fn a_client_that_never_reads_is_cut_off(_: Stage) -> Result<()> {
    const CLIENTS: usize = 10;
    let settings = Settings::on_demand().set("SERVER_WRITE_TIMEOUT", "1s").set("SERVER_MAX_CONNECTIONS", CLIENTS);
    let daemon = Daemon::start(settings).await?;
    let requests = get(&daemon, "/metrics").repeat(1000);
    let clients = (0..CLIENTS).map(|_| async {
        let mut stream = connect_from(&daemon, [127, 0, 0, 2]).await?;
        // It asks for as long as it may, and reads nothing: in the end it is the daemon that hangs up.
        while stream.write_all(requests.as_bytes()).await.is_ok() {}
        anyhow::Ok(())
    });
    let all = futures_util::future::try_join_all(clients);
    tokio::time::timeout(Duration::from_secs(60), all).await.context("a client that never reads is still there")??;
    let metrics = daemon.metrics().await?;
    ensure!(metrics.sum("warmpool_connections_stalled_total", &[]) == Some(10.0), "each was cut off for that reason");
    daemon.session(json!({})).await?.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn connections_of_one_address_are_limited(_: Stage) -> Result<()> {
    let settings = Settings::on_demand()
        .set("SERVER_MAX_CONNECTIONS_PER_ADDRESS", "5")
        .set("SERVER_TRUSTED_PROXIES", "127.0.0.9")
        .set("SERVER_KEEP_ALIVE_TIMEOUT", "5m");
    let daemon = Daemon::start(settings).await?;
    let mut held = Vec::new();
    for _ in 0..5 {
        let mut stream = connect_from(&daemon, [127, 0, 0, 2]).await?;
        stream.write_all(get(&daemon, "/healthz").as_bytes()).await?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await?;
        ensure!(&answer == b"HTTP/1.1 200", "{}", String::from_utf8_lossy(&answer));
        held.push(stream);
    }
    let mut refused = String::new();
    connect_from(&daemon, [127, 0, 0, 2]).await?.read_to_string(&mut refused).await?;
    ensure!(refused.starts_with("HTTP/1.1 429 ") && refused.contains("retry-after"), "{refused}");
    ensure!(refused.contains("address_limit") && refused.contains("max_connections_per_address"), "{refused}");
    // Other addresses have limits of their own, and a trusted proxy has none.
    ensure!(daemon.api().get("/healthz").await?.status == 200);
    for _ in 0..12 {
        let mut stream = connect_from(&daemon, [127, 0, 0, 9]).await?;
        stream.write_all(get(&daemon, "/healthz").as_bytes()).await?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await?;
        ensure!(&answer == b"HTTP/1.1 200", "{}", String::from_utf8_lossy(&answer));
        held.push(stream);
    }
    drop(held);
    eventually!("its share is free again", 10, {
        let mut stream = connect_from(&daemon, [127, 0, 0, 2]).await?;
        // A refusal may come before the request is out.
        let _ = stream.write_all(get(&daemon, "/healthz").as_bytes()).await;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.is_ok() && &answer == b"HTTP/1.1 200"
    })?;
    daemon.assert_idle().await
}

/// The beginning of the answer to a request on a new connection from this address.
async fn answer_to(daemon: &Daemon, from: [u8; 4], request: &str) -> Result<(TcpStream, String)> {
    let mut stream = connect_from(daemon, from).await?;
    // A refusal may come before the request is out.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = [0; 12];
    let read = stream.read_exact(&mut answer).await;
    Ok((stream, if read.is_ok() { String::from_utf8_lossy(&answer).into_owned() } else { String::new() }))
}

async fn open_websockets_are_connections(_: Stage) -> Result<()> {
    const HERE: [u8; 4] = [127, 0, 0, 2];
    let settings = Settings::on_demand().set("SERVER_MAX_CONNECTIONS_PER_ADDRESS", "3");
    let daemon = Daemon::start(settings).await?;
    let session = daemon.session(json!({"keep_alive": true})).await?;
    let (browser, view) = (session.websocket_url()?, session.url("livestream_url")?);
    let view = view.replacen("/stream?", "/stream/socket?", 1);
    let mut sockets = Vec::new();
    for url in [browser, browser, &view] {
        let target = Target::parse(url)?;
        let handshake = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
            target.path,
            target.authority()
        );
        let (stream, answer) = answer_to(&daemon, HERE, &handshake).await?;
        ensure!(answer == "HTTP/1.1 101", "{url}: {answer}");
        sockets.push(stream);
    }
    let one_more = async || answer_to(&daemon, HERE, &get(&daemon, "/healthz")).await;
    // A refused connection may be cut before its answer is read.
    let (_, refused) = one_more().await?;
    ensure!(refused.is_empty() || refused == "HTTP/1.1 429", "{refused}");
    ensure!(daemon.api().get("/healthz").await?.status == 200, "other addresses have limits of their own");
    // Each of them gives its own place back.
    drop(sockets);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(eventually!("there is a place again", 20, {
            let (stream, answer) = one_more().await?;
            (answer == "HTTP/1.1 200").then_some(stream)
        })?);
    }
    drop(held);
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// The answer to one request for the description, from this address.
async fn described(daemon: &Daemon, from: [u8; 4]) -> Result<String> {
    let mut stream = connect_from(daemon, from).await?;
    let head = get(daemon, "/openapi.json").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

async fn answers_that_nobody_reads_have_a_share_of_memory(_: Stage) -> Result<()> {
    // An answer has some 900 KB.
    let settings = Settings::on_demand().set("SERVER_ANSWER_MEMORY", "8MiB").set("SERVER_ANSWER_SHARE", "2MiB");
    let daemon = Daemon::start(settings).await?;
    // More than the kernel's own buffers hold, so that each of them has an answer that waits in the daemon.
    let requests = get(&daemon, "/openapi.json").repeat(200);
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut stream = connect_from(&daemon, [127, 0, 0, 2]).await?;
        stream.write_all(requests.as_bytes()).await?;
        held.push(stream);
    }
    eventually!("there is no room for another answer", 20, {
        let answer = described(&daemon, [127, 0, 0, 2]).await?;
        let full = answer.starts_with("HTTP/1.1 503 ");
        ensure!(!full || answer.contains("body_memory") && answer.contains("server.answer_share"), "{answer}");
        ensure!(!full || answer.contains("retry-after: "), "{answer}");
        full
    })?;
    // Other addresses have room, and so have short answers.
    let answer = described(&daemon, [127, 0, 0, 3]).await?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "{answer:.200}");
    daemon.session(json!({})).await?.delete().await?.ok()?;
    drop(held);
    let described = async || described(&daemon, [127, 0, 0, 2]).await;
    eventually!("there is room again", 20, described().await?.starts_with("HTTP/1.1 200 "))?;
    daemon.assert_idle().await
}

/// A container that is removed with whatever runs in it.
struct Machine<'a> {
    daemon: &'a Daemon,
    id: String,
}

impl Machine<'_> {
    async fn said(&self) -> Result<String> {
        self.daemon.docker().run(&["logs", &self.id]).await
    }

    async fn remove(self) -> Result<()> {
        self.daemon.docker().run(&["rm", "--force", "--volumes", &self.id]).await.map(drop)
    }
}

async fn a_client_that_vanishes_frees_the_browser(_: Stage) -> Result<()> {
    let settings = Settings::on_demand()
        .set("SERVER_LISTEN", "0.0.0.0:0")
        .set("SERVER_TCP_KEEPALIVE", "1s")
        .set("SERVER_TCP_USER_TIMEOUT", "3s")
        .set("SERVER_WRITE_TIMEOUT", "2s")
        .set("RELAY_WRITE_TIMEOUT", "2s")
        .set("LIVE_WRITE_TIMEOUT", "2s")
        .set("SESSION_RECONNECT_WINDOW", "0s");
    let daemon = Daemon::start(settings).await?;
    let session = daemon.session(json!({})).await?;
    let gateway: IpAddr = host_address().parse()?;
    let target = Target::parse(session.websocket_url()?)?;
    let handshake = format!(
        "GET {} HTTP/1.1\\r\\nHost: {gateway}:{}\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\
         Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\n\\r\\n",
        target.path, target.port
    );
    // The client runs in a container, which can be taken off the network so that not even its kernel closes the connection.
    let script =
        format!("exec 3<>/dev/tcp/{gateway}/{}; printf '{handshake}' >&3; head -n 1 <&3; sleep 600", target.port);
    let machine = Machine { daemon: &daemon, id: daemon.docker().run_client(&script).await? };
    let vanished = async {
        eventually!("the client has its browser", 30, machine.said().await?.contains(" 101 "))?;
        ensure!(session.status().await? == "running");
        daemon.docker().run(&["network", "disconnect", "--force", "bridge", &machine.id]).await?;
        let record = session.becomes("completed", 30).await?;
        ensure!(record["reason"] == "disconnected", "{record}");
        anyhow::Ok(())
    };
    let vanished = vanished.await;
    machine.remove().await?;
    vanished?;
    daemon.assert_idle().await
}
