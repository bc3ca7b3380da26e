//! Row 14: clients that vanish without a word, so that not even their kernels close their connections.

use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use warmpool_tests::wire::Target;
use warmpool_tests::{Daemon, Group, Session, Settings, Stage, eventually, evidence, group, host_address};

use crate::queue::waiting;

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [clients_vanish_in_seven_phases])
}

/// A client in a container, which can be taken off the network.
struct Client {
    id: String,
}

impl Client {
    /// Sends these bytes, as `printf` takes them, and keeps what comes back.
    async fn start(daemon: &Daemon, bytes: &str) -> Result<Self> {
        let port = daemon.url().rsplit(':').next().unwrap_or_default();
        let script = format!(
            "exec 3<>/dev/tcp/{}/{port}; printf '{bytes}' >&3; timeout 600 tee /tmp/said <&3 > /dev/null",
            host_address()
        );
        Ok(Self { id: daemon.docker().run_client(&script).await? })
    }

    async fn said(&self, daemon: &Daemon) -> Result<String> {
        // The engine's log would keep back a line without an end.
        Ok(daemon.docker().inspect(&self.id, &["cat", "/tmp/said"]).await.unwrap_or_default())
    }

    /// How many bytes have come back.
    async fn received(&self, daemon: &Daemon) -> Result<u64> {
        let count = daemon.docker().inspect(&self.id, &["stat", "--format", "%s", "/tmp/said"]).await;
        Ok(count.ok().and_then(|count| count.trim().parse().ok()).unwrap_or_default())
    }

    async fn vanishes(&self, daemon: &Daemon) -> Result<()> {
        daemon.docker().run(&["network", "disconnect", "--force", "bridge", &self.id]).await.map(drop)
    }

    async fn remove(self, daemon: &Daemon) -> Result<()> {
        daemon.docker().run(&["rm", "--force", "--volumes", &self.id]).await.map(drop)
    }
}

/// A request for a session, as `printf` takes it.
fn create(daemon: &Daemon) -> String {
    let gateway: &str = host_address();
    let port = daemon.url().rsplit(':').next().unwrap_or_default();
    let body = r#"{"headless":true}"#;
    format!(
        "POST /sessions/create HTTP/1.1\\r\\nHost: {gateway}:{port}\\r\\nservice-secret-key: {}\\r\\n\
         Content-Type: application/json\\r\\nContent-Length: {}\\r\\n\\r\\n{body}",
        daemon.key(),
        body.len()
    )
}

/// A masked text frame, as `printf` takes it; short.
fn frame(text: &str) -> String {
    let length = text.len();
    let mut bytes = vec![0x81];
    match u8::try_from(length) {
        Ok(length) if length < 126 => bytes.push(0x80 | length),
        _ => {
            bytes.push(0x80 | 126);
            bytes.extend(u16::try_from(length).unwrap_or_default().to_be_bytes());
        }
    }
    bytes.extend([0; 4]);
    bytes.extend(text.bytes());
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

/// A websocket's request and these messages, as `printf` takes them.
fn attached(session: &Session, messages: &[&str]) -> Result<String> {
    let target = Target::parse(session.websocket_url()?)?;
    Ok(messages.iter().fold(upgrade(&target), |bytes, message| bytes + &frame(message)))
}

/// The request of somebody who watches a session.
fn watching(session: &Session) -> Result<String> {
    let url = session.url("livestream_url")?.replacen("http", "ws", 1);
    Ok(upgrade(&Target::parse(&url.replacen("/stream?", "/stream/socket?", 1))?))
}

fn upgrade(target: &Target) -> String {
    format!(
        "GET {} HTTP/1.1\\r\\nHost: {}:{}\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\
         Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\n\\r\\n",
        target.path.replace('%', "%%"),
        host_address(),
        target.port
    )
}

/// How many sessions have ended.
async fn ended(daemon: &Daemon) -> Result<f64> {
    Ok(daemon.metrics().await?.sum("warmpool_sessions_ended_total", &[]).unwrap_or_default())
}

async fn clients_vanish_in_seven_phases(stage: Stage) -> Result<()> {
    let _: IpAddr = host_address().parse()?;
    let settings = Settings::new()
        .set("SERVER_LISTEN", "0.0.0.0:0")
        .set("SERVER_TCP_KEEPALIVE", "1s")
        .set("SERVER_TCP_USER_TIMEOUT", "3s")
        .set("SERVER_WRITE_TIMEOUT", "2s")
        .set("RELAY_WRITE_TIMEOUT", "2s")
        .set("LIVE_WRITE_TIMEOUT", "2s")
        .set("SESSION_RECONNECT_WINDOW", "0s")
        .set("SESSION_ATTACH_TIMEOUT", "5s")
        .set("SESSION_MAX_SESSIONS", "1")
        .set("SESSION_QUEUE_WAIT", "5m");
    let mut daemon = Daemon::start(settings).await?;
    // The harness has a later start listen on loopback alone.
    let listen = format!("0.0.0.0:{}", daemon.url().rsplit(':').next().unwrap_or_default());

    // Queued: somebody else has the only place.
    let held = daemon.session(json!({"keep_alive": true})).await?;
    let client = Client::start(&daemon, &create(&daemon)).await?;
    waiting(&daemon, 1).await?;
    let ends = ended(&daemon).await?;
    client.vanishes(&daemon).await?;
    waiting(&daemon, 0).await?;
    client.remove(&daemon).await?;
    ensure!(ended(&daemon).await? == ends, "queued: what had not begun has ended");
    held.delete().await?.ok()?;
    daemon.assert_idle().await?;
    ensure!(ended(&daemon).await? == ends + 1.0, "queued: the other one's ended more than once");

    // Being served: there is no worker yet.
    daemon.kill9().await?;
    daemon.set("POOL_CHROMIUM_HEADLESS", "0");
    daemon.set("SERVER_LISTEN", &listen);
    daemon.restart().await?;
    daemon.ready().await?;
    eventually!("no worker is warm", 30, daemon.containers().await?.is_empty())?;
    let client = Client::start(&daemon, &create(&daemon)).await?;
    eventually!("a worker is being started", 30, !daemon.containers().await?.is_empty())?;
    let ends = ended(&daemon).await?;
    client.vanishes(&daemon).await?;
    daemon.assert_idle().await?;
    client.remove(&daemon).await?;
    // It may have got its worker before anybody knew that it is gone.
    ensure!(ended(&daemon).await? <= ends + 1.0, "being served: it ended more than once");
    daemon.kill9().await?;
    daemon.set("POOL_CHROMIUM_HEADLESS", "1");
    daemon.set("SERVER_LISTEN", &listen);
    daemon.restart().await?;
    daemon.warm().await?;

    // Served, and not attached.
    let client = Client::start(&daemon, &create(&daemon)).await?;
    eventually!("it has its session", 30, client.said(&daemon).await?.contains("session_id"))?;
    let ends = ended(&daemon).await?;
    client.vanishes(&daemon).await?;
    daemon.assert_idle().await?;
    client.remove(&daemon).await?;
    ensure!(ended(&daemon).await? == ends + 1.0, "not attached: it ended more than once, or not at all");
    let listed = daemon.api().get("/sessions?limit=1").await?.ok()?;
    ensure!(listed["sessions"][0]["reason"] == "attach_timeout", "{listed}");

    let version = json!({"id": 1, "method": "Browser.getVersion"}).to_string();
    let targets = json!({"id": 2, "method": "Target.setAutoAttach",
        "params": {"autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true}});
    let endless = json!({"id": 3, "method": "Target.createTarget", "params": {"url": "data:text/html,<script>while(1);</script>"}});
    // Messages without end: the browser tells how full the buffer of a trace is.
    let stream =
        json!({"id": 4, "method": "Tracing.start", "params": {"bufferUsageReportingInterval": 20}}).to_string();
    let (targets, endless) = (targets.to_string(), endless.to_string());
    for (phase, messages) in [
        ("idle", vec![version.as_str()]),
        ("amid a command", vec![version.as_str(), &targets, &endless]),
        ("amid a stream", vec![version.as_str(), &stream]),
    ] {
        let session = daemon.session(json!({})).await?;
        let client = Client::start(&daemon, &attached(&session, &messages)?).await?;
        let client_said = eventually!("it is attached", 30, client.said(&daemon).await?.contains("protocolVersion"));
        ensure!(client_said.is_ok(), "{phase}: {}", client.said(&daemon).await?);
        if phase == "amid a stream" {
            let told =
                async || Ok::<_, anyhow::Error>(client.said(&daemon).await?.matches("Tracing.bufferUsage").count());
            let so_far = told().await?;
            let goes_on = eventually!("messages come without end", 30, told().await? > so_far + 5);
            goes_on.with_context(|| format!("{so_far} at first"))?;
        }
        let ends = ended(&daemon).await?;
        client.vanishes(&daemon).await?;
        let record = session.becomes("completed", 60).await?;
        ensure!(record["reason"] == "disconnected", "{phase}: {record}");
        client.remove(&daemon).await?;
        daemon.assert_idle().await?;
        ensure!(ended(&daemon).await? == ends + 1.0, "{phase}: it ended more than once");
    }

    // Watching pictures, which come for as long as somebody takes them.
    let url = format!("{}/animation", stage.site_for(&daemon).await?);
    let session = daemon.session(json!({"url": url, "keep_alive": true})).await?;
    let client = Client::start(&daemon, &watching(&session)?).await?;
    let viewers =
        async || daemon.metrics().await?.sum("warmpool_live_viewers", &[]).context("the daemon counts viewers");
    let seen = eventually!("it sees a picture", 30, viewers().await? == 1.0 && client.received(&daemon).await? > 5000);
    if seen.is_err() {
        bail!(
            "{} bytes, {} viewers: {}",
            client.received(&daemon).await?,
            viewers().await?,
            client.said(&daemon).await?
        );
    }
    client.vanishes(&daemon).await?;
    eventually!("its place is free", 60, viewers().await? == 0.0)?;
    ensure!(session.status().await? == "running", "a session does not end with its viewers");
    client.remove(&daemon).await?;
    let ends = ended(&daemon).await?;
    session.delete().await?.ok()?;
    daemon.assert_idle().await?;
    ensure!(ended(&daemon).await? == ends + 1.0, "it ended more than once");
    evidence::made(7);
    Ok(())
}
