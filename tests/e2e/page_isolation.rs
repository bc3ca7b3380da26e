//! A hostile page reaches no port of its own container.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use warmpool_tests::{Daemon, Docker, Driver, Group, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    group!(None,
        quick: [a_page_reaches_no_port_of_chromium],
        full: [
            a_page_reaches_no_port_of_firefox,
            a_page_reaches_no_port_of_webkit,
            a_page_reaches_no_port_of_a_relaunched_browser,
            a_page_reaches_no_port_of_an_agent_on_the_network,
            a_claimed_worker_takes_no_other_claim,
        ],
    )
}

/// Ports at which browsers, drivers, displays and agents usually listen, and one that they could get for port 0.
const PORTS: &str = "1080,6669,8400,9222,9515,4445,2828,9400,9401,5900,6000,61000";

/// A name that leads into the container itself, as one that was rebound would.
const REBOUND: &str = "rebound.test";

/// The worker's own address, on the cable that its agent makes.
const OWN: &str = "203.0.113.2";

/// The browser's way out, on loopback: what a page asks for there is asked through itself.
const PROXY: &str = "0100007F:0438";

/// Sockets in a container that wait for connections from a network, as `address:port` in hexadecimal. The engine's own
/// name server is none of ours.
async fn listening(daemon: &Daemon, container: &str) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for table in ["tcp", "tcp6"] {
        let text = daemon.docker().inspect(container, &["cat", &format!("/proc/net/{table}")]).await?;
        for line in text.lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let (local, state) = (columns.get(1).context("an address")?, columns.get(3).context("a state")?);
            let is_name_server = local.starts_with("0B00007F:");
            if !is_name_server && *local != PROXY && *state == "0A" {
                found.insert(format!("{table} {local}"));
            }
        }
    }
    Ok(found)
}

/// Makes [`REBOUND`] a name of the container's loopback.
async fn rebind(daemon: &Daemon, container: &str) -> Result<()> {
    // That of the worker's folder, or else the engine's own.
    let paths = "{{range .Mounts}}{{if eq .Destination \"/etc/hosts\"}}{{.Source}} {{end}}{{end}}{{.HostsPath}}";
    let paths = daemon.docker().run(&["inspect", "--format", paths, container]).await?;
    let path = paths.split_whitespace().next().context("a file")?;
    let mut hosts = std::fs::read_to_string(path)?;
    hosts.push_str(&format!("127.0.0.1 {REBOUND}\n"));
    Ok(std::fs::write(path, hosts)?)
}

/// Opens the page that tries every port in the one worker, and checks that nothing answered and that the session goes on.
async fn try_ports(stage: &Stage, daemon: &Daemon, container: &str, engine: &str, always: Value) -> Result<()> {
    let site = stage.site_for(daemon).await?;
    let (host, port) = site.trim_start_matches("http://").rsplit_once(':').context("a port")?;
    let session = daemon.webdriver(json!({"browser_type": engine, "headless": true})).await?;
    let driver = Driver::start(session.connect_url()?, always).await?;
    rebind(daemon, container).await?;
    let name = format!("{engine}-{}", session.id);
    let page =
        format!("{site}/ports/{name}?hosts={host},127.0.0.1,localhost,[::1],{OWN},{REBOUND}&ports={port},{PORTS}");
    driver.goto(&page).await?;
    let answered = eventually!(format!("{engine} has tried the ports"), 180, stage.site().report(&name))?;
    let answered: BTreeSet<&str> = answered.as_array().context("a list")?.iter().filter_map(Value::as_str).collect();
    // The site answers, so the page's attempts work; nothing else answers.
    for way in ["fetch", "post", "image"] {
        ensure!(answered.contains(format!("{way} {host}:{port}").as_str()), "{engine}: {way}: {answered:?}");
    }
    let others: Vec<_> = answered.iter().filter(|answer| !answer.ends_with(&format!(" {host}:{port}"))).collect();
    ensure!(others.is_empty(), "{engine}: a page got an answer at {others:?}");
    // Driver, browser and session are as they were.
    eventually!("the driver still serves its session", 20, {
        driver.execute("return document.title").await? == "Done"
    })?;
    ensure!(session.status().await? == "running", "{engine}");
    let found = listening(daemon, container).await?;
    ensure!(found.is_empty(), "{engine}: something listens: {found:?}");
    session.delete().await?.ok().map(drop)
}

/// One worker, which is warm.
fn settings(engine: &str) -> Settings {
    Settings::on_demand().set(&format!("POOL_{}_HEADLESS", engine.to_uppercase()), 1).set("POOL_MAX_WORKERS", 1)
}

async fn no_door(stage: &Stage, engine: &str, always: Value) -> Result<()> {
    let daemon = Daemon::start(settings(engine)).await?;
    let container = daemon.only_container().await?;
    ensure!(listening(&daemon, &container).await?.is_empty(), "a warm worker listens on no network");
    try_ports(stage, &daemon, &container, engine, always).await?;
    daemon.end().await
}

async fn a_page_reaches_no_port_of_chromium(stage: Stage) -> Result<()> {
    no_door(&stage, "chromium", json!({})).await
}

async fn a_page_reaches_no_port_of_firefox(stage: Stage) -> Result<()> {
    no_door(&stage, "firefox", json!({})).await
}

async fn a_page_reaches_no_port_of_webkit(stage: Stage) -> Result<()> {
    no_door(&stage, "webkit", json!({})).await
}

/// A browser with options of the client's own is started by its driver, and takes a port that the driver finds out.
async fn a_page_reaches_no_port_of_a_relaunched_browser(stage: Stage) -> Result<()> {
    no_door(&stage, "chromium", json!({"goog:chromeOptions": {"args": ["lang=de"]}})).await?;
    no_door(&stage, "firefox", json!({"moz:firefoxOptions": {"prefs": {"layout.css.devPixelsPerPx": "1.5"}}})).await
}

/// Where the daemon cannot share a folder with its workers, the agent has a port, and it is one that browsers refuse.
async fn a_page_reaches_no_port_of_an_agent_on_the_network(stage: Stage) -> Result<()> {
    // Podman's CNI would give this host no address on the network that the daemon makes.
    if std::env::var("DOCKER_HOST").is_ok_and(|host| host.contains("podman")) {
        Docker::default().run(&["network", "create", "warmpool-test-tcp"]).await?;
    }
    for engine in ["chromium", "firefox", "webkit"] {
        let daemon = Daemon::start(
            settings(engine).set("WORKER_AGENT_TRANSPORT", "tcp").set("DOCKER_NETWORK", "warmpool-test-tcp"),
        )
        .await?;
        let container = daemon.only_container().await?;
        let found = listening(&daemon, &container).await?;
        ensure!(found.is_empty(), "{engine}: the agent's port is on the network that it left: {found:?}");
        try_ports(&stage, &daemon, &container, engine, json!({})).await?;
        daemon.end().await?;
    }
    let _ = Docker::default().run(&["network", "rm", "warmpool-test-tcp"]).await;
    Ok(())
}

/// The agent reads nothing from callers that come too late, and little from the first.
async fn a_claimed_worker_takes_no_other_claim(_stage: Stage) -> Result<()> {
    let daemon = Daemon::start(settings("chromium")).await?;
    let container = daemon.only_container().await?;
    let socket = daemon.docker().file(&container, "run/warmpool/agent.sock").await?;
    let mut stream = tokio::net::UnixStream::connect(socket).await?;
    let length = 64 << 20;
    let head = format!("POST /claim HTTP/1.1\r\nhost: agent\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await?;
    ensure!(&answer == b"HTTP/1.1 409", "answered before any of the body came");
    daemon.assert_idle().await
}
