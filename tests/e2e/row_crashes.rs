//! Rows 1 and 2: the daemon is killed once with everything going on, and many times at random moments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use warmpool_tests::{Api, Daemon, Group, Session, Settings, Stage, eventually, evidence, group, poll};

use crate::history::{becomes, id, task, visit};
use crate::task_durability::endless;

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [one_kill_with_everything_going_on, kills_at_random_moments])
}

async fn one_kill_with_everything_going_on(stage: Stage) -> Result<()> {
    let settings = Settings::new()
        .set("POOL_CHROMIUM_HEADLESS", "4")
        .set("POOL_MAX_WORKERS", "8")
        .set("TASKS_WORKERS", "1")
        .set("SESSION_RECONNECT_WINDOW", "60s");
    let mut daemon = Daemon::start(settings).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    let mut sessions = Vec::new();
    for number in 0..3 {
        let session = daemon.session(json!({})).await?;
        session.evaluate(&format!("window.name = 'kept {number}'")).await?;
        sessions.push(session);
    }
    let running = id(&api.post("/lam/run", &endless(&site)).await?.ok()?)?;
    becomes(&api, &running, "running", 60).await?;
    let mut queued = Vec::new();
    for number in [7101, 7102] {
        queued.push(id(&api.post("/lam/run", &visit(&format!("{site}/tab/{number}"))).await?.ok()?)?);
    }
    daemon.warm().await?;
    let before: BTreeSet<String> = daemon.containers().await?.into_iter().map(|container| container.id).collect();
    ensure!(before.len() == 8, "{before:?}");

    daemon.kill9().await?;
    daemon.restart().await?;
    let back = Instant::now();
    daemon.ready().await?;
    let ready = back.elapsed();
    for (number, session) in sessions.iter().enumerate() {
        eventually!("the session goes on", 10, session.status().await? == "running")?;
        ensure!(session.evaluate("window.name").await? == format!("kept {number}"), "it is the same browser");
    }
    let interrupted = becomes(&api, &running, "failure", 60).await?;
    ensure!(interrupted["error"]["code"] == "interrupted", "{interrupted}");
    for (task, number) in queued.iter().zip([7101, 7102]) {
        becomes(&api, task, "success", 90).await?;
        let hits = stage.site().hits(&format!("/tab/{number}")).len();
        ensure!(hits == 1, "a queued task ran {hits} times");
    }
    let after: BTreeSet<String> = daemon.containers().await?.into_iter().map(|container| container.id).collect();
    let kept = before.intersection(&after).count();
    // The running task's is gone, and the two queued ones may have taken two of those that were warm.
    ensure!(kept >= 5, "{kept} of 8 workers were kept");
    evidence::saw(format!("ready {} ms after the start, {kept} of 8 workers kept", ready.as_millis()));
    for session in &sessions {
        session.delete().await?.ok()?;
    }
    daemon.warm().await?;
    daemon.assert_idle().await
}

/// What the daemon has acknowledged.
#[derive(Default)]
struct Acknowledged {
    sessions: Vec<String>,
    deleted: BTreeSet<String>,
    tasks: Vec<String>,
    cancelled: BTreeSet<String>,
}

/// A client that makes, uses and deletes sessions until its daemon is gone.
async fn sessions_come_and_go(api: Api, known: Arc<Mutex<Acknowledged>>) -> Result<()> {
    loop {
        let reply = api.post("/sessions/create", &json!({"headless": true})).await?;
        if reply.status != 200 {
            poll().await;
            continue;
        }
        let session = Session::from_reply(&api, &reply)?;
        known.lock().sessions.push(session.id.clone());
        session.cdp().await?.call("Browser.getVersion", json!({})).await?;
        session.delete().await?.ok()?;
        known.lock().deleted.insert(session.id);
    }
}

/// One that orders tasks and cancels every other one.
async fn tasks_come_and_go(api: Api, page: String, known: Arc<Mutex<Acknowledged>>) -> Result<()> {
    for number in 0_u64.. {
        let reply = api.post("/lam/run", &visit(&page)).await?;
        if !(200..300).contains(&reply.status) {
            poll().await;
            continue;
        }
        let task = id(&reply.json()?)?;
        known.lock().tasks.push(task.clone());
        if number % 2 == 0 {
            let ended = api.delete(&format!("/lam/tasks/{task}")).await?.ok()?;
            if ended["status"] == "cancelled" {
                known.lock().cancelled.insert(task);
            }
        }
        poll().await;
    }
    Ok(())
}

/// Everything that was acknowledged is there, and is as it was.
async fn nothing_is_lost(api: &Api, known: &Mutex<Acknowledged>) -> Result<()> {
    let (sessions, deleted, tasks, cancelled) = {
        let known = known.lock();
        (known.sessions.clone(), known.deleted.clone(), known.tasks.clone(), known.cancelled.clone())
    };
    for session in &sessions {
        let reply = api.get(&format!("/sessions/{session}")).await?;
        let record = reply.ok().with_context(|| format!("session {session} was acknowledged"))?;
        let live = record["status"] == "running" || record["status"] == "starting" || record["status"] == "unknown";
        ensure!(!(live && deleted.contains(session)), "a deleted session is back: {record}");
    }
    for one in &tasks {
        let record = task(api, one).await.with_context(|| format!("task {one} was acknowledged"))?;
        ensure!(!cancelled.contains(one) || record["status"] == "cancelled", "{record}");
    }
    Ok(())
}

async fn kills_at_random_moments(stage: Stage) -> Result<()> {
    let (rounds, mut random) = (evidence::rounds(200), evidence::random());
    let settings = Settings::new()
        .set("POOL_CHROMIUM_HEADLESS", "2")
        .set("POOL_MAX_WORKERS", "5")
        .set("POOL_REFILL_DELAY", "0s")
        .set("TASKS_WORKERS", "1")
        .set("TASKS_QUEUE_LENGTH", "10000")
        .set("SESSION_ATTACH_TIMEOUT", "5s")
        .set("DOCKER_RECONCILE_INTERVAL", "2s")
        .set("LOG_FILTER", "info");
    let mut daemon = Daemon::start(settings).await?;
    let page = format!("{}/tab/1", stage.site_for(&daemon).await?);
    let known = Arc::new(Mutex::new(Acknowledged::default()));
    let (mut slowest, mut most) = (Duration::ZERO, 0);
    for round in 0..rounds {
        // Of the moments in every third round many are those of the start itself; in the others sessions begin, go on and end.
        if round % 3 != 2 {
            daemon.ready().await.with_context(|| format!("round {round}"))?;
        }
        let mut clients = JoinSet::new();
        for _ in 0..3 {
            clients.spawn(sessions_come_and_go(daemon.api(), Arc::clone(&known)));
        }
        clients.spawn(tasks_come_and_go(daemon.api(), page.clone(), Arc::clone(&known)));
        let until = Instant::now() + Duration::from_millis(random.below(2500));
        while Instant::now() < until {
            poll().await;
        }
        daemon.kill9().await?;
        // They lose their connections.
        clients.shutdown().await;
        let began = Instant::now();
        daemon.restart().await.with_context(|| format!("round {round}"))?;
        let status: Value = daemon.api().get("/status").await?.ok()?;
        ensure!(status["store"]["recovered"].is_null(), "round {round}: {}", status["store"]);
        slowest = slowest.max(began.elapsed());
        most = most.max(daemon.containers().await?.len());
        ensure!(most <= 10, "round {round}: {most} containers, for five workers");
        // Each time all of it would take ever longer.
        if round % 20 == 19 || round + 1 == rounds {
            daemon.ready().await?;
            nothing_is_lost(&daemon.api(), &known).await.with_context(|| format!("round {round}"))?;
        }
    }
    daemon.ready().await?;
    // What is still queued need not run.
    let open: Vec<String> = known.lock().tasks.clone();
    for one in &open {
        daemon.api().delete(&format!("/lam/tasks/{one}")).await?.ok()?;
    }
    daemon.end_all().await?;
    let counts: BTreeMap<&str, usize> = {
        let known = known.lock();
        [("sessions", known.sessions.len()), ("tasks", known.tasks.len())].into()
    };
    evidence::saw(format!(
        "{} sessions and {} tasks were acknowledged and all are there; the slowest start took {} ms",
        counts["sessions"],
        counts["tasks"],
        slowest.as_millis()
    ));
    daemon.warm().await?;
    daemon.assert_idle().await
}
