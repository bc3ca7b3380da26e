//! What of a live view lasts: recordings of every engine and within their limits, links and views across the death of
//! the daemon, and all of it behind a proxy.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::programs::{self, Program};
use warmpool_tests::{Daemon, Driver, Group, Proxy, Session, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    let settings = cold().set("RECORDING_MAX_SIZE", "1MiB");
    group!(Some(settings),
        quick: [],
        full: [
            recordings_of_other_engines_show_all_windows,
            a_recording_stops_at_its_limit,
            views_and_recordings_outlive_a_killed_daemon,
            a_proxy_may_stand_in_front,
        ],
    )
}

fn cold() -> Settings {
    Settings::on_demand().set("POOL_MAX_WORKERS", "3")
}

async fn viewer(daemon: &Daemon, flow: &str) -> Result<Program> {
    Ok(Program::node(&programs::clients(), "viewer.mjs").await?.of(daemon).env("FLOW", flow))
}

async fn parts(daemon: &Daemon, session: &Session) -> Result<Vec<Value>> {
    let listed = daemon.api().get(&format!("/sessions/{}/recording", session.id)).await?.ok()?;
    Ok(listed["parts"].as_array().context("parts")?.clone())
}

/// Waits until the newest part is larger than this many bytes; returns how large it is.
async fn grows(daemon: &Daemon, session: &Session, beyond: u64) -> Result<u64> {
    eventually!(format!("more than {beyond} bytes"), 20, {
        let size = parts(daemon, session).await?.last().and_then(|part| part["size"].as_u64());
        size.filter(|size| *size > beyond)
    })
}

/// Changes something small in the page until what it looks like now has surely been recorded, whatever is on its way.
async fn is_recorded(daemon: &Daemon, session: &Session, driver: &Driver) -> Result<()> {
    for _ in 0..5 {
        let size = grows(daemon, session, 0).await?;
        driver.execute("document.body.append('again and again ')").await?;
        grows(daemon, session, size).await?;
    }
    Ok(())
}

/// Plays a part in a browser.
async fn play(daemon: &Daemon, session: &Session, part: &Value) -> Result<Value> {
    let name = part["name"].as_str().context("name")?;
    let url = format!("{}/sessions/{}/recording/{name}", daemon.url(), session.id);
    viewer(daemon, "play").await?.env("VIDEO_URL", url).results().await
}

async fn recordings_of_other_engines_show_all_windows(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let turn = format!("{}/turn", stage.site_for(daemon).await?);
    for (engine, headless) in [("firefox", true), ("firefox", false), ("webkit", true), ("webkit", false)] {
        let name = format!("{engine}, headless {headless}");
        let body = json!({"browser_type": engine, "headless": headless, "recording": true});
        let session = daemon.webdriver(body).await?;
        let driver = Driver::start(session.connect_url()?, json!({})).await?;
        driver.goto(&turn).await?;
        driver.execute("document.documentElement.click()").await?;
        is_recorded(daemon, &session, &driver).await?;
        let window = driver.command(http::Method::POST, "/window/new", &json!({"type": "window"})).await?.ok()?;
        let handle = json!({"handle": window["value"]["handle"]});
        driver.command(http::Method::POST, "/window", &handle).await?.ok()?;
        driver.goto(&turn).await?;
        is_recorded(daemon, &session, &driver).await?;
        session.delete().await?.ok()?;
        let part = eventually!("it is complete", 10, {
            let parts = parts(daemon, &session).await?;
            parts.into_iter().find(|part| part["complete"] == true && part["duration"].as_u64() > Some(0))
        })?;
        let played = play(daemon, &session, &part).await.with_context(|| name.clone())?;
        ensure!(played["width"].as_u64() >= Some(1280), "{name}: {played}");
        let seconds = part["duration"].as_f64().context("duration")? / 1000.0;
        ensure!(
            played["seconds"].as_f64().is_some_and(|played| (played - seconds).abs() < 0.2),
            "{name}: {part} {played}"
        );
        let colours = played["colours"].as_array().context("colours")?;
        ensure!(colours.contains(&json!("blue")), "the first window, {name}: {played}");
        ensure!(colours.last() == Some(&json!("red")), "the second window, {name}: {played}");
    }
    Ok(())
}

async fn a_recording_stops_at_its_limit(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({"recording": true})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.first_page().await?;
    // Nothing makes larger pictures.
    let noise = "document.body.append(document.createElement('canvas')); \
        const context = Object.assign(document.querySelector('canvas'), { width: 1200, height: 700 }).getContext('2d'); \
        const data = context.createImageData(1200, 700); \
        (function draw() { for (let at = 0; at < data.data.length; at++) data.data[at] = at % 4 == 3 ? 255 : Math.random() * 256; \
        context.putImageData(data, 0, 0); requestAnimationFrame(draw); })()";
    cdp.evaluate(&page, noise).await?;
    let part = eventually!("it has stopped", 30, {
        let parts = parts(daemon, &session).await?;
        parts.into_iter().find(|part| part["stopped"] == "max_size")
    })?;
    ensure!(part["complete"] == true && part["size"].as_u64() <= Some(1 << 20), "{part}");
    ensure!(cdp.evaluate(&page, "6 * 7").await? == 42, "the session goes on");
    ensure!(parts(daemon, &session).await?.len() == 1);
    session.delete().await?.ok()?;
    Ok(())
}

async fn views_and_recordings_outlive_a_killed_daemon(stage: Stage) -> Result<()> {
    let mut daemon = Daemon::start(cold()).await?;
    let site = stage.site_for(&daemon).await?;
    let body = json!({"url": format!("{site}/turn"), "headless": false, "recording": true});
    let session = daemon.session(body).await?;
    let headless = daemon.session(json!({"url": format!("{site}/animation"), "recording": true})).await?;
    let path = format!("/sessions/{}/share", session.id);
    let share = daemon.api().post(&path, &json!({})).await?.ok()?;
    let revoked = daemon.api().post(&path, &json!({"enable_actions": true})).await?.ok()?;
    let id = revoked["share_id"].as_str().context("share_id")?;
    ensure!(daemon.api().delete(&format!("{path}/{id}")).await?.status == 204);
    let url = |share: &Value| share["url"].as_str().map(str::to_owned).context("url");
    grows(&daemon, &session, 500).await?;
    grows(&daemon, &headless, 20_000).await?;
    let program = viewer(&daemon, "outlive").await?;
    let watching = program
        .env("NAME", "outlive")
        .env("SITE_URL", &site)
        .env("STREAM_URL", session.url("livestream_url")?)
        .env("SHARE_URL", url(&share)?)
        .env("REVOKED_URL", url(&revoked)?)
        .results();
    let breaking = async {
        let reported = |what: &str| stage.site().report("outlive").is_some_and(|report| report["what"] == what);
        eventually!("the viewers watch", 40, reported("watching"))?;
        daemon.kill9().await?;
        eventually!("the viewers wait", 40, reported("waiting"))?;
        daemon.restart().await
    };
    let (watched, broken) = tokio::join!(watching, breaking);
    broken?;
    watched?;
    ensure!(daemon.api().get(&path).await?.ok()?["shares"] == json!([share]), "the one link, as it was");

    // What was being recorded has its end, and goes on in a further part.
    for session in [&session, &headless] {
        let parts = eventually!("the second part grows", 20, {
            let parts = parts(&daemon, session).await?;
            (parts.len() == 2 && parts[1]["size"].as_u64() > Some(500)).then_some(parts)
        })?;
        ensure!(parts[0]["complete"] == true && parts[0]["duration"].as_u64() > Some(0), "{parts:?}");
        ensure!(parts[1]["complete"] == false, "{parts:?}");
    }
    let first = &parts(&daemon, &session).await?[0];
    let played = play(&daemon, &session, first).await?;
    ensure!(
        played["colours"].as_array().is_some_and(|seen| seen.contains(&json!("red"))),
        "{played} {:?}",
        parts(&daemon, &session).await?
    );

    let seconds = first["duration"].as_f64().context("duration")? / 1000.0;
    ensure!(played["seconds"].as_f64().is_some_and(|played| (played - seconds).abs() < 0.2), "{first} {played}");

    // And stops before the disk is full, while the session goes on.
    let free = nix::sys::statvfs::statvfs(daemon.data_dir())?;
    let free = free.blocks_available() as u64 * free.fragment_size() as u64;
    daemon.kill9().await?;
    daemon.set("STORE_MIN_FREE", format!("{}MiB", (free >> 20) / 2 * 3));
    daemon.restart().await?;
    let parts_now = eventually!("no room", 30, {
        let parts = parts(&daemon, &session).await?;
        parts.last().is_some_and(|part| part["stopped"] == "disk").then_some(parts)
    })?;
    ensure!(parts_now.len() == 3 && parts_now[1]["complete"] == true, "{parts_now:?}");
    ensure!(session.status().await? == "running");
    for session in [&session, &headless] {
        session.delete().await?.ok()?;
        eventually!("all parts are complete", 10, {
            parts(&daemon, session).await?.iter().all(|part| part["complete"] == true)
        })?;
    }
    daemon.assert_idle().await
}

async fn a_proxy_may_stand_in_front(stage: Stage) -> Result<()> {
    let proxy = Proxy::start("/browsers", Duration::from_secs(3)).await?;
    let daemon = Daemon::start(cold().set("SERVER_PUBLIC_URL", proxy.url()).set("LIVE_PING_INTERVAL", "1s")).await?;
    proxy.leads_to(daemon.url());
    let site = stage.site_for(&daemon).await?;
    for headless in [true, false] {
        let session = daemon.session(json!({"url": format!("{site}/turn"), "headless": headless})).await?;
        let stream = session.url("livestream_url")?;
        ensure!(stream.starts_with(proxy.url()), "{stream}");
        let path = format!("/sessions/{}/share", session.id);
        let share = daemon.api().post(&path, &json!({})).await?.ok()?;
        let program = viewer(&daemon, "proxied").await?.env("STREAM_URL", stream);
        let before = proxy.websockets();
        program.env("SHARE_URL", share["url"].as_str().context("url")?).results().await?;
        ensure!(proxy.websockets() == before + 2, "one for each viewer");
        session.delete().await?.ok()?;
        // A container that goes changes this machine's network, and its browsers then break off what they are at.
        daemon.assert_idle().await?;
    }
    Ok(())
}
