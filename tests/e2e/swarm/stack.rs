//! `deploy/swarm.yml`: the packed daemon as a service of a Docker Swarm. The group `swarm` has this case, because a test run
//! has one swarm at a time.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::OnceCell;
use warmpool_tests::{Api, Docker, Nodes, Session, Stage, Swarm, daemon, eventually};

use super::guide::{Reader, TEST_SETTINGS};

/// The repository that the packed image is named in.
pub(crate) const STACK: &str = "warmpool-stack-test";
/// The daemon's service, as the guide names its stack.
pub(crate) const SERVICE: &str = "warmpool_daemon";

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Loads the daemon under test into these engines, packed as its users get it.
pub(crate) async fn load(engines: &[Docker]) -> Result<()> {
    // Once for all cases.
    static PACKED: OnceCell<TempDir> = OnceCell::const_new();
    let folder = PACKED.get_or_try_init(pack).await?;
    let packed = std::fs::read_dir(folder.path())?.flatten().map(|entry| entry.path()).next().context("an archive")?;
    let packed = packed.to_string_lossy();
    let load = ["load", "--quiet", "--input", &*packed];
    for engine in engines {
        engine.run(&load).await?;
    }
    Ok(())
}

async fn pack() -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    // Most of a debug build says what lines it was made from.
    let daemon = tempfile::NamedTempFile::new()?.into_temp_path();
    let stripped = Command::new("strip").arg("-o").arg(&daemon).arg(daemon::binary()).status().await;
    ensure!(stripped.context("strip")?.success(), "strip");
    let mut package = Command::new(root().join("scripts/package"));
    package.arg("--image").arg(folder.path());
    package.env("WARMPOOL_PACKAGE_BINARY", &daemon).env("WARMPOOL_IMAGE_REPOSITORY", STACK);
    let output = package.kill_on_drop(true).output().await?;
    ensure!(output.status.success(), "scripts/package: {}", String::from_utf8_lossy(&output.stderr));
    let docker = Docker::default();
    let named = format!("{STACK}/daemon");
    let images = docker.run(&["images", "--format", "{{.Repository}}:{{.Tag}}", &named]).await?;
    for image in images.lines() {
        docker.run(&["rmi", "--force", image]).await?;
    }
    Ok(folder)
}

/// Settings of the test beside those of the guide.
pub(crate) fn settings(image: &str) -> [(&'static str, &str); 10] {
    [
        ("WORKER_CHROMIUM_IMAGE", image),
        ("WORKER_MEMORY", "1GiB"),
        ("SWARM_RESERVED_CPUS", "0.1"),
        // The kernel of a test machine need not have what it takes.
        ("SWARM_ENCRYPTED", "false"),
        ("SWARM_LEASE", "10s"),
        ("POOL_MAX_WORKERS", "6"),
        ("POOL_CHROMIUM_HEADLESS", "2"),
        ("POOL_CHROMIUM_HEADED", "0"),
        ("POOL_FIREFOX_HEADED", "0"),
        ("POOL_WEBKIT_HEADED", "0"),
    ]
}

/// Writes them, and where the stack's data is if not in a volume of the daemon's machine.
pub(crate) fn write_settings(folder: &Path, settings: &[(&str, &str)], data: Option<&Path>) -> Result<()> {
    let lines: String = settings.iter().map(|(name, value)| format!("      WARMPOOL_{name}: \"{value}\"\n")).collect();
    let data = data.map(|data| {
        format!("volumes:\n  data:\n    driver_opts: {{type: none, o: bind, device: {}}}\n", data.display())
    });
    let data = data.unwrap_or_default();
    let text = format!("version: \"3.8\"\nservices:\n  daemon:\n    environment:\n{lines}{data}");
    Ok(std::fs::write(folder.join(TEST_SETTINGS), text)?)
}

/// Waits until the stack's daemon serves; a failure says what Swarm and the daemon do.
pub(crate) async fn ready(open: &Api, manager: &Docker) -> Result<()> {
    let ready = eventually!("the stack is ready", 90, open.get("/readyz").await.is_ok_and(|it| it.status == 200));
    let Err(error) = ready else { return Ok(()) };
    let log = manager.run(&["service", "logs", SERVICE]).await.unwrap_or_default();
    let tasks = manager.run(&["service", "ps", "--no-trunc", SERVICE]).await.unwrap_or_default();
    Err(error.context(format!("{tasks}\n{log}")))
}

pub(crate) async fn is_kept(session: &Session) -> Result<()> {
    ensure!(session.status().await? == "running", "{}", session.record().await?);
    ensure!(session.evaluate("document.title").await? == "kept", "the same page");
    Ok(())
}

pub(crate) async fn the_guide_leads_to_a_stack_that_goes_on_when_it_is_killed_or_changed(_: Stage) -> Result<()> {
    let image = super::image();
    let images = super::images();
    let images = images.each_ref().map(String::as_str);
    let Some(swarm) = Swarm::start_apart(&images, Nodes::ALIKE).await? else { return Ok(()) };
    let manager = swarm.manager();
    load(std::slice::from_ref(manager)).await?;
    let folder = tempfile::tempdir()?;
    let settings = settings(&image);
    write_settings(folder.path(), &settings, None)?;
    let mut reader = Reader::new(folder.path(), format!("{STACK}/daemon:latest"))?;
    reader.follow(&swarm, "docker stack deploy").await?;
    let address = format!("http://{}:4444", swarm.manager_address());
    let open = Api::new(&address);
    ready(&open, manager).await?;
    let printed = reader.follow(&swarm, "/sessions/create").await?;
    let made: Value = serde_json::from_str(&printed).with_context(|| printed.clone())?;

    let label = format!("label=com.docker.swarm.service.name={SERVICE}");
    let container = async || manager.run(&["ps", "--quiet", "--filter", &label]).await;
    let first = container().await?;
    let key = manager.run(&["exec", &first, "cat", "/var/lib/warmpool/first-key"]).await?;
    let session = Session::from_body(&open.clone().with_key(key), made)?;
    session.evaluate("document.title = 'kept'").await?;
    let listed = manager.run(&["exec", &first, "warmpool", "node", "list"]).await?;
    ensure!(listed.contains(&swarm.name(3)), "the command speaks to the daemon beside it: {listed}");

    // Swarm starts the daemon again, and it takes its lease back at once.
    let began = Instant::now();
    manager.run(&["kill", &first]).await?;
    eventually!("the old container is gone", 20, container().await? != first)?;
    ready(&open, manager).await?;
    println!("the next daemon was ready after {:.1} s", began.elapsed().as_secs_f64());
    is_kept(&session).await?;

    // Another image and another setting, under a running session.
    let next = format!("{STACK}/daemon:next");
    manager.run(&["tag", &format!("{STACK}/daemon:latest"), &next]).await?;
    let one_less = settings.map(|(name, value)| (name, if name == "POOL_CHROMIUM_HEADLESS" { "1" } else { value }));
    write_settings(folder.path(), &one_less, None)?;
    let began = Instant::now();
    reader.deploy_again(&swarm, next.clone()).await?;
    // A service has no such status until its first update begins.
    let state = ["service", "inspect", "--format", "{{with .UpdateStatus}}{{.State}}{{end}}", SERVICE];
    eventually!("the stack is changed", 90, manager.run(&state).await? == "completed")?;
    ready(&open, manager).await?;
    println!("the changed daemon was ready after {:.1} s", began.elapsed().as_secs_f64());
    let runs = manager.run(&["inspect", "--format", "{{.Config.Image}}", &container().await?]).await?;
    ensure!(runs == next, "{runs}");
    let pool = open.get("/status").await?.ok()?["pool"].clone();
    let targets: u64 = pool.as_array().into_iter().flatten().filter_map(|kind| kind["target"].as_u64()).sum();
    ensure!(targets == 1, "{pool}");
    is_kept(&session).await?;
    session.delete().await?.ok()?;
    manager.run(&["stack", "rm", "warmpool"]).await?;
    eventually!("the lease is given up", 60, manager.run(&["config", "ls", "--quiet"]).await?.is_empty())
}
