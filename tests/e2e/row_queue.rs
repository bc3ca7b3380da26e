//! Row 18: five hundred requests for sessions at once, where there are places for ten.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::task::JoinSet;
use warmpool_tests::{Api, Daemon, Group, Reply, Session, Settings, Stage, eventually, evidence, group};

use crate::queue::waiting;

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [five_hundred_requests_for_ten_places, a_greedy_key_leaves_room])
}

const PLACES: usize = 10;
const QUEUE: usize = 100;
const REQUESTS: usize = 500;

/// Asks for a session; returns the answer and how long it took.
async fn ask(api: Api) -> Result<(Reply, Duration)> {
    let asked = Instant::now();
    let reply = api.post("/sessions/create", &json!({"headless": true, "keep_alive": true})).await?;
    Ok((reply, asked.elapsed()))
}

fn settings() -> Settings {
    Settings::new()
        .set("POOL_CHROMIUM_HEADLESS", "2")
        .set("POOL_MAX_WORKERS", PLACES)
        .set("SESSION_MAX_SESSIONS", PLACES)
        .set("SESSION_QUEUE_LENGTH", QUEUE)
}

async fn five_hundred_requests_for_ten_places(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings().set("SESSION_QUEUE_WAIT", "60s")).await?;
    let mut requests = JoinSet::new();
    for _ in 0..REQUESTS {
        requests.spawn(ask(daemon.api()));
    }
    let (mut counts, mut slowest, mut sessions) = (BTreeMap::<u16, usize>::new(), Duration::ZERO, Vec::new());
    while let Some(answered) = requests.join_next().await {
        let (reply, took) = answered??;
        *counts.entry(reply.status).or_default() += 1;
        match reply.status {
            200 => sessions.push(Session::from_reply(&daemon.api(), &reply)?),
            429 => {
                ensure!(reply.fault(429)?.code == "queue_full" && reply.header("retry-after").is_some(), "{reply}");
                slowest = slowest.max(took);
            }
            _ => ensure!(reply.fault(503)?.code == "no_worker" && reply.header("retry-after").is_some(), "{reply}"),
        }
        ensure!(sessions.len() <= PLACES, "more sessions than places");
    }
    evidence::saw(format!("{REQUESTS} requests: {counts:?}, the slowest 429 after {} ms", slowest.as_millis()));
    ensure!(counts.get(&200) == Some(&PLACES), "{counts:?}");
    let count = |status| counts.get(&status).copied().unwrap_or_default();
    // Some of the ten stood in the queue until there was a worker for them, and so did all who waited in vain.
    let waited = count(503);
    ensure!(waited <= QUEUE && waited + PLACES >= QUEUE, "{counts:?}");
    ensure!(count(429) == REQUESTS - PLACES - waited, "{counts:?}");
    // Nobody is refused only after a wait.
    ensure!(slowest < Duration::from_secs(2), "{slowest:?}");
    // Nobody waits any more, so a free place stays free.
    waiting(&daemon, 0).await?;
    let first = sessions.pop().context("a session")?;
    first.delete().await?.ok()?;
    let late = eventually!("somebody who had waited in vain gets it", 3, {
        let live = daemon.api().get("/sessions?limit=100&status=running").await?.ok()?;
        live["sessions"].as_array().context("sessions")?.len() > sessions.len()
    });
    ensure!(late.is_err(), "a caller who had been refused has a session");
    for session in sessions {
        session.delete().await?.ok()?;
    }
    daemon.assert_idle().await
}

/// One key asks for all there is and more; another one's request is served while the first one still waits.
async fn a_greedy_key_leaves_room(_: Stage) -> Result<()> {
    let daemon = Daemon::start(settings().set("SESSION_MAX_PER_KEY", "6").set("SESSION_QUEUE_WAIT", "20s")).await?;
    let modest = daemon.api().with_key(crate::keys::create(&daemon, "modest").await?);
    let mut greedy = JoinSet::new();
    for _ in 0..50 {
        greedy.spawn(ask(daemon.api()));
    }
    let mut held = Vec::new();
    while held.len() < 6 {
        let (reply, _) = greedy.join_next().await.context("a request")???;
        match reply.status {
            200 => held.push(Session::from_reply(&daemon.api(), &reply)?),
            _ => ensure!(matches!(reply.status, 429 | 503), "{reply}"),
        }
    }
    for _ in 0..4 {
        let (reply, took) = ask(modest.clone()).await?;
        held.push(Session::from_reply(&modest, &reply)?);
        ensure!(took < Duration::from_secs(20), "{took:?}");
    }
    while let Some(reply) = greedy.join_next().await {
        let (reply, _) = reply??;
        ensure!(matches!(reply.status, 429 | 503), "more than session.max_per_key: {reply}");
    }
    for session in held {
        session.delete().await?.ok()?;
    }
    daemon.assert_idle().await
}
