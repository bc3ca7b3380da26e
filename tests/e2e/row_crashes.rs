//! Rows 1 and 2: the daemon is killed once with everything going on, and many times at random moments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use warmpool_tests::{Api, Daemon, Group, Reply, Session, Settings, Stage, eventually, evidence, group, poll};

use crate::history::{becomes, id, task, visit};
use crate::task_durability::endless;

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [one_kill_with_everything_going_on, kills_at_random_moments]).hours(4)
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
    ensure!(ready < Duration::from_secs(5), "it is ready {ready:?} after its start");
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

/// Records of each kind that are looked at after each kill.
const RECENT: usize = 100;

/// What the daemon has acknowledged.
#[derive(Default)]
pub(crate) struct Acknowledged {
    /// Whether the daemon is about to end, or has ended, by the test's doing.
    pub(crate) is_ending: bool,
    pub(crate) sessions: Vec<String>,
    deleted: BTreeSet<String>,
    /// How each session ended, once that was seen.
    ends: BTreeMap<String, Value>,
    /// Tasks, with how each ended, once that was seen.
    pub(crate) tasks: BTreeMap<String, Option<Value>>,
    cancelled: BTreeSet<String>,
}

/// What a client hears: an answer, or nothing more once its daemon is gone.
/// Errors: there is no answer although nothing ends the daemon.
fn heard(answer: Result<Reply>, known: &Mutex<Acknowledged>) -> Result<Option<Reply>> {
    match answer {
        Err(_) if known.lock().is_ending => Ok(None),
        answer => answer.map(Some),
    }
}

/// Whether a daemon may answer so that has just started, or whose places or disk are full.
fn is_busy(reply: &Reply) -> bool {
    matches!(reply.status, 429 | 503 | 507)
}

/// A client that makes, uses and deletes sessions until its daemon is gone.
/// Errors: any answer that says something else than that the daemon is not ready or full.
pub(crate) async fn sessions_come_and_go(api: Api, known: Arc<Mutex<Acknowledged>>) -> Result<()> {
    loop {
        let asked = api.post("/sessions/create", &json!({"headless": true})).await;
        let Some(reply) = heard(asked, &known)? else { return Ok(()) };
        if is_busy(&reply) {
            poll().await;
            continue;
        }
        let session = Session::from_reply(&api, &reply)?;
        known.lock().sessions.push(session.id.clone());
        let used = async { session.cdp().await?.call("Browser.getVersion", json!({})).await };
        if let Err(error) = used.await {
            // Its connection breaks with the daemon. Where that still answers, the session was lost.
            let Some(reply) = heard(api.get("/healthz").await, &known)? else { return Ok(()) };
            return Err(error.context(format!("{reply}, and {} cannot be used", session.id)));
        }
        let Some(reply) = heard(session.delete().await, &known)? else { return Ok(()) };
        let ended = reply.ok()?;
        ensure!(ended["status"] == "terminated" && ended["reason"] == "deleted", "{ended}");
        known.lock().deleted.insert(session.id);
    }
}

/// One that orders tasks and cancels every other one.
/// Errors: those of the other client.
pub(crate) async fn tasks_come_and_go(api: Api, page: String, known: Arc<Mutex<Acknowledged>>) -> Result<()> {
    for number in 0_u64.. {
        let Some(reply) = heard(api.post("/lam/run", &visit(&page)).await, &known)? else { return Ok(()) };
        if is_busy(&reply) {
            poll().await;
            continue;
        }
        let task = id(&reply.ok()?)?;
        known.lock().tasks.insert(task.clone(), None);
        if number % 2 == 0 {
            let cancelled = api.delete(&format!("/lam/tasks/{task}")).await;
            let Some(reply) = heard(cancelled, &known)? else { return Ok(()) };
            let ended = reply.ok()?;
            if ended["status"] == "cancelled" {
                known.lock().cancelled.insert(task);
            }
        }
        poll().await;
    }
    Ok(())
}

/// Everything that was acknowledged is there and is as it was, and what has ended ends no other way. `some`: of all those whose end was
/// seen only the latest few, since to look at all of them would take ever longer.
pub(crate) async fn nothing_is_lost(api: &Api, known: &Mutex<Acknowledged>, some: Option<usize>) -> Result<()> {
    let (sessions, tasks) = {
        let known = known.lock();
        let sessions: Vec<String> = known.sessions.iter().rev().take(some.unwrap_or(usize::MAX)).cloned().collect();
        // Ids are in the order of time.
        let tasks: Vec<String> = known.tasks.keys().rev().take(some.unwrap_or(usize::MAX)).cloned().collect();
        (sessions, tasks)
    };
    for session in &sessions {
        let reply = api.get(&format!("/sessions/{session}")).await?;
        let record = reply.ok().with_context(|| format!("session {session} was acknowledged"))?;
        let mut known = known.lock();
        if record["ended_at"].is_null() {
            ensure!(!known.deleted.contains(session), "a deleted session is back: {record}");
            ensure!(!known.ends.contains_key(session), "a session that had ended is back: {record}");
            continue;
        }
        let end: Value =
            ["status", "reason", "ended_at"].into_iter().map(|field| (field, record[field].clone())).collect();
        ensure!(!known.deleted.contains(session) || record["reason"] == "deleted", "{record}");
        let before = known.ends.entry(session.clone()).or_insert_with(|| end.clone());
        ensure!(*before == end, "{session} ended as {before}, and ends again as {end}");
    }
    for one in &tasks {
        let record = task(api, one).await.with_context(|| format!("task {one} was acknowledged"))?;
        let mut known = known.lock();
        let cancelled = known.cancelled.contains(one);
        ensure!(!cancelled || record["status"] == "cancelled", "{record}");
        let fields = ["status", "error", "output", "executionTime"];
        let end: Value = fields.into_iter().map(|field| (field, record[field].clone())).collect();
        let before = known.tasks.entry(one.clone()).or_default();
        match record["status"].as_str() {
            Some("queued" | "running") => ensure!(before.is_none(), "a task that had ended is back: {record}"),
            Some("failure") => {
                // Only a start may have ended it: the page is there.
                ensure!(record["error"]["code"] == "interrupted", "{record}");
            }
            Some("success" | "cancelled") => {}
            _ => bail!("{record}"),
        }
        if matches!(record["status"].as_str(), Some("success" | "failure" | "cancelled")) {
            let before = before.get_or_insert_with(|| end.clone());
            ensure!(*before == end, "{one} ended as {before}, and ends again as {end}");
        }
    }
    Ok(())
}

/// The engine has the containers that the daemon says it has, once it has looked: none without an owner.
pub(crate) async fn containers_are_the_daemons(daemon: &Daemon) -> Result<()> {
    let mut seen;
    let same = eventually!("the engine and the daemon have the same containers", 60, {
        let counts = daemon.kinds().await?.into_iter().map(|kind| kind.counts);
        let owned: usize = counts.map(|counts| counts.starting + counts.ready + counts.leased + counts.removing).sum();
        let containers = daemon.containers().await?.len();
        seen = format!("{owned} and {containers}");
        owned == containers
    });
    same.with_context(|| seen)
}

/// Ends sessions, so that the next round's clients find room. The task that runs keeps its own.
pub(crate) async fn make_room(daemon: &Daemon) -> Result<()> {
    let live = daemon.api().get("/sessions?status=running&status=starting&limit=100").await?.ok()?;
    for session in live["sessions"].as_array().context("sessions")? {
        if session["kind"] != "task" {
            let id = session["session_id"].as_str().context("session_id")?;
            daemon.api().delete(&format!("/sessions/{id}")).await?.ok()?;
        }
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
        .set("SESSION_ATTACH_TIMEOUT", "2s")
        .set("SESSION_RECONNECT_WINDOW", "1s")
        .set("DOCKER_RECONCILE_INTERVAL", "2s")
        .set("LOG_FILTER", "info");
    let mut daemon = Daemon::start(settings).await?;
    let page = format!("{}/tab/1", stage.site_for(&daemon).await?);
    let known = Arc::new(Mutex::new(Acknowledged::default()));
    let mut slowest = Duration::ZERO;
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
        let so_far = known.lock().sessions.len();
        // Where the daemon was ready, not before one session was given.
        let given = match round % 3 {
            2 => Ok(()),
            _ => eventually!("a session is given", 60, known.lock().sessions.len() > so_far),
        };
        let until = Instant::now() + Duration::from_millis(random.below(2500));
        while Instant::now() < until {
            poll().await;
        }
        known.lock().is_ending = true;
        daemon.kill9().await?;
        // They lose their connections, and have heard nothing wrong before.
        while let Some(ended) = clients.join_next().await {
            ended?.with_context(|| format!("round {round}"))?;
        }
        known.lock().is_ending = false;
        given.with_context(|| format!("round {round}"))?;
        let began = Instant::now();
        daemon.restart().await.with_context(|| format!("round {round}"))?;
        let status: Value = daemon.api().get("/status").await?.ok()?;
        ensure!(status["store"]["recovered"].is_null(), "round {round}: {}", status["store"]);
        slowest = slowest.max(began.elapsed());
        let all = round % 20 == 19 || round + 1 == rounds;
        if all || round % 3 != 1 {
            let checked = async {
                daemon.ready().await?;
                nothing_is_lost(&daemon.api(), &known, (!all).then_some(RECENT)).await?;
                containers_are_the_daemons(&daemon).await?;
                make_room(&daemon).await
            };
            checked.await.with_context(|| format!("round {round}"))?;
        }
    }
    daemon.ready().await?;
    // What is still queued need not run.
    let open: Vec<String> = known.lock().tasks.keys().cloned().collect();
    for one in &open {
        daemon.api().delete(&format!("/lam/tasks/{one}")).await?.ok()?;
    }
    daemon.end_all().await?;
    ensure!(
        known.lock().sessions.len() as u64 >= rounds / 2,
        "{} sessions in {rounds} rounds",
        known.lock().sessions.len()
    );
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
