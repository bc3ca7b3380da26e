//! Real clients, whole flows, and how the session ends after each.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use warmpool_tests::programs::{self, Program};
use warmpool_tests::{Group, Settings, Stage, eventually, flows, group};

const ENGINE: &str = "chromium";

pub(crate) fn group() -> Group {
    let settings = Settings::new().set("POOL_CHROMIUM_HEADED", "1");
    group!(Some(settings),
        quick: [puppeteer_closes, selenium_python_quits, a_tunnel_is_a_debugging_port],
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

async fn a_tunnel_is_a_debugging_port(stage: Stage) -> Result<()> {
    for headed in [false, true] {
        tunnel(&stage, headed).await?;
    }
    Ok(())
}

async fn tunnel(stage: &Stage, headed: bool) -> Result<()> {
    let daemon = stage.daemon()?;
    let mut command = daemon.command(&["tunnel", "--port", "0"]);
    command.args(headed.then_some("--headed"));
    command.env("WARMPOOL_URL", daemon.url()).env("WARMPOOL_SECRET_KEY", daemon.key());
    command.stdout(Stdio::piped());
    let mut tunnel = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
    let mut said = BufReader::new(tunnel.stdout.take().context("its output")?).lines();
    let line = said.next_line().await?.context("a line")?;
    let address = line.strip_prefix("listening on ").with_context(|| line.clone())?;
    let program = Program::node(&programs::clients(), "tunnel.mjs").await?;
    let program = program.env("TUNNEL", address).env("SITE_URL", &stage.site_for(daemon).await?);
    let program = program.env("HEADED", if headed { "1" } else { "" });
    ensure!(program.run().await?.contains("title: Test site"));
    // Its last client closed the browser.
    let ended = tokio::time::timeout(Duration::from_secs(30), tunnel.wait()).await.context("the tunnel goes on")??;
    ensure!(ended.success(), "{ended}");
    let api = daemon.api();
    eventually!(
        "its session has ended",
        15,
        api.get("/sessions?status=running").await?.ok()?["meta"]["totalRecords"] == 0
    )
}

async fn fantoccini_closes(stage: Stage) -> Result<()> {
    flows::fantoccini_closes(&stage, ENGINE).await
}
