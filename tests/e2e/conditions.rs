//! What a recording asks for around the page: a phone's view, a network's speed.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use warmpool_tests::task::{artifact, engines, fails, succeeds};
use warmpool_tests::{Api, Group, Settings, Stage, group};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new().set("TASKS_STEP_TIMEOUT", "5s")), quick: [],
        full: [chromium_is_a_phone, other_engines_take_its_size, chromium_emulates_the_network, other_engines_warn_of_what_they_cannot_do])
}

fn phone(width: u32) -> Value {
    json!({"type": "setViewport", "width": width, "height": 700, "deviceScaleFactor": 3, "isMobile": true,
        "hasTouch": true, "isLandscape": false})
}

fn network(download: i64, latency: u32) -> Value {
    json!({"type": "emulateNetworkConditions", "download": download, "upload": download, "latency": latency})
}

fn expression(expression: &str) -> Value {
    json!({"type": "waitForExpression", "expression": expression})
}

/// Plays a recording that must succeed, and returns its warnings.
async fn warnings_of(api: &Api, body: &Value) -> Result<Vec<String>> {
    let headers = [(ACCEPT, "text/event-stream"), (CONTENT_TYPE, "application/json")];
    let headers = HeaderMap::from_iter(headers.map(|(name, value)| (name, HeaderValue::from_static(value))));
    let stream = api.send(Method::POST, "/lam/run", headers, Bytes::from(body.to_string())).await?;
    let text = stream.text();
    let events = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = events.map(serde_json::from_str).collect::<Result<_, _>>()?;
    let end = events.last().context("an end")?;
    ensure!(end["status"] == "success", "{end:#}");
    Ok(events.iter().filter_map(|event| Some(event["message"].as_str()?.to_owned())).collect())
}

async fn chromium_is_a_phone(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let steps = json!([
        phone(390),
        {"type": "navigate", "url": format!("{site}/phone")},
        {"type": "click", "selectors": [["#tap"]], "offsetX": 20, "offsetY": 20, "deviceType": "touch"},
        {"type": "customStep", "name": "lam:extract", "parameters": {"schema": {"told": "#told", "taps": "#taps"}}},
        {"type": "customStep", "name": "lam:screenshot", "parameters": {"name": "phone"}},
    ]);
    let task = succeeds(&api, "/lam/run", &json!({"steps": steps})).await?;
    let expected = json!({"told": "390 700 3 true true portrait-primary", "taps": "touch"});
    ensure!(task["output"][0] == expected, "{:#}", task["output"]);
    let picture = artifact(&api, &task, "phone.png").await?;
    let side =
        |from: usize| u32::from_be_bytes([picture[from], picture[from + 1], picture[from + 2], picture[from + 3]]);
    ensure!((side(16), side(20)) == (1170, 2100), "{} by {}", side(16), side(20));
    Ok(())
}

async fn other_engines_take_its_size(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    for engine in engines().iter().filter(|engine| *engine != "chromium") {
        // Firefox's window is no narrower.
        let steps = json!([phone(560), {"type": "navigate", "url": format!("{site}/phone")},
            expression("innerWidth === 560 && innerHeight === 700")]);
        let warnings = warnings_of(&api, &json!({"steps": steps, "browser_type": engine})).await?;
        ensure!(
            warnings.iter().any(|warning| warning.contains("only Chromium can be a phone")),
            "{engine}: {warnings:?}"
        );
    }
    Ok(())
}

async fn chromium_emulates_the_network(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let steps = json!([
        {"type": "navigate", "url": format!("{site}/form")},
        network(0, 0),
        expression("!navigator.onLine && fetch('/api/data').then(() => false, () => true)"),
        network(-1, 700),
        expression("(async () => { const from = performance.now(); await fetch('/api/data'); return performance.now() - from > 600 })()"),
        network(-1, 0),
        expression("navigator.onLine && fetch('/api/data').then((reply) => reply.ok)"),
    ]);
    let warnings = warnings_of(&api, &json!({"steps": steps})).await?;
    ensure!(warnings.is_empty(), "{warnings:?}");
    Ok(())
}

async fn other_engines_warn_of_what_they_cannot_do(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let open = json!({"type": "navigate", "url": format!("{site}/form")});
    for engine in engines().iter().filter(|engine| *engine != "chromium") {
        let slow = json!({"steps": [open, network(50_000, 400)], "browser_type": engine});
        let warnings = warnings_of(&api, &slow).await?;
        ensure!(warnings.iter().any(|warning| warning.contains("slow the network down")), "{engine}: {warnings:?}");
        let offline = json!({"steps": [open, network(0, 0)], "browser_type": engine});
        let task = fails(&api, "/lam/run", &offline, "not_supported").await?;
        ensure!(task["error"]["step"] == 1, "{engine}: {task:#}");
    }
    Ok(())
}
