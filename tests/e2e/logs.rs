//! The log of a session: what its pages said, asked for and saved, also after its end; and the requests as HAR.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::{Daemon, Driver, Group, Session, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [a_log_says_what_happened, firefox_tells_beside_its_client, webkit_tells_beside_its_client])
}

/// What a page does that its log tells.
const SCRIPTS: [&str; 5] = [
    "fetch('/redirect?to=/form?moved=1').then(answer => answer.status)",
    // With half a character, which is no Unicode.
    "console.warn('a word of', {of: 1}, '\\ud83d', 7)",
    "setTimeout(() => { throw new Error('a fault of the page') }, 0)",
    "fetch('/nowhere', {method: 'POST', body: 'private', headers: {'x-api-key': 'hidden', authorization: 'Bearer hidden'}})
        .then(answer => answer.status)",
    "void (new Image().src = 'http://127.0.0.1:19999/refused.png')",
];

/// The entries of this type whose texts have these words.
fn found<'a>(log: &'a Value, kind: &str, words: &str) -> Vec<&'a Value> {
    let entries = log["entries"].as_array().into_iter().flatten();
    entries.filter(|entry| entry["type"] == kind && entry.to_string().contains(words)).collect()
}

async fn log(session: &Session, daemon: &Daemon) -> Result<Value> {
    daemon.api().get(&format!("/sessions/{}/logs", session.id)).await?.ok()
}

async fn a_log_says_what_happened(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    let session =
        daemon.session(json!({"headless": true, "logs": true, "url": format!("{site}/form?first=1")})).await?;
    let follow = {
        let (api, path) = (api.clone(), format!("/sessions/{}/logs?follow=true", session.id));
        tokio::spawn(async move { api.get(&path).await })
    };
    eventually!(
        "the first page is in the log",
        20,
        !found(&log(&session, &daemon).await?, "request", "first=1").is_empty()
    )?;
    let mut cdp = session.cdp().await?;
    let page = cdp.first_page().await?;
    cdp.call_in(&page, "Page.navigate", json!({"url": format!("{site}/form?shown=1")})).await?;
    eventually!("the page is in the log", 20, !found(&log(&session, &daemon).await?, "request", "shown=1").is_empty())?;
    for script in SCRIPTS {
        cdp.evaluate(&page, script).await?;
    }
    cdp.call_in(&page, "Page.navigate", json!({"url": format!("{site}/downloads")})).await?;
    eventually!("the page of downloads is there", 20, cdp.evaluate(&page, "document.links.length > 0").await? == true)?;
    cdp.evaluate(&page, "document.links[0].click()").await?;
    let wanted = [
        ("console", "a word of"),
        ("page_error", "a fault of the page"),
        ("request", "/nowhere"),
        ("request", "refused.png"),
        ("download", "/file.bin"),
    ];
    let all = async || -> Result<Option<Value>> {
        let log = log(&session, &daemon).await?;
        Ok(wanted.iter().all(|(kind, words)| !found(&log, kind, words).is_empty()).then_some(log))
    };
    let kept = eventually!("all of it is in the log", 20, all().await?);
    let kept = match kept {
        Ok(kept) => kept,
        Err(error) => return Err(error.context(log(&session, &daemon).await?)),
    };
    ensure!(kept["dropped"] == 0 && kept["left_out"] == json!([]), "{kept}");
    let request = found(&kept, "request", "/nowhere")[0];
    ensure!(request["method"] == "POST" && request["status"] == 404, "{request}");
    let refused = found(&kept, "request", "refused.png")[0];
    ensure!(refused["failure"].is_string() && refused["status"].is_null(), "{refused}");
    ensure!(found(&kept, "console", "a word of")[0]["level"] == "warning", "{kept}");

    let har = api.get(&format!("/sessions/{}/har", session.id)).await?.ok()?;
    ensure!(!har.to_string().contains("hidden") && !har.to_string().contains("private"), "{har}");
    ensure!(har["log"]["version"] == "1.2" && har["log"]["creator"]["name"] == "Warmpool", "{har}");
    ensure!(
        har["log"]["browser"]["version"].as_str().is_some_and(|version| !version.is_empty()),
        "{}",
        har["log"]["browser"]
    );
    let entries = har["log"]["entries"].as_array().context("entries")?;
    for entry in entries {
        let timings = &entry["timings"];
        let parts = ["send", "wait", "receive"].map(|part| timings[part].as_f64());
        ensure!(parts.iter().all(|part| part.is_some_and(|part| part >= 0.0)), "{entry}");
        ensure!(
            entry["startedDateTime"].as_str().is_some_and(|at| at.starts_with("20") && at.ends_with('Z')),
            "{entry}"
        );
        ensure!(entry["response"]["status"].is_u64() && entry["request"]["headers"].is_array(), "{entry}");
    }
    let form =
        entries.iter().find(|entry| entry["request"]["url"].as_str().is_some_and(|url| url.ends_with("shown=1")));
    let form = form.context("the page")?;
    ensure!(form["response"]["status"] == 200, "{form}");
    ensure!(form["request"]["queryString"] == json!([{"name": "shown", "value": "1"}]), "{form}");

    // Nobody else reads it; its owner does after its end as well, and the stream ends with it.
    let other = api.with_key(daemon.cli_ok(&["key", "create", "other"]).await?.trim().to_owned());
    other.get(&format!("/sessions/{}/logs", session.id)).await?.fault(404)?;
    session.delete().await?.ok()?;
    let followed = follow.await??.text();
    ensure!(followed.contains("event: entry") && followed.contains("a fault of the page"), "{followed}");
    ensure!(followed.trim_end().ends_with("data: {}") && followed.contains("event: end"), "{followed}");
    ensure!(!found(&log(&session, &daemon).await?, "page_error", "a fault").is_empty());

    let silent = daemon.session(json!({"headless": true})).await?;
    let fault = api.get(&format!("/sessions/{}/logs", silent.id)).await?.fault(409)?;
    ensure!(fault.message.contains("\"logs\": true"), "{fault:?}");
    silent.delete().await?.ok()?;

    daemon.assert_idle().await
}

async fn firefox_tells_beside_its_client(stage: Stage) -> Result<()> {
    tells_beside_a_driver(&stage, "firefox").await
}

async fn webkit_tells_beside_its_client(stage: Stage) -> Result<()> {
    tells_beside_a_driver(&stage, "webkit").await
}

/// The same of an engine that has one protocol session, while a driver has it.
async fn tells_beside_a_driver(stage: &Stage, engine: &str) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let site = stage.site_for(&daemon).await?;
    let first = format!("{site}/form?first=1");
    let session = daemon.webdriver(json!({"browser_type": engine, "logs": true, "url": first})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    driver.goto(&format!("{site}/form?shown=1")).await?;
    for script in SCRIPTS {
        driver.execute(script).await?;
    }
    // Nothing of a page runs for its log.
    let seen = driver.execute(
        "let seen = []; const object = new Proxy({get own() { seen.push('own') }}, {get: (_, name) => { seen.push(String(name)) }});
         console.log(object, {get own() { seen.push('getter') }}); return seen",
    );
    ensure!(seen.await? == json!([]), "a page noticed");
    driver.goto(&format!("{site}/downloads")).await?;
    driver.execute("document.links[0].click()").await?;
    let moved = format!("{site}/form?moved=1");
    let wanted = [
        ("request", "first=1"),
        ("request", "shown=1"),
        ("console", "a word of"),
        ("page_error", "a fault of the page"),
        ("request", "/redirect?to"),
        ("request", &moved),
        ("request", "/nowhere"),
        ("request", "refused.png"),
        ("download", "file.bin"),
    ];
    let kept = eventually!("all of it is in the log", 20, {
        let log = log(&session, &daemon).await?;
        wanted.iter().all(|(kind, words)| !found(&log, kind, words).is_empty()).then_some(log)
    });
    let kept = match kept {
        Ok(kept) => kept,
        Err(error) => return Err(error.context(log(&session, &daemon).await?)),
    };
    ensure!(kept["dropped"] == 0 && kept["left_out"] == json!([]), "{kept}");
    let said = found(&kept, "console", "a word of")[0];
    ensure!(said["level"] == "warning" && said["text"].as_str().is_some_and(|text| text.ends_with('7')), "{said}");
    let shown = found(&kept, "request", "shown=1")[0];
    ensure!(shown["method"] == "GET" && shown["status"] == 200 && shown["resource"] == "Document", "{shown}");
    ensure!(shown["failure"].is_null() && shown["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{shown}");
    let request = found(&kept, "request", "/nowhere")[0];
    ensure!(request["method"] == "POST" && request["status"] == 404 && request["resource"] == "Fetch", "{request}");
    for (words, status) in [("/redirect?to", 302), (&moved, 200)] {
        let request = found(&kept, "request", words)[0];
        ensure!(request["status"] == status && request["failure"].is_null(), "{request}");
    }
    let refused = found(&kept, "request", "refused.png")[0];
    ensure!(refused["failure"].is_string() && refused["status"].is_null(), "{refused}");
    let har = daemon.api().get(&format!("/sessions/{}/har", session.id)).await?.ok()?;
    ensure!(!har.to_string().contains("hidden") && !har.to_string().contains("private"), "{har}");
    driver.quit().await?;
    ensure!(!found(&log(&session, &daemon).await?, "page_error", "a fault").is_empty());
    daemon.assert_idle().await
}
