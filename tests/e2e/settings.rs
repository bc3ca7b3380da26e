//! `settings` are true in every page, context and popup, as the page itself sees them; the client's own word wins.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::{Cdp, Driver, Group, Session, Settings, Stage, eventually, group};

const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64) WarmpoolTest/7.1";

pub(crate) fn group() -> Group {
    let settings = Settings::new().set("POOL_CHROMIUM_HEADED", "1");
    group!("settings", Some(settings),
        quick: [hold_everywhere_headless],
        full: [hold_everywhere_headed, hold_under_webdriver, the_clients_own_override_wins, none_leave_no_trace],
    )
}

fn wanted() -> Value {
    json!({"locales": ["de-DE", "fr-FR"], "user_agent": AGENT, "viewport": {"width": 1000, "height": 640}})
}

/// What a page reported agrees with [`wanted`].
fn check(report: &Value, whole_window: bool) -> Result<()> {
    for place in ["top", "frame", "worker"] {
        let seen = &report[place];
        ensure!(seen["userAgent"] == AGENT, "{place}: {seen}");
        ensure!(seen["languages"] == json!(["de-DE", "fr-FR"]), "{place}: {seen}");
        ensure!(seen["intl"] == "de-DE", "{place}: {seen}");
    }
    let top = &report["top"];
    ensure!(top["language"] == "de-DE" && top["number"] == "1.234,5", "{top}");
    if whole_window {
        ensure!(top["inner"] == json!({"width": 1000, "height": 640}), "{top}");
        // Not the outer size: while a viewport is emulated, Chromium itself reports the real window's, or 0 at first.
        ensure!(top["screen"]["width"].as_u64() >= Some(1000), "the screen holds the page: {top}");
    }
    for headers in [&report["headers"], &report["worker"]["headers"]] {
        ensure!(headers["user-agent"] == AGENT, "{headers}");
        let language = headers["accept-language"].as_str().context("accept-language")?;
        ensure!(language.starts_with("de-DE,") && language.contains("fr-FR"), "{language}");
    }
    Ok(())
}

async fn report(stage: &Stage, name: &str) -> Result<Value> {
    eventually!(format!("the page {name} reports"), 30, stage.site().report(name))
}

/// A page in a context of its own, loading this address.
async fn open_in_new_context(cdp: &mut Cdp, url: &str) -> Result<()> {
    let context = cdp.call("Target.createBrowserContext", json!({})).await?;
    let place = json!({"url": url, "browserContextId": context["browserContextId"]});
    cdp.call("Target.createTarget", place).await?;
    Ok(())
}

async fn hold_everywhere(stage: Stage, headless: bool) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let name = |place: &str| format!("{place}-{headless}");
    let probe = |place: &str| format!("{site}/probe/{}", name(place));
    let body = json!({"headless": headless, "settings": wanted(), "url": probe("first")});
    let session = Session::create(&daemon.api(), &body).await?;
    check(&report(&stage, &name("first")).await?, true).context("the first tab")?;

    let mut cdp = session.cdp().await?;
    let tab = cdp.open(&probe("tab")).await?;
    check(&report(&stage, &name("tab")).await?, true).context("a new tab")?;
    cdp.evaluate(&tab, &format!("void window.open('{}', 'p', 'width=500,height=400')", probe("popup"))).await?;
    check(&report(&stage, &name("popup")).await?, false).context("a popup")?;
    open_in_new_context(&mut cdp, &probe("context")).await?;
    check(&report(&stage, &name("context")).await?, true).context("a new context")?;

    // A second client changes nothing, and a first one that left takes nothing with it.
    cdp.disconnect().await?;
    let mut again = session.cdp().await?;
    again.open(&probe("again")).await?;
    check(&report(&stage, &name("again")).await?, true).context("after another attach")?;
    session.delete().await?.ok()?;
    Ok(())
}

async fn hold_everywhere_headless(stage: Stage) -> Result<()> {
    hold_everywhere(stage, true).await
}

async fn hold_everywhere_headed(stage: Stage) -> Result<()> {
    hold_everywhere(stage, false).await
}

async fn hold_under_webdriver(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.webdriver(json!({"settings": wanted()})).await?;
    let driver = Driver::start(session.connect_url()?, json!({"browserName": "chrome"})).await?;
    driver.goto(&format!("{site}/probe/driver")).await?;
    check(&report(&stage, "driver").await?, true)?;
    driver.quit().await?;
    Ok(())
}

async fn the_clients_own_override_wins(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({"settings": wanted()})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.open("about:blank").await?;
    cdp.call_in(&page, "Network.setUserAgentOverride", json!({"userAgent": "Own/1", "acceptLanguage": "it-IT"}))
        .await?;
    let size = json!({"width": 333, "height": 222, "deviceScaleFactor": 1, "mobile": false});
    cdp.call_in(&page, "Emulation.setDeviceMetricsOverride", size).await?;
    cdp.call_in(&page, "Page.navigate", json!({"url": format!("{site}/probe/own")})).await?;
    let report = report(&stage, "own").await?;
    ensure!(report["top"]["userAgent"] == "Own/1", "{report}");
    ensure!(report["top"]["languages"] == json!(["it-IT"]), "{report}");
    ensure!(report["top"]["inner"] == json!({"width": 333, "height": 222}), "{report}");
    ensure!(report["headers"]["user-agent"] == "Own/1", "{report}");
    session.delete().await?.ok()?;
    Ok(())
}

async fn none_leave_no_trace(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({"url": format!("{site}/probe/plain")})).await?;
    let report = report(&stage, "plain").await?;
    let agent = report["top"]["userAgent"].as_str().context("userAgent")?;
    ensure!(agent.contains("Chrome/") && report["headers"]["user-agent"] == agent, "{report}");
    ensure!(report["top"]["webdriver"] != true, "nobody drives this page: {report}");
    session.delete().await?.ok()?;
    Ok(())
}
