//! What a daemon finds when it comes back: agents that are silent, drivers that died meanwhile, a clock that was set.

use std::fs;
use std::path::Path;
use std::pin::pin;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use warmpool_tests::{Cdp, Daemon, Driver, Fault, FaultyEngine, Group, Session, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [
            clients_wait_until_their_sessions_are_found,
            a_silent_worker_keeps_its_session,
            a_worker_that_stays_silent_is_given_up,
            a_silent_worker_that_is_removed_ends_its_session,
            a_driver_that_died_meanwhile_ends_its_session,
            a_session_with_a_driver_is_not_one_that_nobody_came_to,
            a_wall_clock_that_jumps_ends_nothing,
        ],
    )
}

/// A daemon that was killed, one of whose two workers is paused; its session, and that of the other one.
async fn killed_beside_a_paused_worker() -> Result<(Daemon, String, Session, Session)> {
    // The window is shorter than the daemon waits for a silent agent's first word.
    let settings = Settings::new().set("SESSION_RECONNECT_WINDOW", "1s");
    let mut daemon = Daemon::start(settings).await?;
    let container = daemon.only_container().await?;
    let silent = daemon.session(json!({})).await?;
    let mut cdp = silent.cdp().await?;
    let page = cdp.first_page().await?;
    cdp.evaluate(&page, "window.name = 'kept'").await?;
    daemon.warm().await?;
    let other = daemon.session(json!({"keep_alive": true})).await?;
    daemon.kill9().await?;
    daemon.docker().pause(&container).await?;
    daemon.restart().await?;
    Ok((daemon, container, silent, other))
}

async fn name_of_the_page(cdp: &mut Cdp) -> Result<String> {
    let page = cdp.first_page().await?;
    Ok(cdp.evaluate(&page, "window.name").await?.as_str().context("a text")?.to_owned())
}

/// Clients take a refusal for the end of their session, so they wait for as long as nobody knows.
async fn clients_wait_until_their_sessions_are_found(_: Stage) -> Result<()> {
    let engine = FaultyEngine::start()?;
    let mut daemon = Daemon::start(Settings::on_demand().set("DOCKER_HOST", engine.url())).await?;
    let driven = daemon.webdriver(json!({"headless": true})).await?;
    let driver = Driver::start(driven.connect_url()?, json!({})).await?;
    let grid = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": ["--headless"]}}}});
    let of_grid = daemon.api().post("/session", &grid).await?.ok()?["value"]["sessionId"].clone();
    let of_grid = format!("/session/{}", of_grid.as_str().context("sessionId")?);
    let attached = daemon.session(json!({"keep_alive": true})).await?;
    daemon.kill9().await?;

    engine.all(Fault::Silence);
    daemon.restart().await?;
    let (api, by_id) = (daemon.api(), daemon.api().without_key());
    let title = format!("{of_grid}/title");
    let waiting = async { tokio::try_join!(driver.execute("return 6 * 7"), by_id.get(&title), attached.cdp()) };
    // Whoever wants a new one hears at once that it is too early.
    let told = async {
        for _ in 0..3 {
            let refused = api.post("/sessions/create", &json!({"headless": true})).await?;
            ensure!(refused.fault(503)?.code == "starting", "{refused}");
        }
        Ok(())
    };
    let mut waiting = pin!(waiting);
    tokio::select! {
        biased;
        answered = &mut waiting => bail!("nobody could know yet: {:?}", answered.map(|(value, reply, _)| (value, reply.status))),
        told = told => told?,
    }
    engine.heal();
    let (value, reply, mut cdp) = waiting.await?;
    ensure!(value == 42, "{value}");
    ensure!(reply.ok()?["value"] == "", "the page has no title");
    cdp.call("Browser.getVersion", json!({})).await?;
    ensure!(by_id.delete(&of_grid).await?.status == 200);
    for session in [&driven, &attached] {
        session.delete().await?.ok()?;
    }
    daemon.assert_idle().await
}

async fn a_silent_worker_keeps_its_session(_: Stage) -> Result<()> {
    let (daemon, container, silent, other) = killed_beside_a_paused_worker().await?;
    eventually!("the other session is there at once", 30, other.status().await? == "running")?;
    ensure!(silent.status().await? == "unknown", "{}", silent.record().await?);
    daemon.ready().await?;
    ensure!(silent.status().await? == "unknown", "{}", silent.record().await?);
    daemon.docker().run(&["unpause", &container]).await?;
    silent.becomes("running", 30).await?;
    ensure!(name_of_the_page(&mut silent.cdp().await?).await? == "kept", "it is the same browser");
    for session in [&silent, &other] {
        session.delete().await?.ok()?;
    }
    daemon.assert_idle().await
}

async fn a_worker_that_stays_silent_is_given_up(_: Stage) -> Result<()> {
    let (daemon, _, silent, other) = killed_beside_a_paused_worker().await?;
    let record = silent.becomes("failure", 60).await?;
    ensure!(record["reason"] == "unresponsive", "{record}");
    ensure!(other.status().await? == "running");
    other.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn a_silent_worker_that_is_removed_ends_its_session(_: Stage) -> Result<()> {
    let (daemon, container, silent, other) = killed_beside_a_paused_worker().await?;
    eventually!("it is taken over", 30, silent.status().await? == "unknown" && other.status().await? == "running")?;
    daemon.docker().run(&["rm", "--force", &container]).await?;
    let record = silent.becomes("failure", 60).await?;
    ensure!(record["reason"] == "worker_exited", "{record}");
    other.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn a_driver_that_died_meanwhile_ends_its_session(stage: Stage) -> Result<()> {
    let mut daemon = Daemon::start(Settings::new()).await?;
    let container = daemon.only_container().await?;
    let session = daemon.webdriver(json!({})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    driver.goto(&format!("{}/form", stage.site_for(&daemon).await?)).await?;
    let pid = Pid::from_raw(daemon.docker().driver_pid(&container).await?);
    daemon.kill9().await?;
    kill(pid, Signal::SIGKILL)?;
    daemon.restart().await?;
    let record = session.becomes("terminated", 30).await?;
    ensure!(record["reason"] == "driver_crashed", "{record}");
    daemon.assert_idle().await
}

async fn a_session_with_a_driver_is_not_one_that_nobody_came_to(_: Stage) -> Result<()> {
    let settings = Settings::on_demand().set("SESSION_ATTACH_TIMEOUT", "2s");
    let mut daemon = Daemon::start(settings).await?;
    let session = daemon.webdriver(json!({"headless": true})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    daemon.kill9().await?;
    daemon.restart().await?;
    daemon.ready().await?;
    // One that begins later ends for that reason.
    let left = daemon.session(json!({"headless": true})).await?;
    let record = left.becomes("terminated", 30).await?;
    ensure!(record["reason"] == "attach_timeout", "{record}");
    ensure!(driver.execute("return 1 + 1").await? == 2);
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn a_wall_clock_that_jumps_ends_nothing(_: Stage) -> Result<()> {
    let mut daemon = Daemon::start(Settings::new()).await?;
    let session = daemon.session(json!({"keep_alive": true})).await?;
    let links = format!("/sessions/{}/share", session.id);
    daemon.api().post(&links, &json!({})).await?.ok()?;
    let new = daemon.cli_ok(&["key", "rotate", "default", "--keep-old-for", "10m"]).await?;
    daemon.kill9().await?;

    // Meanwhile the clock is set two hours ahead: for the new process every stored time is two hours older.
    let folder = tempfile::tempdir()?;
    let backup = folder.path().join("backup").to_string_lossy().into_owned();
    daemon.cli_ok(&["backup", &backup]).await?;
    set_back(Path::new(&backup), 2 * 3_600_000)?;
    daemon.cli_ok(&["restore", &backup]).await?;
    daemon.restart().await?;
    daemon.ready().await?;

    let api = daemon.api().with_key(new.trim());
    let record = api.get(&format!("/sessions/{}", session.id)).await?.ok()?;
    ensure!(record["status"] == "running" && record["execution_time"].as_u64() > Some(7_000_000), "{record}");
    let listed = api.get(&links).await?.ok()?;
    ensure!(listed["shares"].as_array().is_some_and(|shares| shares.len() == 1), "the link still works: {listed}");
    ensure!(session.status().await? == "running", "the old secret still works");
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// The dump in a backup: a row a line, and a trailer.
pub(crate) fn dump_of(backup: &Path) -> Result<String> {
    let dump = std::process::Command::new("tar").arg("-xOf").arg(backup).arg("dump.jsonl").output()?;
    ensure!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    Ok(String::from_utf8(dump.stdout)?)
}

/// Moves every wall-clock time in a backup's sessions and keys back by this many milliseconds.
fn set_back(backup: &Path, by_ms: u64) -> Result<()> {
    // A dump is a backup, too, of a daemon without files.
    let text = dump_of(backup)?;
    let (rows, trailer) = text.trim_end().rsplit_once('\n').context("a trailer")?;
    let mut moved = String::new();
    for row in rows.lines() {
        let mut row: Value = serde_json::from_str(row)?;
        if matches!(row["t"].as_str(), Some("sessions" | "keys")) && row["v"].is_string() {
            let mut value: Value = serde_json::from_slice(&BASE64.decode(row["v"].as_str().unwrap_or_default())?)?;
            set_times_back(&mut value, by_ms);
            row["v"] = BASE64.encode(value.to_string()).into();
            if row["t"] == "sessions" {
                // The key begins with the moment of creation.
                let mut key = BASE64.decode(row["k"].as_str().unwrap_or_default())?;
                let created = value["created_ms"].as_u64().context("created_ms")?;
                key.get_mut(..8).context("a key")?.copy_from_slice(&created.to_be_bytes());
                row["k"] = BASE64.encode(key).into();
            }
        }
        moved += &format!("{row}\n");
    }
    let mut trailer: Value = serde_json::from_str(trailer)?;
    let hash = Sha256::digest(moved.as_bytes());
    trailer["sha256"] = hex::encode(hash).into();
    Ok(fs::write(backup, format!("{moved}{trailer}\n"))?)
}

fn set_times_back(value: &mut Value, by_ms: u64) {
    const TIMES: [&str; 5] = ["created_ms", "created_at", "expires_at", "until_ms", "unix_ms"];
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_u64().filter(|_| TIMES.contains(&name.as_str())) {
                    Some(time) => *field = (time - by_ms).into(),
                    None => set_times_back(field, by_ms),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| set_times_back(value, by_ms)),
        _ => {}
    }
}
