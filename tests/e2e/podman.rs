//! Workers of Podman, by the socket on which it speaks Docker's interface.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::{Daemon, Group, Podman, Settings, Stage, docker, evidence, group};

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [podman_keeps_sessions_and_the_fence])
}

/// One case, since each Podman takes seconds to start.
async fn podman_keeps_sessions_and_the_fence(_: Stage) -> Result<()> {
    if let Some(why) = Podman::missing() {
        evidence::cannot(why);
        return Ok(());
    }
    let mut podman = Podman::start(&docker::image("chromium")).await?;
    let mut daemon = Daemon::start(Settings::new().on(podman.docker())).await?;

    let found: Value = serde_json::from_slice(&daemon.cli(&["doctor", "--json"]).await?.stdout)?;
    let engine = &found["findings"][0];
    ensure!(engine["level"] == "ok", "{found}");
    ensure!(engine["detail"].as_str().is_some_and(|detail| detail.starts_with("Podman ")), "{engine}");
    let fence = daemon.cli_ok(&["doctor", "--egress"]).await?;
    ensure!(fence.contains("Workers reach nothing that no rule allows"), "{fence}");

    let session = daemon.session(json!({"keep_alive": true})).await?;
    ensure!(session.evaluate("6 * 7").await? == 42);
    let thumbnail = daemon.api().get(&format!("/sessions/{}/thumbnail", session.id)).await?;
    ensure!(thumbnail.status == 200, "{}", thumbnail.status);

    // Its containers are nobody's children, so a session outlives the service and the daemon.
    podman.stop().await?;
    ensure!(session.evaluate("6 * 7").await? == 42, "the session goes on without the engine");
    podman.run().await?;
    daemon.kill9().await?;
    daemon.restart().await?;
    session.becomes("running", 30).await?;
    ensure!(session.evaluate("6 * 7").await? == 42, "it is driven on");

    session.delete().await?.ok()?;
    daemon.assert_idle().await?;
    let instance = daemon.instance()?;
    daemon.signal(nix::sys::signal::Signal::SIGTERM)?;
    ensure!(daemon.wait(60).await?.success());
    let left = podman.docker().containers(&instance).await?;
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}
