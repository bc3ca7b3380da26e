//! A disk that fills up: recordings give way first, tasks wait, nothing is lost.

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use warmpool_tests::disk::Disk;
use warmpool_tests::task::artifact;
use warmpool_tests::{Api, Daemon, Driver, Group, Session, Settings, Stage, eventually, group, host_address};

use crate::history::{becomes, heading, id, task, with};

const MIB: u64 = 1 << 20;
const DISK: u64 = 96 * MIB;
/// What the daemon is to leave free.
const MIN_FREE: u64 = 8 * MIB;
/// What recordings are to leave free beside that.
const RESERVE: u64 = 32 * MIB;

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [
            a_fleet_waits_and_loses_nothing,
            items_that_never_began_are_tried_again,
            finished_work_waits_for_room,
            recordings_stop_first,
            profiles_keep_their_last_version,
        ],
    )
}

fn settings(disk: &Disk) -> Settings {
    let settings = Settings::new().data_in(disk.path()).set("TASKS_WORKERS", "1").set("STORE_MIN_FREE", "8MiB");
    settings.set("RECORDING_RESERVE", "32MiB")
}

/// A fleet of nine pages, none of them fast.
async fn fleet(api: &Api, site: &str) -> Result<String> {
    let pages: Vec<String> = (0..9).map(|_| format!("{site}/slow?ms=400")).collect();
    let body = with(json!({"extract": heading("{{input.url}}"), "urls": pages}), json!({"concurrency": 1}));
    id(&api.post("/lam/fleet", &body).await?.ok()?)
}

/// Fills the disk once the fleet has done something; returns the fleet's record as it waits.
async fn held(disk: &Disk, api: &Api, fleet: &str) -> Result<Value> {
    eventually!("two items are done", 90, task(api, fleet).await?["items"]["success"].as_u64() >= Some(2))?;
    disk.leave(MIN_FREE - MIB)?;
    let waits = eventually!("it says that it waits", 60, {
        let record = task(api, fleet).await?;
        (record["waiting"].is_object() && record["items"]["running"] == 0).then_some(record)
    })?;
    ensure!(waits["status"] == "running" && waits["waiting"]["code"] == "disk_nearly_full", "{waits}");
    ensure!(waits["items"]["failure"] == 0 && waits["items"]["queued"].as_u64() > Some(0), "{waits}");
    Ok(waits)
}

async fn a_fleet_waits_and_loses_nothing(stage: Stage) -> Result<()> {
    let Some(disk) = Disk::mount(DISK)? else { return Ok(()) };
    let daemon = Daemon::start(settings(&disk)).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    let fleet = fleet(&api, &site).await?;
    held(&disk, &api, &fleet).await?;
    eventually!("readiness says so", 10, {
        let reply = api.get("/readyz").await?;
        reply.status == 503 && reply.text().contains("the disk is nearly full")
    })?;
    let refused = api.post("/lam/run", &json!({"steps": [{"type": "navigate", "url": site}]})).await?;
    ensure!(refused.fault(507)?.code == "disk_nearly_full", "{refused}");
    disk.clear()?;
    let ended = becomes(&api, &fleet, "success", 120).await?;
    ensure!(ended["items"]["success"] == 9 && ended["waiting"].is_null(), "{ended}");
    let rows = ended["output"].as_array().context("output")?;
    ensure!(rows.len() == 9 && rows.iter().all(|row| row["attempts"] == 1), "each item once: {ended}");
    daemon.ready().await?;
    daemon.assert_idle().await
}

async fn items_that_never_began_are_tried_again(stage: Stage) -> Result<()> {
    let Some(disk) = Disk::mount(DISK)? else { return Ok(()) };
    let daemon = Daemon::start(settings(&disk)).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    let first = fleet(&api, &site).await?;
    held(&disk, &api, &first).await?;
    let cancelled = api.delete(&format!("/lam/tasks/{first}")).await?.ok()?;
    let done = cancelled["items"]["success"].as_u64().context("success")?;
    ensure!(cancelled["status"] == "cancelled" && cancelled["items"]["cancelled"] == 9 - done, "{cancelled}");
    disk.clear()?;
    daemon.ready().await?;
    let again = api.post(&format!("/lam/tasks/{first}/retry"), &json!({})).await?.ok()?;
    ensure!(again["items"]["total"] == 9 - done, "all but what succeeded: {again}");
    let ended = becomes(&api, &id(&again)?, "success", 120).await?;
    ensure!(ended["items"]["success"] == 9 - done && ended["retryOf"] == first.as_str(), "{ended}");
    daemon.assert_idle().await
}

async fn finished_work_waits_for_room(stage: Stage) -> Result<()> {
    let Some(disk) = Disk::mount(DISK)? else { return Ok(()) };
    let daemon = Daemon::start(settings(&disk)).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    let custom = |name: &str, parameters: Value| json!({"type": "customStep", "name": name, "parameters": parameters});
    let steps = json!([
        {"type": "navigate", "url": format!("{site}/tab/full")},
        custom("lam:sleep", json!({"ms": 1500})),
        custom("lam:screenshot", json!({"name": "view"})),
    ]);
    let run = id(&api.post("/lam/run", &json!({"steps": steps})).await?.ok()?)?;
    eventually!("its page is open", 60, !stage.site().hits("/tab/full").is_empty())?;
    disk.leave(MIN_FREE - MIB)?;
    let waits = eventually!("it waits with what it has", 30, {
        let record = task(&api, &run).await?;
        record["waiting"].is_object().then_some(record)
    })?;
    ensure!(waits["status"] == "running" && waits["waiting"]["code"] == "disk_nearly_full", "{waits}");
    daemon.assert_workers_idle().await.context("it holds no worker meanwhile")?;
    disk.clear()?;
    let ended = becomes(&api, &run, "success", 30).await?;
    ensure!(artifact(&api, &ended, "view.png").await?.starts_with(b"\x89PNG"), "{ended}");
    daemon.ready().await?;
    daemon.assert_idle().await
}

/// A session that records itself.
async fn recording(stage: &Stage, daemon: &Daemon) -> Result<(warmpool_tests::Session, String)> {
    let url = format!("{}/animation", stage.site_for(daemon).await?);
    let session = daemon.session(json!({"url": url, "headless": true, "recording": true})).await?;
    let list = format!("/sessions/{}/recording", session.id);
    Ok((session, list))
}

async fn parts(api: &Api, list: &str) -> Result<Vec<Value>> {
    Ok(api.get(list).await?.ok()?["parts"].as_array().context("parts")?.clone())
}

async fn recordings_stop_first(stage: Stage) -> Result<()> {
    let Some(disk) = Disk::mount(DISK)? else { return Ok(()) };
    let daemon = Daemon::start(settings(&disk)).await?;
    let api = daemon.api();
    let (session, old) = recording(&stage, &daemon).await?;
    eventually!("some of it is on disk", 30, parts(&api, &old).await?.iter().any(|part| part["size"] != 0))?;
    session.delete().await?.ok()?;
    eventually!("it is complete", 20, parts(&api, &old).await?.iter().all(|part| part["complete"] == true))?;
    let (session, running) = recording(&stage, &daemon).await?;
    eventually!("another is on disk", 30, parts(&api, &running).await?.iter().any(|part| part["size"] != 0))?;

    // Less than recordings are to leave, and more than the daemon needs.
    disk.leave(MIN_FREE + RESERVE / 2)?;
    eventually!("the old one goes", 20, parts(&api, &old).await?.is_empty())?;
    eventually!("the running one stops", 60, {
        parts(&api, &running).await?.first().is_some_and(|part| part["stopped"] == "disk")
    })?;
    let reply = api.get("/readyz").await?;
    ensure!(reply.status == 200 && reply.text().contains("warning: the disk fills up"), "{reply}");
    ensure!(api.get("/status").await?.ok()?["store"]["warning"].is_string(), "the status says so, too");
    ensure!(session.status().await? == "running", "only its recording has ended");
    let other = daemon.session(json!({})).await?;
    other.delete().await?.ok()?;
    ensure!(!parts(&api, &running).await?.is_empty(), "what there is of it stays as long as its session");
    session.delete().await?.ok()?;
    eventually!("then it goes, too", 20, parts(&api, &running).await?.is_empty())?;
    disk.clear()?;
    eventually!("all is well again", 10, api.get("/readyz").await?.text() == "ready\n")?;
    daemon.assert_idle().await
}

/// A browser that shows the site, and signs in as this user.
async fn signed_in(daemon: &Daemon, site: &str, profile: &Value, user: &str) -> Result<(Session, Driver)> {
    let body = json!({"browser_type": "chromium", "headless": true, "url": "about:blank", "profile": profile});
    let session = daemon.webdriver(body).await?;
    let driver = Driver::start(session.connect_url()?, json!({"browserName": "chrome"})).await?;
    driver.goto(&format!("{site}/")).await?;
    if !user.is_empty() {
        let script = format!("document.cookie = 'login={user}; path=/; max-age=10000'");
        driver.command(Method::POST, "/execute/sync", &json!({"script": script, "args": []})).await?.ok()?;
    }
    Ok((session, driver))
}

async fn profiles_keep_their_last_version(stage: Stage) -> Result<()> {
    for kind in ["state", "folder"] {
        let Some(disk) = Disk::mount(2 * DISK)? else { return Ok(()) };
        let settings = Settings::on_demand().data_in(disk.path()).set("STORE_MIN_FREE", "8MiB");
        let daemon = Daemon::start(settings.set("EGRESS_ALLOW", host_address())).await?;
        let site = stage.site_for(&daemon).await?;
        let profile = |mode: &str| json!({"name": kind, "mode": mode, "kind": kind});
        let (session, driver) = signed_in(&daemon, &site, &profile("write"), "ann").await?;
        driver.quit().await?;
        let ended = session.becomes("terminated", 30).await?;
        ensure!(ended["profile"]["error"].is_null() && ended["profile"]["saved_at"].is_u64(), "{ended}");

        let (session, driver) = signed_in(&daemon, &site, &profile("write"), "bob").await?;
        disk.leave(MIN_FREE - MIB)?;
        driver.quit().await?;
        let ended = session.becomes("terminated", 30).await?;
        let error = ended["profile"]["error"].as_str().with_context(|| format!("{kind} names no error: {ended}"))?;
        ensure!(error.contains("the disk is nearly full"), "{kind}: {error}");

        disk.clear()?;
        eventually!("there is room again", 30, daemon.api().get("/readyz").await?.status == 200)?;
        let versions = daemon.api().get(&format!("/profiles/{kind}")).await?.ok()?["versions"].clone();
        ensure!(versions.as_array().is_some_and(|versions| versions.len() == 1), "{kind}: {versions}");
        let (session, driver) = signed_in(&daemon, &site, &profile("read"), "").await?;
        let script = json!({"script": "return document.cookie", "args": []});
        let cookie = driver.command(Method::POST, "/execute/sync", &script).await?.ok()?["value"].clone();
        ensure!(cookie == "login=ann", "{kind}: {cookie}");
        session.delete().await?.ok()?;
        daemon.assert_idle().await?;
    }
    Ok(())
}
