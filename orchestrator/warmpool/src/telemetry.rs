//! The log, the metrics and the traces.

mod order;
mod panics;
mod process;
mod recent;
mod table;
mod traces;
mod writer;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use metrics::gauge;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use opentelemetry_otlp::ExporterBuildError;
use tokio::runtime::Handle;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError, filter_fn};
use tracing_subscriber::prelude::*;
use tracing_subscriber::util::TryInitError;

pub(crate) use panics::report_panics;
pub(crate) use recent::{LogLine, Recent, lines};
use table::{METRICS, Metric};
pub(crate) use traces::{Traces, continue_trace};
use warmpool_api::status::KindStatus;
use warmpool_config::{Config, LogFormat};
use warmpool_core::trace::TRACES;
pub(crate) use writer::flush_log;

/// Histograms keep what was recorded until it is folded into their buckets.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Why the log or the metrics do not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TelemetryError {
    /// `log.filter` cannot be read.
    #[error("log.filter: {0}")]
    Filter(#[from] ParseError),
    /// This process has a log already.
    #[error("the log does not start: {0}")]
    Log(#[from] TryInitError),
    /// The log has no thread to be written by.
    #[error("the log does not start: {0}")]
    Writer(#[from] io::Error),
    /// The exporter of traces cannot be built.
    #[error("the traces do not start: {0}")]
    Traces(#[from] ExporterBuildError),
    /// This process has metrics already.
    #[error("the metrics do not start: {0}")]
    Metrics(#[from] BuildError),
}

/// Starts the log on standard error, in the form that the settings name, and the traces where they are wanted. Needs a
/// runtime of tokio. The last lines are lost where the process ends without [`flush_log`].
/// Errors: when the filter cannot be parsed, there is no thread for the log, or one is running already.
pub(crate) fn start_log(config: &Config) -> Result<Traces, TelemetryError> {
    let filter = EnvFilter::try_new(&config.log.filter)?.add_directive(format!("{TRACES}=off").parse()?);
    // The library tells of each MCP session and of what its client says; whoever looks for that names it.
    let filter = if config.log.filter.contains("rmcp") { filter } else { filter.add_directive("rmcp=warn".parse()?) };
    // Colour codes are for people at a terminal who have not switched them off, and not for files.
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let text = tracing_subscriber::fmt::layer().with_ansi(colour).with_writer(writer::start()?);
    // It would tell of a log that it cannot write by `eprintln!`, which panics of the same pipe that nobody reads any more.
    let text = text.log_internal_errors(false);
    let written = match config.log.format {
        LogFormat::Text => text.boxed(),
        LogFormat::Json => text.json().flatten_event(true).boxed(),
    };
    let kept = recent::RecentFilter.with_filter(filter_fn(recent::is_kept).with_max_level_hint(LevelFilter::INFO));
    let traces = Traces::start(config)?;
    let log = tracing_subscriber::registry().with(traces.layer()).with(written.with_filter(filter)).with(kept);
    log.try_init()?;
    Ok(traces)
}

/// Starts the metrics.
/// Errors: when a recorder is running already.
pub(crate) fn start_metrics() -> Result<PrometheusHandle, TelemetryError> {
    let mut builder = PrometheusBuilder::new();
    for metric in METRICS {
        if let Some(borders) = metric.borders() {
            builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), borders)?;
        }
    }
    let handle = builder.install_recorder()?;
    METRICS.iter().for_each(Metric::describe);
    gauge!("warmpool_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    // What nothing has counted yet is none, and not unknown.
    for name in
        ["warmpool_live_viewers", "warmpool_mcp_sessions", "warmpool_webhooks_pending", "warmpool_worlds_queued"]
    {
        gauge!(name).set(0.0);
    }
    Ok(handle)
}

/// The metrics as Prometheus' text, with those of this process.
pub(crate) fn render(metrics: &PrometheusHandle) -> String {
    order::ordered(&(metrics.render() + &process::render()))
}

/// Folds recorded values into buckets for as long as it runs.
pub(crate) async fn upkeep(handle: PrometheusHandle) {
    loop {
        tokio::time::sleep(UPKEEP_EVERY).await;
        handle.run_upkeep();
    }
}

/// Updates the gauges.
#[expect(clippy::cast_precision_loss, reason = "counts of workers are small")]
pub(crate) fn gauge_pool(kinds: &[KindStatus], sessions: usize, waiting: usize) {
    for kind in kinds {
        let (engine, mode) = (kind.engine.as_str(), kind.mode.as_str());
        let preset = kind.preset.clone().unwrap_or_default();
        for (state, count) in [
            ("starting", kind.counts.starting),
            ("ready", kind.counts.ready),
            ("leased", kind.counts.leased),
            ("removing", kind.counts.removing),
        ] {
            gauge!("warmpool_workers", "engine" => engine, "mode" => mode, "preset" => preset.clone(), "state" => state)
                .set(count as f64);
        }
        gauge!("warmpool_workers_target", "engine" => engine, "mode" => mode, "preset" => preset)
            .set(kind.counts.target as f64);
    }
    gauge!("warmpool_sessions_live").set(sessions as f64);
    gauge!("warmpool_queue_length").set(waiting as f64);
}

/// Sets the gauges of what must not grow with time: the daemon's own asynchronous tasks, and the rows of its tables, by table.
/// Needs a runtime of tokio.
#[expect(clippy::cast_precision_loss, reason = "counts of tasks and rows are below 2^52")]
pub(crate) fn gauge_growth(tables: impl IntoIterator<Item = (&'static str, usize)>) {
    gauge!("warmpool_async_tasks").set(Handle::current().metrics().num_alive_tasks() as f64);
    for (table, rows) in tables {
        gauge!("warmpool_table_rows", "table" => table).set(rows as f64);
    }
}

/// Sets the gauge of free disk space, where it is known.
#[expect(clippy::cast_precision_loss, reason = "a disk's size to sixteen digits will do")]
pub(crate) fn gauge_disk(free_bytes: Option<u64>) {
    if let Some(free) = free_bytes {
        gauge!("warmpool_disk_free_bytes").set(free as f64);
    }
}

/// Sets the gauges of tasks: how many wait, run, and are in the history.
#[expect(clippy::cast_precision_loss, reason = "counts of tasks are below 2^52")]
pub(crate) fn gauge_tasks((queued, running, kept): (usize, usize, usize)) {
    for (state, count) in [("queued", queued), ("running", running), ("kept", kept)] {
        gauge!("warmpool_tasks", "state" => state).set(count as f64);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};

    use super::*;
    use warmpool_config::{Flags, Host};

    /// Set in a process of a test's own: each has one log.
    const OTHER: &str = "PROCESS_WITH_A_LOG";
    const WENT_ON: i32 = 7;

    fn is_other() -> bool {
        std::env::var_os(OTHER).is_some()
    }

    /// Has this program do the test of this name in another process.
    fn other(test: &str) -> Command {
        let mut other = Command::new(std::env::current_exe().unwrap());
        other.args(["--exact", &format!("telemetry::tests::{test}"), "--nocapture"]).env(OTHER, "1");
        other
    }

    fn start() -> Traces {
        let host = Host { memory: 16 << 30, cores: 8, root: true, ..Host::default() };
        start_log(&Config::resolve(None, [], &Flags::default(), &host).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn a_log_that_nobody_reads_ends_nothing() {
        if is_other() {
            let _traces = start();
            tracing::error!("nobody reads this");
            flush_log();
            std::process::exit(WENT_ON);
        }
        let (reader, pipe) = std::io::pipe().unwrap();
        drop(reader);
        let mut other = other("a_log_that_nobody_reads_ends_nothing");
        other.stdout(Stdio::null()).stderr(pipe);
        assert_eq!(other.status().unwrap().code(), Some(WENT_ON));
    }

    #[tokio::test]
    async fn a_log_that_is_read_late_has_its_last_lines_and_says_what_it_dropped() {
        const LINES: usize = 4000;
        if is_other() {
            let _traces = start();
            let text = "x".repeat(1000);
            (0..LINES).for_each(|_| tracing::error!(text, "a line"));
            writeln!(io::stdout(), "went on").unwrap();
            // Each one waits for a short time, and returns at once where everything is written.
            (0..30).for_each(|_| flush_log());
            std::process::exit(WENT_ON);
        }
        let mut other = other("a_log_that_is_read_late_has_its_last_lines_and_says_what_it_dropped");
        let mut other = other.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(other.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("went on")), "no line waits for a reader");
        let log = io::read_to_string(other.stderr.take().unwrap()).unwrap();
        let told = log.lines().filter(|line| line.contains("lines of the log were dropped"));
        let dropped: usize = told.map(|line| line.rsplit_once("lines=").unwrap().1.parse::<usize>().unwrap()).sum();
        assert!(dropped > 0);
        assert_eq!(log.matches("a line").count() + dropped, LINES);
        assert_eq!(other.wait().unwrap().code(), Some(WENT_ON));
    }
}
