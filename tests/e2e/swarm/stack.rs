//! `deploy/swarm.yml`: the packed daemon as a service of a Docker Swarm. The group `swarm` has this case, because a test run
//! has one swarm at a time.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::process::Command;
use warmpool_tests::{Api, Docker, Session, Stage, Swarm, daemon, eventually};

/// The name of the stack, and the repository that the packed image is named in.
const STACK: &str = "warmpool-stack-test";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Packs the daemon under test, and loads it into the manager's engine.
async fn load(manager: &Docker) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut package = Command::new(root().join("scripts/package"));
    package.arg("--image").arg(folder.path());
    package.env("WARMPOOL_PACKAGE_BINARY", daemon::binary()).env("WARMPOOL_IMAGE_REPOSITORY", STACK);
    let output = package.kill_on_drop(true).output().await?;
    ensure!(output.status.success(), "scripts/package: {}", String::from_utf8_lossy(&output.stderr));
    let packed = std::fs::read_dir(folder.path())?.flatten().map(|entry| entry.path()).next().context("an archive")?;
    manager.run(&["load", "--quiet", "--input", &packed.to_string_lossy()]).await?;
    let docker = Docker::default();
    let named = format!("{STACK}/daemon");
    let images = docker.run(&["images", "--format", "{{.Repository}}:{{.Tag}}", &named]).await?;
    for image in images.lines() {
        docker.run(&["rmi", "--force", image]).await?;
    }
    Ok(())
}

pub(crate) async fn a_stack_serves_and_goes_on_when_its_daemon_is_killed(_: Stage) -> Result<()> {
    let repository = std::env::var("WARMPOOL_IMAGE_REPOSITORY").unwrap_or_else(|_| "warmpool".to_owned());
    let image = format!("{repository}/chromium:latest");
    let Some(swarm) = Swarm::start(&image).await? else { return Ok(()) };
    let manager = swarm.manager();
    load(manager).await?;
    let folder = tempfile::tempdir()?;
    let own = folder.path().join("own.yml");
    let settings = [
        ("WORKER_CHROMIUM_IMAGE", image.as_str()),
        ("WORKER_MEMORY", "1GiB"),
        ("SWARM_RESERVED_CPUS", "0.1"),
        // The kernel of a test machine need not have what it takes.
        ("SWARM_ENCRYPTED", "false"),
        ("POOL_MAX_WORKERS", "4"),
        ("POOL_CHROMIUM_HEADLESS", "2"),
        ("POOL_CHROMIUM_HEADED", "0"),
    ];
    let lines: String = settings.iter().map(|(name, value)| format!("      WARMPOOL_{name}: \"{value}\"\n")).collect();
    std::fs::write(&own, format!("version: \"3.8\"\nservices:\n  daemon:\n    environment:\n{lines}"))?;
    let socket = manager.host().and_then(|host| host.strip_prefix("unix://")).context("a socket")?;
    let stat = Command::new("stat").args(["--format", "%g", socket]).output().await?;
    let group = String::from_utf8(stat.stdout)?.trim().to_owned();
    let ours = root().join("deploy/swarm.yml").display().to_string();
    let own = own.display().to_string();
    let mut deploy = manager.command(&["stack", "deploy", "--compose-file", &ours, "--compose-file", &own, STACK]);
    deploy
        .env("WARMPOOL_IMAGE", format!("{STACK}/daemon:latest"))
        .env("DOCKER_GROUP", group)
        .env("DOCKER_SOCKET", socket);
    let output = deploy.output().await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let address = format!("http://{}:4444", swarm.manager_address());
    let open = Api::new(&address);
    let ready =
        async || eventually!("the stack is ready", 90, open.get("/readyz").await.is_ok_and(|it| it.status == 200));
    if let Err(error) = ready().await {
        let log = manager.run(&["service", "logs", &format!("{STACK}_daemon")]).await.unwrap_or_default();
        let tasks = manager.run(&["service", "ps", "--no-trunc", &format!("{STACK}_daemon")]).await.unwrap_or_default();
        return Err(error.context(format!("{tasks}\n{log}")));
    }
    let label = format!("label=com.docker.swarm.service.name={STACK}_daemon");
    let container = manager.run(&["ps", "--quiet", "--filter", &label]).await?;
    let key = manager.run(&["exec", &container, "cat", "/var/lib/warmpool/first-key"]).await?;
    let listed = manager.run(&["exec", &container, "warmpool", "node", "list"]).await?;
    ensure!(listed.contains(&swarm.name(3)), "the command speaks to the daemon beside it: {listed}");
    let session =
        Session::create(&open.clone().with_key(key), &json!({"headless": true, "url": "about:blank"})).await?;
    session.evaluate("document.title = 'kept'").await?;

    // Swarm starts the daemon again, and it takes its lease back at once.
    let began = std::time::Instant::now();
    manager.run(&["kill", &container]).await?;
    eventually!("the old container is gone", 20, {
        manager.run(&["ps", "--quiet", "--filter", &label]).await? != container
    })?;
    ready().await?;
    println!("the next daemon was ready after {:.1} s", began.elapsed().as_secs_f64());
    ensure!(session.status().await? == "running", "{}", session.record().await?);
    ensure!(session.evaluate("document.title").await? == "kept", "the same page");
    session.delete().await?.ok()?;
    manager.run(&["stack", "rm", STACK]).await?;
    eventually!("the lease is given up", 60, manager.run(&["config", "ls", "--quiet"]).await?.is_empty())
}
