//! The SDKs of browsers as a service, which change nothing but an environment variable: sessions that begin with a context or a
//! profile, by which a login outlives its session, files both ways, and refusals in their own shapes.

use crate::extensions::zipped;
use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use warmpool_tests::programs::Program;
use warmpool_tests::{Daemon, Group, Reply, Settings, Stage, flows, group};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new().set("POOL_CHROMIUM_HEADED", "1")),
        quick: [browserbase_for_node, steel_for_node, kernel_for_node],
        full: [
            browserbase_for_python,
            steel_for_python,
            kernel_for_python,
            browserbase_is_told_apart_by_its_header,
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
