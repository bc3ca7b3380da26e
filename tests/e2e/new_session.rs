//! New sessions by the W3C standard: the form of every answer.

use anyhow::{Context, Result, ensure};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::json;
use warmpool_tests::{Api, Group, Reply, Session, Settings, Stage, group, webdriver};

pub(crate) fn group() -> Group {
    group!("new_session", Some(Settings::new()),
        quick: [every_answer_has_the_standards_form],
        full: [],
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
