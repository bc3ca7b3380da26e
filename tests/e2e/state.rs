//! What a browser keeps for sites: read from one session, and given to the next, on every engine.

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use warmpool_tests::programs::{self, Program};
use warmpool_tests::{Daemon, Driver, Group, Session, Settings, Stage, eventually, group, host_address};

pub(crate) fn group() -> Group {
    // Private files need a secure context, which pages of localhost have without a certificate.
    let allowed = format!("{},127.0.0.0/8,::1", host_address());
    let settings = Settings::on_demand().set("SESSION_MAX_STATE", "1MiB").set("EGRESS_ALLOW", allowed);
    group!(Some(settings),
        quick: [passes_between_sessions_of_chromium],
        full: [
            passes_between_all_engines,
            passes_to_playwright_and_back,
            is_there_before_the_first_page_and_leaves_no_trace,
            is_read_of_origins_that_no_tab_shows,
            names_the_origin_whose_tab_does_not_answer,
            names_what_json_cannot_carry,
            goes_with_a_browser_of_the_drivers_own,
            goes_with_tasks_and_is_not_kept,
            of_a_wrong_shape_is_refused,
            larger_than_allowed_is_refused,
        ],
    )
}

/// Engines, with the names that their drivers know.
const ENGINES: [(&str, &str); 3] = [("chromium", "chrome"), ("firefox", "firefox"), ("webkit", "MiniBrowser")];

/// Fills every kind of storage of an origin.
const FILL: &str = r#"
document.cookie = "plain=1; path=/";
document.cookie = "lasting=2; path=/; max-age=100000; samesite=strict";
localStorage.setItem("local", "ä \u0000 \" 9");
sessionStorage.setItem("own", "tab");
const done = arguments[arguments.length - 1];
const opening = indexedDB.open("db", 3);
opening.onupgradeneeded = () => {
  const keyed = opening.result.createObjectStore("keyed", { keyPath: ["a", "b"] });
  keyed.createIndex("by-tag", "tags", { multiEntry: true, unique: false });
  opening.result.createObjectStore("free", { autoIncrement: true });
};
opening.onsuccess = () => {
  const all = opening.result.transaction(["keyed", "free"], "readwrite");
  all.objectStore("keyed").put({ a: 1, b: "x", tags: ["t", "u"], at: new Date(1e12) });
  const loop = { map: new Map([[1, new Set(["s"])]]), bytes: new Uint8Array([0, 255, 7]), none: undefined, big: 12n };
  loop.self = loop;
  all.objectStore("free").put(loop, new Date(5));
  all.objectStore("free").put(null, "nothing");
  all.oncomplete = () => done("filled");
};
"#;

/// Says what every kind of storage holds.
const TELL: &str = r#"
const done = arguments[arguments.length - 1];
const opening = indexedDB.open("db");
opening.onsuccess = () => {
  const { version, objectStoreNames: names } = opening.result;
  if (!names.length) return done({ cookies: document.cookie, version });
  const all = opening.result.transaction(["keyed", "free"], "readonly");
  const indexed = all.objectStore("keyed").index("by-tag").get("u");
  const loop = all.objectStore("free").get(new Date(5));
  const nothing = all.objectStore("free").get("nothing");
  all.oncomplete = () => {
    const { map, bytes, big, self } = loop.result;
    done({
      cookies: document.cookie.split("; ").sort(), local: localStorage.getItem("local"), own: sessionStorage.getItem("own"),
      version, indexed: indexed.result.at.getTime(), map: map.get(1).has("s"), bytes: [...bytes], big: String(big),
      none: "none" in loop.result, loops: self === loop.result, nothing: nothing.result, history: history.length,
    });
  };
};
"#;

fn told() -> Value {
    json!({
        "cookies": ["lasting=2", "plain=1"], "local": "ä \u{0} \" 9", "own": "tab", "version": 3, "indexed": 1e12 as u64,
        "map": true, "bytes": [0, 255, 7], "big": "12", "none": true, "loops": true, "nothing": null,
    })
}

async fn asked(driver: &Driver, script: &str) -> Result<Value> {
    let body = json!({"script": script, "args": []});
    Ok(driver.command(Method::POST, "/execute/async", &body).await?.ok()?["value"].clone())
}

async fn drive(session: &Session, name: &str) -> Result<Driver> {
    Driver::start(session.connect_url()?, json!({"browserName": name})).await
}

async fn state_of(daemon: &Daemon, session: &Session) -> Result<Value> {
    daemon.api().get(&format!("/sessions/{}/state", session.id)).await?.ok()
}

/// The state of a session whose page has filled every kind of storage.
async fn filled(daemon: &Daemon, site: &str, (engine, name): (&str, &str)) -> Result<Value> {
    let body = json!({"browser_type": engine, "headless": true, "url": "about:blank"});
    let session = daemon.webdriver(body).await?;
    let driver = drive(&session, name).await?;
    driver.goto(&format!("{site}/cookies/set")).await?;
    driver.goto(&format!("{site}/")).await?;
    ensure!(asked(&driver, FILL).await? == "filled");
    let state = state_of(daemon, &session).await?;
    ensure!(state["warnings"].is_null(), "{}", state["warnings"]);
    session.delete().await?.ok()?;
    Ok(state)
}

/// Gives a state to a session, and checks what its pages see of it.
async fn given(stage: &Stage, site: &str, state: &Value, (engine, name): (&str, &str), from: &str) -> Result<()> {
    let daemon = stage.daemon()?;
    let path = format!("/probe/state-{from}-{engine}");
    let body = json!({"browser_type": engine, "headless": true, "url": format!("{site}{path}"), "state": state});
    let session = daemon.webdriver(body).await?;
    ensure!(session.body["warnings"].is_null(), "{}", session.body["warnings"]);
    let first = eventually!(format!("the page {path} is asked for"), 30, stage.site().hits(&path).pop())?;
    let cookie = first.headers.get("cookie").cloned().unwrap_or_default();
    ensure!(cookie.contains("lasting=2") && cookie.contains("plain=1"), "the first request has {cookie:?}");
    let driver = drive(&session, name).await?;
    driver.goto(&format!("{site}/")).await?;
    let mut seen = asked(&driver, TELL).await?;
    if let Some(seen) = seen.as_object_mut() {
        seen.remove("history");
    }
    ensure!(seen == told(), "{engine} from {from}: {seen}");
    session.delete().await?.ok()?;
    Ok(())
}

async fn passes_between_sessions_of_chromium(stage: Stage) -> Result<()> {
    let site = stage.site_for(stage.daemon()?).await?;
    let state = filled(stage.daemon()?, &site, ENGINES[0]).await?;
    let origin = &state["origins"][0];
    ensure!(origin["origin"] == site && state["origins"][1].is_null(), "{state}");
    ensure!(origin["sessionStorage"] == json!([{"name": "own", "value": "tab"}]), "{origin}");
    given(&stage, &site, &state, ENGINES[0], "chromium").await
}

async fn passes_between_all_engines(stage: Stage) -> Result<()> {
    let site = stage.site_for(stage.daemon()?).await?;
    for from in ENGINES {
        let state = filled(stage.daemon()?, &site, from).await.with_context(|| format!("from {}", from.0))?;
        for to in ENGINES {
            given(&stage, &site, &state, to, from.0)
                .await
                .with_context(|| format!("{} to {}: {state}", from.0, to.0))?;
        }
    }
    Ok(())
}

async fn passes_to_playwright_and_back(stage: Stage) -> Result<()> {
    let program = Program::node(&programs::clients(), "storage_state.mjs").await?.of(stage.daemon()?);
    let site = stage.site().url("localhost");
    let results = program.env("SITE_URL", &site).results().await?;
    ensure!(results["origins"] == json!([site]), "{results}");
    Ok(())
}

/// A state as Playwright writes it, of two origins.
fn of_two(site: &str, other: &str) -> Value {
    let host = site.trim_start_matches("http://").split(':').next().unwrap_or_default().to_owned();
    let local = |value: &str| json!([{"name": "from", "value": value}]);
    json!({
        "cookies": [{"name": "a", "value": "b", "domain": host, "path": "/", "expires": -1, "httpOnly": true, "secure": false,
            "sameSite": "Lax"}],
        "origins": [{"origin": site, "localStorage": local("one"), "sessionStorage": local("tab")},
            {"origin": other, "localStorage": local("two")}],
    })
}

async fn is_there_before_the_first_page_and_leaves_no_trace(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    for (engine, name) in ENGINES {
        let before = stage.site().hits("/").len();
        let body = json!({"browser_type": engine, "headless": true, "url": "about:blank",
            "state": of_two(&site, "http://other.invalid:8080")});
        let session = daemon.webdriver(body).await?;
        ensure!(session.body["warnings"].is_null(), "{engine}: {}", session.body["warnings"]);
        ensure!(stage.site().hits("/").len() == before, "{engine} has asked the site");
        let driver = drive(&session, name).await?;
        let handles = driver.command(Method::GET, "/window/handles", &Value::Null).await?.ok()?;
        ensure!(handles["value"].as_array().map(Vec::len) == Some(1), "{engine} has windows {handles}");
        driver.goto(&format!("{site}/")).await?;
        let script = "return [localStorage.getItem('from'), sessionStorage.getItem('from'), history.length]";
        let seen = driver.execute(script).await?;
        ensure!(seen[0] == "one" && seen[1] == "tab", "{engine}: {seen}");
        ensure!(seen[2].as_u64() <= Some(2), "{engine} has visited something: {seen}");
        session.delete().await?.ok()?;
    }
    Ok(())
}

async fn is_read_of_origins_that_no_tab_shows(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let files = json!([{"path": "notes", "type": "directory"}, {"path": "notes/a.txt", "type": "file", "base64": "AP8="},
        {"path": "z", "type": "file", "base64": ""}]);
    let mut given = of_two(&site, "http://other.invalid:8080");
    let private = json!({"origin": "https://files.invalid", "opfs": files});
    given["origins"].as_array_mut().context("origins")?.push(private);
    for (engine, name) in ENGINES {
        let body = json!({"browser_type": engine, "headless": true, "url": "about:blank", "state": given});
        let session = daemon.webdriver(body).await?;
        let warnings = session.body["warnings"].to_string();
        // Pages of this WebKit have no private files.
        let has_files = engine != "webkit";
        ensure!(has_files == (warnings == "null") && has_files != warnings.contains("private files"), "{warnings}");
        let driver = drive(&session, name).await?;
        driver.goto(&format!("{site}/")).await?;
        driver.execute("localStorage.setItem('later', '3')").await?;
        driver.goto("about:blank").await?;
        let state = state_of(daemon, &session).await?;
        let origins = state["origins"].as_array().context("origins")?;
        let kept = |origin: &str| origins.iter().find(|at| at["origin"] == origin).map(|at| at["localStorage"].clone());
        ensure!(
            kept("http://other.invalid:8080") == Some(json!([{"name": "from", "value": "two"}])),
            "{engine}: {state}"
        );
        let private = origins.iter().find(|at| at["origin"] == "https://files.invalid").map(|at| &at["opfs"]);
        ensure!(private == has_files.then_some(&files), "{engine}: {state}");
        let own = kept(&site).with_context(|| format!("{engine}: {state}"))?;
        ensure!(own.as_array().map(Vec::len) == Some(2), "{engine}: {own}");
        ensure!(state["cookies"][0]["httpOnly"] == true, "{engine}: {state}");
        session.delete().await?.ok()?;
    }
    Ok(())
}

/// Only the tab itself tells its session storage, and one that shows a dialog, or hangs, tells nothing.
async fn names_the_origin_whose_tab_does_not_answer(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    for (engine, name) in ENGINES {
        let body = json!({"browser_type": engine, "headless": true, "url": "about:blank"});
        let session = daemon.webdriver(body).await?;
        let driver = drive(&session, name).await?;
        driver.goto(&format!("{site}/")).await?;
        // Firefox's tabs answer beside a dialog. Not at once: a dialog that is open when the script returns is the driver's to close.
        let blocks = match engine {
            "firefox" => "navigator.sendBeacon('/probe/state-hangs'); for (;;) {}",
            _ => "alert('wait')",
        };
        let script = format!("sessionStorage.setItem('own', 'tab'); setTimeout(() => {{ {blocks} }}, 1000)");
        driver.execute(&script).await?;
        eventually!(format!("{engine} is blocked"), 20, {
            match engine {
                "firefox" => !stage.site().hits("/probe/state-hangs").is_empty(),
                _ => driver.command(Method::GET, "/alert/text", &Value::Null).await?.status == 200,
            }
        })?;
        let state = state_of(daemon, &session).await?;
        ensure!(state["unread"] == json!([site]), "{engine}: {state}");
        ensure!(state["warnings"].to_string().contains("the session storage of its tab"), "{engine}: {state}");
        session.delete().await?.ok()?;
    }
    Ok(())
}

/// Options that a warm browser cannot have make the driver start another one, which has the state too.
async fn names_what_json_cannot_carry(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    for (engine, name) in ENGINES {
        let session = daemon.webdriver(json!({"browser_type": engine, "headless": true})).await?;
        let driver = drive(&session, name).await?;
        driver.goto(&format!("{site}/form")).await?;
        driver.execute("localStorage.setItem('whole', '1'); localStorage.setItem('half', '\\ud83d')").await?;
        let state = state_of(daemon, &session).await?;
        let kept = &state["origins"][0]["localStorage"];
        ensure!(*kept == json!([{"name": "whole", "value": "1"}]), "{engine}: {state}");
        let warned = state["warnings"].to_string();
        ensure!(warned.contains("the item half, which is no text of Unicode"), "{engine}: {state}");
        session.delete().await?.ok()?;
    }
    Ok(())
}

async fn goes_with_a_browser_of_the_drivers_own(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let chromium = json!({"browserName": "chrome", "goog:chromeOptions": {"args": ["--disable-gpu-compositing"],
        "prefs": {"intl.accept_languages": "fr"}}});
    let firefox =
        json!({"browserName": "firefox", "moz:firefoxOptions": {"prefs": {"dom.disable_open_during_load": false}}});
    for (engine, capabilities) in [("chromium", chromium), ("firefox", firefox)] {
        let body = json!({"browser_type": engine, "headless": true, "url": "about:blank",
            "state": of_two(&site, "http://other.invalid:8080")});
        let session = daemon.webdriver(body).await?;
        let driver = Driver::start(session.connect_url()?, capabilities).await?;
        driver.goto(&format!("{site}/")).await?;
        let seen = driver.execute("return localStorage.getItem('from')").await?;
        ensure!(seen == "one", "{engine}: {seen}");
        session.delete().await?.ok()?;
    }
    Ok(())
}

async fn of_a_wrong_shape_is_refused(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    let cookie = |domain: &str| json!({"cookies": [{"name": "a", "value": "b", "domain": domain, "path": "/"}]});
    let origin = |origin: &str| json!({"origins": [{"origin": origin, "localStorage": []}]});
    for (state, field) in [
        (json!([]), "state"),
        (json!({"cookies": [{"name": "a"}]}), "state.cookies[0]"),
        (json!({"cookies": {}}), "state.cookies"),
        (json!({"jar": []}), "state.jar"),
        (cookie(".co.uk"), "state.cookies[0].domain"),
        (cookie(".10.0.0.1"), "state.cookies[0].domain"),
        (cookie("a b"), "state.cookies[0].domain"),
        (origin("https://example.com/"), "state.origins[0].origin"),
        (origin("nonsense"), "state.origins[0].origin"),
    ] {
        let reply = api.post("/sessions/create", &json!({"state": state})).await?;
        ensure!(reply.status == 400, "{state}: {}", reply.text());
        let error = reply.json()?;
        ensure!(error["error"]["field"].as_str().is_some_and(|named| named.starts_with(field)), "{state}: {error}");
    }
    Ok(())
}

/// Every page of a task and every item of a fleet begins with it. Nothing of it is in a record, and a retry brings it again.
async fn goes_with_tasks_and_is_not_kept(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let site = stage.site_for(daemon).await?;
    let host = site.rsplit_once(":").and_then(|(host, _)| host.strip_prefix("http://")).context("a host")?;
    let state = json!({"cookies": [{"name": "login", "value": "of-a-task", "domain": host, "path": "/"}]});
    let (cookies, schema) = (format!("{site}/cookies"), json!({"login": {"selector": "body", "type": "text"}}));
    let extract = json!({"url": cookies, "schema": schema, "state": state, "wait": 60});
    let task = api.post("/lam/extract", &extract).await?.ok()?;
    ensure!(task["output"].to_string().contains("of-a-task"), "{task}");
    let urls = [format!("{cookies}?1"), format!("{cookies}?2")];
    let fleet =
        json!({"urls": urls, "extract": {"url": "{{input.url}}", "schema": schema}, "state": state, "wait": 100});
    let fleet = api.post("/lam/fleet", &fleet).await?.ok()?;
    let path = format!("/lam/tasks/{}", fleet["taskId"].as_str().context("taskId")?);
    let items = api.get(&format!("{path}/items")).await?.ok()?;
    for at in 0..2 {
        ensure!(items["items"][at]["output"].to_string().contains("of-a-task"), "{items}");
    }
    let steps = json!([{"type": "navigate", "url": cookies}, {"type": "click", "selectors": [["#none"]], "offsetX": 1, "offsetY": 1, "timeout": 500}]);
    let failed = api.post("/lam/run", &json!({"steps": steps, "state": state, "wait": 60})).await?.ok()?;
    ensure!(failed["status"] == "failure", "{failed}");
    let again = format!("/lam/tasks/{}", failed["taskId"].as_str().context("taskId")?);
    let record = api.get(&again).await?;
    ensure!(!record.text().contains("of-a-task"), "{}", record.text());
    let refused = api.post(&format!("{again}/retry"), &json!({})).await?.fault(400)?;
    ensure!(refused.field == "state", "{refused:?}");
    let retried = api.post(&format!("{again}/retry"), &json!({"state": state})).await?.ok()?;
    api.delete(&format!("/lam/tasks/{}", retried["taskId"].as_str().context("taskId")?)).await?;
    let without = api.post("/lam/run", &json!({"steps": steps, "wait": 60})).await?.ok()?;
    let again = format!("/lam/tasks/{}/retry", without["taskId"].as_str().context("taskId")?);
    let refused = api.post(&again, &json!({"state": state})).await?.fault(400)?;
    ensure!(refused.field == "state" && refused.message.contains("without one"), "{refused:?}");
    let large = json!([{"name": "a", "value": "x".repeat(70_000)}]);
    let large = json!({"origins": [{"origin": site, "localStorage": large}]});
    for (body, field) in [
        (json!({"url": cookies, "schema": schema, "state": large}), "state"),
        (json!({"url": cookies, "schema": schema, "state": {"jar": []}}), "state.jar"),
        (json!({"url": cookies, "schema": schema, "state": {}, "profile": {"name": "a"}}), "state"),
    ] {
        let refused = api.post("/lam/extract", &body).await?.fault(400)?;
        ensure!(refused.field == field, "{refused:?}");
    }
    Ok(())
}

async fn larger_than_allowed_is_refused(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let local = json!([{"name": "a", "value": "x".repeat(2 << 20)}]);
    let state = json!({"origins": [{"origin": site, "localStorage": local}]});
    let reply = daemon.api().post("/sessions/create", &json!({"state": state})).await?;
    ensure!(reply.status == 413 && reply.text().contains("session.max_state"), "{}", reply.text());
    // What a page stores is not taken along beyond the limit either, and the rest is.
    for (engine, name) in ENGINES {
        let body = json!({"browser_type": engine, "headless": true, "url": "about:blank"});
        let session = daemon.webdriver(body).await?;
        let driver = drive(&session, name).await?;
        driver.goto(&format!("{site}/")).await?;
        driver.execute("document.cookie = 'small=1'; localStorage.setItem('a', 'x'.repeat(2 << 20))").await?;
        let state = state_of(daemon, &session).await?;
        ensure!(state["warnings"].to_string().contains("larger"), "{engine}: {}", state["warnings"]);
        ensure!(state["cookies"][0]["name"] == "small" && state["origins"] == json!([]), "{engine}: {state}");
        session.delete().await?.ok()?;
    }
    Ok(())
}
