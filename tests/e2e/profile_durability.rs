//! Many profiles that are written at once while the daemon is killed again and again: no save that was answered is lost, and none
//! is made of two.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::{Value, json};
use warmpool_tests::{Api, Daemon, Group, Settings, Stage, eventually, group};

pub(crate) fn group() -> Group {
    group!(None, quick: [], full: [saves_outlive_random_kills])
}

/// Profiles that are written at once.
const PROFILES: usize = 20;
/// How often the daemon is killed; `WARMPOOL_TEST_ROUNDS` says otherwise.
const ROUNDS: u64 = 6;
/// Cookies of a state, and items of its one origin.
const PARTS: usize = 40;

/// What one writer knows of its profile.
#[derive(Default)]
struct Progress {
    /// The newest save that was sent.
    sent: AtomicU64,
    /// The newest save that was answered with success.
    saved: AtomicU64,
}

/// A state all of whose parts have the same number.
fn state(number: u64) -> Value {
    let value = format!("save {number} {}", "x".repeat(200));
    let cookie = |at: usize| json!({"name": format!("c{at}"), "value": number.to_string(), "domain": "shop.example", "path": "/"});
    let item = |at: usize| json!({"name": format!("k{at}"), "value": value});
    let items: Vec<Value> = (0..PARTS).map(item).collect();
    json!({
        "cookies": (0..PARTS).map(cookie).collect::<Vec<Value>>(),
        "origins": [{"origin": "https://shop.example", "localStorage": items}],
    })
}

/// The number that all parts of a state have.
fn number_of(state: &Value) -> Result<u64> {
    let cookies = state["cookies"].as_array().context("cookies")?;
    let items = state["origins"][0]["localStorage"].as_array().context("items")?;
    ensure!(cookies.len() == PARTS && items.len() == PARTS, "a part is missing: {} and {}", cookies.len(), items.len());
    let number: u64 = cookies[0]["value"].as_str().context("a value")?.parse()?;
    ensure!(*state == json!({"cookies": cookies, "origins": state["origins"]}), "it has more than was saved");
    let (cookie, wanted) = (number.to_string(), format!("save {number} "));
    let is_one = cookies.iter().all(|each| each["value"] == cookie.as_str())
        && items.iter().all(|item| item["value"].as_str().is_some_and(|value| value.starts_with(&wanted)));
    ensure!(is_one, "two saves are mixed: {state}");
    Ok(number)
}

/// Saves one state after another until the daemon is gone, which `is_ending` says before.
/// Errors: a save that is refused, or that has no answer although nothing ends the daemon.
async fn write(api: Api, profile: usize, progress: Arc<Progress>, is_ending: Arc<AtomicBool>) -> Result<()> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    loop {
        let number = progress.sent.fetch_add(1, Ordering::Relaxed) + 1;
        let body = json!({"state": state(number)}).to_string();
        let path = format!("/profiles/p{profile}");
        match api.send(Method::PUT, &path, headers.clone(), body.into()).await {
            Ok(reply) if reply.status == 200 => progress.saved.store(number, Ordering::Relaxed),
            Ok(reply) => bail!("{reply}"),
            Err(_) if is_ending.load(Ordering::SeqCst) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

async fn saves_outlive_random_kills(_: Stage) -> Result<()> {
    let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let seed = given("WARMPOOL_TEST_SEED").map_or_else(|| u64::try_from(now), Ok)?;
    println!("seed {seed}");
    let mut random = seed;
    // A step of a linear congruential generator: which moments are hit matters, and not how even they are.
    let mut next = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    let mut daemon = Daemon::start(Settings::on_demand()).await?;
    let progress: Vec<Arc<Progress>> = (0..PROFILES).map(|_| Arc::default()).collect();
    for profile in 0..PROFILES {
        let made = daemon.api().post("/profiles", &json!({"name": format!("p{profile}"), "state": state(0)})).await?;
        ensure!(made.status == 201, "{}", made.text());
    }
    let rounds = given("WARMPOOL_TEST_ROUNDS").unwrap_or(ROUNDS);
    let is_ending = Arc::new(AtomicBool::new(false));
    for round in 0..rounds {
        is_ending.store(false, Ordering::SeqCst);
        let writers: Vec<_> = progress
            .iter()
            .enumerate()
            .map(|(profile, progress)| {
                tokio::spawn(write(daemon.api(), profile, Arc::clone(progress), Arc::clone(&is_ending)))
            })
            .collect();
        // The fault itself is a moment.
        tokio::time::sleep(Duration::from_millis(20 + next() % 400)).await;
        // The last kill comes when every writer has made a save, if only then.
        let has_saved = |progress: &Arc<Progress>| progress.saved.load(Ordering::Relaxed) > 0;
        let saved = if round + 1 == rounds {
            eventually!("each profile is saved", 60, progress.iter().all(has_saved))
        } else {
            Ok(())
        };
        is_ending.store(true, Ordering::SeqCst);
        daemon.kill9().await?;
        for writer in writers {
            writer.await?.with_context(|| format!("round {round}, seed {seed}"))?;
        }
        saved?;
        daemon.restart().await?;
        for (profile, progress) in progress.iter().enumerate() {
            let kept = daemon.api().get(&format!("/profiles/p{profile}/state")).await?.ok()?;
            let number = number_of(&kept).with_context(|| format!("round {round}, seed {seed}, p{profile}"))?;
            let (saved, sent) = (progress.saved.load(Ordering::Relaxed), progress.sent.load(Ordering::Relaxed));
            let is_whole = (saved..=sent).contains(&number);
            ensure!(
                is_whole,
                "round {round}, seed {seed}, p{profile}: {number} is kept; answered {saved}, sent {sent}"
            );
            // What came through without its answer counts from now on.
            progress.saved.store(number, Ordering::Relaxed);
        }
    }
    let saved: u64 = progress.iter().map(|progress| progress.saved.load(Ordering::Relaxed)).sum();
    println!("{saved} saves");
    daemon.assert_idle().await
}
