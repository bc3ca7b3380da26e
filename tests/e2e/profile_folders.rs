//! Profiles that are a browser's whole folder: what no script can read of it outlives its session, too.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};
use warmpool_tests::{Api, Daemon, Driver, Group, Reply, Session, Settings, Stage, eventually, group, host_address};

pub(crate) fn group() -> Group {
    group!(Some(settings()),
        quick: [outlive_their_session_in_chromium],
        full: [
            outlive_their_session_in_firefox,
            outlive_their_session_in_webkit,
            are_saved_when_the_client_closes_the_browser,
            go_with_a_browser_of_the_drivers_own,
            have_the_settings_of_their_workers_preset,
            are_of_one_engine,
            are_exported_imported_and_rolled_back,
            that_are_hostile_are_refused,
            that_are_too_large_keep_the_version_before,
            keep_the_last_save_when_the_browser_dies,
            outlive_the_daemon,
        ],
    )
}

/// Service workers need a secure context, which pages of localhost have without a certificate.
fn settings() -> Settings {
    Settings::on_demand().set("EGRESS_ALLOW", format!("{},127.0.0.0/8,::1", host_address()))
}

const CHROMIUM: (&str, &str) = ("chromium", "chrome");
const FIREFOX: (&str, &str) = ("firefox", "firefox");
const WEBKIT: (&str, &str) = ("webkit", "MiniBrowser");

/// Leaves a cookie, a database with a value, an answer in a cache, and a service worker.
const LEAVE: &str = "return (async value => {
  document.cookie = 'login=' + value + '; path=/; max-age=10000';
  await (await caches.open('kept')).put('/kept', new Response(value));
  await navigator.serviceWorker.register('/service-worker.js');
  await navigator.serviceWorker.ready;
  await new Promise((done, failed) => {
    const open = indexedDB.open('shop', 1);
    open.onupgradeneeded = () => open.result.createObjectStore('items').put(value, 'item');
    open.onsuccess = () => { open.result.close(); done(); };
    open.onerror = failed;
  });
})(arguments[0])";

/// What is left of that, and whether the site may send notifications.
const FIND: &str = "return (async () => {
  const item = await new Promise((done, failed) => {
    const open = indexedDB.open('shop', 1);
    open.onupgradeneeded = () => open.result.createObjectStore('items');
    open.onsuccess = () => {
      const get = open.result.transaction('items').objectStore('items').get('item');
      get.onsuccess = () => { open.result.close(); done(get.result ?? null); };
    };
    open.onerror = failed;
  });
  const answer = await (await fetch('/from-worker')).text();
  const { state } = await navigator.permissions.query({ name: 'geolocation' });
  const cached = await caches.match('/kept');
  return [document.cookie, item, answer === 'from the worker' && Boolean(cached), state];
})()";

fn left(value: &str, permission: &str) -> Value {
    json!([format!("login={value}"), value, true, permission])
}

fn body(engine: &str, profile: &str, mode: &str) -> Value {
    let profile = json!({"name": profile, "mode": mode, "kind": "folder"});
    json!({"browser_type": engine, "headless": true, "url": "about:blank", "profile": profile})
}

async fn execute(driver: &Driver, script: &str, argument: &str) -> Result<Value> {
    let body = json!({"script": script, "args": [argument]});
    Ok(driver.command(Method::POST, "/execute/sync", &body).await?.ok()?["value"].clone())
}

/// A session with a driver that is on the site.
async fn on_site(
    daemon: &Daemon,
    site: &str,
    (engine, driver): (&str, &str),
    profile: &str,
    mode: &str,
) -> Result<(Session, Driver)> {
    let begun = Instant::now();
    let session = daemon.webdriver(body(engine, profile, mode)).await?;
    println!("{engine} began with {profile} after {} ms", begun.elapsed().as_millis());
    let driver = Driver::start(session.connect_url()?, json!({"browserName": driver})).await?;
    driver.goto(&format!("{site}/")).await?;
    Ok((session, driver))
}

async fn ended(session: &Session) -> Result<Value> {
    let begun = Instant::now();
    // The end itself is shown before the save is done.
    let record = eventually!("the session has ended, and was saved or not", 40, {
        let is_saved =
            |record: &Value| record["profile"]["saved_at"].is_u64() || record["profile"]["error"].is_string();
        Some(session.record().await?).filter(|record| record["ended_at"].is_u64() && is_saved(record))
    })?;
    println!("its folder was saved after {} ms", begun.elapsed().as_millis());
    Ok(record)
}

async fn saved(session: &Session) -> Result<()> {
    let record = ended(session).await?;
    ensure!(record["profile"]["error"].is_null() && record["profile"]["saved_at"].is_u64(), "{record}");
    Ok(())
}

/// A session that leaves something and quits.
async fn leave(daemon: &Daemon, site: &str, engine: (&str, &str), profile: &str, value: &str) -> Result<()> {
    let (session, driver) = on_site(daemon, site, engine, profile, "write").await?;
    execute(&driver, LEAVE, value).await?;
    driver.quit().await?;
    saved(&session).await
}

/// What a session finds that reads the profile.
async fn find(daemon: &Daemon, site: &str, engine: (&str, &str), profile: &str) -> Result<Value> {
    let (session, driver) = on_site(daemon, site, engine, profile, "read").await?;
    let found = execute(&driver, FIND, "").await?;
    session.delete().await?.ok()?;
    Ok(found)
}

async fn outlive_their_session_in_chromium(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site().url("localhost");
    // What a visitor allowed, as Chromium writes it.
    let allowed = json!({format!("{site},{site}"): {"setting": 1}});
    let preferences = json!({
        "profile": {"content_settings": {"exceptions": {"geolocation": allowed}}},
        // It would lead to nothing.
        "proxy": {"mode": "fixed_servers", "server": "127.0.0.1:1"},
    });
    let packed = packed("chromium", &[(EntryType::Regular, "Default/Preferences", preferences.to_string().as_bytes())]);
    put(&daemon.api(), "allowed", packed?).await?.ok()?;
    leave(daemon, &site, CHROMIUM, "allowed", "ann").await?;
    let found = find(daemon, &site, CHROMIUM, "allowed").await?;
    ensure!(found == left("ann", "granted"), "{found}");
    let shown = daemon.api().get("/profiles/allowed").await?.ok()?;
    ensure!(shown["kind"] == "folder" && shown["engine"] == "chromium", "{shown}");
    ensure!(shown["versions"].as_array().map(Vec::len) == Some(2), "{shown}");
    let browser = shown["versions"][0]["browser"].as_str().unwrap_or_default();
    ensure!(browser.starts_with("Chromium/"), "{shown}");
    Ok(())
}

async fn outlive_their_session_in_firefox(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site().url("localhost");
    let (session, driver) = on_site(daemon, &site, FIREFOX, "fox", "write").await?;
    execute(&driver, LEAVE, "fay").await?;
    let allowed = json!({"descriptor": {"name": "geolocation"}, "state": "granted"});
    driver.command(Method::POST, "/permissions", &allowed).await?.ok()?;
    driver.quit().await?;
    saved(&session).await?;
    let found = find(daemon, &site, FIREFOX, "fox").await?;
    ensure!(found == left("fay", "granted"), "{found}");
    // A session that writes goes on where the one before ended.
    leave(daemon, &site, FIREFOX, "fox", "gil").await?;
    let found = find(daemon, &site, FIREFOX, "fox").await?;
    ensure!(found == json!(["login=gil", "fay", true, "granted"]), "{found}");
    Ok(())
}

/// Its visitors allow sites nothing that would be kept: `settings.permissions` says what pages may do.
async fn outlive_their_session_in_webkit(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site().url("localhost");
    leave(daemon, &site, WEBKIT, "gnome", "max").await?;
    let found = find(daemon, &site, WEBKIT, "gnome").await?;
    ensure!(found == left("max", "prompt"), "{found}");
    leave(daemon, &site, WEBKIT, "gnome", "zoe").await?;
    let found = find(daemon, &site, WEBKIT, "gnome").await?;
    ensure!(found == json!(["login=zoe", "max", true, "prompt"]), "{found}");
    let shown = daemon.api().get("/profiles/gnome").await?.ok()?;
    ensure!(shown["engine"] == "webkit", "{shown}");
    let exported = daemon.api().get("/profiles/gnome/folder").await?;
    put(&daemon.api(), "gnomes", exported.body.clone()).await?.ok()?;
    let found = find(daemon, &site, WEBKIT, "gnomes").await?;
    ensure!(found == json!(["login=zoe", "max", true, "prompt"]), "{found}");
    Ok(())
}

async fn are_saved_when_the_client_closes_the_browser(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site().url("localhost");
    let session = daemon.session(body("chromium", "closed", "write")).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.open(&format!("{site}/")).await?;
    cdp.evaluate(&page, &format!("(async () => {{ {} }})()", LEAVE.replace("arguments[0]", "'eve'"))).await?;
    let _ = cdp.call("Browser.close", json!({})).await;
    saved(&session).await?;
    let found = find(daemon, &site, CHROMIUM, "closed").await?;
    ensure!(found == left("eve", "prompt"), "{found}");
    Ok(())
}

/// Options that only a new browser can have.
async fn go_with_a_browser_of_the_drivers_own(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site().url("localhost");
    for (engine, name, options) in [
        ("chromium", "chrome", json!({"goog:chromeOptions": {"args": ["--lang=de"]}})),
        (
            "firefox",
            "firefox",
            json!({"moz:firefoxOptions": {"args": ["-private-window"], "prefs": {"dom.battery.enabled": false}}}),
        ),
    ] {
        let profile = format!("own-{engine}");
        leave(daemon, &site, (engine, name), &profile, "ivy").await?;
        let session = daemon.webdriver(body(engine, &profile, "write")).await?;
        let mut always = options;
        always["browserName"] = json!(name);
        let driver = Driver::start(session.connect_url()?, always).await?;
        driver.quit().await?;
        saved(&session).await?;
        let found = find(daemon, &site, (engine, name), &profile).await?;
        ensure!(found == left("ivy", "prompt"), "{engine}: {found}");
    }
    Ok(())
}

/// A preset's worker has its settings while it waits; the browser of a folder takes the place of the one that has them.
async fn have_the_settings_of_their_workers_preset(stage: Stage) -> Result<()> {
    let preset = |(engine, _)| {
        format!(r#"{{ name = "{engine}", engine = "{engine}", mode = "headless", count = 0, locales = ["de-DE"] }}"#)
    };
    let presets = [CHROMIUM, FIREFOX, WEBKIT].map(preset).join(", ");
    let daemon = Daemon::start(settings().set("POOL_PRESETS", format!("[{presets}]"))).await?;
    let site = stage.site().url("localhost");
    for engine @ (name, driver) in [CHROMIUM, FIREFOX, WEBKIT] {
        leave(&daemon, &site, engine, name, "kim").await?;
        let mut german = body(name, name, "read");
        german["settings"] = json!({"locales": ["de-DE"]});
        let session = daemon.webdriver(german).await?;
        let driver = Driver::start(session.connect_url()?, json!({"browserName": driver})).await?;
        driver.goto(&format!("{site}/")).await?;
        let shown = driver.execute("return [navigator.language, document.cookie]").await?;
        ensure!(shown == json!(["de-DE", "login=kim"]), "{name}: {shown}");
        session.delete().await?.ok()?;
    }
    daemon.assert_idle().await
}

async fn are_of_one_engine(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let site = stage.site().url("localhost");
    leave(daemon, &site, CHROMIUM, "mine", "kim").await?;
    api.post("/profiles", &json!({"name": "plain"})).await?.ok()?;
    for (body, field, says) in [
        (body("firefox", "mine", "read"), "browser_type", "chromium"),
        (body("webkit", "mine", "write"), "browser_type", "chromium"),
        (json!({"profile": {"name": "mine", "kind": "state"}}), "profile.kind", "folder"),
        (body("chromium", "plain", "write"), "profile.kind", "state"),
        (json!({"profile": {"name": "x", "kind": "tape"}}), "profile.kind", "folder"),
    ] {
        let fault = api.post("/sessions/create", &body).await?.fault(400)?;
        ensure!(fault.field == field && fault.message.contains(says), "{body}: {fault:?}");
    }
    for path in ["/profiles/mine/state", "/profiles/plain/folder"] {
        let refused = api.get(path).await?;
        ensure!(refused.status == 409, "{path}: {}", refused.text());
    }
    // One that a newer browser has had.
    let newer = archive(r#"{"engine": "chromium", "browser": "Chromium/9999.0.0.1"}"#, &[])?;
    put(&api, "newer", newer).await?.ok()?;
    let fault = api.post("/sessions/create", &body("chromium", "newer", "read")).await?.fault(400)?;
    ensure!(fault.field == "profile.name" && fault.message.contains("Chromium/9999"), "{fault:?}");
    daemon.end_all().await
}

async fn are_exported_imported_and_rolled_back(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let site = stage.site().url("localhost");
    leave(daemon, &site, CHROMIUM, "first", "lea").await?;
    let exported = api.get("/profiles/first/folder").await?;
    ensure!(
        exported.status == 200 && exported.header("content-type") == Some("application/zstd"),
        "{}",
        exported.status
    );
    let view = put(&api, "second", exported.body.clone()).await?.ok()?;
    ensure!(view["kind"] == "folder" && view["engine"] == "chromium", "{view}");
    let found = find(daemon, &site, CHROMIUM, "second").await?;
    ensure!(found == left("lea", "prompt"), "{found}");
    put(&api, "second", packed("chromium", &[])?).await?.ok()?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let back = api.send(Method::PUT, "/profiles/second", headers, r#"{"version": 1}"#.into()).await?.ok()?;
    ensure!(back["versions"].as_array().map(Vec::len) == Some(3), "{back}");
    ensure!(api.get("/profiles/second/folder").await?.body == exported.body, "the same folder");
    ensure!(api.delete("/profiles/second").await?.status == 204);
    Ok(())
}

async fn that_are_hostile_are_refused(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    let cases: [(&str, EntryType, &str); 7] = [
        ("chromium", EntryType::Regular, "../../../etc/passwd"),
        ("chromium", EntryType::Regular, "/etc/passwd"),
        ("chromium", EntryType::Symlink, "Default/Cookies"),
        ("chromium", EntryType::Regular, "Default/Extensions/x/manifest.json"),
        ("firefox", EntryType::Regular, "user.js"),
        ("firefox", EntryType::Regular, "handlers.json"),
        ("webkit", EntryType::Regular, "data/storage/../../../files/x"),
    ];
    for (engine, kind, name) in cases {
        let fault = put(&api, "hostile", packed(engine, &[(kind, name, b"")])?).await?.fault(400)?;
        ensure!(fault.code == "invalid_body" && fault.message.contains(name), "{name}: {fault:?}");
    }
    for nonsense in [Vec::new(), b"no archive".to_vec(), zstd::encode_all(&b"no tar"[..], 1)?] {
        put(&api, "hostile", nonsense).await?.fault(400)?;
    }
    let kept = api.get("/profiles/hostile").await?;
    ensure!(kept.status == 404, "{}", kept.text());
    Ok(())
}

async fn that_are_too_large_keep_the_version_before(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(settings().set("PROFILES_MAX_FOLDER", "16MiB")).await?;
    let site = stage.site().url("localhost");
    leave(&daemon, &site, CHROMIUM, "large", "mia").await?;
    let (session, driver) = on_site(&daemon, &site, CHROMIUM, "large", "write").await?;
    let fill = "return (async () => {
      const cache = await caches.open('large');
      await cache.put('/large', new Response(new Uint8Array(20 << 20)));
    })()";
    execute(&driver, fill, "").await?;
    driver.quit().await?;
    let record = ended(&session).await?;
    let error = record["profile"]["error"].as_str().unwrap_or_default();
    ensure!(error.contains("profiles.max_folder"), "{record}");
    let found = find(&daemon, &site, CHROMIUM, "large").await?;
    ensure!(found == left("mia", "prompt"), "{found}");
    let large = packed("chromium", &[(EntryType::Regular, "Default/History", &vec![0; 17 << 20])])?;
    let sent = put(&daemon.api(), "sent", large).await?;
    ensure!(sent.status == 413 && sent.text().contains("profiles.max_folder"), "{}", sent.text());
    daemon.assert_idle().await
}

async fn keep_the_last_save_when_the_browser_dies(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(settings()).await?;
    let site = stage.site().url("localhost");
    for engine in [CHROMIUM, FIREFOX] {
        leave(&daemon, &site, engine, engine.0, "nia").await?;
        let (session, driver) = on_site(&daemon, &site, engine, engine.0, "write").await?;
        execute(&driver, LEAVE, "lost").await?;
        let container = daemon.only_container().await?;
        daemon.docker().signal_browser(&container, Signal::SIGKILL).await?;
        let record = ended(&session).await?;
        ensure!(record["profile"]["error"].as_str().is_some_and(|error| error.contains("gone")), "{record}");
        let found = find(&daemon, &site, engine, engine.0).await?;
        ensure!(found == left("nia", "prompt"), "{}: {found}", engine.0);
    }
    daemon.assert_idle().await
}

async fn outlive_the_daemon(stage: Stage) -> Result<()> {
    let mut daemon = Daemon::start(settings()).await?;
    let site = stage.site().url("localhost");
    let (session, driver) = on_site(&daemon, &site, CHROMIUM, "kept", "write").await?;
    execute(&driver, LEAVE, "ola").await?;
    daemon.kill9().await?;
    daemon.restart().await?;
    let session = Session::from_body(&daemon.api(), session.body.clone())?;
    eventually!("its worker is found again", 20, session.status().await? == "running")?;
    session.delete().await?.ok()?;
    saved(&session).await?;
    let found = find(&daemon, &site, CHROMIUM, "kept").await?;
    ensure!(found == left("ola", "prompt"), "{found}");
    daemon.assert_idle().await
}

async fn put(api: &Api, profile: &str, packed: impl Into<bytes::Bytes>) -> Result<Reply> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/zstd"));
    api.send(Method::PUT, &format!("/profiles/{profile}/folder"), headers, packed.into()).await
}

fn packed(engine: &str, entries: &[(EntryType, &str, &[u8])]) -> Result<Vec<u8>> {
    archive(&json!({"engine": engine, "browser": "Browser/1.0"}).to_string(), entries)
}

/// An archive of these entries after a manifest, whatever they are.
fn archive(manifest: &str, entries: &[(EntryType, &str, &[u8])]) -> Result<Vec<u8>> {
    let mut tar = Builder::new(Vec::new());
    let first = (EntryType::Regular, "warmpool.json", manifest.as_bytes());
    for (kind, name, content) in [&[first], entries].concat() {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        // As a hostile archive has it: the crate refuses such paths.
        let place = &mut header.as_gnu_mut().context("a header")?.name;
        place[..name.len()].copy_from_slice(name.as_bytes());
        if kind == EntryType::Symlink {
            header.set_link_name("/etc/passwd")?;
        }
        header.set_cksum();
        tar.append(&header, content)?;
    }
    Ok(zstd::encode_all(tar.into_inner()?.as_slice(), 1)?)
}
