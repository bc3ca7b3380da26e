//! Clients of Selenium Grid, Selenoid and browserless, and Playwright's and Puppeteer's short forms: one URL changes.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::programs::Program;
use warmpool_tests::{Cdp, Group, Settings, Stage, eventually, flows, group};

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
            selenoids_addresses_lead_to_the_session,
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

/// Downloads, DevTools and the log by Selenoid's addresses, and the grid as KEDA's scaler sees it.
async fn selenoids_addresses_lead_to_the_session(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let wanted = json!({"browserName": "chrome", "selenoid:options": {"enableLog": true}});
    let body = json!({"capabilities": {"alwaysMatch": wanted}});
    let reply = api.post("/wd/hub/session", &body).await?.ok()?;
    let id = reply["value"]["sessionId"].as_str().context("sessionId")?.to_owned();
    // Who has the id needs no key.
    let stranger = api.without_key();
    let grid = stranger.post("/graphql", &json!({"query": "{ grid { sessionCount } }"})).await?.ok()?["data"].clone();
    let node = &grid["nodesInfo"]["nodes"][0];
    ensure!(grid["grid"]["sessionCount"].as_u64() >= Some(1) && node["status"] == "UP", "{grid}");
    let capabilities = node["sessions"][0]["capabilities"].as_str().context("capabilities")?;
    ensure!(serde_json::from_str::<Value>(capabilities)?["browserName"].is_string(), "{capabilities}");
    ensure!(!grid.to_string().contains(&id), "an id opens its session");

    let socket = format!("{}/devtools/{id}", daemon.url().replacen("http", "ws", 1));
    for address in [socket.clone(), format!("{socket}/page")] {
        let mut cdp = Cdp::connect(&address).await?;
        let page = cdp.first_page().await?;
        ensure!(cdp.evaluate(&page, "console.log('by Selenoid') || 1 + 1").await? == 2);
        cdp.disconnect().await?;
    }
    stranger.post(&format!("/wd/hub/session/{id}/url"), &json!({"url": format!("{site}/downloads")})).await?.ok()?;
    let click = json!({"script": "document.links[0].click()", "args": []});
    stranger.post(&format!("/wd/hub/session/{id}/execute/sync"), &click).await?.ok()?;
    let listed = async || -> Result<Value> { stranger.get(&format!("/download/{id}")).await?.ok() };
    eventually!("the download is listed", 20, listed().await? == json!(["file.bin"]))?;
    let file = eventually!("the download is whole", 20, {
        let file = stranger.get(&format!("/download/{id}/file.bin")).await?;
        (file.status == 200).then_some(file)
    })?;
    ensure!(!file.body.is_empty());
    let log = stranger.get(&format!("/logs/{id}")).await?;
    ensure!(log.status == 200 && log.text().contains("console by Selenoid"), "{log}");
    ensure!(stranger.delete(&format!("/download/{id}/file.bin")).await?.status == 204);
    for path in ["download", "logs"] {
        stranger.get(&format!("/{path}/nonsense")).await?.fault(401)?;
    }
    stranger.delete(&format!("/wd/hub/session/{id}")).await?.ok()?;
    stranger.get(&format!("/download/{id}")).await?.fault(404)?;
    Ok(())
}
