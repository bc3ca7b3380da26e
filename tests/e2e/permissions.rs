//! `settings.permissions` and `settings.geolocation`, as pages on a secure site find them.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::{Daemon, Group, Session, Settings, Stage, eventually, group, host_address};

use crate::settings::{Client, EVERYWHERE, OF_DRIVERS, OF_INSPECTORS, Place, Row};

pub(crate) fn group() -> Group {
    // Pages of localhost are secure without a certificate.
    let settings = Settings::new().set("EGRESS_ALLOW", format!("{},127.0.0.0/8,::1", host_address()));
    group!(Some(settings),
        quick: [],
        full: [
            hold_in_chromium,
            hold_in_chromium_under_webdriver,
            hold_in_firefox,
            hold_in_firefox_under_webdriver,
            hold_in_webkit,
            hold_in_webkit_under_webdriver,
            nobody_else_is_permitted,
            tasks_have_them,
        ],
    )
}

const ALL: [&str; 6] = ["camera", "clipboard-read", "clipboard-write", "geolocation", "microphone", "notifications"];
const OF_WEBKIT: [&str; 1] = ["geolocation"];

/// Names that Firefox grants and does not tell.
const UNTOLD: [&str; 2] = ["clipboard-read", "clipboard-write"];

fn settings(permissions: &[&str]) -> Value {
    json!({"permissions": permissions, "geolocation": {"latitude": -33.5, "longitude": 151.25, "accuracy": 20}})
}

async fn report(stage: &Stage, name: &str) -> Result<Value> {
    eventually!(format!("the page {name} reports"), 30, stage.site().report(name))
}

fn faults(engine: &str, permissions: &[&str], seen: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let mut expect = |what: &str, seen: &Value, wanted: Value| {
        if *seen != wanted {
            faults.push(format!("{what} is {seen} and should be {wanted}"));
        }
    };
    expect("a secure context", &seen["isSecureContext"], json!(true));
    for name in permissions {
        let is_untold = engine == "firefox" && UNTOLD.contains(name);
        expect(name, &seen["states"][name], json!(if is_untold { "unknown" } else { "granted" }));
    }
    expect("the place", &seen["place"], json!([-33.5, 151.25, 20]));
    if permissions.contains(&"camera") {
        expect("Notification.permission", &seen["notification"], json!("granted"));
        // Pages may, and there is none.
        expect("getUserMedia", &seen["media"], json!("NotFoundError"));
    }
    faults
}

async fn hold(stage: Stage, row: Row, permissions: &[&str]) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site().url("localhost");
    let kind = if row.webdriver { "webdriver" } else { "socket" };
    let name = |place: Place| format!("permitted-{}-{kind}-{place:?}", row.engine);
    let first = format!("{site}/permitted/{}#copy", name(Place::First));
    let body = json!({
        "browser_type": row.engine, "headless": row.headless, "settings": settings(permissions), "url": first,
    });
    let session = made(daemon, body, row.webdriver).await?;
    ensure!(session.body["warnings"].is_null(), "{}", session.body);
    let mut client: Option<Client> = None;
    for place in row.places {
        if *place != Place::First {
            if client.is_none() {
                client = Some(Client::attach(&row, &session).await?);
            }
            let client = client.as_mut().context("a client")?;
            client.open(&row, *place, &format!("{site}/permitted/{}", name(*place))).await?;
        }
        let seen = report(&stage, &name(*place)).await?;
        let faults = faults(row.engine, permissions, &seen);
        ensure!(faults.is_empty(), "{} {place:?}: {}", row.engine, faults.join("; "));
        if *place == Place::First && permissions.contains(&"clipboard-read") {
            ensure!(seen["copied"] == "copied", "{}: {seen}", row.engine);
        }
    }
    session.delete().await?.ok()?;
    Ok(())
}

async fn made(daemon: &Daemon, body: Value, webdriver: bool) -> Result<Session> {
    if webdriver { daemon.webdriver(body).await } else { daemon.session(body).await }
}

async fn hold_in_chromium(stage: Stage) -> Result<()> {
    hold(stage, Row { engine: "chromium", headless: true, webdriver: false, places: EVERYWHERE }, &ALL).await
}

async fn hold_in_chromium_under_webdriver(stage: Stage) -> Result<()> {
    hold(stage, Row { engine: "chromium", headless: false, webdriver: true, places: OF_DRIVERS }, &ALL).await
}

async fn hold_in_firefox(stage: Stage) -> Result<()> {
    hold(stage, Row { engine: "firefox", headless: true, webdriver: false, places: EVERYWHERE }, &ALL).await
}

async fn hold_in_firefox_under_webdriver(stage: Stage) -> Result<()> {
    hold(stage, Row { engine: "firefox", headless: false, webdriver: true, places: OF_DRIVERS }, &ALL).await
}

async fn hold_in_webkit(stage: Stage) -> Result<()> {
    hold(stage, Row { engine: "webkit", headless: true, webdriver: false, places: OF_INSPECTORS }, &OF_WEBKIT).await
}

async fn hold_in_webkit_under_webdriver(stage: Stage) -> Result<()> {
    hold(stage, Row { engine: "webkit", headless: true, webdriver: true, places: OF_DRIVERS }, &OF_WEBKIT).await
}

/// Another permission than those that were asked for, and any without asking.
async fn nobody_else_is_permitted(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site().url("localhost");
    for (engine, settings) in
        [("chromium", settings(&["notifications"])), ("firefox", settings(&["notifications"])), ("webkit", json!({}))]
    {
        let name = format!("forbidden-{engine}");
        let url = format!("{site}/permitted/{name}");
        let session = daemon.session(json!({"browser_type": engine, "settings": settings, "url": url})).await?;
        // Where nobody answers the question, there is no report.
        if engine == "webkit" {
            let seen = report(&stage, &name).await?;
            ensure!(seen["place"].is_string() && seen["states"]["geolocation"] != "granted", "{engine}: {seen}");
        } else {
            // The page asks too. Whether nobody's answer counts as none or as a refusal is a matter of when.
            let script = "location.protocol === 'http:' && \
                navigator.permissions.query({name: 'geolocation'}).then(({state}) => state)";
            let state = eventually!(format!("{engine} says"), 30, {
                Some(ask(&session, engine, script).await?).filter(Value::is_string)
            })?;
            ensure!(state == "prompt" || state == "denied", "{engine}: {state}");
        }
        session.delete().await?.ok()?;
    }
    let body = json!({"browser_type": "webkit", "settings": {"permissions": ["geolocation", "camera"]}});
    let fault = daemon.api().post("/sessions/create", &body).await?.fault(400)?;
    ensure!(
        fault.field == "settings.permissions[1]" && fault.message.contains("chromium and firefox"),
        "{}",
        fault.message
    );
    Ok(())
}

/// What a script returns in the first page.
async fn ask(session: &Session, engine: &str, script: &str) -> Result<Value> {
    let mut socket = session.cdp().await?;
    if engine == "chromium" {
        let page = socket.first_page().await?;
        return socket.evaluate(&page, script).await;
    }
    socket.call("session.new", json!({"capabilities": {}})).await?;
    let tree = socket.call("browsingContext.getTree", json!({"maxDepth": 0})).await?;
    let target = json!({"context": tree["contexts"][0]["context"]});
    let params = json!({"expression": script, "target": target, "awaitPromise": true});
    let found = socket.call("script.evaluate", params).await?;
    Ok(found["result"]["value"].clone())
}

async fn tasks_have_them(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let url = format!("{}/permitted/task", stage.site().url("localhost"));
    let steps = json!([{"type": "navigate", "url": url}, {"type": "waitForElement", "selectors": [["#done"]]}]);
    let mut settings = settings(&ALL);
    settings["timezone"] = json!("Asia/Tokyo");
    let body = json!({"settings": settings, "recording": {"title": "t", "steps": steps}, "wait": 30});
    daemon.api().post("/lam/run", &body).await?.ok()?;
    let seen = report(&stage, "task").await?;
    ensure!(seen["place"] == json!([-33.5, 151.25, 20]), "{seen}");
    Ok(())
}
