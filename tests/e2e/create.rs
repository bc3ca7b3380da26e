//! The two create calls: what they answer, and what they take.

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use warmpool_tests::{Group, Session, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    let settings = Settings::new().set("POOL_CHROMIUM_HEADED", "1");
    group!(Some(settings),
        quick: [the_replies_match_the_contract, the_url_opens_in_the_first_tab],
        full: [a_body_may_be_empty_or_null, headed_is_the_default],
    )
}

async fn the_replies_match_the_contract(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    ensure!(session.id.starts_with("ses_"), "{}", session.body);
    ensure!(session.body["status"] == "running" || session.body["status"] == "starting", "{}", session.body);
    ensure!(session.body["protocol"] == "cdp", "{}", session.body);
    let here = daemon.url().trim_start_matches("http://");
    let socket = format!("ws://{here}/sessions/{}/devtools?token=", session.id);
    ensure!(session.websocket_url()?.starts_with(&socket), "{}", session.body);
    let stream = format!("http://{here}/sessions/{}/stream?token=", session.id);
    ensure!(session.url("livestream_url")?.starts_with(&stream), "{}", session.body);
    session.becomes("running", 10).await?;
    session.delete().await?.ok()?;

    let session = daemon.webdriver(json!({"app_name": "mail"})).await?;
    ensure!(session.body["status"] == "running", "{}", session.body);
    let connect = format!("http://{here}/sessions/{}/webdriver/", session.id);
    ensure!(session.connect_url()?.starts_with(&connect), "{}", session.body);
    ensure!(session.body.get("websocket_url").is_none(), "{}", session.body);
    session.delete().await?.ok()?;
    Ok(())
}

async fn a_body_may_be_empty_or_null(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    let null = json!({
        "service_passcode": null, "url": null, "browser_type": null, "settings": null, "advanced": null,
        "headless": null, "session_timeout": null,
    });
    let nested = json!({"settings": {"locales": null, "user_agent": null, "viewport": null}, "advanced": {}});
    let typed = json!({"browser_type": "chromium", "service_passcode": "someone", "session_timeout": 60});
    for path in ["/sessions/create", "/sessions/webdriver/create"] {
        let bare = api.send(Method::POST, path, HeaderMap::new(), Bytes::new()).await?;
        Session::from_reply(&api, &bare)?.delete().await?.ok()?;
        for body in [&json!({}), &null, &nested, &typed] {
            Session::from_reply(&api, &api.post(path, body).await?)?.delete().await?.ok()?;
        }
    }
    Ok(())
}

async fn headed_is_the_default(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    for (body, headless) in [(json!({}), false), (json!({"headless": true}), true)] {
        let name = format!("headless-{headless}");
        let mut body: Value = body;
        body["url"] = format!("{site}/probe/{name}").into();
        let session = Session::create(&daemon.api(), &body).await?;
        ensure!(session.record().await?["headless"] == headless, "{}", session.record().await?);
        let report = eventually!("the page reports", 30, stage.site().report(&name))?;
        ensure!(report["top"]["screen"] == json!({"width": 1280, "height": 807}), "{report}");
        session.delete().await?.ok()?;
    }
    Ok(())
}

async fn the_url_opens_in_the_first_tab(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({"url": format!("{site}/tab/41")})).await?;
    eventually!("the page is asked for", 20, !stage.site().hits("/tab/41").is_empty())?;
    let mut cdp = session.cdp().await?;
    let page = cdp.first_page().await?;
    eventually!("the first tab shows it", 20, cdp.evaluate(&page, "document.title").await? == "Tab 41")?;
    ensure!(stage.site().hits("/tab/41").len() == 1, "it is asked for once");
    session.delete().await?.ok()?;
    Ok(())
}
