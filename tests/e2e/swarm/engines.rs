//! Every engine on a Docker Swarm, and workers that are spread over racks.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use warmpool_tests::{Daemon, Driver, Nodes, Session, Stage};

use super::{leaves_nothing, running_on, settings, three};

/// Nodes in the first rack; the last one has a rack of its own.
const FIRST_RACK: [usize; 2] = [1, 2];

async fn create(daemon: &Daemon, engine: &str, headless: bool) -> Result<Session> {
    let body = json!({"browser_type": engine, "headless": headless});
    Session::create_webdriver(&daemon.api(), &body).await.with_context(|| format!("{engine}, headless {headless}"))
}

/// Loads a page over the overlay and reads it.
async fn drives(session: &Session, site: &str) -> Result<()> {
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    driver.goto(&format!("{site}/form")).await?;
    let title = driver.execute("return document.title").await?;
    ensure!(title == "Form", "{title}");
    Ok(())
}

pub(crate) async fn every_engine_runs_and_workers_are_spread_over_racks(stage: Stage) -> Result<()> {
    let Some(swarm) = three(&stage, Nodes::ALIKE).await? else { return Ok(()) };
    for number in 1..=3 {
        let rack = if FIRST_RACK.contains(&number) { "rack=first" } else { "rack=second" };
        swarm.manager().run(&["node", "update", "--label-add", rack, &swarm.name(number)]).await?;
    }
    // Nodes alone would get two each.
    let settings = settings(&swarm).set("POOL_CHROMIUM_HEADLESS", "6").set("POOL_MAX_WORKERS", "12");
    let settings = settings.set("POOL_START_CONCURRENCY", "3").set("SWARM_SPREAD_OVER", "node.labels.rack");
    let mut daemon = Daemon::start(settings).await?;
    let instance = daemon.instance()?;
    let last = running_on(&swarm, &swarm.name(3), &instance).await?.len();
    ensure!(last == 3, "{last} of six workers are in the second rack");

    let site = stage.site_for(&daemon).await?;
    for (engine, headless) in [("firefox", true), ("webkit", true), ("firefox", false), ("chromium", false)] {
        let session = create(&daemon, engine, headless).await?;
        drives(&session, &site).await.with_context(|| format!("{engine}, headless {headless}"))?;
        session.delete().await?.ok()?;
    }
    // WebKit's own clients speak to a websocket.
    let session = daemon.session(json!({"browser_type": "webkit"})).await?;
    session.cdp().await?.call("Target.setPauseOnStart", json!({"pauseOnStart": false})).await?;
    session.delete().await?.ok()?;

    // What ended was replaced where it was missing.
    daemon.assert_idle().await?;
    let last = running_on(&swarm, &swarm.name(3), &instance).await?.len();
    ensure!((2..=4).contains(&last), "{last} workers are in the second rack");
    leaves_nothing(&mut daemon, &swarm).await?;
    stage.keep(swarm);
    Ok(())
}
