//! The page that a session begins with: clients find it whenever they connect, and the record says when it did not load.

use anyhow::{Context as _, Result};
use serde_json::json;
use warmpool_tests::{Group, Settings, Stage, eventually, flows, group};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [],
        full: [
            puppeteer_finds_the_first_page,
            playwright_finds_the_first_page,
            selenium_finds_the_first_page,
            other_engines_have_a_first_page,
            a_page_that_does_not_load_is_in_the_record,
            a_page_that_posts_a_large_form_goes_on,
        ],
    )
}

async fn finds(stage: &Stage, engine: &str, client: &str, times: usize) -> Result<()> {
    let site = stage.site_for(stage.daemon()?).await?;
    // Each with the title that it ends with.
    let addresses = json!([
        [format!("{site}/"), "Test site"],
        [format!("{site}/redirect?to=/button"), "Button"],
        [format!("{site}/slow?ms=700"), "Slow"],
        ["http://nowhere.invalid/", null],
        ["data:text/html,<title>short</title>", "short"],
        // On to another site, so to another process.
        [format!("data:text/html,<script>location.replace('{site}/')</script>"), "Test site"],
    ]);
    let program = flows::node(stage, engine, "first_page.mjs").await?.env("HEADLESS", "true");
    program
        .env("CLIENT", client)
        .env("ADDRESSES", addresses.to_string())
        .env("TIMES", times.to_string())
        .results()
        .await?;
    Ok(())
}

async fn puppeteer_finds_the_first_page(stage: Stage) -> Result<()> {
    finds(&stage, "chromium", "puppeteer", 2).await
}

async fn playwright_finds_the_first_page(stage: Stage) -> Result<()> {
    finds(&stage, "chromium", "playwright", 1).await
}

async fn selenium_finds_the_first_page(stage: Stage) -> Result<()> {
    finds(&stage, "chromium", "selenium", 1).await
}

async fn other_engines_have_a_first_page(stage: Stage) -> Result<()> {
    for (engine, client) in
        [("firefox", "puppeteer"), ("firefox", "selenium"), ("webkit", "playwright"), ("webkit", "selenium")]
    {
        finds(&stage, engine, client, 1).await.with_context(|| format!("{engine}: {client}"))?;
    }
    Ok(())
}

async fn a_page_that_does_not_load_is_in_the_record(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    for engine in ["chromium", "firefox", "webkit"] {
        let body = |url: &str| json!({"browser_type": engine, "headless": true, "url": url});
        let session = daemon.session(body("http://nowhere.invalid/")).await?;
        let reason = eventually!(format!("{engine}: the record says why"), 60, {
            session.record().await?["page_error"].as_str().filter(|reason| !reason.is_empty()).map(str::to_owned)
        })?;
        // Not what a SOCKS proxy can say of it.
        anyhow::ensure!(reason.ends_with("(there is no such host)") && !reason.contains("SOCKS"), "{engine}: {reason}");
        anyhow::ensure!(engine != "chromium" || reason.starts_with("net::ERR_NAME_NOT_RESOLVED "), "{reason}");
        session.delete().await?.ok()?;
        anyhow::ensure!(session.record().await?["page_error"] == reason, "{engine}: the record keeps it");

        let session = daemon.session(body(&format!("{site}/kept"))).await?;
        eventually!(format!("{engine}: the page is asked for"), 30, {
            (!stage.site().hits("/kept").is_empty()).then_some(())
        })?;
        anyhow::ensure!(session.record().await?["page_error"].is_null(), "{engine}");
        session.delete().await?.ok()?;
    }
    Ok(())
}

/// Chromium pauses what the first page leads on to together with all that it posts, which is longer than any message here.
async fn a_page_that_posts_a_large_form_goes_on(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let page = format!(
        "data:text/html,<form method=post action='{site}/length'><input type=hidden name=a></form>\
         <script>document.querySelector('input').value='x'.repeat(1<<25);document.forms[0].submit()</script>"
    );
    for settings in [json!({}), json!({"user_agent": "form/1"})] {
        let body = json!({"browser_type": "chromium", "headless": true, "url": page, "settings": settings});
        let session = daemon.session(body).await?;
        let mut cdp = session.cdp().await?;
        let tab = cdp.first_page().await?;
        eventually!("the answer to the form is there", 60, {
            let text = cdp.evaluate(&tab, "location.pathname + document.body.innerText").await.unwrap_or_default();
            (text == "/length33554434").then_some(())
        })?;
        let wanted = settings["user_agent"].as_str();
        let other = cdp.open(&format!("{site}/tab/1")).await?;
        eventually!("a new tab is there, with the session's settings", 20, {
            let seen = cdp.evaluate(&other, "document.title + navigator.userAgent").await.unwrap_or_default();
            let seen = seen.as_str().unwrap_or_default();
            (seen.starts_with("Tab 1") && wanted.is_none_or(|wanted| seen.ends_with(wanted))).then_some(())
        })?;
        anyhow::ensure!(session.record().await?["page_error"].is_null(), "{}", session.record().await?);
        session.delete().await?.ok()?;
    }
    Ok(())
}
