//! Rows 10 and 11: an engine whose answers are lost, spoiled or never come, one call at a time.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::json;
use warmpool_tests::{Daemon, Fault, FaultyEngine, Group, Settings, Stage, eventually, evidence, group, poll};

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [each_call_is_spoiled_in_each_way, removing_hangs])
}

const REMOVE: &str = "DELETE /containers/{}";

/// What a daemon on one host asks its engine for while it starts, has workers and replaces them.
const CALLS: [&str; 8] = [
    "GET /_ping",
    "GET /containers/json",
    "GET /containers/{}/json",
    "GET /images/{}/json",
    "GET /networks",
    "POST /containers/create",
    "POST /containers/{}/start",
    REMOVE,
];

fn impatient(engine: &FaultyEngine) -> Settings {
    Settings::new()
        .set("DOCKER_HOST", engine.url())
        .set("DOCKER_TIMEOUT", "2s")
        .set("DOCKER_WORK_TIMEOUT", "3s")
        .set("DOCKER_RECONCILE_INTERVAL", "1s")
}

/// Makes the daemon ask its engine for all that it ever asks for: a new worker, the end of one, and a start.
async fn provoke(daemon: &mut Daemon, engine: &FaultyEngine, call: &str) -> Result<()> {
    let before = engine.spoiled(call);
    let spoiled = || engine.spoiled(call) > before;
    for container in daemon.containers().await? {
        // It may be on its way out already.
        let _ = daemon.docker().run(&["kill", &container.id]).await;
    }
    if eventually!("a new worker makes it", 6, spoiled()).is_ok() {
        return Ok(());
    }
    daemon.kill9().await?;
    daemon.restart().await?;
    eventually!("a start makes it", 30, spoiled())
}

async fn each_call_is_spoiled_in_each_way(_: Stage) -> Result<()> {
    let engine = FaultyEngine::start()?;
    let mut daemon = Daemon::start(impatient(&engine)).await?;
    daemon.session(json!({})).await?.delete().await?.ok()?;
    daemon.kill9().await?;
    daemon.restart().await?;
    daemon.warm().await?;
    // A fault may lead to a call of a kind that was not seen before, which then has its turn, too.
    let mut calls = BTreeSet::new();
    while let Some(call) = engine.seen().into_keys().find(|call| !calls.contains(call)) {
        for fault in Fault::ALL {
            engine.next(&call, fault);
            let round = async {
                provoke(&mut daemon, &engine, &call).await?;
                ensure!(daemon.exited()?.is_none(), "the daemon ended");
                daemon.warm().await?;
                daemon.session(json!({})).await?.delete().await?.ok()?;
                daemon.assert_idle().await
            };
            round.await.with_context(|| format!("{call} {fault:?}"))?;
        }
        calls.insert(call);
    }
    let unseen: Vec<&str> = CALLS.iter().copied().filter(|call| !calls.contains(*call)).collect();
    ensure!(unseen.is_empty(), "the daemon never made {unseen:?}, but {calls:?}");
    evidence::made((calls.len() * Fault::ALL.len()) as u64);
    evidence::saw(format!("{} kinds of calls, each spoiled in {} ways", calls.len(), Fault::ALL.len()));
    daemon.signal(Signal::SIGTERM)?;
    ensure!(daemon.wait(60).await?.success());
    daemon.assert_nothing_left().await
}

/// For as many minutes as there are rounds, with the deadlines as they are by default.
async fn removing_hangs(_: Stage) -> Result<()> {
    let minutes = evidence::rounds(10);
    let engine = FaultyEngine::start()?;
    let daemon = Daemon::start(Settings::new().set("DOCKER_HOST", engine.url())).await?;
    let other = daemon.session(json!({"keep_alive": true, "session_timeout": 3600})).await?;
    let mut cdp = other.cdp().await?;
    let page = cdp.first_page().await?;
    daemon.warm().await?;
    let before = daemon.resident()?;
    engine.every(REMOVE, Fault::Silence);
    let first = daemon.session(json!({})).await?;
    first.delete().await?.ok()?;
    eventually!("the engine is asked to remove it", 30, engine.open(REMOVE) > 0)?;
    let (began, mut slowest, mut most_open) = (Instant::now(), Duration::ZERO, 0);
    while began.elapsed() < Duration::from_secs(60 * minutes) {
        let asked = Instant::now();
        ensure!(daemon.api().get("/healthz").await?.status == 200);
        ensure!(cdp.evaluate(&page, "6 * 7").await? == 42, "the other session goes on");
        slowest = slowest.max(asked.elapsed());
        most_open = most_open.max(engine.open(REMOVE));
        poll().await;
    }
    let record = first.record().await?;
    ensure!(record["reason"] == "deleted", "the session is over all the same: {record}");
    ensure!(slowest < Duration::from_secs(1), "/healthz and a command took {slowest:?} together");
    ensure!(most_open <= 8, "{most_open} calls at once");
    ensure!(engine.spoiled(REMOVE) > usize::try_from(minutes)? / 2, "it is asked again: {}", engine.spoiled(REMOVE));
    let more = daemon.resident()?.saturating_sub(before);
    ensure!(more < 64 << 20, "the daemon takes {} MiB more", more >> 20);
    evidence::saw(format!(
        "{minutes} min: /healthz and a command took at most {} ms together, {} calls were given up, at most {most_open} at once",
        slowest.as_millis(),
        engine.spoiled(REMOVE),
    ));
    engine.heal();
    other.delete().await?.ok()?;
    daemon.assert_idle().await
}
