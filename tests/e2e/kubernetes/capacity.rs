//! How many workers a node takes, and how long creates take beside one host. And scenes, which are rendered in a Pod.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::process::Command;
use tokio::time::sleep;
use warmpool_tests::kubernetes::Kubernetes;
use warmpool_tests::{Daemon, Settings, Stage, eventually, evidence};

use super::{LONG, cluster, is_long, leaves_nothing, leaves_nothing_within, pods, settings};
use crate::swarm::stack;
use crate::worlds;

/// The median of the times that sessions take, on each of two daemons in turn.
async fn medians(daemons: [&Daemon; 2]) -> Result<[Duration; 2]> {
    const SESSIONS: usize = 15;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..SESSIONS {
        for (daemon, times) in daemons.iter().zip(&mut times) {
            daemon.warm().await?;
            let began = Instant::now();
            let session = daemon.session(json!({})).await?;
            times.push(began.elapsed());
            session.delete().await?.ok()?;
        }
    }
    Ok(times.map(|mut times| {
        times.sort_unstable();
        times[SESSIONS / 2]
    }))
}

pub(super) async fn scenes_are_rendered_and_creates_are_timed_beside_one_host(stage: Stage) -> Result<()> {
    if !is_long() {
        evidence::cannot(format!("it takes two minutes: set {LONG}"));
        return Ok(());
    }
    let Some(cluster) = cluster(&stage).await? else { return Ok(()) };
    let small = settings(&cluster, "scenes").await?.set("WORLD_WIDTH", "256").set("WORLD_PREVIEW_WIDTH", "128");
    let mut daemon = Daemon::start(small.set("WORLD_SAMPLES", "2")).await?;

    let key = worlds::integration(&daemon, &["ward"]).await?;
    let mut body = worlds::request(&key, "garden");
    body["images"] = json!([{"data": worlds::picture()?, "label": "By the sea"}]);
    let accepted = worlds::generate(&daemon, body).await?.ok()?;
    eventually!("a renderer's Pod", 60, !pods(&cluster, "warmpool.role=renderer").await?.is_empty())?;
    let world = worlds::ended(&daemon, &accepted["world_id"]).await?;
    ensure!(world["status"] == "ready" && world["progress"] == 1.0, "{world}");
    let panorama = daemon.api().without_key().get(&worlds::path(&daemon, &world["assets"]["panorama_url"])?).await?;
    let read = image::load_from_memory(&panorama.body)?;
    ensure!((read.width(), read.height()) == (256, 128), "{} x {}", read.width(), read.height());
    eventually!("its Pod is removed", 30, pods(&cluster, "warmpool.role=renderer").await?.is_empty())?;
    // A node keeps what Pods print, and this one printed nothing of the patient's.
    for node in cluster.nodes() {
        let logs = cluster.folder_of(&node)?.join("log/pods");
        let found = Command::new("grep").args(["-rls", "panorama\\|scene.jpg\\|hotspots"]).arg(&logs).output().await?;
        ensure!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
    }

    let host =
        Daemon::start(Settings::new().set("POOL_CHROMIUM_HEADLESS", "2").set("POOL_CHROMIUM_HEADED", "0")).await?;
    let [here, there] = medians([&host, &daemon]).await?;
    let ratio = there.as_secs_f64() / here.as_secs_f64();
    evidence::saw(format!("p50 of create: {here:.1?} on one host, {there:.1?} on Kubernetes, {ratio:.2} times"));
    drop(host);
    leaves_nothing(&mut daemon, &cluster).await?;
    stage.keep(cluster);
    Ok(())
}

/// The image of the worker without a browser, which `scripts/bare-worker` builds.
const BARE_WORKER: &str = "warmpool-test/bare-worker:latest";
/// More workers than a node has room for.
const TOO_MANY: usize = 150;
/// When no worker has come for so long, no further one comes.
const NO_MORE: Duration = Duration::from_secs(30);

/// Workers without browsers, on one node, until something is used up.
pub(super) async fn a_node_takes_as_many_workers_as_it_says(_: Stage) -> Result<()> {
    if !is_long() {
        evidence::cannot(format!("it takes minutes: set {LONG}"));
        return Ok(());
    }
    let built = Command::new(stack::root().join("scripts/bare-worker")).arg(BARE_WORKER).output().await?;
    ensure!(built.status.success(), "scripts/bare-worker: {}", String::from_utf8_lossy(&built.stderr));
    let Some(cluster) = Kubernetes::start_nodes(&[BARE_WORKER], 1).await? else { return Ok(()) };
    let settings = settings(&cluster, "full").await?.set("WORKER_CHROMIUM_IMAGE", BARE_WORKER);
    let settings = settings.set("WORKER_MEMORY", "256MiB").set("WORKER_SHM", "64MiB").set("WORKER_TMP", "64MiB");
    let settings = settings.set("WORKER_FILE_LIMIT", "16MiB").set("WORKER_PIDS", "128");
    let settings = settings.set("KUBERNETES_RESERVED_CPUS", "0").set("POOL_START_CONCURRENCY", "4");
    // A kubelet takes a moment for each of so many.
    let settings = settings.set("DRAIN_CLOSE_TIMEOUT", "50s");
    let settings = settings.set("POOL_CHROMIUM_HEADLESS", TOO_MANY).set("POOL_MAX_WORKERS", TOO_MANY);
    let mut daemon = Daemon::start_cold(settings).await?;
    let ready = async || {
        let pool = daemon.api().get("/status").await?.ok()?["pool"].clone();
        Ok::<_, anyhow::Error>(
            pool.as_array().into_iter().flatten().filter_map(|kind| kind["ready"].as_u64()).sum::<u64>(),
        )
    };
    let (began, mut most, mut grew) = (Instant::now(), 0, Instant::now());
    let mut last = Duration::ZERO;
    while grew.elapsed() < NO_MORE {
        let now = ready().await?;
        if now > most {
            (most, grew, last) = (now, Instant::now(), began.elapsed());
        }
        sleep(Duration::from_secs(1)).await;
    }
    let log = daemon.log_text();
    let why =
        log.lines().rev().find(|line| line.contains("no node of the cluster takes a worker")).context("a reason")?;
    evidence::saw(format!(
        "{most} workers without browsers on one node after {:.0} s, then: {why}",
        last.as_secs_f64()
    ));
    ensure!(most > 50 && ["Insufficient", "Too many pods"].iter().any(|words| why.contains(words)), "{most}: {why}");
    // A kubelet needs a second or two for each.
    leaves_nothing_within(300, &mut daemon, &cluster).await
}
