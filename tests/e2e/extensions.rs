//! Browser extensions: uploaded, checked, loaded, deleted, and behind the same fence as pages.

use std::io::{Cursor, Write as _};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use warmpool_api::status::KindStatus;
use warmpool_tests::api::Fault;
use warmpool_tests::daemon::Daemon;
use warmpool_tests::{Api, Driver, Group, Reply, Session, Settings, Stage, eventually, flows, group, task};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

pub(crate) fn group() -> Group {
    group!(Some(settings()),
        quick: [that_are_none_are_refused_by_what_is_wrong, are_loaded_by_a_running_chromium],
        full: [
            are_of_the_key_that_uploaded_them,
            are_loaded_by_a_browser_of_the_drivers_own,
            are_loaded_by_firefox,
            that_a_browser_refuses_are_named,
            go_with_tasks,
            wait_in_the_browsers_of_presets,
        ],
    )
}

fn settings() -> Settings {
    Settings::on_demand()
        .set("EXTENSIONS_MAX_SIZE", "64KiB")
        .set("EXTENSIONS_MAX_UNPACKED", "256KiB")
        .set("EXTENSIONS_MAX_FILES", "20")
        .set("EXTENSIONS_MAX_PER_SESSION", "2")
}

/// An address that no worker may reach.
const REFUSED: &str = "http://169.254.169.254/latest";

pub(crate) fn zipped(files: &[(&str, &[u8])]) -> Result<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        writer.start_file(*name, SimpleFileOptions::default())?;
        writer.write_all(content)?;
    }
    Ok(writer.finish()?.into_inner())
}

/// An extension that marks each page, and has its background fetch an address that is refused and the page's own.
fn probe(engine: &str, permissions: Value) -> Result<Vec<u8>> {
    let background = match engine {
        "firefox" => json!({"scripts": ["background.js"]}),
        _ => json!({"service_worker": "background.js"}),
    };
    let manifest = json!({
        "manifest_version": 3, "name": "Probe", "version": "1.0", "permissions": permissions,
        "host_permissions": ["<all_urls>"], "background": background,
        "content_scripts": [{"matches": ["http://*/*", "https://*/*"], "js": ["page.js"]}],
        "browser_specific_settings": {"gecko": {"id": "probe@test.example"}},
        // Without this, Firefox asks for https alone.
        "content_security_policy": {"extension_pages": "script-src 'self'"},
    });
    let page = format!(
        "document.documentElement.dataset.probe = 'here';
        const ask = (name, address) => chrome.runtime.sendMessage(address, answer => {{
          document.documentElement.dataset[name] = answer ?? String(chrome.runtime.lastError?.message);
        }});
        ask('own', location.href);
        ask('refused', '{REFUSED}');"
    );
    let background = b"chrome.runtime.onMessage.addListener((address, _, answer) => {
        fetch(address).then(found => found.text()).then(text => answer('got ' + text), error => answer('failed ' + error));
        return true;
    });";
    zipped(&[
        ("manifest.json", manifest.to_string().as_bytes()),
        ("page.js", page.as_bytes()),
        ("background.js", background),
    ])
}

fn form(name: &str, file: &[u8]) -> (String, Bytes) {
    let head = format!(
        "--edge\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"probe.zip\"\r\nContent-Type: application/zip\r\n\r\n"
    );
    ("multipart/form-data; boundary=edge".to_owned(), [head.as_bytes(), file, b"\r\n--edge--\r\n"].concat().into())
}

async fn send_form(
    api: &Api,
    path: &str,
    header: Option<(&'static str, &str)>,
    name: &str,
    file: &[u8],
) -> Result<Reply> {
    let (kind, body) = form(name, file);
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::try_from(kind)?)]);
    if let Some((name, value)) = header {
        headers.insert(HeaderName::from_static(name), value.parse()?);
    }
    api.send(Method::POST, path, headers, body).await
}

async fn upload(api: &Api, file: Vec<u8>) -> Result<Reply> {
    api.post_bytes("/extensions", "application/zip", file).await
}

/// Uploads an extension; returns its id.
async fn kept(api: &Api, file: Vec<u8>) -> Result<String> {
    let view = upload(api, file).await?.ok()?;
    view["extension_id"].as_str().map(str::to_owned).context("extension_id")
}

fn with(engine: &str, ids: &[&str]) -> Value {
    json!({"browser_type": engine, "headless": true, "url": "about:blank", "advanced": {"extension_ids": ids}})
}

/// Who reads the page that an extension has marked.
enum Reader<'a> {
    DevTools(&'a Session),
    Driver(&'a Driver),
    /// A session of the grid's, by its path.
    Grid(&'a Api, &'a str),
}

impl Reader<'_> {
    /// What the extension has left under a name.
    async fn mark(&self, name: &str) -> Result<Option<String>> {
        let expression = format!("document.documentElement.dataset.{name} ?? null");
        let script = format!("return {expression}");
        let value = match self {
            Self::DevTools(session) => session.evaluate(&expression).await?,
            Self::Driver(driver) => driver.execute(&script).await?,
            Self::Grid(api, path) => {
                let body = json!({"script": script, "args": []});
                api.post(&format!("{path}/execute/sync"), &body).await?.ok()?["value"].clone()
            }
        };
        Ok(value.as_str().map(str::to_owned))
    }

    /// What its background fetched of the page's own address, and of the refused one.
    async fn marks(&self) -> Result<(String, String)> {
        eventually!("the mark of its content script", 20, self.mark("probe").await?.as_deref() == Some("here"))?;
        let own = eventually!("what its background fetched", 20, self.mark("own").await?)?;
        let refused = eventually!("what its background did not fetch", 20, self.mark("refused").await?)?;
        Ok((own, refused))
    }
}

/// Checks that the background went the way of pages, and was refused where pages are.
async fn is_behind_the_fence(session: &Session, (own, refused): (String, String)) -> Result<()> {
    ensure!(own.starts_with("got ") && own.contains("Test site"), "{own}");
    ensure!(refused.starts_with("failed ") || refused.contains("Refused by Warmpool"), "{refused}");
    eventually!("the refusal is noted", 20, {
        let record = session.record().await?;
        let rows = record["egress"]["refused"].as_array().cloned().unwrap_or_default();
        rows.iter().any(|row| row["host"] == "169.254.169.254" && row["reason"] == "not_public").then_some(())
    })
}

async fn that_are_none_are_refused_by_what_is_wrong(stage: Stage) -> Result<()> {
    let api = stage.daemon()?.api();
    let fine = probe("chromium", json!([]))?;
    let noise: Vec<u8> = (0u32..100_000).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let zeros = vec![0; 1 << 20];
    let many: Vec<String> = (0..30).map(|number| format!("{number}.js")).collect();
    let manifest = br#"{"manifest_version": 3, "name": "x", "version": "1"}"#.as_slice();
    let more = |files: &[(&str, &[u8])]| zipped(&[&[("manifest.json", manifest)], files].concat());
    let mut cut = fine.clone();
    cut.truncate(fine.len() / 2);
    for (file, status, code, said) in [
        (Vec::new(), 400, "invalid_extension", "manifest.json"),
        (b"<html>not found</html>".to_vec(), 400, "invalid_extension", "not a zip"),
        (cut, 400, "invalid_extension", "not a zip"),
        (b"Cr24\x03\0\0\0\xff\xff\0\0PK".to_vec(), 400, "invalid_extension", "CRX header"),
        (zipped(&[("a/manifest.json", manifest)])?, 400, "invalid_extension", "at the root"),
        (zipped(&[("manifest.json", b"{\"name\": 1}")])?, 400, "invalid_extension", "manifest_version"),
        (more(&[("../../outside", b"x")])?, 400, "invalid_extension", "../../outside"),
        (more(&[("zeros", &zeros)])?, 413, "body_too_large", "extensions.max_unpacked"),
        (
            more(&many.iter().map(|name| (name.as_str(), &b""[..])).collect::<Vec<_>>())?,
            413,
            "body_too_large",
            "extensions.max_files",
        ),
        (noise, 413, "body_too_large", "extensions.max_size"),
    ] {
        let Fault { code: found, message, .. } = upload(&api, file).await?.fault(status)?;
        ensure!(found == code && message.contains(said), "{code} {said}: {found} {message}");
    }
    let Fault { field, .. } = send_form(&api, "/extensions", None, "archive", &fine).await?.fault(400)?;
    ensure!(field == "archive", "{field}");
    let broken = api.post_bytes("/extensions", "multipart/form-data; boundary=edge", "no form").await?;
    ensure!(broken.fault(400)?.code == "invalid_body", "{broken}");
    ensure!(api.get("/extensions").await?.ok()?["extensions"] == json!([]), "nothing is left");

    // What a session asks for is refused before a worker is spent on it.
    let id = kept(&api, fine).await?;
    for (body, status, code, field) in [
        (with("webkit", &[&id]), 400, "not_supported", "advanced.extension_ids"),
        (with("chromium", &["../x"]), 400, "invalid_field", "advanced.extension_ids[0]"),
        (with("chromium", &[&id, &id]), 400, "invalid_field", "advanced.extension_ids[1]"),
        (with("chromium", &["a", "b", "c"]), 400, "invalid_field", "advanced.extension_ids"),
        (with("chromium", &[&id, "ext_unknown"]), 404, "unknown_extension", ""),
    ] {
        let fault = api.post("/sessions/create", &body).await?.fault(status)?;
        ensure!(fault.code == code && fault.field == field, "{body}: {fault:?}");
    }
    api.delete(&format!("/extensions/{id}")).await?.ok()?;
    stage.daemon()?.assert_idle().await
}

async fn are_of_the_key_that_uploaded_them(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let other = api.with_key(crate::keys::create(daemon, "other").await?);
    let id = kept(&api, probe("chromium", json!(["storage"]))?).await?;
    let path = format!("/extensions/{id}");
    let view = api.get(&path).await?.ok()?;
    ensure!(view["name"] == "Probe" && view["permissions"] == json!(["storage"]) && view["format"] == "zip", "{view}");
    for reply in [
        other.get(&path).await?,
        other.delete(&path).await?,
        other.post("/sessions/create", &with("chromium", &[&id])).await?,
    ] {
        ensure!(reply.fault(404)?.code == "unknown_extension", "{reply}");
    }
    ensure!(other.get("/extensions").await?.ok()?["extensions"] == json!([]), "another key has none");
    ensure!(api.get("/extensions").await?.ok()?["extensions"] == json!([view]), "it is there");

    // In other services' words.
    let (base, steel) = (("x-bb-api-key", daemon.key()), ("steel-api-key", daemon.key()));
    let keyless = api.without_key();
    let headers = |(name, key): (&'static str, &str)| {
        Ok::<_, anyhow::Error>(HeaderMap::from_iter([(HeaderName::from_static(name), key.parse::<HeaderValue>()?)]))
    };
    let file = probe("chromium", json!([]))?;
    let sent = send_form(&keyless, "/v1/extensions", Some(base), "file", &file).await?.ok()?;
    ensure!(sent["fileName"] == "probe.zip", "{sent}");
    let theirs = format!("/v1/extensions/{}", sent["id"].as_str().context("id")?);
    ensure!(
        keyless.send(Method::GET, &theirs, headers(base)?, Bytes::new()).await?.ok()?["id"] == sent["id"],
        "it is there"
    );
    ensure!(keyless.send(Method::DELETE, &theirs, headers(base)?, Bytes::new()).await?.status == 204, "{theirs}");
    let sent = send_form(&keyless, "/v1/extensions", Some(steel), "file", &file).await?;
    ensure!(sent.status == 201 && sent.json()?["name"] == "Probe", "{sent}");
    let listed = keyless.send(Method::GET, "/v1/extensions", headers(steel)?, Bytes::new()).await?.ok()?;
    ensure!(listed["count"] == 2, "{listed}");
    let theirs = format!("/v1/extensions/{}", sent.json()?["id"].as_str().context("id")?);
    keyless.send(Method::DELETE, &theirs, headers(steel)?, Bytes::new()).await?.ok()?;

    ensure!(api.delete(&path).await?.status == 204, "{path}");
    ensure!(api.get(&path).await?.fault(404)?.code == "unknown_extension", "it is gone");
    ensure!(std::fs::read_dir(daemon.data_dir().join("extensions"))?.next().is_none(), "its file is gone");
    Ok(())
}

async fn are_loaded_by_a_running_chromium(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let sent = send_form(&api, "/extensions", None, "file", &probe("chromium", json!(["storage"]))?).await?.ok()?;
    let id = sent["extension_id"].as_str().context("extension_id")?;
    let mut body = with("chromium", &[id]);
    body["url"] = json!(format!("{site}/"));
    body["keep_alive"] = json!(true);
    let begun = std::time::Instant::now();
    let session = daemon.session(body).await?;
    println!("a session with an extension took {} ms", begun.elapsed().as_millis());
    ensure!(session.record().await?["extension_ids"] == json!([id]), "the record names it");
    // The page of the create call is the first that its content script sees.
    let found = Reader::DevTools(&session).marks().await?;
    is_behind_the_fence(&session, found).await?;

    // Deleted is deleted, and a browser that has it keeps it.
    api.delete(&format!("/extensions/{id}")).await?.ok()?;
    ensure!(api.post("/sessions/create", &with("chromium", &[id])).await?.status == 404, "it is gone");
    let program = flows::node(&stage, "chromium", "extensions.mjs").await?.env("SESSION_WS", session.websocket_url()?);
    let results = program.results().await?;
    ensure!(results["playwright"]["worker"] == results["puppeteer"], "{results}");
    ensure!(results["playwright"]["isInOwn"] == true, "a context of the client's own has it: {results}");
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn are_loaded_by_a_browser_of_the_drivers_own(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let id = kept(&api, probe("chromium", json!([]))?).await?;
    let own = json!({"headless": true, "advanced": {"extension_ids": [id]}});
    let always = json!({
        "browserName": "chrome", "goog:chromeOptions": {"args": ["--lang=de"]}, "warmpool:options": own,
    });
    let reply = api.post("/wd/hub/session", &json!({"capabilities": {"alwaysMatch": always}})).await?.ok()?;
    let own = format!("/wd/hub/session/{}", reply["value"]["sessionId"].as_str().context("sessionId")?);
    api.post(&format!("{own}/url"), &json!({"url": format!("{site}/")})).await?.ok()?;
    let (fetched, _) = Reader::Grid(&api, &own).marks().await?;
    ensure!(fetched.contains("Test site"), "{fetched}");
    api.delete(&own).await?.ok()?;
    api.delete(&format!("/extensions/{id}")).await?.ok()?;
    daemon.assert_idle().await
}

async fn are_loaded_by_firefox(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let id = kept(&api, probe("firefox", json!(["storage"]))?).await?;
    let session = daemon.webdriver(with("firefox", &[&id])).await?;
    let driver = Driver::start(session.connect_url()?, json!({"browserName": "firefox"})).await?;
    driver.goto(&format!("{site}/")).await?;
    let found = Reader::Driver(&driver).marks().await?;
    is_behind_the_fence(&session, found).await?;
    driver.quit().await?;
    api.delete(&format!("/extensions/{id}")).await?.ok()?;
    daemon.assert_idle().await
}

async fn that_a_browser_refuses_are_named(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let fine = kept(&api, probe("chromium", json!([]))?).await?;
    // The browser's policy blocks this permission, which could lead around the way out.
    let proxies = kept(&api, probe("chromium", json!(["proxy"]))?).await?;
    let fault = api.post("/sessions/create", &with("chromium", &[&fine, &proxies])).await?.fault(400)?;
    ensure!(fault.code == "not_supported" && fault.field == "advanced.extension_ids[1]", "{fault:?}");
    ensure!(!fault.message.contains("/home/"), "it names no place in the worker: {fault:?}");
    for id in [fine, proxies] {
        api.delete(&format!("/extensions/{id}")).await?.ok()?;
    }
    daemon.assert_idle().await
}

async fn go_with_tasks(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let (api, site) = (daemon.api(), stage.site_for(daemon).await?);
    let id = kept(&api, probe("chromium", json!([]))?).await?;
    let steps = json!([
        {"type": "navigate", "url": format!("{site}/")},
        {"type": "waitForElement", "selectors": [["html[data-probe=here]"]]},
    ]);
    let body = json!({"steps": steps, "title": "With an extension", "advanced": {"extension_ids": [id]}});
    task::succeeds(&api, "/lam/run", &body).await?;
    api.delete(&format!("/extensions/{id}")).await?.ok()?;
    daemon.assert_idle().await
}

/// A preset names extensions that its operator's key has uploaded before.
async fn wait_in_the_browsers_of_presets(stage: Stage) -> Result<()> {
    let mut daemon = Daemon::start(settings()).await?;
    let mut ids = Vec::new();
    for engine in ["chromium", "firefox"] {
        ids.push((engine, kept(&daemon.api(), probe(engine, json!([]))?).await?));
    }
    let preset = |(engine, id): &(&str, String)| {
        format!(
            "{{ name = \"{engine}-probe\", engine = \"{engine}\", mode = \"headless\", count = 1, extension_ids = [\"{id}\"] }}"
        )
    };
    let presets: Vec<String> = ids.iter().map(preset).collect();
    daemon.set("POOL_PRESETS", format!("[{}]", presets.join(", ")));
    daemon.signal(Signal::SIGTERM)?;
    daemon.wait(60).await?;
    daemon.restart().await?;
    daemon.warm().await?;
    let site = stage.site_for(&daemon).await?;
    for (engine, id) in &ids {
        let name = format!("{engine}-probe");
        let kind = async || -> Result<KindStatus> {
            let found = daemon.kinds().await?.into_iter().find(|kind| kind.preset.as_ref() == Some(&name));
            found.with_context(|| name.clone())
        };
        ensure!(kind().await?.counts.ready == 1, "{name}: {:?}", kind().await?);
        let session = daemon.webdriver(with(engine, &[id])).await?;
        let driver = Driver::start(session.connect_url()?, json!({})).await?;
        ensure!(kind().await?.counts.leased == 1, "{name}: {:?}", kind().await?);
        driver.goto(&format!("{site}/")).await?;
        let (own, refused) = Reader::Driver(&driver).marks().await?;
        ensure!(own.contains("Test site") && !refused.contains("got latest"), "{own} {refused}");
        driver.quit().await?;
        eventually!("another browser waits", 60, kind().await?.counts.ready == 1)?;
        daemon.api().delete(&format!("/extensions/{id}")).await?.ok()?;
        eventually!("no browser waits with an extension that is gone", 20, {
            let kind = kind().await?;
            kind.counts.ready == 0 && kind.last_error.is_some_and(|error| error.contains(id.as_str()))
        })?;
    }
    eventually!("no worker is left", 20, daemon.containers().await?.is_empty())
}
