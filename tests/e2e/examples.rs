//! The short programs under `examples/`, run as a newcomer would.

use anyhow::{Result, ensure};
use warmpool_tests::programs::{self, Program};
use warmpool_tests::{Group, Settings, Stage, group, suite};

pub(crate) fn group() -> Group {
    group!("examples", Some(Settings::new()),
        quick: [curl],
        full: [puppeteer, playwright, selenium_node, selenium_python, fantoccini],
    )
}

/// Runs an example on the site's first page; it prints the page's title.
async fn shows_the_title(stage: &Stage, program: Program) -> Result<()> {
    let daemon = stage.daemon()?;
    let page = format!("{}/", stage.site_for(daemon).await?);
    let said = program.of(daemon).arg(&page).run().await?;
    ensure!(said.contains("title: Test site"), "{said}");
    Ok(())
}

async fn puppeteer(stage: Stage) -> Result<()> {
    shows_the_title(&stage, Program::node(&programs::examples(), "puppeteer.mjs").await?).await
}

async fn playwright(stage: Stage) -> Result<()> {
    shows_the_title(&stage, Program::node(&programs::examples(), "playwright.mjs").await?).await
}

async fn selenium_node(stage: Stage) -> Result<()> {
    shows_the_title(&stage, Program::node(&programs::examples(), "selenium.mjs").await?).await
}

async fn selenium_python(stage: Stage) -> Result<()> {
    shows_the_title(&stage, Program::python(&programs::examples(), "selenium_example.py").await?).await
}

async fn fantoccini(stage: Stage) -> Result<()> {
    shows_the_title(&stage, Program::binary(&suite::example("fantoccini")?)?).await
}

async fn curl(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let page = format!("{}/", stage.site_for(daemon).await?);
    let said = Program::shell(&programs::examples(), "curl.sh")?.of(daemon).arg(&page).run().await?;
    ensure!(said.contains("created: {") && said.contains("\"terminated\""), "{said}");
    Ok(())
}
