//! What items of a fleet share, which is a worker at most, and what lies between them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use warmpool_tests::{Group, Settings, Stage, eventually, group};

use crate::history::{becomes, finished, heading, id, task, with};

pub(crate) fn group() -> Group {
    // One worker in all: each fleet has one lane, and competes with a client.
    let settings = Settings::new().set("POOL_MAX_WORKERS", "1").set("TASKS_WORKERS", "1");
    group!(Some(settings),
        quick: [],
        full: [
            an_item_finds_nothing_of_another,
            firefox_items_find_nothing_of_another,
            a_container_each_where_that_is_wanted,
            a_browser_that_dies_takes_one_item_along,
            a_waiting_client_gets_the_worker_between_two_items,
        ],
    )
}

/// Which sessions carried the items out.
fn sessions(fleet: &Value) -> Result<Vec<&str>> {
    let rows = fleet["output"].as_array().context("output")?;
    rows.iter().map(|row| row["sessionId"].as_str().with_context(|| format!("sessionId in {row}"))).collect()
}

/// Opens `/left`, closes the window, opens it once more, and downloads a file.
fn visits(site: &str, engine: &str, items: usize) -> Value {
    let open = json!({"type": "navigate", "url": format!("{site}/left")});
    let schema = json!({"found": "#found", "look": "#look"});
    let read = json!({"type": "customStep", "name": "lam:extract", "parameters": {"schema": schema}});
    let wait =
        json!({"type": "waitForExpression", "expression": "document.querySelector('#found').textContent !== ''"});
    let steps = json!([
        open, wait, read,
        {"type": "keyDown", "key": "Shift"},
        {"type": "setViewport", "width": 700, "height": 420, "deviceScaleFactor": 1, "isMobile": false, "hasTouch": false,
            "isLandscape": true},
        {"type": "close"},
        open, wait, read,
        {"type": "navigate", "url": format!("{site}/downloads")},
        {"type": "click", "selectors": ["#file"], "offsetX": 3, "offsetY": 3},
        {"type": "customStep", "name": "lam:waitForDownload", "parameters": {}},
    ]);
    json!({"run": {"steps": steps}, "inputs": vec![json!({}); items], "browser_type": engine, "retry": {"max": 0},
        "settings": {"locales": ["de-CH"], "user_agent": "Mozilla/5.0 (X11; Linux x86_64) Visitor/1"}})
}

async fn nothing_is_found(stage: &Stage, engine: &str) -> Result<()> {
    const ITEMS: usize = 3;
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let asked_before = stage.site().hits("/kept").len();
    let fleet = finished(&api, "/lam/fleet", visits(&site, engine, ITEMS)).await?;
    ensure!(fleet["status"] == "success", "{engine}: {fleet:#}");
    let mut first_look = None;
    for row in fleet["output"].as_array().context("output")? {
        let visits = &row["output"];
        ensure!(visits[0]["found"] == "nothing", "{engine}: an item found what another left: {row:#}");
        ensure!(visits[1]["found"] == "cookie localStorage indexedDB", "{engine}: {row:#}");
        let look = visits[0]["look"].as_str().context("look")?;
        ensure!(look.starts_with("de-CH Mozilla/5.0 (X11; Linux x86_64) Visitor/1"), "{engine}: {look}");
        ensure!(
            *first_look.get_or_insert(look) == look,
            "{engine}: each begins with a window of the same size: {row:#}"
        );
        ensure!(row["artifacts"].as_array().is_some_and(|files| files.len() == 1), "{engine}: {row:#}");
    }
    let asked = stage.site().hits("/kept").len() - asked_before;
    ensure!(asked == ITEMS, "{engine}: a cache is one item's own: {asked}");
    let sessions = sessions(&fleet)?;
    ensure!(sessions.iter().all(|session| *session == sessions[0]), "{engine}: one lane, one worker: {sessions:?}");
    daemon.assert_idle().await
}

async fn an_item_finds_nothing_of_another(stage: Stage) -> Result<()> {
    nothing_is_found(&stage, "chromium").await
}

async fn firefox_items_find_nothing_of_another(stage: Stage) -> Result<()> {
    nothing_is_found(&stage, "firefox").await
}

async fn a_container_each_where_that_is_wanted(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let pages = [format!("{site}/tab/1"), format!("{site}/tab/2")];
    let body = json!({"extract": heading("{{input.url}}"), "urls": pages, "isolation": "container"});
    let fleet = finished(&api, "/lam/fleet", body.clone()).await?;
    let sessions = sessions(&fleet)?;
    ensure!(fleet["status"] == "success" && sessions[0] != sessions[1], "{fleet:#}");
    let fault = api.post("/lam/fleet", &with(body, json!({"isolation": "none"}))).await?.fault(400)?;
    ensure!(fault.field == "isolation", "{fault:?}");
    daemon.assert_idle().await
}

async fn a_browser_that_dies_takes_one_item_along(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let container = daemon.only_container().await?;
    let pages = [format!("{site}/tab/1"), format!("{site}/slow?ms=60000"), format!("{site}/tab/2")];
    let body = json!({"extract": heading("{{input.url}}"), "urls": pages, "retry": {"max": 0}});
    let asked_before = stage.site().hits("/slow").len();
    let fleet = id(&api.post("/lam/fleet", &body).await?.ok()?)?;
    eventually!("the second item waits for its page", 60, stage.site().hits("/slow").len() > asked_before)?;
    daemon.docker().signal_browser(&container, Signal::SIGKILL).await?;
    let ended = becomes(&api, &fleet, "failure", 90).await?;
    let rows = ended["output"].as_array().context("output")?;
    ensure!(rows[0]["status"] == "success" && rows[2]["status"] == "success", "{ended:#}");
    ensure!(rows[1]["error"]["code"] == "browser_died", "{ended:#}");
    let sessions = sessions(&ended)?;
    ensure!(sessions[0] == sessions[1] && sessions[1] != sessions[2], "{sessions:?}");
    daemon.assert_idle().await
}

async fn a_waiting_client_gets_the_worker_between_two_items(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let pages: Vec<String> = (0..4).map(|tab| format!("{site}/tab/{tab}")).collect();
    // The delay is longer than a caller waits, so the lane must give way while it rests.
    let body = json!({"extract": heading("{{input.url}}"), "urls": pages, "host_delay": 8_000});
    let fleet = id(&api.post("/lam/fleet", &body).await?.ok()?)?;
    eventually!("an item is done", 60, task(&api, &fleet).await?["items"]["success"].as_u64() > Some(0))?;
    let session = tokio::time::timeout(Duration::from_secs(60), daemon.session(json!({}))).await??;
    let items = &task(&api, &fleet).await?["items"];
    ensure!(items["running"] == 0 && items["success"].as_u64() < Some(4), "the fleet waits: {items}");
    session.delete().await?.ok()?;
    let ended = becomes(&api, &fleet, "success", 120).await?;
    let sessions = sessions(&ended)?;
    ensure!(sessions[0] != sessions[3], "the worker that was given up is not taken again: {sessions:?}");
    daemon.assert_idle().await
}
