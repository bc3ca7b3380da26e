//! New sessions by the W3C standard: the form of every answer, and what becomes of capabilities.

use anyhow::{Context, Result, ensure};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use warmpool_tests::{Api, Driver, Group, Reply, Session, Settings, Stage, group, webdriver};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [every_answer_has_the_standards_form, what_the_standard_does_not_allow_is_an_invalid_argument],
        full: [unknown_options_are_ignored_with_a_warning, the_alternative_that_matches_is_taken],
    )
}

/// A grid's caller and that of a session of its own: the addresses at which new sessions are made.
async fn callers(stage: &Stage) -> Result<(Session, [Api; 2])> {
    let daemon = stage.daemon()?;
    let session = daemon.webdriver(json!({"headless": true})).await?;
    let own = Api::new(session.connect_url()?);
    Ok((session, [daemon.api(), own]))
}

/// What the standard wants of each of the remote end's answers.
fn check_form(reply: &Reply) -> Result<()> {
    ensure!(reply.header(CONTENT_TYPE.as_str()) == Some("application/json; charset=utf-8"), "{reply}");
    ensure!(reply.header(CACHE_CONTROL.as_str()) == Some("no-cache"), "{reply}");
    ensure!(reply.json()?.get("value").is_some(), "{reply}");
    Ok(())
}

async fn every_answer_has_the_standards_form(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (session, callers) = callers(&stage).await?;
    let headless = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": ["--headless"]}}}});
    for api in &callers {
        check_form(&api.get("/status").await?)?;
        for (method, path, status) in [
            (Method::GET, "/session", 405),
            (Method::DELETE, "/session", 405),
            (Method::GET, "/session/none/title", 404),
            (Method::GET, "/session/none/se/files", 404),
            (Method::DELETE, "/session/none", 404),
        ] {
            let reply = api.send(method, path, HeaderMap::new(), "{}".into()).await?;
            webdriver::fault(&reply, status)?;
            check_form(&reply)?;
        }
        for (name, value) in [(HOST, "evil.example"), (ORIGIN, "http://evil.example")] {
            let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
            let reply = api.send(Method::POST, "/session", headers, "{}".into()).await?;
            webdriver::fault(&reply, 403)?;
            check_form(&reply)?;
        }
        for path in ["/session?x=1", "/session/%ff"] {
            let reply = api.post(path, &json!({})).await?;
            webdriver::fault(&reply, 400)?;
            check_form(&reply)?;
        }
        let refused = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"debuggerAddress": "a:1"}}}});
        for (body, status) in [(&json!([]), 400), (&json!({}), 400), (&refused, 500)] {
            let reply = api.post("/session", body).await?;
            webdriver::fault(&reply, status)?;
            check_form(&reply)?;
        }
        let made = api.post("/session", &headless).await?;
        ensure!(made.status == 200, "{made}");
        check_form(&made)?;
        let id = made.json()?["value"]["sessionId"].as_str().context("sessionId")?.to_owned();
        check_form(&api.get(&format!("/session/{id}/se/files")).await?)?;
        check_form(&api.get(&format!("/session/{id}/title")).await?)?;
        check_form(&api.get(&format!("/session/{id}/nonsense")).await?)?;
        check_form(&api.delete(&format!("/session/{id}")).await?)?;
    }
    let stranger = daemon.api().without_key().post("/session", &headless).await?;
    webdriver::fault(&stranger, 401)?;
    check_form(&stranger)?;
    check_form(&daemon.api().get("/wd/hub/nonsense").await?)?;
    session.becomes("terminated", 10).await?;
    daemon.assert_idle().await
}

/// Values that the standard does not allow, by capability.
fn invalid() -> Vec<(&'static str, Value)> {
    vec![
        ("acceptInsecureCerts", json!("false")),
        ("browserName", json!(1)),
        ("browserVersion", json!({})),
        ("platformName", json!([])),
        ("pageLoadStrategy", json!("Eager")),
        ("proxy", json!({"proxyType": "SYSTEM"})),
        ("proxy", json!({"proxytype": "system"})),
        ("timeouts", json!({"pageLoad": 2.5})),
        ("timeouts", json!({"pageLoad": 9_007_199_254_740_992_u64})),
        ("timeouts", json!({"invalid": 10})),
        ("setWindowRect", json!(true)),
        ("strictFileInteractability", json!([])),
        ("unhandledPromptBehavior", json!("DISMISS")),
        ("unhandledPromptBehavior", json!({"alert": "later"})),
        ("webSocketUrl", json!("yes")),
        ("chromeOptions", json!({})),
        ("firefoxOptions", json!({})),
        ("nativeEvents", json!(true)),
        ("javascriptEnabled", json!(true)),
        ("platform", json!("ANY")),
        ("version", json!("")),
    ]
}

async fn what_the_standard_does_not_allow_is_an_invalid_argument(stage: Stage) -> Result<()> {
    let (session, callers) = callers(&stage).await?;
    for (name, value) in invalid() {
        let one = json!({name: value});
        for capabilities in [json!({"alwaysMatch": one}), json!({"firstMatch": [{}, one]})] {
            for api in &callers {
                let reply = api.post("/session", &json!({"capabilities": capabilities})).await?;
                let (error, message) = webdriver::fault(&reply, 400)?;
                ensure!(error == "invalid argument" && message.contains(name), "{capabilities}: {reply}");
            }
        }
    }
    let twice = json!({"alwaysMatch": {"timeouts": {"script": 1}}, "firstMatch": [{}, {"timeouts": {"pageLoad": 1}}]});
    for api in &callers {
        let reply = api.post("/session", &json!({"capabilities": twice})).await?;
        ensure!(webdriver::fault(&reply, 400)?.0 == "invalid argument", "{reply}");
    }
    // They cost no worker.
    let driver = Driver::start(session.connect_url()?, json!({"timeouts": {"script": null, "pageLoad": 2.0}})).await?;
    let timeouts = &driver.capabilities["timeouts"];
    ensure!(timeouts["script"].is_null() && timeouts["pageLoad"] == 2, "{timeouts}");
    driver.quit().await?;
    stage.daemon()?.assert_idle().await
}

/// The warnings in the reply of a new session.
fn warnings(reply: &Reply) -> Result<String> {
    ensure!(reply.status == 200, "{reply}");
    Ok(reply.json()?["value"]["capabilities"]["warmpool:options"]["warnings"].to_string())
}

async fn end(api: &Api, reply: &Reply) -> Result<()> {
    let id = reply.json()?["value"]["sessionId"].as_str().context("sessionId")?.to_owned();
    api.delete(&format!("/session/{id}")).await?.ok()?;
    Ok(())
}

async fn unknown_options_are_ignored_with_a_warning(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (_session, callers) = callers(&stage).await?;
    let always = json!({
        "browserName": "chrome", "cloud:options": {"user": "x"}, "wdio:enforceWebDriverClassic": true,
        "test:extension": [], "goog:chromeOptions": {"binary": "/usr/bin/google-chrome", "args": ["--headless"]},
    });
    for api in &callers {
        let reply = api.post("/session", &json!({"capabilities": {"alwaysMatch": always}})).await?;
        let said = warnings(&reply)?;
        for name in ["cloud:options", "wdio:enforceWebDriverClassic", "test:extension", "goog:chromeOptions.binary"] {
            ensure!(said.contains(name), "{name}: {said}");
        }
        end(api, &reply).await?;
    }
    // Without such options there is no warning.
    let session = daemon.webdriver(json!({"headless": true})).await?;
    let driver = Driver::start(session.connect_url()?, json!({"test:extension": null})).await?;
    ensure!(driver.capabilities["warmpool:options"].is_null(), "{}", driver.capabilities);
    driver.quit().await?;
    daemon.assert_idle().await
}

async fn the_alternative_that_matches_is_taken(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (_session, callers) = callers(&stage).await?;
    let first = json!([
        {"platformName": "LINUX", "pageLoadStrategy": "none"},
        {"browserName": "opera", "platformName": "linux", "goog:chromeOptions": {"args": ["--user-data-dir=/x"]}},
        {"platformName": "linux", "pageLoadStrategy": "eager", "goog:chromeOptions": {"args": ["--headless"]}},
    ]);
    for api in &callers {
        let body = json!({"capabilities": {"alwaysMatch": {"acceptInsecureCerts": null}, "firstMatch": first}});
        let reply = api.post("/session", &body).await?;
        ensure!(reply.status == 200, "{reply}");
        let given = &reply.json()?["value"]["capabilities"];
        ensure!(given["platformName"] == "linux" && given["pageLoadStrategy"] == "eager", "{given}");
        end(api, &reply).await?;
    }
    // A session's own address is as strict as the standard.
    let session = daemon.webdriver(json!({"headless": true})).await?;
    for always in [json!({"browserName": "CHROME"}), json!({"platformName": "LINUX"})] {
        let reply = webdriver::new_session(session.connect_url()?, json!({"alwaysMatch": always})).await?;
        ensure!(webdriver::fault(&reply, 500)?.0 == "session not created", "{reply}");
    }
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}
