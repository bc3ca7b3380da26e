//! Keys by command line, with the daemon running and stopped.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::{HeaderMap, HeaderName};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use warmpool_tests::api::KEY_HEADER;
use warmpool_tests::wire::{self, Target};
use warmpool_tests::{Daemon, Driver, Group, Session, Settings, Stage, eventually, group};

use crate::queue::waiting;

pub(crate) fn group() -> Group {
    group!(None,
        quick: [are_created_rotated_and_revoked, a_revoked_key_gets_no_session_that_it_waits_for],
        full: [
            are_found_without_the_directory_of_the_daemon,
            may_be_changed_while_the_daemon_is_down,
            a_key_is_checked_again_after_the_body,
            a_key_revoked_while_the_daemon_is_down_keeps_nothing,
        ],
    )
}

/// Makes a key by command line and returns its secret.
pub(crate) async fn create(daemon: &Daemon, name: &str) -> Result<String> {
    secret(&daemon.cli_ok(&["key", "create", name]).await?)
}

/// The secret in what `key create` or `key rotate` printed: the one long word.
fn secret(printed: &str) -> Result<String> {
    let word = printed.split_whitespace().find(|word| word.len() >= 43 && !word.contains('/'));
    Ok(word.with_context(|| format!("a secret in {printed:?}"))?.to_owned())
}

/// Whether the daemon takes this key now.
async fn works(daemon: &Daemon, key: &str) -> Result<bool> {
    Ok(daemon.api().with_key(key).get("/sessions").await?.status == 200)
}

async fn are_created_rotated_and_revoked(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let first = create(&daemon, "press").await?;
    ensure!(works(&daemon, &first).await?, "a new key works at once");
    let listed = daemon.cli_ok(&["key", "list"]).await?;
    ensure!(listed.contains("press") && !listed.contains(&first), "{listed}");

    let rotated = secret(&daemon.cli_ok(&["key", "rotate", "press"]).await?)?;
    ensure!(rotated != first && works(&daemon, &rotated).await?, "the new secret works");
    eventually!("the old secret is refused", 5, !works(&daemon, &first).await?)?;

    let api = daemon.api().with_key(&rotated);
    let session = Session::create(&api, &json!({"headless": true})).await?;
    let mut cdp = session.cdp().await?;
    daemon.cli_ok(&["key", "revoke", "press"]).await?;
    // The session itself would last for minutes.
    let (code, reason) = cdp.ended_within(Duration::from_secs(10)).await?.context("a Close frame")?;
    ensure!(code == 1008 && reason.contains("revoked"), "{code} {reason}");
    ensure!(!works(&daemon, &rotated).await?, "a revoked key is refused");
    ensure!(works(&daemon, daemon.key()).await?, "the others stay");
    let unknown = daemon.cli(&["key", "revoke", "nobody"]).await?;
    ensure!(unknown.status.code() == Some(65), "an unknown name is an error: {:?}", unknown.status);

    let taken = daemon.cli(&["key", "create", "default"]).await?;
    ensure!(taken.status.code() == Some(65), "two active keys of one name: {:?}", taken.status);
    let active = daemon.cli(&["key", "remove", "default"]).await?;
    ensure!(active.status.code() == Some(65), "an active key stays: {:?}", active.status);
    daemon.cli_ok(&["key", "remove", "press"]).await?;
    let listed = daemon.cli_ok(&["key", "list"]).await?;
    ensure!(listed.contains("default") && !listed.contains("press"), "{listed}");
    let columns: Vec<Option<usize>> = listed.lines().map(|line| line.find("active").or(line.find("STATE"))).collect();
    ensure!(
        columns.len() == 2 && columns[0].is_some() && columns[0] == columns[1],
        "the columns are aligned: {listed}"
    );
    daemon.assert_idle().await
}

async fn are_found_without_the_directory_of_the_daemon(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let elsewhere = tempfile::tempdir()?;
    let run = async |arguments: &[&str]| {
        let mut command = daemon.command(arguments);
        command
            .env_remove("WARMPOOL_STORE_DATA_DIR")
            .env("XDG_DATA_HOME", elsewhere.path())
            .env("HOME", elsewhere.path());
        tokio::process::Command::from(command).kill_on_drop(true).output().await
    };
    // Other daemons of this user may run beside this one: then they are listed, and nothing is done.
    let output = run(&["key", "list"]).await?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(said.contains(&*daemon.data_dir().to_string_lossy()), "the daemon's directory is named: {said}");
    ensure!(output.status.code() == Some(0) && said.contains("default") || output.status.code() == Some(64), "{said}");

    // Where none runs, nothing is made.
    let nowhere = elsewhere.path().join("nowhere");
    for arguments in [&["key", "list"][..], &["key", "revoke", "default"], &["integration-key", "list"]] {
        let mut command = daemon.command(arguments);
        command.env("WARMPOOL_STORE_DATA_DIR", &nowhere);
        let output = tokio::process::Command::from(command).kill_on_drop(true).output().await?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(69) && said.contains(&*nowhere.to_string_lossy()), "{said}");
        ensure!(!nowhere.exists(), "{arguments:?} made a store");
    }
    daemon.assert_idle().await
}

async fn may_be_changed_while_the_daemon_is_down(_: Stage) -> Result<()> {
    let mut daemon = Daemon::start(Settings::on_demand()).await?;
    let gone = create(&daemon, "gone").await?;
    daemon.signal(Signal::SIGTERM)?;
    ensure!(daemon.wait(30).await?.success());
    let made = create(&daemon, "made").await?;
    daemon.cli_ok(&["key", "revoke", "gone"]).await?;
    daemon.restart().await?;
    daemon.warm().await?;
    ensure!(works(&daemon, &made).await? && !works(&daemon, &gone).await?);
    ensure!(works(&daemon, daemon.key()).await?, "the first key stays the first key");
    daemon.assert_idle().await
}

/// One session at a time, and a long wait, so that the second caller waits.
fn narrow() -> Settings {
    Settings::on_demand().set("SESSION_MAX_SESSIONS", "1").set("SESSION_QUEUE_WAIT", "10m")
}

async fn a_revoked_key_gets_no_session_that_it_waits_for(_: Stage) -> Result<()> {
    let daemon = Daemon::start(narrow()).await?;
    let held = daemon.session(json!({})).await?;
    let key = create(&daemon, "press").await?;
    let api = daemon.api().with_key(&key);
    let headless = json!({"headless": true});
    let grid = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": ["--headless=new"]}}}});
    let headers = HeaderMap::from_iter([(HeaderName::from_static(KEY_HEADER), key.parse()?)]);
    let socket = format!("{}/chromium", daemon.url().replace("http:", "ws:"));
    let asked = async {
        let (first, second, third) = tokio::join!(
            api.post("/sessions/create", &headless),
            api.post("/session", &grid),
            wire::refusal(&socket, &headers)
        );
        first?.fault(401)?;
        ensure!(second?.status == 401, "a grid's client is refused");
        ensure!(third? == 401, "a websocket is refused");
        anyhow::Ok(())
    };
    let revoked = async {
        waiting(&daemon, 3).await?;
        daemon.cli_ok(&["key", "revoke", "press"]).await?;
        anyhow::Ok(())
    };
    // They get the error at once and not when a worker is free: the only session lasts longer than they wait.
    tokio::try_join!(asked, revoked)?;
    waiting(&daemon, 0).await?;
    held.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// Begins a request and waits until the daemon reads its body, which it does when it has let the caller in; then runs
/// `meanwhile`, sends the body, and answers what comes back.
async fn with_a_late_body(
    daemon: &Daemon,
    key: &str,
    path: &str,
    body: &str,
    meanwhile: impl Future<Output = Result<()>>,
) -> Result<String> {
    let target = Target::parse(daemon.url())?;
    let mut stream = wire::connect(&target, None).await?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\n{KEY_HEADER}: {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
        target.authority(),
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).await?;
    ensure!(go_on.starts_with(b"HTTP/1.1 100 "), "{}", String::from_utf8_lossy(&go_on));
    meanwhile.await?;
    stream.write_all(body.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

async fn a_key_is_checked_again_after_the_body(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let run = json!({"recording": {"title": "t", "steps": [{"type": "navigate", "url": "about:blank"}]}});
    let grid = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": ["--headless=new"]}}}});
    for (path, body) in [
        ("/sessions/create", json!({"headless": true})),
        ("/sessions/webdriver/create", json!({"headless": true})),
        ("/session", grid),
        ("/lam/run", run),
    ] {
        let key = create(&daemon, "late").await?;
        let revoke = async { daemon.cli_ok(&["key", "revoke", "late"]).await.map(drop) };
        let answer = with_a_late_body(&daemon, &key, path, &body.to_string(), revoke).await?;
        ensure!(answer.starts_with("HTTP/1.1 401 "), "{path}: {answer}");
    }
    daemon.session(json!({})).await?.delete().await?.ok()?;
    let made = daemon.metrics().await?.sum("warmpool_session_create_seconds_count", &[]);
    ensure!(made == Some(1.0), "none but this one was made: {made:?}");
    daemon.assert_idle().await
}

async fn a_key_revoked_while_the_daemon_is_down_keeps_nothing(stage: Stage) -> Result<()> {
    let mut daemon =
        Daemon::start(Settings::on_demand().set("TASKS_WORKERS", "1").set("POOL_MAX_WORKERS", "5")).await?;
    let key = create(&daemon, "gone").await?;
    let api = daemon.api().with_key(&key);
    let headless = json!({"headless": true});
    let plain = Session::create(&api, &headless).await?;
    let driven = Session::create_webdriver(&api, &headless).await?;
    let driver = Driver::start(driven.connect_url()?, json!({})).await?;
    let shared = api.post(&format!("/sessions/{}/share", plain.id), &json!({})).await?.ok()?;
    let site = stage.site_for(&daemon).await?;
    // One task runs and holds the tasks' only worker, one waits; a fleet waits behind both.
    let wait = json!({"type": "waitForElement", "selectors": [["#never"]], "timeout": 30_000});
    let steps = json!([{"type": "navigate", "url": format!("{site}/")}, wait]);
    let endless =
        json!({"recording": {"title": "Endless", "steps": steps}, "timeout": 120_000, "safe_to_repeat": true});
    let running = api.post("/lam/run", &endless).await?.ok()?["taskId"].clone();
    let running = format!("/lam/tasks/{}", running.as_str().context("taskId")?);
    eventually!("the task runs", 60, api.get(&running).await?.ok()?["status"] == "running")?;
    api.post("/lam/run", &endless).await?.ok()?;
    let fleet = json!({"run": {"recording": endless["recording"]}, "inputs": [{}, {}]});
    api.post("/lam/fleet", &fleet).await?.ok()?;

    let made = daemon.metrics().await?.sum("warmpool_session_create_seconds_count", &[]);
    ensure!(made >= Some(2.0), "sessions are counted: {made:?}");

    daemon.kill9().await?;
    daemon.cli_ok(&["key", "revoke", "gone"]).await?;
    daemon.restart().await?;
    daemon.warm().await?;
    let none = HeaderMap::new();
    ensure!(wire::refusal(plain.websocket_url()?, &none).await? == 404, "the old websocket URL");
    let late = driver.command(http::Method::GET, "/title", &json!(null)).await?;
    let (error, message) = warmpool_tests::webdriver::fault(&late, 404)?;
    ensure!(error == "invalid session id" && message.contains("revoked"), "{late}");
    for url in [plain.url("livestream_url")?, shared["url"].as_str().context("url")?] {
        let page = warmpool_tests::Api::new(url).get("").await?;
        ensure!(page.status == 404, "a view: {page}");
    }
    eventually!("its tasks end unrun", 30, {
        let metrics = daemon.metrics().await?;
        metrics.sum("warmpool_tasks_ended_total", &[("status", "cancelled")]) == Some(3.0)
    })?;
    let metrics = daemon.metrics().await?;
    ensure!(metrics.sum("warmpool_session_create_seconds_count", &[]).unwrap_or_default() == 0.0, "a session was made");
    let (queued, running) =
        (metrics.sum("warmpool_tasks", &[("state", "queued")]), metrics.sum("warmpool_tasks", &[("state", "running")]));
    ensure!(queued == Some(0.0) && running == Some(0.0), "{queued:?} {running:?}");
    daemon.assert_idle().await
}
