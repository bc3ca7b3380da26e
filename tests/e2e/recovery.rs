//! What a daemon finds when it comes back: agents that are silent, drivers that died meanwhile.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use warmpool_tests::{Cdp, Daemon, Driver, Group, Session, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    group!("recovery", None,
        quick: [],
        full: [
            a_silent_worker_keeps_its_session,
            a_worker_that_stays_silent_is_given_up,
            a_silent_worker_that_is_removed_ends_its_session,
            a_driver_that_died_meanwhile_ends_its_session,
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
    daemon.docker().run(&["pause", &container]).await?;
    daemon.restart().await?;
    Ok((daemon, container, silent, other))
}

async fn name_of_the_page(cdp: &mut Cdp) -> Result<String> {
    let page = cdp.first_page().await?;
    Ok(cdp.evaluate(&page, "window.name").await?.as_str().context("a text")?.to_owned())
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
