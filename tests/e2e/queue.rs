//! The queue before the sessions: length, wait, order, and places given back.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tokio::task::JoinHandle;
use warmpool_tests::{Daemon, Group, Reply, Session, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    let settings = Settings::new().set("SESSION_MAX_SESSIONS", "1").set("SESSION_QUEUE_LENGTH", "2");
    group!(Some(settings),
        quick: [the_first_to_come_is_served_first, a_full_queue_says_so],
        full: [
            waiting_has_an_end,
            a_grid_has_a_wait_of_its_own,
            a_caller_who_leaves_frees_the_place,
            keys_take_turns,
            another_kind_of_worker_comes_in_turn,
            a_key_has_a_limit_of_its_own,
        ],
    )
}

/// A create call that is left to wait.
fn ask(daemon: &Daemon) -> JoinHandle<Result<Reply>> {
    let api = daemon.api();
    tokio::spawn(async move { api.post("/sessions/create", &json!({"headless": true})).await })
}

/// Waits until so many callers wait.
pub(crate) async fn waiting(daemon: &Daemon, callers: usize) -> Result<()> {
    eventually!(format!("{callers} callers wait"), 20, {
        daemon.kinds().await?.iter().map(|kind| kind.counts.waiting).sum::<usize>() == callers
    })
}

/// The one session there may be; the machine may still be busy with the one before.
async fn hold(daemon: &Daemon) -> Result<Session> {
    daemon.session(json!({})).await
}

async fn the_first_to_come_is_served_first(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let held = hold(daemon).await?;
    let first = ask(daemon);
    waiting(daemon, 1).await?;
    let second = ask(daemon);
    waiting(daemon, 2).await?;
    held.delete().await?.ok()?;
    let first = Session::from_reply(&daemon.api(), &first.await??)?;
    ensure!(!second.is_finished(), "there is one session at a time");
    waiting(daemon, 1).await?;
    first.delete().await?.ok()?;
    let second = Session::from_reply(&daemon.api(), &second.await??)?;
    second.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn a_full_queue_says_so(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let held = hold(daemon).await?;
    let (first, second) = (ask(daemon), ask(daemon));
    waiting(daemon, 2).await?;
    let reply = daemon.api().post("/sessions/create", &json!({"headless": true})).await?;
    ensure!(reply.fault(429)?.code == "queue_full", "{reply}");
    ensure!(reply.header("retry-after").is_some_and(|value| value.parse::<u32>().is_ok()), "{:?}", reply.headers);
    first.abort();
    second.abort();
    waiting(daemon, 0).await?;
    held.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn waiting_has_an_end(_: Stage) -> Result<()> {
    let settings = Settings::new().set("SESSION_MAX_SESSIONS", "1").set("SESSION_QUEUE_WAIT", "2s");
    let daemon = Daemon::start(settings).await?;
    let held = hold(&daemon).await?;
    let reply = ask(&daemon).await??;
    ensure!(reply.fault(503)?.code == "no_worker", "{reply}");
    ensure!(reply.header("retry-after").is_some(), "{:?}", reply.headers);
    held.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// A suite that is wider than the pool waits at a grid's addresses, and not by a create call.
async fn a_grid_has_a_wait_of_its_own(_: Stage) -> Result<()> {
    let settings = Settings::new().set("SESSION_MAX_SESSIONS", "1").set("SESSION_QUEUE_WAIT", "1s");
    let daemon = Daemon::start(settings.set("WEBDRIVER_GRID_QUEUE_WAIT", "10m")).await?;
    let held = hold(&daemon).await?;
    let api = daemon.api();
    let on_the_grid = tokio::spawn(async move {
        let capabilities = json!({"browserName": "chrome", "goog:chromeOptions": {"args": ["--headless"]}});
        api.post("/wd/hub/session", &json!({"capabilities": {"alwaysMatch": capabilities}})).await
    });
    waiting(&daemon, 1).await?;
    let refused = ask(&daemon).await??;
    ensure!(refused.fault(503)?.code == "no_worker", "{refused}");
    ensure!(!on_the_grid.is_finished(), "the grid's client still waits");
    held.delete().await?.ok()?;
    let made = on_the_grid.await??.ok()?;
    let id = made["value"]["sessionId"].as_str().context("sessionId")?;
    daemon.api().delete(&format!("/wd/hub/session/{id}")).await?.ok()?;
    daemon.assert_idle().await
}

async fn a_caller_who_leaves_frees_the_place(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let held = hold(daemon).await?;
    let (leaves, stays) = (ask(daemon), ask(daemon));
    waiting(daemon, 2).await?;
    leaves.abort();
    waiting(daemon, 1).await?;
    let comes = ask(daemon);
    waiting(daemon, 2).await?;
    held.delete().await?.ok()?;
    Session::from_reply(&daemon.api(), &stays.await??)?.delete().await?.ok()?;
    Session::from_reply(&daemon.api(), &comes.await??)?.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// One key has the only place and all of the queue, until another one comes.
async fn keys_take_turns(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let modest = daemon.api().with_key(crate::keys::create(daemon, "modest").await?);
    let held = hold(daemon).await?;
    let first = ask(daemon);
    waiting(daemon, 1).await?;
    let last = ask(daemon);
    waiting(daemon, 2).await?;
    let theirs = modest.clone();
    let other = tokio::spawn(async move { theirs.post("/sessions/create", &json!({"headless": true})).await });
    let refused = last.await??;
    ensure!(refused.fault(429)?.code == "queue_full" && refused.header("retry-after").is_some(), "{refused}");
    waiting(daemon, 2).await?;
    held.delete().await?.ok()?;
    let other = Session::from_reply(&modest, &other.await??)?;
    ensure!(!first.is_finished(), "the key that had a place waits for the one that had none");
    other.delete().await?.ok()?;
    Session::from_reply(&daemon.api(), &first.await??)?.delete().await?.ok()?;
    daemon.cli_ok(&["key", "revoke", "modest"]).await?;
    daemon.assert_idle().await
}

/// One key has the only place and waits for more of its kind of worker, before another one wants another kind.
async fn another_kind_of_worker_comes_in_turn(_: Stage) -> Result<()> {
    let settings = Settings::on_demand().set("POOL_MAX_WORKERS", "1").set("SESSION_MAX_SESSIONS", "1");
    let daemon = Daemon::start(settings).await?;
    let modest = daemon.api().with_key(crate::keys::create(&daemon, "modest").await?);
    let held = hold(&daemon).await?;
    // One after the other, since they are served in the order in which they came.
    let first = ask(&daemon);
    waiting(&daemon, 1).await?;
    let greedy = [first, ask(&daemon)];
    waiting(&daemon, 2).await?;
    let theirs = modest.clone();
    let other = tokio::spawn(async move { theirs.post("/sessions/create", &json!({"headless": false})).await });
    waiting(&daemon, 3).await?;
    held.delete().await?.ok()?;
    let other = Session::from_reply(&modest, &other.await??)?;
    ensure!(
        greedy.iter().all(|asked| !asked.is_finished()),
        "the key that had a place waits for the one that had none"
    );
    other.delete().await?.ok()?;
    for asked in greedy {
        Session::from_reply(&daemon.api(), &asked.await??)?.delete().await?.ok()?;
    }
    daemon.assert_idle().await
}

async fn a_key_has_a_limit_of_its_own(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand().set("SESSION_MAX_PER_KEY", "1")).await?;
    let other = daemon.api().with_key(crate::keys::create(&daemon, "other").await?);
    let held = hold(&daemon).await?;
    let reply = daemon.api().post("/sessions/create", &json!({"headless": true})).await?;
    ensure!(reply.fault(429)?.code == "key_limit", "{reply}");
    ensure!(reply.header("retry-after").is_some(), "{:?}", reply.headers);
    Session::create(&other, &json!({"headless": true})).await?.delete().await?.ok()?;
    // Its client does not read that it is over, so its worker stays for a moment.
    let _attached = held.cdp().await?;
    held.delete().await?.ok()?;
    hold(&daemon).await?.delete().await?.ok()?;
    daemon.assert_idle().await
}
