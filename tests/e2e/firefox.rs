//! Firefox as a session's browser: its clients' whole flows, its one BiDi session, its settings and its options.

use anyhow::{Context, Result, ensure};
use fantoccini::{ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use warmpool_tests::programs::{self, Program};
use warmpool_tests::{Cdp, Driver, Group, Session, Settings, Stage, eventually, group, webdriver};

const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64) WarmpoolTest/7.1";

pub(crate) fn group() -> Group {
    let settings = Settings::new()
        .set("POOL_CHROMIUM_HEADLESS", "0")
        .set("POOL_FIREFOX_HEADLESS", "1")
        .set("SESSION_RECONNECT_WINDOW", "3s");
    group!("firefox", Some(settings),
        quick: [puppeteer_closes],
        full: [
            puppeteer_leaves_and_comes_back,
            selenium_node_quits,
            selenium_python_quits,
            fantoccini_closes,
            an_abrupt_leave_frees_the_one_session,
            a_second_client_is_told_that_it_is_second,
            settings_hold_everywhere,
            the_clients_own_override_wins,
            a_crash_is_a_failure_and_the_pool_is_refilled,
            options_take_effect,
            dangerous_options_are_refused_by_name,
        ],
    )
}

fn firefox(mut body: Value) -> Value {
    body["browser_type"] = json!("firefox");
    if body["headless"].is_null() {
        body["headless"] = json!(true);
    }
    body
}

async fn program(stage: &Stage, program: Program) -> Result<Program> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    Ok(program.of(daemon).env("SITE_URL", site).env("BROWSER_TYPE", "firefox"))
}

async fn node(stage: &Stage, file: &str) -> Result<Program> {
    program(stage, Program::node(&programs::clients(), file).await?).await
}

/// Waits until the session of a flow has this status; answers the reason.
async fn ended(stage: &Stage, results: &Value, status: &str) -> Result<String> {
    let api = stage.daemon()?.api();
    let id = results["session_id"].as_str().context("session_id")?;
    let record = eventually!(format!("{id} is {status}"), 20, {
        let record = api.get(&format!("/sessions/{id}")).await?.ok()?;
        (record["status"] == status).then_some(record)
    })?;
    Ok(record["reason"].as_str().unwrap_or_default().to_owned())
}

async fn puppeteer_closes(stage: Stage) -> Result<()> {
    let flow = node(&stage, "puppeteer.mjs").await?.env("END", "close").env("HEADLESS", "true");
    let reason = ended(&stage, &flow.results().await?, "completed").await?;
    ensure!(reason == "browser_closed", "{reason}");
    Ok(())
}

async fn puppeteer_leaves_and_comes_back(stage: Stage) -> Result<()> {
    let flow = node(&stage, "puppeteer.mjs").await?.env("END", "disconnect").env("HEADLESS", "true");
    let results = flow.results().await?;
    let socket = results["websocket_url"].as_str().context("websocket_url")?;
    let again = node(&stage, "puppeteer.mjs").await?.env("FLOW", "attach").env("SESSION_WS", socket);
    let found = again.env("END", "disconnect").results().await?;
    ensure!(found["left"] == "here", "{found}");
    let reason = ended(&stage, &results, "completed").await?;
    ensure!(reason == "disconnected", "{reason}");
    Ok(())
}

async fn selenium_node_quits(stage: Stage) -> Result<()> {
    // On a display, which no other case needs.
    let flow = node(&stage, "selenium.mjs").await?.env("HEADLESS", "false");
    let reason = ended(&stage, &flow.results().await?, "terminated").await?;
    ensure!(reason == "driver_quit", "{reason}");
    Ok(())
}

async fn selenium_python_quits(stage: Stage) -> Result<()> {
    let flow = Program::python(&programs::clients(), "selenium_flow.py").await?;
    let flow = program(&stage, flow).await?.env("HEADLESS", "true");
    let reason = ended(&stage, &flow.results().await?, "terminated").await?;
    ensure!(reason == "driver_quit", "{reason}");
    Ok(())
}

async fn fantoccini_closes(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.webdriver(firefox(json!({"url": format!("{site}/")}))).await?;
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
    let tab = client.new_window(true).await?;
    client.switch_to_window(tab.handle).await?;
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

/// A raw client with the browser's one BiDi session.
async fn bidi(session: &Session) -> Result<Cdp> {
    let mut client = session.cdp().await?;
    client.call("session.new", json!({"capabilities": {}})).await?;
    Ok(client)
}

async fn an_abrupt_leave_frees_the_one_session(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.session(firefox(json!({}))).await?;
    // No goodbye of any kind: the connection is just gone.
    drop(bidi(&session).await?);
    let mut next = eventually!("the next client gets the session", 10, bidi(&session).await.ok())?;
    let tree = next.call("browsingContext.getTree", json!({})).await?;
    ensure!(tree["contexts"].as_array().is_some_and(|contexts| contexts.len() == 1), "{tree}");
    next.disconnect().await?;
    // Nor does a close without the protocol's own goodbye keep it.
    eventually!("and the one after it", 10, bidi(&session).await.ok())?.disconnect().await?;
    session.delete().await?.ok()?;
    Ok(())
}

async fn a_second_client_is_told_that_it_is_second(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(firefox(json!({}))).await?;
    let mut first = bidi(&session).await?;
    for _ in 0..2 {
        let Err(refusal) = bidi(&session).await else { anyhow::bail!("two clients have one session") };
        ensure!(format!("{refusal:#}").contains("another client has"), "{refusal:#}");
    }
    first.call("browsingContext.getTree", json!({})).await.context("the first one goes on")?;
    session.delete().await?.ok()?;

    // A driver and a websocket compete for the same.
    let session = daemon.webdriver(firefox(json!({}))).await?;
    let driver = Driver::start(session.connect_url()?, json!({"webSocketUrl": true})).await?;
    let socket = driver.capabilities["webSocketUrl"].as_str().context("webSocketUrl")?;
    let mut beside = Cdp::connect(socket).await.context("the driver's own websocket")?;
    let tree = beside.call("browsingContext.getTree", json!({})).await?;
    ensure!(tree["contexts"][0]["context"].is_string(), "{tree}");
    drop(beside);
    ensure!(driver.execute("return 6 * 7").await? == 42, "the driver lives on without its websocket");
    ensure!(driver.capabilities["se:cdp"].is_null(), "{}", driver.capabilities);
    driver.quit().await?;
    Ok(())
}

fn wanted() -> Value {
    json!({"locales": ["de-DE", "fr-FR"], "user_agent": AGENT, "viewport": {"width": 1000, "height": 640}})
}

async fn report(stage: &Stage, name: &str) -> Result<Value> {
    eventually!(format!("the page {name} reports"), 30, stage.site().report(name))
}

/// What a page reported agrees with [`wanted`]; in a popup but for its size: a script that runs at once may still see the
/// one that the opener named.
fn check(report: &Value, is_popup: bool) -> Result<()> {
    for place in ["top", "frame", "worker"] {
        let seen = &report[place];
        ensure!(seen["userAgent"] == AGENT, "{place}: {seen}");
        ensure!(seen["languages"] == json!(["de-DE", "fr-FR"]) && seen["intl"] == "de-DE", "{place}: {seen}");
    }
    let (top, size) = (&report["top"], json!({"width": 1000, "height": 640}));
    ensure!(top["number"] == "1.234,5" && top["screen"] == size, "{top}");
    ensure!(is_popup || top["inner"] == size, "{top}");
    for headers in [&report["headers"], &report["worker"]["headers"]] {
        ensure!(headers["user-agent"] == AGENT, "{headers}");
        ensure!(headers["accept-language"].as_str().is_some_and(|value| value.starts_with("de-DE,fr-FR")), "{headers}");
    }
    Ok(())
}

async fn settings_hold_everywhere(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let probe = |place: &str| format!("{site}/probe/firefox-{place}");
    let told = async |place: &str| {
        let report = report(&stage, &format!("firefox-{place}")).await?;
        check(&report, place.ends_with("-popup")).with_context(|| place.to_owned())
    };
    let session = daemon.session(firefox(json!({"settings": wanted(), "url": probe("first")}))).await?;
    ensure!(session.body["warnings"].as_array().is_none_or(Vec::is_empty), "{}", session.body);
    told("first").await?;
    let mut client = bidi(&session).await?;
    let context = client.call("browser.createUserContext", json!({})).await?["userContext"].clone();
    for (place, how) in [
        ("tab", json!({"type": "tab"})),
        ("window", json!({"type": "window"})),
        ("context", json!({"type": "tab", "userContext": context})),
    ] {
        let page = client.call("browsingContext.create", how).await?["context"].clone();
        client.call("browsingContext.navigate", json!({"context": page, "url": probe(place)})).await?;
        told(place).await?;
        let popup = format!("void window.open('{}', 'p', 'width=500,height=400')", probe(&format!("{place}-popup")));
        let open = json!({"expression": popup, "target": {"context": page}, "awaitPromise": false});
        client.call("script.evaluate", open).await?;
        told(&format!("{place}-popup")).await?;
    }
    session.delete().await?.ok()?;

    let session = daemon.webdriver(firefox(json!({"settings": wanted()}))).await?;
    let driver = Driver::start(session.connect_url()?, json!({"browserName": "firefox"})).await?;
    driver.goto(&probe("driver")).await?;
    told("driver").await?;
    driver.quit().await?;
    Ok(())
}

async fn the_clients_own_override_wins(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(firefox(json!({"settings": wanted()}))).await?;
    let mut client = bidi(&session).await?;
    let page = client.call("browsingContext.create", json!({"type": "tab"})).await?["context"].clone();
    let own = json!({"userAgent": "Own/1", "contexts": [page]});
    client.call("emulation.setUserAgentOverride", own).await?;
    client.call("emulation.setLocaleOverride", json!({"locale": "it-IT", "contexts": [page]})).await?;
    let size = json!({"context": page, "viewport": {"width": 333, "height": 222}});
    client.call("browsingContext.setViewport", size).await?;
    let url = format!("{site}/probe/firefox-own");
    client.call("browsingContext.navigate", json!({"context": page, "url": url})).await?;
    let report = report(&stage, "firefox-own").await?;
    let top = &report["top"];
    ensure!(top["userAgent"] == "Own/1" && report["headers"]["user-agent"] == "Own/1", "{report}");
    ensure!(top["intl"] == "it-IT" && top["language"] == "it-IT", "{top}");
    ensure!(top["inner"] == json!({"width": 333, "height": 222}), "{top}");
    session.delete().await?.ok()?;
    Ok(())
}

async fn a_crash_is_a_failure_and_the_pool_is_refilled(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    daemon.warm().await?;
    let container = eventually!("only the warm worker is left", 30, daemon.only_container().await.ok())?;
    let session = daemon.session(firefox(json!({}))).await?;
    let mut client = bidi(&session).await?;
    daemon.docker().signal_browser(&container, Signal::SIGSEGV).await?;
    let (code, _) = client.ended().await.context("a Close frame")?;
    ensure!(code == 1011, "{code}");
    let record = session.becomes("failure", 20).await?;
    ensure!(record["reason"] == "browser_crashed", "{record}");
    daemon.warm().await
}

/// A new driver session with these `moz:firefoxOptions`.
async fn driver_with(session: &Session, options: Value) -> Result<Driver> {
    Driver::start(session.connect_url()?, json!({"moz:firefoxOptions": options})).await
}

async fn options_take_effect(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    // While the browser runs.
    let session = daemon.webdriver(firefox(json!({}))).await?;
    let prefs = json!({"prefs": {"intl.accept_languages": "it, en", "remote.active-protocols": 3}});
    let driver = driver_with(&session, prefs).await?;
    driver.goto(&format!("{site}/")).await?;
    ensure!(driver.execute("return navigator.languages").await? == json!(["it", "en"]));
    driver.quit().await?;

    // In a browser started for it, where the session's settings hold as well.
    let session = daemon.webdriver(firefox(json!({"settings": wanted()}))).await?;
    let options = json!({
        "args": ["-private"], "env": {"TZ": "Asia/Tokyo"},
        "prefs": {"dom.battery.enabled": false, "browser.display.background_color": "#010203"},
    });
    let driver = driver_with(&session, options).await?;
    driver.goto(&format!("{site}/probe/firefox-cold")).await?;
    check(&report(&stage, "firefox-cold").await?, false)?;
    let zone = driver.execute("return Intl.DateTimeFormat().resolvedOptions().timeZone").await?;
    ensure!(zone == "Asia/Tokyo", "{zone}");
    driver.quit().await?;
    Ok(())
}

async fn dangerous_options_are_refused_by_name(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.webdriver(firefox(json!({}))).await?;
    for (options, name) in [
        (json!({"args": ["--remote-allow-system-access"]}), "--remote-allow-system-access"),
        (json!({"args": ["--profile", "/tmp"]}), "--profile"),
        (json!({"env": {"LD_PRELOAD": "/tmp/x.so"}}), "LD_PRELOAD"),
        (json!({"prefs": {"security.sandbox.content.level": 0}}), "security.sandbox.content.level"),
    ] {
        let always = json!({"alwaysMatch": {"moz:firefoxOptions": options}});
        let reply = webdriver::new_session(session.connect_url()?, always).await?;
        let (_, message) = webdriver::fault(&reply, 500).or_else(|_| webdriver::fault(&reply, 400))?;
        ensure!(message.contains(name), "{name}: {message}");
    }
    // A profile that is none is found out in the worker; the next try is another.
    let nonsense = json!({"alwaysMatch": {"moz:firefoxOptions": {"profile": "bm90IGEgemlw"}}});
    let reply = webdriver::new_session(session.connect_url()?, nonsense).await?;
    let (_, message) = webdriver::fault(&reply, 500)?;
    ensure!(message.contains("profile"), "{message}");
    let driver = driver_with(&session, json!({"binary": "/bin/sh"})).await?;
    let told = &driver.capabilities["warmpool:options"]["warnings"];
    ensure!(told.to_string().contains("moz:firefoxOptions.binary"), "{told}");
    ensure!(driver.execute("return 6 * 7").await? == 42);
    driver.quit().await?;
    Ok(())
}
