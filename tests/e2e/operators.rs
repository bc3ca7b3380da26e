//! What operators look at: probes, status, metrics, doctor, help, configuration, TLS.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio_tungstenite::tungstenite::http::HeaderMap;
use warmpool_tests::daemon::program;
use warmpool_tests::programs::{self, Program};
use warmpool_tests::{Daemon, Group, Settings, Stage, group, wire};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [
            probes_and_status,
            metrics_count_what_happened,
            help_documents_every_setting,
            completions_and_manual_pages_are_printed,
            messages_say_what_was_meant,
        ],
        full: [
            doctor_finds_nothing_wrong,
            a_second_daemon_announces_no_address,
            doctor_says_what_is_wrong,
            no_daemon_starts_without_its_authorities,
            every_wrong_setting_is_reported,
            the_sample_configuration_works,
            tls_serves_https_and_wss,
        ],
    )
}

async fn probes_and_status(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api().without_key();
    ensure!(api.get("/healthz").await?.status == 200);
    ensure!(api.get("/readyz").await?.status == 200);
    let status = api.get("/status").await?.ok()?;
    ensure!(status["phase"] == "serving", "{status}");
    ensure!(status["pool"][0]["engine"] == "chromium", "{status}");
    let text = status.to_string();
    ensure!(text.contains("sandbox"), "the status says whether the sandbox is on: {text}");
    ensure!(!text.contains(daemon.key()), "{text}");
    Ok(())
}

async fn metrics_count_what_happened(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    let mut cdp = session.cdp().await?;
    cdp.call("Browser.getVersion", json!({})).await?;
    let during = daemon.metrics().await?;
    ensure!(during.sum("warmpool_sessions_live", &[]) == Some(1.0), "{during:?}");
    session.delete().await?.ok()?;
    let after = daemon.metrics().await?;
    ensure!(after.sum("warmpool_sessions_live", &[]) == Some(0.0), "{after:?}");
    let ended = [("status", "terminated"), ("reason", "deleted")];
    ensure!(after.sum("warmpool_sessions_ended_total", &ended) >= Some(1.0), "{after:?}");
    ensure!(after.sum("warmpool_relay_bytes_total", &[]) > Some(0.0), "{after:?}");
    ensure!(after.sum("warmpool_workers", &[("engine", "chromium")]) >= Some(1.0), "{after:?}");
    ensure!(daemon.api().without_key().get("/sessions").await?.status == 401);
    let refused = daemon.metrics().await?;
    ensure!(refused.sum("warmpool_refusals_total", &[("code", "missing_key")]) >= Some(1.0), "{refused:?}");
    ensure!(refused.sum("warmpool_http_responses_total", &[("class", "4xx")]) >= Some(1.0), "{refused:?}");
    ensure!(refused.sum("warmpool_build_info", &[]) == Some(1.0), "{refused:?}");
    ensure!(refused.sum("process_resident_memory_bytes", &[]) > Some(0.0), "{refused:?}");
    let names = |text: String| -> Vec<String> {
        text.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
    };
    let first = names(daemon.api().get("/metrics").await?.text());
    ensure!(names(daemon.api().get("/metrics").await?.text()) == first, "series keep their order: {first:#?}");
    for series in ["warmpool_session_create_seconds_count", "warmpool_worker_boot_seconds_count"] {
        ensure!(after.sum(series, &[]) >= Some(1.0), "{series}: {after:?}");
    }
    Ok(())
}

async fn help_documents_every_setting(stage: Stage) -> Result<()> {
    let help = stage.daemon()?.cli_ok(&["serve", "--help"]).await?;
    let sample = std::fs::read_to_string(programs::examples().join("warmpool.toml"))?;
    let mut section = String::new();
    let mut settings = 0;
    for line in sample.lines() {
        let line = line.trim_start_matches(['#', ' ']);
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            name.clone_into(&mut section);
        } else if let Some((key, _)) = line.split_once(" = ").filter(|(key, _)| is_key(key)) {
            let flag = format!("--{section}-{}", key.replace('_', "-"));
            ensure!(help.contains(&flag), "{flag} is documented");
            settings += 1;
        }
    }
    ensure!(settings > 30, "the sample shows the settings: {settings}");
    Ok(())
}

async fn completions_and_manual_pages_are_printed(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    for shell in ["bash", "zsh", "fish"] {
        let text = daemon.cli_ok(&["completions", shell]).await?;
        ensure!(text.contains("integration-key"), "{shell}: {text}");
    }
    ensure!(daemon.cli_ok(&["man"]).await?.contains(".TH warmpool"));
    ensure!(daemon.cli_ok(&["man", "key", "create"]).await?.contains("warmpool\\-key\\-create"));
    let folder = tempfile::tempdir()?;
    daemon.cli_ok(&["man", "--all", &folder.path().to_string_lossy()]).await?;
    ensure!(folder.path().join("warmpool-tasks-list.1").is_file());
    Ok(())
}

async fn messages_say_what_was_meant(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let said = async |path: &str, body: serde_json::Value| -> Result<String> {
        let reply = api.post(path, &body).await?;
        ensure!(reply.status >= 400, "{path} {body}: {reply}");
        Ok(reply.text())
    };
    let near = said("/sessions/create", json!({"headles": true})).await?;
    ensure!(near.contains("did you mean `headless`?") && !near.contains("app_name"), "{near}");
    let seconds = "must be from 1 to 86400 seconds (`session.max_timeout`)";
    for timeout in [-1, 0] {
        let text = said("/sessions/create", json!({"session_timeout": timeout})).await?;
        ensure!(text.contains(seconds), "{timeout}: {text}");
    }
    for (path, meant) in [("/session/create", "/sessions/create"), ("/lam/runs", "/lam/run")] {
        let text = said(path, json!({})).await?;
        ensure!(text.contains(&format!("did you mean {meant}?")), "{path}: {text}");
    }
    let bare = json!({"url": "https://{{host}}/", "schema": {"title": "h1"}, "inputs": {"host": "a.example"}});
    let text = said("/lam/extract", bare).await?;
    ensure!(text.contains("{{input.host}}"), "{text}");
    ensure!(api.get("/playwright").await?.text().contains("Playwright's own protocol"));

    let mut headers = HeaderMap::new();
    headers.insert("authorization", "Basic a2V5Og==".parse()?);
    let nameless = daemon.api().without_key();
    let misplaced = nameless.send(http::Method::GET, "/sessions", headers, bytes::Bytes::new()).await?;
    ensure!(misplaced.status == 401 && misplaced.text().contains("basic authentication"), "{misplaced}");

    let mut headers = HeaderMap::new();
    headers.insert("accept", "text/html,*/*".parse()?);
    let page = nameless.send(http::Method::GET, "/", headers, bytes::Bytes::new()).await?;
    ensure!(page.status == 200 && page.text().contains("href=\"console/\""), "{page}");
    ensure!(nameless.get("/").await?.status == 404);
    Ok(())
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

async fn doctor_finds_nothing_wrong(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let output = daemon.cli(&["doctor"]).await?;
    let said = String::from_utf8_lossy(&output.stdout).to_lowercase();
    ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for part in ["docker", "namespace", "disk", "port"] {
        ensure!(said.contains(part), "{part} is looked at: {said}");
    }
    Ok(())
}

async fn doctor_says_what_is_wrong(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let mut command = daemon.command(&["doctor"]);
    command.env("WARMPOOL_DOCKER_HOST", "unix:///nowhere/docker.sock").env("WARMPOOL_STORE_MIN_FREE", "1000TiB");
    command.env("WARMPOOL_EGRESS_CA_CERTIFICATES", "/nowhere/ca.pem");
    let output = tokio::process::Command::from(command).output().await?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(!output.status.success(), "{said}");
    ensure!(said.contains("/nowhere/docker.sock") && said.contains("/nowhere/ca.pem"), "{said}");
    ensure!(said.contains("1000TiB") || said.contains("min_free"), "{said}");
    Ok(())
}

async fn a_second_daemon_announces_no_address(stage: Stage) -> Result<()> {
    let mut second = stage.daemon()?.command(&["serve"]);
    second.env("WARMPOOL_SERVER_LISTEN", "127.0.0.1:0");
    let output = tokio::process::Command::from(second).kill_on_drop(true).output().await?;
    ensure!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    Ok(())
}

async fn no_daemon_starts_without_its_authorities(_: Stage) -> Result<()> {
    let (folder, empty) = (tempfile::tempdir()?, tempfile::NamedTempFile::new()?);
    let empty = empty.path().to_string_lossy();
    for (path, reason) in [("/nowhere/ca.pem", "No such file"), (&*empty, "there is no certificate")] {
        let mut command = program();
        command.arg("serve").env("WARMPOOL_SERVER_LISTEN", "127.0.0.1:0");
        command.env("WARMPOOL_STORE_DATA_DIR", folder.path()).env("WARMPOOL_EGRESS_CA_CERTIFICATES", path);
        let output = tokio::process::Command::from(command).kill_on_drop(true).output().await?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success() && output.stdout.is_empty(), "{said}");
        ensure!(said.contains("egress.ca_certificates") && said.contains(path) && said.contains(reason), "{said}");
    }
    Ok(())
}

async fn every_wrong_setting_is_reported(_: Stage) -> Result<()> {
    let mut command = program();
    command
        .arg("serve")
        .env("WARMPOOL_SERVER_LISTEN", "nowhere")
        .env("WARMPOOL_POOL_MAX_WORKERS", "0")
        .env("WARMPOOL_SESSION_QUEUE_WAIT", "soon");
    let output = tokio::process::Command::from(command).output().await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(64), "{:?} {said}", output.status);
    for name in ["server.listen", "pool.max_workers", "session.queue_wait"] {
        ensure!(said.contains(name) || said.contains(&env_name(name)), "{name}: {said}");
    }
    Ok(())
}

fn env_name(setting: &str) -> String {
    format!("WARMPOOL_{}", setting.replace('.', "_").to_uppercase())
}

async fn the_sample_configuration_works(_: Stage) -> Result<()> {
    let path = programs::examples().join("warmpool.toml");
    let text = std::fs::read_to_string(&path)?;
    text.parse::<toml::Table>().context("examples/warmpool.toml")?;
    // The environment wins over the file, so this is a small daemon of its own.
    let daemon = Daemon::start(Settings::on_demand().set("CONFIG", path.display())).await?;
    daemon.session(json!({})).await?.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn tls_serves_https_and_wss(stage: Stage) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    let (certificate, key) = (folder.path().join("certificate.pem"), folder.path().join("key.pem"));
    write_pair(&made, &certificate, &key)?;
    let settings = Settings::on_demand().tls(&certificate, &key, made.cert.der().clone());
    let daemon = Daemon::start(settings).await?;
    ensure!(daemon.url().starts_with("https://"), "{}", daemon.url());
    let session = daemon.session(json!({})).await?;
    ensure!(session.websocket_url()?.starts_with("wss://"), "{}", session.body);
    ensure!(session.url("livestream_url")?.starts_with("https://"), "{}", session.body);
    let mut cdp = session.cdp().await?;
    cdp.call("Browser.getVersion", json!({})).await?;
    cdp.disconnect().await?;
    session.delete().await?.ok()?;

    // A real client over wss:.
    let site = stage.site_for(&daemon).await?;
    let page = format!("{site}/");
    let example = Program::node(&programs::examples(), "puppeteer.mjs").await?.of(&daemon).arg(&page);
    let example = example.env("NODE_EXTRA_CA_CERTS", certificate.to_string_lossy());
    ensure!(example.run().await?.contains("title: Test site"));
    daemon.assert_idle().await?;

    // A new certificate is taken up without a restart.
    let renewed = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    write_pair(&renewed, &certificate, &key)?;
    let api = daemon.api().trusting(renewed.cert.der().clone());
    warmpool_tests::eventually!("the new certificate is served", 30, api.get("/healthz").await.is_ok())?;
    let plain = daemon.url().replace("https:", "ws:");
    ensure!(wire::websocket(&plain, &HeaderMap::new(), None).await.is_err(), "nothing is served in the clear");
    Ok(())
}

fn write_pair(made: &rcgen::CertifiedKey<rcgen::KeyPair>, certificate: &Path, key: &Path) -> Result<()> {
    std::fs::write(certificate, made.cert.pem())?;
    std::fs::write(key, made.signing_key.serialize_pem())?;
    Ok(())
}
