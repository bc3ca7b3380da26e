//! A person's input in the live view of every engine: keys, text, clipboard, pointer, touch, and who has control.

use anyhow::{Context, Result};
use serde_json::json;
use warmpool_tests::programs::{self, Program};
use warmpool_tests::{Driver, Group, Settings, Stage, group};

pub(crate) fn group() -> Group {
    let settings = Settings::on_demand().set("POOL_MAX_WORKERS", "3");
    group!(Some(settings),
        quick: [],
        full: [
            on_chromium_without_a_window,
            on_chromium,
            on_firefox_without_a_window,
            on_firefox,
            on_webkit_without_a_window,
            on_webkit,
        ],
    )
}

/// One session, and everything that can be done to it. Its client is a WebDriver, which a pause holds.
async fn work(stage: &Stage, engine: &str, headless: bool) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let name = format!("{engine}-{}", if headless { "headless" } else { "headed" });
    let body = json!({"browser_type": engine, "headless": headless});
    let session = daemon.webdriver(body).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    driver.goto(&format!("{site}/input/{name}")).await?;
    // By a link, as another person would: a WebDriver session's reply has no live view URL.
    let share = daemon.api().post(&format!("/sessions/{}/share", session.id), &json!({"enable_actions": true})).await?;
    let program = Program::node(&programs::clients(), "live_input.mjs").await?.of(daemon);
    program
        .env("NAME", &name)
        .env("SITE_URL", site)
        .env("STREAM_URL", share.ok()?["url"].as_str().context("url")?.replace("&enable_actions=true", ""))
        .env("DRIVER_URL", format!("{}session/{}", session.connect_url()?, driver.id()))
        .env("TOUCH", if headless && engine == "chromium" { "true" } else { "false" })
        .results()
        .await
        .context(name)?;
    driver.quit().await
}

async fn on_chromium_without_a_window(stage: Stage) -> Result<()> {
    work(&stage, "chromium", true).await
}

async fn on_chromium(stage: Stage) -> Result<()> {
    work(&stage, "chromium", false).await
}

async fn on_firefox_without_a_window(stage: Stage) -> Result<()> {
    work(&stage, "firefox", true).await
}

async fn on_firefox(stage: Stage) -> Result<()> {
    work(&stage, "firefox", false).await
}

async fn on_webkit_without_a_window(stage: Stage) -> Result<()> {
    work(&stage, "webkit", true).await
}

async fn on_webkit(stage: Stage) -> Result<()> {
    work(&stage, "webkit", false).await
}
