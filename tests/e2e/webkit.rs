//! WebKit: its clients' whole flows, settings on both endpoints, what cannot be had, and its end.

use anyhow::{Context, Result, ensure};
use fantoccini::{ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use warmpool_tests::programs::{self, Program};
use warmpool_tests::webdriver::{fault, new_session};
use warmpool_tests::{Cdp, Daemon, Driver, Group, Session, Settings, Stage, eventually, group};

const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64) WarmpoolTest/7.2";

fn settings() -> Settings {
    Settings::new().set("POOL_CHROMIUM_HEADLESS", "0").set("POOL_WEBKIT_HEADLESS", "1")
}

pub(crate) fn group() -> Group {
    group!("webkit", Some(settings()),
        quick: [playwright_drives_and_closes],
        full: [
            playwright_comes_back,
            selenium_node_quits,
            selenium_python_quits,
            fantoccini_closes,
            settings_hold_on_both_endpoints,
            a_raw_socket_speaks_to_the_first_page,
            only_the_session_itself_lists_its_pages,
            capabilities_are_honoured_or_refused,
            a_killed_browser_is_a_failure,
        ],
    )
}

fn webkit(mut body: Value) -> Value {
    body["browser_type"] = json!("webkit");
    body["headless"] = json!(true);
    body
}

async fn node(stage: &Stage, file: &str) -> Result<Program> {
    let daemon = stage.daemon()?;
    let program = Program::node(&programs::clients(), file).await?.of(daemon);
    let program = program.env("BROWSER_TYPE", "webkit").env("HEADLESS", "true");
    Ok(program.env("SITE_URL", stage.site_for(daemon).await?))
}

/// Waits until the session of a flow has this status, for this reason.
async fn ended(daemon: &Daemon, results: &Value, status: &str, reason: &str) -> Result<()> {
    let id = results["session_id"].as_str().context("session_id")?;
    let api = daemon.api();
    let record = eventually!(format!("{id} is {status}"), 20, {
        let record = api.get(&format!("/sessions/{id}")).await?.ok()?;
        (record["status"] == status).then_some(record)
    })?;
    ensure!(record["reason"] == reason, "{record}");
    Ok(())
}

async fn playwright_drives_and_closes(stage: Stage) -> Result<()> {
    let results = node(&stage, "webkit.mjs").await?.results().await?;
    ended(stage.daemon()?, &results, "completed", "client_finished").await
}

async fn playwright_comes_back(stage: Stage) -> Result<()> {
    // The first client's process ends without a word.
    let results = node(&stage, "webkit.mjs").await?.env("END", "vanish").results().await?;
    let again = node(&stage, "webkit.mjs").await?.env("FLOW", "attach");
    let again = again.env("SESSION_WS", results["websocket_url"].as_str().context("websocket_url")?);
    let found = again.env("SESSION_HEADERS", results["headers"].to_string()).results().await?;
    ensure!(found["pages"].as_array().context("pages")?.len() == 2, "{found}");
    ended(stage.daemon()?, &results, "completed", "client_finished").await
}

async fn selenium_node_quits(stage: Stage) -> Result<()> {
    let results = node(&stage, "selenium.mjs").await?.results().await?;
    ended(stage.daemon()?, &results, "terminated", "driver_quit").await
}

async fn selenium_python_quits(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let flow = Program::python(&programs::clients(), "selenium_flow.py").await?.of(daemon);
    let flow = flow.env("SITE_URL", stage.site_for(daemon).await?).env("HEADLESS", "true");
    ended(daemon, &flow.env("BROWSER_TYPE", "webkit").results().await?, "terminated", "driver_quit").await
}

async fn fantoccini_closes(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.webdriver(webkit(json!({"url": format!("{site}/")}))).await?;
    let client = ClientBuilder::new(HttpConnector::new()).connect(session.connect_url()?).await?;
    client.goto(&format!("{site}/form")).await?;
    client.find(Locator::Id("name")).await?.send_keys("Ada Lovelace").await?;
    client.find(Locator::Css("#colour option[value=green]")).await?.click().await?;
    client.find(Locator::Id("agree")).await?.click().await?;
    client.find(Locator::Id("send")).await?.click().await?;
    let echo = client.wait().for_element(Locator::Id("echo")).await?.text().await?;
    let echo: Value = serde_json::from_str(&echo)?;
    ensure!(echo == json!({"name": "Ada Lovelace", "colour": "green", "agree": "yes"}), "{echo}");
    let home = client.window().await?;
    let tab = client.new_window(true).await?;
    client.switch_to_window(tab.handle).await?;
    client.goto(&format!("{site}/tab/2")).await?;
    ensure!(client.title().await? == "Tab 2");
    client.close_window().await?;
    client.switch_to_window(home).await?;
    client.goto(&format!("{site}/paint")).await?;
    let png = client.screenshot().await?;
    ensure!(png.starts_with(b"\x89PNG") && png.len() > 4000, "{} bytes", png.len());
    client.close().await?;
    let record = session.becomes("terminated", 15).await?;
    ensure!(record["reason"] == "driver_quit", "{record}");
    Ok(())
}

fn wanted() -> Value {
    json!({"locales": ["de-DE", "fr-FR"], "user_agent": AGENT, "viewport": {"width": 1000, "height": 640}})
}

/// What a page reported agrees with [`wanted`], as far as WebKit lets pages see it.
async fn check(stage: &Stage, name: &str, whole_window: bool) -> Result<()> {
    let report = eventually!(format!("the page {name} reports"), 30, stage.site().report(name))?;
    for place in ["top", "frame", "worker"] {
        let seen = &report[place];
        ensure!(seen["userAgent"] == AGENT && seen["intl"] == "de-DE", "{name}, {place}: {seen}");
        ensure!(seen["languages"][0] == "de-DE", "{name}, {place}: {seen}");
    }
    let top = &report["top"];
    ensure!(top["language"] == "de-DE" && top["number"] == "1.234,5", "{name}: {top}");
    if whole_window {
        ensure!(top["inner"] == json!({"width": 1000, "height": 640}), "{name}: {top}");
        ensure!(top["screen"]["width"].as_u64() >= Some(1000), "{name}: {top}");
    }
    for headers in [&report["headers"], &report["worker"]["headers"]] {
        ensure!(headers["user-agent"] == AGENT, "{name}: {headers}");
        let language = headers["accept-language"].as_str().context("accept-language")?;
        ensure!(language.starts_with("de-DE,") && language.contains("fr-FR"), "{name}: {language}");
    }
    Ok(())
}

async fn settings_hold_on_both_endpoints(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let body = webkit(json!({"settings": wanted(), "url": format!("{site}/probe/wk-first")}));
    let session = Session::create(&daemon.api(), &body).await?;
    let warnings = session.body["warnings"].to_string();
    ensure!(warnings.contains("navigator.languages"), "what holds in part is told: {warnings}");
    check(&stage, "wk-first", true).await?;
    session.delete().await?.ok()?;

    let session = daemon.webdriver(webkit(json!({"settings": wanted()}))).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    driver.goto(&format!("{site}/probe/wk-driver")).await?;
    check(&stage, "wk-driver", true).await?;
    driver.execute(&format!("window.open('{site}/probe/wk-popup', 'p', 'width=500,height=400')")).await?;
    check(&stage, "wk-popup", false).await?;
    let tab = driver.command(http::Method::POST, "/window/new", &json!({"type": "tab"})).await?.ok()?;
    let handle = json!({"handle": tab["value"]["handle"]});
    driver.command(http::Method::POST, "/window", &handle).await?.ok()?;
    driver.goto(&format!("{site}/probe/wk-tab")).await?;
    check(&stage, "wk-tab", true).await?;
    driver.quit().await
}

/// The result of a script in the page whose socket this is.
async fn evaluate(socket: &mut Cdp, target: &str, id: u64, expression: &str) -> Result<()> {
    let inner = json!({"id": id, "method": "Runtime.evaluate", "params": {"expression": expression}});
    socket.call("Target.sendMessageToTarget", json!({"targetId": target, "message": inner.to_string()})).await?;
    Ok(())
}

async fn a_raw_socket_speaks_to_the_first_page(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(webkit(json!({"url": format!("{site}/tab/4")}))).await?;
    ensure!(session.body["protocol"] == "webkit-inspector", "{}", session.body);
    let mut first = session.cdp().await?;
    first.call("Target.setPauseOnStart", json!({"pauseOnStart": false})).await?;
    // A second client takes the page over, and the first is told so.
    let mut second = session.cdp().await?;
    second.call("Target.setPauseOnStart", json!({"pauseOnStart": false})).await?;
    let (code, _) = first.ended().await.context("a Close frame")?;
    ensure!(code == 1001, "{code}");
    let wrong = evaluate(&mut second, "page-none", 1, "1").await;
    ensure!(wrong.is_err(), "there is no such target");
    second.call("Target.setPauseOnStart", json!({"pauseOnStart": false})).await.context("the socket goes on")?;
    session.delete().await?.ok()?;
    Ok(())
}

async fn only_the_session_itself_lists_its_pages(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(webkit(json!({}))).await?;
    let headers = |value: &str| -> Result<http::HeaderMap> {
        Ok(http::HeaderMap::from_iter([(http::header::AUTHORIZATION, value.parse()?)]))
    };
    let right = session.body["connect_headers"]["Authorization"].as_str().context("connect_headers")?;
    let api = daemon.api();
    let get = |headers| api.send(http::Method::GET, "/json", headers, bytes::Bytes::new());
    let pages = get(headers(right)?).await?.ok()?;
    let url = pages[0]["webSocketDebuggerUrl"].as_str().context("webSocketDebuggerUrl")?;
    let socket = Cdp::connect(url).await?;
    socket.disconnect().await?;
    let record = session.record().await?;
    ensure!(record["connect_headers"]["Authorization"] == right, "a later process finds it: {record}");
    for (wrong, status) in [(format!("{right}x"), 401), (format!("Bearer {}.", session.id), 401)] {
        let reply = get(headers(&wrong)?).await?;
        ensure!(reply.status == status, "{reply}");
    }
    session.delete().await?.ok()?;
    ensure!(get(headers(right)?).await?.status == 404, "an ended session lists nothing");
    Ok(())
}

async fn capabilities_are_honoured_or_refused(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.webdriver(webkit(json!({}))).await?;
    let url = session.connect_url()?;
    for (wish, name) in [
        (json!({"webSocketUrl": true}), "webSocketUrl"),
        (json!({"webkitgtk:browserOptions": {"args": ["--proxy=http://p"]}}), "--proxy"),
        (json!({"goog:chromeOptions": {}}), "goog:chromeOptions"),
        (json!({"browserName": "firefox"}), "browserName"),
    ] {
        let (error, message) = fault(&new_session(url, json!({"alwaysMatch": wish})).await?, 500)
            .or(fault(&new_session(url, json!({"alwaysMatch": wish})).await?, 400))?;
        ensure!(message.contains(name), "{wish}: {error}: {message}");
    }
    let wish = json!({
        "browserName": "MiniBrowser", "acceptInsecureCerts": true, "pageLoadStrategy": "eager",
        "timeouts": {"pageLoad": 20_000}, "unhandledPromptBehavior": "accept",
        "webkitgtk:browserOptions": {"args": ["--automation"], "useOverlayScrollbars": true, "binary": "/bin/sh"},
    });
    let driver = Driver::start(url, wish).await?;
    let found = &driver.capabilities;
    ensure!(found["warmpool:options"]["warnings"].to_string().contains("binary"), "{found}");
    ensure!(found["acceptInsecureCerts"] == true && found["pageLoadStrategy"] == "eager", "{found}");
    ensure!(found["timeouts"]["pageLoad"] == 20_000 && found["unhandledPromptBehavior"] == "accept", "{found}");
    driver.quit().await
}

async fn a_killed_browser_is_a_failure(stage: Stage) -> Result<()> {
    drop(stage);
    let daemon = Daemon::start(settings()).await?;
    let container = daemon.only_container().await?;
    let session = daemon.session(webkit(json!({}))).await?;
    let mut socket = session.cdp().await?;
    daemon.docker().signal_browser(&container, Signal::SIGKILL).await?;
    let (code, said) = socket.ended().await.context("a Close frame")?;
    ensure!(code == 1011 && !said.is_empty(), "{code} {said}");
    session.becomes("failure", 15).await?;
    daemon.warm().await.context("the pool is filled again")
}
