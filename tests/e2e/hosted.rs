//! The SDKs of browsers as a service, which change nothing but an environment variable: sessions that begin with a context or a
//! profile, by which a login outlives its session, files both ways, and refusals in their own shapes.

use std::io::{Cursor, Read as _};

use crate::extensions::zipped;
use crate::files::click_download;
use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use warmpool_tests::api::KEY_HEADER;
use warmpool_tests::programs::Program;
use warmpool_tests::wire::{self, Target};
use warmpool_tests::{Daemon, Group, Reply, Settings, Stage, eventually, flows, group, site};
use zip::ZipArchive;

pub(crate) fn group() -> Group {
    group!(Some(Settings::new().set("POOL_CHROMIUM_HEADED", "1")),
        quick: [browserbase_for_node, steel_for_node, kernel_for_node],
        full: [
            browserbase_for_python,
            steel_for_python,
            kernel_for_python,
            browserbase_is_told_apart_by_its_header,
            kernel_gives_a_name_once,
            kernel_lists_and_loads_within_limits,
            a_form_that_breaks_off_leaves_no_file,
            steel_packs_an_upload_beside_a_download_of_its_name,
        ],
    )
}

fn of(stage: &Stage, service: &str, variable: &str, program: Program) -> Result<Program> {
    let daemon = stage.daemon()?;
    let program = program.env(&format!("{variable}_BASE_URL"), daemon.url());
    let program = program.env("EXTENSION", STANDARD.encode(mark()?));
    Ok(program.env(&format!("{variable}_API_KEY"), daemon.key()).env("FLOW", service))
}

/// An extension that marks each page.
fn mark() -> Result<Vec<u8>> {
    let manifest = json!({"manifest_version": 3, "name": "Mark", "version": "1",
        "content_scripts": [{"matches": ["<all_urls>"], "js": ["mark.js"], "run_at": "document_start"}]});
    let script = b"document.documentElement.dataset.mark = 'kernel';";
    zipped(&[("manifest.json", manifest.to_string().as_bytes()), ("mark.js", script)])
}

async fn node(stage: &Stage, service: &str, variable: &str) -> Result<()> {
    let program = flows::node(stage, "chromium", "hosted.mjs").await?;
    ended(stage, of(stage, service, variable, program)?).await
}

async fn python(stage: &Stage, service: &str, variable: &str) -> Result<()> {
    let program = flows::python(stage, "chromium", "hosted_flow.py").await?;
    ended(stage, of(stage, service, variable, program)?).await
}

async fn ended(stage: &Stage, program: Program) -> Result<()> {
    let daemon = stage.daemon()?;
    flows::ended(daemon, &program.results().await?, "terminated", "deleted").await?;
    daemon.assert_idle().await
}

async fn browserbase_for_node(stage: Stage) -> Result<()> {
    node(&stage, "browserbase", "BROWSERBASE").await
}

async fn browserbase_for_python(stage: Stage) -> Result<()> {
    python(&stage, "browserbase", "BROWSERBASE").await
}

async fn steel_for_node(stage: Stage) -> Result<()> {
    node(&stage, "steel", "STEEL").await
}

async fn steel_for_python(stage: Stage) -> Result<()> {
    python(&stage, "steel", "STEEL").await
}

async fn kernel_for_node(stage: Stage) -> Result<()> {
    node(&stage, "kernel", "KERNEL").await
}

async fn kernel_for_python(stage: Stage) -> Result<()> {
    python(&stage, "kernel", "KERNEL").await
}

/// A call with one header, which has the key.
async fn call(
    daemon: &Daemon,
    method: Method,
    path: &str,
    header: (&'static str, &str),
    body: &Value,
) -> Result<Reply> {
    let mut headers = HeaderMap::from_iter([(HeaderName::from_static(header.0), HeaderValue::try_from(header.1)?)]);
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    daemon.api().without_key().send(method, path, headers, body.to_string().into()).await
}

async fn browserbase_is_told_apart_by_its_header(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let theirs = ("x-bb-api-key", daemon.key());
    for path in ["/v1/sessions", "/browserbase/v1/sessions"] {
        ensure!(call(daemon, Method::GET, path, theirs, &json!({})).await?.ok()?.is_array(), "{path}");
    }
    let reply = call(daemon, Method::GET, "/v1/sessions", ("service-secret-key", daemon.key()), &json!({})).await?;
    ensure!(reply.status == 404 && reply.json()?["error"]["code"] == "unknown_path", "{reply}");
    let body = json!({"browserSettings": {"context": {"id": "a", "persits": true}}});
    let refused = call(daemon, Method::POST, "/v1/sessions", theirs, &body).await?;
    let error = refused.json()?;
    ensure!(error["statusCode"] == 400 && error["field"] == "browserSettings.context.persits", "{refused}");
    // Whose session it is holds for this way in as for every other.
    let session = daemon.session(json!({"headless": true, "url": "about:blank"})).await?;
    let other = daemon.cli_ok(&["key", "create", "stranger"]).await?;
    let other = other.split_whitespace().find(|word| word.starts_with("wp_") && word.len() > 40).unwrap_or_default();
    let path = format!("/v1/sessions/{}", session.id);
    let reply = call(daemon, Method::GET, &path, ("x-bb-api-key", other), &json!({})).await?;
    ensure!(reply.status == 404, "{reply}");
    ensure!(call(daemon, Method::GET, &path, theirs, &json!({})).await?.ok()?["status"] == "RUNNING");
    session.delete().await?.ok()?;
    ensure!(call(daemon, Method::GET, &path, theirs, &json!({})).await?.ok()?["status"] == "COMPLETED");
    daemon.assert_idle().await
}

async fn kernel_gives_a_name_once(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let ours = (KEY_HEADER, daemon.key());
    let body = json!({"name": "twin", "headless": true});
    let create = || call(daemon, Method::POST, "/kernel/browsers", ours, &body);
    let (one, other) = tokio::try_join!(create(), create())?;
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    ensure!(statuses == [200, 409], "{one}\n{other}");
    let deleted = call(daemon, Method::DELETE, "/kernel/browsers/twin", ours, &json!({})).await?;
    ensure!(deleted.status == 204, "{deleted}");
    daemon.assert_idle().await
}

async fn kernel_lists_and_loads_within_limits(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let ours = (KEY_HEADER, daemon.key());
    let long = "x".repeat(257);
    for path in ["/kernel/browsers", "/kernel/profiles"] {
        let reply = call(daemon, Method::GET, &format!("{path}?query={long}"), ours, &json!({})).await?;
        ensure!(reply.status == 400 && reply.json()?["field"] == "query", "{reply}");
        call(daemon, Method::GET, &format!("{path}?query={}", &long[1..]), ours, &json!({})).await?.ok()?;
    }
    let body = json!({"extensions": vec![json!({"name": "nobody's"}); 1000]});
    let reply = call(daemon, Method::POST, "/kernel/browsers", ours, &body).await?;
    ensure!(reply.status == 400 && reply.json()?["field"] == "extensions", "{reply}");
    daemon.assert_idle().await
}

async fn a_form_that_breaks_off_leaves_no_file(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({"headless": true, "url": "about:blank"})).await?;
    let mut stream = wire::connect(&Target::parse(daemon.url())?, None).await?;
    // The file has arrived, and the part behind it has not.
    let head = format!(
        "POST /steel/v1/sessions/{}/files HTTP/1.1\r\nHost: {}\r\n{KEY_HEADER}: {}\r\nContent-Type: \
         multipart/form-data; boundary=b\r\nContent-Length: 10000\r\n\r\n",
        session.id,
        daemon.url().trim_start_matches("http://"),
        daemon.key()
    );
    let form = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\nmine\r\n\
                --b\r\nContent-Disposition: form-data; name=\"path\"\r\n\r\nb";
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(form.as_bytes()).await?;
    let listed = async || session.get_file("").await?.ok();
    eventually!("the file has arrived", 20, listed().await?.as_array().is_some_and(|files| files.len() == 1))?;
    drop(stream);
    eventually!("it is gone", 20, listed().await? == json!([]))?;
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn steel_packs_an_upload_beside_a_download_of_its_name(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let site = stage.site_for(daemon).await?;
    let session = daemon.session(json!({"url": "about:blank"})).await?;
    let mut cdp = session.cdp().await?;
    click_download(&mut cdp, &site, None).await?;
    eventually!("the download is complete", 20, {
        let listed = session.get_file("").await?.ok()?;
        listed.as_array().is_some_and(|files| files.iter().any(|file| file["complete"] == true))
    })?;
    session.put_file("file.bin", b"mine".to_vec()).await?.ok()?;
    let path = format!("/steel/v1/sessions/{}/files.zip", session.id);
    let reply = call(daemon, Method::GET, &path, (KEY_HEADER, daemon.key()), &json!({})).await?;
    ensure!(reply.status == 200, "{}", reply.status);
    let mut zip = ZipArchive::new(Cursor::new(reply.body.to_vec()))?;
    ensure!(zip.len() == 2, "{} files", zip.len());
    let mut content = |name: &str| -> Result<Vec<u8>> {
        let mut content = Vec::new();
        zip.by_name(name)?.read_to_end(&mut content)?;
        Ok(content)
    };
    ensure!(content("file.bin")? == site::file_bytes() && content("file (1).bin")? == b"mine");
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}
