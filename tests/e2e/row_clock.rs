//! Row 19: the wall clock jumps by hours, forward and back, while the daemon runs and between two starts, and the machine
//! sleeps.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use warmpool_tests::clock::{BootClock, Clock};
use warmpool_tests::{Api, Daemon, Group, Settings, Stage, eventually, evidence, group};

use crate::history::{becomes, id, task, visit};
use crate::task_durability::endless;

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [
        a_clock_set_while_it_runs,
        a_clock_set_between_two_starts,
        a_machine_that_sleeps,
    ])
}

const HOURS: i64 = 3600;
/// Seconds that a session lasts which is made before a restart and ends after it.
const SHORT: u64 = 20;

/// The ids of a list with their times, page by page.
async fn listed(api: &Api) -> Result<Vec<(String, i64)>> {
    let mut ids = Vec::new();
    for number in 1_u64.. {
        let page = api.get(&format!("/sessions?limit=3&page={number}")).await?.ok()?;
        let sessions = page["sessions"].as_array().context("sessions")?;
        for session in sessions {
            let id = session["session_id"].as_str().context("session_id")?;
            ids.push((id.to_owned(), session["timestamp"].as_i64().context("timestamp")?));
        }
        if page["meta"]["totalPages"].as_u64() <= Some(number) {
            break;
        }
    }
    Ok(ids)
}

/// A session that asks for two seconds gets two seconds, whatever the clock says, which is so many hours off.
async fn lasts_as_long_as_it_asked(daemon: &Daemon, hours: i64) -> Result<String> {
    let session = daemon.session(json!({"session_timeout": 2, "keep_alive": true})).await?;
    let began = Instant::now();
    let record = session.becomes("terminated", 20).await?;
    let took = began.elapsed();
    ensure!(record["reason"] == "session_timeout", "{record}");
    let off = record["timestamp"].as_i64().context("timestamp")? / 1000 - i64::try_from(unix_seconds())?;
    ensure!((off - hours * HOURS).abs() < 60, "the daemon's clock is not set: it is {off} s off, for {hours} h");
    ensure!(took > Duration::from_millis(1500) && took < Duration::from_secs(6), "it lasted {took:?}");
    Ok(session.id)
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

async fn nothing_ended(sessions: &[warmpool_tests::Session], api: &Api, running: &str) -> Result<()> {
    for session in sessions {
        ensure!(session.status().await? == "running", "{}", session.record().await?);
    }
    let record = task(api, running).await?;
    ensure!(record["status"] == "running", "{record}");
    Ok(())
}

async fn a_clock_set_while_it_runs(stage: Stage) -> Result<()> {
    let Some(clock) = Clock::start()? else { return Ok(()) };
    let settings = Settings::new().set("TASKS_WORKERS", "1").set("POOL_MAX_WORKERS", "6");
    let daemon = Daemon::start(clock.of(settings)).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    let long = json!({"keep_alive": true, "session_timeout": 600});
    let idle = json!({"keep_alive": true, "session_timeout": 600, "idle_timeout": 300});
    let sessions = [daemon.session(long).await?, daemon.session(idle).await?];
    let running = id(&api.post("/lam/run", &endless(&site)).await?.ok()?)?;
    becomes(&api, &running, "running", 60).await?;
    let queued = id(&api.post("/lam/run", &visit(&format!("{site}/tab/1"))).await?.ok()?)?;
    let mut ids: Vec<String> = sessions.iter().map(|session| session.id.clone()).collect();
    for hours in [2, 0, -2, 30, 0] {
        clock.set(hours * HOURS)?;
        let made = lasts_as_long_as_it_asked(&daemon, hours).await.with_context(|| format!("{hours:+} h"))?;
        ids.push(made);
        nothing_ended(&sessions, &api, &running).await.with_context(|| format!("{hours:+} h"))?;
        ensure!(task(&api, &queued).await?["status"] == "queued");
    }
    let unique: BTreeSet<&String> = ids.iter().collect();
    ensure!(unique.len() == ids.len(), "an id came twice: {ids:?}");
    // Each is there once, and the list is in the order of the times that its records have.
    let listed = listed(&api).await?;
    ensure!(listed.iter().filter(|(id, _)| ids.contains(id)).count() == ids.len(), "{listed:?}");
    ensure!(listed.is_sorted_by(|(_, newer), (_, older)| newer >= older), "{listed:?}");
    ensure!(api.delete(&format!("/lam/tasks/{running}")).await?.ok()?["status"] == "cancelled");
    becomes(&api, &queued, "success", 60).await?;
    for session in sessions {
        session.delete().await?.ok()?;
    }
    evidence::made(5);
    daemon.assert_idle().await
}

async fn a_clock_set_between_two_starts(stage: Stage) -> Result<()> {
    let Some(clock) = Clock::start()? else { return Ok(()) };
    let settings = Settings::new().set("TASKS_WORKERS", "1").set("POOL_MAX_WORKERS", "6");
    let mut daemon = Daemon::start(clock.of(settings)).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    let mut done: Vec<Value> = Vec::new();
    for hours in [2, -2, 0] {
        let session = daemon.session(json!({"keep_alive": true, "session_timeout": 600})).await?;
        let running = id(&api.post("/lam/run", &endless(&site)).await?.ok()?)?;
        becomes(&api, &running, "running", 60).await?;
        let queued = id(&api.post("/lam/run", &visit(&format!("{site}/tab/2"))).await?.ok()?)?;
        // It lives through the jump, and no longer than it asked for.
        let (short, begun) =
            (daemon.session(json!({"keep_alive": true, "session_timeout": SHORT})).await?, Instant::now());
        daemon.kill9().await?;
        clock.set(hours * HOURS)?;
        daemon.restart().await?;
        daemon.ready().await?;
        let at = || format!("{hours:+} h");
        eventually!("the session goes on", 30, session.status().await? == "running").with_context(at)?;
        let interrupted = becomes(&api, &running, "failure", 60).await.with_context(at)?;
        ensure!(interrupted["error"]["code"] == "interrupted", "{interrupted}");
        let record = short.becomes("terminated", 60).await.with_context(at)?;
        ensure!(record["reason"] == "session_timeout", "{hours:+} h: {record}");
        ensure!(begun.elapsed() >= Duration::from_secs(SHORT - 1), "{hours:+} h: it ended after {:?}", begun.elapsed());
        done.push(becomes(&api, &queued, "success", 60).await.with_context(at)?);
        lasts_as_long_as_it_asked(&daemon, hours).await.with_context(at)?;
        ensure!(session.status().await? == "running", "{}", session.record().await?);
        session.delete().await?.ok()?;
        daemon.warm().await?;
    }
    for before in &done {
        let now = task(&api, &id(before)?).await?;
        ensure!(now["status"] == "success" && now["output"] == before["output"], "{now}");
    }
    let tasks = api.get("/lam/tasks?limit=100").await?.ok()?;
    let ids: BTreeSet<String> = tasks["tasks"].as_array().context("tasks")?.iter().map(id).collect::<Result<_>>()?;
    ensure!(ids.len() == 6, "six tasks were ordered: {tasks}");
    evidence::made(3);
    daemon.assert_idle().await
}

/// A machine that sleeps runs no process; its wall clock and the one from its boot go on, and monotonic time does not.
async fn a_machine_that_sleeps(stage: Stage) -> Result<()> {
    const SLEPT: i64 = 2;
    /// The number of the message that is sent to the sleeping machine.
    const ASKED: u64 = 7_000;
    let (Some(clock), Some(boot)) = (Clock::start()?, BootClock::after_sleep((SLEPT * HOURS).unsigned_abs()).await?)
    else {
        return Ok(());
    };
    let settings = Settings::new().set("TASKS_WORKERS", "1").set("POOL_MAX_WORKERS", "6");
    let mut daemon = Daemon::start(clock.of(settings)).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    let sessions = [
        daemon.session(json!({"keep_alive": true, "session_timeout": 600})).await?,
        daemon.session(json!({"keep_alive": true, "session_timeout": 6 * HOURS})).await?,
    ];
    let mut client = sessions[0].cdp().await?;
    let page = client.open(&format!("{site}/tab/1")).await?;
    let running = id(&api.post("/lam/run", &endless(&site)).await?.ok()?)?;
    becomes(&api, &running, "running", 60).await?;
    let queued = id(&api.post("/lam/run", &visit(&format!("{site}/tab/2"))).await?.ok()?)?;
    daemon.warm().await?;

    let containers = daemon.containers().await?;
    daemon.signal(Signal::SIGSTOP)?;
    for container in &containers {
        daemon.docker().pause(&container.id).await?;
    }
    clock.set(SLEPT * HOURS)?;
    let sum = json!({"id": ASKED, "method": "Runtime.evaluate", "sessionId": page, "params": {"expression": "6 * 7"}});
    client.send_text(sum.to_string()).await?;
    for container in &containers {
        daemon.docker().unpause(&container.id).await?;
    }
    daemon.signal(Signal::SIGCONT)?;

    let answer = client.message(ASKED).await?;
    ensure!(answer["result"]["result"]["value"] == 42, "what was sent to a sleeping machine: {answer}");
    let made = lasts_as_long_as_it_asked(&daemon, SLEPT).await?;
    nothing_ended(&sessions, &api, &running).await?;
    ensure!(task(&api, &queued).await?["status"] == "queued");
    let listed = listed(&api).await?;
    ensure!(listed.first().is_some_and(|(newest, _)| *newest == made), "{listed:?}");
    daemon.warm().await?;

    // The next process finds the hours on the clock that counts from the boot, and lets them count.
    daemon.kill9().await?;
    daemon.set_boot_clock(&boot);
    daemon.restart().await?;
    let record = sessions[0].becomes("terminated", 30).await?;
    ensure!(record["reason"] == "session_timeout", "{record}");
    daemon.ready().await?;
    eventually!("the session with hours left goes on", 30, sessions[1].status().await? == "running")?;
    let interrupted = becomes(&api, &running, "failure", 60).await?;
    ensure!(interrupted["error"]["code"] == "interrupted", "{interrupted}");
    becomes(&api, &queued, "success", 60).await?;
    lasts_as_long_as_it_asked(&daemon, SLEPT).await?;
    sessions[1].delete().await?.ok()?;
    evidence::made(1);
    daemon.assert_idle().await
}
