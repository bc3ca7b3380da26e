//! WebKit: its clients' whole flows, settings on both endpoints, what is unavailable, and its end.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use warmpool_tests::programs::Program;
use warmpool_tests::webdriver::{fault, new_session};
use warmpool_tests::{Cdp, Daemon, Driver, Group, Session, Settings, Stage, eventually, flows, group, site};

const ENGINE: &str = "webkit";
const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64) WarmpoolTest/7.2";

fn settings() -> Settings {
    Settings::on_demand().set("POOL_WEBKIT_HEADLESS", "1")
}

pub(crate) fn group() -> Group {
    group!(Some(settings()),
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
            downloads_of_one_name_that_begin_together_are_all_kept,
            a_long_name_of_a_download_is_cut,
            a_killed_browser_is_a_failure,
        ],
    )
}

fn webkit(mut body: Value) -> Value {
    body["browser_type"] = json!(ENGINE);
    body["headless"] = json!(true);
    body
}

async fn playwright(stage: &Stage) -> Result<Program> {
    Ok(flows::node(stage, ENGINE, "webkit.mjs").await?.env("HEADLESS", "true"))
}

async fn playwright_drives_and_closes(stage: Stage) -> Result<()> {
    let results = playwright(&stage).await?.results().await?;
    flows::ended(stage.daemon()?, &results, "completed", "client_finished").await
}

async fn playwright_comes_back(stage: Stage) -> Result<()> {
    // The first client's process ends without closing its connection.
    let results = playwright(&stage).await?.env("END", "vanish").results().await?;
    let again = playwright(&stage).await?.env("FLOW", "attach");
    let again = again.env("SESSION_WS", results["websocket_url"].as_str().context("websocket_url")?);
    let found = again.env("SESSION_HEADERS", results["headers"].to_string()).results().await?;
    ensure!(found["pages"].as_array().context("pages")?.len() == 2, "{found}");
    flows::ended(stage.daemon()?, &results, "completed", "client_finished").await
}

async fn selenium_node_quits(stage: Stage) -> Result<()> {
    flows::selenium_node_quits(&stage, ENGINE, true).await
}

async fn selenium_python_quits(stage: Stage) -> Result<()> {
    flows::selenium_python_quits(&stage, ENGINE).await
}

async fn fantoccini_closes(stage: Stage) -> Result<()> {
    flows::fantoccini_closes(&stage, ENGINE).await
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
    ensure!(warnings.contains("navigator.languages"), "what holds in part gets a warning: {warnings}");
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
    // A second client takes the page over, and the first gets a Close frame.
    let mut second = session.cdp().await?;
    second.call("Target.setPauseOnStart", json!({"pauseOnStart": false})).await?;
    let (code, _) = first.ended().await?.context("a Close frame")?;
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
    // A driver's session has a websocket as well, which Playwright finds in the same way.
    let driven = daemon.webdriver(webkit(json!({}))).await?;
    let record = driven.record().await?;
    ensure!(record["protocol"] == "webdriver" && record["websocket_url"].is_string(), "{record}");
    let right = record["connect_headers"]["Authorization"].as_str().context("connect_headers of a driver's session")?;
    let pages = get(headers(right)?).await?.ok()?;
    ensure!(pages[0]["webSocketDebuggerUrl"].is_string(), "{pages}");
    driven.delete().await?.ok()?;
    Ok(())
}

async fn capabilities_are_honoured_or_refused(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.webdriver(webkit(json!({}))).await?;
    let url = session.connect_url()?;
    for (capabilities, name) in [
        (json!({"webSocketUrl": true}), "webSocketUrl"),
        (json!({"webkitgtk:browserOptions": {"args": ["--proxy=http://p"]}}), "--proxy"),
        (json!({"goog:chromeOptions": {}}), "goog:chromeOptions"),
        (json!({"browserName": "firefox"}), "browserName"),
    ] {
        let (error, message) = fault(&new_session(url, json!({"alwaysMatch": capabilities})).await?, 500)
            .or(fault(&new_session(url, json!({"alwaysMatch": capabilities})).await?, 400))?;
        ensure!(message.contains(name), "{capabilities}: {error}: {message}");
    }
    let capabilities = json!({
        "browserName": "MiniBrowser", "acceptInsecureCerts": true, "pageLoadStrategy": "eager",
        "timeouts": {"pageLoad": 20_000}, "unhandledPromptBehavior": "accept",
        "webkitgtk:browserOptions": {"args": ["--automation"], "useOverlayScrollbars": true, "binary": "/bin/sh"},
    });
    let driver = Driver::start(url, capabilities).await?;
    let found = &driver.capabilities;
    ensure!(found["warmpool:options"]["warnings"].to_string().contains("binary"), "{found}");
    ensure!(found["acceptInsecureCerts"] == true && found["pageLoadStrategy"] == "eager", "{found}");
    ensure!(found["timeouts"]["pageLoad"] == 20_000 && found["unhandledPromptBehavior"] == "accept", "{found}");
    driver.quit().await
}

async fn downloads_of_one_name_that_begin_together_are_all_kept(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.webdriver(webkit(json!({}))).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    driver.goto(&format!("{site}/downloads")).await?;
    let frames = "for (let i = 0; i < 6; i++) document.body.append(Object.assign(document.createElement('iframe'), {src: '/file.bin?' + i}))";
    driver.execute(frames).await?;
    let names: Vec<String> =
        (0..6).map(|number| if number == 0 { "file.bin".to_owned() } else { format!("file ({number}).bin") }).collect();
    eventually!("all are whole", 30, {
        let listed = session.get_file("").await?.ok()?;
        let files = listed.as_array().context("a list")?;
        let is_whole = |name: &String| files.iter().any(|file| file["name"] == *name && file["complete"] == true);
        (files.len() == names.len() && names.iter().all(is_whole)).then_some(())
    })?;
    for name in &names {
        ensure!(session.get_file(&name.replace(' ', "%20")).await?.body == site::file_bytes(), "{name}");
    }
    driver.quit().await
}

/// A page chooses the name. While the browser cuts it, it does nothing else.
async fn a_long_name_of_a_download_is_cut(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.webdriver(webkit(json!({}))).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    driver.goto(&format!("{site}/downloads")).await?;
    // A site may say what a file of its own is called.
    let download = "const link = document.createElement('a'); link.download = 'x'.repeat(4 << 20);
                    link.href = URL.createObjectURL(new Blob(['1'])); document.body.append(link); link.click()";
    driver.execute(download).await?;
    eventually!("it is whole", 60, {
        let listed = session.get_file("").await?.ok()?;
        let files = listed.as_array().context("a list")?;
        files.iter().any(|file| file["name"] == "x".repeat(200) && file["complete"] == true)
    })?;
    driver.quit().await
}

async fn a_killed_browser_is_a_failure(stage: Stage) -> Result<()> {
    drop(stage);
    let daemon = Daemon::start(settings()).await?;
    let container = daemon.only_container().await?;
    let session = daemon.session(webkit(json!({}))).await?;
    let mut socket = session.cdp().await?;
    daemon.docker().signal_browser(&container, Signal::SIGKILL).await?;
    let (code, said) = socket.ended().await?.context("a Close frame")?;
    ensure!(code == 1011 && !said.is_empty(), "{code} {said}");
    session.becomes("failure", 15).await?;
    daemon.assert_idle().await.context("the pool is filled again")
}
