//! WebDriver capabilities: they take effect, or are refused by name.

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use warmpool_tests::{Api, Driver, Group, Session, Settings, Stage, eventually, group, webdriver};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [dangerous_ones_are_refused_by_name, no_spelling_of_a_path_goes_around_the_guard, a_second_session_is_refused],
        full: [
            harmless_options_are_accepted,
            plain_ones_take_effect_on_a_warm_browser,
            browser_options_take_effect,
            quit_terminates,
            an_abandoned_driver_session_keeps_its_place,
            a_client_that_leaves_leaves_no_driver_session,
        ],
    )
}

/// Capabilities with these `goog:chromeOptions`.
fn options(options: Value) -> Value {
    json!({"goog:chromeOptions": options})
}

async fn dangerous_ones_are_refused_by_name(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.webdriver(json!({})).await?;
    let refused = [
        (json!({"browserName": "firefox"}), "browserName"),
        (options(json!({"debuggerAddress": "127.0.0.1:1"})), "debuggerAddress"),
        (options(json!({"args": ["--user-data-dir=/tmp/mine"]})), "user-data-dir"),
        (options(json!({"args": ["user-data-dir=/tmp/mine"]})), "user-data-dir"),
        (options(json!({"args": ["--remote-debugging-port=9999"]})), "remote-debugging-port"),
        (options(json!({"args": ["--remote-debugging-address=0.0.0.0"]})), "remote-debugging-address"),
        (options(json!({"args": ["--disable-setuid-sandbox", "--disable-seccomp-filter-sandbox"]})), "seccomp"),
        (options(json!({"args": ["--renderer-cmd-prefix=/bin/sh"]})), "renderer-cmd-prefix"),
        (json!({"moz:firefoxOptions": {}}), "moz:firefoxOptions"),
    ];
    for (always, name) in refused {
        let reply = webdriver::new_session(session.connect_url()?, json!({"alwaysMatch": always})).await?;
        let (error, message) = webdriver::fault(&reply, 500).or_else(|_| webdriver::fault(&reply, 400))?;
        ensure!(error == "session not created" || error == "invalid argument", "{always}: {reply}");
        ensure!(message.contains(name), "{always} is named: {reply}");
    }
    // They cost no worker.
    let driver = Driver::start(session.connect_url()?, json!({"browserName": "chrome"})).await?;
    ensure!(driver.execute("return 6 * 7").await? == 42);
    driver.quit().await?;
    Ok(())
}

async fn no_spelling_of_a_path_goes_around_the_guard(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    daemon.assert_idle().await?;
    let container = daemon.only_container().await?;
    let session = daemon.webdriver(json!({})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    let (base, token) = session.connect_url()?.trim_end_matches('/').rsplit_once('/').context("a token")?;
    let (first, rest) = token.split_at(1);
    let coded = format!("%{:02X}{rest}", first.as_bytes()[0]);
    // The daemon refuses this by name in a body that a driver would take: a command in place of a helper process.
    let order = options(
        json!({"args": ["--no-sandbox", "--headless=new", "--utility-cmd-prefix=/usr/bin/touch /tmp/escaped"]}),
    );
    let order = json!({"capabilities": {"alwaysMatch": order}});
    let id = driver.id();
    let behind = [
        format!("{coded}/session/{id}/{token}/session"),
        format!("{token}/session/{id}/{token}/session"),
        format!("{coded}/session/{id}/..%2f..%2fsession"),
        format!("{token}/session/{id}/%2e%2e/%2e%2e/session"),
        format!("{token}/session/{id}/../../session"),
        format!("{token}/session/{id}//session"),
        format!("{token}/session/{id}/%252e%252e/%252e%252e/session"),
        format!("{token}/session/{id}/a/..%5c..%5c..%5csession"),
        format!("{coded}/SESSION/{id}/session"),
    ];
    for path in behind {
        let reply = Api::new(base).post(&format!("/{path}"), &order).await?;
        let (error, _) = webdriver::fault(&reply, 404)?;
        ensure!(error == "unknown command", "{path}: {reply}");
    }
    // The same from a grid's client.
    let of_grid = daemon.api().post("/session", &json!({"capabilities": {}})).await?.ok()?;
    let of_grid = of_grid["value"]["sessionId"].as_str().context("a grid's session")?;
    let grid =
        [format!("/session/{of_grid}/../../session"), format!("/wd/hub/session/{of_grid}/%2e%2e/%2e%2e/session")];
    for path in grid {
        let (error, _) = webdriver::fault(&daemon.api().post(&path, &order).await?, 404)?;
        ensure!(error == "unknown command", "{path}: {error}");
    }
    let found = daemon.docker().inspect(&container, &["ls", "/tmp"]).await?;
    ensure!(!found.contains("escaped"), "a command ran: {found}");
    // The session under attack goes on, also where its own token is written in another way.
    let again = Api::new(base).get(&format!("/{coded}/session/{id}/title")).await?;
    ensure!(again.status == 200, "{again}");
    daemon.api().delete(&format!("/session/{of_grid}")).await?.ok()?;
    driver.quit().await?;
    Ok(())
}

async fn a_second_session_is_refused(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.webdriver(json!({})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    let reply = webdriver::new_session(session.connect_url()?, json!({"alwaysMatch": {}})).await?;
    let (error, message) = webdriver::fault(&reply, 500)?;
    ensure!(error == "session not created" && !message.is_empty(), "{reply}");
    ensure!(driver.execute("return 'still here'").await? == "still here");
    driver.quit().await?;
    Ok(())
}

async fn harmless_options_are_accepted(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.webdriver(json!({})).await?;
    let habits = options(json!({"args": ["--no-sandbox", "disable-dev-shm-usage", "--headless", "--headless=new"]}));
    let driver = Driver::start(session.connect_url()?, habits).await?;
    ensure!(driver.execute("return 1").await? == 1);
    driver.quit().await?;
    Ok(())
}

async fn plain_ones_take_effect_on_a_warm_browser(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.webdriver(json!({})).await?;
    let always = json!({
        "browserName": "chrome", "pageLoadStrategy": "none", "acceptInsecureCerts": true,
        "timeouts": {"script": 1500}, "unhandledPromptBehavior": "accept",
    });
    let driver = Driver::start(session.connect_url()?, always).await?;
    let given = &driver.capabilities;
    ensure!(given["pageLoadStrategy"] == "none" && given["acceptInsecureCerts"] == true, "{given}");
    ensure!(given["timeouts"]["script"] == 1500 && given["unhandledPromptBehavior"] == "accept", "{given}");
    // The strategy is real: this page takes five minutes, the command does not.
    driver.goto(&format!("{site}/slow?ms=300000")).await?;
    let never = json!({"script": "", "args": []});
    let reply = driver.command(Method::POST, "/execute/async", &never).await?;
    let (error, _) = webdriver::fault(&reply, 500)?;
    ensure!(error == "script timeout", "{reply}");
    driver.quit().await?;
    Ok(())
}

async fn browser_options_take_effect(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.webdriver(json!({})).await?;
    let always = options(json!({
        "args": ["--user-agent=Own/2", "--window-size=777,555"],
        "prefs": {"intl.accept_languages": "sv-SE"},
    }));
    let driver = Driver::start(session.connect_url()?, always).await?;
    driver.goto(&format!("{site}/probe/options")).await?;
    let report = eventually!("the page reports", 20, stage.site().report("options"))?;
    ensure!(report["top"]["userAgent"] == "Own/2", "{report}");
    ensure!(report["top"]["languages"][0] == "sv-SE", "{report}");
    ensure!(report["top"]["inner"]["width"] == 777, "{report}");
    driver.quit().await?;
    session.becomes("terminated", 10).await?;

    let session = daemon.webdriver(json!({})).await?;
    let phone = json!({"deviceMetrics": {"width": 360, "height": 640, "pixelRatio": 3.0}, "userAgent": "Phone/1"});
    let driver = Driver::start(session.connect_url()?, options(json!({"mobileEmulation": phone}))).await?;
    driver.goto(&format!("{site}/probe/phone")).await?;
    let report = eventually!("the page reports", 20, stage.site().report("phone"))?;
    ensure!(report["top"]["userAgent"] == "Phone/1", "{report}");
    ensure!(report["top"]["screen"]["width"] == 360, "{report}");
    driver.quit().await?;
    Ok(())
}

async fn quit_terminates(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.webdriver(json!({})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    driver.quit().await?;
    let record = session.becomes("terminated", 10).await?;
    ensure!(record["reason"] == "driver_quit", "{record}");
    let late = driver.command(Method::GET, "/title", &Value::Null).await?;
    let (error, _) = webdriver::fault(&late, 404)?;
    ensure!(error == "invalid session id", "{late}");
    Ok(())
}

async fn an_abandoned_driver_session_keeps_its_place(stage: Stage) -> Result<()> {
    // A driver's client holds no connection between two commands: only time or DELETE ends it.
    let session: Session = stage.daemon()?.webdriver(json!({"session_timeout": 3})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    let record = session.becomes("terminated", 20).await?;
    ensure!(record["reason"] == "session_timeout", "{record}");
    let late = driver.command(Method::GET, "/title", &Value::Null).await?;
    let (_, message) = webdriver::fault(&late, 404).context("after the end")?;
    ensure!(message.contains("session_timeout"), "the answer says why: {message}");
    Ok(())
}

/// Nobody else knows of a driver session whose client leaves while it is made.
async fn a_client_that_leaves_leaves_no_driver_session(stage: Stage) -> Result<()> {
    let session: Session = stage.daemon()?.webdriver(json!({})).await?;
    let url = session.connect_url()?.to_owned();
    let api = Api::new(&url);
    // Another browser starts for these, which takes a while.
    let always = options(json!({"args": ["--user-agent=Own/3"]}));
    let asked = tokio::spawn(async move { webdriver::new_session(&url, json!({"alwaysMatch": always})).await });
    eventually!("it is being made", 20, api.get("/status").await?.ok()?["value"]["ready"] == false)?;
    asked.abort();
    let record = session.becomes("terminated", 60).await?;
    ensure!(record["reason"] == "client_gone", "{record}");
    Ok(())
}
