//! Backups: what one daemon remembers, brought to another.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use warmpool_tests::task::{artifact, succeeds};
use warmpool_tests::{Daemon, Group, Settings, Stage, eventually, group, site};

use crate::history::id;

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()), quick: [], full: [a_restored_task_has_its_files])
}

/// A task with a screenshot, a download, and a result too large for its record.
async fn large_task(stage: &Stage, daemon: &Daemon) -> Result<Value> {
    let site = stage.site_for(daemon).await?;
    let custom = |name: &str, parameters: Value| json!({"type": "customStep", "name": name, "parameters": parameters});
    let steps = json!([
        {"type": "navigate", "url": format!("{site}/stage")},
        {"type": "change", "selectors": [["#area"]], "value": "tea ".repeat(10_000)},
        custom("lam:extract", json!({"schema": {"area": "#area"}})),
        custom("lam:screenshot", json!({"name": "view"})),
        {"type": "navigate", "url": format!("{site}/downloads")},
        {"type": "click", "selectors": [["#file"]], "offsetX": 4, "offsetY": 4},
        custom("lam:waitForDownload", json!({})),
    ]);
    let task = succeeds(&daemon.api(), "/lam/run", &json!({"steps": steps, "timeout": 60_000})).await?;
    ensure!(task["output"][0]["area"].as_str().is_some_and(|text| text.len() > 30_000), "{task:#}");
    Ok(task)
}

/// A session that was recorded and has ended; returns the path of its recording.
async fn recorded(stage: &Stage, daemon: &Daemon) -> Result<String> {
    let url = format!("{}/animation", stage.site_for(daemon).await?);
    let session = daemon.session(json!({"url": url, "headless": true, "recording": true})).await?;
    let list = format!("/sessions/{}/recording", session.id);
    eventually!("some of it is on disk", 20, {
        daemon.api().get(&list).await?.ok()?["parts"][0]["size"].as_u64() > Some(20_000)
    })?;
    session.delete().await?.ok()?;
    let part = eventually!("it is complete", 10, {
        let listed = daemon.api().get(&list).await?.ok()?;
        (listed["parts"][0]["complete"] == true).then(|| listed["parts"][0].clone())
    })?;
    Ok(format!("{list}/{}", part["name"].as_str().context("name")?))
}

async fn a_restored_task_has_its_files(stage: Stage) -> Result<()> {
    let here = stage.daemon()?;
    let (task, recording) = (large_task(&stage, here).await?, recorded(&stage, here).await?);
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (without, with) = (file("tasks.warmpool"), file("all.warmpool"));
    here.cli_ok(&["backup", &without]).await?;
    here.cli_ok(&["backup", &with, "--recordings"]).await?;

    let mut there = Daemon::start_cold(Settings::on_demand()).await?;
    let refused = there.cli(&["restore", &with]).await?;
    ensure!(!refused.status.success(), "a daemon that runs is not restored under");
    for (backup, has_recording) in [(&without, false), (&with, true)] {
        there.signal(Signal::SIGTERM)?;
        ensure!(there.wait(60).await?.success());
        there.cli_ok(&["restore", backup]).await?;
        there.restart().await?;
        there.take_key_of(here);
        let (old, new) = (here.api(), there.api());
        let path = format!("/lam/tasks/{}", id(&task)?);
        ensure!(new.get(&path).await?.ok()? == old.get(&path).await?.ok()?, "the record and its whole output");
        for name in ["view.png", "file.bin"] {
            ensure!(artifact(&new, &task, name).await? == artifact(&old, &task, name).await?, "{name} is another");
        }
        ensure!(artifact(&new, &task, "file.bin").await? == site::file_bytes());
        let found = new.get(&recording).await?;
        if has_recording {
            ensure!(found.status == 200 && found.body == old.get(&recording).await?.body, "the recording is another");
        } else {
            found.fault(404)?;
        }
    }
    there.assert_idle().await
}
