//! Faults of the daemon, of a worker, of its browser and of the container engine; and how the daemon shuts down.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream};
use warmpool_tests::wire::Target;
use warmpool_tests::{
    Cdp, Daemon, Driver, Engine, Fault, FaultyEngine, Group, Session, Settings, Stage, docker, eventually, group, poll,
};

pub(crate) fn group() -> Group {
    group!(None,
        quick: [sessions_outlive_a_killed_daemon, a_killed_browser_is_a_failure],
        full: [
            a_killed_worker_is_a_failure,
            a_paused_worker_is_a_failure,
            a_frozen_browser_is_a_failure,
            a_worker_killed_while_warm_is_replaced,
            a_worker_lost_with_the_daemon_is_a_failure,
            the_engine_may_go_and_come_back,
            a_driver_that_nobody_uses_is_replaced,
            a_page_that_takes_all_memory_leaves_its_reason,
            half_an_answer_of_the_engine_stops_nothing,
            sigterm_drains,
            sigterm_keeps_sessions_where_that_is_set,
            drain_has_an_end,
            a_second_sigterm_ends_at_once,
            an_end_in_the_middle_of_a_start_leaves_nothing,
            a_second_daemon_on_the_same_data_is_refused,
            a_store_whose_cleaner_has_ended_is_not_used_on,
            sigusr2_runs_the_program_anew,
            descriptors_that_run_out_are_waited_for,
        ],
    )
}

/// A daemon, its one headless worker's container, and the session that got it, attached.
async fn attached(settings: Settings) -> Result<(Daemon, String, Session, Cdp)> {
    let daemon = Daemon::start(settings).await?;
    let container = daemon.only_container().await?;
    let session = daemon.session(json!({})).await?;
    let mut cdp = session.cdp().await?;
    cdp.call("Browser.getVersion", json!({})).await?;
    Ok((daemon, container, session, cdp))
}

/// The client gets the reason, the session ends once as a failure for it, and everything is given back.
async fn fails(daemon: &Daemon, session: &Session, cdp: &mut Cdp, reason: &str) -> Result<()> {
    let (code, said) = cdp.ended().await?.context("a Close frame")?;
    ensure!(code == 1011 && !said.is_empty(), "{code} {said}");
    let record = session.becomes("failure", 15).await?;
    ensure!(record["reason"] == reason, "{record}");
    ensure!(session.delete().await?.status < 300, "deleting what is over does no harm");
    ensure!(session.record().await?["reason"] == reason, "it ended once");
    daemon.assert_idle().await
}

async fn sessions_outlive_a_killed_daemon(stage: Stage) -> Result<()> {
    let engine = FaultyEngine::start()?;
    let settings = Settings::new().set("POOL_CHROMIUM_HEADLESS", "2").set("DOCKER_HOST", engine.url());
    let mut daemon = Daemon::start(settings).await?;
    let site = stage.site_for(&daemon).await?;
    let session = daemon.session(json!({})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.open(&format!("{site}/form")).await?;
    eventually!("the page is loaded", 20, cdp.evaluate(&page, "document.title").await? == "Form")?;
    cdp.evaluate(&page, "document.querySelector('#name').value = 'half typed'").await?;
    let driven = daemon.webdriver(json!({})).await?;
    let driver = Driver::start(driven.connect_url()?, json!({})).await?;
    driver.goto(&format!("{site}/tab/7")).await?;
    let over = daemon.session(json!({})).await?;
    over.delete().await?.ok()?;
    let unwanted = daemon.session(json!({})).await?;

    daemon.kill9().await?;
    ensure!(cdp.ended().await?.is_none(), "a crash sends no Close frame");
    // It listens, and does not know yet which workers there are.
    engine.all(Fault::Silence);
    daemon.restart().await?;
    let reply = daemon.api().post("/sessions/create", &json!({"headless": true})).await?;
    ensure!(reply.fault(503)?.code == "starting" && reply.header("retry-after").is_some(), "{reply}");
    let reply = daemon.api().get(&format!("/sessions/{}/files", session.id)).await?;
    ensure!(reply.fault(503)?.code == "starting", "{reply}");
    let ended = unwanted.delete().await?.ok()?;
    ensure!(ended["status"] == "terminated" && ended["reason"] == "deleted", "{ended}");
    daemon.kill9().await?;
    daemon.restart().await?;
    engine.heal();
    daemon.ready().await?;
    ensure!(unwanted.record().await?["reason"] == "deleted", "what was deleted meanwhile stays so");

    ensure!(session.status().await? == "running" && driven.status().await? == "running");
    ensure!(over.record().await?["reason"] == "deleted", "what was over stays over");
    let mut cdp = session.cdp().await?;
    let targets = cdp.call("Target.getTargets", json!({})).await?;
    let pages = targets["targetInfos"].as_array().context("targetInfos")?;
    let form = pages.iter().find(|page| page["title"] == "Form").context("the tab is still there")?;
    let attach = json!({"targetId": form["targetId"], "flatten": true});
    let page = cdp.call("Target.attachToTarget", attach).await?["sessionId"].clone();
    let page = page.as_str().context("sessionId")?;
    ensure!(cdp.evaluate(page, "document.querySelector('#name').value").await? == "half typed");
    ensure!(driver.execute("return document.title").await? == "Tab 7", "the same driver session goes on");

    driver.quit().await?;
    driven.becomes("terminated", 10).await?;
    cdp.call("Browser.close", json!({})).await?;
    session.becomes("completed", 15).await?;
    daemon.assert_idle().await
}

async fn a_worker_lost_with_the_daemon_is_a_failure(_: Stage) -> Result<()> {
    let (mut daemon, container, session, _cdp) = attached(Settings::new()).await?;
    daemon.kill9().await?;
    daemon.docker().run(&["rm", "--force", &container]).await?;
    daemon.restart().await?;
    let record = session.becomes("failure", 30).await?;
    ensure!(record["reason"].is_string(), "{record}");
    daemon.assert_idle().await
}

async fn a_killed_worker_is_a_failure(_: Stage) -> Result<()> {
    let (daemon, container, session, mut cdp) = attached(long_patience()).await?;
    daemon.docker().run(&["kill", &container]).await?;
    fails(&daemon, &session, &mut cdp, "worker_exited").await
}

async fn a_killed_browser_is_a_failure(_: Stage) -> Result<()> {
    let (daemon, container, session, mut cdp) = attached(long_patience()).await?;
    daemon.docker().signal_browser(&container, Signal::SIGKILL).await?;
    fails(&daemon, &session, &mut cdp, "browser_crashed").await
}

async fn a_paused_worker_is_a_failure(_: Stage) -> Result<()> {
    let (daemon, container, session, mut cdp) = attached(short_patience()).await?;
    daemon.docker().pause(&container).await?;
    fails(&daemon, &session, &mut cdp, "unresponsive").await
}

async fn a_frozen_browser_is_a_failure(_: Stage) -> Result<()> {
    let (daemon, container, session, mut cdp) = attached(short_patience()).await?;
    daemon.docker().signal_browser(&container, Signal::SIGSTOP).await?;
    fails(&daemon, &session, &mut cdp, "unresponsive").await
}

/// A daemon that would miss the end of a worker does not find out within a case that the worker is silent.
fn long_patience() -> Settings {
    Settings::new().set("WORKER_UNRESPONSIVE_TIMEOUT", "10m")
}

fn short_patience() -> Settings {
    Settings::new().set("WORKER_UNRESPONSIVE_TIMEOUT", "4s")
}

async fn a_worker_killed_while_warm_is_replaced(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::new()).await?;
    let container = daemon.only_container().await?;
    daemon.docker().run(&["kill", &container]).await?;
    eventually!("it is gone", 30, daemon.containers().await?.iter().all(|other| other.id != container))?;
    let session = daemon.session(json!({})).await?;
    session.cdp().await?.call("Browser.close", json!({})).await?;
    session.becomes("completed", 15).await?;
    daemon.assert_idle().await
}

async fn the_engine_may_go_and_come_back(_: Stage) -> Result<()> {
    let mut engine = Engine::start(&docker::image("chromium")).await?;
    let settings = Settings::new().on(engine.docker()).set("DOCKER_RECONCILE_INTERVAL", "2s");
    let daemon = Daemon::start(settings).await?;
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let session = daemon.session(json!({})).await?;
        let mut cdp = session.cdp().await?;
        cdp.call("Browser.getVersion", json!({})).await?;
        engine.stop(signal).await?;
        let api = daemon.api();
        // An engine that is killed ends its containers when it is back.
        let went_with_it = signal == Signal::SIGTERM;
        if went_with_it {
            let (code, reason) = cdp.ended().await?.context("a Close frame")?;
            ensure!(code == 1011 && !reason.is_empty(), "{code} {reason}");
        }
        eventually!("readiness says so", 30, api.get("/readyz").await?.status == 503)?;
        ensure!(api.get("/healthz").await?.status == 200, "the daemon itself is well");
        let reply = eventually!("new sessions are refused", 30, {
            let reply = api.post("/sessions/create", &json!({"headless": true})).await?;
            (reply.status != 200).then_some(reply)
        })?;
        ensure!(reply.fault(503)?.code == "runtime_down", "{reply}");
        ensure!(reply.header("retry-after").is_some(), "{:?}", reply.headers);
        engine.run().await?;
        if !went_with_it {
            let (code, reason) = cdp.ended().await?.context("a Close frame")?;
            ensure!(code == 1011 && !reason.is_empty(), "{code} {reason}");
        }
        daemon.ready().await?;
        let containers = daemon.containers().await?;
        ensure!(containers.iter().any(|container| container.state == "running"), "ready without one: {containers:?}");
        // The engine took the container along, so the session is over, and no reply may still say that it runs.
        let record = session.becomes("failure", 60).await?;
        ensure!(record["reason"] == "engine_stopped", "{signal}: {record}");
        daemon.end_all().await?;
        daemon.assert_idle().await.context(signal)?;
    }
    Ok(())
}

async fn a_driver_that_nobody_uses_is_replaced(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::new()).await?;
    let container = daemon.only_container().await?;
    let session = daemon.webdriver(json!({})).await?;
    let pid = daemon.docker().driver_pid(&container).await?;
    kill(Pid::from_raw(pid), Signal::SIGKILL)?;
    eventually!("it is gone", 10, !Path::new(&format!("/proc/{pid}")).exists())?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    ensure!(driver.execute("return 6 * 7").await? == 42);
    // Once somebody uses it, the session is nothing without it.
    kill(Pid::from_raw(daemon.docker().driver_pid(&container).await?), Signal::SIGKILL)?;
    let record = session.becomes("terminated", 15).await?;
    ensure!(record["reason"] == "driver_crashed", "{record}");
    daemon.assert_idle().await
}

async fn a_page_that_takes_all_memory_leaves_its_reason(_: Stage) -> Result<()> {
    let (daemon, _, session, mut cdp) = attached(Settings::new().set("WORKER_MEMORY", "512MiB")).await?;
    let page = cdp.first_page().await?;
    let hoard = "all = []; setInterval(() => all.push(new Uint8Array(32 << 20).fill(7)), 10); 1";
    cdp.evaluate(&page, hoard).await?;
    let record = eventually!("the session says so", 30, {
        let record = session.record().await?;
        record["oom_kills"].is_number().then_some(record)
    })?;
    ensure!(record["status"] == "running", "its browser goes on: {record}");
    cdp.call("Browser.getVersion", json!({})).await?;
    session.delete().await?.ok()?;
    ensure!(session.record().await?["oom_kills"] == record["oom_kills"], "{}", session.record().await?);
    daemon.assert_idle().await
}

/// Each call is spoiled once while two workers are replaced, and two signals end the daemon while every answer is missing.
async fn half_an_answer_of_the_engine_stops_nothing(_: Stage) -> Result<()> {
    const CREATE: &str = "POST /containers/create";
    const CALLS: [&str; 8] = [
        "GET /_ping",
        "GET /containers/json",
        "GET /containers/{}/json",
        "GET /images/{}/json",
        "GET /networks",
        CREATE,
        "POST /containers/{}/start",
        "DELETE /containers/{}",
    ];
    let engine = FaultyEngine::start()?;
    let settings = Settings::new()
        .set("DOCKER_HOST", engine.url())
        .set("DOCKER_TIMEOUT", "1s")
        .set("DOCKER_WORK_TIMEOUT", "2s")
        .set("DOCKER_RECONCILE_INTERVAL", "1s")
        .set("DRAIN_FORCE_TIMEOUT", "1s")
        .set("POOL_CHROMIUM_HEADED", "1");
    let mut daemon = Daemon::start(settings).await?;
    for call in CALLS {
        engine.next(call, Fault::Cut);
    }
    // This one's container comes into being when nobody asks for it any more.
    engine.next(CREATE, Fault::Late);
    for container in daemon.containers().await? {
        daemon.docker().run(&["kill", &container.id]).await?;
    }
    for call in CALLS {
        let times = if call == CREATE { 2 } else { 1 };
        eventually!("the call is spoiled", 60, engine.spoiled(call) == times)
            .with_context(|| format!("{call}: {:?}", engine.seen()))?;
    }
    daemon.warm().await?;
    daemon.session(json!({})).await?.delete().await?.ok()?;
    daemon.assert_idle().await?;

    engine.all(Fault::Silence);
    daemon.signal(Signal::SIGTERM)?;
    let api = daemon.api();
    eventually!(
        "the first is taken",
        10,
        api.get("/readyz").await.is_ok_and(|reply| reply.text().contains("draining"))
    )?;
    daemon.signal(Signal::SIGTERM)?;
    let status = daemon.wait(30).await?;
    ensure!(status.code() == Some(74), "the exit code says that something is left: {status}");
    let left = daemon.containers().await?.len();
    ensure!(left == 2, "{left}");
    engine.heal();
    daemon.restart().await?;
    daemon.warm().await?;
    daemon.assert_idle().await
}

async fn sigterm_drains(_: Stage) -> Result<()> {
    let (mut daemon, _, session, mut cdp) = attached(Settings::new().set("DRAIN_TIMEOUT", "60s")).await?;
    daemon.signal(Signal::SIGTERM)?;
    let api = daemon.api();
    eventually!("readiness says so", 10, api.get("/readyz").await?.status == 503)?;
    let reply = api.post("/sessions/create", &json!({"headless": true})).await?;
    ensure!(reply.fault(503)?.code == "draining", "{reply}");
    ensure!(reply.header("retry-after").is_some(), "{:?}", reply.headers);
    let page = cdp.first_page().await?;
    ensure!(cdp.evaluate(&page, "6 * 7").await? == 42, "running work goes on");
    session.delete().await?.ok()?;
    ensure!(daemon.wait(30).await?.success(), "with the last session the daemon ends");
    daemon.assert_nothing_left().await?;
    daemon.restart().await?;
    daemon.warm().await?;
    ensure!(session.record().await?["reason"] == "deleted", "{}", session.record().await?);
    daemon.assert_idle().await
}

async fn ids(daemon: &Daemon) -> Result<BTreeSet<String>> {
    Ok(daemon.containers().await?.into_iter().map(|container| container.id).collect())
}

async fn sigterm_keeps_sessions_where_that_is_set(_: Stage) -> Result<()> {
    let settings = Settings::new().set("DRAIN_KEEP_SESSIONS", "true").set("SESSION_RECONNECT_WINDOW", "60s");
    let (mut daemon, _, session, mut cdp) = attached(settings).await?;
    let page = cdp.first_page().await?;
    cdp.evaluate(&page, "window.name = 'kept'").await?;
    daemon.warm().await?;
    let before = ids(&daemon).await?;
    ensure!(before.len() == 2, "the session's and a warm one: {before:?}");
    daemon.signal(Signal::SIGTERM)?;
    ensure!(daemon.wait(30).await?.success(), "what is left is left on purpose");
    ensure!(ids(&daemon).await? == before, "{:?}", ids(&daemon).await?);
    daemon.restart().await?;
    eventually!("the session is there again", 30, matches!(session.status().await.as_deref(), Ok("running")))?;
    ensure!(session.evaluate("window.name").await? == "kept", "it is the same browser");
    daemon.warm().await?;
    ensure!(ids(&daemon).await? == before, "the warm one is kept as well: {:?}", ids(&daemon).await?);
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn drain_has_an_end(_: Stage) -> Result<()> {
    let (mut daemon, _, session, mut cdp) = attached(Settings::new().set("DRAIN_TIMEOUT", "1s")).await?;
    daemon.signal(Signal::SIGTERM)?;
    let (code, reason) = cdp.ended().await?.context("a Close frame")?;
    ensure!(code == 1012 && !reason.is_empty(), "{code} {reason}");
    ensure!(daemon.wait(30).await?.success());
    daemon.assert_nothing_left().await?;
    daemon.restart().await?;
    daemon.warm().await?;
    let record = session.record().await?;
    ensure!(record["status"] == "terminated" && record["reason"] == "drained", "{record}");
    daemon.assert_idle().await
}

async fn a_second_sigterm_ends_at_once(_: Stage) -> Result<()> {
    let (mut daemon, _, session, mut cdp) = attached(Settings::new().set("DRAIN_TIMEOUT", "10m")).await?;
    daemon.signal(Signal::SIGTERM)?;
    let api = daemon.api();
    eventually!("the first is taken", 10, api.get("/readyz").await?.status == 503)?;
    daemon.signal(Signal::SIGTERM)?;
    let (code, reason) = cdp.ended().await?.context("a Close frame")?;
    ensure!(code == 1012 && !reason.is_empty(), "{code} {reason}");
    ensure!(daemon.wait(30).await?.success(), "nothing is left, so this is no failure");
    daemon.assert_nothing_left().await?;
    daemon.restart().await?;
    daemon.warm().await?;
    let record = session.record().await?;
    ensure!(record["status"] == "terminated" && record["reason"] == "drained", "{record}");
    daemon.assert_idle().await
}

async fn an_end_in_the_middle_of_a_start_leaves_nothing(_: Stage) -> Result<()> {
    let mut ended = Vec::new();
    for containers in [0, 0, 1, 2] {
        let mut daemon = Daemon::start_cold(Settings::new().set("POOL_CHROMIUM_HEADLESS", "4")).await?;
        let api = daemon.api();
        eventually!("a worker is being started", 30, {
            let status = api.get("/status").await?.ok()?;
            let kinds = status["pool"].as_array().context("pool")?;
            let starting = kinds.iter().any(|kind| kind["starting"].as_u64() > Some(0));
            (starting && daemon.containers().await?.len() >= containers).then_some(())
        })?;
        daemon.signal(Signal::SIGTERM)?;
        ensure!(daemon.wait(60).await?.success());
        ended.push((containers, daemon));
    }
    // A container that was still being made when its daemon ended would only show a moment later.
    let late = eventually!("a container shows", 2, {
        let mut left = None;
        for (containers, daemon) in &ended {
            if !daemon.containers().await?.is_empty() {
                left = Some(*containers);
            }
        }
        left
    });
    ensure!(late.is_err(), "a container is left, having begun with {late:?}");
    Ok(())
}

async fn a_second_daemon_on_the_same_data_is_refused(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let mut second = tokio::process::Command::from(daemon.command(&["serve"]));
    // The port is not what keeps it away.
    second.env("WARMPOOL_SERVER_LISTEN", "127.0.0.1:0").kill_on_drop(true);
    let ended = tokio::time::timeout(Duration::from_secs(60), second.output()).await.context("it hung")??;
    let said = String::from_utf8_lossy(&ended.stderr) + String::from_utf8_lossy(&ended.stdout);
    ensure!(!ended.status.success() && said.contains("another process uses the store"), "{}: {said}", ended.status);
    ensure!(daemon.api().get("/sessions").await?.status == 200, "the first goes on");
    daemon.assert_idle().await
}

/// sled's own thread ends without a word where it meets damage.
async fn a_store_whose_cleaner_has_ended_is_not_used_on(_: Stage) -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(());
    }
    let mut daemon = Daemon::start(Settings::on_demand()).await?;
    let session = daemon.session(json!({"keep_alive": true})).await?;
    daemon.end_thread("log flusher").await?;
    let status = daemon.wait(30).await?;
    ensure!(status.signal() == Some(Signal::SIGABRT as i32), "{status}");
    ensure!(daemon.log_text().contains("sled's cleaner has ended"), "the log says why");
    daemon.restart().await?;
    let store = daemon.api().get("/status").await?.ok()?["store"].clone();
    let recovered = store["recovered"].to_string();
    ensure!(recovered.contains("cleaner has ended") && recovered.contains("nothing is lost"), "{store}");
    eventually!("the session is there", 30, matches!(session.status().await.as_deref(), Ok("running")))?;
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn sigusr2_runs_the_program_anew(_: Stage) -> Result<()> {
    let mut daemon = Daemon::start(Settings::new()).await?;
    // From here on it has a port that another start finds again.
    daemon.kill9().await?;
    daemon.restart().await?;
    daemon.warm().await?;
    let starts = |daemon: &Daemon| daemon.log_text().matches("starting anew").count();

    let session = daemon.session(json!({"keep_alive": true})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.first_page().await?;
    cdp.evaluate(&page, "window.name = 'kept'").await?;
    daemon.signal(Signal::SIGUSR2)?;
    eventually!("it says what it waits for", 10, daemon.log_text().contains("takes over once no session"))?;
    ensure!(cdp.evaluate(&page, "window.name").await? == "kept", "a client's connection holds it off");
    ensure!(starts(&daemon) == 0);

    daemon.signal(Signal::SIGUSR2)?;
    eventually!("the second is not held off", 10, starts(&daemon) == 1)?;
    eventually!("the session is there again", 30, matches!(session.status().await.as_deref(), Ok("running")))?;
    let mut cdp = session.cdp().await?;
    let page = cdp.first_page().await?;
    ensure!(cdp.evaluate(&page, "window.name").await? == "kept", "it is the same browser");
    ensure!(daemon.exited()?.is_none(), "it is the same process");
    session.delete().await?.ok()?;
    daemon.assert_idle().await?;

    let warm = daemon.only_container().await?;
    daemon.signal(Signal::SIGUSR2)?;
    eventually!("nothing holds it off", 10, starts(&daemon) == 2)?;
    eventually!("it listens again", 10, daemon.api().get("/healthz").await.is_ok())?;
    daemon.warm().await?;
    ensure!(daemon.only_container().await? == warm, "a warm worker is kept");
    daemon.assert_idle().await?;
    daemon.signal(Signal::SIGTERM)?;
    ensure!(daemon.wait(30).await?.success(), "signals still end it");
    ensure!(daemon.containers().await?.is_empty());
    Ok(())
}

/// The status of the answer to a request on a connection that there is already, all of its head, and its body.
async fn asked(stream: &mut TcpStream, daemon: &Daemon, request: &str, body: &str) -> Result<(u16, String, String)> {
    let host = daemon.url().trim_start_matches("http://");
    let head = format!(
        "{request} HTTP/1.1\r\nHost: {host}\r\nservice-secret-key: {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        daemon.key(),
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(answer)?.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).context("a length")?;
    let mut body = vec![0; length.parse()?];
    stream.read_exact(&mut body).await?;
    let status = head.split(' ').nth(1).context("a status")?.parse()?;
    Ok((status, head, String::from_utf8(body)?))
}

async fn descriptors_that_run_out_are_waited_for(_: Stage) -> Result<()> {
    let (daemon, _, session, mut cdp) = attached(Settings::new()).await?;
    daemon.warm().await?;
    let target = Target::parse(daemon.url())?;
    let address = (target.host.as_str(), target.port);
    let mut kept = TcpStream::connect(address).await?;
    ensure!(asked(&mut kept, &daemon, "GET /healthz", "").await?.0 == 200);
    daemon.limit_open_files(Some(3)).await?;
    // What it has it keeps; what would take another descriptor is refused, and not for ever.
    let (create, headless) = ("POST /sessions/create", r#"{"headless":true}"#);
    let (status, _, made) = asked(&mut kept, &daemon, create, headless).await?;
    ensure!(status < 300, "the worker that waits has its connection: {made}");
    let made = Session::from_body(&daemon.api(), serde_json::from_str(&made)?)?;
    let (status, head, _) = asked(&mut kept, &daemon, create, headless).await?;
    ensure!(status == 503 && head.contains("retry-after: "), "{head}");
    ensure!(asked(&mut kept, &daemon, "GET /readyz", "").await?.0 == 503, "it says that it has no worker");
    ensure!(asked(&mut kept, &daemon, "GET /healthz", "").await?.0 == 200, "it is well itself");
    cdp.call("Browser.getVersion", json!({})).await.context("a session goes on")?;
    let mut waits = TcpStream::connect(address).await?;
    waits.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut order = UnixStream::connect(daemon.data_dir().join("control.sock")).await?;
    order.write_all(b"{\"order\":\"list_keys\"}\n").await?;
    let (begun, before) = (Instant::now(), daemon.processor_time()?);
    while begun.elapsed() < Duration::from_secs(1) {
        poll().await;
    }
    let (busy, took) = (daemon.processor_time()? - before, begun.elapsed());
    ensure!(busy < took / 5, "it was busy for {busy:?} of {took:?}");
    ensure!(daemon.log_text().contains("could not be accepted"), "and says why");
    daemon.limit_open_files(None).await?;
    let mut answer = String::new();
    BufReader::new(order).read_line(&mut answer).await?;
    ensure!(answer.contains("\"default\""), "the order is carried out then: {answer}");
    let mut answer = String::new();
    waits.read_to_string(&mut answer).await?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "and so is the request: {answer}");
    daemon.ready().await?;
    ensure!(session.status().await? == "running", "{}", session.record().await?);
    session.delete().await?.ok()?;
    made.delete().await?.ok()?;
    daemon.session(json!({})).await?.delete().await?.ok()?;
    daemon.assert_idle().await
}
