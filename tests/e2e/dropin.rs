//! Clients of Selenium Grid, Selenoid and browserless, and Playwright's and Puppeteer's short forms: one URL changes.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::programs::Program;
use warmpool_tests::{Api, Cdp, Group, Settings, Stage, eventually, flows, group};

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
            selenoids_clipboard_on_every_engine,
            selenoids_videos_outlive_their_sessions,
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
    let id = new_session(&api, wanted).await?;
    // Who has the id needs no key.
    let stranger = api.without_key();
    let grid = stranger.post("/graphql", &json!({"query": "{ grid { sessionCount } }"})).await?.ok()?["data"].clone();
    let node = &grid["nodesInfo"]["nodes"][0];
    ensure!(grid["grid"]["sessionCount"].as_u64() >= Some(1) && node["status"] == "UP", "{grid}");
    let capabilities = node["sessions"][0]["capabilities"].as_str().context("capabilities")?;
    ensure!(serde_json::from_str::<Value>(capabilities)?["browserName"].is_string(), "{capabilities}");
    ensure!(!grid.to_string().contains(&id), "an id opens its session");

    let socket = format!("{}/devtools/{id}", daemon.url().replacen("http", "ws", 1));
    for address in [socket.clone(), format!("{socket}/"), format!("{socket}/page")] {
        let mut cdp = Cdp::connect(&address).await?;
        let page = cdp.first_page().await?;
        ensure!(cdp.evaluate(&page, "console.log('by Selenoid') || 1 + 1").await? == 2);
        cdp.disconnect().await?;
    }
    stranger.post(&format!("/wd/hub/session/{id}/url"), &json!({"url": format!("{site}/downloads")})).await?.ok()?;
    let click = json!({"script": "document.links[0].click()", "args": []});
    stranger.post(&format!("/wd/hub/session/{id}/execute/sync"), &click).await?.ok()?;
    // As Selenide asks.
    let listed = async || -> Result<Value> { stranger.get(&format!("/download/{id}/?json")).await?.ok() };
    eventually!("the download is listed", 20, listed().await? == json!(["file.bin"]))?;
    let file = eventually!("the download is whole", 20, {
        let file = stranger.get(&format!("/download/{id}/file.bin")).await?;
        (file.status == 200).then_some(file)
    })?;
    ensure!(!file.body.is_empty());
    let log = stranger.get(&format!("/logs/{id}")).await?;
    ensure!(log.status == 200 && log.text().contains("console by Selenoid"), "{log}");
    ensure!(stranger.get(&format!("/logs/{id}/")).await?.status == 200);
    ensure!(stranger.delete(&format!("/download/{id}/file.bin")).await?.status == 200);
    ensure!(stranger.get(&format!("/download/{id}")).await?.ok()? == json!([]));
    for path in ["download", "logs"] {
        stranger.get(&format!("/{path}/nonsense")).await?.fault(401)?;
    }
    stranger.delete(&format!("/wd/hub/session/{id}")).await?.ok()?;
    stranger.get(&format!("/download/{id}")).await?.fault(404)?;
    Ok(())
}

/// What a page copies is read, and what is written is pasted into a page.
async fn selenoids_clipboard_on_every_engine(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    let page = "data:text/html;charset=utf-8,<input id=from value='from ü Ω'><input id=to>";
    for browser in ["chrome", "firefox", "MiniBrowser"] {
        let id = new_session(&api, json!({"browserName": browser})).await?;
        let (command, clipboard) = (format!("/wd/hub/session/{id}"), format!("/clipboard/{id}"));
        let stranger = api.without_key();
        ensure!(stranger.get(&clipboard).await?.text().is_empty(), "{browser}: a new browser's clipboard has a text");
        stranger.post(&format!("{command}/url"), &json!({"url": page})).await?.ok()?;
        let type_keys = async |element: &str, keys: &str| -> Result<()> {
            let found = json!({"using": "css selector", "value": element});
            let found = stranger.post(&format!("{command}/element"), &found).await?.ok()?["value"].clone();
            let element = found.as_object().and_then(|found| found.values().next()).and_then(Value::as_str);
            let path = format!("{command}/element/{}/value", element.context("element")?);
            stranger.post(&path, &json!({"text": keys})).await?.ok().map(drop)
        };
        // Control with a, c and v.
        type_keys("#from", "\u{e009}ac").await?;
        eventually!("the clipboard has what was copied", 10, {
            let read = stranger.get(&clipboard).await?;
            ensure!(read.status == 200, "{browser}: {read}");
            read.text() == "from ü Ω"
        })?;
        ensure!(stranger.post_bytes(&clipboard, "text/plain", "to ß 漢").await?.status == 200);
        ensure!(stranger.get(&format!("{clipboard}/")).await?.text() == "to ß 漢", "{browser}");
        type_keys("#to", "\u{e009}v").await?;
        let script = json!({"script": "return document.querySelector('#to').value", "args": []});
        let pasted = async || stranger.post(&format!("{command}/execute/sync"), &script).await?.ok();
        eventually!("the text is pasted", 10, pasted().await?["value"] == "to ß 漢")?;
        stranger.delete(&command).await?.ok()?;
    }
    let headless = json!({"browserName": "chrome", "goog:chromeOptions": {"args": ["--headless"]}});
    let id = new_session(&api, headless).await?;
    let clipboard = format!("/clipboard/{id}");
    ensure!(api.get(&clipboard).await?.fault(409)?.message.contains("--headless"));
    ensure!(
        api.post_bytes(&clipboard, "text/plain", vec![b'x'; (1 << 20) + 1]).await?.fault(413)?.code == "body_too_large"
    );
    ensure!(api.post_bytes(&clipboard, "text/plain", vec![0xff]).await?.fault(400)?.field == "body");
    api.delete(&format!("/wd/hub/session/{id}")).await?.ok()?;
    Ok(())
}

/// A client knows no other name of a recording than its session's.
async fn selenoids_videos_outlive_their_sessions(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    let wanted = json!({"browserName": "chrome", "selenoid:options": {"enableVideo": true}});
    let id = new_session(&api, wanted).await?;
    let browsers = api.get("/status").await?.ok()?["browsers"].clone();
    let versions = browsers["chrome"].as_object().context("versions")?;
    ensure!(versions.values().all(|users| users["unknown"]["count"].as_u64() >= Some(1)), "{browsers}");
    ensure!(!browsers.to_string().contains(&id), "an id opens its session");
    let file = format!("/video/{id}.mp4");
    let recorded = async || -> Result<bool> { Ok(api.get(&file).await?.body.len() > 1000) };
    eventually!("something is recorded", 20, recorded().await?)?;
    api.delete(&file).await?.fault(409)?;
    api.delete(&format!("/wd/hub/session/{id}")).await?.ok()?;
    let video = api.get(&file).await?;
    ensure!(video.status == 200 && video.header("content-type") == Some("video/webm"), "{video}");
    ensure!(video.body.starts_with(&[0x1a, 0x45, 0xdf, 0xa3]), "this is no WebM");
    let names: Vec<String> = api.get("/video/?json").await?.read()?;
    let listed = names.first().context("nothing is listed")?;
    ensure!(!names.iter().any(|name| name.contains(&id)) && listed.ends_with(".webm"), "{names:?}");
    ensure!(api.get(&format!("/video/{listed}")).await?.body == video.body);
    api.without_key().get(&file).await?.fault(401)?;
    for missing in ["/video/none.mp4".to_owned(), format!("/video/{id}-2.mp4")] {
        ensure!(!api.get(&missing).await?.fault(404)?.message.contains(&id));
    }
    ensure!(api.delete(&file).await?.status == 200);
    api.get(&file).await?.fault(404)?;
    Ok(())
}

async fn new_session(api: &Api, capabilities: Value) -> Result<String> {
    let body = json!({"capabilities": {"alwaysMatch": capabilities}});
    let reply = api.post("/wd/hub/session", &body).await?.ok()?;
    reply["value"]["sessionId"].as_str().map(str::to_owned).context("sessionId")
}
