//! The names and descriptions of the daemon's own metrics. They follow Prometheus' recommendations: base units, the unit in
//! the name, and `_total` at the end of counters only.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub(super) struct Metric {
    pub(super) name: &'static str,
    kind: Kind,
    about: &'static str,
}

enum Kind {
    Counter,
    Gauge,
    /// With these borders of its buckets, in seconds.
    Seconds(&'static [f64]),
}

/// For durations from milliseconds to a minute.
const WAITS: &[f64] = &[0.000_5, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 60.0];
/// Of starts.
const BOOTS: &[f64] = &[0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0];
/// For durations that clients decide.
const LIVES: &[f64] = &[1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0];
/// Of scenes.
const RENDERS: &[f64] = &[5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0];

const fn counter(name: &'static str, about: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, about }
}

const fn gauge(name: &'static str, about: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, about }
}

const fn seconds(name: &'static str, borders: &'static [f64], about: &'static str) -> Metric {
    Metric { name, kind: Kind::Seconds(borders), about }
}

pub(super) const METRICS: &[Metric] = &[
    counter("warmpool_ads_blocked_total", "Requests of pages that ad blocking refused"),
    gauge("warmpool_async_tasks", "Asynchronous tasks of the daemon's own that have not ended"),
    gauge("warmpool_build_info", "Always 1; the label says which version runs"),
    counter(
        "warmpool_captcha_cost_millionths_total",
        "What solvers say that they cost, in millionths of their currency",
    ),
    counter("warmpool_captcha_webhooks_total", "Messages that a challenge waits or ended, by result"),
    counter("warmpool_captchas_total", "Challenges of pages that ended, by kind, by whom, and outcome"),
    counter("warmpool_connections_refused_total", "Connections above the limit of one address"),
    counter("warmpool_connections_stalled_total", "Connections cut because their client took nothing of an answer"),
    gauge("warmpool_disk_free_bytes", "Free space where the data directory lies"),
    counter("warmpool_egress_bytes_total", "Bytes of pages, by direction as the browser sees it"),
    counter("warmpool_egress_refused_total", "Connections of pages that were refused, by reason"),
    gauge("warmpool_egress_upstream_up", "Whether an upstream proxy answers, by its name"),
    counter("warmpool_http_responses_total", "Answers to HTTP requests, by the class of their status"),
    counter("warmpool_live_bytes_total", "Bytes sent to viewers of live views"),
    gauge("warmpool_live_viewers", "Viewers of live views"),
    gauge("warmpool_mcp_sessions", "MCP sessions"),
    counter("warmpool_panics_total", "Panics of the daemon; each is in the log, and each is a fault of the daemon"),
    gauge("warmpool_queue_length", "Callers that wait for a worker"),
    counter("warmpool_refusals_total", "Requests that got an error, by its code"),
    counter("warmpool_relay_bytes_total", "Websocket bytes relayed; up is towards the browser"),
    counter("warmpool_relay_stalled_total", "Sockets cut because their client stopped reading"),
    seconds("warmpool_session_create_seconds", WAITS, "From the call to the reply, waiting included"),
    seconds("warmpool_session_seconds", LIVES, "From a session's creation to its end"),
    counter("warmpool_sessions_ended_total", "Sessions that ended, by engine, status and reason"),
    gauge("warmpool_sessions_live", "Sessions that have a worker"),
    gauge("warmpool_table_rows", "Rows of the daemon's tables in memory, by table"),
    counter("warmpool_task_items_ended_total", "Items of fleets that ended, by status"),
    seconds("warmpool_task_seconds", LIVES, "From a task's beginning to its end"),
    gauge("warmpool_tasks", "Tasks by state: queued, running, kept in the history"),
    counter("warmpool_tasks_ended_total", "Tasks that ended, by type and status"),
    gauge("warmpool_webhooks_pending", "Messages of webhooks that have not arrived yet"),
    counter("warmpool_webhooks_total", "Messages of webhooks that are done with, by event and result"),
    counter("warmpool_worker_boot_failures_total", "Workers that never became warm, by engine"),
    seconds("warmpool_worker_boot_seconds", BOOTS, "From a worker's start until it is warm"),
    counter("warmpool_worker_page_outs_total", "Workers whose memory was paged out, or was to be, by result"),
    counter("warmpool_worker_paged_out_bytes_total", "Memory of waiting workers that went to swap"),
    gauge("warmpool_workers", "Workers by engine, mode, preset and state"),
    gauge("warmpool_workers_target", "Warm workers wanted, by engine, mode and preset"),
    seconds("warmpool_world_render_seconds", RENDERS, "From a scene's turn to its end"),
    gauge("warmpool_worlds_queued", "Worlds that wait for their turn"),
    counter("warmpool_worlds_total", "Worlds that ended, by status"),
];

impl Metric {
    /// The borders of its buckets, if it has such.
    pub(super) const fn borders(&self) -> Option<&'static [f64]> {
        match self.kind {
            Kind::Seconds(borders) => Some(borders),
            Kind::Counter | Kind::Gauge => None,
        }
    }

    /// Describes the metric to the recorder.
    pub(super) fn describe(&self) {
        match (&self.kind, self.name.contains("_bytes")) {
            (Kind::Counter, true) => describe_counter!(self.name, Unit::Bytes, self.about),
            (Kind::Counter, false) => describe_counter!(self.name, self.about),
            (Kind::Gauge, true) => describe_gauge!(self.name, Unit::Bytes, self.about),
            (Kind::Gauge, false) => describe_gauge!(self.name, self.about),
            (Kind::Seconds(_), _) => describe_histogram!(self.name, Unit::Seconds, self.about),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The names of metrics in a text.
    fn named(text: &str) -> BTreeSet<&str> {
        let word = |letter: char| !(letter.is_ascii_alphanumeric() || letter == '_');
        text.split(word).filter(|word| word.starts_with("warmpool_")).collect()
    }

    fn known() -> BTreeSet<&'static str> {
        METRICS.iter().map(|metric| metric.name).collect()
    }

    fn sources(folder: &Path, text: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, text);
            } else if !path.ends_with("telemetry/table.rs") {
                text.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }

    #[test]
    fn the_table_has_what_the_code_records() {
        let mut text = String::new();
        for member in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap() {
            let source = member.unwrap().path().join("src");
            if source.join("lib.rs").exists() {
                sources(&source, &mut text);
            }
        }
        let mut recorded = BTreeSet::new();
        for kind in ["counter!(", "gauge!(", "histogram!("] {
            for (at, _) in text.match_indices(kind) {
                let name =
                    text[at + kind.len()..].trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
                recorded.extend(name.filter(|name| name.starts_with("warmpool_")));
            }
        }
        assert_eq!(recorded, known());
    }

    #[test]
    fn names_follow_the_recommendations_of_prometheus() {
        for Metric { name, kind, about } in METRICS {
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), matches!(kind, Kind::Counter), "{name}");
            assert_eq!(name.ends_with("_seconds"), matches!(kind, Kind::Seconds(_)), "{name}");
            for unit in ["milliseconds", "_ms", "minutes", "kilobytes", "percent", "counter", "gauge", "histogram"] {
                assert!(!name.contains(unit), "{name} has {unit}");
            }
            for suffix in ["_sum", "_count", "_bucket"] {
                assert!(!name.ends_with(suffix), "{name}");
            }
            assert!(!about.is_empty() && !about.ends_with('.'), "{name}: {about}");
        }
        let order: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert!(order.is_sorted(), "{order:?}");
    }

    #[test]
    fn the_guide_lists_every_metric() {
        let guide = include_str!("../../../docs/operations.md");
        let missing: Vec<_> = known().difference(&named(guide)).copied().collect::<Vec<_>>();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn dashboard_and_alerts_name_metrics_that_there_are() {
        let examples = [
            include_str!("../../../../examples/monitoring/grafana-dashboard.json"),
            include_str!("../../../../examples/monitoring/alerts.yml"),
        ];
        for text in examples {
            let names = named(text);
            assert!(names.len() > 5, "{names:?}");
            for name in names {
                let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
                assert!(known().contains(name) || base.is_some_and(|base| known().contains(base)), "{name}");
            }
        }
    }
}
