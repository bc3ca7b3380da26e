//! Firefox as a session's browser: its clients' whole flows, its one BiDi session, its settings and its options.

use std::io::{Cursor, Write as _};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use warmpool_tests::{Cdp, Driver, Group, Session, Settings, Stage, eventually, flows, group, webdriver};
use zip::write::{SimpleFileOptions, ZipWriter};

const ENGINE: &str = "firefox";
const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64) WarmpoolTest/7.1";

pub(crate) fn group() -> Group {
    let settings = Settings::new()
        .set("POOL_CHROMIUM_HEADLESS", "0")
        .set("POOL_FIREFOX_HEADLESS", "1")
        .set("SESSION_RECONNECT_WINDOW", "3s");
    group!(Some(settings),
        quick: [puppeteer_closes],
        full: [
            puppeteer_leaves_and_comes_back,
            selenium_node_quits,
            selenium_python_quits,
            fantoccini_closes,
            an_abrupt_leave_frees_the_one_session,
            a_second_client_is_refused_by_name,
            settings_hold_everywhere,
            the_clients_own_override_wins,
            a_crash_is_a_failure_and_the_pool_is_refilled,
            options_take_effect,
            dangerous_options_are_refused_by_name,
            no_profile_and_no_extension_leads_out_of_the_fence,
        ],
    )
}

fn firefox(mut body: Value) -> Value {
    body["browser_type"] = json!(ENGINE);
    if body["headless"].is_null() {
        body["headless"] = json!(true);
    }
    body
}

async fn puppeteer_closes(stage: Stage) -> Result<()> {
    flows::puppeteer_closes(&stage, ENGINE).await
}

async fn puppeteer_leaves_and_comes_back(stage: Stage) -> Result<()> {
    flows::puppeteer_returns(&stage, ENGINE, true).await
}

async fn selenium_node_quits(stage: Stage) -> Result<()> {
    // On a display, which no other case needs.
    flows::selenium_node_quits(&stage, ENGINE, false).await
}

async fn selenium_python_quits(stage: Stage) -> Result<()> {
    flows::selenium_python_quits(&stage, ENGINE).await
}

async fn fantoccini_closes(stage: Stage) -> Result<()> {
    flows::fantoccini_closes(&stage, ENGINE).await
}

/// A raw client with the browser's one BiDi session.
async fn bidi(session: &Session) -> Result<Cdp> {
    let mut client = session.cdp().await?;
    client.call("session.new", json!({"capabilities": {}})).await?;
    Ok(client)
}

async fn an_abrupt_leave_frees_the_one_session(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.session(firefox(json!({}))).await?;
    // The client sends no Close frame: the connection breaks.
    drop(bidi(&session).await?);
    let mut next = eventually!("the next client gets the session", 10, bidi(&session).await.ok())?;
    let tree = next.call("browsingContext.getTree", json!({})).await?;
    ensure!(tree["contexts"].as_array().is_some_and(|contexts| contexts.len() == 1), "{tree}");
    next.disconnect().await?;
    // A websocket close without BiDi's `session.end` frees it too.
    eventually!("and the one after it", 10, bidi(&session).await.ok())?.disconnect().await?;
    session.delete().await?.ok()?;
    Ok(())
}

async fn a_second_client_is_refused_by_name(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(firefox(json!({}))).await?;
    let mut first = bidi(&session).await?;
    for _ in 0..2 {
        let Err(refusal) = bidi(&session).await else { anyhow::bail!("two clients have one session") };
        ensure!(format!("{refusal:#}").contains("another client has"), "{refusal:#}");
    }
    first.call("browsingContext.getTree", json!({})).await.context("the first one goes on")?;
    session.delete().await?.ok()?;

    // A driver and a websocket compete for the same.
    let session = daemon.webdriver(firefox(json!({}))).await?;
    let driver = Driver::start(session.connect_url()?, json!({"webSocketUrl": true})).await?;
    let socket = driver.capabilities["webSocketUrl"].as_str().context("webSocketUrl")?;
    let connect_url = session.connect_url()?.replacen("http", "ws", 1);
    ensure!(socket.rsplit_once("/session/").is_some_and(|(before, _)| format!("{before}/") == connect_url), "{socket}");
    let mut beside = Cdp::connect(socket).await.context("the driver's own websocket")?;
    let tree = beside.call("browsingContext.getTree", json!({})).await?;
    ensure!(tree["contexts"][0]["context"].is_string(), "{tree}");
    drop(beside);
    ensure!(driver.execute("return 6 * 7").await? == 42, "the driver lives on without its websocket");
    ensure!(driver.capabilities["se:cdp"].is_null(), "{}", driver.capabilities);
    driver.quit().await?;
    Ok(())
}

fn wanted() -> Value {
    json!({"locales": ["de-DE", "fr-FR"], "user_agent": AGENT, "viewport": {"width": 1000, "height": 640}})
}

async fn report(stage: &Stage, name: &str) -> Result<Value> {
    eventually!(format!("the page {name} reports"), 30, stage.site().report(name))
}

/// What a page reported agrees with [`wanted`]; in a popup but for its size: a script that runs at once may still see the
/// one that the opener named.
fn check(report: &Value, is_popup: bool) -> Result<()> {
    for place in ["top", "frame", "worker"] {
        let seen = &report[place];
        ensure!(seen["userAgent"] == AGENT, "{place}: {seen}");
        ensure!(seen["languages"] == json!(["de-DE", "fr-FR"]) && seen["intl"] == "de-DE", "{place}: {seen}");
    }
    let (top, size) = (&report["top"], json!({"width": 1000, "height": 640}));
    ensure!(top["number"] == "1.234,5" && top["screen"] == size, "{top}");
    ensure!(is_popup || top["inner"] == size, "{top}");
    for headers in [&report["headers"], &report["worker"]["headers"]] {
        ensure!(headers["user-agent"] == AGENT, "{headers}");
        ensure!(headers["accept-language"].as_str().is_some_and(|value| value.starts_with("de-DE,fr-FR")), "{headers}");
    }
    Ok(())
}

async fn settings_hold_everywhere(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let probe = |place: &str| format!("{site}/probe/firefox-{place}");
    let holds = async |place: &str| {
        let report = report(&stage, &format!("firefox-{place}")).await?;
        check(&report, place.ends_with("-popup")).with_context(|| place.to_owned())
    };
    let session = daemon.session(firefox(json!({"settings": wanted(), "url": probe("first")}))).await?;
    ensure!(session.body["warnings"].as_array().is_none_or(Vec::is_empty), "{}", session.body);
    holds("first").await?;
    let mut client = bidi(&session).await?;
    let context = client.call("browser.createUserContext", json!({})).await?["userContext"].clone();
    for (place, how) in [
        ("tab", json!({"type": "tab"})),
        ("window", json!({"type": "window"})),
        ("context", json!({"type": "tab", "userContext": context})),
    ] {
        let page = client.call("browsingContext.create", how).await?["context"].clone();
        client.call("browsingContext.navigate", json!({"context": page, "url": probe(place)})).await?;
        holds(place).await?;
        let popup = format!("void window.open('{}', 'p', 'width=500,height=400')", probe(&format!("{place}-popup")));
        let open = json!({"expression": popup, "target": {"context": page}, "awaitPromise": false});
        client.call("script.evaluate", open).await?;
        holds(&format!("{place}-popup")).await?;
    }
    session.delete().await?.ok()?;

    let session = daemon.webdriver(firefox(json!({"settings": wanted()}))).await?;
    let driver = Driver::start(session.connect_url()?, json!({"browserName": "firefox"})).await?;
    driver.goto(&probe("driver")).await?;
    holds("driver").await?;
    driver.quit().await?;
    Ok(())
}

async fn the_clients_own_override_wins(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(firefox(json!({"settings": wanted()}))).await?;
    let mut client = bidi(&session).await?;
    let page = client.call("browsingContext.create", json!({"type": "tab"})).await?["context"].clone();
    let own = json!({"userAgent": "Own/1", "contexts": [page]});
    client.call("emulation.setUserAgentOverride", own).await?;
    client.call("emulation.setLocaleOverride", json!({"locale": "it-IT", "contexts": [page]})).await?;
    let size = json!({"context": page, "viewport": {"width": 333, "height": 222}});
    client.call("browsingContext.setViewport", size).await?;
    let url = format!("{site}/probe/firefox-own");
    client.call("browsingContext.navigate", json!({"context": page, "url": url})).await?;
    let report = report(&stage, "firefox-own").await?;
    let top = &report["top"];
    ensure!(top["userAgent"] == "Own/1" && report["headers"]["user-agent"] == "Own/1", "{report}");
    ensure!(top["intl"] == "it-IT" && top["language"] == "it-IT", "{top}");
    ensure!(top["inner"] == json!({"width": 333, "height": 222}), "{top}");
    session.delete().await?.ok()?;
    Ok(())
}

async fn a_crash_is_a_failure_and_the_pool_is_refilled(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    daemon.warm().await?;
    let container = eventually!("only the warm worker is left", 30, daemon.only_container().await.ok())?;
    let session = daemon.session(firefox(json!({}))).await?;
    let mut client = bidi(&session).await?;
    daemon.docker().signal_browser(&container, Signal::SIGSEGV).await?;
    let (code, _) = client.ended().await?.context("a Close frame")?;
    ensure!(code == 1011, "{code}");
    let record = session.becomes("failure", 20).await?;
    ensure!(record["reason"] == "browser_crashed", "{record}");
    daemon.warm().await
}

/// A new driver session with these `moz:firefoxOptions`.
async fn driver_with(session: &Session, options: Value) -> Result<Driver> {
    Driver::start(session.connect_url()?, json!({"moz:firefoxOptions": options})).await
}

async fn options_take_effect(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    // While the browser runs.
    let session = daemon.webdriver(firefox(json!({}))).await?;
    let prefs = json!({"prefs": {"intl.accept_languages": "it, en", "remote.active-protocols": 3}});
    let driver = driver_with(&session, prefs).await?;
    driver.goto(&format!("{site}/")).await?;
    ensure!(driver.execute("return navigator.languages").await? == json!(["it", "en"]));
    driver.quit().await?;

    // In a browser started for it, where the session's settings hold as well.
    let session = daemon.webdriver(firefox(json!({"settings": wanted()}))).await?;
    let options = json!({
        "args": ["-private"], "env": {"TZ": "Asia/Tokyo"},
        "prefs": {"dom.battery.enabled": false, "browser.display.background_color": "#010203"},
    });
    let driver = driver_with(&session, options).await?;
    driver.goto(&format!("{site}/probe/firefox-cold")).await?;
    check(&report(&stage, "firefox-cold").await?, false)?;
    let zone = driver.execute("return Intl.DateTimeFormat().resolvedOptions().timeZone").await?;
    ensure!(zone == "Asia/Tokyo", "{zone}");
    driver.quit().await?;
    Ok(())
}

async fn dangerous_options_are_refused_by_name(stage: Stage) -> Result<()> {
    let session = stage.daemon()?.webdriver(firefox(json!({}))).await?;
    for (options, name) in [
        (json!({"args": ["--remote-allow-system-access"]}), "--remote-allow-system-access"),
        (json!({"args": ["--profile", "/tmp"]}), "--profile"),
        (json!({"env": {"LD_PRELOAD": "/tmp/x.so"}}), "LD_PRELOAD"),
        (json!({"prefs": {"security.sandbox.content.level": 0}}), "security.sandbox.content.level"),
    ] {
        let always = json!({"alwaysMatch": {"moz:firefoxOptions": options}});
        let reply = webdriver::new_session(session.connect_url()?, always).await?;
        let (_, message) = webdriver::fault(&reply, 500).or_else(|_| webdriver::fault(&reply, 400))?;
        ensure!(message.contains(name), "{name}: {message}");
    }
    // Only the worker finds that the profile is invalid; the client may try again.
    let invalid = json!({"alwaysMatch": {"moz:firefoxOptions": {"profile": "bm90IGEgemlw"}}});
    let reply = webdriver::new_session(session.connect_url()?, invalid).await?;
    let (_, message) = webdriver::fault(&reply, 500)?;
    ensure!(message.contains("profile"), "{message}");
    let driver = driver_with(&session, json!({"binary": "/bin/sh"})).await?;
    let warnings = &driver.capabilities["warmpool:options"]["warnings"];
    ensure!(warnings.to_string().contains("moz:firefoxOptions.binary"), "{warnings}");
    ensure!(driver.execute("return 6 * 7").await? == 42);
    driver.quit().await?;
    Ok(())
}

fn zipped(files: &[(&str, &[u8])]) -> Result<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        writer.start_file(*name, SimpleFileOptions::default())?;
        writer.write_all(content)?;
    }
    Ok(writer.finish()?.into_inner())
}

/// An extension that marks each page with a name, and opens a window that shows the browser's home page. It may have an API of
/// its own with the browser's rights.
fn extension(mark: &str, has_own_api: bool) -> Result<Vec<u8>> {
    let mut manifest = json!({
        "manifest_version": 2, "name": mark, "version": "1",
        "browser_specific_settings": {"gecko": {"id": format!("{mark}@test.example")}},
        "content_scripts": [{"matches": ["<all_urls>"], "js": ["page.js"]}], "background": {"scripts": ["window.js"]},
    });
    if has_own_api {
        let parent = json!({"scopes": ["addon_parent"], "paths": [["own"]], "script": "own.js", "events": ["startup"]});
        manifest["experiment_apis"] = json!({"own": {"schema": "own.json", "parent": parent}});
    }
    let own = b"Services.prefs.unlockPref('network.proxy.type'); Services.prefs.setIntPref('network.proxy.type', 0);
        this.own = class extends ExtensionAPI { onStartup() {} getAPI() { return {}; } };";
    let window: &[u8] = if mark == "temporary" { b"browser.windows.create({})" } else { b"" };
    let page = format!("document.documentElement.setAttribute('data-{mark}', 'here')");
    zipped(&[
        ("manifest.json", manifest.to_string().as_bytes()),
        ("page.js", page.as_bytes()),
        ("window.js", window),
        ("own.json", b"[]"),
        ("own.js", own),
    ])
}

async fn no_profile_and_no_extension_leads_out_of_the_fence(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.webdriver(firefox(json!({}))).await?;
    let profile = |files: &[(&str, &[u8])]| zipped(files).map(|bytes| json!({"profile": STANDARD.encode(bytes)}));
    for (options, name) in [
        (
            profile(&[("user.js", b"user_pref('security.sandbox.content.level', 0);")])?,
            "security.sandbox.content.level",
        ),
        (profile(&[("user.js", b"pref (\"\\x6eetwork.proxy.type\", 0);")])?, "network.proxy.type"),
        (
            profile(&[("prefs.js", b"user_pref('extensions.experiments.enabled', true);")])?,
            "extensions.experiments.enabled",
        ),
        (json!({"prefs": {"extensions.experiments.enabled": true}}), "extensions.experiments.enabled"),
        (json!({"prefs": {"xpinstall.signatures.required\0": false}}), "xpinstall.signatures.required"),
        (profile(&[("user.js", b"lockPref('dom.a', 1);")])?, "line 1"),
    ] {
        let always = json!({"alwaysMatch": {"moz:firefoxOptions": options}});
        let reply = webdriver::new_session(session.connect_url()?, always).await?;
        let (_, message) = webdriver::fault(&reply, 500)?;
        ensure!(message.contains(name), "{name}: {message}");
    }

    // One profile that would do more than it may.
    let shell = json!([{"name": "sh", "path": "/bin/sh"}]);
    let handlers = json!({
        "defaultHandlersVersion": {},
        "mimeTypes": {"application/x-trial": {"action": 2, "ask": false, "extensions": ["trial"], "handlers": shell}},
        "schemes": {"x-trial": {"action": 2, "ask": false, "handlers": shell}},
    });
    let marked = extension("kept", false)?;
    let options = profile(&[
        (
            "user.js",
            b"user_pref('general.useragent.override', 'Trial/1'); user_pref('xpinstall.signatures.required', false);
            user_pref('browser.startup.homepage', 'about:config');",
        ),
        ("handlers.json", handlers.to_string().as_bytes()),
        ("extensions/kept@test.example.xpi", &marked),
    ])?;
    let driver = driver_with(&session, options).await?;
    let warnings = driver.capabilities["warmpool:options"]["warnings"].to_string();
    ensure!(warnings.contains("handlers.json"), "{warnings}");
    driver.goto(&format!("{site}/")).await?;
    ensure!(driver.execute("return navigator.userAgent").await? == "Trial/1", "its preferences have effect");
    let has =
        async |mark: &str| driver.execute(&format!("return document.documentElement.dataset.{mark} ?? null")).await;
    ensure!(has("kept").await? == "here", "its extension works");

    // A download is saved, and no program runs.
    let script = "location = URL.createObjectURL(new Blob(['touch ~/ran'], {type: 'application/x-trial'}))";
    driver.execute(script).await?;
    eventually!("the download is kept", 20, {
        let listed = session.get_file("").await?.ok()?;
        listed.as_array().is_some_and(|files| files.iter().any(|file| file["complete"] == true))
    })?;

    // Temporary extensions work, and have an extension's rights.
    let install = async |bytes: Vec<u8>| {
        let body = json!({"addon": STANDARD.encode(bytes), "temporary": true, "allowPrivateBrowsing": true});
        driver.command(Method::POST, "/moz/addon/install", &body).await
    };
    install(extension("temporary", false)?).await?.ok()?;
    driver.goto(&format!("{site}/")).await?;
    ensure!(has("temporary").await? == "here", "a temporary extension works");
    let handles = eventually!("a window of its opens", 10, {
        let handles = driver.command(Method::GET, "/window/handles", &Value::Null).await?.ok()?["value"].clone();
        handles.as_array().filter(|handles| handles.len() > 1).cloned()
    })?;
    let first = driver.command(Method::GET, "/window", &Value::Null).await?.ok()?["value"].clone();
    let second = handles.iter().find(|handle| **handle != first).context("another window")?;
    driver.command(Method::POST, "/window", &json!({"handle": second})).await?.ok()?;
    // A driver runs no script in a page of the browser's own, but it can click and type there.
    eventually!("a page that says what is blocked", 10, {
        let title = driver.command(Method::GET, "/title", &Value::Null).await?.ok()?;
        title["value"] == "Blocked Page"
    })?;
    driver.command(Method::POST, "/window", &json!({"handle": first})).await?.ok()?;
    let (_, message) = webdriver::fault(&install(extension("privileged", true)?).await?, 500)?;
    ensure!(message.contains("invalid"), "{message}");
    let chrome = driver.command(Method::POST, "/moz/context", &json!({"context": "chrome"})).await?;
    ensure!(chrome.status == 500 && chrome.to_string().contains("System access"), "{chrome}");

    for container in daemon.containers().await? {
        let home = daemon.docker().inspect(&container.id, &["ls", "/home/worker"]).await?;
        ensure!(!home.lines().any(|file| file == "ran"), "a program of the container ran: {home}");
    }
    driver.quit().await?;
    Ok(())
}
