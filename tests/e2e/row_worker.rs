//! Rows 5, 6 and 7: one worker hangs, runs out of memory, or is filled with processes and files, beside another that does not.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use warmpool_tests::{Cdp, Daemon, Group, Session, Settings, Stage, eventually, evidence, group};

pub(crate) fn group() -> Group {
    group!(None,
        quick: [],
        full: [
            a_hanging_worker_delays_no_other,
            a_browser_that_is_killed_for_memory_says_so,
            processes_without_end_stay_inside,
            a_hundred_thousand_files_stay_inside,
        ],
    )
}

/// More than the daemon's memory may grow by what a worker does.
const GROWTH: u64 = 32 << 20;

/// A session in the worker that a fault is made in, and a neighbour.
struct Neighbours {
    daemon: Daemon,
    container: String,
    session: Session,
    other: Session,
    others: Cdp,
    page: String,
}

impl Neighbours {
    async fn start(settings: Settings) -> Result<Self> {
        let daemon = Daemon::start(settings).await?;
        let container = daemon.only_container().await?;
        let session = daemon.session(json!({"keep_alive": true})).await?;
        let other = daemon.session(json!({"keep_alive": true})).await?;
        let mut others = other.cdp().await?;
        let page = others.first_page().await?;
        daemon.warm().await?;
        Ok(Self { daemon, container, session, other, others, page })
    }

    /// How long the neighbour's slowest of so many commands takes, but for one in a hundred.
    async fn p99(&mut self, commands: usize) -> Result<Duration> {
        let mut took = Vec::new();
        for _ in 0..commands {
            let asked = Instant::now();
            ensure!(self.others.evaluate(&self.page, "6 * 7").await? == 42);
            took.push(asked.elapsed());
        }
        took.sort_unstable();
        Ok(took[took.len() - 1 - took.len() / 100])
    }

    /// Deletes the session: its container is gone within ten seconds.
    async fn removed_in_time(&mut self) -> Result<Duration> {
        let began = Instant::now();
        self.session.delete().await?.ok()?;
        eventually!(
            "its container is gone",
            10,
            self.daemon.containers().await?.iter().all(|container| container.id != self.container)
        )?;
        Ok(began.elapsed())
    }

    async fn end(self) -> Result<()> {
        ensure!(self.other.status().await? == "running", "the neighbour goes on");
        self.other.delete().await?.ok()?;
        self.daemon.assert_idle().await
    }
}

fn worst(of: &[Duration]) -> Duration {
    of.iter().copied().max().unwrap_or_default()
}

/// With the timeout as it is by default.
async fn a_hanging_worker_delays_no_other(_: Stage) -> Result<()> {
    const BATCH: usize = 100;
    let mut here = Neighbours::start(Settings::new()).await?;
    here.daemon.docker().pause(&here.container).await?;
    let (mut batches, began) = (Vec::new(), Instant::now());
    while here.session.status().await? == "running" {
        batches.push(here.p99(BATCH).await?);
        ensure!(began.elapsed() < Duration::from_secs(300), "it hangs, and nobody notices");
    }
    // As many afterwards, with nothing that hangs: the worst of more batches is worse by chance alone.
    let mut without = Vec::new();
    while without.len() < batches.len() {
        without.push(here.p99(BATCH).await?);
    }
    let (before, meanwhile) = (worst(&without), worst(&batches));
    ensure!(here.session.record().await?["reason"] == "unresponsive", "{}", here.session.record().await?);
    evidence::saw(format!(
        "the neighbour's worst p99 of {} batches of {BATCH} commands was {:.1} ms, {:.1} times that of as many without the hanging worker",
        batches.len(),
        meanwhile.as_secs_f64() * 1e3,
        meanwhile.as_secs_f64() / before.as_secs_f64()
    ));
    ensure!(meanwhile < before * 4 + Duration::from_millis(50), "{before:?} without, {meanwhile:?} meanwhile");
    here.end().await
}

/// The kernel would rather kill a renderer: here it is told to take the browser's main process first.
async fn a_browser_that_is_killed_for_memory_says_so(_: Stage) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        evidence::cannot("choosing what the kernel kills first needs root");
        return Ok(());
    }
    let here = Neighbours::start(Settings::new().set("WORKER_MEMORY", "512MiB")).await?;
    let before = here.daemon.resident()?;
    let mut cdp = here.session.cdp().await?;
    let page = cdp.first_page().await?;
    let pids = here.daemon.docker().browser_pids(&here.container).await?;
    // The hoard grows in a renderer, which would weigh more than a browser's main process with nothing but a bonus.
    let all = here.daemon.docker().run(&["top", &here.container, "-eo", "pid"]).await?;
    for pid in all.lines().filter_map(|line| line.trim().parse::<i32>().ok()) {
        let weight = if pids.contains(&pid) { "1000" } else { "0" };
        fs::write(format!("/proc/{pid}/oom_score_adj"), weight).with_context(|| format!("process {pid}"))?;
    }
    let hoard = "all = []; setInterval(() => all.push(new Uint8Array(32 << 20).fill(7)), 10); 1";
    cdp.evaluate(&page, hoard).await?;
    let (code, reason) = cdp.ended().await?.context("a Close frame")?;
    ensure!(code == 1011 && !reason.is_empty(), "{code} {reason}");
    let record = here.session.becomes("failure", 30).await?;
    ensure!(record["reason"] == "out_of_memory", "{record}");
    eventually!("the pool is full", 60, here.daemon.containers().await?.len() == 2)?;
    let more = here.daemon.resident()?.saturating_sub(before);
    ensure!(more < GROWTH, "the daemon takes {} MiB more", more >> 20);
    evidence::saw(format!("the session failed as out_of_memory; the daemon grew by {} MiB", more >> 20));
    here.end().await
}

async fn processes_without_end_stay_inside(_: Stage) -> Result<()> {
    let mut here = Neighbours::start(Settings::new().set("WORKER_PIDS", "256")).await?;
    let bomb = "bomb() { bomb | bomb & }; bomb; for at in $(seq 300); do sleep 60 & done; wait";
    let docker = here.daemon.docker().clone();
    let mut running = docker.command(&["exec", "--user", "61000:0", &here.container, "bash", "-c", bomb]);
    let mut running = running.stderr(std::process::Stdio::piped()).spawn()?;
    let pids = format!("/sys/fs/cgroup/pids/docker/{}/pids.events", here.container);
    let unified = format!("/sys/fs/cgroup/docker/{}/pids.events", here.container);
    let refused = || -> Option<u64> {
        let text = fs::read_to_string(&pids).or_else(|_| fs::read_to_string(&unified)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("max ")?.trim().parse().ok())
    };
    eventually!("the limit of processes refuses some", 60, refused().is_some_and(|times| times > 0))?;
    let p99 = here.p99(100).await?;
    let took = here.removed_in_time().await?;
    let _ = running.kill().await;
    evidence::saw(format!(
        "removed in {:.1} s; the neighbour's p99 was {} ms meanwhile",
        took.as_secs_f64(),
        p99.as_millis()
    ));
    here.end().await
}

async fn a_hundred_thousand_files_stay_inside(_: Stage) -> Result<()> {
    let mut here =
        Neighbours::start(Settings::new().set("WORKER_TMP", "64MiB").set("WORKER_FILE_LIMIT", "16MiB")).await?;
    let fill = "cd /tmp && mkdir full && cd full && at=0; while [ $at -lt 100000 ]; do at=$((at+1)); echo $at > f$at || break; done; echo $at";
    let free_before = warmpool_tests::disk::free(std::path::Path::new("/var/lib/docker")).ok();
    let made = here.daemon.docker().inspect(&here.container, &["sh", "-c", fill]).await?;
    let free = warmpool_tests::disk::free(std::path::Path::new("/var/lib/docker")).ok();
    let files: u64 = made.trim().parse().with_context(|| made.clone())?;
    ensure!(files < 100_000, "nothing stopped it: {files} files");
    if let Some((before, after)) = free_before.zip(free) {
        let less = before.saturating_sub(after) >> 20;
        evidence::saw(format!("{files} files; the host's disk has {less} MiB less"));
        // What the worker may have there is far more than this, and it has only what is in memory.
        ensure!(less < 256, "the files are on the host's disk: it has {less} MiB less");
    }
    ensure!(here.session.status().await? == "running");
    here.p99(50).await?;
    let took = here.removed_in_time().await?;
    evidence::saw(format!("removed in {:.1} s", took.as_secs_f64()));
    here.end().await
}
