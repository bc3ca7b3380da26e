//! The pool's kinds of workers: engines that are not installed or do not start, workers on demand, presets, newer images.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use warmpool_api::status::KindStatus;
use warmpool_tests::{Daemon, Docker, Group, Session, Settings, Stage, docker, eventually, group};

const NOWHERE: &str = "warmpool-test/not-built:latest";

pub(crate) fn group() -> Group {
    group!(None,
        quick: [an_engine_that_is_not_installed_is_refused_at_once],
        full: [
            a_missing_engine_with_a_target_is_reported,
            an_image_that_is_being_built_says_how_far_it_is,
            a_browser_that_does_not_start_says_why,
            workers_on_demand_make_room_and_leave_it,
            a_caller_who_leaves_leaves_no_worker,
            presets_wait_with_their_settings,
            a_worker_with_a_clients_state_waits_for_nobody_else,
            a_newer_image_replaces_who_waits_and_nobody_else,
        ],
    )
}

async fn kind(daemon: &Daemon, engine: &str, mode: &str, preset: Option<&str>) -> Result<KindStatus> {
    let kinds = daemon.kinds().await?;
    let wanted = |kind: &&KindStatus| {
        kind.engine.as_str() == engine && kind.mode.as_str() == mode && kind.preset.as_deref() == preset
    };
    kinds.iter().find(wanted).cloned().with_context(|| format!("{engine} {mode} {preset:?}: {kinds:?}"))
}

async fn an_engine_that_is_not_installed_is_refused_at_once(_: Stage) -> Result<()> {
    // Longer than a case may take: a case that waits for a worker fails.
    let settings = Settings::new().set("SESSION_QUEUE_WAIT", "10m").set("WORKER_WEBKIT_IMAGE", NOWHERE);
    let daemon = Daemon::start(settings).await?;
    for path in ["/sessions/create", "/sessions/webdriver/create"] {
        let fault = daemon.api().post(path, &json!({"browser_type": "webkit"})).await?.fault(503)?;
        ensure!(fault.code == "engine_not_installed" && fault.field == "browser_type", "{fault:?}");
        ensure!(fault.message.contains("./scripts/images --engine webkit"), "{fault:?}");
    }
    ensure!(!kind(&daemon, "webkit", "headed", None).await?.installed);
    ensure!(kind(&daemon, "chromium", "headless", None).await?.installed);
    ensure!(daemon.cli(&["doctor"]).await?.status.success(), "nobody asked for WebKit");
    ensure!(!daemon.log_text().contains("did not start"), "it was not tried");
    daemon.session(json!({})).await?.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn a_missing_engine_with_a_target_is_reported(_: Stage) -> Result<()> {
    let settings = Settings::new().set("POOL_WEBKIT_HEADED", "1").set("WORKER_WEBKIT_IMAGE", NOWHERE);
    let daemon = Daemon::start_cold(settings).await?;
    eventually!("Chromium is warm", 60, kind(&daemon, "chromium", "headless", None).await?.counts.ready == 1)?;
    let ready = daemon.api().get("/readyz").await?;
    ensure!(ready.status == 503 && ready.text().contains("not warm"), "{ready}");
    let doctor = daemon.cli(&["doctor"]).await?;
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    ensure!(!doctor.status.success() && said.contains(NOWHERE), "{said}");
    ensure!(said.contains("./scripts/images --engine webkit"), "{said}");
    // Sessions of the others are served all the same.
    daemon.session(json!({})).await?.delete().await?.ok()?;
    Ok(())
}

async fn an_image_that_is_being_built_says_how_far_it_is(_: Stage) -> Result<()> {
    // A name of this run's own, so that cases at the same time do not meet.
    let image = format!("warmpool-test/later:{}", std::process::id());
    let settings = Settings::new().set("WORKER_WEBKIT_IMAGE", &image);
    let daemon = Daemon::start(settings).await?;
    daemon.cli_ok(&["image-build", "webkit", "Step 3/19 : RUN install-packages"]).await?;
    let fault = daemon.api().post("/sessions/create", &json!({"browser_type": "webkit"})).await?.fault(503)?;
    ensure!(fault.code == "engine_not_installed" && fault.message.contains("Step 3/19"), "{fault:?}");
    let status = daemon.api().get("/status").await?;
    ensure!(status.text().contains("Step 3/19"), "{status}");
    ensure!(!daemon.cli(&["image-build", "opera", "Step 1"]).await?.status.success());

    daemon.docker().run(&["tag", "warmpool/webkit:latest", &image]).await?;
    let used = async {
        daemon.cli_ok(&["image-build", "webkit"]).await?;
        let kind = kind(&daemon, "webkit", "headed", None).await?;
        ensure!(kind.installed, "the daemon looks for the image at once: {kind:?}");
        ensure!(!daemon.api().get("/status").await?.text().contains("Step 3/19"));
        daemon.session(json!({"browser_type": "webkit"})).await?.delete().await?.ok()?;
        daemon.assert_idle().await
    };
    let used = used.await;
    daemon.docker().run(&["rmi", "--no-prune", &image]).await?;
    used
}

async fn a_browser_that_does_not_start_says_why(_: Stage) -> Result<()> {
    // An image with no agent in it.
    let settings = Settings::new().set("SESSION_QUEUE_WAIT", "10m");
    let daemon = Daemon::start(settings.set("WORKER_FIREFOX_IMAGE", "warmpool/common:latest")).await?;
    let fault = daemon.api().post("/sessions/create", &json!({"browser_type": "firefox"})).await?.fault(503)?;
    ensure!(fault.code == "browser_not_starting" && fault.message.contains("firefox"), "{fault:?}");
    daemon.session(json!({})).await?.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn workers_on_demand_make_room_and_leave_it(_: Stage) -> Result<()> {
    let settings = Settings::new().set("POOL_CHROMIUM_HEADLESS", "2").set("POOL_MAX_WORKERS", "2");
    let daemon = Daemon::start(settings).await?;
    let headed = Session::create(&daemon.api(), &json!({"headless": false})).await?;
    let kinds = daemon.kinds().await?;
    let containers = daemon.containers().await?;
    ensure!(containers.len() <= 2, "{containers:?}");
    ensure!(kind(&daemon, "chromium", "headed", None).await?.counts.leased == 1, "{kinds:?}");
    ensure!(kind(&daemon, "chromium", "headless", None).await?.counts.ready == 1, "{kinds:?}");
    // The warm worker of the other mode stays.
    let headless = daemon.session(json!({})).await?;
    headed.delete().await?.ok()?;
    headless.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn a_caller_who_leaves_leaves_no_worker(_: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::new()).await?;
    let api = daemon.api();
    let asked = tokio::spawn(async move { api.post("/sessions/create", &json!({"headless": false})).await });
    eventually!("its worker starts", 20, kind(&daemon, "chromium", "headed", None).await?.counts.starting == 1)?;
    asked.abort();
    daemon.assert_idle().await
}

async fn presets_wait_with_their_settings(stage: Stage) -> Result<()> {
    const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64) Preset/1";
    let presets = format!(
        r#"[{{ name = "german", engine = "chromium", mode = "headless", count = 1, locales = ["de-DE", "de"],
               viewport = {{ width = 900, height = 700 }}, user_agent = "{AGENT}" }},
            {{ name = "never", engine = "chromium", mode = "headed", count = 0, viewport = {{ width = 300, height = 200 }} }}]"#
    );
    let mut daemon = Daemon::start(Settings::new().set("POOL_PRESETS", presets)).await?;
    let german = async |daemon: &Daemon| kind(daemon, "chromium", "headless", Some("german")).await;
    ensure!(german(&daemon).await?.counts.ready == 1, "{:?}", daemon.kinds().await?);
    let gauge = [("preset", "german"), ("state", "ready")];
    ensure!(daemon.metrics().await?.sum("warmpool_workers", &gauge) == Some(1.0));

    // A restart finds both waiting workers again, each for its own kind.
    let ids = async |daemon: &Daemon| -> Result<Vec<String>> {
        let mut ids: Vec<_> = daemon.containers().await?.into_iter().map(|container| container.id).collect();
        ids.sort();
        Ok(ids)
    };
    let before = ids(&daemon).await?;
    daemon.kill9().await?;
    daemon.restart().await?;
    daemon.warm().await?;
    ensure!(ids(&daemon).await? == before, "the same containers wait");

    let site = stage.site_for(&daemon).await?;
    let settings = json!({"locales": ["de-de", "de"], "user_agent": AGENT, "viewport": {"width": 900, "height": 700}});
    let body = |name: &str, settings: &Value| json!({"settings": settings, "url": format!("{site}/probe/{name}")});
    let check = async |name: &str| -> Result<()> {
        let report = eventually!(format!("the page {name} reports"), 30, stage.site().report(name))?;
        let top = &report["top"];
        ensure!(top["userAgent"] == AGENT && top["languages"] == json!(["de-DE", "de"]), "{report}");
        ensure!(top["inner"] == json!({"width": 900, "height": 700}) && top["intl"] == "de-DE", "{report}");
        Ok(())
    };
    let first = daemon.session(body("preset-worker", &settings)).await?;
    ensure!(german(&daemon).await?.counts.leased == 1, "{:?}", daemon.kinds().await?);
    check("preset-worker").await?;
    // Settings that differ in one word get another worker.
    let mut other = settings.clone();
    other["locales"] = json!(["de-DE"]);
    let second = daemon.session(body("other-worker", &other)).await?;
    ensure!(german(&daemon).await?.counts.leased == 1, "{:?}", daemon.kinds().await?);
    first.delete().await?.ok()?;
    second.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// The secret of a worker's agent, as the daemon derives it.
fn agents_secret(daemon: &Daemon, worker: &str) -> Result<String> {
    let instance: Value = serde_json::from_str(&fs::read_to_string(daemon.data_dir().join("instance.json"))?)?;
    let secret = BASE64_URL_SAFE_NO_PAD.decode(instance["secret"].as_str().context("secret")?)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret)?;
    for part in ["worker", worker] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    Ok(hex::encode(mac.finalize().into_bytes()))
}

/// A daemon that dies gives a worker a client's state, and has no record of a session yet.
async fn a_worker_with_a_clients_state_waits_for_nobody_else(_: Stage) -> Result<()> {
    let mut daemon = Daemon::start(Settings::new()).await?;
    let container = daemon.only_container().await?;
    let containers = daemon.containers().await?;
    let worker = containers[0].labels.get("warmpool.worker").context("the worker's label")?;
    let secret = agents_secret(&daemon, worker)?;
    daemon.kill9().await?;

    let mut agent = UnixStream::connect(daemon.docker().file(&container, "run/warmpool/agent.sock").await?).await?;
    let state = json!({"cookies": [], "origins": []}).to_string();
    let request = format!(
        "PUT /storage HTTP/1.1\r\nhost: agent\r\nauthorization: Bearer {secret}\r\ncontent-length: {}\r\n\r\n{state}",
        state.len()
    );
    agent.write_all(request.as_bytes()).await?;
    let mut answer = [0; 12];
    agent.read_exact(&mut answer).await?;
    ensure!(&answer == b"HTTP/1.1 204", "{}", String::from_utf8_lossy(&answer));

    daemon.restart().await?;
    daemon.warm().await?;
    let now = daemon.only_container().await?;
    ensure!(now != container, "the worker is another");
    daemon.assert_idle().await
}

async fn ids(daemon: &Daemon) -> Result<BTreeSet<String>> {
    Ok(daemon.containers().await?.into_iter().map(|container| container.id).collect())
}

async fn a_newer_image_replaces_who_waits_and_nobody_else(_: Stage) -> Result<()> {
    // A name of this run's own, so that nobody else's workers change.
    let image = format!("warmpool-test/renewed:{}", std::process::id());
    let (engine, chromium) = (Docker::default(), docker::image("chromium"));
    engine.run(&["tag", &chromium, &image]).await?;
    let renewed = async {
        let settings = Settings::new().set("WORKER_CHROMIUM_IMAGE", &image).set("DOCKER_RECONCILE_INTERVAL", "1s");
        let daemon = Daemon::start(settings).await?;
        let taken = daemon.only_container().await?;
        let session = daemon.session(json!({"keep_alive": true})).await?;
        daemon.warm().await?;
        let older = ids(&daemon).await?;
        ensure!(older.len() == 2 && older.contains(&taken), "{older:?}");

        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("Dockerfile"), format!("FROM {chromium}\nLABEL warmpool.test=renewed\n"))?;
        let mut build = engine.command(&["build", "--tag", &image]);
        let built = build.env("DOCKER_BUILDKIT", "0").arg(folder.path()).output().await?;
        ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        eventually!("another worker waits beside the session's", 60, {
            let now = ids(&daemon).await?;
            now.len() == 2 && now.intersection(&older).eq([&taken])
        })?;
        daemon.warm().await?;
        ensure!(session.evaluate("6 * 7").await? == 42, "the session keeps its browser");
        session.delete().await?.ok()?;
        daemon.assert_idle().await?;
        let replaced = daemon.log_text().matches("replacing a warm worker of an older image").count();
        ensure!(replaced == 1, "{replaced} were replaced");
        anyhow::Ok(())
    };
    let renewed = renewed.await;
    engine.run(&["rmi", "--no-prune", &image]).await?;
    renewed
}
