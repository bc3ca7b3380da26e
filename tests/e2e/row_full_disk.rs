//! Row 12: a data disk that is filled to its last byte under load, so that the system refuses what the guard would have refused.

use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinSet;
use warmpool_tests::disk::Disk;
use warmpool_tests::{Daemon, Group, Settings, Stage, eventually, evidence, group, poll};

use crate::row_crashes::{
    Acknowledged, containers_are_the_daemons, make_room, nothing_is_lost, sessions_come_and_go, tasks_come_and_go,
};

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [a_disk_without_a_byte_loses_nothing])
}

/// How many sessions and tasks were acknowledged.
fn counts(known: &Mutex<Acknowledged>) -> (usize, usize) {
    let known = known.lock();
    (known.sessions.len(), known.tasks.len())
}

/// A daemon that has met a full disk and does not say so ends in this time, or hangs.
const HUNG: Duration = Duration::from_secs(20);

/// The daemon that runs has no guard: it writes until the system refuses it, and ends. Then there is room, and it is compared.
async fn a_disk_without_a_byte_loses_nothing(stage: Stage) -> Result<()> {
    let rounds = evidence::rounds(10);
    let Some(disk) = Disk::mount(96 << 20)? else { return Ok(()) };
    let settings = Settings::new()
        .data_in(disk.path())
        .set("STORE_MIN_FREE", "0B")
        .set("POOL_CHROMIUM_HEADLESS", "2")
        .set("POOL_MAX_WORKERS", "5")
        .set("TASKS_WORKERS", "1")
        .set("TASKS_QUEUE_LENGTH", "10000")
        .set("SESSION_ATTACH_TIMEOUT", "2s")
        .set("SESSION_RECONNECT_WINDOW", "1s")
        .set("DOCKER_RECONCILE_INTERVAL", "2s")
        .set("LOG_FILTER", "info");
    let mut daemon = Daemon::start(settings).await?;
    let page = format!("{}/tab/1", stage.site_for(&daemon).await?);
    let known = Arc::new(Mutex::new(Acknowledged::default()));
    let (mut slowest, mut worked) = (Duration::ZERO, Duration::ZERO);
    for round in 0..rounds {
        let at = || format!("round {round}");
        let begun = Instant::now();
        let mut clients = JoinSet::new();
        for _ in 0..2 {
            clients.spawn(sessions_come_and_go(daemon.api(), Arc::clone(&known)));
        }
        clients.spawn(tasks_come_and_go(daemon.api(), page.clone(), Arc::clone(&known)));
        let (sessions, tasks) = counts(&known);
        eventually!("work goes on", 60, {
            let now = counts(&known);
            now.0 > sessions && now.1 > tasks + 3
        })
        .with_context(at)?;
        worked += begun.elapsed();
        let began = Instant::now();
        known.lock().is_ending = true;
        let status = loop {
            // Backups and old parts of the database may make room: none stays.
            disk.fill()?;
            if let Some(status) = daemon.exited()? {
                break status;
            }
            ensure!(began.elapsed() < HUNG, "round {round}: it neither ends nor goes on\n{}", daemon.log_text());
            poll().await;
        };
        slowest = slowest.max(began.elapsed());
        ensure!(status.signal() == Some(Signal::SIGABRT as i32), "round {round}: {status}\n{}", daemon.log_text());
        daemon.forget_ended()?;
        while let Some(ended) = clients.join_next().await {
            ended?.with_context(at)?;
        }
        known.lock().is_ending = false;
        disk.clear()?;
        daemon.restart().await.with_context(at)?;
        daemon.ready().await.with_context(at)?;
        let status: Value = daemon.api().get("/status").await?.ok()?;
        ensure!(status["store"]["recovered"].is_null(), "round {round}: {}", status["store"]);
        nothing_is_lost(&daemon.api(), &known, None).await.with_context(at)?;
        containers_are_the_daemons(&daemon).await.with_context(at)?;
        make_room(&daemon).await.with_context(at)?;
    }
    let open: Vec<String> = known.lock().tasks.keys().cloned().collect();
    for one in &open {
        daemon.api().delete(&format!("/lam/tasks/{one}")).await?.ok()?;
    }
    daemon.end_all().await?;
    let (sessions, tasks) = counts(&known);
    evidence::saw(format!(
        "{rounds} times without a byte, while some {:.0} records a second were acknowledged: the daemon ended after {:.1} s at most; {sessions} sessions and {tasks} tasks were acknowledged and all are there",
        (sessions + tasks) as f64 / worked.as_secs_f64().max(0.1),
        slowest.as_secs_f64()
    ));
    daemon.warm().await?;
    daemon.assert_idle().await
}
