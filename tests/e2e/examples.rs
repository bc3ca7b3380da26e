//! The short programs under `examples/`, run as a newcomer would.

use anyhow::{Context, Result, ensure};
use warmpool_tests::programs::{self, Program};
use warmpool_tests::{Group, Settings, Stage, eventually, group, suite};

/// What `browser_type` may be.
const ENGINES: [&str; 3] = ["chromium", "firefox", "webkit"];

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [curl],
        full: [
            puppeteer,
            puppeteer_on_firefox,
            playwright,
            playwright_on_webkit,
            selenium_node,
            selenium_python,
            fantoccini,
        ],
    )
}

/// Runs an example on the site's first page; it prints the page's title.
async fn shows_the_title(stage: &Stage, program: Program) -> Result<()> {
    let daemon = stage.daemon()?;
    let page = format!("{}/", stage.site_for(daemon).await?);
    let said = program.of(daemon).arg(&page).run().await?;
    ensure!(said.contains("title: Test site"), "{said}");
    let api = daemon.api();
    eventually!(
        "its session has ended",
        15,
        api.get("/sessions?status=running").await?.ok()?["meta"]["totalRecords"] == 0
    )
}

async fn node(stage: &Stage, file: &str) -> Result<()> {
    shows_the_title(stage, Program::node(&programs::examples(), file).await?).await
}

async fn puppeteer(stage: Stage) -> Result<()> {
    node(&stage, "puppeteer.mjs").await
}

async fn puppeteer_on_firefox(stage: Stage) -> Result<()> {
    node(&stage, "puppeteer_firefox.mjs").await
}

async fn playwright(stage: Stage) -> Result<()> {
    node(&stage, "playwright.mjs").await
}

async fn playwright_on_webkit(stage: Stage) -> Result<()> {
    node(&stage, "playwright_webkit.mjs").await
}

async fn selenium_node(stage: Stage) -> Result<()> {
    for engine in ENGINES {
        let program = Program::node(&programs::examples(), "selenium.mjs").await?.env("BROWSER_TYPE", engine);
        shows_the_title(&stage, program).await.context(engine)?;
    }
    Ok(())
}

async fn selenium_python(stage: Stage) -> Result<()> {
    for engine in ENGINES {
        let program = Program::python(&programs::examples(), "selenium_example.py").await?.env("BROWSER_TYPE", engine);
        shows_the_title(&stage, program).await.context(engine)?;
    }
    Ok(())
}

async fn fantoccini(stage: Stage) -> Result<()> {
    for engine in ENGINES {
        let program = Program::binary(&suite::example("fantoccini")?)?.env("BROWSER_TYPE", engine);
        shows_the_title(&stage, program).await.context(engine)?;
    }
    Ok(())
}

async fn curl(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let page = format!("{}/", stage.site_for(daemon).await?);
    let said = Program::shell(&programs::examples(), "curl.sh")?.of(daemon).arg(&page).run().await?;
    ensure!(said.contains("created: {") && said.contains("\"terminated\""), "{said}");
    Ok(())
}
