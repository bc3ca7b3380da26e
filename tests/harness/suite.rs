//! Cases in groups. Cases run one at a time, because two browsers are already as much as a small machine can do; a
//! group's cases share one daemon unless they need one of their own.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use libtest_mimic::{Arguments, Failed, Trial};
use parking_lot::Mutex;
use tokio::runtime::Runtime;

use crate::daemon::{Daemon, Settings};
use crate::docker::host_address;
use crate::site::Site;

/// A case that takes longer has hung.
const CASE_LIMIT: Duration = Duration::from_secs(240);

/// How many lines of a daemon's log are shown for a failed case.
const LOG_LINES: usize = 80;

/// What a case is given.
#[derive(Clone)]
pub struct Stage {
    site: Arc<Site>,
    daemon: Option<Arc<Daemon>>,
}

impl Stage {
    /// The web site.
    #[must_use]
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// The group's daemon.
    ///
    /// # Errors
    /// The group has none.
    pub fn daemon(&self) -> Result<&Daemon> {
        self.daemon.as_deref().context("this group shares no daemon")
    }

    /// The site's address as the browsers of this daemon see it.
    pub async fn site_for(&self, _daemon: &Daemon) -> Result<String> {
        Ok(self.site.url(host_address()))
    }
}

type Run = Box<dyn Fn(Stage) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send>;

/// The cases of one file.
pub struct Group {
    name: &'static str,
    settings: Option<Settings>,
    cases: Vec<Case>,
}

struct Case {
    name: &'static str,
    quick: bool,
    run: Run,
}

impl Group {
    /// A module's group, whose cases share a daemon with these settings, or each start their own.
    #[must_use]
    pub fn new(module: &'static str, settings: Option<Settings>) -> Self {
        Self { name: module.rsplit("::").next().unwrap_or(module), settings, cases: Vec::new() }
    }

    /// Adds a case; `quick` ones also run when `WARMPOOL_TEST_QUICK` is set.
    #[must_use]
    pub fn case<F, R>(mut self, name: &'static str, quick: bool, run: F) -> Self
    where
        F: Fn(Stage) -> R + Send + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        self.cases.push(Case { name, quick, run: Box::new(move |stage| Box::pin(run(stage))) });
        self
    }
}

/// `group!(settings, quick: [a, b], full: [c])`: a group of the functions named, which has the module's name.
#[macro_export]
macro_rules! group {
    ($settings:expr, quick: [$($quick:ident),* $(,)?], full: [$($full:ident),* $(,)?] $(,)?) => {
        $crate::Group::new(module_path!(), $settings)
            $(.case(stringify!($quick), true, $quick))*
            $(.case(stringify!($full), false, $full))*
    };
}

async fn everything_is_given_back(stage: Stage) -> Result<()> {
    stage.daemon()?.assert_idle().await
}

struct Runner {
    runtime: Runtime,
    site: Arc<Site>,
    shared: Mutex<Option<(&'static str, Arc<Daemon>)>>,
    durations: Mutex<BTreeMap<&'static str, Duration>>,
}

/// Runs the groups as `cargo test` expects of a test binary: names to filter by, `--list`, `--exact`, `--skip`.
#[must_use]
pub fn run(groups: Vec<Group>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let runner = match Runner::start() {
        Ok(runner) => Arc::new(runner),
        Err(error) => {
            eprintln!("{error:?}");
            return ExitCode::FAILURE;
        }
    };
    let quick = std::env::var_os("WARMPOOL_TEST_QUICK").is_some_and(|value| !value.is_empty() && value != "0");
    let mut trials = Vec::new();
    for group in groups {
        // Whatever a group's cases did, its daemon gives everything back at the end.
        let group = if group.settings.is_some() {
            group.case("everything_is_given_back", true, everything_is_given_back)
        } else {
            group
        };
        for case in group.cases {
            let (runner, name, settings) = (Arc::clone(&runner), group.name, group.settings.clone());
            let title = format!("{name}::{}", case.name);
            let skipped = quick && !case.quick;
            let trial = Trial::test(title, move || runner.run_case(name, settings, &case.run));
            trials.push(trial.with_ignored_flag(skipped));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    runner.close(None);
    runner.print_durations();
    conclusion.exit_code()
}

impl Runner {
    fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let site = Arc::new(runtime.block_on(Site::start())?);
        Ok(Self { runtime, site, shared: Mutex::new(None), durations: Mutex::default() })
    }

    fn run_case(&self, group: &'static str, settings: Option<Settings>, run: &Run) -> Result<(), Failed> {
        let began = Instant::now();
        self.close(Some(group));
        forget_logs();
        let outcome = self.runtime.block_on(async {
            let daemon = match settings {
                Some(settings) => Some(self.shared_daemon(group, settings).await?),
                None => None,
            };
            let stage = Stage { site: Arc::clone(&self.site), daemon: daemon.clone() };
            let outcome = tokio::time::timeout(CASE_LIMIT, run(stage)).await.context("the case hung")?;
            if let Some(daemon) = daemon {
                daemon.log_is_shown();
                let tidied = daemon.end_all().await;
                return outcome.and(tidied);
            }
            outcome
        });
        *self.durations.lock().entry(group).or_default() += began.elapsed();
        outcome.map_err(|error| Failed::from(format!("{error:?}\n{}", shown_logs())))
    }

    async fn shared_daemon(&self, group: &'static str, settings: Settings) -> Result<Arc<Daemon>> {
        let running = self.shared.lock().clone();
        if let Some((_, daemon)) = running {
            return Ok(daemon);
        }
        let daemon = Arc::new(Daemon::start(settings).await.context("start the group's daemon")?);
        *self.shared.lock() = Some((group, Arc::clone(&daemon)));
        Ok(daemon)
    }

    /// The groups that ran, the longest first.
    fn print_durations(&self) {
        let mut durations: Vec<_> = self.durations.lock().clone().into_iter().collect();
        durations.sort_by_key(|(_, duration)| Reverse(*duration));
        for (group, duration) in durations {
            println!("{:8.1} s  {group}", duration.as_secs_f64());
        }
    }

    /// Ends the shared daemon unless it is this group's.
    fn close(&self, group: Option<&'static str>) {
        let mut shared = self.shared.lock();
        if shared.as_ref().is_some_and(|(owner, _)| Some(*owner) != group) {
            *shared = None;
        }
    }
}

static LOGS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn forget_logs() {
    LOGS.lock().clear();
}

/// A new file under `target/e2e-logs` whose end is shown if the running case fails.
pub fn new_log(kind: &str) -> Result<PathBuf> {
    let folder = target_dir().join("e2e-logs");
    std::fs::create_dir_all(&folder)?;
    let file = tempfile::Builder::new().prefix(&format!("{kind}-")).suffix(".log").tempfile_in(folder)?;
    let (_, path) = file.keep()?;
    show_log(path.clone());
    Ok(path)
}

pub(crate) fn show_log(path: PathBuf) {
    let mut logs = LOGS.lock();
    if !logs.contains(&path) {
        logs.push(path);
    }
}

fn shown_logs() -> String {
    let logs = LOGS.lock();
    let show = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        format!("--- end of {}\n{last}\n", path.display())
    };
    logs.iter().map(show).collect()
}

/// Cargo's target directory, found from where this test binary lies.
#[must_use]
pub fn target_dir() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    // <target>/<profile>/deps/e2e-<hash>
    own.ancestors().nth(3).map_or_else(std::env::temp_dir, PathBuf::from)
}

/// The program of a Cargo example of this crate, built with the tests.
pub fn example(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let profile = own.ancestors().nth(2).context("the profile's directory")?;
    Ok(profile.join("examples").join(name))
}
