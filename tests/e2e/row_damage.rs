//! Row 13: the database's files are damaged at random under a daemon that is down.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::evidence::Random;
use warmpool_tests::{Daemon, Group, Settings, Stage, evidence, group};

use crate::history::{becomes, id, task, visit};
use crate::task_durability::endless;

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [damage_is_told_or_does_no_harm])
}

const TASKS: usize = 60;

/// The files of the store, which the daemon keeps beside others.
fn of_the_store(name: &str) -> bool {
    name.starts_with("db") || name == "backups"
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(to)?.flatten() {
        if entry.file_name().to_str().is_some_and(of_the_store) {
            let path = entry.path();
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
    }
    for entry in fs::read_dir(from)?.flatten() {
        if entry.file_name().to_str().is_some_and(of_the_store) {
            let copied = Command::new("cp").arg("--archive").arg(entry.path()).arg(to).status()?;
            ensure!(copied.success(), "cp");
        }
    }
    Ok(())
}

/// Damages one file of the database, and says how.
fn damage(database: &Path, random: &mut Random) -> Result<String> {
    let mut files: Vec<PathBuf> = fs::read_dir(database)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    let file = random.of(&files);
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut bytes = fs::read(file)?;
    // Most of the file was never written; what was is more worth damaging.
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
    let at = usize::try_from(random.below(used.min(bytes.len().max(1)) as u64))?;
    let how = match random.below(5) {
        0 => {
            bytes.truncate(at);
            format!("{name} cut at {at}")
        }
        1 => {
            let end = bytes.len().min(at + 4096);
            bytes.get_mut(at..end).unwrap_or_default().fill(0);
            format!("{name} zeroed from {at}")
        }
        2 => {
            let end = bytes.len().min(at + 64);
            for byte in bytes.get_mut(at..end).unwrap_or_default() {
                *byte = u8::try_from(random.below(256))?;
            }
            format!("{name} garbage at {at}")
        }
        3 if name != "db" => {
            fs::remove_file(file)?;
            return Ok(format!("{name} removed"));
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
            format!("{name} flipped at {at}")
        }
    };
    fs::write(file, bytes)?;
    Ok(how)
}

/// How many commits a recovery's sentence says are lost. `None`: it does not say.
fn lost(said: &str) -> Option<u64> {
    if said.contains("nothing is lost") {
        return Some(0);
    }
    if said.contains("starts empty") {
        return Some(u64::MAX);
    }
    said.split("later changes are lost: ").nth(1)?.split(' ').next()?.parse().ok()
}

async fn damage_is_told_or_does_no_harm(stage: Stage) -> Result<()> {
    let (rounds, mut random) = (evidence::rounds(200), evidence::random());
    let settings = Settings::on_demand().set("TASKS_WORKERS", "1").set("LOG_FILTER", "info");
    let mut daemon = Daemon::start(settings).await?;
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    let revoked = crate::keys::create(&daemon, "gone").await?;
    let blocker = id(&api.post("/lam/run", &endless(&site)).await?.ok()?)?;
    becomes(&api, &blocker, "running", 60).await?;
    let mut known: Vec<Value> = Vec::new();
    for number in 0..TASKS {
        let one = id(&api.post("/lam/run", &visit(&format!("{site}/tab/{number}"))).await?.ok()?)?;
        known.push(api.delete(&format!("/lam/tasks/{one}")).await?.ok()?);
    }
    daemon.cli_ok(&["key", "revoke", "gone"]).await?;
    api.delete(&format!("/lam/tasks/{blocker}")).await?.ok()?;
    daemon.assert_idle().await?;
    daemon.kill9().await?;
    let template = tempfile::tempdir()?;
    copy(daemon.data_dir(), template.path())?;

    let (mut told, mut deaths, mut missing, mut slowest) = (0, 0, 0, Duration::ZERO);
    for round in 0..rounds {
        copy(template.path(), daemon.data_dir())?;
        let how = damage(&daemon.data_dir().join("db"), &mut random)?;
        let began = Instant::now();
        let mut tries = 0;
        while let Err(error) = daemon.restart().await {
            daemon.forget_ended()?;
            deaths += 1;
            tries += 1;
            ensure!(tries < 5, "round {round}, {how}: it does not start: {error:#}");
        }
        let checked = async {
            daemon.ready().await?;
            slowest = slowest.max(began.elapsed());
            ensure!(began.elapsed() < Duration::from_secs(40), "it took {:?}", began.elapsed());
            let status = daemon.api().get("/status").await?.ok()?;
            let said = status["store"]["recovered"].as_str().map(str::to_owned);
            let mut here = 0;
            for record in &known {
                let reply = daemon.api().get(&format!("/lam/tasks/{}", id(record)?)).await?;
                if reply.status == 200 && reply.json()? == *record {
                    here += 1;
                }
            }
            let gone = (known.len() - here) as u64;
            missing += gone;
            match &said {
                None => ensure!(gone == 0, "{gone} records are gone, and nobody says so"),
                Some(said) => {
                    told += 1;
                    let lost = lost(said).with_context(|| format!("it does not say how many: {said}"))?;
                    ensure!(lost >= gone, "{gone} records are gone, and it says: {said}");
                    let kept = fs::read_dir(daemon.data_dir())?.flatten();
                    let kept =
                        kept.filter(|entry| entry.file_name().to_string_lossy().starts_with("db.corrupt-")).count();
                    ensure!(kept == 1, "the damaged files are not kept");
                }
            }
            ensure!(daemon.api().with_key(&revoked).get("/sessions").await?.status == 401, "a revoked key is back");
            anyhow::Ok(())
        };
        checked.await.with_context(|| format!("round {round}, {how}"))?;
        if round % 20 == 0 {
            // It serves: a browser starts.
            daemon.session(json!({})).await.with_context(|| how.clone())?.delete().await?.ok()?;
            let new = id(&daemon.api().post("/lam/run", &visit(&format!("{site}/tab/1"))).await?.ok()?)?;
            becomes(&daemon.api(), &new, "success", 60).await?;
            ensure!(task(&daemon.api(), &new).await?["status"] == "success");
            daemon.assert_idle().await?;
        }
        daemon.kill9().await?;
    }
    evidence::saw(format!(
        "in {told} of {rounds} rounds /status told of a recovery, {missing} records were gone in all and never more than it said; {deaths} starts died; the slowest took {:.1} s",
        slowest.as_secs_f64()
    ));
    copy(template.path(), daemon.data_dir())?;
    daemon.restart().await?;
    daemon.warm().await?;
    daemon.assert_idle().await
}
