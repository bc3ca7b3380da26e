//! Cases in groups. A group's cases run one after another and share one daemon unless they need one of their own; a few
//! groups run side by side, each in a lane with a runtime and a web site of its own.

use std::any::Any;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Runtime;

use crate::daemon::{Daemon, Settings};
use crate::docker::host_address;
use crate::evidence::{self, Evidence};
use crate::site::Site;

/// After this time, a case counts as hung.
const CASE_LIMIT: Duration = Duration::from_secs(400);

/// The same for a case that makes a fault in many rounds, unless its group says more.
const ROW_LIMIT: Duration = Duration::from_secs(3600);

/// What took less is not listed at the end.
const WORTH_A_LINE: Duration = Duration::from_secs(5);

/// The most groups that run side by side.
const MOST_LANES: usize = 8;

/// The case that a group whose cases share a daemon ends with.
const LAST_CASE: &str = "everything_is_given_back";

/// What the reason of a failure begins with that only a daemon's log tells: no missed deadline of a browser explains it.
const IN_A_LOG: &str = "a daemon's log has:";

/// What stands before a daemon's log, where a case failed.
const LOG_HEAD: &str = "--- end of ";

/// How many lines of a daemon's log are shown for a failed case.
const LOG_LINES: usize = 80;

/// The arguments of a case.
#[derive(Clone)]
pub struct Stage {
    site: Arc<Site>,
    daemon: Option<Arc<Daemon>>,
    kept: Kept,
}

/// What a case left for the next ones of its group.
type Kept = Arc<Mutex<Vec<Box<dyn Any + Send>>>>;

impl Stage {
    /// The web site.
    #[must_use]
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// The group's daemon.
    /// Errors: the group has none.
    pub fn daemon(&self) -> Result<&Daemon> {
        self.daemon.as_deref().context("this group shares no daemon")
    }

    /// What an earlier case of the group has kept of this type. A case that fails keeps nothing.
    #[must_use]
    pub fn take<T: Any>(&self) -> Option<T> {
        let mut kept = self.kept.lock();
        let at = kept.iter().position(|thing| thing.is::<T>())?;
        kept.swap_remove(at).downcast().ok().map(|thing| *thing)
    }

    /// Leaves something that takes long to start, as it was at the start, for the group's next cases. It ends with the group.
    pub fn keep<T: Any + Send>(&self, thing: T) {
        self.kept.lock().push(Box::new(thing));
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
    row_limit: Duration,
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
        let name = module.rsplit("::").next().unwrap_or(module);
        Self { name, settings, row_limit: ROW_LIMIT, cases: Vec::new() }
    }

    /// The same where `scripts/faults` gives each case so many hours before it counts as hung.
    #[must_use]
    pub fn hours(self, hours: u64) -> Self {
        Self { row_limit: Duration::from_secs(3600 * hours), ..self }
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

    /// The names of its cases, each with the group's before it.
    pub fn titles(&self) -> impl Iterator<Item = String> {
        self.cases.iter().map(|case| format!("{}::{}", self.name, case.name))
    }

    /// The group with those of its cases whose titles are wanted; `None` if there are none.
    #[must_use]
    pub fn only(mut self, wanted: impl Fn(&str) -> bool) -> Option<Self> {
        self.cases.retain(|case| wanted(&format!("{}::{}", self.name, case.name)));
        (!self.cases.is_empty()).then_some(self)
    }
}

/// What came of a case.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its group and its name.
    pub title: String,
    /// How long it took, with a second try.
    pub took: Duration,
    /// Why it failed, without the logs.
    pub failure: Option<String>,
    /// What it noted.
    pub evidence: Evidence,
}

/// What came of a run.
pub struct Outcomes {
    /// What the process ends with.
    pub code: ExitCode,
    /// Every case that ran.
    pub cases: Vec<Ended>,
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

/// The group whose daemon this case checks at the end, if it is such a case.
#[must_use]
pub fn checks_group(title: &str) -> Option<&str> {
    title.strip_suffix(LAST_CASE)?.strip_suffix("::")
}

async fn everything_is_given_back(stage: Stage) -> Result<()> {
    stage.daemon()?.assert_idle().await
}

/// Runs one group at a time.
struct TestLane {
    runtime: Runtime,
    site: Arc<Site>,
}

/// The selected cases of a group, each with the channel for its outcome.
struct Batch {
    group: &'static str,
    settings: Option<Settings>,
    limit: Duration,
    cases: Vec<(&'static str, Run, Outcome)>,
}

/// What the cases of a group have in common.
#[derive(Clone, Copy)]
struct Shape<'a> {
    settings: Option<&'a Settings>,
    kept: &'a Kept,
    limit: Duration,
}

type Outcome = Sender<Result<(), Failed>>;
type Durations = BTreeMap<String, Duration>;

static ENDED: Mutex<Vec<Ended>> = Mutex::new(Vec::new());

/// Runs the groups as `cargo test` expects of a test binary: names to filter by, `--list`, `--exact`, `--skip`.
#[must_use]
pub fn run(groups: Vec<Group>) -> Outcomes {
    let mut arguments = Arguments::from_args();
    // It only waits for the lanes, and prints in the order of the groups.
    arguments.test_threads = Some(1);
    let quick = std::env::var_os("WARMPOOL_TEST_QUICK").is_some_and(|value| !value.is_empty() && value != "0");
    let (mut trials, mut batches) = (Vec::new(), VecDeque::new());
    for group in groups {
        // Whatever a group's cases did, its daemon gives everything back at the end.
        let group = if group.settings.is_some() {
            let quick = group.cases.iter().any(|case| case.quick);
            group.case(LAST_CASE, quick, everything_is_given_back)
        } else {
            group
        };
        let limit = case_limit(group.row_limit);
        let mut batch = Batch { group: group.name, settings: group.settings, limit, cases: Vec::new() };
        for case in group.cases {
            let (sender, outcome) = channel();
            let title = format!("{}::{}", group.name, case.name);
            let hung = || Err(Failed::from("its lane ended before it"));
            let trial = Trial::test(title, move || outcome.recv().unwrap_or_else(|_| hung()));
            let trial = trial.with_ignored_flag(quick && !case.quick);
            if !arguments.list && !arguments.is_filtered_out(&trial) && !arguments.is_ignored(&trial) {
                batch.cases.push((case.name, case.run, sender));
            }
            trials.push(trial);
        }
        if !batch.cases.is_empty() {
            batches.push_back(batch);
        }
    }
    let lanes = match (0..lanes()).map(TestLane::start).collect::<Result<Vec<TestLane>>>() {
        Ok(lanes) => lanes,
        Err(error) => {
            eprintln!("{error:?}");
            return Outcomes { code: ExitCode::FAILURE, cases: Vec::new() };
        }
    };
    let (batches, durations) = (Mutex::new(batches), Mutex::new(Durations::new()));
    let conclusion = std::thread::scope(|scope| {
        for (number, lane) in lanes.into_iter().enumerate() {
            let (batches, durations) = (&batches, &durations);
            scope.spawn(move || {
                LANE.set(number);
                loop {
                    let Some(batch) = batches.lock().pop_front() else { return };
                    let (group, began) = (batch.group, Instant::now());
                    let cases = lane.run(batch);
                    let mut durations = durations.lock();
                    durations.extend(cases);
                    durations.insert(group.to_owned(), began.elapsed());
                }
            });
        }
        libtest_mimic::run(&arguments, trials)
    });
    print_durations(durations.into_inner());
    print_unsteady();
    let cases = std::mem::take(&mut *ENDED.lock());
    print_skipped(&cases);
    print_failed(&cases);
    Outcomes { code: conclusion.exit_code(), cases }
}

/// How many groups run side by side, `WARMPOOL_TEST_LANES`. Most of a case is waiting, for a container above all; on two cores
/// three lanes take a tenth less time than two.
fn lanes() -> usize {
    std::env::var("WARMPOOL_TEST_LANES").ok().and_then(|lanes| lanes.parse().ok()).unwrap_or(3).clamp(1, MOST_LANES)
}

impl TestLane {
    fn start(number: usize) -> Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().on_thread_start(move || LANE.set(number));
        let runtime = builder.build()?;
        let site = Arc::new(runtime.block_on(Site::start())?);
        Ok(Self { runtime, site })
    }

    /// Runs a group; returns how long each of its cases took.
    fn run(&self, batch: Batch) -> Durations {
        let (mut shared, mut durations, kept) = (None, Durations::new(), Kept::default());
        let shape = Shape { settings: batch.settings.as_ref(), kept: &kept, limit: batch.limit };
        for (name, case, outcome) in batch.cases {
            let (title, began) = (format!("{}::{name}", batch.group), Instant::now());
            drop(evidence::take());
            let mut ended = self.try_case(shape, &mut shared, &case);
            // A new daemon has nothing to give back yet.
            if let (Err(first), true) = (&ended, name != LAST_CASE && tries_again())
                && !first.starts_with(IN_A_LOG)
            {
                let first = first.clone();
                // With another daemon, which nothing of the first try is in the way of. The first one is looked at before it goes.
                ended = match self.check(shared.take()) {
                    Ok(()) => self.try_case(shape, &mut shared, &case),
                    Err(fault) => {
                        Err(format!("{}\nso it did not run again; it had failed so:\n{first}", causes(&fault)))
                    }
                };
                if ended.is_ok() {
                    UNSTEADY.lock().push((title.clone(), first));
                }
            }
            if name == LAST_CASE && ended.is_ok() {
                ended = self.end(shared.take());
            }
            let reason = |error: &String| error.split(LOG_HEAD).next().unwrap_or_default().trim_end().to_owned();
            let failure = ended.as_ref().err().map(reason);
            let (named, took) = (title.clone(), began.elapsed());
            ENDED.lock().push(Ended { title: named, took, failure, evidence: evidence::take() });
            // Nobody receives it after the run was stopped.
            let _ = outcome.send(ended.map_err(Failed::from));
            durations.insert(title, began.elapsed());
        }
        durations
    }

    /// Ends the daemon of a case that failed.
    /// Errors: what a missed deadline of a browser does not explain: this daemon or one of the case's own has ended by itself or has
    /// panicked, or this one does not give back what sessions had.
    fn check(&self, shared: Option<Arc<Daemon>>) -> Result<()> {
        if let Some(daemon) = shared {
            daemon.log_is_shown();
            ensure!(daemon.is_running(), "the group's daemon has ended by itself");
            let idle = async {
                // What the case has begun, and may have been stopped before it ended that.
                daemon.cancel_tasks().await?;
                daemon.end_all().await?;
                // What needs no worker, such as a message that nobody takes, may go on for longer.
                daemon.assert_workers_idle().await
            };
            self.runtime.block_on(idle).context("the group's daemon after this case")?;
        }
        logs_have_no(is_fault)
    }

    /// Ends a group's daemon, which has given everything back.
    /// Errors: it does not end well, or leaves something.
    fn end(&self, shared: Option<Arc<Daemon>>) -> Result<(), String> {
        let Some(daemon) = shared else { return Ok(()) };
        let ended = self.runtime.block_on(async {
            let daemon = Arc::into_inner(daemon).context("a case has kept it")?;
            daemon.end().await
        });
        let ended = ended.context("the end of the group's daemon");
        ended.map_err(|error| format!("{}\n{}", causes(&error), shown_logs()))
    }

    fn try_case(&self, group: Shape, shared: &mut Option<Arc<Daemon>>, run: &Run) -> Result<(), String> {
        // A second try must not find what the first one has left there.
        self.site.forget();
        let run = AssertUnwindSafe(|| self.run_case(group, shared, run));
        catch_unwind(run).unwrap_or_else(|_| Err(format!("it panicked\n{}", shown_logs())))
    }

    fn run_case(
        &self,
        Shape { settings, kept, limit }: Shape,
        shared: &mut Option<Arc<Daemon>>,
        run: &Run,
    ) -> Result<(), String> {
        forget_logs();
        let outcome = self.runtime.block_on(async {
            if let (Some(settings), None) = (settings, &shared) {
                let daemon = Daemon::start(settings.clone()).await.context("start the group's daemon")?;
                *shared = Some(Arc::new(daemon));
            }
            let stage = Stage { site: Arc::clone(&self.site), daemon: shared.clone(), kept: Arc::clone(kept) };
            let outcome = tokio::time::timeout(limit, run(stage)).await.context("the case hung")?;
            // Its own daemons have ended by now.
            let outcome = outcome.and_then(|()| logs_have_no(|line| is_fault(line) || line.starts_with(ENDED_BADLY)));
            if let Some(daemon) = shared {
                daemon.log_is_shown();
                let tidied = daemon.end_all().await;
                return outcome.and(tidied);
            }
            outcome
        });
        outcome.map_err(|error| format!("{}\n{}", causes(&error), shown_logs()))
    }
}

/// An error with its causes, and without the backtrace that anyhow adds where `RUST_BACKTRACE` is set: a run's last lines are
/// for the reasons.
fn causes(error: &anyhow::Error) -> String {
    let mut lines = error.chain().map(ToString::to_string);
    let first = lines.next().unwrap_or_default();
    lines.fold(first, |text, cause| format!("{text}\n  caused by: {cause}"))
}

/// After which time a case counts as hung, in a group whose rows have this limit.
fn case_limit(row_limit: Duration) -> Duration {
    if std::env::var_os(evidence::ROWS).is_some() { row_limit } else { CASE_LIMIT }
}

/// Cases that failed first and passed then, and how they failed.
static UNSTEADY: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Whether a case that fails is run once more, `WARMPOOL_TEST_TRIES=2`. It still shows as unsteady at the end.
fn tries_again() -> bool {
    std::env::var_os("WARMPOOL_TEST_TRIES").is_some_and(|tries| tries == "2")
}

fn print_unsteady() {
    for (case, failure) in UNSTEADY.lock().iter() {
        println!("UNSTEADY: {case} passed when it ran again; it had failed so:\n{failure}\n");
    }
}

/// Says which cases could not do what they are for, in whole or in part, and why. They count as passed.
fn print_skipped(cases: &[Ended]) {
    let skipped = cases.iter().filter(|case| case.failure.is_none());
    let skipped: Vec<_> = skipped.filter_map(|case| Some((&case.title, case.evidence.cannot.as_ref()?))).collect();
    for (title, why) in &skipped {
        println!("SKIPPED: {title}: {why}");
    }
    if !skipped.is_empty() {
        println!("{} of {} cases were skipped, in whole or in part", skipped.len(), cases.len());
    }
}

/// Says once more why cases failed, without the logs: who sees only the end of a run's output sees this.
fn print_failed(cases: &[Ended]) {
    for Ended { title, failure, .. } in cases {
        if let Some(reason) = failure {
            println!("FAILED: {title}:\n{reason}\n");
        }
    }
}

/// The groups and the cases that took long, the longest first.
fn print_durations(durations: Durations) {
    let mut durations: Vec<_> = durations.into_iter().filter(|(_, duration)| *duration >= WORTH_A_LINE).collect();
    durations.sort_by_key(|(_, duration)| Reverse(*duration));
    for (name, duration) in durations {
        println!("{:8.1} s  {name}", duration.as_secs_f64());
    }
}

thread_local! {
    /// The lane that this thread belongs to.
    static LANE: Cell<usize> = const { Cell::new(0) };
}

/// The logs of the case that runs in each lane.
static LOGS: [Mutex<Vec<PathBuf>>; MOST_LANES] = [const { Mutex::new(Vec::new()) }; MOST_LANES];

/// The lane that this thread belongs to.
pub(crate) fn lane() -> usize {
    LANE.get()
}

fn logs() -> MutexGuard<'static, Vec<PathBuf>> {
    LOGS[LANE.get()].lock()
}

fn forget_logs() {
    logs().clear();
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
    let mut logs = logs();
    if !logs.contains(&path) {
        logs.push(path);
    }
}

/// What stands in a daemon's log where the harness finds that the daemon has ended before anybody asked it to.
pub(crate) const ENDED_BY_ITSELF: &str = "the daemon has ended by itself";
/// The same where it has not ended well when it was asked to. In a case that has failed, the case's own fault may be the reason.
pub(crate) const ENDED_BADLY: &str = "the daemon has not ended well";

/// Whether a line of a daemon's log tells of its panic or of an end by itself.
fn is_fault(line: &str) -> bool {
    line.starts_with(ENDED_BY_ITSELF) || (line.contains("telemetry::panics") && line.contains("panic: "))
}

/// The lines of a daemon's log that tell of its panics and of an end by itself.
pub(crate) fn faults(log: &Path) -> Vec<String> {
    lines_of(log, is_fault)
}

fn lines_of(log: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let text = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter(|line| is_wanted(line)).map(str::to_owned).collect()
}

/// Errors: the log of one of this case's daemons has such a line.
fn logs_have_no(is_bad: impl Fn(&str) -> bool) -> Result<()> {
    let lines: Vec<String> = logs().iter().flat_map(|log| lines_of(log, &is_bad)).collect();
    ensure!(lines.is_empty(), "{IN_A_LOG}\n{}", lines.join("\n"));
    Ok(())
}

fn shown_logs() -> String {
    let logs = logs();
    let show = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        format!("{LOG_HEAD}{}\n{last}\n", path.display())
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
