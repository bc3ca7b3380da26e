//! The description of the interface: served, kept by every answer, and good enough to make clients from.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_SECURITY_POLICY};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use tempfile::TempDir;
use warmpool_tests::programs::{self, Program};
use warmpool_tests::{Daemon, Group, Settings, Stage, daemon, group};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [it_is_served],
        full: [
            generated_typescript_client,
            the_docs_work_in_a_browser,
            generated_python_client,
            it_keeps_the_standard,
            every_answer_fits,
        ],
    )
}

/// The folder with the generators, and the checks of answers.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("api")
}

async fn it_is_served(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let anybody = daemon.api().without_key();
    let description = anybody.get("/openapi.json").await?.ok()?;
    ensure!(description["openapi"] == "3.1.0", "{description}");
    ensure!(description["servers"] == json!([{"url": daemon.url()}]), "{}", description["servers"]);
    let timeout = &description["components"]["schemas"]["CreateSession"]["properties"]["session_timeout"];
    ensure!(timeout["default"] == 300 && timeout["maximum"] == 86_400, "{timeout}");
    // The command line has the same, but for where a client sees the daemon.
    let said = daemon.command(&["openapi"]).output()?;
    let said: Value = serde_json::from_slice(&said.stdout)?;
    for part in ["paths", "tags", "info"] {
        ensure!(said[part] == description[part], "{part}");
    }
    let page = anybody.get("/docs").await?;
    let policy = page.headers.get(CONTENT_SECURITY_POLICY).context("a policy")?.to_str()?;
    ensure!(page.status == 200 && !policy.contains("unsafe"), "{policy}");
    for file in ["docs.js", "site.css"] {
        ensure!(page.text().contains(file), "{}", page.text());
        let served = anybody.get(&format!("/console/{file}")).await?;
        ensure!(served.status == 200 && served.body.len() > 10_000, "{file}: {}", served.status);
    }
    let icon = anybody.get("/favicon.ico").await?;
    ensure!(icon.status == 200 && icon.header("content-type") == Some("image/svg+xml"), "{}", icon.status);

    // What is for people, and what programs get there.
    let people = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/html,*/*;q=0.8"))]);
    for (path, status, text) in [
        ("/", 200, "data-ready=\"true\""),
        ("/docs/tasks", 200, "<h1 id=\"tasks\">Tasks</h1>"),
        ("/docs/no-such-guide", 404, "href=\"../console/site.css\""),
        ("/no/such/page", 404, "href=\"../../console/site.css\""),
        ("/console/nonsense.js", 404, "No such page"),
    ] {
        let page = anybody.send(Method::GET, path, people.clone(), Bytes::new()).await?;
        ensure!(page.status == status && page.text().contains(text), "{path}: {page}");
        let policy = page.header("content-security-policy").context("a policy")?;
        ensure!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
    }
    for path in ["/no/such/page", "/docs/no-such-guide", "/console/nonsense.js", "/console/console.html"] {
        ensure!(anybody.get(path).await?.fault(404)?.code == "unknown_path", "{path}");
    }
    Ok(())
}

async fn the_docs_work_in_a_browser(stage: Stage) -> Result<()> {
    Program::node(&programs::clients(), "docs.mjs")
        .await?
        .of(stage.daemon()?)
        .limit(Duration::from_secs(250))
        .results()
        .await
        .map(drop)
}

/// Has the clients of one language made; returns the folder that holds them.
async fn made(language: &str) -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("scripts").join("clients");
    let binary = daemon::binary().canonicalize()?;
    let program = Program::binary(&script)?.arg(format!("--{language}")).arg(folder.path().to_string_lossy());
    program.env("WARMPOOL_CLIENTS_BINARY", binary.to_string_lossy()).run().await?;
    Ok(folder)
}

fn check(results: &Value) -> Result<()> {
    ensure!(results["status"] == "running" && results["protocol"] == "cdp", "{results}");
    ensure!(results["task"] == "success" && results["output"] == json!([{"title": "Sencha"}]), "{results}");
    ensure!(results["ended"] == "terminated", "{results}");
    ensure!(results["refused"] == "invalid_field" && results["field"] == "session_timeout", "{results}");
    Ok(())
}

async fn generated_typescript_client(stage: Stage) -> Result<()> {
    let made = made("typescript").await?;
    // As npm would lay it out: the program, and beside it the packages that it imports.
    let modules = made.path().join("node_modules");
    std::fs::create_dir_all(&modules)?;
    std::fs::rename(made.path().join("typescript"), modules.join("warmpool-client"))?;
    for package in ["openapi-fetch", "openapi-typescript-helpers"] {
        std::os::unix::fs::symlink(folder().join("node_modules").join(package), modules.join(package))?;
    }
    for file in ["client.mts", "tsconfig.json"] {
        std::fs::copy(folder().join(file), made.path().join(file))?;
    }
    let compiler = folder().join("node_modules/typescript/bin/tsc");
    let project = made.path().to_string_lossy().into_owned();
    Program::node(&folder(), "node_modules/typescript/bin/tsc")
        .await?
        .arg("--project")
        .arg(&project)
        .run()
        .await
        .with_context(|| compiler.display().to_string())?;
    let program = Program::node_file(&made.path().join("client.mjs"))?;
    check(&program.of(stage.daemon()?).results().await?)
}

async fn it_keeps_the_standard(stage: Stage) -> Result<()> {
    let file = tempfile::Builder::new().suffix(".json").tempfile()?;
    std::fs::write(file.path(), stage.daemon()?.command(&["openapi"]).output()?.stdout)?;
    let program = Program::python(&folder(), ".venv/bin/openapi-spec-validator").await?;
    program.arg("--validation-errors").arg("all").arg(file.path().to_string_lossy()).run().await.map(drop)
}

async fn generated_python_client(stage: Stage) -> Result<()> {
    let made = made("python").await?;
    // What it needs is what its generator needs, too.
    let program = Program::python(&folder(), "client.py").await?;
    let path = made.path().join("python");
    let program = program.env("PYTHONPATH", path.to_string_lossy());
    check(&program.of(stage.daemon()?).results().await?)
}

/// The same calls in each run: the cases come from the description alone, and from the ids that answers hold.
const SETTINGS: &str = r#"
seed = 1
continue-on-failure = true
request-timeout = 30
warnings = false

[generation]
deterministic = true
max-examples = 6
no-shrink = true
database = "none"

[phases.stateful]
enabled = false

[checks]
# What a schema cannot say of a good call is said in words.
positive_data_acceptance.enabled = false
# A call that is no websocket handshake is refused, whatever else is wrong with it.
negative_data_rejection.expected-statuses = ["400", "401", "403", "404", "405", "406", "409", "415", "422", "426", "428", "429", "5xx"]

# The W3C standard answers 500 where a session is not created.
[[operations]]
include-path = ["/session", "/wd/hub/session"]
include-method = "POST"
checks.not_a_server_error.enabled = false

# They take the key in a header of their own too, which gets a wrong one here while ours has the right one.
[[operations]]
include-path-regex = "^/(browserbase|steel)/"
checks.ignored_auth.enabled = false
"#;

/// Sends some thousand good and bad calls, and checks each answer against the description: no server error, a documented
/// status, media type and body, and nothing accepted that the description forbids.
async fn every_answer_fits(_: Stage) -> Result<()> {
    // So that hundreds of good calls take two browsers: all others are refused, as the description says.
    let settings = Settings::new()
        .set("POOL_CHROMIUM_HEADLESS", "2")
        .set("SESSION_MAX_PER_KEY", "2")
        .set("TASKS_QUEUE_LENGTH", "1")
        .set("TASKS_WORKERS", "1")
        .set("TASKS_MAX_WAIT", "5s")
        .set("WORLD_IMAGE", "warmpool/no-such-image:latest");
    let daemon = Daemon::start(settings).await?;
    daemon.warm().await?;
    // There is something of each kind; with these the key has all the sessions that it may have.
    let extract = json!({"url": "data:text/html,<h1>1</h1>", "schema": {"a": "h1"}, "wait": 5});
    daemon.api().post("/lam/extract", &extract).await?.ok()?;
    let _first = daemon.session(json!({"recording": true})).await?;
    let _second = daemon.webdriver(json!({})).await?;
    let file = tempfile::Builder::new().suffix(".toml").tempfile()?;
    std::fs::write(file.path(), SETTINGS)?;
    let program = Program::python(&folder(), ".venv/bin/schemathesis").await?.limit(Duration::from_secs(500));
    let program = program
        .arg("--config-file")
        .arg(file.path().to_string_lossy())
        .arg("run")
        .arg(format!("{}/openapi.json", daemon.url()))
        .arg("--header")
        .arg(format!("service-secret-key: {}", daemon.key()));
    program.run().await?;
    daemon.end_all().await?;
    daemon.assert_idle().await
}
