//! Row 13: the store's files are damaged at random under a daemon that is down: those of the database, the mark, the journal and the log
//! beside it, and backups.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warmpool_tests::evidence::Random;
use warmpool_tests::{Daemon, Group, Settings, Stage, eventually, evidence, group};

use crate::history::{becomes, id, task, visit};
use crate::task_durability::endless;

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [damage_is_told_or_does_no_harm])
}

/// Tasks before the backup, and as many after it.
const TASKS: usize = 30;
/// No task, session or key takes more commits than this, from its order to its end.
const COMMITS: u64 = 8;

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

/// What was damaged.
#[derive(Default)]
struct Damage {
    how: Vec<String>,
    database: bool,
    mark: bool,
    journal: bool,
    log: bool,
    backup: bool,
}

impl Damage {
    /// Damages a file of the store; now and then one of the database and one beside it.
    fn make(data: &Path, random: &mut Random) -> Result<Self> {
        let mut damage = Self::default();
        match random.below(10) {
            0..6 => damage.database(data, random)?,
            6 => damage.beside(data, random)?,
            _ => {
                damage.database(data, random)?;
                damage.beside(data, random)?;
            }
        }
        Ok(damage)
    }

    fn database(&mut self, data: &Path, random: &mut Random) -> Result<()> {
        self.database = true;
        let files = files(&data.join("db"))?;
        let file = random.of(&files).clone();
        self.log |= file.file_name().is_some_and(|name| name == "wal");
        self.how.push(spoil(&file, random)?);
        Ok(())
    }

    /// Whether there is all that a damaged database is made anew from.
    fn spares_the_rest(&self) -> bool {
        !(self.mark || self.journal || self.log || self.backup)
    }

    fn beside(&mut self, data: &Path, random: &mut Random) -> Result<()> {
        let file = match random.below(4) {
            0 => {
                self.mark = true;
                data.join("db.mark")
            }
            1 => {
                self.journal = true;
                data.join("db.irrevocable")
            }
            2 => {
                self.log = true;
                let files = files(&data.join("db.log"))?;
                random.of(&files).clone()
            }
            _ => {
                self.backup = true;
                let files = files(&data.join("backups"))?;
                random.of(&files).clone()
            }
        };
        self.how.push(spoil(&file, random)?);
        Ok(())
    }
}

/// The files of a folder that have something to damage, by their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file() && fs::metadata(path).is_ok_and(|found| found.len() > 0));
    files.sort();
    Ok(files)
}

/// Damages a file, and says how.
fn spoil(file: &Path, random: &mut Random) -> Result<String> {
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
    let before = said.split(" commits").next()?;
    before.rsplit(' ').next()?.parse().ok()
}

/// Records that were acknowledged, by their paths, with what must stay of each.
type Known = Vec<(String, Value)>;

/// What the end of a session or a task is.
fn end_of(record: &Value) -> Value {
    let fields = ["status", "reason", "ended_at", "error", "output", "executionTime", "timestamp"];
    fields.into_iter().map(|field| (field, record[field].clone())).collect()
}

/// Makes tasks and a session that end at once. The daemon does not rest meanwhile.
async fn make(daemon: &Daemon, site: &str) -> Result<Known> {
    let (api, mut known) = (daemon.api(), Known::new());
    let blocker = id(&api.post("/lam/run", &endless(site)).await?.ok()?)?;
    becomes(&api, &blocker, "running", 60).await?;
    for number in 0..TASKS {
        let one = id(&api.post("/lam/run", &visit(&format!("{site}/tab/{number}"))).await?.ok()?)?;
        let path = format!("/lam/tasks/{one}");
        let ended = api.delete(&path).await?.ok()?;
        known.push((path, end_of(&ended)));
    }
    let session = daemon.session(json!({})).await?;
    session.delete().await?.ok()?;
    known.push((format!("/sessions/{}", session.id), end_of(&session.record().await?)));
    api.delete(&format!("/lam/tasks/{blocker}")).await?.ok()?;
    daemon.assert_idle().await?;
    Ok(known)
}

/// How many of these records are not there, or as they were before their last change.
async fn missing(daemon: &Daemon, known: &Known) -> Result<u64> {
    let mut missing = 0;
    for (path, end) in known {
        let reply = daemon.api().get(path).await?;
        ensure!(matches!(reply.status, 200 | 404), "{reply}");
        missing += u64::from(reply.status == 404 || end_of(&reply.json()?) != *end);
    }
    Ok(missing)
}

/// A daemon that was killed, whose newest backup has the first of these records and not the others.
struct Template {
    files: tempfile::TempDir,
    before: Known,
    after: Known,
    /// Keys that were made before the backup and after it, and one that was revoked after it.
    kept: String,
    late: String,
    revoked: String,
}

impl Template {
    async fn make(daemon: &mut Daemon, site: &str) -> Result<Self> {
        let kept = crate::keys::create(daemon, "kept").await?;
        let revoked = crate::keys::create(daemon, "gone").await?;
        let before = make(daemon, site).await?;
        daemon.kill9().await?;
        // One that has nothing yet is no help: a start makes another one where there is none.
        fs::remove_dir_all(daemon.data_dir().join("backups"))?;
        let written = |daemon: &Daemon| daemon.log_text().matches("backup written").count();
        let so_far = written(daemon);
        daemon.restart().await?;
        daemon.warm().await?;
        eventually!("a backup is written", 30, written(daemon) > so_far)?;
        let mut after = make(daemon, site).await?;
        // A start empties the log of the one before, and keeps what it held.
        daemon.kill9().await?;
        daemon.restart().await?;
        daemon.warm().await?;
        after.extend(make(daemon, site).await?);
        let late = crate::keys::create(daemon, "late").await?;
        daemon.cli_ok(&["key", "revoke", "gone"]).await?;
        daemon.kill9().await?;
        let files = tempfile::tempdir()?;
        copy(daemon.data_dir(), files.path())?;
        Ok(Self { files, before, after, kept, late, revoked })
    }

    /// Checks what there is after a start on damaged files. Returns how many records are gone, where the daemon says so.
    async fn check(&self, daemon: &Daemon, damage: &Damage) -> Result<Option<u64>> {
        daemon.ready().await?;
        let status = daemon.api().get("/status").await?.ok()?;
        let said = status["store"]["recovered"].as_str().map(str::to_owned);
        let (before, after) = (missing(daemon, &self.before).await?, missing(daemon, &self.after).await?);
        let gone = before + after;
        let knows = async |key: &str| Ok::<_, anyhow::Error>(daemon.api().with_key(key).get("/sessions").await?.status);
        let (kept, late) = (knows(&self.kept).await?, knows(&self.late).await?);
        if !damage.journal {
            ensure!(knows(&self.revoked).await? == 401, "a revoked key is back: {said:?}");
        }
        let Some(said) = said else {
            // Without its mark, nothing tells that a database has lost its end.
            ensure!(damage.mark && damage.database || gone == 0, "{gone} records are gone, and nobody says so");
            ensure!(damage.mark && damage.database || (kept, late) == (200, 200), "a key is gone, and nobody says so");
            return Ok(None);
        };
        ensure!(damage.database, "the database was whole: {said}");
        let quarantined = fs::read_dir(daemon.data_dir())?.flatten();
        let quarantined = quarantined.filter(|entry| entry.file_name().to_string_lossy().starts_with("db.corrupt-"));
        ensure!(quarantined.count() == 1, "the damaged files are not kept: {said}");
        if damage.backup {
            // The last one that there was, unless what is kept apart from it was damaged.
            return Ok(Some(gone));
        }
        ensure!(
            before == 0 && kept == 200,
            "{before} records of the backup are gone, and its key answers {kept}: {said}"
        );
        ensure!(said.contains("replaced by the backup"), "{said}");
        if damage.spares_the_rest() {
            ensure!(gone == 0 && late == 200, "{gone} records are gone, and the last key answers {late}: {said}");
            ensure!(said.contains("nothing is lost"), "{said}");
        }
        if !damage.mark {
            let lost = lost(&said).with_context(|| format!("it does not say how many: {said}"))?;
            let most = COMMITS * (self.after.len() as u64 + 4);
            ensure!((after..=most).contains(&lost), "{after} records are gone, of at most {most} commits: {said}");
        }
        Ok(Some(gone))
    }
}

async fn damage_is_told_or_does_no_harm(stage: Stage) -> Result<()> {
    let (rounds, mut random) = (evidence::rounds(200), evidence::random());
    let settings = Settings::on_demand().set("TASKS_WORKERS", "1").set("LOG_FILTER", "info");
    let mut daemon = Daemon::start(settings).await?;
    let site = stage.site_for(&daemon).await?;
    let template = Template::make(&mut daemon, &site).await?;

    let (mut told, mut spared, mut deaths, mut gone, mut slowest) = (0, 0, 0, 0, Duration::ZERO);
    for round in 0..rounds {
        copy(template.files.path(), daemon.data_dir())?;
        let damage = Damage::make(daemon.data_dir(), &mut random)?;
        let how = damage.how.join(" and ");
        let began = Instant::now();
        let mut tries = 0;
        while let Err(error) = daemon.restart().await {
            daemon.forget_ended()?;
            deaths += 1;
            tries += 1;
            ensure!(tries < 5, "round {round}, {how}: it does not start: {error:#}");
        }
        slowest = slowest.max(began.elapsed());
        let checked = template.check(&daemon, &damage).await.with_context(|| format!("round {round}, {how}"))?;
        told += u64::from(checked.is_some());
        spared += u64::from(checked.is_some() && damage.spares_the_rest());
        gone += checked.unwrap_or_default();
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
    ensure!(slowest < Duration::from_secs(30), "a start took {slowest:?}");
    evidence::saw(format!(
        "in {told} of {rounds} rounds /status told of a recovery; in the {spared} of them where mark, journal, log and backup were whole nothing was lost, in the others {gone} records in all that were newer than the backup, and never more than it said; {deaths} starts died; the slowest took {:.1} s",
        slowest.as_secs_f64()
    ));
    copy(template.files.path(), daemon.data_dir())?;
    // The last start has a pool to fill.
    daemon.set("POOL_CHROMIUM_HEADLESS", "1");
    daemon.restart().await?;
    daemon.warm().await?;
    ensure!(missing(&daemon, &template.before).await? + missing(&daemon, &template.after).await? == 0);
    daemon.assert_idle().await
}
