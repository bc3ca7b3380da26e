//! The log and the metrics.

mod order;
mod process;

use std::io::IsTerminal as _;
use std::time::Duration;

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::config::{Config, LogFormat};
use crate::pool::KindStatus;

/// Histograms keep what was recorded until it is folded into their buckets.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Why the log or the metrics do not start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// `log.filter` cannot be read.
    #[error("log.filter: {0}")]
    Filter(#[from] ParseError),
    /// This process has a log already.
    #[error("the log does not start: {0}")]
    Log(Box<dyn std::error::Error + Send + Sync>),
    /// This process has metrics already.
    #[error("the metrics do not start: {0}")]
    Metrics(#[from] BuildError),
}

/// Starts the log on standard error, in the form that the settings name.
///
/// # Errors
/// When the filter cannot be parsed, or a log is running already.
pub fn start_log(config: &Config) -> Result<(), TelemetryError> {
    let filter = EnvFilter::try_new(&config.log.filter)?;
    // Colour codes are for people at a terminal who have not switched them off, and not for files.
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colour).with_writer(std::io::stderr);
    let started = match config.log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(TelemetryError::Log)
}

/// Starts the metrics.
///
/// # Errors
/// When a recorder is running already.
pub fn start_metrics() -> Result<PrometheusHandle, TelemetryError> {
    let millis = [0.000_5, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 60.0];
    let seconds = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0];
    let lives = [1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0];
    let metric = |name: &str| Matcher::Full(name.to_owned());
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(metric("warmpool_session_create_seconds"), &millis)?
        .set_buckets_for_metric(metric("warmpool_worker_boot_seconds"), &seconds)?
        .set_buckets_for_metric(metric("warmpool_session_seconds"), &lives)?
        .set_buckets_for_metric(metric("warmpool_task_seconds"), &lives)?
        .install_recorder()?;
    describe_gauge!("warmpool_build_info", "Always 1; the label says which version runs");
    gauge!("warmpool_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    describe_counter!("warmpool_http_responses_total", "Answers to HTTP requests, by the class of their status");
    describe_counter!("warmpool_refusals_total", "Requests that got an error, by its code");
    describe_counter!("warmpool_connections_refused_total", "Connections above the limit of one address");
    describe_gauge!("warmpool_workers", "Workers by engine, mode, preset and state");
    describe_gauge!("warmpool_egress_upstream_up", "Whether an upstream proxy answers, by its name");
    describe_gauge!("warmpool_workers_target", "Warm workers wanted, by engine, mode and preset");
    describe_gauge!("warmpool_sessions_live", "Sessions that have a worker");
    describe_gauge!("warmpool_queue_length", "Callers that wait for a worker");
    describe_counter!("warmpool_sessions_ended_total", "Sessions that ended, by engine, status and reason");
    describe_histogram!(
        "warmpool_session_create_seconds",
        Unit::Seconds,
        "From the call to the reply, waiting included"
    );
    describe_gauge!("warmpool_tasks", "Tasks by state: queued, running, kept in the history");
    describe_gauge!("warmpool_disk_free_bytes", Unit::Bytes, "Free space where the data directory lies");
    describe_counter!("warmpool_tasks_ended_total", "Tasks that ended, by type and status");
    describe_counter!("warmpool_task_items_ended_total", "Items of fleets that ended, by status");
    describe_histogram!("warmpool_task_seconds", Unit::Seconds, "From a task's beginning to its end");
    describe_histogram!("warmpool_session_seconds", Unit::Seconds, "From a session's creation to its end");
    describe_histogram!("warmpool_worker_boot_seconds", Unit::Seconds, "From a worker's start until it is warm");
    describe_counter!("warmpool_worker_boot_failures_total", "Workers that never became warm, by engine");
    describe_counter!("warmpool_relay_bytes_total", Unit::Bytes, "Websocket bytes relayed; up is towards the browser");
    describe_counter!(
        "warmpool_egress_bytes_total",
        Unit::Bytes,
        "Bytes of pages, by direction as the browser sees it"
    );
    describe_counter!("warmpool_egress_refused_total", "Connections of pages that were refused, by reason");
    describe_counter!("warmpool_relay_stalled_total", "Sockets cut because their client stopped reading");
    Ok(handle)
}

/// The metrics as Prometheus' text, with those of this process.
pub(crate) fn render(metrics: &PrometheusHandle) -> String {
    order::ordered(&(metrics.render() + &process::render()))
}

/// Folds recorded values into buckets for as long as it runs.
pub async fn upkeep(handle: PrometheusHandle) {
    loop {
        tokio::time::sleep(UPKEEP_EVERY).await;
        handle.run_upkeep();
    }
}

/// Sets the gauges to what is so now.
#[expect(clippy::cast_precision_loss, reason = "counts of workers are small")]
pub fn gauge_pool(kinds: &[KindStatus], sessions: usize, waiting: usize) {
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

/// Sets the gauge of free disk space, where it is known.
#[expect(clippy::cast_precision_loss, reason = "a disk's size to sixteen digits will do")]
pub fn gauge_disk(free_bytes: Option<u64>) {
    if let Some(free) = free_bytes {
        gauge!("warmpool_disk_free_bytes").set(free as f64);
    }
}

/// Sets the gauges of tasks: how many wait, run, and are in the history.
#[expect(clippy::cast_precision_loss, reason = "counts of tasks are below 2^52")]
pub fn gauge_tasks((queued, running, kept): (usize, usize, usize)) {
    for (state, count) in [("queued", queued), ("running", running), ("kept", kept)] {
        gauge!("warmpool_tasks", "state" => state).set(count as f64);
    }
}
