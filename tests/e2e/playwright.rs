//! Playwright's own protocol: its clients and its test runner connect unmodified, each connection to a browser of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use warmpool_tests::programs::Program;
use warmpool_tests::upstream::{Scheme, Upstream};
use warmpool_tests::wire::{self, Refused};
use warmpool_tests::{Daemon, Group, Settings, Stage, docker, eventually, group};

pub(crate) fn group() -> Group {
    // The image is Chromium's with more in it, and so is the pool.
    let settings = Settings::new()
        .set("WORKER_CHROMIUM_IMAGE", docker::image("playwright"))
        .set("PLAYWRIGHT_VERSIONS", "1.63,1.65,1.1");
    group!(Some(settings),
        quick: [the_test_runner_runs_unmodified],
        full: [
            a_client_of_an_older_minor_connects,
            a_socket_is_a_session,
            what_cannot_be_served_is_said,
        ],
    )
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("playwright")
}

/// An address of the daemon as a websocket's.
fn socket(daemon: &Daemon, path: &str, query: &[(&str, &str)]) -> String {
    let encoded = |text: &str| text.bytes().fold(String::new(), |encoded, byte| format!("{encoded}%{byte:02X}"));
    let query: String = query.iter().map(|(name, value)| format!("&{name}={}", encoded(value))).collect();
    format!("{}{path}?token={}{query}", daemon.url().replacen("http", "ws", 1), daemon.key())
}

/// The latest session, once it has ended.
async fn ended(daemon: &Daemon) -> Result<Value> {
    let latest = async || anyhow::Ok(daemon.api().get("/sessions?limit=1").await?.ok()?["sessions"][0].clone());
    eventually!("its session has ended", 20, {
        let session = latest().await?;
        (session["status"] == "completed").then_some(session)
    })
}

/// `npx playwright test` with `connectOptions`, by an address of http, the path of browserless and a key in a header.
async fn the_test_runner_runs_unmodified(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    // Installs its packages.
    drop(Program::node(&folder(), "connect.mjs").await?);
    let output = tempfile::tempdir()?;
    let runner = Program::binary(Path::new("npx"))?.of(daemon).within(&folder());
    let said = ["playwright", "test"].iter().fold(runner, |runner, word| runner.arg(word));
    let said = said
        .env("ENDPOINT", format!("{}/chromium/playwright", daemon.url()))
        .env("SITE_URL", stage.site_for(daemon).await?)
        .env("OUTPUT", output.path().to_string_lossy())
        .run()
        .await?;
    ensure!(said.contains("3 passed"), "{said}");
    ended(daemon).await.map(drop)
}

/// Files, pictures, requests without a page, and the proxies of launch and context.
async fn a_client_of_an_older_minor_connects(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let proxy = Upstream::start(Scheme::Http, "word").await?;
    let site = stage.site_for(daemon).await?;
    let launch = json!({
        "headless": true,
        "slowMo": 5,
        "proxy": {"server": proxy.url(), "username": "launch", "password": "word"},
    });
    let endpoint =
        socket(daemon, "/playwright/chromium", &[("launch-options", &launch.to_string()), ("trackingId", "e2e")]);
    let client = Program::node(&folder(), "connect.mjs").await?.env("CLIENT", "playwright-1.63");
    client.env("ENDPOINT", endpoint).env("SITE_URL", &site).env("HTTP_PROXY_URL", proxy.url()).results().await?;
    let asked = proxy.asked();
    for (path, user) in [("/upload", "launch"), ("/tab/3", "context")] {
        ensure!(asked.contains(&format!("{site}{path} {user}:word")), "{path}: {asked:?}");
    }
    let host = site.trim_start_matches("http://");
    // Node asks for a tunnel, and the browser for the whole address.
    ensure!(asked.contains(&format!("{host} launch:word")), "a request without a page: {asked:?}");
    let session = ended(daemon).await?;
    ensure!(session["app_name"] == "e2e" && session["url"] == "about:blank", "{session}");
    Ok(())
}

/// It is in the list while it is open, its end is the browser's, and a socket that breaks off is enough.
async fn a_socket_is_a_session(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let headers =
        HeaderMap::from_iter([(http::header::USER_AGENT, HeaderValue::from_static("Playwright/1.65.0 (x64)"))]);
    let open = wire::websocket(&socket(daemon, "/playwright", &[("browser", "chromium")]), &headers, None).await?;
    let live = daemon.api().get("/sessions?status=running").await?.ok()?["sessions"].clone();
    ensure!(live.as_array().is_some_and(|live| live.len() == 1), "{live}");
    let id = live[0]["session_id"].as_str().context("session_id")?.to_owned();
    let view = daemon.api().get(&format!("/sessions/{id}/thumbnail")).await?;
    ensure!(view.status == 200, "it can be looked at: {view}");
    drop(open);
    let session = ended(daemon).await?;
    ensure!(session["session_id"] == id.as_str(), "{session}");
    // One that the image does not have, whatever the operator says.
    let headers = HeaderMap::from_iter([(http::header::USER_AGENT, HeaderValue::from_static("Playwright/1.1.0"))]);
    let refused = wire::websocket(&socket(daemon, "/playwright/chromium", &[]), &headers, None).await;
    let refused = refused.err().context("it was opened")?.downcast::<Refused>()?;
    ensure!(refused.status == 400 && refused.body.contains("`playwright.versions`"), "{refused}");
    daemon.assert_idle().await
}

async fn what_cannot_be_served_is_said(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let before = daemon.api().get("/sessions?limit=1").await?.ok()?["meta"].clone();
    Program::node(&folder(), "refused.mjs").await?.of(daemon).results().await?;
    let (api, mut headers) = (daemon.api().without_key(), HeaderMap::new());
    let described = api.get("/playwright/chromium/json").await?.ok()?;
    ensure!(described == json!({"wsEndpointPath": "ws"}), "{described}");
    let bare = api.get("/playwright/chromium").await?;
    ensure!(bare.status == 401, "{bare}");
    let sound = daemon.api().get("/playwright/chromium").await?;
    ensure!(sound.status == 426 && sound.text().contains("`chromium.connect("), "{sound}");
    // Moon's address has the client's version in its path.
    let moon = daemon.api().get("/playwright/chromium/playwright-1.65.0").await?;
    ensure!(moon.status == 426, "{moon}");
    for unknown in ["/playwright/chromium/playwright-latest", "/playwright/chromium/1.65.0"] {
        ensure!(daemon.api().get(unknown).await?.status == 404, "{unknown}");
    }
    headers.insert(
        HeaderName::from_static("x-playwright-launch-options"),
        HeaderValue::from_static("{\"env\":{\"A\":\"b\"}}"),
    );
    let refused = wire::websocket(&socket(daemon, "/playwright/chromium", &[]), &headers, None).await;
    let refused = refused.err().context("it was opened")?.downcast::<Refused>()?;
    ensure!(refused.body.contains("x-playwright-launch-options.env"), "{refused}");
    ensure!(daemon.api().get("/sessions?limit=1").await?.ok()?["meta"] == before, "nothing was spent on it");
    daemon.assert_idle().await
}
