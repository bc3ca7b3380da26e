//! The recipes for agents, as `examples/agents` has them: each MCP server is started and asked for a page, and browser-use
//! opens one.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use warmpool_tests::programs::{Program, examples};
use warmpool_tests::{Group, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()), quick: [], full: [playwright_mcp, chrome_devtools_mcp, browser_use])
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("agents")
}

/// Starts the server of a recipe with this daemon's address and key in place of the example's, lets it open a page, and
/// checks what the agent sees and which session it was.
async fn browses(stage: &Stage, recipe: &str) -> Result<()> {
    let daemon = stage.daemon()?;
    let text = std::fs::read_to_string(examples().join("agents").join(recipe))?;
    let text =
        text.replace("127.0.0.1:4444", daemon.url().trim_start_matches("http://")).replace("YOUR_KEY", daemon.key());
    let recipe: Value = serde_json::from_str(&text)?;
    let server = &recipe["mcpServers"]["browser"];
    ensure!(server["command"] == "npx", "{server}");
    let mut arguments = server["args"].as_array().context("args")?.iter().filter_map(Value::as_str);
    let (name, version) = arguments.next().and_then(|package| package.rsplit_once('@')).context("a package")?;
    // The test has the very version that the recipe names.
    let lock: Value = serde_json::from_str(&std::fs::read_to_string(folder().join("package.json"))?)?;
    ensure!(lock["dependencies"][name] == version, "{name}: the recipe has {version}, the tests {lock}");
    let mut program = Program::node(&folder(), "mcp.mjs").await?.arg(name);
    for argument in arguments {
        program = program.arg(argument);
    }
    for (variable, value) in server["env"].as_object().into_iter().flatten() {
        program = program.env(variable, value.as_str().context("a string")?);
    }
    let results = program.env("SITE_URL", &stage.site_for(daemon).await?).results().await?;
    ensure!(results["tools"].as_u64().is_some_and(|tools| tools > 10), "{results}");
    ensure!(results["snapshot"].as_str().is_some_and(|shown| shown.contains("Test site")), "{results}");
    let api = daemon.api();
    let session = async || anyhow::Ok(api.get("/sessions?limit=1").await?.ok()?["sessions"][0].clone());
    eventually!("its session has ended with the server", 20, session().await?["status"] == "completed")?;
    let last = session().await?;
    ensure!(last["session_timeout"] == 3600 && last["idle_timeout"] == 900, "{last}");
    Ok(())
}

async fn playwright_mcp(stage: Stage) -> Result<()> {
    browses(&stage, "playwright-mcp.json").await
}

async fn chrome_devtools_mcp(stage: Stage) -> Result<()> {
    browses(&stage, "chrome-devtools-mcp.json").await
}

async fn browser_use(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let program = Program::python(&examples().join("agents"), "browser_use_example.py").await?.of(daemon);
    let program = program.env("SITE_URL", stage.site_for(daemon).await?).env("ANONYMIZED_TELEMETRY", "false");
    let said = program.run().await?;
    ensure!(said.lines().any(|line| line == "Test site"), "{said}");
    let last = &daemon.api().get("/sessions?limit=1").await?.ok()?["sessions"][0];
    ensure!(last["session_timeout"] == 3600 && last["idle_timeout"] == 900, "{last}");
    Ok(())
}
