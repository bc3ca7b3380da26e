//! Row 28: mixed work for as many minutes as there are rounds, at full load, while workers are killed; what the daemon takes
//! must not grow with it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;
use warmpool_tests::evidence::Random;
use warmpool_tests::task::engines;
use warmpool_tests::{Api, Daemon, Driver, Group, Session, Settings, Stage, eventually, evidence, group, poll};

use crate::history::{heading, visit};
use crate::live::socket;
use crate::recovery::dump_of;
use crate::worlds;

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [nothing_grows_with_time]).hours(5)
}

/// Between two looks at the daemon.
const SAMPLE: Duration = Duration::from_secs(5);
/// Between two kills.
const KILLS: Duration = Duration::from_secs(20);
/// How many seconds a task may outlive what it was for: as long as a client keeps a connection that it does not use.
const END_OF_TASKS: u64 = 120;
/// Between the end of a world and the next: a renderer takes all the processors that it may.
const BETWEEN_WORLDS: Duration = Duration::from_secs(60);

/// What the daemon takes at a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    memory: f64,
    descriptors: f64,
    threads: f64,
    database: f64,
    folder: f64,
    /// The daemon's own asynchronous tasks.
    async_tasks: f64,
    /// Rows of its tables in memory, but for the history, of which a sweep each ten minutes leaves what the settings say.
    rows: f64,
}

impl Taken {
    async fn now(daemon: &Daemon) -> Result<Self> {
        let (descriptors, threads) = daemon.descriptors_and_threads()?;
        let metrics = daemon.metrics().await?;
        let rows = |labels: &[_]| metrics.sum("warmpool_table_rows", labels).context("the daemon counts its rows");
        Ok(Self {
            memory: mib(daemon.resident()?),
            descriptors: descriptors as f64,
            threads: threads as f64,
            database: mib(size(&daemon.data_dir().join("db"))),
            folder: mib(size(daemon.data_dir())),
            async_tasks: metrics.sum("warmpool_async_tasks", &[]).context("the daemon counts its tasks")?,
            rows: rows(&[])? - rows(&[("table", "sessions")])?,
        })
    }

    /// How much more of each there is at the end of these than at their begin, by the straight line that is nearest to all of them.
    fn growth(samples: &[Self]) -> Self {
        let count = samples.len() as f64;
        let middle = (count - 1.0) / 2.0;
        let spread: f64 = (0..samples.len()).map(|at| (at as f64 - middle).powi(2)).sum();
        let growth = |part: fn(&Self) -> f64| {
            let leans: f64 = samples.iter().enumerate().map(|(at, taken)| (at as f64 - middle) * part(taken)).sum();
            leans / spread.max(1.0) * (count - 1.0)
        };
        Self {
            memory: growth(|taken| taken.memory),
            descriptors: growth(|taken| taken.descriptors),
            threads: growth(|taken| taken.threads),
            database: growth(|taken| taken.database),
            folder: growth(|taken| taken.folder),
            async_tasks: growth(|taken| taken.async_tasks),
            rows: growth(|taken| taken.rows),
        }
    }

    /// The mean of these.
    fn mean(samples: &[Self]) -> Self {
        let mean = |part: fn(&Self) -> f64| samples.iter().map(part).sum::<f64>() / samples.len().max(1) as f64;
        Self {
            memory: mean(|taken| taken.memory),
            descriptors: mean(|taken| taken.descriptors),
            threads: mean(|taken| taken.threads),
            database: mean(|taken| taken.database),
            folder: mean(|taken| taken.folder),
            async_tasks: mean(|taken| taken.async_tasks),
            rows: mean(|taken| taken.rows),
        }
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memory, descriptors, threads, database, folder, async_tasks, rows } = self;
        write!(
            f,
            "{memory:.1} MiB of memory, {descriptors:.0} descriptors, {threads:.0} threads, {database:.2} MiB of database, {folder:.1} MiB in all of its folder, {async_tasks:.0} asynchronous tasks, {rows:.1} rows of tables"
        )
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The bytes of a folder's files; what vanishes meanwhile has none.
fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => size(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

/// How many rows each table of the store has, and their bytes, keys and values together, as a sentence says it.
async fn stored(daemon: &Daemon) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let backup = folder.path().join("backup");
    daemon.cli_ok(&["backup", &backup.to_string_lossy()]).await?;
    let (mut tables, mut all) = (BTreeMap::<String, u64>::new(), 0);
    for line in dump_of(&backup)?.lines() {
        let row: Value = serde_json::from_str(line)?;
        let (Some(table), Some(key), Some(value)) = (row["t"].as_str(), row["k"].as_str(), row["v"].as_str()) else {
            continue;
        };
        *tables.entry(table.to_owned()).or_default() += 1;
        // Base64 has four characters for three bytes.
        all += (key.len() + value.len()) as u64 * 3 / 4;
    }
    Ok(format!("{:.2} MiB of rows in the store ({tables:?})", mib(all)))
}

/// What was done, by how often it went well and how often it did not.
#[derive(Default)]
struct Done {
    well: AtomicU64,
    badly: AtomicU64,
    /// The first few reasons.
    why: Mutex<Vec<String>>,
}

impl Done {
    fn count(&self, outcome: Result<()>) {
        match outcome {
            Ok(()) => drop(self.well.fetch_add(1, Ordering::Relaxed)),
            Err(error) => {
                self.badly.fetch_add(1, Ordering::Relaxed);
                let mut why = self.why.lock();
                if why.len() < 5 {
                    why.push(format!("{error:#}"));
                }
            }
        }
    }
}

/// How often each engine was used, and recordings were made.
type Kinds = Mutex<BTreeMap<String, u64>>;

/// Makes a session of any engine, uses it, watches and records some, and ends it.
async fn use_a_session(api: &Api, site: &str, random: &Mutex<Random>, engines: &[String], kinds: &Kinds) -> Result<()> {
    let (engine, by_driver, recorded) = {
        let mut random = random.lock();
        let engine = if random.below(5) == 0 { random.of(engines).clone() } else { "chromium".to_owned() };
        let by_driver = engine != "chromium" || random.below(3) == 0;
        (engine, by_driver, random.below(6) == 0)
    };
    let body =
        json!({"browser_type": engine, "headless": !recorded, "recording": recorded, "url": format!("{site}/form")});
    let path = if by_driver { "/sessions/webdriver/create" } else { "/sessions/create" };
    let session = Session::from_reply(api, &api.post(path, &body).await?)?;
    let used = async {
        if by_driver {
            let driver = Driver::start(session.connect_url()?, json!({})).await?;
            driver.goto(&format!("{site}/tab/3")).await?;
            ensure!(driver.execute("return document.title").await? == "Tab 3");
        } else {
            // A viewer beside the client.
            let view = socket(&session, "").await?;
            ensure!(session.evaluate("6 * 7").await? == 42);
            drop(view);
        }
        anyhow::Ok(())
    };
    let used = used.await;
    session.delete().await?.ok()?;
    used?;
    let mut kinds = kinds.lock();
    *kinds.entry(engine).or_default() += 1;
    *kinds.entry("recorded".to_owned()).or_default() += u64::from(recorded);
    Ok(())
}

/// Runs a task, an extract or a small fleet, and waits for its end.
async fn use_a_task(api: &Api, site: &str, random: &Mutex<Random>) -> Result<()> {
    let choice = random.lock().below(3);
    let (path, mut body) = match choice {
        0 => ("/lam/run", visit(&format!("{site}/tab/4"))),
        1 => ("/lam/extract", heading(&format!("{site}/tab/5"))),
        _ => {
            let urls: Vec<String> = (0..6).map(|number| format!("{site}/tab/{number}")).collect();
            ("/lam/fleet", json!({"extract": heading("{{input.url}}"), "urls": urls}))
        }
    };
    body["wait"] = json!(100);
    let task: Value = api.post(path, &body).await?.ok()?;
    ensure!(task["status"] == "success", "{task}");
    Ok(())
}

/// Has a world rendered for somebody, and forgets them.
async fn use_a_world(daemon: &Daemon, key: &str, random: &Mutex<Random>) -> Result<()> {
    let environment = random.lock().of(&["garden", "home", "porch"]).to_owned();
    let mut body = worlds::request(key, environment);
    body["images"] = json!([{"data": worlds::picture()?, "label": "By the sea"}]);
    let world = worlds::generate(daemon, body).await?.ok()?;
    let ended = worlds::ended(daemon, &world["world_id"]).await;
    forget(daemon).await?;
    let world = ended?;
    ensure!(world["status"] == "ready", "{world}");
    Ok(())
}

/// Forgets whoever worlds were made for, with a world that is being rendered.
async fn forget(daemon: &Daemon) -> Result<()> {
    let gone = daemon.api().delete(&format!("/v1/patients/{}", worlds::PATIENT)).await?;
    ensure!(matches!(gone.status, 200 | 404), "{gone}");
    Ok(())
}

async fn nothing_grows_with_time(stage: Stage) -> Result<()> {
    let (minutes, random) = (evidence::rounds(120), Arc::new(Mutex::new(evidence::random())));
    let settings = Settings::new()
        .set("POOL_CHROMIUM_HEADLESS", "3")
        .set("POOL_MAX_WORKERS", "8")
        .set("TASKS_WORKERS", "2")
        .set("SESSION_KEEP_RECORDS", "200")
        .set("TASKS_KEEP", "200")
        .set("RECORDING_KEEP_FOR", "1m")
        .set("LOG_FILTER", "warn");
    let settings = settings.set("WORLD_WIDTH", "256").set("WORLD_PREVIEW_WIDTH", "128").set("WORLD_SAMPLES", "2");
    let daemon = Arc::new(Daemon::start(settings).await?);
    let (api, site) = (daemon.api(), stage.site_for(&daemon).await?);
    daemon.warm().await?;
    let at_rest = Taken::now(&daemon).await?;
    let [sessions, tasks, worlds] = [(); 3].map(|()| Arc::new(Done::default()));
    let mut clients = JoinSet::new();
    let kinds = Arc::new(Kinds::default());
    for _ in 0..3 {
        let (api, site, random, done) = (api.clone(), site.clone(), Arc::clone(&random), Arc::clone(&sessions));
        let (engines, kinds) = (engines(), Arc::clone(&kinds));
        clients.spawn(async move {
            loop {
                done.count(use_a_session(&api, &site, &random, &engines, &kinds).await);
                poll().await;
            }
        });
    }
    for _ in 0..2 {
        let (api, site, random, done) = (api.clone(), site.clone(), Arc::clone(&random), Arc::clone(&tasks));
        clients.spawn(async move {
            loop {
                done.count(use_a_task(&api, &site, &random).await);
                poll().await;
            }
        });
    }
    let key = worlds::integration(&daemon, &["ward"]).await?;
    let (its_daemon, its_random, done) = (Arc::clone(&daemon), Arc::clone(&random), Arc::clone(&worlds));
    clients.spawn(async move {
        loop {
            done.count(use_a_world(&its_daemon, &key, &its_random).await);
            sleep(BETWEEN_WORLDS).await;
        }
    });
    let (began, mut samples, mut kills) = (Instant::now(), Vec::new(), 0);
    let (mut sampled, mut killed) = (Instant::now(), Instant::now());
    let mut stored_early = None;
    while began.elapsed() < Duration::from_secs(60 * minutes) {
        poll().await;
        if stored_early.is_none() && began.elapsed() >= Duration::from_secs(15 * minutes) {
            stored_early = Some(stored(&daemon).await?);
        }
        if sampled.elapsed() >= SAMPLE {
            sampled = Instant::now();
            samples.push(Taken::now(&daemon).await?);
        }
        if killed.elapsed() >= KILLS {
            killed = Instant::now();
            let containers = daemon.containers().await?;
            let victim = containers.get(usize::try_from(random.lock().below(containers.len() as u64))?);
            if let Some(victim) = victim {
                kills += u64::from(daemon.docker().run(&["kill", &victim.id]).await.is_ok());
            }
        }
    }
    let stored_late = stored(&daemon).await?;
    clients.shutdown().await;
    forget(&daemon).await?;
    let quarter = samples.len() / 4;
    ensure!(quarter > 2, "it was too short to say anything");
    let (early, late) = (Taken::mean(&samples[quarter..2 * quarter]), Taken::mean(&samples[3 * quarter..]));
    let count = |done: &Done| (done.well.load(Ordering::Relaxed), done.badly.load(Ordering::Relaxed));
    let [(used, lost), (ran, failed), (rendered, spoiled)] = [&sessions, &tasks, &worlds].map(|done| count(done));
    evidence::saw(format!(
        "{minutes} min: {used} sessions went well and {lost} did not, {ran} tasks and {failed}, {rendered} worlds and {spoiled}, while {kills} containers were killed; second quarter: {early}; last quarter: {late}"
    ));
    evidence::saw(format!("after one quarter, {}; at the end, {stored_late}", stored_early.unwrap_or_default()));
    let why = [sessions, tasks, worlds].map(|done| done.why.lock().clone()).concat();
    println!("the first that did not go well:\n{}", why.join("\n"));
    // A kill takes at most the one session, task or world that had the container.
    ensure!(lost + failed + spoiled <= kills + 5, "{}", why.join("\n"));
    // None of the kinds of work may hide behind the others.
    for (what, well, badly) in [("sessions", used, lost), ("tasks", ran, failed), ("worlds", rendered, spoiled)] {
        ensure!(well > badly && well >= minutes / 4, "{what}: {well} went well, and {badly} did not");
    }
    let kinds = kinds.lock().clone();
    for kind in engines().into_iter().chain(["recorded".to_owned()]) {
        let done = kinds.get(&kind).copied().unwrap_or_default();
        ensure!(done >= minutes / 4, "{kind}: {done} sessions in {minutes} minutes: {kinds:?}");
    }
    let growth = Taken::growth(&samples[quarter..]);
    evidence::saw(format!("over the last three quarters, {kinds:?}: growth of {growth}"));
    for (what, growth, slack) in [
        ("memory", growth.memory, 8.0),
        ("descriptors", growth.descriptors, 20.0),
        ("threads", growth.threads, 8.0),
        ("the database", growth.database, 0.5),
        ("the folder, with its recordings", growth.folder, 16.0),
        ("its asynchronous tasks", growth.async_tasks, 30.0),
        ("its tables", growth.rows, 5.0),
    ] {
        ensure!(growth <= slack, "{what} grew by {growth:.1}, and {slack} may be chance: {early}, then {late}");
    }
    daemon.end_all().await?;
    daemon.warm().await.context("after the work")?;
    daemon.assert_idle().await?;
    let left = eventually!("the tasks of what has ended end", END_OF_TASKS, {
        Taken::now(&daemon).await?.async_tasks <= at_rest.async_tasks + 5.0
    });
    left.with_context(|| format!("at rest before the work: {at_rest}"))
}
