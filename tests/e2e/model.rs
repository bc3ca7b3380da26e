//! Row 26: a client that does one thing after another at random, and knows after each what must be true then: what was
//! acknowledged is there, what has ended stays ended, and has one end.
//!
//! `client` has what it can do, `kills` what it kills, and `known` what it knows. The same seed makes the same choices, though not the same moments.

mod client;
mod kills;
mod known;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use warmpool_tests::evidence::{self, Random};
use warmpool_tests::{Daemon, Group, Settings, Stage, group};

use client::Client;

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [seeds_that_found_something_find_nothing])
}

/// The seeds of all findings. The first has found nothing yet: it is here so that there is one.
const SEEDS: &[u64] = &[1];
/// How long each of them may take, after its start. Findings come in the first steps.
const SHORT: Duration = Duration::from_secs(10);

/// What the daemon is to be like: room for the client's sessions and one task, whatever was killed meanwhile.
fn settings() -> Settings {
    Settings::new()
        .set("POOL_CHROMIUM_HEADLESS", "2")
        .set("POOL_MAX_WORKERS", "6")
        .set("POOL_REFILL_DELAY", "0s")
        .set("TASKS_WORKERS", "1")
        .set("TASKS_QUEUE_LENGTH", "10000")
        .set("SESSION_RECONNECT_WINDOW", "600s")
        .set("SESSION_ATTACH_TIMEOUT", "600s")
        .set("DOCKER_RECONCILE_INTERVAL", "2s")
        .set("LOG_FILTER", "info")
}

async fn seeds_that_found_something_find_nothing(stage: Stage) -> Result<()> {
    for seed in SEEDS {
        walk(&stage, Random::from(*seed), u64::MAX, SHORT, &["chromium".to_owned()]).await?;
    }
    Ok(())
}

/// Takes at most so many steps in at most this time, and checks all of it at the end. Returns what was done, in words.
pub(crate) async fn walk(
    stage: &Stage,
    random: Random,
    steps: u64,
    time: Duration,
    engines: &[String],
) -> Result<String> {
    let daemon = Daemon::start(settings()).await?;
    let site = stage.site_for(&daemon).await?;
    let mut client = Client::new(daemon, site, random, engines.to_vec());
    let began = Instant::now();
    let mut step = 0;
    while step < steps && began.elapsed() < time {
        let done = client.step().await;
        done.with_context(|| format!("step {step}; before it: {}", client.last_steps()))?;
        step += 1;
    }
    client.end(stage).await.with_context(|| format!("after {step} steps; the last: {}", client.last_steps()))?;
    Ok(format!("{step} steps: {}", client.summary()))
}

/// The long walk of `scripts/faults --row 26`.
pub(crate) mod long {
    use super::*;
    use warmpool_tests::task::engines;

    /// It ends in good order before it would count as hung.
    const LONG: Duration = Duration::from_secs(7 * 3600);

    pub(crate) fn group() -> Group {
        let group = Group::new("row_model", None).hours(8);
        group.case("a_random_client_finds_nothing", false, a_random_client_finds_nothing)
    }

    async fn a_random_client_finds_nothing(stage: Stage) -> Result<()> {
        let (steps, random) = (evidence::rounds(5_000), evidence::random());
        evidence::saw(walk(&stage, random, steps, LONG, &engines()).await?);
        Ok(())
    }
}
