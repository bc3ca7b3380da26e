//! Tools that people point at Warmpool, each by a few lines under `examples/tools/`: it prints a page's title.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use warmpool_tests::programs::{self, Program};
use warmpool_tests::{Daemon, Group, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new().set("POOL_CHROMIUM_HEADLESS", "2")),
        quick: [the_guide_lists_what_runs],
        full: [
            tools_of_node,
            testcafe,
            tools_of_python,
            tools_of_rust,
            tools_of_node_behind_a_tunnel,
            tools_of_python_behind_a_tunnel,
        ],
    )
}

/// The tools that this group runs, by their files, and what runs each of them.
const NODE: [&str; 3] = ["webdriverio.mjs", "puppeteer_cluster.mjs", "crawlee.mjs"];
const NODE_RUNNERS: [&str; 2] = ["codeceptjs", "nightwatch"];
const TESTCAFE: &str = "testcafe.mjs";
const NODE_BEHIND_A_TUNNEL: [&str; 2] = ["lighthouse.mjs", "taiko.mjs"];
const PYTHON: [&str; 5] = [
    "splinter_example.py",
    "helium_example.py",
    "seleniumbase_example.py",
    "scrapy_playwright_example.py",
    "pydoll_example.py",
];
const ROBOT: &str = "title.robot";
const PYTHON_BEHIND_A_TUNNEL: [&str; 4] =
    ["drissionpage_example.py", "pychrome_example.py", "nodriver_example.py", "zendriver_example.py"];
const RUST: [&str; 3] = ["thirtyfour", "chromiumoxide", "headless_chrome"];

/// What the guide says of tools is what is run, all of it and no more.
async fn the_guide_lists_what_runs(_: Stage) -> Result<()> {
    let guide = std::fs::read_to_string(programs::examples().join("../orchestrator/docs/engines-and-clients.md"))?;
    let listed: BTreeSet<&str> = guide
        .split("](../../examples/tools/")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(file, _)| file)
        .collect();
    let node = NODE.iter().chain(&NODE_RUNNERS).chain([&TESTCAFE]).chain(&NODE_BEHIND_A_TUNNEL);
    let python = PYTHON.iter().chain([&ROBOT]).chain(&PYTHON_BEHIND_A_TUNNEL);
    let run: Vec<String> = node
        .map(|file| format!("node/{file}"))
        .chain(python.map(|file| format!("python/{file}")))
        .chain(RUST.iter().map(|program| format!("rust/src/bin/{program}.rs")))
        .collect();
    let run: BTreeSet<&str> = run.iter().map(String::as_str).collect();
    ensure!(listed == run, "the guide alone: {:?}; run alone: {:?}", &listed - &run, &run - &listed);
    Ok(())
}

fn folder(language: &str) -> PathBuf {
    programs::examples().join("tools").join(language)
}

/// Runs a tool on the site's first page, which is its argument.
async fn shows_the_title(stage: &Stage, tool: &str, program: Program) -> Result<()> {
    let page = format!("{}/", stage.site_for(stage.daemon()?).await?);
    runner_shows_the_title(stage, tool, program.arg(page)).await
}

/// Runs a runner of tests on the site's first page. It takes an argument for the name of a test, and the page from its
/// environment.
async fn runner_shows_the_title(stage: &Stage, tool: &str, program: Program) -> Result<()> {
    let daemon = stage.daemon()?;
    let page = format!("{}/", stage.site_for(daemon).await?);
    let said = program.of(daemon).env("PAGE", &page).run().await.with_context(|| tool.to_owned())?;
    ensure!(said.contains("title: Test site") || said.contains("title: yes"), "{tool}: {said}");
    Ok(())
}

async fn no_session_runs(stage: &Stage, tool: &str) -> Result<()> {
    let api = stage.daemon()?.api();
    let running = async || anyhow::Ok(api.get("/sessions?status=running").await?.ok()?["meta"]["totalRecords"].clone());
    eventually!(format!("{tool}: its session has ended"), 20, running().await? == 0)
}

async fn tools_of_node(stage: Stage) -> Result<()> {
    let folder = folder("node");
    for tool in NODE {
        shows_the_title(&stage, tool, Program::node(&folder, tool).await?).await?;
        no_session_runs(&stage, tool).await?;
    }
    let codecept = Program::node(&folder, "node_modules/codeceptjs/bin/codecept.js").await?;
    let codecept = codecept.arg("run").arg("--config").arg(folder.join("codeceptjs").to_string_lossy());
    runner_shows_the_title(&stage, "codeceptjs", codecept).await?;
    let nightwatch = Program::node(&folder, "node_modules/nightwatch/bin/runner.js").await?.within(&folder);
    let nightwatch = nightwatch.arg("--config").arg("nightwatch/nightwatch.conf.cjs");
    runner_shows_the_title(&stage, "nightwatch", nightwatch).await
}

/// The browser comes to TestCafe's own server, at the address that the daemon under test lets pages reach.
async fn testcafe(stage: Stage) -> Result<()> {
    let host = stage.site_for(stage.daemon()?).await?.parse::<http::Uri>()?.host().context("a host")?.to_owned();
    let program = Program::node(&folder("node"), TESTCAFE).await?.env("TESTCAFE_HOST", host);
    shows_the_title(&stage, TESTCAFE, program).await?;
    no_session_runs(&stage, TESTCAFE).await
}

async fn tools_of_python(stage: Stage) -> Result<()> {
    let folder = folder("python");
    for tool in PYTHON {
        shows_the_title(&stage, tool, Program::python(&folder, tool).await?).await?;
    }
    let mut robot = Program::python(&folder, ".venv/bin/robot").await?;
    for option in ["--output", "NONE", "--log", "NONE", "--report", "NONE"] {
        robot = robot.arg(option);
    }
    robot = robot.arg(folder.join(ROBOT).to_string_lossy());
    let daemon = stage.daemon()?;
    let page = format!("{}/", stage.site_for(daemon).await?);
    let said = robot.of(daemon).env("PAGE", &page).run().await.context("robot")?;
    ensure!(said.contains("title: Test site"), "robot: {said}");
    Ok(())
}

async fn tools_of_rust(stage: Stage) -> Result<()> {
    let folder = folder("rust");
    for tool in RUST {
        shows_the_title(&stage, tool, Program::cargo(&folder, tool).await?).await?;
        no_session_runs(&stage, tool).await?;
    }
    Ok(())
}

/// A tunnel that runs, and its port.
async fn tunnel(daemon: &Daemon) -> Result<(tokio::process::Child, String)> {
    let mut command = daemon.command(&["tunnel", "--port", "0"]);
    command.env("WARMPOOL_URL", daemon.url()).env("WARMPOOL_SECRET_KEY", daemon.key());
    command.stdout(Stdio::piped());
    let mut tunnel = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
    let mut said = BufReader::new(tunnel.stdout.take().context("its output")?).lines();
    let line = said.next_line().await?.context("its address")?;
    let port = line.rsplit(':').next().context("a port")?.trim_end_matches('/').to_owned();
    Ok((tunnel, port))
}

/// Whether the tool itself closes its browser, and with it the tunnel, is `closes`.
async fn behind_a_tunnel(stage: &Stage, tool: &str, closes: bool, program: Program) -> Result<()> {
    let (mut tunnel, port) = tunnel(stage.daemon()?).await?;
    let shown = shows_the_title(stage, tool, program.env("WARMPOOL_TUNNEL_PORT", port));
    shown.await?;
    if closes {
        let ended = tokio::time::timeout(Duration::from_secs(30), tunnel.wait()).await;
        ended.with_context(|| format!("{tool}: the tunnel goes on"))??;
    } else {
        tunnel.kill().await?;
    }
    no_session_runs(stage, tool).await
}

async fn tools_of_node_behind_a_tunnel(stage: Stage) -> Result<()> {
    for tool in NODE_BEHIND_A_TUNNEL {
        behind_a_tunnel(&stage, tool, false, Program::node(&folder("node"), tool).await?).await?;
    }
    Ok(())
}

async fn tools_of_python_behind_a_tunnel(stage: Stage) -> Result<()> {
    for tool in PYTHON_BEHIND_A_TUNNEL {
        behind_a_tunnel(&stage, tool, true, Program::python(&folder("python"), tool).await?).await?;
    }
    Ok(())
}
