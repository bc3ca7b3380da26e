//! Real clients, whole flows, and what each one's goodbye leaves.

use anyhow::{Context, Result, ensure};
use fantoccini::{ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use warmpool_tests::programs::{self, Program};
use warmpool_tests::{Daemon, Group, Settings, Stage, eventually, group, site};

pub(crate) fn group() -> Group {
    let settings = Settings::new().set("POOL_CHROMIUM_HEADED", "1");
    group!("clients", Some(settings),
        quick: [puppeteer_closes, selenium_python_quits],
        full: [puppeteer_leaves_and_comes_back, playwright_closes, selenium_node_quits, fantoccini_closes],
    )
}

async fn node(stage: &Stage, file: &str) -> Result<Program> {
    let daemon = stage.daemon()?;
    let program = Program::node(&programs::clients(), file).await?;
    Ok(program.of(daemon).env("SITE_URL", stage.site_for(daemon).await?))
}

/// Waits until the session of a flow has this status; answers the reason.
async fn ended(daemon: &Daemon, results: &Value, status: &str) -> Result<String> {
    let id = results["session_id"].as_str().context("session_id")?;
    let api = daemon.api();
    let record = eventually!(format!("{id} is {status}"), 20, {
        let record = api.get(&format!("/sessions/{id}")).await?.ok()?;
        (record["status"] == status).then_some(record)
    })?;
    Ok(record["reason"].as_str().unwrap_or_default().to_owned())
}

async fn puppeteer_closes(stage: Stage) -> Result<()> {
    let flow = node(&stage, "puppeteer.mjs").await?.env("END", "close").env("HEADLESS", "true");
    let reason = ended(stage.daemon()?, &flow.results().await?, "completed").await?;
    ensure!(reason == "browser_closed", "{reason}");
    Ok(())
}

async fn puppeteer_leaves_and_comes_back(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let flow = node(&stage, "puppeteer.mjs").await?.env("END", "disconnect").env("HEADLESS", "false");
    let results = flow.results().await?;
    ended(daemon, &results, "running").await.context("it waits for its client")?;
    let socket = results["websocket_url"].as_str().context("websocket_url")?;
    let again = node(&stage, "puppeteer.mjs").await?.env("FLOW", "attach").env("SESSION_WS", socket);
    let found = again.env("END", "disconnect").results().await?;
    ensure!(found["left"] == "here", "{found}");
    let reason = ended(daemon, &results, "completed").await?;
    ensure!(reason == "disconnected", "{reason}");
    Ok(())
}

async fn playwright_closes(stage: Stage) -> Result<()> {
    let flow = node(&stage, "playwright.mjs").await?.env("HEADLESS", "true");
    ended(stage.daemon()?, &flow.results().await?, "completed").await?;
    Ok(())
}

async fn selenium_node_quits(stage: Stage) -> Result<()> {
    let flow = node(&stage, "selenium.mjs").await?.env("HEADLESS", "false");
    let reason = ended(stage.daemon()?, &flow.results().await?, "terminated").await?;
    ensure!(reason == "driver_quit", "{reason}");
    Ok(())
}

async fn selenium_python_quits(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let flow = Program::python(&programs::clients(), "selenium_flow.py").await?.of(daemon);
    let flow = flow.env("SITE_URL", stage.site_for(daemon).await?).env("HEADLESS", "true");
    let reason = ended(daemon, &flow.results().await?, "terminated").await?;
    ensure!(reason == "driver_quit", "{reason}");
    Ok(())
}

async fn fantoccini_closes(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.webdriver(json!({"url": format!("{site}/")})).await?;
    // This client takes the last part of a path for a file's name and drops it, unless a slash follows.
    let server = format!("{}/", session.connect_url()?.trim_end_matches('/'));
    let client = ClientBuilder::new(HttpConnector::new()).connect(&server).await?;

    client.goto(&format!("{site}/form")).await?;
    client.find(Locator::Id("name")).await?.send_keys("Ada Lovelace").await?;
    client.find(Locator::Css("#colour option[value=green]")).await?.click().await?;
    client.find(Locator::Id("agree")).await?.click().await?;
    client.find(Locator::Id("send")).await?.click().await?;
    let echo = client.wait().for_element(Locator::Id("echo")).await?.text().await?;
    let echo: Value = serde_json::from_str(&echo)?;
    ensure!(echo == json!({"name": "Ada Lovelace", "colour": "green", "agree": "yes"}), "{echo}");

    let home = client.window().await?;
    client.goto(&format!("{site}/popup")).await?;
    let before = client.windows().await?;
    client.find(Locator::Id("open")).await?.click().await?;
    let popup = eventually!("the popup is open", 15, {
        client.windows().await?.into_iter().find(|window| !before.contains(window))
    })?;
    client.switch_to_window(popup).await?;
    client.wait().for_element(Locator::Id("child")).await?;
    client.close_window().await?;
    client.switch_to_window(home.clone()).await?;
    let tab = client.new_window(true).await?;
    client.switch_to_window(tab.handle).await?;
    client.goto(&format!("{site}/tab/2")).await?;
    ensure!(client.title().await? == "Tab 2");
    client.close_window().await?;
    client.switch_to_window(home).await?;

    let put = session.put_file("note.txt", "by fantoccini").await?.ok()?;
    client.goto(&format!("{site}/upload")).await?;
    let path = put["path"].as_str().context("path")?;
    client.find(Locator::Id("file")).await?.send_keys(path).await?;
    client.find(Locator::Id("send")).await?.click().await?;
    let echo = client.wait().for_element(Locator::Id("echo")).await?.text().await?;
    let echo: Value = serde_json::from_str(&echo)?;
    ensure!(echo["name"] == "note.txt" && echo["size"] == 13, "{echo}");

    client.goto(&format!("{site}/downloads")).await?;
    client.find(Locator::Id("file")).await?.click().await?;
    eventually!("the download is complete", 20, {
        let listed = session.get_file("").await?.ok()?;
        let files = listed.as_array().context("a list")?;
        files.iter().any(|file| file["name"] == "file.bin" && file["complete"] == true)
    })?;
    ensure!(session.get_file("file.bin").await?.body == site::file_bytes());

    client.goto(&format!("{site}/paint")).await?;
    let png = client.screenshot().await?;
    ensure!(png.starts_with(b"\x89PNG") && png.len() > 4000, "{} bytes", png.len());
    client.goto(&format!("{site}/cookies/set?flavour=oat")).await?;
    ensure!(client.get_named_cookie("flavour").await?.value() == "oat");

    client.close().await?;
    let record = session.becomes("terminated", 15).await?;
    ensure!(record["reason"] == "driver_quit", "{record}");
    Ok(())
}
