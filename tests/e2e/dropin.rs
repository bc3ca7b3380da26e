//! Clients of Selenium Grid, Selenoid and browserless, and Playwright's and Puppeteer's short forms: one URL changes.

use anyhow::{Result, ensure};
use serde_json::Value;
use warmpool_tests::programs::Program;
use warmpool_tests::{Group, Settings, Stage, flows, group};

pub(crate) fn group() -> Group {
    let settings = Settings::new().set("POOL_CHROMIUM_HEADED", "1");
    group!(Some(settings),
        quick: [selenium_node_by_url, puppeteer_by_socket, playwright_by_url],
        full: [
            selenium_node_below_wd_hub,
            selenium_node_downloads,
            selenium_python_by_url,
            selenium_python_below_wd_hub,
            playwright_launches_on_the_grid,
            playwright_launches_below_wd_hub,
            playwright_by_header,
            puppeteer_by_url,
            puppeteer_leaves_nothing,
            puppeteer_with_launch_options,
            selenium_node_on_firefox,
            selenium_node_on_webkit,
            selenium_python_on_firefox,
            selenium_python_on_webkit,
            puppeteer_on_firefox,
            playwrights_own_protocol_is_refused_in_words,
        ],
    )
}

async fn node(stage: &Stage, flow: &str) -> Result<Program> {
    Ok(flows::node(stage, "chromium", "dropin.mjs").await?.env("FLOW", flow))
}

async fn ends(stage: &Stage, program: Program, status: &str, reason: &str) -> Result<Value> {
    let results = program.results().await?;
    flows::ended(stage.daemon()?, &results, status, reason).await?;
    Ok(results)
}

async fn selenium_node_by_url(stage: Stage) -> Result<()> {
    ends(&stage, node(&stage, "selenium").await?, "terminated", "driver_quit").await.map(drop)
}

async fn selenium_node_below_wd_hub(stage: Stage) -> Result<()> {
    let program = node(&stage, "selenium").await?.env("GRID_PATH", "/wd/hub");
    ends(&stage, program, "terminated", "driver_quit").await.map(drop)
}

async fn selenium_node_downloads(stage: Stage) -> Result<()> {
    ends(&stage, node(&stage, "seleniumDownloads").await?, "terminated", "driver_quit").await.map(drop)
}

async fn python(stage: &Stage) -> Result<Program> {
    flows::python(stage, "chromium", "dropin_flow.py").await
}

async fn selenium_python_by_url(stage: Stage) -> Result<()> {
    let results = ends(&stage, python(&stage).await?, "terminated", "driver_quit").await?;
    let record = flows::becomes(stage.daemon()?, &results, "terminated").await?;
    ensure!(record["app_name"] == "drop-in" && record["idle_timeout"] == 150, "{record}");
    Ok(())
}

async fn selenium_python_below_wd_hub(stage: Stage) -> Result<()> {
    // With a slash at the end, as many write it.
    ends(&stage, python(&stage).await?.env("GRID_PATH", "/wd/hub/"), "terminated", "driver_quit").await.map(drop)
}

async fn playwright_grid(stage: &Stage, path: &str) -> Result<()> {
    let daemon = stage.daemon()?;
    let headers = serde_json::json!({"service-secret-key": daemon.key()}).to_string();
    let program = node(stage, "playwrightOnGrid").await?;
    let program = program.env("SELENIUM_REMOTE_URL", format!("{}{path}", daemon.url()));
    let results = ends(stage, program.env("SELENIUM_REMOTE_HEADERS", headers), "terminated", "driver_quit").await?;
    ensure!(results["headless"] == true, "{results}");
    Ok(())
}

async fn playwright_launches_on_the_grid(stage: Stage) -> Result<()> {
    playwright_grid(&stage, "").await
}

async fn playwright_launches_below_wd_hub(stage: Stage) -> Result<()> {
    playwright_grid(&stage, "/wd/hub").await
}

async fn playwright_by_url(stage: Stage) -> Result<()> {
    let results = node(&stage, "playwrightByUrl").await?.results().await?;
    flows::becomes(stage.daemon()?, &results, "completed").await.map(drop)
}

async fn playwright_by_header(stage: Stage) -> Result<()> {
    let results = node(&stage, "playwrightByHeader").await?.results().await?;
    flows::becomes(stage.daemon()?, &results, "completed").await.map(drop)
}

async fn puppeteer_by_socket(stage: Stage) -> Result<()> {
    ends(&stage, node(&stage, "puppeteerBySocket").await?, "completed", "browser_closed").await.map(drop)
}

async fn puppeteer_by_url(stage: Stage) -> Result<()> {
    ends(&stage, node(&stage, "puppeteerByUrl").await?, "completed", "browser_closed").await.map(drop)
}

async fn puppeteer_leaves_nothing(stage: Stage) -> Result<()> {
    let program = node(&stage, "puppeteerBySocket").await?.env("END", "disconnect");
    ends(&stage, program, "completed", "disconnected").await.map(drop)
}

async fn puppeteer_with_launch_options(stage: Stage) -> Result<()> {
    ends(&stage, node(&stage, "puppeteerLaunch").await?, "completed", "browser_closed").await.map(drop)
}

async fn selenium_node_on_firefox(stage: Stage) -> Result<()> {
    let program = node(&stage, "selenium").await?.env("BROWSER", "firefox");
    ends(&stage, program, "terminated", "driver_quit").await.map(drop)
}

async fn selenium_node_on_webkit(stage: Stage) -> Result<()> {
    let program = node(&stage, "selenium").await?.env("BROWSER", "MiniBrowser");
    ends(&stage, program, "terminated", "driver_quit").await.map(drop)
}

async fn selenium_python_on_firefox(stage: Stage) -> Result<()> {
    ends(&stage, python(&stage).await?.env("BROWSER", "firefox"), "terminated", "driver_quit").await.map(drop)
}

async fn selenium_python_on_webkit(stage: Stage) -> Result<()> {
    ends(&stage, python(&stage).await?.env("BROWSER", "MiniBrowser"), "terminated", "driver_quit").await.map(drop)
}

async fn puppeteer_on_firefox(stage: Stage) -> Result<()> {
    ends(&stage, node(&stage, "puppeteerOnFirefox").await?, "completed", "browser_closed").await.map(drop)
}

async fn playwrights_own_protocol_is_refused_in_words(stage: Stage) -> Result<()> {
    node(&stage, "playwrightConnect").await?.results().await?;
    Ok(())
}
