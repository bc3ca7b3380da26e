//! What viewers see of Firefox's and WebKit's pages, and what they may do to them, also in a browser that a driver has
//! started in place of the first one.

use std::time::Duration;

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use http::HeaderMap;
use serde_json::{Value, json};
use warmpool_tests::wire::{self, Socket};
use warmpool_tests::{Driver, Group, Session, Settings, Stage, eventually, group};

use crate::live::{message, picture, say, socket, viewer};

pub(crate) fn group() -> Group {
    group!(Some(Settings::on_demand()),
        quick: [],
        full: [
            viewers_navigate_firefox,
            viewers_navigate_webkit,
            viewers_navigate_headed_chromium,
            a_viewer_without_control_navigates_nothing,
            the_agent_stops_listing_with_the_last_viewer,
            a_driver_starts_another_chromium,
            a_driver_starts_another_firefox,
            a_driver_has_a_webkit,
        ],
    )
}

async fn navigates(stage: &Stage, engine: &str, headless: bool) -> Result<()> {
    let daemon = stage.daemon()?;
    let url = format!("{}/turn", stage.site_for(daemon).await?);
    let session = daemon.session(json!({"url": url, "headless": headless, "browser_type": engine})).await?;
    viewer(stage, &session, "steer").await?.env("NAME", engine).results().await?;
    session.delete().await?.ok()?;
    Ok(())
}

async fn viewers_navigate_firefox(stage: Stage) -> Result<()> {
    navigates(&stage, "firefox", true).await
}

async fn viewers_navigate_webkit(stage: Stage) -> Result<()> {
    navigates(&stage, "webkit", false).await
}

async fn viewers_navigate_headed_chromium(stage: Stage) -> Result<()> {
    navigates(&stage, "chromium", false).await
}

/// The list of tabs, once it begins with one like this.
async fn tabs(socket: &mut Socket, is_like: impl Fn(&Value) -> bool) -> Result<Value> {
    let wait = async {
        loop {
            let mut state = message(socket, "state").await?;
            if state["tabs"].get(0).is_some_and(&is_like) {
                return Ok(state["tabs"].take());
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.context("no such tab in front")?
}

fn at(end: &str) -> impl Fn(&Value) -> bool {
    move |tab| tab["url"].as_str().is_some_and(|url| url.ends_with(end))
}

async fn a_viewer_without_control_navigates_nothing(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    for engine in ["firefox", "webkit"] {
        let body = json!({"url": format!("{site}/turn"), "headless": true, "browser_type": engine});
        let session = daemon.session(body).await.context(engine)?;
        let mut looker = socket(&session, "").await?;
        ensure!(message(&mut looker, "hello").await?["may_act"] == false);
        // Once it has its title it has been loaded, and the history leads back to it.
        let is_there = |tab: &Value| at("/turn")(tab) && tab["title"] == "Turned 0";
        let tab = tabs(&mut looker, is_there).await.context(engine)?[0]["id"].clone();
        let mut actor = socket(&session, "&enable_actions=true").await?;
        // A viewer who may take control and has not is refused as well.
        for socket in [&mut looker, &mut actor] {
            for said in [
                json!({"type": "tab", "id": tab}),
                json!({"type": "go", "to": "reload"}),
                json!({"type": "open", "url": format!("{site}/tab/77")}),
            ] {
                say(socket, said).await?;
                message(socket, "refused").await?;
            }
        }
        say(&mut actor, json!({"type": "control", "take": true})).await?;
        for url in ["javascript:document.title='no'", "file:///etc/passwd", "about:config", "view-source:http://a/"] {
            say(&mut actor, json!({"type": "open", "url": url})).await?;
            let refused = message(&mut actor, "refused").await?;
            ensure!(refused["message"].as_str().is_some_and(|why| why.contains("must be http")), "{url}: {refused}");
        }
        say(&mut actor, json!({"type": "tab", "id": "999999"})).await?;
        message(&mut actor, "refused").await?;
        say(&mut actor, json!({"type": "open", "url": format!("{site}/tab/2")})).await?;
        // The title comes a moment after the address.
        let shown = tabs(&mut looker, |tab| at("/tab/2")(tab) && tab["title"] == "Tab 2").await.context(engine)?;
        ensure!(shown[0]["id"] == tab, "the same tab: {shown}");
        // Nothing of what was refused is in its history.
        say(&mut actor, json!({"type": "go", "to": "back"})).await?;
        tabs(&mut looker, at("/turn")).await.context(engine)?;
        session.delete().await?.ok()?;
        ensure!(stage.site().hits("/tab/77").is_empty(), "a viewer without control opened a page");
    }
    Ok(())
}

/// Connections to the agent of the one WebKit there is.
async fn connections(stage: &Stage) -> Result<usize> {
    let daemon = stage.daemon()?;
    let containers = daemon.containers().await?;
    let webkit = containers.iter().find(|it| it.labels.get("warmpool.engine").is_some_and(|engine| engine == "webkit"));
    let agent = daemon.docker().first_pid(&webkit.context("no worker")?.id).await?;
    let mut sockets = BTreeSet::new();
    for descriptor in std::fs::read_dir(format!("/proc/{agent}/fd"))? {
        let target = std::fs::read_link(descriptor?.path()).unwrap_or_default();
        let inode = target.to_str().and_then(|name| name.strip_prefix("socket:[")?.strip_suffix(']'));
        sockets.extend(inode.map(ToOwned::to_owned));
    }
    // Of the agent's socket, and connected. The kernel lists them where the daemon is, which connected.
    let table = std::fs::read_to_string("/proc/net/unix")?;
    let is_one = |line: &&str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        columns.get(5) == Some(&"03")
            && columns.get(6).is_some_and(|inode| sockets.contains(*inode))
            && columns.last() == Some(&"/run/warmpool/agent.sock")
    };
    Ok(table.lines().filter(is_one).count())
}

/// The agent looks after pages for as long as its list is read: with the last viewer, that connection goes.
async fn the_agent_stops_listing_with_the_last_viewer(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.session(json!({"headless": true, "browser_type": "webkit"})).await?;
    let mut first = socket(&session, "").await?;
    tabs(&mut first, |_| true).await?;
    let watched = connections(&stage).await?;
    let mut second = socket(&session, "").await?;
    tabs(&mut second, |_| true).await?;
    ensure!(
        connections(&stage).await? == watched + 1,
        "a second viewer has a display connection of their own, and the same list"
    );
    second.close(None).await?;
    eventually!("the second has left", 10, connections(&stage).await? == watched)?;
    first.close(None).await?;
    eventually!("the connections for display and list are closed", 10, connections(&stage).await? + 2 <= watched)?;
    session.delete().await?.ok()?;
    Ok(())
}

/// A viewer and a recording, both there before the driver comes with options that only a new browser takes.
async fn is_seen_again(stage: &Stage, body: Value, options: Value) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session: Session = daemon.webdriver(body).await?;
    let record = session.record().await?;
    let address = record["livestream_url"].as_str().context("livestream_url")?.replacen("http", "ws", 1);
    let address = address.replacen("/stream?", "/stream/socket?", 1);
    let look = async || wire::websocket(&address, &HeaderMap::new(), None).await;
    let mut looker = look().await?;
    let frames = message(&mut looker, "hello").await?["picture"] == "frames";
    tabs(&mut looker, |_| true).await?;
    let driver = Driver::start(session.connect_url()?, options).await?;
    driver.goto(&format!("{site}/animation")).await?;
    let shown = tabs(&mut looker, at("/animation")).await?;
    ensure!(shown[0]["title"].is_string(), "{shown}");
    if frames {
        picture(&mut looker).await?;
    }
    let mut late = look().await?;
    tabs(&mut late, at("/animation")).await?;
    let path = format!("/sessions/{}/recording", session.id);
    let recorded = async || -> Result<u64> {
        let listed = daemon.api().get(&path).await?.ok()?;
        let parts = listed["parts"].as_array().context("parts")?;
        Ok(parts.iter().filter_map(|part| part["size"].as_u64()).sum())
    };
    let before = recorded().await?;
    eventually!("the recording goes on", 20, recorded().await? > before + 5000)?;
    driver.quit().await?;
    Ok(())
}

async fn a_driver_starts_another_chromium(stage: Stage) -> Result<()> {
    let options = json!({"goog:chromeOptions": {"args": ["--user-agent=Own/2"]}});
    for headless in [true, false] {
        let body = json!({"headless": headless, "recording": true});
        is_seen_again(&stage, body, options.clone()).await.with_context(|| format!("headless: {headless}"))?;
    }
    Ok(())
}

async fn a_driver_starts_another_firefox(stage: Stage) -> Result<()> {
    let body = json!({"browser_type": "firefox", "headless": true, "recording": true});
    is_seen_again(&stage, body, json!({"moz:firefoxOptions": {"env": {"TZ": "Asia/Tokyo"}}})).await
}

/// This driver has no other browser, and no options that need one.
async fn a_driver_has_a_webkit(stage: Stage) -> Result<()> {
    let body = json!({"browser_type": "webkit", "headless": true, "recording": true});
    is_seen_again(&stage, body, json!({})).await
}
