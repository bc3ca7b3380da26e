//! Rows 8 and 9: the container engine goes away for a while, and takes its containers along or not.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::json;
use warmpool_tests::{Daemon, Driver, Engine, Group, Settings, Stage, docker, eventually, evidence, group, poll};

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [sessions_outlive_an_engine_with_live_restore, an_engine_away_for_minutes])
}

async fn sessions_outlive_an_engine_with_live_restore(_: Stage) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        evidence::cannot("an engine of one's own needs root");
        return Ok(());
    }
    let rounds = evidence::rounds(10);
    let mut engine = Engine::live_restoring(&docker::image("chromium")).await?;
    let settings = Settings::new().on(engine.docker()).set("DOCKER_RECONCILE_INTERVAL", "2s");
    let daemon = Daemon::start(settings).await?;
    let (mut messages, mut slowest) = (0, Duration::ZERO);
    for round in 0..rounds {
        let signal = if round % 2 == 0 { Signal::SIGTERM } else { Signal::SIGKILL };
        let session = daemon.session(json!({})).await?;
        let mut cdp = session.cdp().await?;
        let page = cdp.first_page().await?;
        let driven = daemon.webdriver(json!({})).await?;
        let driver = Driver::start(driven.connect_url()?, json!({})).await?;
        daemon.warm().await?;
        let before = daemon.containers().await?;
        engine.stop(signal).await?;
        let away = Instant::now();
        while away.elapsed() < Duration::from_secs(3) {
            let asked = Instant::now();
            ensure!(cdp.evaluate(&page, "6 * 7").await? == 42, "messages flow while the engine is away");
            slowest = slowest.max(asked.elapsed());
            messages += 1;
        }
        ensure!(driver.execute("return 6 * 7").await? == 42);
        eventually!("readiness says so", 30, daemon.api().get("/readyz").await?.status == 503)?;
        engine.run().await?;
        let back = Instant::now();
        eventually!("the daemon is ready again", 30, daemon.api().get("/readyz").await?.status == 200)
            .with_context(|| format!("{:?}", back.elapsed()))?;
        ensure!(cdp.evaluate(&page, "6 * 7").await? == 42 && driver.execute("return 6 * 7").await? == 42);
        ensure!(session.status().await? == "running" && driven.status().await? == "running", "no session is lost");
        let after = daemon.containers().await?;
        ensure!(before.iter().all(|one| after.iter().any(|other| other.id == one.id)), "{before:?} {after:?}");
        daemon.end_all().await?;
        daemon.assert_idle().await.with_context(|| format!("round {round}, {signal}"))?;
    }
    evidence::saw(format!("{messages} messages while it was away, the slowest took {} ms", slowest.as_millis()));
    Ok(())
}

/// For as many minutes as there are rounds.
async fn an_engine_away_for_minutes(_: Stage) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        evidence::cannot("an engine of one's own needs root");
        return Ok(());
    }
    let minutes = evidence::rounds(5);
    let mut engine = Engine::start(&docker::image("chromium")).await?;
    let daemon = Daemon::start(Settings::new().on(engine.docker())).await?;
    // Its own end must not come first.
    let session = daemon.session(json!({"session_timeout": 3000})).await?;
    let mut cdp = session.cdp().await?;
    cdp.call("Browser.getVersion", json!({})).await?;
    engine.stop(Signal::SIGTERM).await?;
    let began = Instant::now();
    let (code, why) = cdp.ended().await?.context("a Close frame")?;
    ensure!(code == 1011 && !why.is_empty(), "{code} {why}");
    let api = daemon.api();
    eventually!("readiness says so", 5, api.get("/readyz").await?.status == 503)?;
    let said_after = began.elapsed();
    let before = daemon.resident()?;
    while began.elapsed() < Duration::from_secs(60 * minutes) {
        ensure!(api.get("/readyz").await?.status == 503 && api.get("/healthz").await?.status == 200);
        let reply = api.post("/sessions/create", &json!({"headless": true})).await?;
        ensure!(reply.fault(503)?.code == "runtime_down" && reply.header("retry-after").is_some(), "{reply}");
        poll().await;
    }
    let more = daemon.resident()?.saturating_sub(before);
    ensure!(more < 32 << 20, "the daemon takes {} MiB more", more >> 20);
    // What became of its container nobody can say yet.
    let unknown = session.record().await?;
    ensure!(unknown["status"] == "unknown" || unknown["reason"] == "engine_stopped", "{unknown}");
    engine.run().await?;
    let back = Instant::now();
    daemon.ready().await?;
    let recovered = back.elapsed();
    let record = session.becomes("failure", 60).await?;
    ensure!(record["reason"] == "engine_stopped", "{record}");
    daemon.warm().await?;
    ensure!(session.record().await?["ended_at"] == record["ended_at"], "it ended once");
    // It asks every two seconds, and each answer is the same.
    let told = daemon.log_text().matches("the container runtime cannot be used").count();
    ensure!(told == 1, "the log says {told} times that the engine is away");
    evidence::saw(format!(
        "{minutes} min away: /readyz said so after {:.1} s and was ready {:.1} s after the engine was back",
        said_after.as_secs_f64(),
        recovered.as_secs_f64()
    ));
    daemon.assert_idle().await
}
