//! Real clients, whole flows, and how the session ends after each.

use anyhow::Result;
use warmpool_tests::{Group, Settings, Stage, flows, group};

const ENGINE: &str = "chromium";

pub(crate) fn group() -> Group {
    let settings = Settings::new().set("POOL_CHROMIUM_HEADED", "1");
    group!(Some(settings),
        quick: [puppeteer_closes, selenium_python_quits],
        full: [puppeteer_leaves_and_comes_back, playwright_closes, selenium_node_quits, fantoccini_closes],
    )
}

async fn puppeteer_closes(stage: Stage) -> Result<()> {
    flows::puppeteer_closes(&stage, ENGINE).await
}

async fn puppeteer_leaves_and_comes_back(stage: Stage) -> Result<()> {
    flows::puppeteer_returns(&stage, ENGINE, false).await
}

async fn playwright_closes(stage: Stage) -> Result<()> {
    let program = flows::node(&stage, ENGINE, "playwright.mjs").await?.env("HEADLESS", "true");
    flows::becomes(stage.daemon()?, &program.results().await?, "completed").await.map(drop)
}

async fn selenium_node_quits(stage: Stage) -> Result<()> {
    flows::selenium_node_quits(&stage, ENGINE, false).await
}

async fn selenium_python_quits(stage: Stage) -> Result<()> {
    flows::selenium_python_quits(&stage, ENGINE).await
}

async fn fantoccini_closes(stage: Stage) -> Result<()> {
    flows::fantoccini_closes(&stage, ENGINE).await
}
