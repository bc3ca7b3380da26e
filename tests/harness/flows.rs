//! Real clients' whole flows, with the engine as a parameter: the programs under `clients/`, and fantoccini.

use anyhow::{Context, Result, ensure};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

use crate::programs::{self, Program};
use crate::{Daemon, Session, Stage, eventually, site};

/// A Node program of `clients/` on this engine.
pub async fn node(stage: &Stage, engine: &str, file: &str) -> Result<Program> {
    on(stage, engine, Program::node(&programs::clients(), file).await?).await
}

/// A Python program of `clients/` on this engine.
pub async fn python(stage: &Stage, engine: &str, file: &str) -> Result<Program> {
    on(stage, engine, Program::python(&programs::clients(), file).await?).await
}

async fn on(stage: &Stage, engine: &str, program: Program) -> Result<Program> {
    let daemon = stage.daemon()?;
    let program = program.of(daemon).env("SITE_URL", stage.site_for(daemon).await?);
    Ok(program.env("BROWSER_TYPE", engine))
}

/// Waits until the session of a program has this status, and returns its record.
pub async fn becomes(daemon: &Daemon, results: &Value, status: &str) -> Result<Value> {
    Session::from_body(&daemon.api(), results.clone())?.becomes(status, 20).await
}

/// Waits until the session of a program has this status, and checks the reason.
pub async fn ended(daemon: &Daemon, results: &Value, status: &str, reason: &str) -> Result<()> {
    let record = becomes(daemon, results, status).await?;
    ensure!(record["reason"] == reason, "{record}");
    Ok(())
}

/// Puppeteer does all it can and closes the browser.
pub async fn puppeteer_closes(stage: &Stage, engine: &str) -> Result<()> {
    let program = node(stage, engine, "puppeteer.mjs").await?.env("END", "close").env("HEADLESS", "true");
    ended(stage.daemon()?, &program.results().await?, "completed", "browser_closed").await
}

/// Puppeteer disconnects, attaches again, and leaves for good.
pub async fn puppeteer_returns(stage: &Stage, engine: &str, headless: bool) -> Result<()> {
    let daemon = stage.daemon()?;
    let program = node(stage, engine, "puppeteer.mjs").await?.env("END", "disconnect");
    let results = program.env("HEADLESS", headless.to_string()).results().await?;
    becomes(daemon, &results, "running").await.context("it waits for its client")?;
    let socket = results["websocket_url"].as_str().context("websocket_url")?;
    let again = node(stage, engine, "puppeteer.mjs").await?.env("FLOW", "attach").env("SESSION_WS", socket);
    let found = again.env("END", "disconnect").results().await?;
    ensure!(found["left"] == "here", "{found}");
    ended(daemon, &results, "completed", "disconnected").await
}

/// Selenium for Node does all it can and quits.
pub async fn selenium_node_quits(stage: &Stage, engine: &str, headless: bool) -> Result<()> {
    let program = node(stage, engine, "selenium.mjs").await?.env("HEADLESS", headless.to_string());
    ended(stage.daemon()?, &program.results().await?, "terminated", "driver_quit").await
}

/// Selenium for Python does all it can and quits.
pub async fn selenium_python_quits(stage: &Stage, engine: &str) -> Result<()> {
    let program = python(stage, engine, "selenium_flow.py").await?.env("HEADLESS", "true");
    ended(stage.daemon()?, &program.results().await?, "terminated", "driver_quit").await
}

/// fantoccini fills in a form, opens windows, moves files both ways, takes a picture, and closes.
pub async fn fantoccini_closes(stage: &Stage, engine: &str) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let body = json!({"browser_type": engine, "headless": true, "url": format!("{site}/")});
    let session = daemon.webdriver(body).await?;
    // This client takes the last part of a path for a file's name and drops it, unless a slash follows.
    let server = format!("{}/", session.connect_url()?.trim_end_matches('/'));
    let client = ClientBuilder::new(HttpConnector::new()).connect(&server).await?;

    client.goto(&format!("{site}/form")).await?;
    client.find(Locator::Id("name")).await?.send_keys("Ada Lovelace").await?;
    client.find(Locator::Css("#colour option[value=green]")).await?.click().await?;
    client.find(Locator::Id("agree")).await?.click().await?;
    let echo = send(&client).await?;
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
    let echo = send(&client).await?;
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

/// Sends the page's form and answers what the site got of it.
async fn send(client: &Client) -> Result<Value> {
    client.find(Locator::Id("send")).await?.click().await?;
    let echo = client.wait().for_element(Locator::Id("echo")).await?.text().await?;
    Ok(serde_json::from_str(&echo)?)
}
